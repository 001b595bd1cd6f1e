"""First-order runs from many starts: one loop, on the CPU and on a GPU, for the solvers that descend."""

from solvers.descent.base import Best, Descent, run_all
from solvers.descent.options import LBFGS, Adam, FirstOrder, QHAdam, geometric

__all__ = ["LBFGS", "Adam", "Best", "Descent", "FirstOrder", "QHAdam", "geometric", "run_all"]
