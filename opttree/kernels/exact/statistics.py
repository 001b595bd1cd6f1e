"""Statistics of sets of rows that add up, and the cost of the best leaf as a function of them.

A row has the statistics ``(1, w, w |y|^2, w y_1, ..., w y_K)`` under squared loss, and ``(1, w_1, ..., w_C)`` for
classes, with w_c its weight if c is its class and 0 otherwise. For linear leaves under squared loss they are 1, the
lower triangle of ``w (1, x)(1, x)'`` by rows, and for each output ``w y (1, x)`` and ``w y^2``. Under absolute loss
they are ``(1, w, y_1, ..., y_K)``, of which the first two add up, see `opttree.kernels.exact.medians`; for quantiles
and Huber's loss, too. With predictions that are means of positive numbers, in units in which these are near 1, they are
``(1, w, a, w y_1, w (y_1 - 1), ..., w y_K, w (y_K - 1))``, a being the row's deviance from 1, summed over outputs; of
survival times ``(1, w, a, w e_1, w (t_1 - e_1), ...)``, e being 1 for an event, t the time.
Losses of the user's own have ``(1, w s_1, ..., w s_S)``. Zeros follow up to a multiple of four. The cost is a sum over
rows plus the ridge of linear leaves, without other penalties.
"""

from collections import namedtuple

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from opttree.kernels.algebra.quadratic import RANK
from opttree.kernels.losses.codes import EXPONENTIAL, LOG, OWN, POISSON, SQUARED, ZERO_ONE
from opttree.kernels.losses.deviance import gamma_part, poisson_part
from opttree.kernels.losses.entropy import log_cost
from opttree.runtime.compiling.compiled import kernel, kernel_without_refcounts

# rank (p, n): number of each row's value among the distinct values of a feature; rows (n, S): their statistics; most
# (n,): what a row adds to the cost of a set of rows at most; leaf: `Leaf`; price of a split; fewest rows of a leaf;
# slack: costs that differ by less count as equal; whole: whether all costs are whole numbers; by_words: whether costs
# depend on class counts alone, but for the price; allowed (nodes, p): features that the nodes, in heap order, may split
# on, empty where all may split on all
Problem = namedtuple("Problem", "rank rows most leaf price min_leaf slack whole by_words allowed")
# loss code; ridge (p,) of a linear leaf's weights, empty for constant leaves; number of outputs; shape (2,): the cost
# of a residual of 1 above and below the prediction, in absolute loss and quantiles; or Huber's delta; or the least
# prediction of a positive number; or as bits the address of the user's function of sums, of which there are n_outputs
Leaf = namedtuple("Leaf", "loss ridge n_outputs shape")
# the rows order[:, :m] of a node, in increasing order of each feature; `Problem`; reach (p, 2) int32, given and found:
# first and last rank, or bucket, of each feature's splits that may cost less than the target
Node = namedtuple("Node", "order m problem reach new_reach")


@intrinsic
def call_own(_context, address, s, n_sums):
    """The value of the function at an ``address``, a float of its bits, for ``n_sums`` sums, those of ``s`` after the
    first.
    """

    def generate(context, builder, signature, values):
        number, real = ir.IntType(64), ir.DoubleType()
        kind = ir.FunctionType(real, [real.as_pointer(), number])
        function = builder.inttoptr(builder.bitcast(values[0], number), kind.as_pointer())
        array = context.make_array(signature.args[1])(context, builder, values[1])
        return builder.call(function, [builder.gep(array.data, [ir.Constant(number, 1)]), values[2]])

    return types.float64(types.float64, s, types.int64), generate


def compiled(cost):
    """A function of sums (S,), compiled, to be kept as long as its address is used."""
    inside = njit(cost)

    @cfunc(types.float64(types.CPointer(types.float64), types.int64))
    def outside(sums, n_sums):
        return inside(carray(sums, (n_sums,)))

    return outside


