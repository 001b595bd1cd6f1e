"""Protocols: what an experiment runs, read from the TOML files in ``experiments/protocols``.

A protocol states data sets, splits and seeds, methods with options or search grids, the metrics and the statistical
tests of its report, and budgets that override any of these. `experiments/README.md` lists the keys.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

from experiments import files

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
KINDS = ("fit", "solve")
SPLITS = ("holdout", "kfold")
TESTS = ("friedman", "paired_t", "wilcoxon", "mrr", "mrd")
LEAVES = ("constant", "linear")
FEATURES = ("standard", "unit")
TREES = ("oblique", "axis")
PREPROCESS = ("", "gradtree", "gradtree, leave-one-out")
OUTPUTS = ("raw", "standard", "unit")
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
class Given:
    """A problem and a solver as objects, both pickled, in place of their names: the solver's repr, a hash of the
    problem.
    """

    solver: str
    fingerprint: str
    pickled: tuple[bytes, bytes] = field(repr=False)


@dataclass(frozen=True)
class Run:
    """One fit or solve: a row of the store. ``depth`` and ``leaves`` are None where the protocol does not vary them."""

    kind: str
    dataset: str
    splits: Splits
    split: int
    seed: int
    label: str
    method: Method
    depth: int | None
    leaves: str | None
    features: str
    trees: str
    preprocess: str
    outputs: str
    time_limit: float | None
    memory_limit: float | None
    code_version: str
    given: Given | None = None
    without: tuple[str, ...] = ()
    predictions: int = 0

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What tells one run from another; limits do not, but for the time that solvers are given.

        Keys that came later are left out where they have their default: the rows of older stores stay theirs.
        """
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
        if self.given is not None:
            options = {"solver": self.given.solver}
            statement = {"problem": self.given.fingerprint, "seconds": self.time_limit}
        return {
            "dataset": self.dataset,
            "depth": self.depth,
            "leaves": self.leaves,
            "split": self.split,
            "seed": self.seed,
            "method": self.label,
            "options": _canonical(options),
            "splits": _canonical(splits),
            "statement": _canonical(statement),
        }

    @cached_property
    def run_id(self) -> str:
        """A hash of the identity."""
        return hashlib.sha1(_canonical(self.identity).encode()).hexdigest()[:16]

    @property
    def limit(self) -> float | None:
        """Seconds that the run is given: an estimator's own option, or the protocol's."""
        return self.method.options.get("time_limit", self.time_limit)

    @property
    def random_state(self) -> int:
        """The seed of the method: every split of every seed has its own."""
        return self.seed * self.splits.count + self.split

    @property
    def key(self) -> str:
        """The key of the row: the run under this version of the code."""
        return f"{self.run_id}-{self.code_version}"

    def __str__(self) -> str:
        where = "".join(f" {name}={value}" for name, value in (("depth", self.depth), ("leaves", self.leaves)) if value)
        return f"{self.label} on {self.dataset}{where}, seed {self.seed}, split {self.split}"


@dataclass(frozen=True)
class Protocol:
    """A protocol under one budget; see `experiments/README.md` for the keys of the files."""

    named: ClassVar[bool] = True  # whether its methods are names, to be looked up
    name: str
    title: str
    source: str = ""
    note: str = ""
    kind: str = "fit"
    datasets: tuple[str, ...] = ()
    splits: Splits = Splits()
    seeds: tuple[int, ...] = (0,)
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
    sweep: str = ""
    predictions: int = 0
    time_limit: float | None = None
    memory_limit: float | None = None
    limits: tuple[float, ...] = ()
    threads: int | None = None
    store: str = ""
    budget: str = "full"
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

    def runs(self, version: str) -> Iterator[Run]:
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
                                yield Run(
                                    self.kind,
                                    dataset,
                                    self.splits,
                                    split,
                                    seed,
                                    label,
                                    replace(method, options=options, per_dataset={}),
                                    depth if method.depth else None,
                                    leaves,
                                    self.features,
                                    self.trees,
                                    self.preprocess,
                                    self.outputs,
                                    self.time_limit,
                                    self.memory_limit,
                                    version,
                                    without=tuple(self.without.get(dataset, ())),
                                    predictions=self.predictions,
                                )


@dataclass(frozen=True)
class Collection(Protocol):
    """A slice of each of several protocols: some of their runs, on few rows."""

    parts: tuple[Protocol, ...] = ()

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError(f"protocol {self.name}: slices must name at least one protocol; got none")

    def runs(self, version: str) -> Iterator[Run]:
        """The runs of all parts on the first of their splits, each once."""
        seen = set()
        for part in self.parts:
            for one in part.runs(version):
                if one.split == 0 and one.run_id not in seen:
                    seen.add(one.run_id)
                    yield one


def sliced(part: Protocol, rows: int, seconds: float, most_methods: int | None) -> Protocol:
    """A protocol on the first of its data sets, seeds and depths, on few rows, with one value for each option of its
    grids; ``most_methods`` of its methods, or all: first those of a paper's method.
    """
    used = [label for label, method in part.methods.items() if method.use]
    labels = sorted(used, key=lambda label: not part.methods[label].is_printed)[:most_methods]
    methods = {}
    for label in labels:
        method = part.methods[label]
        grids = [{option: values[:1] for option, values in grid.items()} for grid in method.grids[:1]]
        methods[label] = replace(method, grid=grids[0] if grids else {}, trials=0, parts=1)
    return replace(
        part,
        methods=methods,
        datasets=part.datasets[:1],
        seeds=part.seeds[:1],
        depths=part.depths[:1],
        leaves=part.leaves[:1],
        splits=replace(part.splits, most=rows),
        time_limit=seconds,
        limits=(),
        groups={},
        baseline="",
        improvement="",
        tests=(),
        sweep="",
    )


