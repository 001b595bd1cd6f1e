"""Soft trees: NODEC-GS and NODEC-DR, node-based decomposition of the SRT paper, and ORRT, its rival over all nodes."""

from solvers.soft.line_search import ArmijoLineSearch
from solvers.soft.nodec import NODEC, printed_ridge
from solvers.soft.orrt import ORRT
from solvers.soft.parts import SoftOverParts

__all__ = ["NODEC", "ORRT", "ArmijoLineSearch", "SoftOverParts", "printed_ridge"]
