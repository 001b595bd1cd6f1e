"""Mixed-integer programming: proved bounds and optimal trees."""

from solvers.mip.mip import MIP, certify

__all__ = ["MIP", "certify"]
