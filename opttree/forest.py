"""The forest: `opttree.Forest`."""

from opttree.model.forest import Forest as Forest

__all__ = ["Forest"]
