"""`SubtreePolish`: Algorithm 2 of the paper."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng

from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem
from opttree.runtime.devices import Device
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from solvers.core.base import Solver, Step, Steps
from solvers.core.result import Termination
from solvers.descent import Adam
from solvers.get.anneal import Anneal, Annealing
from solvers.initial import CartInit


@dataclass(frozen=True)
class SubtreePolish(Solver):
    """For each branch node in turn, anneal the subtree below it on the rows that reach it, warm-started; keep the
    result if it lowers the objective.

    Nodes of one level share no rows and are annealed in parallel. Usable after any solver: ``Chain(TAO(),
    SubtreePolish())``; without a start tree it polishes CART's tree.

    See Also
    --------
    GET : which ends with it
    opttree.SmoothTreeProblem : what it minimises for each subtree

    References
    ----------
    "Can a single tree outperform an entire forest?", under review (2024).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, Chain, SubtreePolish, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> polished = solve(problem, Chain(TAO(), SubtreePolish()), random_state=0)
    >>> polished.objective <= solve(problem, TAO(), random_state=0).objective
    True
    """

    wants_zero = True

    anneal: Anneal = option(
        factory=lambda: Anneal(epochs=150, scales=(5.0, 30.0), optimizer=Adam(0.02)), doc="Options of the anneals."
    )
    passes: int = option(1, "Passes over the tree.", least=1)
    n_starts: int = option(
        1,
        """Anneals of each subtree, all from the current one; they differ where gate scales are drawn at random
        (``Anneal.scale_ranges``).""",
        least=1,
    )
    unit_splits: bool = option(
        True,
        """Start with hyperplanes of unit length, so that all gates are equally steep; the paper does not.""",
    )
    dtype: Literal["float32", "float64"] = option("float32", '"float32" or "float64".')
    device: Device = option("cpu", '"cpu", "gpu" or "auto", see `opttree.runtime.devices.on_gpu`.')
    levels: int | None = option(None, "Levels from the root whose subtrees are annealed; None: all.", least=1)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what the smooth formulation takes."""
        reason = None if problem.depth == 0 else SmoothTreeProblem.refusal(problem)
        return reason or SmoothTreeProblem.device_refusal(problem, self.device, dtype=self.dtype)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """A step is the tree after polishing one level."""
        if start is None:
            start = CartInit().build(problem, rng)
        yield Step(start, phase="start")
        tree = self.anneal.fit_leaves(problem, start)
        yield Step(tree, phase="leaves")
        for _ in range(self.passes):
            for depth in range(min(problem.depth, self.levels or problem.depth)):
                polished = yield from self._polish_level(problem, tree, depth, rng)
                yield Step(polished, phase=f"level {depth}")
                # the parts add up to the whole, except for other kinds of penalties
                if problem.objective(polished) <= problem.objective(tree):
                    tree = polished
        return Termination.ITERATION_LIMIT

    def _polish_level(self, problem: TreeProblem, tree: Tree, depth: int, rng: Rng) -> Generator[None, None, Tree]:
        """Polish the subtrees below all nodes of one depth; leaves above the depth limit may be split."""
        top = np.arange(tree.n_nodes)  # each node's ancestor at that depth
        for t in range(tree.n_branches):
            if tree.node_depth[t] >= depth:
                top[tree.children[t]] = top[t]
        owner = top[problem.leaves_of(tree)]
        device = SmoothTreeProblem.placed(problem, self.device, dtype=self.dtype)
        nodes, smooths, best = [], [], []
        for node in map(int, np.flatnonzero(tree.node_depth == depth)):
            rows = np.flatnonzero(owner == node)
            if rows.size < max(2, 2 * problem.min_leaf) or np.ptp(problem.Y[rows], axis=0).max() <= 1e-12:
                continue
            smooth = SmoothTreeProblem(problem.restrict(rows, problem.depth - depth), dtype=self.dtype, device=device)
            current = tree.subtree(node)
            nodes.append(node)
            smooths.append(smooth)
            best.append((smooth.problem.objective(current), current))
            yield
        starts = [i for i in range(len(nodes)) for _ in range(self.n_starts)]
        rngs = rng.spawn(len(starts))
        started = [smooths[i] for i in starts]
        thetas = [smooths[i].soften(best[i][1], rngs[k]) for k, i in enumerate(starts)]
        if self.unit_splits:
            thetas = [smooth.unit_splits(theta) for smooth, theta in zip(started, thetas, strict=True)]
        for trees in Annealing(self.anneal, started, thetas, rngs).descend():
            for i, candidate in zip(starts, trees or (), strict=False):
                objective = smooths[i].problem.objective(candidate)
                if objective < best[i][0]:
                    best[i] = objective, candidate
            yield None
        return tree.graft({node: subtree for node, (_q, subtree) in zip(nodes, best, strict=True)})
