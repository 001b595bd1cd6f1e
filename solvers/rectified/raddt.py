"""`RADDT`: the whole tree by gradients of a softmin over the leaves' violations, whose scale grows run by run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.records import Rows
from opttree.kernels.routing import project
from opttree.kernels.smooth import rectified
from opttree.kernels.smooth.first_order import Moments
from opttree.model.tree import Tree, replace
from opttree.problems import SmoothTreeProblem
from opttree.runtime.calm import calm_threads
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from solvers.core.base import Solver, Step, Steps, at_hand
from solvers.core.result import Termination
from solvers.initial import CartInit, Initial
from solvers.rectified.starts import reported
from solvers.soft.starts import with_depth_cap

Floats = NDArray[np.floating]
ADAM = Moments(0.9, 0.999, 1.0, 1.0, 1e-8)
LARGEST = {3: 100.0, 7: 130.0, 10: 170.0}  # last scale by depth, and 200 for deeper trees
SLOWEST = 1e-6  # first and last learning rate
MOST_VISITS = 2**22  # of nodes by rows in one block, well under a tenth of a second
USUAL_FEATURES = 50  # with more, a visit takes as much longer
MOST_COMBINED, LEAST_VARIANCE = 300, 1e-10  # features that are decorrelated; of a combination, by that of the first
LITTLE, ENOUGH = 5e-4, 0.01  # gains of R2: by the last run, and over the first start


@dataclass(frozen=True)
class RADDT(Solver):
    """Oblique trees by "ReLU + Argmin" (NeurIPS 2025, its authors' program), for constant leaves and linear ones.

    A leaf's violation U adds up, over the branches above it, the distances by which a row lies on the wrong side; the
    leaf of the row is the only one without. The mean over the rows of the leaves' losses, weighted by the softmin of
    ``alpha U``, is minimised by AdamW (warm-up, then a cosine), in runs with growing alpha, each from the best hard
    tree of the run before, its thresholds moved to the middle of the gap between the nearest rows. Of each run the tree
    of least loss on the training rows is kept (with linear leaves as the gradient left them) and refitted; the best of
    these is the result. From the third start on, a run that gains less than .0005 of R2 is the last of its start, if
    that is .01 better than the first tree.

    It scales features and outputs to [0, 1], whatever the units of the problem, and every second start works on
    uncorrelated combinations of them (``decorrelate``), unlike the program. Penalties are not part of
    the gradients. From depth 5 on, weights of at most ``2**-depth`` count as zero, as in the program; unlike there,
    leaves of weight below 1e-7 of the row's own are not visited at all, boundaries are not moved by support vector
    machines, and splits are not made steeper in runs that gain nothing.

    See Also
    --------
    opttree.RADDTRegressor : the estimator

    References
    ----------
    "Differentiable decision tree via ReLU+Argmin reformulation", NeurIPS 2025.

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import RADDT, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> result = solve(problem, RADDT(n_starts=2), random_state=0)
    >>> result.objective < problem.objective(problem.best_constant())
    True
    """

    n_starts: int = option(
        2,
        """Starts: the start tree given to `solve`, or that of ``init``; the same on combinations of the features, see
        ``decorrelate``; and else random ones.""",
        least=1,
    )
    epochs: int = option(200, "Epochs of a run, each over all rows.", least=1)
    n_scales: int = option(5, "Runs of a start.", least=1)
    scales: tuple[float, float] | None = option(
        None,
        """First and last alpha; geometric in between. None: from 2 to 100 up to depth 3, to 130 up to depth 7, to 170
        up to depth 10, else to 200.""",
        test=lambda scales: scales is None or 0.0 < scales[0] <= scales[1] <= 1e6,
        words="None or two numbers above 0, at most 1e6, that do not fall",
    )
    learning_rate: float = option(0.01, "Largest learning rate.", above=0)
    warm_up: int = option(10, "Epochs in which the learning rate grows.", least=0)
    weight_decay: float = option(0.01, "Of AdamW.", least=0)
    init: Initial = option(factory=CartInit, doc="Builds the first start if `solve` is given none.")
    dtype: Literal["float32", "float64"] = option("float32", '"float32" or "float64".')
    decorrelate: bool = option(
        True,
        """Whether every second start works on linear combinations of the features that are uncorrelated, in [0, 1],
        where there are at most 300 features. Gradients hardly move splits that are differences of features which nearly
        agree: with the features themselves a tree of depth 4 explains .26 of the variance of 4,000 training rows of the
        set cbm_turbine, with their combinations .95.""",
    )

    @staticmethod
    def paper() -> RADDT:
        """The run that the authors' program documents: 10 starts, 3000 epochs, 5 scales."""
        return RADDT(n_starts=10, epochs=3000, decorrelate=False)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes oblique splits, squared or log loss; depth 0 gives the constant tree."""
        reason = None if problem.depth == 0 else SmoothTreeProblem.refusal(problem)
        return reason or self.init.refusal(problem)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """A step for each run of each start."""
        problem = with_depth_cap(problem, start)
        yield from at_hand(problem, start)
        if problem.depth == 0 or np.ptp(problem.Y, axis=0).max() == 0.0 or not np.ptp(problem.X, axis=0).any():
            return Termination.LOCALLY_OPTIMAL
        if start is None:
            start = self.init.build(problem, rng)
            yield Step(start, phase="initial tree")
        units = Units.from_problem(problem)
        scaled = units.stated(problem)
        smooth = SmoothTreeProblem(scaled, dtype=self.dtype)
        frames: list[tuple[Units | Combinations, SmoothTreeProblem]] = [(units, smooth)]
        if self.decorrelate and self.n_starts > 1 and 1 < problem.n_features <= MOST_COMBINED:
            with calm_threads():
                combined = Combinations.from_problem(scaled, units)
                frames.append((combined, SmoothTreeProblem(combined.stated(scaled), dtype=self.dtype)))
        yield None
        rngs = rng.spawn(self.n_starts)
        first = smooth.problem.fit_leaves(units.scale(start))
        mean = smooth.problem.mean_loss
        constant, reached = mean(smooth.problem.best_constant()), mean(first)
        runs = []
        for k, start_rng in enumerate(rngs):
            frame, own = frames[k % len(frames)]
            moved = frame.moved(first) if isinstance(frame, Combinations) else first
            theta = own.soften(moved, start_rng) if k < len(frames) else random_theta(own, start_rng)
            runs.append(Ladder(self, own, theta))
            runs[k].enough = reached - ENOUGH * constant if k > 1 else -np.inf
            runs[k].little = LITTLE * constant if k > 0 else 0.0
            yield None

        def step(start: int, stage: int, tree: Tree) -> Step:
            own, _smooth = frames[(start - 1) % len(frames)]
            with calm_threads():
                tree = own.unscale(tree)
            trimmed = problem.trim(problem.fit_leaves(tree))
            return Step(trimmed, phase=f"start {start}, run {stage}", n_evaluations=self.epochs)

        yield from reported(problem, runs, step)
        return Termination.ITERATION_LIMIT

    def ladder(self, depth: int) -> Floats:
        """Scale of each run.

        Parameters
        ----------
        depth : int
            Depth of the tree.

        Returns
        -------
        ndarray of shape (n_scales,)
            The scales alpha.
        """
        last = next((scale for most, scale in LARGEST.items() if depth <= most), 200.0)
        low, high = self.scales or (2.0, last)
        return np.geomspace(low, high, self.n_scales)

    def rates(self) -> Floats:
        """The learning rate of each epoch of a run."""
        grown = np.linspace(SLOWEST, self.learning_rate, self.warm_up, endpoint=False)[: self.epochs]
        turn = np.linspace(0.0, np.pi, max(self.epochs - grown.size, 0), endpoint=False)
        return np.append(grown, SLOWEST + (self.learning_rate - SLOWEST) * (1.0 + np.cos(turn)) / 2.0)


@dataclass(frozen=True)
class Units:
    """The least values and the ranges of features and outputs."""

    x_least: NDArray[np.float64]
    x_range: NDArray[np.float64]
    y_least: NDArray[np.float64]
    y_range: NDArray[np.float64]

    @staticmethod
    def from_problem(problem: TreeProblem) -> Units:
        """Units that scale the problem's features, and numeric outputs, to [0, 1]."""

        def least_and_range(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            low, size = table.min(axis=0), np.ptp(table, axis=0)
            return low, np.where(size > 0.0, size, 1.0)

        outputs = (np.zeros(1), np.ones(1)) if problem.is_classification else least_and_range(problem.Y)
        return Units(*least_and_range(problem.X), *outputs)

    def stated(self, problem: TreeProblem) -> TreeProblem:
        """State a problem in these units, without penalties."""
        X = (problem.X - self.x_least) / self.x_range
        y = problem.y if problem.is_classification else ((problem.Y - self.y_least) / self.y_range)
        return problem.with_rows(X, y, problem.sample_weight, penalties=(), min_leaf=1)

    def scale(self, tree: Tree) -> Tree:
        """Convert a tree from the problem's units to these."""
        return tree.scale(self.x_least, self.x_range, self.y_least, self.y_range)

    def unscale(self, tree: Tree) -> Tree:
        """Convert a tree from these units to the problem's."""
        return tree.unscale(self.x_least, self.x_range, self.y_least, self.y_range)


@dataclass(frozen=True)
class Combinations:
    """Uncorrelated linear combinations of features in `Units`, which are in [0, 1] over the rows."""

    units: Units
    weights: NDArray[np.float64]  # (p, q), of the features in each combination: orthonormal columns
    rest: NDArray[np.float64]  # (p,) what the combinations leave of the features, at the rows' mean
    least: NDArray[np.float64]
    extent: NDArray[np.float64]

    @staticmethod
    def from_problem(scaled: TreeProblem, units: Units) -> Combinations:
        """The principal components of the rows of a problem in ``units``, but for those that hardly vary."""
        weight = np.asarray(scaled.w)
        mean = weight @ scaled.X
        away = scaled.X - mean
        variance, axes = np.linalg.eigh((away * weight[:, None]).T @ away)
        weights = axes[:, variance > LEAST_VARIANCE * variance[-1]]
        table = scaled.X @ weights
        extent = np.ptp(table, axis=0)
        rest = mean - weights @ (mean @ weights)
        return Combinations(units, weights, rest, table.min(axis=0), np.where(extent > 0.0, extent, 1.0))

    def stated(self, scaled: TreeProblem) -> TreeProblem:
        """State a problem in ``units`` in these features."""
        return scaled.with_rows((scaled.X @ self.weights - self.least) / self.extent, scaled.y, scaled.sample_weight)

    def moved(self, tree: Tree) -> Tree:
        """Convert a tree from features in `Units` to these."""
        own = replace(tree, A=tree.A @ self.weights, b=tree.b - tree.A @ self.rest)
        if tree.linear_leaves:
            coefs = np.asarray(tree.coefs)
            own = replace(own, coefs=coefs @ self.weights, values=tree.values + coefs @ self.rest)
        still, unit = np.zeros(self.units.y_least.size), np.ones(self.units.y_least.size)
        return own.scale(self.least, self.extent, still, unit)

    def unscale(self, tree: Tree) -> Tree:
        """Convert a tree of these features to the problem's features and units."""
        still, unit = np.zeros(self.units.y_least.size), np.ones(self.units.y_least.size)
        own = tree.unscale(self.least, self.extent, still, unit)
        coefs = np.asarray(own.coefs) @ self.weights.T if own.linear_leaves else own.coefs
        return self.units.unscale(replace(own, A=own.A @ self.weights.T, coefs=coefs))


def random_theta(smooth: SmoothTreeProblem, rng: Rng) -> Floats:
    """Splits with weights and thresholds between -1 and 1, and the leaves that fit them."""
    theta = np.zeros(smooth.size, smooth.dtype)
    A, b, _values, _coefs = smooth.unpack(theta)
    A[:], b[:] = rng.uniform(-1.0, 1.0, A.shape), rng.uniform(-1.0, 1.0, b.shape)
    return refitted(smooth, theta)


def refitted(smooth: SmoothTreeProblem, theta: Floats) -> Floats:
    """Theta with the leaves that fit its hard tree."""
    return smooth.with_leaves(theta, smooth.problem.fit_leaves(smooth.harden(theta)))


def centred(smooth: SmoothTreeProblem, theta: Floats) -> Floats:
    """Theta with thresholds in the middle of the gap between the nearest rows on either side: the same hard tree."""
    theta = theta.copy()
    A, b, _values, _coefs = smooth.unpack(theta)
    node = np.zeros(smooth.problem.n_samples, np.intp)
    for t in range(b.size):  # in heap order: parents first
        rows = np.flatnonzero(node == t)
        z = project(smooth.problem.X, rows, A[t].astype(np.float64))
        left = z <= b[t]
        node[rows] = np.where(left, 2 * t + 1, 2 * t + 2)
        if left.any() and not left.all():
            b[t] = 0.5 * (z[left].max() + z[~left].min())
    return theta


@dataclass
class Ladder:
    """The runs of one start; see `solvers.rectified.starts.Start`. A step is a part of an epoch: a block of rows."""

    options: RADDT
    smooth: SmoothTreeProblem
    theta: Floats
    enough: float = -np.inf  # at a loss of at most this, a run that gains less than ``little`` is the last
    little: float = 0.0
    device: str = "cpu"
    stage: int = 0
    done: int = 0
    least: float = np.inf  # of the present run
    lowest: float = np.inf  # of all runs
    best: Floats = field(init=False)
    ready: list[tuple[int, Tree]] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, dtype = self.smooth.problem, self.smooth.dtype
        self.scales = self.options.ladder(problem.depth)
        self.rates = np.append(self.options.rates(), 0.0)  # no step after the last tree: it is only judged
        self.floor = 2.0**-problem.depth if problem.depth > 4 else 0.0
        self.data = Rows(problem.X.astype(dtype), problem.Y.astype(dtype), problem.w.astype(dtype))
        visits = problem.n_samples * 2 ** (problem.depth + 1) * max(problem.n_features // USUAL_FEATURES, 1)
        self.blocks = min(-(-visits // MOST_VISITS), problem.n_samples)
        self._begin(self.theta)

    @property
    def thetas(self) -> list[Floats]:
        """The present theta."""
        return [self.theta]

    @property
    def remaining(self) -> int:
        """Blocks to go."""
        return max(self.scales.size - self.stage, 0) * self.rates.size * self.blocks - self.done

    @property
    def n_finished(self) -> int:
        """Finished runs."""
        return self.stage

    def advance(self, steps: int) -> None:
        """Up to so many blocks, of the present run at most."""
        whole = self.rates.size * self.blocks
        last = min(self.done + steps, whole)
        alpha, span = float(self.scales[self.stage]), rectified.Span(self.done, last, self.blocks)
        how = rectified.Relaxation(self.rates, self.options.weight_decay, alpha, self.floor, ADAM)
        self.least = rectified.descend_relaxed(
            self.theta, self.best, self.least, self.moments, self.work, span, how, self.data, self.smooth.form
        )
        if not np.isfinite(self.theta).all():
            raise FloatingPointError("the weights of a start ceased to be finite; use a lower learning_rate")
        self.done = last
        if self.done == whole:
            self._end()

    def taken(self) -> list[tuple[int, Tree]]:
        """The runs that have ended since the last call, and the best hard tree of each."""
        ready, self.ready = self.ready, []
        return ready

    def unfinished(self) -> tuple[int, Tree] | None:
        """The present run, and its best hard tree so far."""
        return (self.stage + 1, self.smooth.harden(self.best)) if np.isfinite(self.least) else None

    def _begin(self, theta: Floats) -> None:
        self.theta = centred(self.smooth, theta)
        self.best, self.least, self.done = self.theta.copy(), np.inf, 0
        self.moments = np.zeros((2, theta.size), theta.dtype)
        n_leaves, n_outputs = 2**self.smooth.problem.depth, self.smooth.problem.n_outputs
        self.work = rectified.Work(np.zeros_like(theta), np.zeros((n_leaves, n_outputs + 1)), np.zeros(2))

    def _end(self) -> None:
        """Keep the best tree of the run; begin the next one from it."""
        self.stage += 1
        self.ready.append((self.stage, self.smooth.harden(self.best)))
        settled = self.lowest - self.least < self.little and self.least <= self.enough
        self.lowest = min(self.lowest, self.least)
        if settled:
            self.stage = self.scales.size
        self.done, self.least = 0, np.inf
        if self.remaining:
            best = self.best if self.smooth.linear else refitted(self.smooth, self.best)
            self._begin(best)
