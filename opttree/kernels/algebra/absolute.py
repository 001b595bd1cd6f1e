"""Least absolute deviations of a linear leaf: from the point of reweighted least squares along edges to a minimiser.

    minimise over v (q,)    sum_i h_i |y_i - z_i . v|

The function is convex and piecewise linear, so that a minimiser fits k = rank(z) rows, the basis, exactly (Barrodale
and Roberts, SIAM J. Numer. Anal. 10, 1973). A step releases one row of the basis and goes, along the line on which the
others stay fitted, to the weighted median of the places where residuals vanish.

Where more than k rows are fitted, as on whole numbers, no single edge of a basis need descend although the point is no
minimiser. So y is moved by up to a millionth of the mean residual, by another amount in each row; a basis that is
optimal then is optimal for y itself.
"""

import numpy as np

from opttree.runtime.compiling.compiled import inner, kernel

DEPENDENT = 1e-9  # a row or coordinate with less left of it, relative to its size, depends on those before
LEAST_SLOPE = 1e-10  # a descent slower than this, relative to the sum of h |z| . |d|, is rounding error
STEPS = 40  # for each coordinate
WORK = 2e8  # products of all steps, about: a tenth of a second; leaves of many rows and features end there
MOVED = 1e-6  # relative to the mean residual


@inner()
def choose_basis(Z, size, h, order):
    """Independent rows (k,) of positive weight, the first possible in ``order``, and coordinates (k,) in which they are
    independent.
    """
    m, q = Z.shape
    rows, columns = np.empty(q, np.int64), np.empty(q, np.int64)
    reduced = np.zeros((q, q))
    k = 0
    for e in range(m):
        if k == q:
            break
        if h[order[e]] <= 0.0:
            continue
        z = Z[order[e]] / size
        largest = np.abs(z).max()
        for i in range(k):
            z -= z[columns[i]] * reduced[i]
        pivot = int(np.argmax(np.abs(z)))
        if abs(z[pivot]) <= DEPENDENT * largest:
            continue
        z /= z[pivot]
        for i in range(k):
            reduced[i] -= reduced[i, pivot] * z
        reduced[k], rows[k], columns[k] = z, order[e], pivot
        k += 1
    return rows[:k], columns[:k]


@inner()
def stop_on_line(r, along, h, slope):
    """Row whose residual vanishes at the minimum of ``sum_i h_i |r_i - t along_i|`` over t > 0, -1 where there is none;
    ``slope`` is that at t = 0+.
    """
    t = np.full(r.size, np.inf)
    for i in range(r.size):
        if r[i] * along[i] > 0.0:
            t[i] = r[i] / along[i]
    order = np.argsort(t)
    for e in range(r.size):
        i = order[e]
        if t[i] == np.inf:
            break
        slope += 2.0 * h[i] * abs(along[i])
        if slope >= 0.0:
            return i
    return -1


@inner()
def scaled_rows(Z, size, rows, columns):
    """``Z[rows][:, columns] / size[columns]``: (k, k)."""
    B = np.empty((rows.size, columns.size))
    for a in range(rows.size):
        for c in range(columns.size):
            B[a, c] = Z[rows[a], columns[c]] / size[columns[c]]
    return B


@inner()
def to_vertex(Z, y, size, rows, columns, v):
    """Move ``v`` to where ``rows`` are fitted, along ``columns``; returns the inverse of `scaled_rows`."""
    inverse = np.linalg.inv(scaled_rows(Z, size, rows, columns))
    r = np.empty(rows.size)
    for a in range(rows.size):
        r[a] = y[rows[a]] - np.sum(Z[rows[a]] * v)
    for c in range(columns.size):
        v[columns[c]] += np.sum(inverse[c] * r) / size[columns[c]]
    return inverse


@inner()
def total_loss(Z, y, h, v):
    """The objective."""
    total = 0.0
    for i in range(y.size):
        total += h[i] * abs(y[i] - np.sum(Z[i] * v))
    return total


