"""opttree: decision-tree training stated as an optimization problem and solved with interchangeable solvers.

Names are resolved on first use (PEP 562), so that ``import opttree`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opttree import chunks, datasets, interpret, io, plotting, preprocessing
    from opttree.estimators import (
        AutoTreeClassifier,
        AutoTreeRegressor,
        BoostedTreesClassifier,
        BoostedTreesRegressor,
        GETClassifier,
        GETRegressor,
        GradTreeClassifier,
        GradTreeRegressor,
        OCTClassifier,
        ORRTRegressor,
        ORTRegressor,
        SDTRRegressor,
        SRTRegressor,
        TAOClassifier,
        TAOForestClassifier,
        TAOForestRegressor,
        TAORegressor,
    )
    from opttree.forest import Forest
    from opttree.interrupts import InterruptedFitWarning
    from opttree.io import Model, load, save
    from opttree.problems import (
        L1,
        L2,
        DenseTreeProblem,
        MIPTreeProblem,
        SmoothTreeProblem,
        SoftForestProblem,
        SplitPrice,
        SubtreeProblem,
        TreeProblem,
    )
    from opttree.tree import Tree

__version__ = "0.1.0"

_HOMES = {
    "Tree": "opttree.tree",
    "Forest": "opttree.forest",
    "TreeProblem": "opttree.problems",
    "SmoothTreeProblem": "opttree.problems",
    "SoftForestProblem": "opttree.problems",
    "DenseTreeProblem": "opttree.problems",
    "MIPTreeProblem": "opttree.problems",
    "SubtreeProblem": "opttree.problems",
    "L1": "opttree.problems",
    "L2": "opttree.problems",
    "SplitPrice": "opttree.problems",
    "AutoTreeClassifier": "opttree.estimators",
    "AutoTreeRegressor": "opttree.estimators",
    "BoostedTreesClassifier": "opttree.estimators",
    "BoostedTreesRegressor": "opttree.estimators",
    "GETRegressor": "opttree.estimators",
    "GETClassifier": "opttree.estimators",
    "GradTreeClassifier": "opttree.estimators",
    "GradTreeRegressor": "opttree.estimators",
    "OCTClassifier": "opttree.estimators",
    "ORRTRegressor": "opttree.estimators",
    "ORTRegressor": "opttree.estimators",
    "SDTRRegressor": "opttree.estimators",
    "SRTRegressor": "opttree.estimators",
    "TAOForestClassifier": "opttree.estimators",
    "TAOForestRegressor": "opttree.estimators",
    "TAORegressor": "opttree.estimators",
    "TAOClassifier": "opttree.estimators",
    "InterruptedFitWarning": "opttree.interrupts",
    "Model": "opttree.io",
    "load": "opttree.io",
    "save": "opttree.io",
}
_MODULES = ("chunks", "datasets", "interpret", "io", "plotting", "preprocessing")

__all__ = [
    "L1",
    "L2",
    "AutoTreeClassifier",
    "AutoTreeRegressor",
    "BoostedTreesClassifier",
    "BoostedTreesRegressor",
    "DenseTreeProblem",
    "Forest",
    "GETClassifier",
    "GETRegressor",
    "GradTreeClassifier",
    "GradTreeRegressor",
    "InterruptedFitWarning",
    "MIPTreeProblem",
    "Model",
    "OCTClassifier",
    "ORRTRegressor",
    "ORTRegressor",
    "SDTRRegressor",
    "SRTRegressor",
    "SmoothTreeProblem",
    "SoftForestProblem",
    "SplitPrice",
    "SubtreeProblem",
    "TAOClassifier",
    "TAOForestClassifier",
    "TAOForestRegressor",
    "TAORegressor",
    "Tree",
    "TreeProblem",
    "chunks",
    "datasets",
    "interpret",
    "io",
    "load",
    "plotting",
    "preprocessing",
    "save",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"opttree.{name}")
    else:
        raise AttributeError(f"module 'opttree' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
