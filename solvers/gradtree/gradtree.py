"""`GradTree`: gradient descent on all splits of an axis-aligned tree at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng

from opttree.model.tree import Tree
from opttree.problems import DenseTreeProblem
from opttree.problems.dense.batch import memory_refusal
from opttree.runtime import devices
from opttree.runtime.devices import Device
from opttree.runtime.options import option
from opttree.runtime.threads import available, each
from opttree.statement import TreeProblem
from solvers.core.base import Solver, Step, Steps, at_hand, at_last_call
from solvers.core.result import Termination
from solvers.gradtree.descent import descents
from solvers.initial import Initial
from solvers.soft.starts import with_depth_cap

ROUND = 400_000  # work between two checks of the clock: about this many numbers of theta and rows
CALL = 2_000  # the same of a batch, whatever its size: what Python takes
LEAST = 1e-12  # smallest learning rate and temperature


@dataclass(frozen=True)
class GradTree(Solver):
    """Axis-aligned trees by straight-through gradients (GradTree, algorithms 1 and 2).

    Steps are hard trees without branches that no row reaches; ``info["validation"]`` of a step is the validation loss,
    by which starts and epochs are compared. `solve` ranks steps by the objective on all rows, as always; the estimators
    keep the tree with the lowest validation loss instead, as the paper does.

    Features are not scaled: the arguments of the gates are in units of the feature (the paper transforms features to
    normal quantiles, the estimators standardise).

    See Also
    --------
    opttree.GradTreeRegressor : the estimator
    opttree.DenseTreeProblem : what it minimises

    References
    ----------
    Marton, Luedtke, Bartelt and Stuckenschmidt, "GradTree: learning axis-aligned decision trees with gradient
    descent", AAAI 2024.

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import GradTree, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
    >>> result = solve(problem, GradTree(n_starts=1, epochs=100), random_state=0)
    >>> result.objective < problem.objective(problem.best_constant())
    True
    """

    wants_zero = True

    learning_rates: tuple[float, float, float] = option(
        (0.01, 0.01, 0.01),
        "Of the logits of features, of thresholds and of leaves (the paper's lr_index, lr_values, lr_leaf).",
        above=LEAST,
    )
    epochs: int = option(1000, "Largest number of epochs per start.", least=1)
    batch_size: int = option(512, "Rows per batch, at most half of all rows.", least=1)
    patience: int = option(200, "A start stops after this many epochs without a lower validation loss.", least=1)
    average: int = option(5, "The thetas of the last so many epochs are averaged before validation.", least=1)
    n_starts: int = option(
        3,
        "Random starts; a start tree given to `solve` replaces the first.",
        least=1,
    )
    init: Initial | None = option(
        None,
        "Builds a start tree, on the rows not held out, if `solve` is given none; None: all starts are random.",
    )
    validation: float | TreeProblem | None = option(
        0.2,
        """Share of the rows held out for validation, or a `TreeProblem` of other rows for it; None: the training rows
        are used.""",
        above=0,
        below=1,
    )
    stratify: bool = option(False, "Whether the rows held out have the same shares of the classes as all.")
    gamma: float = option(0.0, "As in `opttree.DenseTreeProblem`.", least=0)
    epsilon: float = option(0.0, "As in `opttree.DenseTreeProblem`.", least=0)
    index: Literal["entmax", "gumbel", "soft"] = option("entmax", "As in `opttree.DenseTreeProblem`.")
    temperatures: tuple[float, float] = option(
        (1.0, 1.0),
        "Divisors of the feature logits in the first and the last epoch; geometric in between.",
        above=LEAST,
    )
    refit: bool = option(
        False,
        """Whether leaves are refitted on all rows, or kept as the gradient left them (unless ``min_leaf`` removes
        leaves).""",
    )
    dtype: Literal["float32", "float64"] = option("float32", "As in `opttree.DenseTreeProblem`.")
    device: Device = option(
        "cpu",
        """"cpu", "gpu" (CuPy, or PyTorch where there is no CuPy) or "torch": off the CPU all starts take their steps
        together. "auto" is the CPU, since it has not been measured from which size on a GPU is faster.""",
    )

    @staticmethod
    def paper(**options: Any) -> GradTree:
        """The method as printed (Algorithms 1 and 2, section 4, appendix C), for features as normal quantiles.

        Random Glorot starts, three of them; Adam on batches; the weights of five epochs averaged; a start ends after
        200 epochs without a lower loss on a fifth of the rows, and the tree of the lowest loss there is kept, with the
        leaves that the gradient left. What the paper leaves open is as in the authors' program: batches of 128 rows,
        10,000 epochs at most, and the learning rates that it uses where none were searched.

        Parameters
        ----------
        **options : object
            Options that the paper tunes.

        Returns
        -------
        GradTree
            The solver.

        Examples
        --------
        >>> from solvers import GradTree
        >>> GradTree.paper().batch_size, GradTree.paper().patience
        (128, 200)
        """
        printed = GradTree(learning_rates=(0.05, 0.01, 0.005), epochs=10_000, batch_size=128, stratify=True)
        return replace(printed, **options)

    @staticmethod
    def annealed(**options: object) -> GradTree:
        """The alternative of Table 4: feature weights are sharpened by temperatures from 1 to .01, without a
        straight-through choice (Chang, Caruana and Goldenberg, 2021).

        Parameters
        ----------
        **options : object
            Other options.

        Returns
        -------
        GradTree
            The solver.
        """
        return replace(GradTree(index="soft", temperatures=(1.0, 0.01)), **options)  # type: ignore[arg-type]

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what the dense form takes; depth 0 gives the constant tree."""
        if isinstance(held_out := self.validation, TreeProblem) and (
            held_out.n_features != problem.n_features
            or not np.array_equal(np.asarray(held_out.classes), np.asarray(problem.classes))
        ):
            return "its features or classes are not those of the validation rows"
        reason = devices.refusal(self.device, self.dtype)
        if problem.depth > 0:
            reason = reason or DenseTreeProblem.refusal(problem) or self._memory_refusal(problem)
        return reason if reason is not None or self.init is None else self.init.refusal(problem)

    def _memory_refusal(self, problem: TreeProblem) -> str | None:
        if self.device in ("cpu", "auto"):
            return None
        dense = DenseTreeProblem(problem, self.gamma, self.epsilon, self.index, self.dtype)
        return memory_refusal(
            devices.backend(self.device), self.n_starts, problem.n_samples, dense.form, self.dtype, self.batch_size
        )

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Run the starts in parallel, in rounds of epochs; a step for each start with a lower validation loss."""
        problem = with_depth_cap(problem, start)
        yield from at_hand(problem, start)
        if problem.depth == 0 or problem.n_samples < 2 or np.ptp(problem.Y, axis=0).max() == 0.0:
            return Termination.LOCALLY_OPTIMAL
        train = held_out = problem
        if isinstance(self.validation, TreeProblem):
            held_out = self.validation.restated(depth=problem.depth)
        elif self.validation is not None:
            train, held_out = problem.split(self.validation, rng, stratify=self.stratify)
        given = None if start is None else train.trim(start)
        if given is None and self.init is not None:
            given = self.init.build(train, rng)
        found: list[Tree] = []

        def begun() -> Step | None:
            return None if found or given is None else Step(given, phase="start")

        return (yield from at_last_call(self._runs(problem, train, held_out, given, rng, found), begun))

    def _runs(
        self,
        problem: TreeProblem,
        train: TreeProblem,
        held_out: TreeProblem,
        given: Tree | None,
        rng: Rng,
        found: list[Tree],
    ) -> Steps:
        """The runs, the first from a tree that is ``given``; their trees are ``found``."""
        yield None
        options = (self.gamma, self.epsilon, self.index, self.dtype)
        dense = DenseTreeProblem(train, *options)
        validation = dense if held_out is train else DenseTreeProblem(held_out, *options)
        _ = dense.data, validation.data  # packed once before threads share them
        yield None
        rngs = rng.spawn(self.n_starts)
        thetas = [
            dense.random_theta(start_rng) if given is None or k else dense.soften(given, start_rng)
            for k, start_rng in enumerate(rngs)
        ]
        runs = descents(self, dense, validation, thetas, rngs)
        starts = [best for run in runs for best in run.best]
        seen = [np.inf] * self.n_starts
        batches = -(-train.n_samples // self.batch_size) + 1
        work = 20 * train.n_samples + batches * dense.size + batches * CALL
        epochs = max(1, ROUND // (work * max(self.n_starts // available(), 1)))
        while any(run.remaining for run in runs):
            each(lambda run: run.advance(epochs), runs)
            better = [k for k in range(self.n_starts) if starts[k].loss < seen[k]]
            for k in sorted(better, key=lambda k: starts[k].loss):  # the best first, in case time is up
                seen[k], tree = starts[k].loss, self._tree(problem, dense, starts[k].theta)
                found.append(tree)
                info = {"validation": starts[k].loss, "epoch": float(starts[k].step)}
                yield Step(tree, phase=f"start {k + 1}", n_evaluations=epochs, info=info)
            yield None
        settled = all(run.settled for run in runs)
        return Termination.STALLED if settled else Termination.ITERATION_LIMIT

    def _tree(self, problem: TreeProblem, dense: DenseTreeProblem, theta: np.ndarray) -> Tree:
        """The hard tree of theta, made feasible for the whole problem."""
        tree = dense.harden(theta)
        return problem.trim(problem.fit_leaves(tree) if self.refit else tree)
