"""Greedy smooth splits: the tree is grown by small annealed subtrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Rng

from opttree.problems import SmoothTreeProblem
from opttree.runtime.devices import Device
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from solvers.descent import Adam, geometric, run_all
from solvers.initial.base import Growth, Initial


@dataclass(frozen=True)
class GreedyInit(Initial):
    """At each node, anneal a smooth tree of ``levels`` levels on the node's rows, from random hyperplanes and with
    constant leaves in closed form; keep its splits, and go on at its leaves.

    See Also
    --------
    GET : has it in its portfolio

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import GreedyInit, TAO, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> start = solve(problem, GreedyInit(), random_state=0)
    >>> solve(problem, TAO(), start=start.tree, random_state=0).objective <= start.objective
    True
    """

    wants_zero = True

    levels: int = option(1, "Levels grown at a time; 1: node by node.", least=1)
    n_starts: int = option(2, "Random starts per node; the best hard tree is used.", least=1)
    epochs: int = option(200, "Epochs of an anneal.", least=1)
    scales: tuple[float, float] = option(
        (1.0, 20.0),
        "First and last gate scale of the anneal (GET eq. 4), in units of the inverse scale of the features.",
        above=0,
        test=lambda scales: scales[0] <= scales[1],
        words="positive and in increasing order",
    )
    optimizer: Adam = option(factory=lambda: Adam(learning_rate=0.05), doc="Optimizer of the anneals.")
    device: Device = option(
        "cpu",
        """"cpu", "gpu" or "auto" (see `opttree.runtime.devices.on_gpu`): device on which all nodes of a block of
        levels are annealed.""",
    )

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what the smooth formulation takes; depth 0 gives the constant tree."""
        reason = None if problem.depth == 0 else SmoothTreeProblem.refusal(problem)
        return reason or SmoothTreeProblem.device_refusal(problem, self.device, self.n_starts, dtype="float32")

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """Yields the tree with fitted leaves after each block of levels, and None in between."""
        tree = problem.best_constant()
        if problem.depth == 0:
            yield problem.fit_leaves(tree)
        for top in range(0, problem.depth, self.levels):
            levels = min(self.levels, problem.depth - top)
            leaf = problem.leaves_of(tree)
            device = SmoothTreeProblem.placed(problem, self.device, self.n_starts, dtype="float32")
            nodes, smooths, thetas, rngs = [], [], [], []
            counts = np.bincount(leaf, minlength=tree.n_nodes)
            for node in map(int, np.flatnonzero(counts >= max(2, 2 * problem.min_leaf))):
                rows = np.flatnonzero(leaf == node)
                if np.ptp(problem.Y[rows], axis=0).max() <= 1e-12:
                    continue
                part = problem.sample(rows, depth=levels, leaves="constant", penalties=())
                smooth = SmoothTreeProblem(part, dtype="float32", device=device)
                for _ in range(self.n_starts):
                    thetas.append(smooth.random_theta(rng))
                    rngs.append(rng.spawn(1)[0])
                nodes.append(node)
                smooths.append(smooth)
                yield None
            every = [smooth for smooth in smooths for _ in range(self.n_starts)]
            scales = [geometric(*self.scales, self.epochs)] * len(every)
            descents = self.optimizer.start(every, thetas, scales, rngs, closed_leaves=True)
            for _ in run_all(descents):
                yield None
            thetas = [theta for descent in descents for theta in descent.thetas]
            subtrees = {}
            for i, (node, smooth) in enumerate(zip(nodes, smooths, strict=True)):
                part = smooth.problem
                starts = thetas[i * self.n_starts :][: self.n_starts]
                candidates = [part.trim(part.fit_leaves(smooth.harden(theta))) for theta in starts]
                subtrees[node] = min(candidates, key=part.mean_loss)
                yield None
            tree = tree.graft(subtrees)
            yield problem.fit_leaves(problem.enforce_min_leaf(tree))
