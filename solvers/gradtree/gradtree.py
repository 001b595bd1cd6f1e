"""`GradTree`: gradient descent on all splits of an axis-aligned tree at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

import numba
import numpy as np
from numpy.random import Generator as Rng

from opttree import devices
from opttree.devices import Device
from opttree.options import option
from opttree.problems import DenseTreeProblem, TreeProblem
from opttree.problems.dense_batch import memory_refusal
from opttree.tree import Tree
from solvers.base import Solver, Step, Steps
from solvers.gradtree.descent import descents
from solvers.initial import Initial
from solvers.result import Termination

ROUND = 400_000  # numbers of theta and of rows that are moved between two looks at the clock, about
LEAST = 1e-12  # of learning rates and temperatures


@dataclass(frozen=True)
class GradTree(Solver):
    """Axis-aligned trees by straight-through gradients (GradTree, algorithms 1 and 2).

    Steps are hard trees, without the branches that no row reaches; a step's ``info["validation"]`` is the loss by which
    starts and epochs are judged. `solve` ranks steps by the objective on all rows, as always: the estimators keep the
    tree of the lowest validation loss instead, as the paper does.

    Features are taken as they are: gates see differences of a feature in its own units (the paper transforms features
    to normal quantiles, the estimators standardise).
    """

    learning_rates: tuple[float, float, float] = option(
        (0.01, 0.01, 0.01),
        "Of the logits of features, of thresholds and of leaves (the paper's lr_index, lr_values, lr_leaf).",
        above=LEAST,
    )
    epochs: int = option(1000, "Most epochs of a start.", least=1)
    batch_size: int = option(512, "Rows of a batch, at most half of them.", least=1)
    patience: int = option(200, "Epochs without a lower loss on the held-out rows after which a start ends.", least=1)
    average: int = option(5, "The last so many epochs' thetas are averaged before they are judged.", least=1)
    n_starts: int = option(
        3,
        "Random starts; a tree that `solve` starts from takes the place of the first one's random numbers.",
        least=1,
    )
    init: Initial | None = option(
        None,
        "Makes that tree where `solve` is given none, of the rows that are not held out; None: all starts are random.",
    )
    validation: float | TreeProblem | None = option(
        0.2,
        """Share of the rows that is held out to judge thetas, or a statement of other rows for that; None: they are
        judged on the training rows.""",
        above=0,
        below=1,
    )
    gamma: float = option(0.0, "As in `opttree.DenseTreeProblem`.", least=0)
    epsilon: float = option(0.0, "As in `opttree.DenseTreeProblem`.", least=0)
    index: Literal["entmax", "gumbel", "soft"] = option("entmax", "As in `opttree.DenseTreeProblem`.")
    temperatures: tuple[float, float] = option(
        (1.0, 1.0),
        "By which the logits of features are divided in the first and in the last epoch; they change geometrically.",
        above=LEAST,
    )
    refit: bool = option(
        False,
        """Whether leaves are fitted again, on all rows, or stay as the gradient has left them (but where ``min_leaf``
        takes leaves away).""",
    )
    dtype: Literal["float32", "float64"] = option("float32", "As in `opttree.DenseTreeProblem`.")
    device: Device = option(
        "cpu",
        """"cpu" or "gpu" (CuPy): all starts take their steps together there. "auto" is the CPU, as long as nobody has
        measured from what size on a GPU gains.""",
    )

    @staticmethod
    def annealed(**options: object) -> GradTree:
        """The rival of Table 4: the weights of the features are sharpened by temperatures from 1 to .01, without a
        straight-through choice (Chang, Caruana and Goldenberg, 2021).
        """
        return replace(GradTree(index="soft", temperatures=(1.0, 0.01)), **options)  # type: ignore[arg-type]

    def supports(self, problem: TreeProblem) -> str | None:
        """What the dense form says; a depth of 0 is the constant tree."""
        if isinstance(judge := self.validation, TreeProblem) and (
            judge.n_features != problem.n_features
            or not np.array_equal(np.asarray(judge.classes), np.asarray(problem.classes))
        ):
            return "its features or classes are not those of the rows that are to judge"
        reason = devices.refusal(self.device)
        if problem.depth > 0:
            reason = reason or DenseTreeProblem.refusal(problem) or self._memory_refusal(problem)
        return reason if reason is not None or self.init is None else self.init.supports(problem)

    def _memory_refusal(self, problem: TreeProblem) -> str | None:
        if self.device != "gpu":
            return None
        dense = DenseTreeProblem(problem, self.gamma, self.epsilon, self.index, self.dtype)
        return memory_refusal(self.n_starts, problem.n_samples, dense.form, self.dtype, self.batch_size)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Starts side by side, in rounds of epochs; a step for each that has a lower loss on the rows that judge."""
        if start is not None:
            yield Step(start, phase="start")
        yield Step(problem.best_constant(), phase="constant")
        if problem.depth == 0 or problem.n_samples < 2 or np.ptp(problem.Y, axis=0).max() == 0.0:
            return Termination.LOCALLY_OPTIMAL
        train = judge = problem
        if isinstance(self.validation, TreeProblem):
            judge = self.validation
        elif self.validation is not None:
            train, judge = problem.split(self.validation, rng)
        options = (self.gamma, self.epsilon, self.index, self.dtype)
        dense = DenseTreeProblem(train, *options)
        judging = dense if judge is train else DenseTreeProblem(judge, *options)
        _ = dense.data, judging.data  # packed once, before threads share them
        given = None if start is None else train.trim(start)
        if given is None and self.init is not None:
            given = self.init.build(train, rng)
        rngs = rng.spawn(self.n_starts)
        thetas = [
            dense.random_theta(own) if given is None or k else dense.soften(given, own) for k, own in enumerate(rngs)
        ]
        runs = descents(self, dense, judging, thetas, rngs)
        starts = [best for run in runs for best in run.best]
        seen = [np.inf] * self.n_starts
        batches = -(-train.n_samples // self.batch_size) + 1
        epochs = max(1, ROUND // (20 * train.n_samples + batches * dense.size))
        with ThreadPoolExecutor(numba.get_num_threads()) as pool:
            while any(run.remaining for run in runs):
                list(pool.map(lambda run: run.advance(epochs), runs))
                better = [k for k in range(self.n_starts) if starts[k].loss < seen[k]]
                for k in sorted(better, key=lambda k: starts[k].loss):  # the best first: time may be up
                    seen[k], tree = starts[k].loss, self._tree(problem, dense, starts[k].theta)
                    info = {"validation": starts[k].loss, "epoch": float(starts[k].step)}
                    yield Step(tree, phase=f"start {k + 1}", n_evaluations=epochs, info=info)
                yield None
        settled = all(run.settled for run in runs)
        return Termination.STALLED if settled else Termination.ITERATION_LIMIT

    def _tree(self, problem: TreeProblem, dense: DenseTreeProblem, theta: np.ndarray) -> Tree:
        """The hard tree of theta as a feasible tree of the whole problem."""
        tree = dense.harden(theta)
        return problem.trim(problem.fit_leaves(tree) if self.refit else tree)
