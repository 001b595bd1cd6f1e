"""Greedy smooth splits: small whole trees, grown one below the other."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator as Rng

from opttree import devices
from opttree.problems import SmoothTreeProblem, TreeProblem
from opttree.tree import Tree
from solvers.gradient import Adam, geometric, run_all
from solvers.initial.base import Growth, Initial
from solvers.side_by_side import start_all


@dataclass(frozen=True)
class GreedyInit(Initial):
    """At each node a smooth tree of ``levels`` levels is annealed on the node's rows from random hyperplanes, with
    constant leaves in closed form; its splits are taken and its leaves become the next nodes.

    Parameters
    ----------
    levels : levels grown at a time; 1 is node by node.
    n_starts : random starts per node; the best hard tree wins.
    epochs : length of an anneal.
    scales : first and last gate scale of the anneal (GET eq. 4), in units of the inverse scale of the features.
    optimizer : driver of the anneals.
    device : "cpu", "gpu" or "auto" (see `opttree.devices.on_gpu`): where all nodes of a block of levels are annealed.
    """

    levels: int = 1
    n_starts: int = 2
    epochs: int = 200
    scales: tuple[float, float] = (1.0, 20.0)
    optimizer: Adam = field(default_factory=lambda: Adam(learning_rate=0.05))
    device: str = "cpu"

    def __post_init__(self) -> None:
        devices.check_device(self.device)
        for name in ("levels", "n_starts", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1; got {getattr(self, name)}")
        if not 0.0 < self.scales[0] <= self.scales[1]:
            raise ValueError(f"scales must be positive and in increasing order; got {self.scales}")

    def supports(self, problem: TreeProblem) -> str | None:
        """What the smooth formulation says; a depth of 0 is the constant tree."""
        reason = None if problem.depth == 0 else SmoothTreeProblem.refusal(problem)
        return reason or SmoothTreeProblem.device_refusal(problem, self.device, self.n_starts, dtype="float32")

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """Yields the tree, its leaves fitted, after each block of levels, and None while it works."""
        root = Tree.constant(np.zeros(problem.n_outputs), problem.n_features, problem.classes)
        tree = problem.fit_leaves(root, leaves="constant")
        if problem.depth == 0:
            yield problem.fit_leaves(tree)
        for top in range(0, problem.depth, self.levels):
            levels = min(self.levels, problem.depth - top)
            leaf = tree.apply(problem.X)
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
            descents = start_all(self.optimizer, every, thetas, scales, rngs, closed_leaves=True)
            for _ in run_all(descents):
                yield None
            thetas = [theta for descent in descents for theta in descent.thetas]
            subtrees = {}
            for i, (node, smooth) in enumerate(zip(nodes, smooths, strict=True)):
                part = smooth.problem
                starts = thetas[i * self.n_starts :][: self.n_starts]
                found = [part.trim(part.fit_leaves(smooth.harden(theta))) for theta in starts]
                subtrees[node] = min(found, key=part.mean_loss)
                yield None
            tree = tree.graft(subtrees)
            yield problem.fit_leaves(problem.enforce_min_leaf(tree))
