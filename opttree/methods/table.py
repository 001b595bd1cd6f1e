"""The table of methods: the command line, the exports of `opttree`, the experiments and the tests read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

TASKS = ("regression", "classification")


@dataclass(frozen=True)
class Method:
    """A method under its command-line name.

    regressor, classifier : ``"module:Class"``, or "" if there is none for the task.
    solver : the class in `solvers` that it runs; "" for other libraries' methods.
    family : its name in the experiments, shared by methods that differ in options only; "" for other libraries'
        methods.
    options : the options that define it within its family.
    is_forest : whether its model is a forest.
    has_depth, has_device : whether it takes ``--depth`` and ``--device``.
    """

    doc: str
    regressor: str = ""
    classifier: str = ""
    solver: str = ""
    family: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    is_forest: bool = False
    has_depth: bool = True
    has_device: bool = False

    def estimator_class(self, task: str) -> Any:
        """The class for a task, "regression" or "classification", or None."""
        place = self.regressor if task == "regression" else self.classifier
        module, _colon, name = place.partition(":")
        return getattr(import_module(module), name) if place else None


def _ours(doc: str, module: str, regressor: str, classifier: str, **others: Any) -> Method:
    home = f"opttree.estimators.{module}"
    return Method(doc, f"{home}:{regressor}Regressor", f"{home}:{classifier}Classifier" if classifier else "", **others)


METHODS: dict[str, Method] = {
    "cart": Method(
        "scikit-learn's CART tree", "sklearn.tree:DecisionTreeRegressor", "sklearn.tree:DecisionTreeClassifier"
    ),
    "rf": Method(
        "scikit-learn's random forest of 100 trees",
        "sklearn.ensemble:RandomForestRegressor",
        "sklearn.ensemble:RandomForestClassifier",
        is_forest=True,
        has_depth=False,
    ),
    "tao-c": _ours("TAO, oblique splits, constant leaves", "tao", "TAO", "TAO", solver="TAO", family="tao"),
    "tao-l": _ours(
        "TAO, oblique splits, linear leaves",
        "tao", "TAO", "TAO", solver="TAO", family="tao", options={"leaves": "linear"},
    ),
    "tao-axis": _ours(
        "TAO, axis-aligned splits, constant leaves",
        "tao", "TAO", "TAO", solver="TAO", family="tao", options={"splits": "axis"},
    ),
    "get": _ours(
        "GET, whole-tree gradients, constant leaves", "get", "GET", "GET", solver="GET", family="get", has_device=True
    ),
    "get-linear": _ours(
        "GET, whole-tree gradients, linear leaves",
        "get", "GET", "GET", solver="GET", family="get", options={"leaves": "linear"}, has_device=True,
    ),
    "srt": _ours(
        "SRT, soft tree by node-based decomposition, linear leaves",
        "soft", "SRT", "SRT", solver="NODEC", family="srt", has_device=True,
    ),
    "gradtree": _ours(
        "GradTree, axis-aligned splits, constant leaves, by straight-through gradients",
        "gradtree", "GradTree", "GradTree", solver="GradTree", family="gradtree", has_device=True,
    ),
    "ort": _ours(
        "ORT or OCT, axis-aligned splits, constant leaves, proved optimal, or with its gap after 10 s",
        "ort", "ORT", "OCT", solver="MIP", family="ort",
    ),
    "ort-l": _ours(
        "ORT-L, axis-aligned splits, linear leaves, by local search; regression only",
        "ort", "ORT", "", solver="LocalSearch", family="ort", options={"leaves": "linear", "solver": "local"},
    ),
    "orrt": _ours(
        "ORRT, soft tree that answers with the mixture of its linear leaves",
        "soft", "ORRT", "ORRT", solver="ORRT", family="orrt", has_device=True,
    ),
    "sdtr": _ours(  # quantile_transform=False: a model file holds a tree of raw features
        "SDTR, soft tree that answers with the mixture of its constant leaves",
        "sdtr", "SDTR", "SDTR", solver="SDTR", family="sdtr", options={"quantile_transform": False}, has_device=True,
    ),
    "raddt": _ours(
        "RADDT, oblique splits, constant leaves, by a softmin over the leaves",
        "rectified", "RADDT", "RADDT", solver="RADDT", family="raddt",
    ),
    "dtsemnet": _ours(
        "DTSemNet, oblique splits, by gradients of a network that is the tree; linear leaves in regression",
        "rectified", "DTSemNet", "DTSemNet", solver="DTSemNet", family="dtsemnet",
    ),
    "hrt": _ours(
        "HRT, hinge regression tree, linear leaves, top-down by Newton steps; regression only",
        "rectified", "HRT", "", solver="HRT", family="hrt",
    ),
    "auto": _ours(
        "the best tree of a portfolio, distilled and soft ones among them, within --time-limit or a minute; no --depth",
        "auto", "AutoTree", "AutoTree", solver="Distilled", family="auto", has_depth=False,
    ),
    "forest": _ours(
        "30 averaged trees of a depth of their own: TAO's, or CART's with leaves of ours, see kind_",
        "forest", "TAOForest", "TAOForest", solver="TAOForest", family="tao-forest", is_forest=True, has_depth=False,
    ),
    "boosted": _ours(
        "gradient boosting with trees of TAO, or CART's with leaves of ours, of a depth of their own",
        "boosting", "BoostedTrees", "BoostedTrees", solver="Boosting", family="boosted", is_forest=True,
        has_depth=False,
    ),
}  # fmt: skip


def families() -> dict[str, Method]:
    """The toolkit's methods by their names in the experiments; of each family, the first member."""
    first: dict[str, Method] = {}
    for method in METHODS.values():
        if method.family:
            first.setdefault(method.family, method)
    return first


def estimators() -> dict[str, str]:
    """The toolkit's estimators, and the module of each."""
    places = [place for m in families().values() for place in (m.regressor, m.classifier) if place]
    return {name: module for module, _colon, name in (place.partition(":") for place in places)}


def make_estimator(method: str, task: str, depth: int, seed: int, jobs: int | None = None, **options: Any) -> Any:
    """The estimator that ``method`` (a key of `METHODS`) names, for a task.

    ``options`` are passed to it; ``device`` only if it has this option.

    Raises
    ------
    ValueError
        If the method is not for the task.
    """
    chosen = METHODS[method]
    kind = chosen.estimator_class(task)
    if kind is None:
        raise ValueError(f"method {method} is for regression; got a {task} task")
    if not chosen.has_device:
        options.pop("device", None)
    if method == "auto" and options.get("time_limit", 0) is None:
        del options["time_limit"]  # keep the estimator's default
    if chosen.has_depth:
        options["max_depth"] = depth
    if chosen.family:
        options["n_jobs"] = jobs
    elif method == "rf":
        options["n_jobs"] = jobs or -1
    return kind(random_state=seed, **chosen.options, **options)
