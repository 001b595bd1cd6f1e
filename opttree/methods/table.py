"""The table of methods: the command line, the exports of `opttree`, the experiments and the tests read it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

ESTIMATORS = Path(__file__).resolve().parents[1] / "estimators"
_Class = TypeVar("_Class", bound=type)
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
    chooses_depth : whether it chooses the depth where this is "auto".
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
    chooses_depth: bool = False

    def estimator_class(self, task: str) -> Any:
        """The class for a task, "regression" or "classification", or None."""
        place = self.regressor if task == "regression" else self.classifier
        module, _colon, name = place.partition(":")
        try:
            return getattr(import_module(module), name) if place else None
        except ImportError as error:
            raise ValueError(f"{name} needs {module}: pip install {module}") from error


def estimator(family: str, **declared: Any) -> Callable[[_Class], _Class]:
    """Decorator of an estimator, whose module stands in `opttree.estimators`: it puts the class into `METHODS`.

    The table reads decorators without running their files, so that all arguments are literals.

    Parameters
    ----------
    family : str
        The name of the method in the experiments.
    **declared : Any
        ``methods``, of one class of the family: for each name on the command line what it is and the options that
        define it. ``names``, of a class that not all of these have: those that it has. ``solver``, ``is_forest``,
        ``has_depth`` and ``has_device`` are as in `Method`.

    Returns
    -------
    Callable
        Returns the class as it is.
    """
    return lambda kind: kind


def _declarations() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Module, class, family and other arguments of each decorator `estimator`."""
    for path in sorted(ESTIMATORS.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        for kind, call in ((one, call) for one in classes for call in one.decorator_list):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "estimator":
                (family,) = map(ast.literal_eval, call.args)
                others = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
                yield f"opttree.estimators.{path.stem}", kind.name, family, others


def _found() -> dict[str, Method]:
    """The toolkit's methods."""
    places: dict[tuple[str, str], dict[str, str]] = {}  # of a family and a method, or of all of the family
    rows: dict[str, Method] = {}
    for module, name, family, declared in _declarations():
        task = "regressor" if name.endswith("Regressor") else "classifier"
        for method in declared.pop("names", ("",)):
            places.setdefault((family, method), {})[task] = f"{module}:{name}"
        for method, (doc, options) in declared.pop("methods", {}).items():
            rows[method] = Method(doc, family=family, options=options, **declared)
    found = {}
    for name, row in rows.items():
        classes: dict[str, Any] = places.get((row.family, ""), {}) | places.get((row.family, name), {})
        found[name] = replace(row, **classes)
    return found


_PEER: dict[str, Any] = {"is_forest": True, "has_depth": False}  # with the defaults of their libraries
_QUIET = {"lightgbm": {"verbose": -1}, "catboost": {"verbose": 0, "allow_writing_files": False}}

METHODS: dict[str, Method] = {
    "cart": Method(
        "scikit-learn's CART tree", "sklearn.tree:DecisionTreeRegressor", "sklearn.tree:DecisionTreeClassifier"
    ),
    "linear": Method(
        "scikit-learn's ridge regression, or its logistic one, of a strength by cross-validation",
        "sklearn.linear_model:RidgeCV",
        "sklearn.linear_model:LogisticRegressionCV",
        has_depth=False,
    ),
    "rf": Method(
        "scikit-learn's random forest of 100 trees",
        "sklearn.ensemble:RandomForestRegressor",
        "sklearn.ensemble:RandomForestClassifier",
        is_forest=True,
        has_depth=False,
    ),
    "lightgbm": Method("LightGBM's boosted trees", "lightgbm:LGBMRegressor", "lightgbm:LGBMClassifier", **_PEER),
    "xgboost": Method("XGBoost's boosted trees", "xgboost:XGBRegressor", "xgboost:XGBClassifier", **_PEER),
    "catboost": Method("CatBoost's trees", "catboost:CatBoostRegressor", "catboost:CatBoostClassifier", **_PEER),
    **_found(),
}


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


USUAL_DEPTH = 4  # of methods that do not choose theirs, where it is left to them


def make_estimator(method: str, task: str, depth: int | str, seed: int, jobs: int | None = None, **options: Any) -> Any:
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
    if method == "linear":
        return _linear(kind, task)
    if chosen.has_depth:
        options["max_depth"] = USUAL_DEPTH if depth == "auto" and not chosen.chooses_depth else depth
    if chosen.family:
        options["n_jobs"] = jobs
    elif method == "catboost":
        options |= {"thread_count": jobs or -1, **_QUIET[method]}
    elif method != "cart":
        options |= {"n_jobs": jobs or -1, **_QUIET.get(method, {})}
    return kind(random_state=seed, **chosen.options, **options)


def _linear(kind: Any, task: str) -> Any:
    """A linear model of standardised features, of the strength that cross-validation finds best."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    strengths = [10.0**k for k in range(-3, 5)]
    if task == "regression":
        return make_pipeline(StandardScaler(), kind(strengths))
    said: dict[str, Any] = {"l1_ratios": (0.0,), "use_legacy_attributes": False, "scoring": "accuracy"}  # its defaults
    return make_pipeline(StandardScaler(), kind(Cs=strengths[:6], max_iter=500, **said))
