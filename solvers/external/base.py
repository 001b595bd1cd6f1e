"""`External`: a solver that is a single call of another library, in a process of its own."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Generator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes.thresholds import between
from opttree.model.tree import Tree
from opttree.runtime.clock import seconds_left
from opttree.statement import SplitPrice, TreeProblem
from solvers.core.base import LastCall, Solver, Step, Steps
from solvers.core.process import Process
from solvers.core.result import Termination, Verdict
from solvers.external.worker import COMMAND
from solvers.initial.cart import of_ranks

MOST_CUTS = 4000  # columns of a table of binary features
LONGEST, POLL = 1e6, 0.01  # seconds
GRACE = 1.0  # seconds that a library is given after its time limit, before its process is ended

Found = tuple[Any, bool, float]  # a tree as nested (feature, threshold, left, right), None: a leaf; proved; nodes


@dataclass(frozen=True)
class External(Solver):
    """Another library's search for axis-aligned trees of constant leaves.

    The library runs in a process of its own, which is ended if it does not keep to the time limit. It reports nothing
    until it ends. Its splits are taken over and the leaves fitted anew, so that the tree is judged by this problem's
    objective; a proof is the library's own word.

    See Also
    --------
    opttree.race : runs them beside ours

    Examples
    --------
    >>> from solvers import external
    >>> [kind.library for kind in (external.CART, external.ConTree, external.OSRT)]
    ['sklearn', 'pycontree', 'osrt']
    """

    library: ClassVar[str]
    losses: ClassVar[tuple[str, ...]] = ("zero_one",)
    binary: ClassVar[bool] = False  # whether it takes binary features, one for each threshold
    weighted: ClassVar[bool] = False
    priced: ClassVar[bool] = False  # whether it takes a price per split
    smallest_leaf: ClassVar[bool] = True  # whether it takes a smallest leaf

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes axis-aligned splits, constant leaves, one output; weights, prices and losses of the class; few
        thresholds for binary features.
        """
        if problem.splits != "axis" or problem.leaves != "constant" or problem.loss not in self.losses:
            return f"{self.library} takes axis-aligned splits, constant leaves and loss {' or '.join(self.losses)}"
        if problem.n_outputs > 1 and not problem.is_classification:
            return f"{self.library} takes one output; there are {problem.n_outputs}"
        if any(not self.priced or not isinstance(q, SplitPrice) for q in problem.penalties):
            return f"{self.library} takes no penalties" + (" but SplitPrice" if self.priced else "")
        assert problem.sample_weight is not None  # set by TreeProblem
        if not self.weighted and np.ptp(problem.sample_weight) > 0.0:
            return f"{self.library} takes rows of equal weight"
        if self.binary and (cuts := sum(np.unique(column).size - 1 for column in problem.X.T)) > MOST_CUTS:
            return f"{self.library} takes binary features, and there are {cuts} thresholds, more than {MOST_CUTS}"
        if importlib.util.find_spec(self.library) is None:
            return f"{self.library} is not installed"
        return f"{self.library} has no smallest leaf" if problem.min_leaf > 1 and not self.smallest_leaf else None

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The best constant, and the library's tree."""
        yield Step(problem.best_constant(), phase="constant")
        if problem.depth == 0 or np.ptp(problem.X, axis=0).max() == 0.0 or np.ptp(problem.Y[:, 0]) == 0.0:
            yield Step(problem.best_constant(), bound=problem.objective(problem.best_constant()), phase="constant")
            return Verdict(Termination.OPTIMAL, " No split lowers the loss.")
        seconds = max(min(seconds_left(), LONGEST), 1e-3)
        X, cuts = binary_features(problem.X) if self.binary else (problem.ranks.T.astype(np.float64), np.zeros((0, 2)))
        seed = int(rng.integers(2**31))
        answer = yield from _answer(self, (stated(problem), X, seconds, seed), seconds)
        if answer is None:
            return Verdict(Termination.TIME_LIMIT, f" ({self.library} did not end, and was ended.)")
        nested, proved, nodes = answer
        tree = flat(problem, nested, cuts)
        tree = problem.trim(problem.fit_leaves(tree if self.binary else of_ranks(tree, problem.X)))
        bound = problem.objective(tree) if proved else None
        info = {"nodes": nodes} if math.isfinite(nodes) else {}
        yield Step(tree, bound=bound, phase=self.library, info=info)
        if proved:
            return Termination.OPTIMAL
        return Termination.TIME_LIMIT if seconds < LONGEST and seconds_left() <= 0.0 else Termination.ITERATION_LIMIT

    def search(self, problem: Stated, X: NDArray[Any], seconds: float, seed: int) -> Found:
        """Run the library, in the other process.

        Parameters
        ----------
        problem : Stated
            What the library is told of the problem, without features.
        X : ndarray of shape (n, p)
            Binary features, or the ranks of values, which any library tells apart.
        seconds : float
            Time limit.
        seed : int
            Random seed.

        Returns
        -------
        tree : nested tuple or None
            The splits of the tree; None for a leaf.
        proved : bool
            Whether the library calls the tree optimal.
        nodes : float
            Nodes of the search, or nan.
        """
        raise NotImplementedError(f"{type(self).__name__} must define search")


