"""Protocols: what an experiment runs and reports; `experiments.reading` reads them from ``experiments/protocols``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments import methods
from experiments.execute import execute
from experiments.planned import OUTPUTS, TREES, Method, PlannedRun, Splits
from solvers.races import entries
from solvers.races.plans import Plan
from solvers.races.runs import code_version

FOLDER = Path(__file__).parent
WORKING = ("baselines", "execute", "methods", "sizes", "statements")  # the modules whose change can change a row
KINDS = ("fit", "solve")
TESTS = ("friedman", "paired_t", "wilcoxon", "mrr", "mrd")
LEAVES = ("constant", "linear")
FEATURES = ("standard", "unit")
PREPROCESS = ("", "gradtree", "gradtree, leave-one-out")
LISTS: dict[str, Any] = {
    "datasets": str,
    "seeds": int,
    "depths": int,
    "leaves": str,
    "metrics": str,
    "tests": str,
    "limits": (int, float),
}
PAIRED = ("paired_t", "wilcoxon")  # tests against a baseline
MEAN = "mean"  # in place of a data set
NAMES = {str: "names", int: "integers", (int, float): "numbers"}


@dataclass(frozen=True)
class Protocol(Plan):
    """A protocol under one budget; see `experiments/README.md` for the keys of the files."""

    execute = staticmethod(execute)
    kind: str = "fit"
    datasets: tuple[str, ...] = ()
    splits: Splits = field(default_factory=Splits)
    depths: tuple[int, ...] = ()
    leaves: tuple[str, ...] = ()
    features: str = "standard"
    trees: str = "oblique"
    preprocess: str = ""
    outputs: str = "raw"
    methods: Mapping[str, Method] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("test_r2",)
    tests: tuple[str, ...] = ()
    baseline: str = ""
    published: str = ""
    summary: bool = False
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    without: Mapping[str, Sequence[str]] = field(default_factory=dict)
    improvement: str = ""
    ruler: str = ""
    sweep: str = ""
    predictions: int = 0
    store: str = ""
    budgets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, kind in LISTS.items():
            values = getattr(self, name)
            if not isinstance(values, tuple) or not all(isinstance(v, kind) for v in values):
                raise ValueError(f"protocol {self.name}: {name} must be a list of {NAMES[kind]}; got {values!r}")
            if len(set(values)) < len(values):
                raise ValueError(f"protocol {self.name}: {name} must hold each value once; got {list(values)}")
        checks = (
            (self.kind in KINDS, f"kind must be one of {', '.join(KINDS)}; got {self.kind!r}"),
            (bool(self.datasets), "datasets must name at least one data set; got none"),
            (bool(self.methods), "methods must name at least one method; got none"),
            (bool(self.seeds), "seeds must hold at least one seed; got none"),
            (all(d >= 1 for d in self.depths), f"depths must be >= 1; got {list(self.depths)}"),
            (set(self.leaves) <= set(LEAVES), f"leaves must be among {', '.join(LEAVES)}; got {list(self.leaves)}"),
            (self.trees in TREES, f"trees must be one of {', '.join(TREES)}; got {self.trees!r}"),
            (self.preprocess in PREPROCESS, f"preprocess must be one of {PREPROCESS}; got {self.preprocess!r}"),
            (self.outputs in OUTPUTS, f"outputs must be one of {', '.join(OUTPUTS)}; got {self.outputs!r}"),
            (
                self.kind == "fit" or self.outputs != "standard",
                "outputs must be raw or unit in a solve protocol, which standardises raw ones; got 'standard'",
            ),
            (
                all(set(sets) <= set(self.datasets) for sets in self.groups.values()),
                "groups must be of data sets of the protocol",
            ),
            (
                not self.improvement or self.improvement in self.methods,
                f"improvement must be over one of the methods; got {self.improvement!r}",
            ),
            (
                not self.ruler or self.ruler in self.methods,
                f"ruler must be one of the methods; got {self.ruler!r}",
            ),
            (
                not self.preprocess or not any(m.warm for m in self.methods.values()),
                "warm is not for protocols with preprocess",
            ),
            (self.threads is None or self.threads >= 1, f"threads must be >= 1; got {self.threads}"),
            (self.features in FEATURES, f"features must be one of {', '.join(FEATURES)}; got {self.features!r}"),
            (set(self.tests) <= set(TESTS), f"tests must be among {', '.join(TESTS)}; got {list(self.tests)}"),
            (
                not self.baseline or self.baseline in self.methods,
                f"baseline must be one of the methods {', '.join(self.methods)}; got {self.baseline!r}",
            ),
            (
                bool(self.baseline) or not set(PAIRED) & set(self.tests),
                "paired_t and wilcoxon need a baseline; got none",
            ),
            (
                {label for m in self.methods.values() for label in m.peers}
                <= {label for label, m in self.methods.items() if m.use},
                "best_of must be the label of another method",
            ),
            (bool(self.metrics), "metrics must name at least one metric; got none"),
            (self.kind == "solve" or not self.leaves, "leaves is for solve protocols; state it as a method's option"),
            (
                self.kind == "fit" or bool(self.depths and self.leaves and self.time_limit),
                "a solve protocol must state depths, leaves and a time_limit",
            ),
            (self.time_limit is None or self.time_limit > 0, f"time_limit must be > 0 seconds; got {self.time_limit}"),
            (
                self.memory_limit is None or self.memory_limit > 0,
                f"memory_limit must be > 0 MB; got {self.memory_limit}",
            ),
        )
        for holds, sentence in checks:
            if not holds:
                raise ValueError(f"protocol {self.name}: {sentence}")

    @property
    def means(self) -> dict[str, Sequence[str]]:
        """The data sets of each mean of the report."""
        return dict(self.groups) or {MEAN: self.datasets}

    @property
    def sweeps(self) -> tuple[str, ...]:
        """The swept options."""
        return tuple(filter(None, self.sweep.split(", ")))

    def stands_for(self, label: str) -> str:
        """The published label that a method is compared with."""
        return self.methods[label].stands_for or label if label in self.methods else label

    def rows_of(self, seed: int) -> int:
        """The seed, if every seed draws rows of its own; else 0."""
        return seed if self.splits.per_seed else 0

    def check(self) -> None:
        """ValueError for a method that no entry states, or a solver that no text does."""
        for label, method in self.methods.items():
            if method.use:
                try:
                    (methods.entry if self.kind == "fit" else entries.solver)(method.use)
                except ValueError as error:
                    raise ValueError(f"protocol {self.name}, method {label}: {error}") from error

    @staticmethod
    def version() -> str:
        """That of opttree, the solvers, and of what here does runs."""
        return code_version(*(FOLDER / f"{name}.py" for name in WORKING))

    def runs(self, version: str) -> Iterator[PlannedRun]:
        """Every run of the protocol, data set by data set."""
        for dataset in self.datasets:
            for depth in self.depths or (None,):
                for leaves in self.leaves or (None,):
                    for seed in self.seeds:
                        for split in range(self.splits.count):
                            for label, method in self.methods.items():
                                if method.best_of or (not method.depth and depth != (self.depths or (None,))[0]):
                                    continue
                                options = {**method.options, **method.per_dataset.get(dataset, {})}
                                yield PlannedRun(
                                    dataset,
                                    split,
                                    seed,
                                    label,
                                    depth if method.depth else None,
                                    leaves,
                                    self.time_limit,
                                    self.memory_limit,
                                    version,
                                    self.kind,
                                    self.splits,
                                    replace(method, options=options, per_dataset={}),
                                    self.features,
                                    self.trees,
                                    self.preprocess,
                                    self.outputs,
                                    tuple(self.without.get(dataset, ())),
                                    self.predictions,
                                )


@dataclass(frozen=True)
class Collection(Protocol):
    """A slice of each of several protocols: some of their runs, on few rows."""

    parts: tuple[Protocol, ...] = ()

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError(f"protocol {self.name}: slices must name at least one protocol; got none")

    def runs(self, version: str) -> Iterator[PlannedRun]:
        """The runs of all parts on the first of their splits, each once."""
        seen = set()
        for part in self.parts:
            for one in part.runs(version):
                if one.split == 0 and one.run_id not in seen:
                    seen.add(one.run_id)
                    yield one
