"""Pictures of trees, their splits, rows, weights and importances, and of traces of solvers; see each function."""

from opttree.plotting.splits import plot_partition, plot_split_evolution
from opttree.plotting.traces import plot_rows, plot_trace
from opttree.plotting.trees import plot_importances, plot_node_weights, plot_tree

__all__ = [
    "plot_importances",
    "plot_node_weights",
    "plot_partition",
    "plot_rows",
    "plot_split_evolution",
    "plot_trace",
    "plot_tree",
]
