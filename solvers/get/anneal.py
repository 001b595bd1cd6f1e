"""Annealing of the gate scale, the inner loop of Algorithm 1, for many starts at a time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem
from opttree.runtime.clock import now
from opttree.runtime.options import Checked, option
from opttree.statement import TreeProblem
from solvers.descent import Adam, FirstOrder, geometric, run_all

Floats = NDArray[np.floating]
GRACE = 0.1  # seconds after the end of a run in which trees are made of further starts
SCALES = "positive and in increasing order"


def increasing(pair: tuple[float, float]) -> bool:
    """Whether the first number is not above the second."""
    return pair[0] <= pair[1]


@dataclass(frozen=True)
class Anneal(Checked):
    """Minimise the smooth loss while the gates become steeper.

    See Also
    --------
    GET : anneals from many starts
    opttree.SmoothTreeProblem : what is minimised at one scale

    References
    ----------
    "Can a single tree outperform an entire forest?", under review (2024).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import GET, Anneal, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> annealed = solve(problem, GET(n_starts=2, anneal=Anneal(epochs=200)), random_state=0)
    >>> annealed.objective < 0.47          # of the variance
    True
    """

    epochs: int = option(400, "Epochs of the anneal; with ``scale_ranges``, per scale (the paper's N_epoch).", least=1)
    scales: tuple[float, float] = option(
        (1.0, 20.0),
        "First and last gate scale; the defaults are for standardised features.",
        above=0,
        test=increasing,
        words=SCALES,
    )
    scale_ranges: tuple[tuple[float, float], ...] | None = option(
        None,
        """None: the scale grows geometrically over the epochs. Or intervals from each of which one scale is drawn: one
        descent per scale, in increasing order, each from the splits of the one before with leaves refitted under hard
        routing (Algorithm 1; appendix F: [5, 25] and [50, 150], for features in [0, 1]).""",
        above=0,
        test=lambda ranges: ranges is None or (len(ranges) > 0 and all(map(increasing, ranges))),
        words=f"None, or intervals that are {SCALES}",
    )
    optimizer: FirstOrder = option(
        factory=lambda: Adam(learning_rate=0.05),
        doc="`Adam`, `QHAdam` or `LBFGS`.",
        words="an instance of Adam, QHAdam or LBFGS",
    )
    closed_leaves: bool = option(
        True, "Keep constant leaves optimal for the gates in closed form, instead of gradient steps."
    )
    refit: bool = option(
        True,
        """Refit the leaves of the hard tree (line 12 of Algorithm 1). False keeps the leaves fitted under the soft
        gates, however few rows they have: linear leaves fitted to rows around their own extrapolate better.""",
    )
    min_linear_rows: int | None = option(
        None,
        """Fewest rows of a linear leaf of the hard tree, see `TreeProblem.fit_leaves`; smaller leaves stay constant. 1:
        all leaves are linear, as in the paper.""",
        least=1,
    )
    clip: bool = option(
        True, """Clip linear leaves to the intersection of the ranges of y and of the fitted values on their rows."""
    )
    checks: int = option(
        1,
        """Hard trees that are made in each descent, at equal distances: the one of the lowest loss counts, and the next
        descent begins from it. 1: the last, as printed.""",
        least=1,
    )

    def hard(self, smooth: SmoothTreeProblem, theta: Floats) -> tuple[Floats, Tree]:
        """Hard tree of a theta.

        Parameters
        ----------
        smooth : SmoothTreeProblem
            The smooth problem.
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        theta : ndarray of shape (size,)
            Theta with the leaves of the hard tree, if they were refitted.
        tree : Tree
            The complete hard tree.
        """
        tree = smooth.harden(theta)
        if not self.refit:
            return theta, smooth.problem.bound_leaves(tree) if self.clip else tree
        tree = self.fit_leaves(smooth.problem, tree)
        return smooth.with_leaves(theta, tree), tree

    def fit_leaves(self, problem: TreeProblem, tree: Tree) -> Tree:
        """Fit optimal leaves to the splits of a tree, under these options.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        tree : Tree
            The tree.

        Returns
        -------
        Tree
            The tree with other leaves.
        """
        tree = problem.fit_leaves(tree, min_rows=self.min_linear_rows)
        return tree if self.clip else replace(tree, lower=None, upper=None)

    def trimmed(self, problem: TreeProblem, tree: Tree) -> Tree:
        """Remove dead leaves and leaves below ``min_leaf``; leaves are refitted if rows had to move.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        tree : Tree
            The tree.

        Returns
        -------
        Tree
            The smaller tree.
        """
        live = problem.live(tree)
        kept = problem.enforce_min_leaf(live)
        if kept.n_leaves == live.n_leaves:
            return kept
        if self.refit:
            return self.fit_leaves(problem, kept)
        return problem.bound_leaves(kept) if self.clip else kept


class Annealing:
    """Parallel anneals of several thetas, each on its own problem; ``thetas`` are the current ones."""

    def __init__(
        self, options: Anneal, smooths: Sequence[SmoothTreeProblem], thetas: Sequence[Floats], rngs: Sequence[Rng]
    ) -> None:
        self.options, self.smooths, self.thetas, self.rngs = options, smooths, list(thetas), rngs
        self._runs: list[Any] = []

    def descend(self) -> Generator[list[Tree] | None, None, None]:
        """Yields the hard trees after each descent, and None in between."""
        options = self.options
        ladders = [
            sorted(rng.uniform(low, high) for low, high in options.scale_ranges) if options.scale_ranges else [None]
            for rng in self.rngs
        ]
        n = options.epochs
        for stage in range(len(ladders[0]) if ladders else 0):
            alphas = [ladder[stage] for ladder in ladders]
            scales = [geometric(*options.scales, n) if alpha is None else np.full(n, alpha) for alpha in alphas]
            closed = options.closed_leaves
            self._runs = options.optimizer.start(self.smooths, self.thetas, scales, self.rngs, closed_leaves=closed)
            best: list[tuple[float, Floats, Tree]] = []
            total = max((run.remaining for run in self._runs), default=0)
            for check in range(1, options.checks + 1):
                yield from run_all(self._runs, total - total * check // options.checks)
                for i, (smooth, end) in enumerate(zip(self.smooths, self._where(), strict=True)):
                    theta, tree = options.hard(smooth, end)
                    loss = smooth.problem.mean_loss(tree) if options.checks > 1 else 0.0
                    if check == 1:
                        best.append((loss, theta, tree))
                    elif loss < best[i][0]:
                        best[i] = loss, theta, tree
                    yield None
            self.thetas = [theta for _loss, theta, _tree in best]
            trees = []
            for smooth, (_loss, _theta, tree) in zip(self.smooths, best, strict=True):
                trees.append(options.trimmed(smooth.problem, tree))
                yield None
            yield trees

    def _where(self) -> list[Floats]:
        return [theta for run in self._runs for theta in run.thetas]

    @property
    def is_descending(self) -> bool:
        """Whether a descent has steps to go; trees of finished descents have been yielded."""
        return any(run.remaining for run in self._runs)

    def current_trees(self) -> dict[int, Tree]:
        """The hard trees of the current thetas, by the numbers of their starts: of the first, and of others for as long
        as `GRACE` allows.
        """
        found: dict[int, Tree] = {}
        until = now() + GRACE
        for i, (smooth, theta) in enumerate(zip(self.smooths, self._where(), strict=True)):
            if not found or now() < until:
                found[i] = self.options.trimmed(smooth.problem, self.options.hard(smooth, theta)[1])
        return found
