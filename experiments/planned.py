"""What protocols are made of: how rows are cut, methods, and the runs that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from solvers.races.runs import Run

SPLITS = ("holdout", "kfold")
TREES = ("oblique", "axis")
OUTPUTS = ("raw", "standard", "unit")


@dataclass(frozen=True)
class Splits:
    """How rows are cut into training and test rows.

    kind : "holdout" (one random part) or "kfold".
    test_size : share of the rows that is held out.
    k : folds.
    per_seed : whether every seed draws rows of its own, or all share those of seed 0: then seeds are replications.
    stratify : whether every part has the same shares of the classes, where a class has the rows for it.
    inner : share of the training rows that stands in for the test rows, which nobody then looks at; 0: the test rows.
        For choices of defaults.
    most : training rows at most, drawn at random; 0: all.
    """

    kind: str = "holdout"
    test_size: float = 0.25
    k: int = 4
    per_seed: bool = True
    stratify: bool = True
    inner: float = 0.0
    most: int = 0

    def __post_init__(self) -> None:
        if self.kind not in SPLITS:
            raise ValueError(f"splits.kind must be one of {', '.join(SPLITS)}; got {self.kind!r}")
        if not 0.0 < self.test_size < 1.0:
            raise ValueError(f"splits.test_size must be between 0 and 1; got {self.test_size!r}")
        if self.k < 2:
            raise ValueError(f"splits.k must be >= 2; got {self.k!r}")
        if not 0.0 <= self.inner < 1.0:
            raise ValueError(f"splits.inner must be at least 0 and below 1; got {self.inner!r}")
        if self.most < 0:
            raise ValueError(f"splits.most must be >= 0; got {self.most!r}")

    @property
    def count(self) -> int:
        """Splits per seed."""
        return self.k if self.kind == "kfold" else 1


@dataclass(frozen=True)
class Method:
    """One line of a protocol's methods.

    use : name in `experiments.methods.METHODS`; in a "solve" protocol, a solver as one writes it in Python,
        ``"Chain(TAO(), LocalSearch())"``.
    options : of the estimator.
    grid : options to choose among, by the mean score on ``parts`` random parts of the training rows of share
        ``validation``; the model is then fitted to all of them. Several grids are a list.
    score : of that choice, a scorer's name in scikit-learn; by default R2, or macro F1.
    warm : whether that last fit starts from the best of the trees that the chosen options gave on the parts.
    depth : whether the protocol's depths apply.
    per_dataset : further options on some data sets.
    reduced : whether a budget has changed its options or grid.

    trials : how many of the grids' combinations are tried, drawn at random; 0: all.
    stands_for : label of the published numbers that it is compared with; by default its own.

    best_of : instead of ``use``: the label of another method, of whose seeds the one with the best training score is
        taken, per split; or labels of several, of which the one with the lowest validation loss is, per seed and split.

    Options, and values in grids, such as ``"HingeInit(price=1.0)"`` stand for solvers.
    In a file, ``like`` names another method of it, or of the file that it extends, whose keys this one starts from; and
    ``sweep = { option = [...] }`` states a method for each value of an option, labelled "label, option=value"; of a
    solver, ``use`` has ``{option}`` where the value goes.
    """

    use: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]] = field(default_factory=dict)
    validation: float = 1 / 3
    parts: int = 1
    score: str = ""
    warm: bool = False
    depth: bool = True
    trials: int = 0
    stands_for: str = ""
    best_of: str | Sequence[str] = ""
    per_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reduced: bool = False

    def __post_init__(self) -> None:
        if bool(self.use) == bool(self.best_of):
            raise ValueError(
                f"a method must have either use or best_of; got use={self.use!r}, best_of={self.best_of!r}"
            )
        if self.parts < 1:
            raise ValueError(f"parts must be >= 1; got {self.parts!r}")
        if self.trials < 0:
            raise ValueError(f"trials must be >= 0; got {self.trials!r}")
        if self.warm and not self.grid:
            raise ValueError("warm is for methods with a grid; got none")

    @property
    def grids(self) -> list[dict[str, Any]]:
        """The grids, one or several; none where there is nothing to choose."""
        several = [self.grid] if isinstance(self.grid, Mapping) else self.grid
        return [dict(grid) for grid in several if grid]

    @property
    def is_printed(self) -> bool:
        """Whether it is a paper's method, by its preset."""
        return self.options.get("preset") == "paper" or ".paper(" in self.use

    @property
    def peers(self) -> tuple[str, ...]:
        """The labels in ``best_of``."""
        return (self.best_of,) if self.best_of and isinstance(self.best_of, str) else tuple(self.best_of)


@dataclass(frozen=True)
class PlannedRun(Run):
    """One fit or solve on a data set. ``depth`` and ``leaves`` are None where the protocol does not vary them."""

    kind: str
    splits: Splits
    method: Method
    features: str
    trees: str
    preprocess: str
    outputs: str
    without: tuple[str, ...] = ()
    predictions: int = 0

    @property
    def stated(self) -> dict[str, Any]:
        """Keys that came later are left out where they have their default: the rows of older stores stay theirs."""
        method, splits = asdict(self.method), asdict(self.splits)
        options = {k: method[k] for k in ("use", "options", "grid", "validation")}
        options |= {
            k: method[k]
            for k, default in (("parts", 1), ("score", ""), ("warm", False), ("trials", 0))
            if method[k] != default
        }
        for name, usual in (("stratify", True), ("inner", 0.0), ("most", 0)):
            if splits[name] == usual:
                del splits[name]
        statement: dict[str, Any] = {}
        if self.kind == "solve":
            statement = {"features": self.features, "seconds": self.time_limit}
        statement |= {"preprocess": self.preprocess} if self.preprocess else {}
        statement |= {"trees": self.trees} if self.trees != TREES[0] else {}
        statement |= {"outputs": self.outputs} if self.outputs != OUTPUTS[0] else {}
        statement |= {"without": list(self.without)} if self.without else {}
        return {"options": options, "splits": splits, "statement": statement}

    @property
    def limit(self) -> float | None:
        """Seconds that the run is given: an estimator's own option, or the protocol's."""
        return self.method.options.get("time_limit", self.time_limit)

    @property
    def random_state(self) -> int:
        """The seed of the method: every split of every seed has its own."""
        return self.seed * self.splits.count + self.split
