"""`certify`: how far a tree is from optimal, proved."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.clock import now
from opttree.runtime.interrupts import noted_interrupts
from opttree.statement import TreeProblem
from opttree.tables.chunks import Chunks
from opttree.tables.parts import Rows
from solvers.core.base import Solver
from solvers.core.driver import solve
from solvers.core.incumbent import noise_of, rounded
from solvers.core.result import Result, Termination, Trace, TraceRow
from solvers.exact import BlockBounds, BranchAndBound
from solvers.exact.blocks import block_bounds, total_weight, words
from solvers.exact.lagrangian import Lagrangian
from solvers.exact.monotone import MonotoneDP
from solvers.exact.oblique import ObliqueBranchAndBound
from solvers.exact.parts import bounds_of_parts, check_classes
from solvers.exact.relaxed import is_relaxable, share_of
from solvers.mip import MIP

BOUND_RTOL, BOUND_ATOL = 1e-6, 1e-12  # relative to the objective, to one leaf's: differences that are rounding
MANY = 20_000  # rows from which on "auto" takes blocks, at depth 3 and more under a time limit
OF_CONSTRAINTS = (MonotoneDP, Lagrangian)  # go before `MIP`, and may end without a proof
ENDED = (Termination.OPTIMAL, Termination.TIME_LIMIT, Termination.INTERRUPTED)
WITHOUT = " The bound is of the statement without its side constraints."
SEARCHED = "The search for a bound has ended."  # of blocks of rows
NOT_OF_IT = " The tree has oblique splits: {} is a bound for axis-aligned trees, and it does not hold for this tree."


def certify(
    problem: TreeProblem,
    tree: Any,
    *,
    time_limit: float | None = None,
    blocks: int | Literal["auto"] = "auto",
    chunks: Chunks | Rows | None = None,
    relax: bool = False,
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> Result:
    """Certify how far a tree, from any solver, is from optimal.

    `BranchAndBound` bounds axis-aligned trees over all thresholds, started from ``tree``; many rows are divided into
    blocks, see `BlockBounds`. `ObliqueBranchAndBound` bounds oblique trees of at most two levels, of some dozens of
    rows and a few features. `MIP` takes the statements that these do not, and every one for which options of `MIP` are
    given.

    Side constraints only raise the optimum. So a bound of the statement without them comes first where `BranchAndBound`
    takes that alone, in up to three tenths of the time. Then `MonotoneDP` or `Lagrangian`, and `MIP`, bound the trees
    that satisfy them, unless the first bound was enough. The verdict has the largest bound, and says so where it is the
    first.

    Parameters
    ----------
    problem : TreeProblem
        The statement.
    tree : Tree, Result, estimator or scikit-learn tree
        A feasible tree in the units of the problem, or what holds one: an estimator must be fitted to the problem's own
        X and y, as a problem of the data as given, ``TreeProblem(X, y, ...)``, has them. An oblique tree of a problem
        of axis-aligned splits is no competitor of theirs: the verdict says so, and there is no bound.
    time_limit : float or None, default None
        Seconds, > 0; None: to the proof, however long it takes.
    blocks : int or "auto", default "auto"
        Number of blocks of rows. "auto": at depth 3 and more, with more than 20,000 rows and a time limit, as few as
        the time allows; else 1.
    chunks : Chunks, opttree.Rows or None, default None
        Labelled rows in place of those of ``problem``, which then only states the options and the classes: each chunk
        or part is a block, and few are in memory at a time. Parts of `opttree.Rows` are searched where they are, on a
        cluster too.
    relax : bool, default False
        Whether to bound the statement without its side constraints alone, see above.
    random_state : int or numpy.random.Generator or None, default None
        Seed or generator of the blocks of rows.
    **options : object
        Options of `BranchAndBound`, of `BlockBounds` if there are blocks, or of `MIP`.

    Returns
    -------
    Result
        Objective of ``tree``, proved bound and gap; OPTIMAL if ``tree`` itself is proved optimal. The message says if a
        better tree was found (`solve` with ``start=tree`` returns it), and to which trees the bound applies.

    Raises
    ------
    ValueError
        For an infeasible tree, or options that the solver does not have.

    See Also
    --------
    BranchAndBound, BlockBounds, ObliqueBranchAndBound : what it runs

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import CartInit, certify, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=3, splits="axis")
    >>> verdict = certify(problem, solve(problem, CartInit()).tree)
    >>> verdict.gap > 0, verdict.bound <= verdict.objective
    (True, True)
    """
    tree = as_tree(tree, "tree")
    if blocks != "auto" and not (isinstance(blocks, (int, np.integer)) and blocks >= 1):
        raise ValueError(f"blocks must be 'auto' or an integer >= 1; got {blocks!r}")
    if time_limit is not None and (isinstance(time_limit, bool) or not time_limit > 0):
        raise ValueError(f"time_limit must be > 0 seconds or None; got {time_limit!r}")
    if chunks is not None and blocks != "auto":
        raise ValueError(f"blocks must be 'auto' beside chunks, which are the blocks; got {blocks!r}")
    oblique = problem.splits == "axis" and not tree.is_axis_aligned
    stated = problem.restated(splits="oblique") if oblique and chunks is None else problem
    most = options.get("max_splits")
    reason = (stated if chunks is None else stated.restated(min_leaf=1)).violation(tree)
    if reason is None and most is not None and tree.n_branches > most:
        reason = f"the tree has {tree.n_branches} splits; max_splits allows {most}"
    if reason is not None:
        raise ValueError(f"tree must be feasible; {reason}")
    if relax and problem.constraints:
        free = problem.restated(constraints=())
        given: dict[str, Any] = {"time_limit": time_limit, "blocks": blocks, "chunks": chunks}
        result = certify(free, tree, **given, random_state=random_state, **options)
        return replace(result, message=result.message + WITHOUT)
    if chunks is not None:
        return _of_chunks(problem, tree, chunks, time_limit, **_known(options, BlockBounds))
    solver = _solver(problem, time_limit, blocks, options)
    if oblique:
        result = solve(problem, solver, time_limit=time_limit, random_state=random_state)
        return _of_oblique(stated, tree, result)
    began, found = now(), _relaxed(problem, tree, time_limit, options, random_state)
    for each in (solver, MIP()) if isinstance(solver, OF_CONSTRAINTS) else (solver,):
        if found is not None and found.termination in ENDED:
            break
        start = tree if found is None else found.tree
        left = None if time_limit is None else max(time_limit - (now() - began), 1e-3)
        result = solve(problem, each, start=start, time_limit=left, random_state=random_state)
        found = result if found is None else _joined(found, result)
    assert found is not None
    return _verdict(problem, tree, found)


def _known(options: dict[str, Any], kind: type[Solver]) -> dict[str, Any]:
    """Return the options; ValueError for one that the solver lacks, or that `certify` sets itself."""
    names = [f.name for f in fields(kind) if f.name not in ("time_limit", "blocks")]  # type: ignore[arg-type]
    for name, value in options.items():
        if name not in names:
            raise ValueError(f"options must be those of {kind.__name__}, {', '.join(names)}; got {name}={value!r}")
    return options


def _solver(
    problem: TreeProblem, time_limit: float | None, blocks: int | Literal["auto"], options: dict[str, Any]
) -> Solver:
    """The solver that bounds the trees of ``problem``."""
    ours = {f.name for f in fields(BranchAndBound)}
    of_mip = {f.name for f in fields(MIP)} - ours
    reason = BranchAndBound().refusal(problem)
    sides = ObliqueBranchAndBound()
    if sides.refusal(problem) is None and problem.n_features > 2 and not set(options) & of_mip:
        if blocks not in ("auto", 1):
            raise ValueError(f"blocks must be 1 for oblique splits; got {blocks}")
        return ObliqueBranchAndBound(**_known(options, ObliqueBranchAndBound))
    if reason is not None and problem.constraints and not options and blocks in ("auto", 1):
        able: list[Solver] = [kind() for kind in OF_CONSTRAINTS if kind().refusal(problem) is None]
        if able:
            return able[0]
    if reason is not None or set(options) & of_mip:
        if blocks not in ("auto", 1):
            why = "options of MIP are given" if reason is None else reason
            raise ValueError(f"blocks must be 1 where branch and bound does not apply ({why}); got {blocks}")
        return MIP(**_known(options, MIP))
    many = problem.depth > 2 and problem.n_samples > MANY and time_limit is not None
    if blocks == 1 or (blocks == "auto" and not many):
        return BranchAndBound(**_known(options, BranchAndBound))
    return BlockBounds(blocks=blocks, time_limit=time_limit, **_known(options, BlockBounds))


def _relaxed(
    problem: TreeProblem,
    tree: Tree,
    time_limit: float | None,
    options: dict[str, Any],
    random_state: int | np.random.Generator | None,
) -> Result | None:
    """The bound of the statement without its side constraints, and the better of ``tree`` and the tree that was found
    if this satisfies them; None where branch and bound does not take it, or an option is one of other solvers.
    """
    free, known = problem.restated(constraints=()), {f.name for f in fields(BranchAndBound)}
    if not is_relaxable(problem) or set(options) - known:
        return None
    share = share_of(time_limit)
    result = solve(free, _solver(free, share, "auto", options), start=tree, time_limit=share, random_state=random_state)
    rivals = [tree] if problem.violation(result.tree) else [tree, result.tree]
    best = min(rivals, key=problem.objective)
    objective, message = problem.objective(best), result.message + WITHOUT
    rows = [TraceRow(result.seconds, 0, "without constraints", objective, objective, result.bound)]
    found = replace(result, tree=best, objective=objective, message=message, n_steps=1, trace=Trace(rows))
    ended = result.termination is Termination.INTERRUPTED
    return _ended(found, Termination.INTERRUPTED if ended else Termination.LOCALLY_OPTIMAL)


def _ended(result: Result, otherwise: Termination) -> Result:
    """The result as OPTIMAL if its bound says so, else as ``otherwise``."""
    proved = result.bound is not None and result.objective - result.bound <= BOUND_RTOL * abs(result.objective)
    termination = Termination.OPTIMAL if proved else otherwise
    message = termination.value + result.message.removeprefix(result.termination.value)
    return replace(result, termination=termination, message=message)


def _joined(first: Result, second: Result) -> Result:
    """The second run, which started from the first one's tree, with the larger bound of the two."""

    def larger(bound: float | None) -> float | None:
        return max((b for b in (first.bound, bound) if b is not None), default=None)

    rows, steps, bound = list(first.trace), first.n_steps, larger(second.bound)
    for row in second.trace:
        rows.append(row._replace(seconds=first.seconds + row.seconds, step=steps + row.step, bound=larger(row.bound)))
    relaxed = first.message.endswith(WITHOUT) and bound != second.bound
    joined = replace(
        second,
        bound=bound,
        message=second.message + (WITHOUT if relaxed else ""),
        n_steps=steps + second.n_steps,
        n_evaluations=first.n_evaluations + second.n_evaluations,
        seconds=first.seconds + second.seconds,
        trace=Trace(rows),
    )
    return _ended(joined, second.termination)


