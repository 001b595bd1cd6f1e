"""Training on rows that arrive in chunks: `TreeStream` and `ForestStream`."""

from solvers.soft.streaming import ForestStream as ForestStream, TreeStream as TreeStream

__all__ = ["ForestStream", "TreeStream"]
