"""Problems derived from a `TreeProblem`, each in the form that a kind of solver works on; found on first use."""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

if _TYPE_CHECKING:
    from opttree.problems.dense.problem import DenseTreeProblem as DenseTreeProblem
    from opttree.problems.exact.problem import ExactTreeProblem as ExactTreeProblem
    from opttree.problems.mip import MIPTreeProblem as MIPTreeProblem
    from opttree.problems.node.problem import LevelProblem as LevelProblem, NodeProblem as NodeProblem
    from opttree.problems.smooth.problem import SmoothTreeProblem as SmoothTreeProblem
    from opttree.problems.smooth.subtree import SubtreeProblem as SubtreeProblem
    from opttree.problems.soft_forest.problem import SoftForestProblem as SoftForestProblem
    from opttree.statement import (
        L1 as L1,
        L2 as L2,
        FeatureL1 as FeatureL1,
        L2Constants as L2Constants,
        Penalty as Penalty,
        SplitPrice as SplitPrice,
        TreeProblem as TreeProblem,
    )
    from opttree.tables.weights import check_weight as check_weight, n_rows as n_rows

_HOMES = {
    "DenseTreeProblem": "opttree.problems.dense.problem",
    "ExactTreeProblem": "opttree.problems.exact.problem",
    "MIPTreeProblem": "opttree.problems.mip",
    "LevelProblem": "opttree.problems.node.problem",
    "NodeProblem": "opttree.problems.node.problem",
    "SmoothTreeProblem": "opttree.problems.smooth.problem",
    "SubtreeProblem": "opttree.problems.smooth.subtree",
    "SoftForestProblem": "opttree.problems.soft_forest.problem",
    **dict.fromkeys(
        ("L1", "L2", "FeatureL1", "L2Constants", "Penalty", "SplitPrice", "TreeProblem"), "opttree.statement"
    ),
    **dict.fromkeys(("check_weight", "n_rows"), "opttree.tables.weights"),
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> _Any:
    value: _Any
    if name in _HOMES:
        value = getattr(_import_module(_HOMES[name]), name)
    elif not name.startswith("_") and _find_spec(f"opttree.problems.{name}") is not None:
        value = _import_module(f"opttree.problems.{name}")
    else:
        raise AttributeError(f"module 'opttree.problems' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
