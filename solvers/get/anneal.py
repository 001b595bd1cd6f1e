"""Anneals of the gate scale: the inner loop of Algorithm 1, many starts at a time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.problems import SmoothTreeProblem, TreeProblem
from opttree.tree import Tree
from solvers.base import LastCall
from solvers.gradient import Adam, Driver, geometric, run_all
from solvers.side_by_side import start_all

Floats = NDArray[np.floating]
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Anneal:
    """Minimise the smooth loss under gates that grow steeper.

    Parameters
    ----------
    epochs : epochs of the anneal; with ``scale_ranges``, of each scale (the paper's N_epoch).
    scales : first and last gate scale, in units of the inverse scale of the features: for standardised ones.
    scale_ranges : None: the scale grows geometrically along the epochs. Or intervals, from each of which a scale is
        drawn; one descent for each, in increasing order, from the last one's splits with the leaves refitted by hard
        routing (Algorithm 1; appendix F: [5, 25] and [50, 150], for features in [0, 1]).
    optimizer : `Adam` or another driver of `solvers.gradient`.
    closed_leaves : keep constant leaves at their best for the gates instead of moving them by gradients.
    min_linear_rows : fewest rows of a linear leaf of the hard tree, see `TreeProblem.fit_leaves`; smaller ones stay
        constant. 1: all are linear, as in the paper.
    clip : bound linear leaves to the range that y and the fitted values of their rows have in common.
    refit : refit the leaves of the hard tree (line 12 of Algorithm 1). False keeps those that the soft gates made, of
        however few rows: linear leaves that have seen the rows around theirs extrapolate better.
    """

    epochs: int = 400
    scales: tuple[float, float] = (1.0, 20.0)
    scale_ranges: tuple[tuple[float, float], ...] | None = None
    optimizer: Driver = field(default_factory=lambda: Adam(learning_rate=0.05))
    closed_leaves: bool = True
    refit: bool = True
    min_linear_rows: int | None = None
    clip: bool = True

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs must be >= 1; got {self.epochs}")
        if self.scale_ranges is not None and not self.scale_ranges:
            raise ValueError("scale_ranges must hold an interval or be None; got none")
        for low, high in (self.scales, *(self.scale_ranges or ())):
            if not 0.0 < low <= high:
                raise ValueError(f"scales must be positive and in increasing order; got {(low, high)}")

    def run(
        self, smooths: Sequence[SmoothTreeProblem], thetas: Sequence[Floats], rngs: Sequence[Rng]
    ) -> Generator[list[Tree] | None, None, list[Floats]]:
        """Anneal each theta on its problem; yields their hard trees after each descent and returns the last thetas."""
        ladders = [
            sorted(rng.uniform(low, high) for low, high in self.scale_ranges) if self.scale_ranges else [None]
            for rng in rngs
        ]
        thetas = list(thetas)
        for stage in range(len(ladders[0]) if ladders else 0):
            alphas = [ladder[stage] for ladder in ladders]
            scales = [geometric(*self.scales, self.epochs) if a is None else np.full(self.epochs, a) for a in alphas]
            descents = start_all(self.optimizer, smooths, thetas, scales, rngs, closed_leaves=self.closed_leaves)
            try:
                yield from run_all(descents)
            except (LastCall, KeyboardInterrupt):
                stand = [theta for descent in descents for theta in descent.thetas]
                hard = [self._hard(s, theta)[1] for s, theta in zip(smooths, stand, strict=True)]
                yield [self._trimmed(s.problem, tree) for s, tree in zip(smooths, hard, strict=True)]
                raise
            ends = [theta for descent in descents for theta in descent.thetas]
            thetas, trees = [], []
            for smooth, end in zip(smooths, ends, strict=True):
                theta, tree = self._hard(smooth, end)
                thetas.append(theta)
                trees.append(self._trimmed(smooth.problem, tree))
                yield None
            yield trees
        return thetas

    def _hard(self, smooth: SmoothTreeProblem, theta: Floats) -> tuple[Floats, Tree]:
        """The hard tree of theta, complete, and theta with its leaves where they were refitted."""
        tree = smooth.harden(theta)
        if not self.refit:
            return theta, smooth.problem.bound_leaves(tree) if self.clip else tree
        tree = self.fit_leaves(smooth.problem, tree)
        return smooth.with_leaves(theta, tree), tree

    def fit_leaves(self, problem: TreeProblem, tree: Tree) -> Tree:
        """``tree`` with the best leaves for its splits, as these options want them."""
        tree = problem.fit_leaves(tree, min_rows=self.min_linear_rows)
        return tree if self.clip else replace(tree, lower=None, upper=None)

    def _trimmed(self, problem: TreeProblem, tree: Tree) -> Tree:
        """``tree`` without dead leaves and those under ``min_leaf``; if rows had to move, leaves are fitted again."""
        live = tree.prune_dead(problem.X)
        kept = problem.enforce_min_leaf(live)
        if kept.n_leaves == live.n_leaves:
            return kept
        if self.refit:
            return self.fit_leaves(problem, kept)
        return problem.bound_leaves(kept) if self.clip else kept


def check_smooth(dtype: str, eps: float) -> None:
    """ValueError for options that `SmoothTreeProblem` would refuse later."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {list(DTYPES)}; got {dtype!r}")
    if not (np.isfinite(eps) and eps >= 0.0):
        raise ValueError(f"eps must be finite and >= 0; got {eps}")