def _verdict(problem: TreeProblem, tree: Tree, result: Result) -> Result:
    """The result of the solver as one on ``tree``."""
    objective, termination, bound = problem.objective(tree), result.termination, result.bound
    start = SEARCHED if termination is Termination.ITERATION_LIMIT else termination.value
    free = problem.restated(constraints=())
    leaf = free.objective(free.best_constant())
    slack = BOUND_RTOL * abs(objective) + BOUND_ATOL * leaf
    if bound is not None and objective < bound - slack:
        termination, bound = Termination.LOCALLY_OPTIMAL, None
        start = f"{termination.value} The tree is better than any of the candidates, so it is not made of them."
    elif result.objective < objective - BOUND_RTOL * abs(objective) - rounded(objective, leaf, noise_of(problem)):
        start = f"Not optimal: a better tree has the objective {result.objective:.9g}."
        termination = Termination.LOCALLY_OPTIMAL if termination is Termination.OPTIMAL else termination
    message = start + result.message.removeprefix(result.termination.value)
    bound = None if bound is None else min(bound, objective)
    return replace(result, tree=tree, objective=objective, bound=bound, termination=termination, message=message)


def _of_oblique(stated: TreeProblem, tree: Tree, result: Result) -> Result:
    """The ``result`` of axis-aligned trees as one on an oblique tree, to which its bound does not apply."""
    bound = "none" if result.bound is None else f"{result.bound:.9g}"
    message = Termination.LOCALLY_OPTIMAL.value + NOT_OF_IT.format(bound)
    objective, ended = stated.objective(tree), Termination.LOCALLY_OPTIMAL
    return replace(result, tree=tree, objective=objective, bound=None, termination=ended, message=message)