def names() -> list[str]:
    """The protocols that ship; `read` also takes the path of any other TOML file."""
    return files.names(FOLDER / "protocols")


def read(name: str, budget: str = "full") -> Protocol:
    """The protocol called ``name``, or in the file of that path, which ends in ``.toml``, under a budget; ValueError in
    one sentence for what its file should not hold.
    """
    stated = files.stated_in(FOLDER / "protocols", name)
    name = Path(name).stem if name.endswith(".toml") else name
    budgets = stated.pop("budgets", {})
    if budget != "full" and budget not in budgets:
        raise ValueError(f"budget of {name} must be one of {', '.join({'full': 0, **budgets})}; got {budget!r}")
    overrides = dict(budgets.get(budget, {}))
    if "slices" in stated:
        return _collection(name, budget, stated | overrides, tuple({"full": 0, **budgets}))
    options, grids = overrides.pop("options", {}), overrides.pop("grid", {})
    chosen = overrides.pop("methods", None)
    try:
        for key in ("title", "methods"):
            if key not in stated:
                raise ValueError(f"{key} must be stated; got none")
        methods: dict[str, Method] = {}
        for label, method in dict(stated.pop("methods")).items():
            methods |= {name: _method(name, one) for name, one in files.swept(label, method).items()}
        for label in [*options, *grids, *(chosen or ())]:
            if label not in methods:
                raise ValueError(f"budget {budget} must name methods among {', '.join(methods)}; got {label!r}")
        for label, extra in options.items():
            methods[label] = replace(methods[label], options={**methods[label].options, **extra}, reduced=True)
        for label, grid in grids.items():
            methods[label] = replace(methods[label], grid=grid, reduced=True)
        if chosen is not None:
            methods = {label: methods[label] for label in chosen}
        splits = Splits(**{**stated.pop("splits", {}), **overrides.pop("splits", {})})
        values: dict[str, Any] = {**stated, **overrides}
        unknown = set(values) - {f.name for f in fields(Protocol)}
        if unknown:
            raise ValueError(f"unknown key {min(unknown)!r}")
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        for key in ("time_limit", "memory_limit"):
            if isinstance(values.get(key), int):
                values[key] = float(values[key])
        values = {"published": name, "store": name} | values
        if budget != "full":
            _restrict(values, methods)
        return Protocol(
            name=name, methods=methods, splits=splits, budget=budget, budgets=tuple({"full": 0, **budgets}), **values
        )
    except (TypeError, KeyError, ValueError) as error:
        sentence = str(error)
        raise ValueError(sentence if sentence.startswith("protocol ") else f"protocol {name}: {sentence}") from error


def _collection(name: str, budget: str, stated: Mapping[str, Any], budgets: tuple[str, ...]) -> Collection:
    rows, seconds, methods = stated["rows"], float(stated["seconds"]), stated.get("methods")
    parts = tuple(sliced(read(other), rows, seconds, methods) for other in stated["slices"])
    return Collection(
        name=name,
        title=stated["title"],
        source=stated.get("source", ""),
        note=stated.get("note", ""),
        parts=parts,
        budget=budget,
        budgets=budgets,
        store=name,
        time_limit=float(stated["seconds"]),
        memory_limit=8000.0,
        threads=1,
    )


def _method(label: str, stated: Mapping[str, Any]) -> Method:
    known = {f.name for f in fields(Method)}
    if not isinstance(stated, dict) or set(stated) - known:
        got = repr(stated) if not isinstance(stated, dict) else ", ".join(set(stated) - known)
        raise ValueError(f"method {label} must be a table of {', '.join(sorted(known))}; got {got}")
    return Method(**stated)


def _restrict(values: dict[str, Any], methods: Mapping[str, Method]) -> None:
    """Leave out of a budget's groups and tests what has no data sets or methods in it."""
    if values.get("baseline") and values["baseline"] not in methods:
        values["baseline"] = ""
        values["tests"] = tuple(test for test in values.get("tests", ()) if test not in PAIRED)
    kept = {name: [one for one in sets if one in values["datasets"]] for name, sets in values.get("groups", {}).items()}
    values["groups"] = {name: sets for name, sets in kept.items() if sets}


@cache
def code_version() -> str:
    """The version of the packages, and a hash of the code whose change can change a row; comments and docstrings, which
    cannot, are left out of it.
    """
    from opttree import __version__

    digest = hashlib.sha1()
    own = [FOLDER / name for name in ("methods.py", "baselines.py", "execute.py", "sizes.py")]
    sources = [*ROOT.glob("opttree/**/*.py"), *ROOT.glob("solvers/**/*.py"), *own]
    for path in sorted(sources):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
                node.body[0] = ast.Pass()
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("option", "changed"):
                node.args = node.args[:1]  # the second is documentation
                node.keywords = [keyword for keyword in node.keywords if keyword.arg != "doc"]
        digest.update(ast.unparse(tree).encode())
    return f"{__version__}+{digest.hexdigest()[:8]}"


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict)
