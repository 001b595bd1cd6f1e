"""Hard oblique trees whose leaves are told apart by rectified distances (RADDT, DTSemNet): values, gradients, epochs.

With ``z_t = a_t . x - b_t``, a row with z_t <= 0, which goes left at branch t, violates the right child by
``max(-z_t, 0)``, one that goes right the left child by ``max(z_t, 0)``. U, the sum of the violations along the path to
a leaf, is zero at the row's own leaf alone. RADDT weights leaves by the softmin of U. DTSemNet gives a leaf the sum,
over its ancestors, of ``max(-z_t, 0)`` where it lies left and ``max(z_t, 0)`` where it lies right, and over all other
branches of ``|z_t|``: a number that all leaves share, less U, so that their softmax and maximum are those of -U.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.losses.codes import LOG
from opttree.kernels.records import Rows
from opttree.kernels.smooth.first_order import adam_step
from opttree.kernels.smooth.walk import unpack
from opttree.runtime.compiling.compiled import inner, kernel

FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
NEGLIGIBLE = 16.0  # subtrees whose weight is below exp(-16) of the row's own leaf are skipped

# what stays between the parts of an epoch: gradient; sums of the leaves, see `least_loss`; totals, see `relax_rows`
Work = namedtuple("Work", "gradient sums totals")
# parts ``first`` to ``last - 1`` of epochs whose rows are worked on in so many ``parts``
Span = namedtuple("Span", "first last parts")
# of AdamW on `relaxed`: learning rate of each epoch, decay of the weights, see `relaxed` for the rest, and `Moments`
Relaxation = namedtuple("Relaxation", "rates decay alpha floor moments")
# of Adam on `semantic`: learning rate, rows of a batch, strength of the l1 norm of the splits' weights, and `Moments`
Batches = namedtuple("Batches", "rate size l1 moments")


@inner(fastmath=FASTMATH)
def dot(a, x):
    """The scalar product."""
    total = a[0] * x[0]
    for j in range(1, a.size):
        total += a[j] * x[j]
    return total


@inner(fastmath=FASTMATH)
def add(total, factor, x):
    """Add ``factor * x`` to ``total``."""
    for j in range(x.size):
        total[j] += factor * x[j]


@inner()
def answer(scores, values, coefs, x, form):
    """Write the outputs of a leaf for row ``x`` to ``scores (K,)``; under log loss, its class probabilities."""
    for k in range(form.n_outputs):
        scores[k] = values[k]
        if form.linear:
            scores[k] += dot(coefs[k], x)
    if form.loss == LOG:
        top = scores[0]
        for k in range(1, form.n_outputs):
            top = max(top, scores[k])
        total = scores[0] * 0
        for k in range(form.n_outputs):
            scores[k] = np.exp(scores[k] - top)
            total += scores[k]
        for k in range(form.n_outputs):
            scores[k] /= total


@inner()
def loss_at(scores, y, form):
    """Loss of the outputs, and in their place the derivatives of it by what the leaf holds."""
    if form.loss == LOG:
        k = int(y[0])
        loss = -np.log(max(scores[k], y.dtype.type(1e-6)))
        scores[k] -= 1
        return loss
    loss = scores[0] * 0
    for k in range(form.n_outputs):
        error = scores[k] - y[k]
        loss += error * error
        scores[k] = 2 * error
    return loss


@kernel()
def least_loss(sums, squares, form):
    """Mean loss with optimal constants in the leaves; ``sums (L, K + 1)``: of y (or of classes), and of the weights."""
    total = squares
    for leaf in range(sums.shape[0]):
        mass = sums[leaf, form.n_outputs]
        for k in range(form.n_outputs):
            part = sums[leaf, k]
            if part > 0 and form.loss == LOG:
                total -= part * np.log(part / mass)
            elif mass > 0 and form.loss != LOG:
                total -= part * part / mass
    return total


@kernel()
def relaxed(theta, alpha, floor, data, form, gradient):
    """RADDT's objective: the leaves' losses weighted by the softmin of ``alpha U``, and its ``gradient``.

    Weights of at most ``floor`` count as zero. The log loss is capped, its derivative is not: it leads back from the
    cap. Returns the objective and the loss of the hard tree: with optimal constants in its leaves, or with the linear
    leaves as they are.
    """
    work = Work(gradient, np.zeros(((1 << form.depth), form.n_outputs + 1)), np.zeros(2))
    gradient[:] = 0
    objective = relax_rows(theta, alpha, floor, data, form, work)
    return objective, hard_loss(work.sums, work.totals, form)


@kernel()
def hard_loss(sums, totals, form):
    """Loss of the hard tree, of the sums of `relax_rows` over all rows."""
    return totals[1] if form.linear else least_loss(sums, totals[0], form)


@kernel()
def relax_rows(theta, alpha, floor, data, form, work):
    """Add what these rows contribute to the gradient of `relaxed`, to the sums of the leaves (see `least_loss`) and to
    the totals: the weighted squares of y and the loss with the leaves as they are. Returns their part of the objective.
    """
    X, Y, w = data
    gradient, sums, totals = work
    dtype = theta.dtype
    A, b, values, coefs = unpack(theta, form)
    slope_A, slope_b, slope_values, slope_coefs = unpack(gradient, form)
    n_branches, n_outputs = b.size, form.n_outputs
    n_nodes = 2 * n_branches + 1
    violation, slope = np.zeros(n_nodes, dtype), np.zeros(n_nodes, dtype)
    distance, weight, losses = np.zeros(n_branches, dtype), np.zeros(n_nodes, dtype), np.zeros(n_nodes, dtype)
    slopes = np.zeros((n_nodes, n_outputs), dtype)
    pending, visited = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    objective = 0.0
    most = dtype.type(NEGLIGIBLE / alpha)
    scale = dtype.type(alpha)
    for i in range(X.shape[0]):
        x, y, mass = X[i], Y[i], w[i]
        pending[0] = 0  # the root
        waiting, count, own = 1, 0, -1
        total = dtype.type(0)
        while waiting:
            waiting -= 1
            t = pending[waiting]
            visited[count] = t
            count += 1
            if t < n_branches:
                z = dot(A[t], x) - b[t]
                distance[t] = z
                left, right = 2 * t + 1, 2 * t + 2
                violation[left] = violation[t] + max(z, dtype.type(0))
                violation[right] = violation[t] + max(-z, dtype.type(0))
                slope[left] = slope[right] = 0
                if violation[right] < most:
                    pending[waiting] = right
                    waiting += 1
                if violation[left] < most:
                    pending[waiting] = left
                    waiting += 1
            else:
                if violation[t] == 0 and own < 0:
                    own = t
                weight[t] = np.exp(-scale * violation[t])
                total += weight[t]
                leaf = t - n_branches
                answer(slopes[t], values[leaf], coefs[leaf], x, form)
                losses[t] = loss_at(slopes[t], y, form)
        mean = dtype.type(0)
        for j in range(count):
            t = visited[j]
            if t >= n_branches:
                weight[t] /= total
                if weight[t] > floor:
                    mean += weight[t] * losses[t]
        objective += mass * mean
        if own >= n_branches:
            leaf = own - n_branches
            totals[1] += mass * losses[own]
            sums[leaf, n_outputs] += mass
            if form.loss == LOG:
                sums[leaf, int(y[0])] += mass
            else:
                for k in range(n_outputs):
                    sums[leaf, k] += mass * y[k]
                    totals[0] += mass * y[k] * y[k]
        for j in range(count - 1, -1, -1):
            t = visited[j]
            if t < n_branches:
                left, right = 2 * t + 1, 2 * t + 2
                slope[t] = slope[left] + slope[right]
                step = slope[left] if distance[t] > 0 else -slope[right]
                if step != 0:
                    add(slope_A[t], step, x)
                    slope_b[t] -= step
                continue
            counts = weight[t] > floor
            slope[t] = -scale * mass * weight[t] * ((losses[t] if counts else dtype.type(0)) - mean)
            if counts:
                leaf, part = t - n_branches, mass * weight[t]
                for k in range(n_outputs):
                    slope_values[leaf, k] += part * slopes[t, k]
                    if form.linear:
                        add(slope_coefs[leaf, k], part * slopes[t, k], x)
    return objective


@kernel()
def descend_relaxed(theta, best, least, state, work, span, how, data, form):
    """The parts ``span`` of epochs of AdamW on `relaxed`; ``how``: `Relaxation`. ``best`` becomes the theta of least
    loss of the hard tree; returns that loss.
    """
    X, Y, w = data
    gradient, sums, totals = work
    first, last, parts = span
    rates, decay, alpha, floor, moments = how
    size = -(-X.shape[0] // parts)
    for at in range(first, last):
        epoch, part = at // parts, at % parts
        if part == 0:
            gradient[:] = 0
            sums[:] = 0
            totals[:] = 0
        rows = slice(part * size, (part + 1) * size)
        relax_rows(theta, alpha, floor, Rows(X[rows], Y[rows], w[rows]), form, work)
        if part == parts - 1:
            loss = hard_loss(sums, totals, form)
            if loss < least:
                least = loss
                best[:] = theta
            theta *= theta.dtype.type(1 - rates[epoch] * decay)
            adam_step(theta, gradient, state[0], state[1], epoch + 1, rates[epoch], moments)
    return least


@kernel()
def semantic(theta, rows, data, form, gradient, leaf_class):
    """DTSemNet's loss on a batch of ``rows``, and its ``gradient``.

    Of classes, cross-entropy of the softmax of the largest -U among the leaves of each class. Of numbers, squared
    loss of the row's own leaf, whose choice has the derivative of the softmax of -U (straight through).
    """
    X, Y, w = data
    dtype = theta.dtype
    A, b, values, coefs = unpack(theta, form)
    slope_A, slope_b, slope_values, slope_coefs = unpack(gradient, form)
    gradient[:] = 0
    n_branches, n_outputs = b.size, form.n_outputs
    n_nodes = 2 * n_branches + 1
    favour, slope, distance = np.zeros(n_nodes, dtype), np.zeros(n_nodes, dtype), np.zeros(n_branches, dtype)
    scores, top = np.zeros(max(n_outputs, n_branches + 1), dtype), np.zeros(n_outputs, np.int64)
    own_slopes = np.zeros(n_outputs, dtype)
    total_weight, objective = 0.0, 0.0
    for i in rows:
        total_weight += w[i]
    for i in rows:
        x, y, mass = X[i], Y[i], dtype.type(w[i] / total_weight)
        for t in range(n_branches):
            z = dot(A[t], x) - b[t]
            distance[t] = z
            favour[2 * t + 1] = favour[t] - max(z, dtype.type(0))
            favour[2 * t + 2] = favour[t] - max(-z, dtype.type(0))
        slope[:] = 0
        if form.loss == LOG:
            top[:] = -1
            for leaf in range(n_branches + 1):
                k = leaf_class[leaf]
                if top[k] < 0 or favour[n_branches + leaf] > favour[n_branches + top[k]]:
                    top[k] = leaf
            for k in range(n_outputs):
                scores[k] = favour[n_branches + top[k]]
            own = scores[:n_outputs]
            largest = own.max()
            own[:] = np.exp(own - largest)
            own /= own.sum()
            objective -= mass * np.log(max(own[int(y[0])], dtype.type(1e-12)))
            for k in range(n_outputs):
                slope[n_branches + top[k]] = mass * (own[k] - (1 if k == int(y[0]) else 0))
        else:
            chance = scores[: n_branches + 1]
            chance[:] = favour[n_branches:]
            own_leaf = np.argmax(chance)
            chance[:] = np.exp(chance - chance[own_leaf])
            chance /= chance.sum()
            answer(own_slopes, values[own_leaf], coefs[own_leaf], x, form)
            objective += mass * loss_at(own_slopes, y, form)
            for k in range(n_outputs):
                slope_values[own_leaf, k] += mass * own_slopes[k]
                if form.linear:
                    add(slope_coefs[own_leaf, k], mass * own_slopes[k], x)
            mean = dtype.type(0)
            for leaf in range(n_branches + 1):
                effect = dtype.type(0)
                for k in range(n_outputs):
                    output = values[leaf, k]
                    if form.linear:
                        output += dot(coefs[leaf, k], x)
                    effect += own_slopes[k] * output
                slope[n_branches + leaf] = effect
                mean += chance[leaf] * effect
            for leaf in range(n_branches + 1):
                slope[n_branches + leaf] = mass * chance[leaf] * (slope[n_branches + leaf] - mean)
        for t in range(n_branches - 1, -1, -1):
            left, right = slope[2 * t + 1], slope[2 * t + 2]
            slope[t] = left + right
            step = -left if distance[t] > 0 else right
            if step != 0:
                add(slope_A[t], step, x)
                slope_b[t] -= step
    return objective


@kernel()
def semantic_batches(theta, state, done, order, batches, data, form, leaf_class):
    """Adam on `Batches` of the rows in ``order``, after ``done`` steps. Returns the number of steps taken so far."""
    rate, size, l1, moments = batches
    gradient = np.empty_like(theta)
    n_weights = ((1 << form.depth) - 1) * form.n_features
    for first in range(0, order.size, size):
        semantic(theta, order[first : first + size], data, form, gradient, leaf_class)
        for j in range(n_weights):
            gradient[j] += theta.dtype.type(l1) * np.sign(theta[j])
        done += 1
        adam_step(theta, gradient, state[0], state[1], done, rate, moments)
    return done
