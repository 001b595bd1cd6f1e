"""Statistics of sets of rows that add up, and the cost of the best leaf as a function of them.

A row has the statistics ``(1, w, w |y|^2, w y_1, ..., w y_K)`` under squared loss, and ``(1, w_1, ..., w_C)`` for
classes, with w_c its weight if c is its class and 0 otherwise; zeros follow up to a multiple of four. The cost is a sum
over rows, without penalties.
"""

from collections import namedtuple

import numpy as np

from opttree.compiled import inner, kernel
from opttree.kernels.codes import SQUARED, ZERO_ONE

# rank (p, n): number of each row's value among the distinct values of a feature; rows (n, S): their statistics; most
# (n,): what a row adds to the cost of a set of rows at most; loss code; price of a split; fewest rows of a leaf; slack:
# costs that differ by less count as equal; whole: whether all costs are whole numbers
Problem = namedtuple("Problem", "rank rows most loss price min_leaf slack whole")


@inner(error_model="numpy")
def cost(s, loss):
    """Cost of the best leaf for the statistics ``s (S,)``."""
    if s[0] <= 0.0:
        return 0.0
    if loss == SQUARED:
        explained = 0.0
        for k in range(3, s.size):
            explained += s[k] * s[k]
        return max(s[2] - explained / s[1], 0.0) if s[1] > 0.0 else 0.0
    total = top = 0.0
    for k in range(1, s.size):
        total += s[k]
        top = max(top, s[k])
    if loss == ZERO_ONE:
        return total - top
    own = 0.0
    for k in range(1, s.size):
        if s[k] > 0.0:
            own -= s[k] * np.log(s[k] / total)
    return max(own, 0.0)


@inner(error_model="numpy")
def costs(s, first, last, loss, out):
    """`cost` of the columns ``first`` to ``last - 1`` of ``s (S, .)``, into ``out``."""
    if loss == SQUARED and s.shape[0] == 4:
        for k in range(first, last):
            value = s[2, k] - s[3, k] * s[3, k] / s[1, k]
            out[k] = value if s[0, k] > 0.0 and s[1, k] > 0.0 and value > 0.0 else 0.0
        return
    if loss == ZERO_ONE and s.shape[0] == 4:  # up to three classes
        for k in range(first, last):
            out[k] = s[1, k] + s[2, k] + s[3, k] - max(max(s[1, k], s[2, k]), s[3, k])
        return
    if loss == ZERO_ONE:
        top = np.zeros(last)
        for k in range(first, last):
            out[k] = 0.0
        for c in range(1, s.shape[0]):
            for k in range(first, last):
                out[k] += s[c, k]
                top[k] = max(top[k], s[c, k])
        for k in range(first, last):
            out[k] -= top[k]
        return
    own = np.empty(s.shape[0])
    for k in range(first, last):
        for c in range(own.size):
            own[c] = s[c, k]
        out[k] = cost(own, loss)


@inner()
def rounded_up(bound, problem):
    """A bound of costs; where these are whole numbers, the next one."""
    return np.ceil(bound - 1e-6) if problem.whole else bound


@inner()
def add_row(total, row):
    """``total += row``, both (S,)."""
    for k in range(row.size):
        total[k] += row[k]


@kernel()
def summed(order, m, rows):
    """Statistics of the rows ``order[:m]``."""
    total = np.zeros(rows.shape[1])
    for e in range(m):
        add_row(total, rows[order[e]])
    return total
