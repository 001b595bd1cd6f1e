"""`SDTR`: gradient descent on a soft tree, or on a forest of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng

from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem, SoftForestProblem
from opttree.runtime import devices
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.devices import Device
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from solvers.core.base import Solver, Step, Steps, at_last_call
from solvers.core.result import Termination
from solvers.descent import Descent
from solvers.sdtr.descent import descent, in_slices, parts_of, portion
from solvers.soft.starts import constant_tree, one_leaf, soft_start, with_depth_cap

REST = 9.0  # times as long as a step takes, until the next one under a time limit
BEHIND = 4  # the run that is behind has this part of the patience
SHARED = ("n_trees", "n_layers", "tree_output_dim", "path_penalty", "l1", "dtype", "device")  # with `SoftForestProblem`


@dataclass(frozen=True)
class SDTR(Solver):
    """Soft decision trees by QHAdam on batches (SDTR): a tree, an average of trees, or layers of them.

    Leaves hold numbers, or class scores under log loss (section V-E). The model is a `Tree`, or an `opttree.Forest` of
    several trees; predictions are mixtures. Each step has a lower validation loss, ``info["validation"]``, than the one
    before of its phase, the aggregation; `solve` ranks steps by the loss on all rows, the estimator keeps the one with
    the lowest validation loss. A start tree replaces the random initial values of the first tree.

    See Also
    --------
    opttree.SDTRRegressor : the estimator
    opttree.SoftForestProblem : what it minimises

    References
    ----------
    Luo, Cheng, Yu and Yi, "SDTR: soft decision tree regressor for tabular data", IEEE Access 9 (2021).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import SDTR, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> solve(problem, SDTR(n_trees=4, max_batches=400), random_state=0).objective < 1.0
    True
    """

    takes_gates = True
    wants_zero = True
    n_trees: int = option(1, "Trees of a layer.", least=1)
    n_layers: int = option(1, "Layers, see `opttree.SoftForestProblem`.", least=1)
    tree_output_dim: int | None = option(None, "Numbers per leaf, see `opttree.SoftForestProblem`.", least=1)
    aggregation: Literal["expected", "mixture"] | None = option(
        None,
        """"expected" is the paper's eq. (3) for every tree, "mixture" the loss of the averaged predictions, see
        `opttree.SoftForestProblem`. None: "expected" for one tree, "mixture" for several layers. For one layer of
        several trees, which the paper trains by its average (section III-D), both run side by side, the one that is
        behind stops after a quarter of ``patience``, and the validation loss decides: "mixture" fits better, "expected"
        overfits less.""",
    )
    path_penalty: float = option(0.3, "The paper's lambda_1.", least=0)
    l1: float = option(0.005, "The paper's lambda_2.", least=0)
    beta: float = option(1.5, "Inverse temperature of all gates at the start.", above=0)
    learning_rate: float = option(0.003, "> 0.", above=0)
    reweight: bool = option(True, "Whether the leaves' learning rate is multiplied by their number (section III-C).")
    batch_size: int = option(1024, "Largest number of rows in a batch.", least=1)
    max_batches: int = option(50_000, "Largest number of batches.", least=1)
    patience: int = option(1000, "A run stops after this many batches without a lower validation loss.", least=1)
    check: int = option(20, "Batches between two validations.", least=1)
    validation: float | TreeProblem | None = option(
        0.1,
        "Share of the rows held out for validation, or a `TreeProblem` of other rows; None: the training rows.",
        above=0,
        below=1,
    )
    steepness: float | None = option(1.0, "Steepness of gates from a hard start tree, see `NODEC`.", above=0)
    dtype: Literal["float32", "float64"] = option("float32", '"float32" or "float64".')
    device: Device = option(
        "cpu",
        "Device of the batches and the weights, see `opttree.runtime.devices.on_gpu`.",
    )

    @staticmethod
    def paper(n_trees: int = 1, n_layers: int = 1, tree_output_dim: int | None = None) -> SDTR:
        """The method as printed (sections III and IV), for features as normal quantiles and standardised outputs.

        One tree is trained by eq. (3), several by the loss of their average. lambda_1 and lambda_2 are of the paper's
        grid, {.1, .05, .01, .005, .001}, which it searches; here both are .01, at which Table 4 has the loss that Table
        2 prints. What else the paper leaves open: the learning rate of single trees, 1e-3 here as for its deep models
        and its classifier; the batch size, 1024 as for its deep models; QHAdam's constants, those that the authors of
        QHAdam recommend; the depth of the root in eqs. (5) and (7), 0. Its layer in front of the splits (section
        III-C), of which it reports no number, is not built.

        Parameters
        ----------
        n_trees : int, default 1
            Trees of a layer.
        n_layers : int, default 1
            Layers.
        tree_output_dim : int or None, default None
            Numbers per leaf; None: as many as outputs.

        Returns
        -------
        SDTR
            The solver.

        Examples
        --------
        >>> from solvers import SDTR
        >>> SDTR.paper().path_penalty, SDTR.paper().l1
        (0.01, 0.01)
        """
        return SDTR(
            n_trees=n_trees,
            n_layers=n_layers,
            tree_output_dim=tree_output_dim,
            aggregation="expected" if n_trees * n_layers == 1 and tree_output_dim is None else "mixture",
            path_penalty=0.01,
            l1=0.01,
            learning_rate=1e-3,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregation == "expected" and self.n_layers > 1:
            raise ValueError(
                "aggregation='expected' looks at each tree's own predictions; n_layers > 1 needs 'mixture'"
            )

    @property
    def makes_forests(self) -> bool:  # type: ignore[override]
        """Whether there are several trees."""
        return self.n_trees * self.n_layers > 1

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what the soft forest takes, and depth 0 (the constant tree), but no ``min_leaf``."""
        if problem.min_leaf > 1:
            return f"every row is at every leaf of a soft tree, so that min_leaf = {problem.min_leaf} has no effect"
        if self.tree_output_dim is not None and self.tree_output_dim < problem.n_outputs:
            return f"tree_output_dim = {self.tree_output_dim} is less than its {problem.n_outputs} outputs"
        if problem.is_classification and self.tree_output_dim not in (None, problem.n_outputs):
            return f"tree_output_dim = {self.tree_output_dim} is not the number of its classes, {problem.n_outputs}"
        if problem.penalties and self.n_trees * self.n_layers > 1:
            return f"its penalties are for one tree, and this is a forest of {self.n_trees * self.n_layers}"
        reason = devices.refusal(self.device, self.dtype)
        if problem.depth > 0:
            reason = reason or SoftForestProblem.refusal(problem)
        if problem.depth == 0 or reason is not None:
            return reason
        forest = SoftForestProblem(problem, aggregation=self.aggregations[0], **self.shared)
        return forest.memory_refusal(self.batch_size)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """A step whenever a slice of batches has lowered the validation loss; under a time limit, only as often as what
        is computed for a step takes a tenth of the time, and the last one at its end.
        """
        problem = with_depth_cap(problem, start)
        if start is not None:
            yield Step(start, phase="start")
        constant = constant_tree(problem, 1.0)
        yield Step(one_leaf(problem, 1.0) if constant is None else constant, phase="constant")
        if constant is not None:
            return Termination.LOCALLY_OPTIMAL
        train, held_out = parts_of(self, problem, rng)
        runs = []
        for aggregation, run_rng in zip(self.aggregations, rng.spawn(len(self.aggregations)), strict=True):
            forest, validation, whole = (
                SoftForestProblem(part, aggregation=aggregation, **self.shared) for part in (train, held_out, problem)
            )
            theta = forest.random_theta(run_rng, self.beta)
            if start is not None:
                theta = forest.with_first(theta, soft_start(SmoothTreeProblem(train), start, self.steepness, run_rng))
            runs.append((descent(self, forest, validation, theta, run_rng), whole))
        held: list[Callable[[], Step]] = []  # the last step, if it was left out
        race = self._race(runs, portion(self, train.n_samples, forest.size), held)
        yield from at_last_call(race, lambda: held[0]() if held else None)
        if held:
            yield held[0]()
        full = any(run.done >= self.max_batches for run, _whole in runs)
        return Termination.ITERATION_LIMIT if full else Termination.STALLED

    @property
    def shared(self) -> dict[str, Any]:
        """Options shared with `SoftForestProblem`."""
        return {name: getattr(self, name) for name in SHARED}

    @property
    def aggregations(self) -> tuple[Literal["expected", "mixture"], ...]:
        """The aggregations that are tried, side by side."""
        if self.aggregation is not None:
            return (self.aggregation,)
        if self.n_layers > 1 or self.tree_output_dim is not None:
            return ("mixture",)
        return ("expected",) if self.n_trees == 1 else ("mixture", "expected")

    def _race(
        self, runs: list[tuple[Descent, SoftForestProblem]], portion: int, held: list[Callable[[], Step]]
    ) -> Generator[Step | None]:
        """Steps, of each run with decreasing validation loss; ``portion`` batches of each in turn, until all stop."""
        seen, lowest, due, pace = [np.inf] * len(runs), np.inf, -np.inf, 1
        left = list(range(len(runs)))
        while left:
            for i in tuple(left):
                run, whole = runs[i]
                pace = in_slices(run, portion, pace)
                best = run.best[0]
                behind = any(other.best[0].loss < best.loss for other, _whole in runs)
                without = run.done - best.step  # batches without a lower validation loss
                if not run.remaining or (behind and without >= max(self.patience / BEHIND, self.check)):
                    left.remove(i)
                if best.loss >= seen[i]:
                    yield None
                    continue
                seen[i] = best.loss
                step = partial(_step, whole, best)
                if math.isinf(seconds_left()):
                    yield step()
                    continue
                if best.loss < lowest:
                    lowest, held[:] = best.loss, [step]
                began = now()
                yield held.pop()() if held and began >= due else None
                if not held:
                    due = now() + REST * (now() - began)


def _step(whole: SoftForestProblem, best: Any) -> Step:
    """The model of the lowest validation loss of a run."""
    model = whole.harden(best.theta)
    info = {"validation": best.loss, "batch": float(best.step)}
    objective = whole.mean_loss(best.theta) if isinstance(model, Forest) else None
    return Step(model, objective, phase=whole.aggregation, info=info)
