"""Least absolute deviations of a linear leaf: from the point of reweighted least squares along edges to a minimiser.

    minimise over v (q,)    sum_i h_i |y_i - z_i . v|

The function is convex and piecewise linear, so that a minimiser fits k = rank(z) rows, the basis, exactly (Barrodale
and Roberts, SIAM J. Numer. Anal. 10, 1973). A step releases one row of the basis and goes, along the line on which the
others stay fitted, to the weighted median of the places where residuals vanish.
"""

import numpy as np

from opttree.compiled import inner, kernel

DEPENDENT = 1e-9  # a row or coordinate with less left of it, relative to its size, depends on those before
LEAST_SLOPE = 1e-10  # a descent slower than this, relative to the sum of h |z| . |d|, is rounding error
ROUNDING = 1e-13  # a residual below it, relative to its terms, is zero
STEPS = 40  # for each coordinate


@inner()
def choose_basis(Z, size, order):
    """Independent rows (k,), the first possible in ``order``, and as many coordinates (k,) in which they are."""
    m, q = Z.shape
    rows, columns = np.empty(q, np.int64), np.empty(q, np.int64)
    reduced = np.zeros((q, q))
    k = 0
    for e in range(m):
        if k == q:
            break
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


@kernel()
def descend_absolute(Z, y, h, v):
    """Move ``v (q,)`` to a minimiser for rows ``Z (m, q)``, ``y (m,)`` of weights ``h (m,)``, see above."""
    m, q = Z.shape
    size = np.ones(q)
    for j in range(q):
        largest = np.abs(Z[:, j]).max()
        if largest > 0.0:
            size[j] = largest
    r = np.empty(m)
    for i in range(m):
        r[i] = y[i] - np.sum(Z[i] * v)
    rows, columns = choose_basis(Z, size, np.argsort(np.abs(r)))
    k = rows.size
    B = np.empty((k, k))
    for a in range(k):
        for c in range(k):
            B[a, c] = Z[rows[a], columns[c]] / size[columns[c]]
    inverse = np.linalg.inv(B)
    start, before = v.copy(), np.sum(h * np.abs(r))
    fitted = np.zeros(m, np.bool_)
    for a in range(k):
        fitted[rows[a]] = True
    shift = inverse @ r[rows]  # to the vertex
    for c in range(k):
        v[columns[c]] += shift[c] / size[columns[c]]
    along, flat, pull, sizes = np.empty(m), np.empty(m, np.int64), np.empty(k), np.empty(k)
    for _ in range(STEPS * q):
        for i in range(m):
            r[i], terms = y[i], abs(y[i])
            for j in range(q):
                r[i] -= Z[i, j] * v[j]
                terms += abs(Z[i, j] * v[j])
            if fitted[i] or abs(r[i]) <= ROUNDING * terms:
                r[i] = 0.0
        for c in range(k):
            pull[c], sizes[c] = 0.0, 0.0
        n_flat = 0  # rows outside the basis that are fitted, too
        for i in range(m):
            if fitted[i]:
                continue
            if r[i] == 0.0:
                flat[n_flat] = i
                n_flat += 1
            for c in range(k):
                z = h[i] * Z[i, columns[c]] / size[columns[c]]
                sizes[c] += abs(z)
                pull[c] += z if r[i] > 0.0 else -z if r[i] < 0.0 else 0.0
        best, leaving, sign = 0.0, -1, 1.0
        for a in range(k):
            up, kinks, whole = 0.0, h[rows[a]], h[rows[a]]
            for c in range(k):
                up -= pull[c] * inverse[c, a]
                whole += sizes[c] * abs(inverse[c, a])
            for e in range(n_flat):
                along_edge = 0.0
                for c in range(k):
                    along_edge += Z[flat[e], columns[c]] / size[columns[c]] * inverse[c, a]
                kinks += h[flat[e]] * abs(along_edge)
            slope = (kinks - abs(up)) / whole
            if slope < best:
                best, leaving, sign = slope, a, 1.0 if up < 0.0 else -1.0
        if leaving < 0 or best > -LEAST_SLOPE:
            break
        slope = h[rows[leaving]]
        for i in range(m):
            s = 0.0
            for c in range(k):
                s += Z[i, columns[c]] / size[columns[c]] * inverse[c, leaving]
            along[i] = 0.0 if fitted[i] else sign * s
            if r[i] == 0.0:
                slope += h[i] * abs(along[i])
            else:
                slope -= h[i] * (along[i] if r[i] > 0.0 else -along[i])
        entering = stop_on_line(r, along, h, slope)
        if entering < 0:
            break
        t = sign * r[entering] / along[entering]
        for c in range(k):
            v[columns[c]] += t * inverse[c, leaving] / size[columns[c]]
        fitted[rows[leaving]], fitted[entering] = False, True
        rows[leaving] = entering
        row = np.empty(k)  # of the new basis, in the coordinates of the old one
        for a in range(k):
            row[a] = 0.0
            for c in range(k):
                row[a] += Z[entering, columns[c]] / size[columns[c]] * inverse[c, a]
        pivot = row[leaving]
        for c in range(k):
            inverse[c, leaving] /= pivot
        for a in range(k):
            if a != leaving:
                for c in range(k):
                    inverse[c, a] -= row[a] * inverse[c, leaving]
    after = 0.0
    for i in range(m):
        after += h[i] * abs(y[i] - np.sum(Z[i] * v))
    if not after <= before:
        v[:] = start
