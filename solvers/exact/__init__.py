"""Branch and bound for axis-aligned trees over all thresholds.

L(c) and R(c), the best costs of the two sides of a feature's cut c, are monotone in c for any loss that is a sum over
rows and never negative, so that all cuts between a and b cost at least ``L(a) + R(b)``. Related: Quant-BnB (Mazumder,
Meng and Wang, ICML 2022) bounds intervals of quantiles in this way for depth 2 and 3; ConTree (Brita, van der Linden
and Demirovic, AAAI 2025) prunes by the distance of a threshold, for the 0/1 loss.
"""

from solvers.exact.blocks import BlockBounds
from solvers.exact.branch_and_bound import BranchAndBound
from solvers.exact.exact_init import ExactInit

__all__ = ["BlockBounds", "BranchAndBound", "ExactInit"]
