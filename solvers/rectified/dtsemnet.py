"""`DTSemNet`: the whole tree as a network whose largest output is the row's leaf."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.records import Rows
from opttree.kernels.smooth import rectified
from opttree.kernels.smooth.first_order import Moments
from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem
from opttree.runtime.options import option
from opttree.statement import L1, TreeProblem
from solvers.core.base import Solver, Step, Steps, at_hand
from solvers.core.result import Termination
from solvers.rectified.starts import reported
from solvers.soft.starts import with_depth_cap

Floats = NDArray[np.floating]
ADAM = Moments(0.9, 0.999, 1.0, 1.0, 1e-8)


@dataclass(frozen=True)
class DTSemNet(Solver):
    """Oblique trees by DTSemNet (ECAI 2024; its authors' program), classes and numbers.

    Each leaf has an output of the network, a sum of distances by which a row lies on the leaf's side of the branches
    above it, and on either side of all other branches; the leaf of the row has the largest, so that the network is the
    hard tree itself. (Less what all leaves share, the output is minus the violation of `RADDT`.) Leaves have classes
    in turn, from left to right; Adam on batches minimises the cross-entropy of the softmax over the classes' largest
    outputs. In regression the choice of the leaf has the gradient of the softmax over the leaves (straight through).

    Features and outputs are not scaled: the learning rate is for standardised ones. An `L1` penalty on splits is added
    to the loss, on the weights as they are (the authors' on thresholds, too). Unlike in the authors' programs,
    gradients are not clipped, in regression that of the choice of the leaf has two thirds of their length, and there
    are no layers in front of the splits and the leaves (products of matrices, which leave the tree as it is). Steps are
    hard trees with leaves refitted; an epoch whose tree has the lowest objective so far of its start is one.

    See Also
    --------
    opttree.DTSemNetRegressor : the estimator

    References
    ----------
    "Vanilla gradient descent for oblique decision trees", ECAI 2024.

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import DTSemNet, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> result = solve(problem, DTSemNet(), random_state=0)
    >>> result.objective < problem.objective(problem.best_constant())
    True
    """

    wants_zero = True

    n_starts: int = option(3, "Random starts; a start tree given to `solve` replaces the first.", least=1)
    epochs: int = option(60, "Epochs of a start.", least=1)
    batch_size: int = option(128, "Rows of a batch.", least=1)
    learning_rate: float = option(0.1, "Learning rate of the first epoch.", above=0)
    decay: float = option(0.97, "Factor of the learning rate from one epoch to the next.", above=0, most=1)
    dtype: Literal["float32", "float64"] = option("float32", '"float32" or "float64".')

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes oblique splits, squared or log loss, at least as many leaves as classes."""
        if problem.depth > 0 and (reason := SmoothTreeProblem.refusal(problem)) is not None:
            return reason
        if problem.depth > 0 and problem.is_classification and 2**problem.depth < problem.n_outputs:
            return f"its {2**problem.depth} leaves are fewer than its {problem.n_outputs} classes"
        return None

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """A step for each epoch that improves a start."""
        problem = with_depth_cap(problem, start)
        yield from at_hand(problem, start)
        if problem.depth == 0 or np.ptp(problem.Y, axis=0).max() == 0.0:
            return Termination.LOCALLY_OPTIMAL
        smooth = SmoothTreeProblem(problem, dtype=self.dtype)
        yield None
        rngs = rng.spawn(self.n_starts)
        thetas = [random_theta(smooth, start_rng) for start_rng in rngs]
        if start is not None:
            thetas[0] = smooth.soften(start, rngs[0])
        runs = [Training(self, smooth, theta, start_rng) for theta, start_rng in zip(thetas, rngs, strict=True)]

        def step(start: int, epoch: int, tree: Tree) -> Step:
            return Step(tree, phase=f"start {start}", info={"epoch": float(epoch)})

        yield from reported(problem, runs, step)
        return Termination.ITERATION_LIMIT


def random_theta(smooth: SmoothTreeProblem, rng: Rng) -> Floats:
    """Weights as PyTorch draws them for a linear layer: uniform, up to one over the root of the number of inputs."""
    most = 1.0 / np.sqrt(smooth.problem.n_features)
    return rng.uniform(-most, most, smooth.size).astype(smooth.dtype)


@dataclass
class Training:
    """The epochs of one start, see `solvers.rectified.starts.Start`."""

    options: DTSemNet
    smooth: SmoothTreeProblem
    theta: Floats
    rng: Rng
    device: str = "cpu"
    done: int = 0
    updates: int = 0
    batch: int = 0  # batches of the present epoch that are done
    least: float = np.inf
    ready: list[tuple[int, Tree]] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, dtype = self.smooth.problem, self.smooth.dtype
        self.data = Rows(problem.X.astype(dtype), problem.Y.astype(dtype), problem.w.astype(dtype))
        self.l1 = problem.strength(L1, "splits")
        self.n_batches = -(-problem.n_samples // self.options.batch_size)
        self.leaf_class = np.arange(2**problem.depth) % problem.n_outputs
        self.moments = np.zeros((2, self.theta.size), dtype)

    @property
    def thetas(self) -> list[Floats]:
        """The present theta."""
        return [self.theta]

    @property
    def remaining(self) -> int:
        """Batches to go."""
        return (self.options.epochs - self.done) * self.n_batches - self.batch

    @property
    def n_finished(self) -> int:
        """Finished epochs."""
        return self.done

    def advance(self, steps: int) -> None:
        """Up to so many batches."""
        size = self.options.batch_size
        while steps and self.remaining:
            if self.batch == 0:
                self.order = self.rng.permutation(self.smooth.problem.n_samples)
            last = min(self.batch + steps, self.n_batches)
            rate = self.options.learning_rate * self.options.decay**self.done
            order, how = self.order[self.batch * size : last * size], rectified.Batches(rate, size, self.l1, ADAM)
            self.updates = rectified.semantic_batches(
                self.theta, self.moments, self.updates, order, how, self.data, self.smooth.form, self.leaf_class
            )
            if not np.isfinite(self.theta).all():
                raise FloatingPointError("the weights of a start ceased to be finite; use a lower learning_rate")
            steps -= last - self.batch
            self.batch = last % self.n_batches
            if self.batch == 0:
                self.done += 1
                self._judge()

    def taken(self) -> list[tuple[int, Tree]]:
        """The epochs since the last call that were the best so far, and their trees."""
        ready, self.ready = self.ready, []
        return ready

    def unfinished(self) -> tuple[int, Tree] | None:
        """The tree in the middle of an epoch, if it is the best so far."""
        if self.batch:
            self._judge()
        return self.ready.pop() if self.ready else None

    def _judge(self) -> None:
        """Note the present tree if its objective is the lowest so far."""
        problem = self.smooth.problem
        tree = problem.trim(problem.fit_leaves(self.smooth.harden(self.theta)))
        if (objective := problem.objective(tree)) < self.least:
            self.least = objective
            self.ready.append((self.done, tree))
