"""Local search over trees."""

from solvers.local_search.local_search import LocalSearch

__all__ = ["LocalSearch"]
