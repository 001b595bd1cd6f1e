"""The methods that protocols name: estimators of the toolkit, and other libraries' as baselines, an entry each."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression

from opttree.methods.table import families
from solvers.races.entries import value
from solvers.races.runs import UnavailableError


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
        "experiments.baselines:PerpetualRegressor",
        "experiments.baselines:PerpetualClassifier",
        "perpetual",
        seed="seed",
        threads="num_threads",
    ),
    "perpetual-own": Entry("perpetual:PerpetualRegressor", "perpetual:PerpetualClassifier", "perpetual", seed="seed"),
    "tabnet": Entry("experiments.baselines:TabNetStoppedRegressor", needs="pytorch-tabnet", threads=""),
    "hhcart": Entry("experiments.baselines:HHCARTRegressor", needs="scikit-obliquetree", seed="", threads=""),
    "dl85": Entry(classifier="experiments.baselines:DL85QuantileClassifier", needs="pytrees-rs", seed="", threads=""),
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
