"""Bounds over tables in parts: each part is a block of rows, searched where it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.clock import now
from opttree.statement import TreeProblem
from opttree.tables.parts import Rows
from solvers.core.result import Termination, TraceRow
from solvers.exact.blocks import bounded, total_weight

AGAIN = 1.5  # times its seconds of the round before that a part must have for another search


class Bounds(NamedTuple):
    """Of all parts: the tree's loss, a lower bound on the objective of any tree, the trace, the number of parts with
    rows that count, and of those whose search ended.
    """

    loss: float
    bound: float
    trace: list[TraceRow]
    blocks: int
    ended: int


class Told(NamedTuple):
    """What the parts are told: the statement, on no rows that matter, the tree, and limits of a search."""

    problem: TreeProblem
    tree: Tree
    max_splits: int | None
    seconds: float | None


def bounds_of_parts(
    problem: TreeProblem,
    tree: Tree,
    rows: Rows,
    until: float,
    max_splits: int | None,
    penalty: float,
    interrupted: Callable[[], bool],
) -> Bounds:
    """The tree's loss, in one round, and the weighted mean of the parts' bounds: in a round in which each part has the
    same time, and in further ones for those whose search did not end, while there is time.

    Raises
    ------
    ValueError
        For a tree with a leaf of fewer rows than the statement allows, and for parts that hold no row.
    """
    began = now()
    told = Told(problem.sample(np.array([np.argmax(problem.w)]), min_leaf=1), tree, max_splits, None)
    weight, counts, losses = [], np.zeros(tree.n_nodes, np.int64), 0.0
    for own, loss, rows_of in rows.each(_loss, told):
        weight.append(own)
        losses += loss
        counts += rows_of
    total = sum(weight)
    if not total > 0.0:
        raise ValueError(f"weights must be positive for some rows; got a sum of {total:g}")
    if tree.n_branches and np.any((counts > 0) & (counts < problem.min_leaf)):
        fewest = counts[counts > 0].min()
        raise ValueError(f"tree must be feasible; it has a leaf with {fewest} rows, fewer than {problem.min_leaf}")
    objective = losses / total + penalty
    trace = [TraceRow(now() - began, 0, "start", objective, objective, 0.0)]
    found = np.full(len(rows), -np.inf)
    share = np.array(weight) / total
    open_parts = np.flatnonzero(share > 0.0)
    blocks = len(open_parts)
    before = 0.0

    def mean() -> float:
        """The bound of all rows; a part that was not searched adds a loss of nothing."""
        return float(share @ np.where(np.isfinite(found), found, 0.0))

    while len(open_parts):
        left = until - now()
        some = rows.only(open_parts)
        seconds = math.inf if left == math.inf else max(left / some.turns, 1e-3)
        if before and seconds < AGAIN * before:
            break
        before = seconds
        told = told._replace(seconds=None if seconds == math.inf else seconds)
        still = set(open_parts.tolist())
        for number, (bound, proved) in zip(open_parts, some.each(_bound, told), strict=True):
            found[number] = max(found[number], bound)
            if proved:
                still.discard(int(number))
            trace.append(TraceRow(now() - began, len(trace), "parts", objective, objective, mean()))
            if interrupted():
                break
        open_parts = np.array(sorted(still), np.intp)
        if interrupted():
            break
    return Bounds(losses / total, mean(), trace, blocks, blocks - len(open_parts))


def check_classes(problem: TreeProblem, y: NDArray[Any]) -> None:
    """ValueError for a label that the problem does not have."""
    if problem.classes is not None and not (known := np.isin(y, problem.classes)).all():
        other = y[~known][0]
        raise ValueError(f"y must hold classes of the problem, {problem.classes.tolist()}; got {other!r}")


def _stated(part: Any, told: Told) -> TreeProblem | None:
    """The statement on the rows of a part; None where none has weight."""
    X, names = part.X, told.problem.feature_names
    if hasattr(X, "columns") and names is not None:
        lacking = [name for name in names if name not in X.columns]
        if lacking:
            raise ValueError(f"chunks must have the problem's columns, {', '.join(names)}; {lacking[0]!r} is not there")
        X = X[list(names)]
    X = X.to_numpy(np.float64) if hasattr(X, "to_numpy") else np.asarray(X, np.float64)
    y = part.y.ravel() if part.y.ndim == 2 and part.y.shape[1] == 1 else part.y
    if not len(y) or (part.weight is not None and not np.any(part.weight)):
        return None
    check_classes(told.problem, y)
    return told.problem.with_rows(X, y, part.weight)


def _loss(part: Any, number: int, told: Told) -> tuple[float, float, NDArray[np.int64]]:
    problem, nodes = _stated(part, told), told.tree.n_nodes
    if problem is None:
        return 0.0, 0.0, np.zeros(nodes, np.int64)
    weight = total_weight(problem)
    counts = np.bincount(problem.leaves_of(told.tree), minlength=nodes)
    return weight, weight * problem.mean_loss(told.tree), counts


def _bound(part: Any, number: int, told: Told) -> tuple[float, bool]:
    problem = _stated(part, told)
    assert problem is not None  # only parts with weight are asked
    _weight, bound, why = bounded((told.tree, told.max_splits), (problem, told.seconds))
    proved = why is Termination.OPTIMAL
    return bound, proved
