"""`SDTR`: gradient descent on a soft tree, or on a forest of them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from opttree import devices
from opttree.forest import Forest
from opttree.problems import SmoothTreeProblem, SoftForestProblem, TreeProblem
from opttree.tree import Tree
from solvers.base import Solver, Step, Steps
from solvers.result import Termination
from solvers.sdtr.descent import QHADAM, ForestDescent
from solvers.soft import constant_tree, one_leaf, soft_start

PORTION = 200_000_000  # products of rows and variables between two looks at the clock, about
SHARED = ("n_trees", "n_layers", "tree_output_dim", "path_penalty", "l1", "dtype", "device")  # with `SoftForestProblem`


@dataclass(frozen=True)
class SDTR(Solver):
    """Soft decision tree regressors by QHAdam on batches (SDTR): a tree, an average of trees, or layers of them.

    Parameters
    ----------
    n_trees, n_layers, tree_output_dim : trees of a layer, layers, numbers per leaf; see `opttree.SoftForestProblem`.
    aggregation : "expected" is the paper's eq. (3) for every tree, "mixture" the loss of the averaged answers, see
        `opttree.SoftForestProblem`. None: "expected" for one tree, "mixture" for layers; of one layer of trees, which
        the paper trains by its average (section III-D), first "mixture" and then "expected" is tried and the held-out
        rows choose: averages fit better, trees of their own overfit less.
    path_penalty, l1 : the paper's lambda_1 and lambda_2, >= 0.
    beta : inverse temperature of all gates at the start.
    learning_rate : > 0.
    reweight : whether the leaves' learning rate is multiplied by their number (section III-C).
    batch_size : rows of a batch, at most.
    max_batches : most batches.
    patience : batches without a lower loss on the held-out rows after which a run ends.
    check : batches between two looks at them.
    validation : share of the rows that is held out; None: the training rows judge.
    steepness : of gates made from a hard tree that `solve` starts from, see `NODEC`.
    dtype : "float32" or "float64".
    device : "cpu", "gpu" or "auto", see `opttree.devices.on_gpu`: where batches are evaluated and the weights are kept.

    The result of one tree is a `Tree`, of more a `opttree.Forest` in its place; answers are mixtures. Steps are models
    of lower loss on the held-out rows, ``info["validation"]``; `solve` ranks them by the loss on all rows, the
    estimator keeps that of the lowest. A start takes the place of the first tree's random numbers.
    """

    takes_gates = True
    n_trees: int = 1
    n_layers: int = 1
    tree_output_dim: int | None = None
    aggregation: str | None = None
    path_penalty: float = 0.3
    l1: float = 0.005
    beta: float = 1.5
    learning_rate: float = 0.003
    reweight: bool = True
    batch_size: int = 1024
    max_batches: int = 50_000
    patience: int = 1000
    check: int = 20
    validation: float | None = 0.1
    steepness: float | None = 1.0
    dtype: str = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        outputs = self.tree_output_dim if isinstance(self.tree_output_dim, int) and self.tree_output_dim > 0 else 1
        tiny = TreeProblem(np.array([[0.0], [1.0]]), np.zeros((2, outputs)), depth=1)
        here = self.shared | {"device": "cpu"}
        SoftForestProblem(tiny, aggregation=self.aggregation or "mixture", **here)  # checks what it shares
        devices.check_device(self.device)
        for name in ("beta", "learning_rate", "steepness"):
            value = getattr(self, name)
            if name == "steepness" and value is None:
                continue
            if not (isinstance(value, (int, float, np.number)) and np.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be finite and > 0; got {value!r}")
        for name in ("batch_size", "max_batches", "patience", "check"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1; got {value!r}")
        share = self.validation
        if share is not None and not (isinstance(share, (float, np.floating)) and 0.0 < share < 1.0):
            raise ValueError(f"validation must be between 0 and 1, or None; got {share!r}")

    def supports(self, problem: TreeProblem) -> str | None:
        """What the soft forest says; a depth of 0 is the constant tree, and a mixture has no rows of a leaf."""
        if problem.min_leaf > 1:
            return f"every row is at every leaf of a soft tree, so that min_leaf = {problem.min_leaf} says nothing"
        if self.tree_output_dim is not None and self.tree_output_dim < problem.n_outputs:
            return f"tree_output_dim = {self.tree_output_dim} is less than its {problem.n_outputs} outputs"
        if problem.penalties and self.n_trees * self.n_layers > 1:
            return f"its penalties are for one tree, and this is a forest of {self.n_trees * self.n_layers}"
        reason = devices.refusal(self.device)
        if problem.depth > 0:
            reason = reason or SoftForestProblem.refusal(problem)
        if problem.depth == 0 or reason is not None:
            return reason
        forest = SoftForestProblem(problem, aggregation=self.aggregations[0], **self.shared)
        return forest.memory_refusal(self.batch_size)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """A step whenever a slice of batches has found a lower loss on the rows that judge."""
        if start is not None:
            yield Step(start, phase="start")
        constant = constant_tree(problem, 1.0)
        yield Step(one_leaf(problem, 1.0) if constant is None else constant, phase="constant")
        if constant is not None:
            return Termination.LOCALLY_OPTIMAL
        train = judge = problem
        if self.validation is not None and problem.n_samples > 1:
            train, judge = problem.split(self.validation, rng)
        ended = Termination.STALLED
        for aggregation in self.aggregations:
            forest, judging, whole = (
                SoftForestProblem(part, aggregation=aggregation, **self.shared) for part in (train, judge, problem)
            )
            theta = forest.random_theta(rng, self.beta)
            if start is not None:
                theta = forest.with_first(theta, soft_start(SmoothTreeProblem(train), start, self.steepness, rng))
            descent = ForestDescent(self, forest, judging, theta, rng)
            yield from self._descend(descent, whole)
            if descent.batches >= self.max_batches:
                ended = Termination.ITERATION_LIMIT
        return ended

    @property
    def shared(self) -> dict[str, Any]:
        """Options that the `SoftForestProblem` has too."""
        return {name: getattr(self, name) for name in SHARED}

    @property
    def moments(self) -> Any:
        """QHAdam's, as the kernel takes them."""
        return QHADAM

    @property
    def aggregations(self) -> tuple[str, ...]:
        """What is tried, one after another."""
        if self.aggregation is not None:
            return (self.aggregation,)
        if self.n_layers > 1 or self.tree_output_dim is not None:
            return ("mixture",)
        return ("expected",) if self.n_trees == 1 else ("mixture", "expected")

    def _descend(self, descent: ForestDescent, whole: SoftForestProblem) -> Generator[Step | None]:
        rows = min(self.batch_size, descent.problem.problem.n_samples)
        portion = max(1, min(self.check, PORTION // (rows * descent.problem.size)))
        seen = np.inf
        while descent.remaining:
            descent.advance(portion)
            if descent.loss < seen:
                seen = descent.loss
                model = whole.harden(descent.theta)
                info = {"validation": seen, "batch": float(descent.best_batch)}
                objective = whole.mean_loss(descent.theta) if isinstance(model, Forest) else None
                yield Step(model, objective, phase=whole.aggregation, info=info)  # type: ignore[arg-type]
            else:
                yield None
