"""The tree: `opttree.Tree`."""

from opttree.model.tree import Tree as Tree

__all__ = ["Tree"]
