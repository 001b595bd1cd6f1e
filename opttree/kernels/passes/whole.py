"""A whole pass of tree alternating optimization over the levels of a tree, on one thread, for small problems.

It does what `solvers.tao` does level by level for oblique splits of few features by Newton's method: there the calls
from Python take longer than the arithmetic.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.kernels.passes.reduced import (
    Level,
    advance_range,
    fit_range,
    group_rows,
    level_weights,
    pseudolabels_range,
    thresholds_range,
)
from opttree.kernels.records import Net, Splits
from opttree.runtime.compiling.compiled import inner, kernel

# of the node problems: strengths l1, l2; l1 relative to the weights of a node in their place, or 0; tolerance and steps
Nodes = namedtuple("Nodes", "l1 l2 lasso tol steps")


@inner()
def single_feature(a):
    """The only nonzero coordinate of ``a``, -1 for none or several."""
    found = -1
    for k in range(a.size):
        if a[k] != 0.0:
            if found >= 0:
                return -1
            found = k
    return found


@kernel(fastmath=FASTMATH)
def whole_pass(rows, tree, leaves, loss, link, depth, tracks, nodes):
    """Refit the branches of ``tree`` level by level, in place; ``depth`` is that of each branch."""
    p, n_branches = rows.X.shape[1], tree.b.size
    tracks.node[:] = 0
    slot_of = np.empty(2 * n_branches + 1, np.int32)
    branch = np.empty(n_branches, np.int64)
    deepest = -1
    for t in range(n_branches):
        deepest = max(deepest, depth[t])
    for d in range(deepest + 1):
        slot_of[:] = -1
        count = 0
        for t in range(n_branches):
            if depth[t] == d:
                slot_of[t], branch[count] = count, t
                count += 1
        pseudolabels_range(0, tracks.node.size, rows, tree, leaves, loss, link, slot_of, tracks)
        group = group_rows(tracks.slot, count, tracks.u)
        u, cost = level_weights(group, tracks.u, tracks.side)
        l1 = nodes.l1
        if nodes.lasso > 0.0:
            l1 = nodes.lasso
            for s in range(count):
                total = 0.0
                for e in range(group.start[s], group.start[s + 1]):
                    total += abs(u[e])
                for e in range(group.start[s], group.start[s + 1]):
                    u[e] /= total
        A, b, feature = np.empty((count, p)), np.empty(count), np.empty(count, np.int32)
        for s in range(count):
            A[s], b[s] = tree.A[branch[s]], tree.b[branch[s]]
        level = Level(rows.X, group, u)
        fit_range(0, count, level, A, b, Net(l1, nodes.l2), nodes.tol, nodes.steps)
        for s in range(count):
            feature[s] = single_feature(A[s])
        thresholds_range(0, count, level, Splits(A, b, feature), 1, cost)
        for s in range(count):
            if group.start[s + 1] > group.start[s]:
                tree.A[branch[s]], tree.b[branch[s]], tree.feature[branch[s]] = A[s], b[s], feature[s]
        advance_range(0, tracks.node.size, rows.X, tree, tracks)
