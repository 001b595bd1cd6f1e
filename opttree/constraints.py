"""Side constraints of `opttree.TreeProblem`, by name."""

from opttree.statement.constraints import *  # noqa: F403
from opttree.statement.constraints import __all__ as __all__