@inner()
def best_edge(Z, r, h, fitted, rows, columns, size, inverse):
    """The row of the basis whose release descends fastest, relative to the size of what moves; -1 where none does; and
    the direction, 1 or -1.
    """
    k = rows.size
    pull, sizes = np.zeros(k), np.zeros(k)
    for i in range(r.size):
        if fitted[i]:
            continue
        for c in range(k):
            z = h[i] * Z[i, columns[c]] / size[columns[c]]
            sizes[c] += abs(z)
            pull[c] += z if r[i] > 0.0 else -z
    best, leaving, sign = -LEAST_SLOPE, -1, 1.0
    for a in range(k):
        up, whole = 0.0, h[rows[a]]
        for c in range(k):
            up -= pull[c] * inverse[c, a]
            whole += sizes[c] * abs(inverse[c, a])
        slope = (h[rows[a]] - abs(up)) / whole
        if slope < best:
            best, leaving, sign = slope, a, 1.0 if up < 0.0 else -1.0
    return leaving, sign


@kernel()
def descend_absolute(Z, y, h, v):
    """Move ``v (q,)`` to a minimiser for rows ``Z (m, q)``, ``y (m,)`` of weights ``h (m,)``, see above; it stays where
    that is no better.
    """
    m, q = Z.shape
    size = np.ones(q)
    for j in range(q):
        largest = np.abs(Z[:, j]).max()
        if largest > 0.0:
            size[j] = largest
    start, before = v.copy(), total_loss(Z, y, h, v)
    r, moved = np.empty(m), y.copy()
    for i in range(m):
        r[i] = y[i] - np.sum(Z[i] * v)
        share = 43758.5453 * np.sin(12.9898 * (i + 1.0)) % 1.0  # scattered in [0, 1), without a pattern
        moved[i] += MOVED * before / np.sum(h) * np.abs(Z[i] / size).max() * share
    rows, columns = choose_basis(Z, size, h, np.argsort(np.abs(r)))
    k = rows.size
    fitted = np.zeros(m, np.bool_)
    for a in range(k):
        fitted[rows[a]] = True
    inverse = to_vertex(Z, moved, size, rows, columns, v)
    along, row = np.empty(m), np.empty(k)
    for _ in range(min(STEPS * q, int(WORK / (m * (q + 2.0 * k))) + 1)):
        for i in range(m):
            r[i] = 0.0 if fitted[i] else moved[i] - np.sum(Z[i] * v)
        leaving, sign = best_edge(Z, r, h, fitted, rows, columns, size, inverse)
        if leaving < 0:
            break
        slope = h[rows[leaving]]
        for i in range(m):
            s = 0.0
            for c in range(k):
                s += Z[i, columns[c]] / size[columns[c]] * inverse[c, leaving]
            along[i] = 0.0 if fitted[i] else sign * s
            slope -= h[i] * (along[i] if r[i] > 0.0 else -along[i])
        entering = stop_on_line(r, along, h, slope)
        if entering < 0:
            break
        t = sign * r[entering] / along[entering]
        for c in range(k):
            v[columns[c]] += t * inverse[c, leaving] / size[columns[c]]
        fitted[rows[leaving]], fitted[entering] = False, True
        rows[leaving] = entering
        for a in range(k):  # the entering row in the coordinates of the old basis
            row[a] = 0.0
            for c in range(k):
                row[a] += Z[entering, columns[c]] / size[columns[c]] * inverse[c, a]
        for c in range(k):
            inverse[c, leaving] /= row[leaving]
            for a in range(k):
                if a != leaving:
                    inverse[c, a] -= row[a] * inverse[c, leaving]
    to_vertex(Z, y, size, rows, columns, v)
    if not total_loss(Z, y, h, v) <= before:
        for j in range(q):
            v[j] = start[j]
