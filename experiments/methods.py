"""The methods that protocols name: estimators of the toolkit, and other libraries' as baselines, an entry each."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression

import solvers
from opttree.methods.table import families
from opttree.runtime.options import Checked


class UnavailableError(Exception):
    """Why a method cannot run here, in one sentence."""


@dataclass(frozen=True)
class Entry:
    """Where a method's classes are: ``"module:Class"`` per task; ``needs`` is what pip calls the library.

    seed, threads : names of the options that take them, "" where there is none.
    compiled : whether a first fit compiles code, which is then done off the clock.
    unfit : why its fits would fail here, or "".
    """

    regressor: str = ""
    classifier: str = ""
    needs: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    seed: str = "random_state"
    threads: str = "n_jobs"
    compiled: bool = False
    unfit: str = ""


def _sklearn(module: str, name: str, threads: str = "n_jobs", **defaults: Any) -> Entry:
    return Entry(
        f"sklearn.{module}:{name}Regressor", f"sklearn.{module}:{name}Classifier", threads=threads, defaults=defaults
    )


METHODS: dict[str, Entry] = {  # other libraries'
    "cart": _sklearn("tree", "DecisionTree", threads=""),
    "linear-regression": Entry("sklearn.linear_model:LinearRegression", seed="", threads=""),
    "random-forest": _sklearn("ensemble", "RandomForest"),
    "extra-trees": _sklearn("ensemble", "ExtraTrees"),
    "adaboost": Entry(
        "experiments.baselines:AdaBoostedTreesRegressor", "experiments.baselines:AdaBoostedTreesClassifier", threads=""
    ),
    "tuned-random-forest": Entry("experiments.baselines:TunedRandomForestRegressor"),
    "xgboost": Entry("xgboost:XGBRegressor", "xgboost:XGBClassifier", "xgboost"),
    "lightgbm": Entry("lightgbm:LGBMRegressor", "lightgbm:LGBMClassifier", "lightgbm", {"verbose": -1}),
    "xgboost-stopped": Entry("experiments.baselines:StoppedXGBRegressor", needs="xgboost"),
    "lightgbm-stopped": Entry("experiments.baselines:StoppedLGBMRegressor", needs="lightgbm"),
    "catboost": Entry(
        "catboost:CatBoostRegressor",
        "catboost:CatBoostClassifier",
        "catboost",
        {"verbose": False, "allow_writing_files": False},
        threads="thread_count",
    ),
    "hist-gradient-boosting": _sklearn("ensemble", "HistGradientBoosting", threads=""),
    "perpetual": Entry(
        "perpetual:PerpetualRegressor", "perpetual:PerpetualClassifier", "perpetual", seed="seed", threads="num_threads"
    ),
    "explainable-boosting": Entry(
        "interpret.glassbox:ExplainableBoostingRegressor",
        "interpret.glassbox:ExplainableBoostingClassifier",
        "interpret-core",
    ),
    "streed": Entry(
        "pystreed:STreeDRegressor",
        "pystreed:STreeDClassifier",
        "pystreed",
        seed="random_seed",
        threads="",
    ),
    "linear-tree": Entry(
        "lineartree:LinearTreeRegressor",
        needs="linear-tree",
        defaults={"base_estimator": LinearRegression()},
        seed="",
        unfit=""
        if hasattr(BaseEstimator, "_validate_data")
        else "linear-tree 0.3.5 calls what scikit-learn 1.6 has not",
    ),
}


def entry(name: str) -> Entry:
    """The entry called ``name``; ValueError where there is none."""
    known = {name: Entry(m.regressor, m.classifier, compiled=True) for name, m in families().items()} | METHODS
    if name not in known:
        raise ValueError(f"use must be one of {', '.join(known)}; got {name!r}")
    return known[name]


def estimator_class(name: str, task: str) -> Any:
    """The class of a method for a task; `UnavailableError` where it has none, or its library is missing."""
    found = entry(name)
    place = found.regressor if task == "regression" else found.classifier
    if not place:
        raise UnavailableError(f"{name} has no estimator for {task}")
    if found.unfit:
        raise UnavailableError(found.unfit)
    module, attribute = place.split(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise UnavailableError(f"{name} needs {found.needs or module}: pip install {found.needs or module}") from error
    except AttributeError as error:
        raise UnavailableError(f"{module} has no {attribute} in this version") from error


def estimator(name: str, task: str, options: Mapping[str, Any], *, depth: int | None, seed: int, threads: int) -> Any:
    """An unfitted estimator; options win over the depth, the seed and the entry's defaults."""
    kind, found = estimator_class(name, task), entry(name)
    arguments = dict(found.defaults)
    if found.seed:
        arguments[found.seed] = seed
    if found.threads:
        arguments[found.threads] = threads
    if depth is not None:
        arguments["max_depth"] = depth
    return kind(**{**arguments, **{option: value(stated) for option, stated in options.items()}})


def value(stated: Any) -> Any:
    """What an option of a protocol stands for: a text such as ``"HingeInit()"`` for the solver, all else for itself."""
    return solver(stated) if isinstance(stated, str) and stated.endswith(")") else stated


def _callable() -> dict[str, Any]:
    """What a text may call by name: the solvers, and what they take as options, such as solvers of nodes."""
    ours = {name: getattr(solvers, name) for name in solvers.__all__}
    theirs = {f"external.{name}": getattr(solvers.external, name) for name in solvers.external.__all__}
    bases = (solvers.Solver, solvers.external.External)
    return {
        name: kind
        for name, kind in {**ours, **theirs}.items()
        if isinstance(kind, type) and issubclass(kind, Checked) and kind not in bases
    }


def solver(text: str) -> solvers.Solver:
    """The solver that a text such as ``"Chain(TAO(), LocalSearch(n_starts=5))"`` states: calls of the solvers in
    `solvers`, such as ``external.STreeD()`` of its module of other libraries, of their presets, such as
    ``GET.paper()``, and of what they take as options, with constants and further such calls as arguments, and nothing
    else.
    """
    known = _callable()

    def build(node: ast.expr) -> Any:
        if isinstance(node, ast.Call):
            stated = [word.arg for word in node.keywords]
            if None in stated or any(isinstance(value, ast.Starred) for value in node.args):
                raise ValueError("options must be stated one by one, without * and **")
            if len(set(stated)) < len(stated):
                raise ValueError(f"options must be stated once; got {max(stated, key=stated.count)} again")
            keywords = {str(word.arg): build(word.value) for word in node.keywords}
            return named(ast.unparse(node.func))(*map(build, node.args), **keywords)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(build(value) for value in node.elts)
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise ValueError(f"arguments must be constants or calls of solvers; got {ast.unparse(node)}") from None

    def named(name: str) -> Any:
        if name in known:
            return known[name]
        kind, _dot, preset = name.rpartition(".")
        found = inspect.getattr_static(known[kind], preset, None) if kind in known else None
        if not isinstance(found, (classmethod, staticmethod)) or preset.startswith("_"):
            raise ValueError(f"names must be of {', '.join(known)}; got {name}")
        return getattr(known[kind], preset)  # GET.paper(...)

    try:
        built = build(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, TypeError, SyntaxError, AttributeError) as error:
        raise ValueError(f"use must state a solver; got {text!r} ({error})") from error
    except (RecursionError, MemoryError) as error:
        raise ValueError(f"use must state a solver; got {text[:50]!r}..., which is nested too deeply") from error
    if not isinstance(built, solvers.Solver):
        raise ValueError(f"use must state a solver; got {text!r}")
    return built
