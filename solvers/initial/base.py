"""The interface of initial trees, and top-down growth node by node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes.sorting import stable_order
from opttree.kernels.passes.thresholds import between
from opttree.kernels.routing import goes_left
from opttree.model.tree import Tree
from opttree.runtime.clock import is_late
from opttree.statement import TreeProblem
from solvers.core.base import LastCall, Solver, Step, Steps, changed_steps
from solvers.core.result import Termination

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Split = tuple[Floats, float] | tuple[Floats, float, NDArray[np.bool_] | None]
SplitNode = Callable[[Rows, int], Generator[None, None, Split | None]]
Growth = Generator[Tree | None, None, None]


class Initial(Solver):
    """Builds a tree with fitted leaves."""

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """Grow a tree.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        rng : numpy.random.Generator
            Random numbers.

        Yields
        ------
        Tree or None
            A feasible tree of the problem last, possibly unfinished trees before it, and None in between.
        """
        raise NotImplementedError(f"{type(self).__name__} must define growth")

    def build(self, problem: TreeProblem, rng: Rng) -> Tree:
        """Grow a tree to its end.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        Tree
            The finished tree.
        """
        *_, tree = self.growth(problem, rng)
        assert tree is not None  # growth ends with a tree
        return tree

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """One step per tree, usually a single one. A start tree is ignored."""
        yield from changed_steps(self.growth(problem, rng), lambda tree: Step(tree, phase="initial"))
        return Termination.ITERATION_LIMIT


def grow(problem: TreeProblem, split: SplitNode, leaves: str | None = None) -> Generator[None, None, Tree]:
    """Grow a tree top-down, see `grown`, and fit its leaves, "constant" or "linear", by default as in the problem."""
    tree, _leaf = yield from grown(problem, split)
    return fitted(problem, tree, leaves)


def fitted(problem: TreeProblem, tree: Tree, leaves: str | None = None) -> Tree:
    """A grown tree without leaves that are too small, and with the best of its kind of leaves."""
    return problem.fit_leaves(problem.enforce_min_leaf(tree), leaves=leaves)


def grown(problem: TreeProblem, split: SplitNode) -> Generator[None, None, tuple[Tree, NDArray[np.integer]]]:
    """A tree without fitted leaves, and the number of the leaf of every row: ``split(rows, depth)`` returns ``(a, b)``,
    with the rows that go left where these are not those of the hyperplane, or None for a leaf.

    Nodes are split breadth-first, if they are above the depth limit and hold at least two rows of unequal y. At the
    last call, or well after the time limit, those that are not yet split become leaves.
    """
    left, right, A, b = [-1], [-1], [np.zeros(problem.n_features)], [0.0]
    place = np.zeros(problem.n_samples, np.intp)
    queue: deque[tuple[int, Rows, int]] = deque([(0, np.arange(problem.n_samples, dtype=np.int32), 0)])

    def split_all() -> Generator[None, None, None]:
        while queue and not is_late():
            node, rows, depth = queue.popleft()
            settled = depth == problem.depth or rows.size < 2 or np.ptp(problem.Y[rows], axis=0).max() <= 1e-12
            yield
            hyperplane = None if settled else (yield from split(rows, depth))
            if hyperplane is None:
                continue
            A[node], b[node], *given = hyperplane
            on_left = given[0] if given else None
            if on_left is None:
                on_left = goes_left(problem.X, A[node], b[node], rows)
            left[node], right[node] = len(left), len(left) + 1
            for side in (on_left, ~on_left):
                queue.append((len(left), rows[side], depth + 1))
                place[rows[side]] = len(left)
                left.append(-1)
                right.append(-1)
                A.append(np.zeros(problem.n_features))
                b.append(0.0)

    with suppress(LastCall):
        yield from split_all()
    values = np.zeros((len(left), problem.n_outputs))
    values[:, 0] = np.arange(len(left))
    tree = Tree.from_links(np.array(left), np.array(right), np.array(A), np.array(b), values, problem.classes)
    number = np.zeros(len(left), np.int32)
    number[tree.values[:, 0].astype(np.intp)] = np.arange(tree.n_leaves)
    return replace(tree, values=np.zeros_like(tree.values)), number[place]


def weighted_quantile(values: Floats, weights: Floats, share: float = 0.5) -> float:
    """A cut below which values have about ``share`` of the weight: the midpoint of two different neighbours."""
    order = stable_order(values)
    cumulative = np.cumsum(weights[order])
    k = int(np.searchsorted(cumulative, share * cumulative[-1] * (1 - 1e-12)))
    ordered = values[order]
    middle = ordered[k]
    larger, smaller = ordered[ordered > middle], ordered[ordered < middle]
    neighbour = larger[0] if larger.size else smaller[-1] if smaller.size else middle
    return float(between(min(middle, neighbour), max(middle, neighbour)))