def _of_chunks(
    problem: TreeProblem,
    tree: Tree,
    chunks: Chunks | Rows,
    time_limit: float | None,
    max_splits: int | None = None,
    n_jobs: int | None = None,
) -> Result:
    """`certify` by blocks that are read as they are needed; the first pass has the tree's objective."""
    if (reason := BranchAndBound().refusal(problem)) is not None:
        raise ValueError(f"chunks need a statement for branch and bound; {reason}")
    if not isinstance(chunks, (Chunks, Rows)):
        raise ValueError(f"chunks must be opttree.chunks.Chunks, opttree.Rows or None; got {type(chunks).__name__}")
    if n_jobs is not None and isinstance(chunks, Rows):
        raise ValueError(f"n_jobs must be None beside opttree.Rows, which have one of their own; got {n_jobs!r}")
    began = now()
    until = math.inf if time_limit is None else began + time_limit
    penalty, solver = problem.penalty(tree), BlockBounds(max_splits=max_splits, time_limit=time_limit, n_jobs=n_jobs)
    if isinstance(chunks, Rows):
        with noted_interrupts() as interrupted:
            found = bounds_of_parts(problem, tree, chunks, until, max_splits, penalty, interrupted)
        cut = Termination.INTERRUPTED if interrupted() else Termination.TIME_LIMIT
        return _of_blocks(tree, found.loss + penalty, found.bound, found.blocks, found.ended, cut, found.trace, solver)
    weight = loss = 0.0
    counts = np.zeros(tree.n_nodes, np.int64)
    number = 0
    for X, y in chunks.labelled():
        check_classes(problem, y)
        part = problem.with_rows(X, y, min_leaf=1)
        weight, number = weight + total_weight(part), number + 1
        loss += total_weight(part) * part.mean_loss(tree)
        counts += np.bincount(part.leaves_of(tree), minlength=tree.n_nodes)
    if number == 0:
        raise ValueError("chunks must hold at least one row; got none")
    if tree.n_branches and np.any((counts > 0) & (counts < problem.min_leaf)):
        fewest = counts[counts > 0].min()
        raise ValueError(f"tree must be feasible; it has a leaf with {fewest} rows, fewer than {problem.min_leaf}")
    objective = loss / weight + penalty
    rows = [TraceRow(now() - began, 0, "start", objective, objective, 0.0)]
    parts = (problem.with_rows(X, y, min_leaf=1) for X, y in chunks.labelled())
    bound = ended = late = 0.0
    with noted_interrupts() as interrupted:
        for share, block_bound, why in block_bounds(parts, number, tree, until, max_splits, n_jobs):
            bound += share / weight * block_bound
            ended += why is Termination.OPTIMAL
            late += why is Termination.TIME_LIMIT
            rows.append(TraceRow(now() - began, len(rows), "chunks", objective, objective, bound))
            if interrupted():
                break
    cut = Termination.TIME_LIMIT if late else Termination.STALLED
    if interrupted():
        cut = Termination.INTERRUPTED
    return _of_blocks(tree, objective, bound, number, ended, cut, rows, solver)


def _of_blocks(
    tree: Tree,
    objective: float,
    bound: float,
    number: int,
    ended: float,
    cut: Termination,
    rows: list[TraceRow],
    solver: BlockBounds,
) -> Result:
    """The verdict on ``tree`` by blocks of rows, of which ``ended`` were searched to the end; ``cut`` says why others
    were not.
    """
    bound = min(bound, objective)
    termination = Termination.ITERATION_LIMIT if ended == number else cut
    if objective - bound <= BOUND_RTOL * abs(objective):
        termination = Termination.OPTIMAL
    return Result(
        tree,
        objective,
        bound,
        termination,
        (SEARCHED if termination is Termination.ITERATION_LIMIT else termination.value) + words(number, ended),
        len(rows),
        0,
        rows[-1].seconds,
        Trace(rows),
        repr(replace(solver, blocks=number)),
    )