@dataclass(frozen=True)
class Stated:
    """What a library is told of the problem: (n,) outputs or class codes, (n,) weights and the options."""

    y: NDArray[np.float64]
    w: NDArray[np.float64]
    depth: int
    min_leaf: int
    loss: str
    split_price: float

    @property
    def labels(self) -> NDArray[np.intc]:
        """(n,) class codes."""
        return self.y.astype(np.intc)


def stated(problem: TreeProblem) -> Stated:
    """``problem`` without its features."""
    y, price = problem.Y[:, 0], problem.split_price
    return Stated(y, problem.w, problem.depth, problem.min_leaf, str(problem.loss), price)


def _answer(solver: External, arguments: tuple[Any, ...], seconds: float) -> Generator[Step | None, Any, Found | None]:
    """What ``solver.search(*arguments)`` returns in a worker; None if the time is up before."""
    process = Process.idle(*COMMAND)
    try:
        process.send((solver, arguments))
        while not process.answers_within(POLL):
            if seconds_left() < -GRACE:
                process.end()
                return None
            yield None
    except LastCall:
        if not process.answers_within(GRACE):
            process.end()
            return None
    except BaseException:
        process.end()
        raise
    error, value = process.answer()
    process.release()
    if error is not None:
        raise RuntimeError(error)
    return value


def binary_features(X: NDArray[np.float64]) -> tuple[NDArray[np.intc], NDArray[np.float64]]:
    """A column ``x_j <= t`` for every threshold between neighbouring values, and (columns, 2) j and t of each."""
    cuts = [(j, between(a, b)) for j in range(X.shape[1]) for a, b in pairwise(np.unique(X[:, j]))]
    table = np.array(cuts).reshape(-1, 2)
    return (X[:, table[:, 0].astype(int)] <= table[:, 1]).astype(np.intc), table


def flat(problem: TreeProblem, nested: Any, cuts: NDArray[np.float64]) -> Tree:
    """The `Tree` of nested splits; of binary features, whose ``cuts`` are given, the left child is that of 1."""
    links: list[list[int]] = [[-1, -1]]
    A, b, pending = [np.zeros(problem.n_features)], [0.0], [(0, nested)]
    for at, node in pending:
        if node is None:
            continue
        feature, threshold, left, right = node
        if len(cuts):
            feature, threshold = int(cuts[feature, 0]), cuts[feature, 1]
        A[at][feature], b[at] = 1.0, float(threshold)
        links[at] = [len(links), len(links) + 1]
        for child in (left, right):
            pending.append((len(links), child))
            links.append([-1, -1])
            A.append(np.zeros(problem.n_features))
            b.append(0.0)
    values = np.zeros((len(links), problem.n_outputs))
    first, second = np.array(links).T
    return Tree.from_links(first, second, np.array(A), np.array(b), values, problem.classes)
