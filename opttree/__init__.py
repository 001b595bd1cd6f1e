"""opttree: decision-tree training stated as an optimization problem and solved with interchangeable solvers.

With a table, take an estimator of scikit-learn's kind: `TAOForestRegressor` or `BoostedTreesClassifier` where only
accuracy counts, `TAORegressor` for a single tree to read, `AutoTreeRegressor` for the best one within a time,
`ORTRegressor` and `OCTClassifier` for small trees with a proof, or a bound, of how good they are. To find, bound and
compare trees, state a `TreeProblem` and solve it with `solvers`.

>>> import opttree
>>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
>>> model = opttree.TAORegressor(max_depth=3, leaves="linear", random_state=0).fit(X[:300], y[:300])
>>> model.score(X[300:], y[300:]) > 0.3                     # R2
True

`export` and `to_onnx` hand models to other programs, `explain` says why, `plotting` draws, `save` and `load` keep.
All names are resolved on first use, so that ``import opttree`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opttree.runtime.versions import __version__ as __version__

if TYPE_CHECKING:
    from opttree import (
        causal as causal,
        chunks as chunks,
        constraints as constraints,
        datasets as datasets,
        encoding as encoding,
        explain as explain,
        export as export,
        interpret as interpret,
        io as io,
        losses as losses,
        plotting as plotting,
        preprocessing as preprocessing,
        survival as survival,
    )
    from opttree.estimators import *
    from opttree.estimators.bridge import race as race
    from opttree.estimators.clusters import KMeansTree as KMeansTree
    from opttree.estimators.costly import CostClassifier as CostClassifier
    from opttree.estimators.effects import CausalTree as CausalTree
    from opttree.estimators.policy import DRPolicyTree as DRPolicyTree, PolicyTree as PolicyTree
    from opttree.estimators.survival import SurvivalForest as SurvivalForest, SurvivalTree as SurvivalTree
    from opttree.explain.privacy import PrivacyReport as PrivacyReport, privacy_report as privacy_report
    from opttree.export.compiled import CompiledModel as CompiledModel, compile as compile
    from opttree.export.onnx import to_onnx as to_onnx
    from opttree.methods.costs import Cost as Cost, estimate_cost as estimate_cost
    from opttree.methods.warming import warm_up as warm_up
    from opttree.model.files import Model as Model, load as load, save as save
    from opttree.model.forest import Forest as Forest
    from opttree.model.tree import Tree as Tree
    from opttree.problems import (
        L1 as L1,
        L2 as L2,
        DenseTreeProblem as DenseTreeProblem,
        ExactTreeProblem as ExactTreeProblem,
        FeatureL1 as FeatureL1,
        L2Constants as L2Constants,
        MIPTreeProblem as MIPTreeProblem,
        SmoothTreeProblem as SmoothTreeProblem,
        SoftForestProblem as SoftForestProblem,
        SplitPrice as SplitPrice,
        SubtreeProblem as SubtreeProblem,
        TreeProblem as TreeProblem,
    )
    from opttree.runtime.interrupts import InterruptedFitWarning as InterruptedFitWarning
    from opttree.runtime.versions import show_versions as show_versions
    from opttree.tables.checks import TableWarning as TableWarning
    from opttree.tables.describe import TableReport as TableReport, describe_table as describe_table
    from opttree.tables.parts import Rows as Rows
    from opttree.tables.reading import read_table as read_table

_HOMES = {
    "Tree": "opttree.model.tree",
    "Forest": "opttree.model.forest",
    "TreeProblem": "opttree.statement",
    "SmoothTreeProblem": "opttree.problems",
    "SoftForestProblem": "opttree.problems",
    "DenseTreeProblem": "opttree.problems",
    "ExactTreeProblem": "opttree.problems",
    "MIPTreeProblem": "opttree.problems",
    "SubtreeProblem": "opttree.problems",
    "L1": "opttree.statement",
    "L2": "opttree.statement",
    "FeatureL1": "opttree.statement",
    "L2Constants": "opttree.statement",
    "SplitPrice": "opttree.statement",
    "InterruptedFitWarning": "opttree.runtime.interrupts",
    "TableWarning": "opttree.tables.checks",
    "Model": "opttree.model.files",
    "load": "opttree.model.files",
    "save": "opttree.model.files",
    "show_versions": "opttree.runtime.versions",
    "warm_up": "opttree.methods.warming",
    "Cost": "opttree.methods.costs",
    "estimate_cost": "opttree.methods.costs",
    "race": "opttree.estimators.bridge",
    "CompiledModel": "opttree.export.compiled",
    "compile": "opttree.export.compiled",
    "to_onnx": "opttree.export.onnx",
    "CausalTree": "opttree.estimators.effects",
    "DRPolicyTree": "opttree.estimators.policy",
    "PolicyTree": "opttree.estimators.policy",
    "KMeansTree": "opttree.estimators.clusters",
    "CostClassifier": "opttree.estimators.costly",
    "SurvivalForest": "opttree.estimators.survival",
    "SurvivalTree": "opttree.estimators.survival",
    "TableEncoder": "opttree.tables.encoder",
    "TableReport": "opttree.tables.describe",
    "describe_table": "opttree.tables.describe",
    "read_table": "opttree.tables.reading",
    "Rows": "opttree.tables.parts",
    "PrivacyReport": "opttree.explain.privacy",
    "privacy_report": "opttree.explain.privacy",
}
_MODULES = (
    "causal",
    "chunks",
    "constraints",
    "datasets",
    "encoding",
    "explain",
    "export",
    "interpret",
    "io",
    "losses",
    "plotting",
    "preprocessing",
    "survival",
)


def _homes() -> dict[str, str]:
    """The module of every name; estimators are found by their decorators."""
    from opttree.methods.table import estimators

    return {**_HOMES, **estimators()}


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__all__":
        value = sorted([*_homes(), *_MODULES])
    elif name in _MODULES:
        value = import_module(f"opttree.{name}")
    elif not name.startswith("_") and (home := _HOMES.get(name) or _homes().get(name)) is not None:
        value = getattr(import_module(home), name)
    else:
        raise AttributeError(f"module 'opttree' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__getattr__("__all__"), "__version__"])
