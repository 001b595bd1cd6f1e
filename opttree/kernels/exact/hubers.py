"""Costs of leaves under Huber's loss, for growing sets of rows, see `opttree.kernels.exact.medians`.

The best prediction moves little when a row leaves, and with it the rows that are within delta of it: those are between
two places in the order of the output, which move along.
"""

import numpy as np

from opttree.kernels.exact.medians import link, make_links
from opttree.runtime.compiling.compiled import inner, kernel_without_refcounts

BELOW, BETWEEN, ABOVE = range(3)  # rows by their outputs: more than delta below the prediction, within it, above


@kernel_without_refcounts()
def move_row(links, t, start, end, sums):
    """Let the row at place ``t`` count in another group; -1: in none. Sums of no rows are 0, without rounding."""
    w, y = links.weight[t], links.value[t]
    if start >= 0:
        sums[start, 0] -= w
        sums[start, 1] -= w * y
        sums[start, 2] -= w * y * y
        sums[start, 3] -= 1.0
        if sums[start, 3] == 0.0:
            sums[start] = 0.0
    if end >= 0:
        sums[end, 0] += w
        sums[end, 1] += w * y
        sums[end, 2] += w * y * y
        sums[end, 3] += 1.0


@kernel_without_refcounts(error_model="numpy")
def least_cost(links, m, delta, ends, sums):
    """The least cost of the linked rows.

    ``ends (2,)``: the first places of the rows between, and above, m for none; ``sums (3, 4)``: weight, w y, w y^2
    and number of the rows of the three groups. Both belong to some prediction, and are moved along to the best.
    """
    after, before, _place, value, _weight = links
    came = 0
    while True:
        low, high = -np.inf, np.inf  # predictions between these leave every row where it is
        some = ends[0] != ends[1]
        last, inner_last = before[ends[0]], before[ends[1]]
        if last != m:
            low = value[last] + delta
        if some:
            low = max(low, value[inner_last] - delta)
            high = value[ends[0]] + delta
        if ends[1] != m:
            high = min(high, value[ends[1]] - delta)
        pull = delta * (sums[ABOVE, 0] - sums[BELOW, 0])
        if some and sums[BETWEEN, 0] > 0.0:
            at = (sums[BETWEEN, 1] + pull) / sums[BETWEEN, 0]
        else:
            at = np.inf if pull > 0.0 else -np.inf if pull < 0.0 else low if low > -np.inf else high
        if at > high and came >= 0:
            came = 1
            if some and value[ends[0]] + delta <= high:
                move_row(links, ends[0], BETWEEN, BELOW, sums)
                ends[0] = after[ends[0]]
            else:
                move_row(links, ends[1], ABOVE, BETWEEN, sums)
                ends[1] = after[ends[1]]
        elif at < low and came <= 0:
            came = -1
            if last != m and value[last] + delta >= low:
                move_row(links, last, BELOW, BETWEEN, sums)
                ends[0] = last
            else:
                move_row(links, inner_last, BETWEEN, ABOVE, sums)
                ends[1] = inner_last
        else:
            break
    at = min(max(at, low), high)
    if not np.isfinite(at):
        at = low if low > -np.inf else high if high < np.inf else 0.0
    cost = 0.5 * (sums[BETWEEN, 2] - 2.0 * at * sums[BETWEEN, 1] + at * at * sums[BETWEEN, 0])
    cost += delta * (sums[ABOVE, 1] - sums[ABOVE, 0] * at - 0.5 * delta * sums[ABOVE, 0])
    cost += delta * (sums[BELOW, 0] * at - sums[BELOW, 1] - 0.5 * delta * sums[BELOW, 0])
    return max(cost, 0.0)


@inner()
def costs_of_rest(removed, m, backwards, links, delta, out):
    """Add to ``out[c]`` the cost of the first c rows of ``removed`` (``backwards``), or of all but these, for every c
    from 0 to m. All m rows are linked.
    """
    after, before, place, _value, _weight = links
    ends, sums = np.zeros(2, np.int64), np.zeros((3, 4))
    for t in range(m):
        after[t], before[t] = t + 1, t - 1
        move_row(links, t, -1, ABOVE, sums)
    before[0], after[m], before[m] = m, 0, m - 1
    for gone in range(m):
        out[m - gone if backwards else gone] += least_cost(links, m, delta, ends, sums)
        t = place[removed[m - 1 - gone if backwards else gone]]
        move_row(links, t, BELOW if t < ends[0] else BETWEEN if t < ends[1] else ABOVE, -1, sums)
        for k in range(2):
            if ends[k] == t:
                ends[k] = after[t]
        after[before[t]], before[after[t]] = after[t], before[t]


@inner()
def huber_cost(order, m, rows, n_outputs, delta):
    """Cost of the best leaf of ``m`` rows; ``order (K, .)``: sorted by each output."""
    total = 0.0
    links = make_links(m, rows.shape[0])
    for k in range(n_outputs):
        link(order[k], m, rows, k, links)
        ends, sums = np.zeros(2, np.int64), np.zeros((3, 4))
        for t in range(m):
            links.next[t], links.previous[t] = t + 1, t - 1
            move_row(links, t, -1, ABOVE, sums)
        links.previous[0], links.next[m], links.previous[m] = m, 0, m - 1
        total += least_cost(links, m, delta, ends, sums)
    return total