@kernel_without_refcounts(error_model="numpy")
def linear_cost(s, leaf, work):
    """`cost` of the best linear leaf: residual sums of squares and the ridge, by a Cholesky factorisation.

    A feature whose pivot is rounding error depends on those before it and is left out. ``work (S,)`` holds the lower
    triangle by rows, with the inverses of its diagonal, and then a vector.
    """
    ridge = leaf.ridge
    size = ridge.size + 1
    at = z = size * (size + 1) // 2
    row = 0
    for i in range(size):
        diagonal = s[1 + row + i] + (ridge[i - 1] if i > 0 else 0.0)
        pivot = diagonal
        above = 0
        for j in range(i):
            value = s[1 + row + j]
            for k in range(j):
                value -= work[row + k] * work[above + k]
            work[row + j] = value * work[above + j]
            pivot -= work[row + j] * work[row + j]
            above += j + 1
        work[row + i] = 1.0 / np.sqrt(pivot) if pivot > RANK * diagonal else 0.0
        row += i + 1
    total = 0.0
    at += 1
    for _ in range(leaf.n_outputs):
        left = s[at + size]
        row = 0
        for i in range(size):
            value = s[at + i]
            for k in range(i):
                value -= work[row + k] * work[z + k]
            work[z + i] = value * work[row + i]
            left -= work[z + i] * work[z + i]
            row += i + 1
        total += max(left, 0.0)
        at += size + 1
    return total


@kernel_without_refcounts(error_model="numpy")
def cost(s, leaf, work):
    """Cost of the best leaf for the statistics ``s (S,)``; ``work (S,)`` is scratch."""
    if s[0] <= 0.0:
        return 0.0
    if leaf.ridge.size > 0:
        return linear_cost(s, leaf, work)
    loss = leaf.loss
    if loss == SQUARED:
        explained = 0.0
        for k in range(3, s.size):
            explained += s[k] * s[k]
        return max(s[2] - explained / s[1], 0.0) if s[1] > 0.0 else 0.0
    if loss == ZERO_ONE:
        other = top = 0.0  # without the difference of large weights
        for k in range(1, s.size):
            other += min(top, s[k])
            top = max(top, s[k])
        return other
    if loss == LOG:
        return log_cost(s, 1)
    if loss == OWN:
        value = call_own(leaf.shape[0], s, leaf.n_outputs)
        return value if value > 0.0 else 0.0  # also where it is not a number, as of no weight
    return mean_cost(s, leaf)


@kernel_without_refcounts(error_model="numpy")
def mean_cost(s, leaf):
    """`cost` where a leaf predicts the mean of positive numbers, or ``leaf.shape[0]`` if that is more."""
    total, weight, least = s[2], s[1], leaf.shape[0]
    if weight <= 0.0:
        return 0.0
    for k in range(leaf.n_outputs):
        first, off = s[3 + 2 * k], s[4 + 2 * k]
        if leaf.loss == EXPONENTIAL:
            time = first + off
            if first <= 0.0:
                total -= off
            elif time < least * first:
                total += time / least - time + first * np.log(least)
            else:
                total -= first * gamma_part(off / first, time / first)
        elif first >= least * weight:
            part = gamma_part(off / weight, first / weight)
            if leaf.loss == POISSON:
                part = poisson_part(off / weight, first / weight)
            total -= 2.0 * weight * part
        elif leaf.loss == POISSON:
            total += 2.0 * (weight * (least - 1.0) - first * np.log(least))
        else:
            total += 2.0 * (first / least - first + weight * np.log(least))
    return max(total, 0.0)


@kernel_without_refcounts(error_model="numpy")
def costs(s, first, last, leaf, own, work, out):
    """`cost` of the columns ``first`` to ``last - 1`` of ``s (S, .)``, into ``out``; ``own`` and ``work (S,)`` are
    scratch.
    """
    loss = leaf.loss if leaf.ridge.size == 0 else -1
    if loss == SQUARED and s.shape[0] == 4:
        for k in range(first, last):
            value = s[2, k] - s[3, k] * s[3, k] / s[1, k]
            out[k] = value if s[0, k] > 0.0 and s[1, k] > 0.0 and value > 0.0 else 0.0
        return
    if loss == ZERO_ONE and s.shape[0] == 4:  # up to three classes
        for k in range(first, last):
            out[k] = min(s[1, k], s[2, k]) + min(max(s[1, k], s[2, k]), s[3, k])
        return
    if loss == ZERO_ONE:
        for k in range(first, last):
            other = top = 0.0
            for c in range(1, s.shape[0]):
                other += min(top, s[c, k])
                top = max(top, s[c, k])
            out[k] = other
        return
    for k in range(first, last):
        for c in range(own.size):
            own[c] = s[c, k]
        out[k] = cost(own, leaf, work)


@kernel_without_refcounts()
def rounded_up(bound, problem):
    """A bound of costs; where these are whole numbers, the next one."""
    return np.ceil(bound - 1e-6) if problem.whole else bound


@kernel_without_refcounts()
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
