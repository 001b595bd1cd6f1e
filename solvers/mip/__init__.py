"""Mixed-integer programming: proved bounds and optimal trees."""

from solvers.mip.mip import MIP

__all__ = ["MIP"]
