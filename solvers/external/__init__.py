"""Other libraries' trees as solvers of the same statement: ``pip install opttree[external]``."""

from solvers.external.base import External
from solvers.external.libraries import CART, GOSDT, OSRT, ConTree, PyTrees, STreeD

__all__ = ["CART", "GOSDT", "OSRT", "ConTree", "External", "PyTrees", "STreeD"]
