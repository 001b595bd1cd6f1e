"""Node-based decomposition of the smooth tree: NODEC-GS and NODEC-DR of the SRT paper."""

from solvers.nodec.line_search import ArmijoLineSearch
from solvers.nodec.nodec import NODEC, printed_ridge

__all__ = ["NODEC", "ArmijoLineSearch", "printed_ridge"]
