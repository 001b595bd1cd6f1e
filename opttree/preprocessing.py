"""Preparation of tables as papers prescribe it."""

from opttree.tables.preprocessing import (
    LeaveOneOutMeans as LeaveOneOutMeans,
    NormalQuantiles as NormalQuantiles,
    gradtree_pipeline as gradtree_pipeline,
    rebalanced as rebalanced,
)

__all__ = ["LeaveOneOutMeans", "NormalQuantiles", "gradtree_pipeline", "rebalanced"]
