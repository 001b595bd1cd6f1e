"""Preparation of tables as papers prescribe it."""

from opttree.tables.curves import Curves as Curves
from opttree.tables.preprocessing import (
    LeaveOneOutMeans as LeaveOneOutMeans,
    NormalQuantiles as NormalQuantiles,
    gradtree_pipeline as gradtree_pipeline,
    rebalanced as rebalanced,
)

__all__ = ["Curves", "LeaveOneOutMeans", "NormalQuantiles", "gradtree_pipeline", "rebalanced"]
