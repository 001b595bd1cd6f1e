"""Costs of leaves under absolute loss, quantiles' and Huber's, for growing sets of rows, from a linked list.

A set's median, or quantile, moves little when a row leaves, so that the rows are linked in the order of an output and
removed one by one: constant time each, however many there are. A node's sorted orders therefore hold the outputs' after
the features'.
"""

from collections import namedtuple

import numpy as np

from opttree.runtime.compiling.compiled import inner, kernel_without_refcounts

# next and previous (m + 1,) of places in the order of an output, m for neither; place (n,) of each row there; value and
# weight (m,) by place
Links = namedtuple("Links", "next previous place value weight")


@inner()
def make_links(m, n):
    """Room for ``m`` of ``n`` rows."""
    whole = np.empty(m + 1, np.int32), np.empty(m + 1, np.int32), np.empty(n, np.int32)
    return Links(*whole, np.empty(m), np.empty(m))


@kernel_without_refcounts()
def costs_of_rest(removed, m, backwards, links, shape, out):
    """Add to ``out[c]`` the cost of the first c rows of ``removed`` (``backwards``), or of all but these, for every c
    from 0 to m: absolute deviations from their median, or what quantiles cost. All m rows are linked.
    """
    after, before, place, value, weight = links
    up, down = shape[0], shape[1]
    share = up / (up + down)
    for t in range(m):
        after[t], before[t] = t + 1, t - 1
    before[0], after[m], before[m] = m, 0, m - 1
    mass = total = below = sum_below = 0.0
    for t in range(m):
        mass += weight[t]
        total += weight[t] * value[t]
    middle = 0
    while middle < m - 1 and below + weight[middle] < share * mass:
        below += weight[middle]
        sum_below += weight[middle] * value[middle]
        middle += 1
    for gone in range(m):
        own = weight[middle] * value[middle]
        above = mass - below - weight[middle]
        away = down * (value[middle] * below - sum_below)
        away += up * ((total - sum_below - own) - value[middle] * above)
        out[m - gone if backwards else gone] += max(away, 0.0)
        t = place[removed[m - 1 - gone if backwards else gone]]
        if t == middle:
            middle = after[t]
            if middle == m:
                middle = before[t]
                if middle == m:
                    break
                below -= weight[middle]
                sum_below -= weight[middle] * value[middle]
        elif t < middle:
            below -= weight[t]
            sum_below -= weight[t] * value[t]
        mass -= weight[t]
        total -= weight[t] * value[t]
        after[before[t]], before[after[t]] = after[t], before[t]
        while below > share * mass and before[middle] != m:
            middle = before[middle]
            below -= weight[middle]
            sum_below -= weight[middle] * value[middle]
        while below + weight[middle] < share * mass and after[middle] != m:
            below += weight[middle]
            sum_below += weight[middle] * value[middle]
            middle = after[middle]


@kernel_without_refcounts()
def link(order, m, rows, output, links):
    """Fill ``links`` with the rows ``order[:m]``, sorted by an output."""
    for t in range(m):
        i = order[t]
        links.place[i] = t
        links.value[t], links.weight[t] = rows[i, 2 + output], rows[i, 1]


@kernel_without_refcounts()
def median_cost(order, m, rows, n_outputs, shape):
    """Cost of the best leaf of ``m`` rows; ``order (K, .)``: sorted by each output."""
    total = 0.0
    for k in range(n_outputs):
        mass = 0.0
        for e in range(m):
            mass += rows[order[k, e], 1]
        below, median = 0.0, 0.0
        for e in range(m):
            below += rows[order[k, e], 1]
            median = rows[order[k, e], 2 + k]
            if below >= shape[0] / (shape[0] + shape[1]) * mass:
                break
        for e in range(m):
            i = order[k, e]
            away = rows[i, 2 + k] - median
            total += rows[i, 1] * (shape[0] * away if away > 0.0 else -shape[1] * away)
    return total
