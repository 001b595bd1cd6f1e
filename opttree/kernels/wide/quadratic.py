"""Quadratic programs of many coordinates with an l1 term, as in `opttree.kernels.algebra.quadratic`: coordinate
descent with the slopes kept up to date, on the support between rounds over all coordinates.

An exact step on the face of the current signs costs the cube of the support: there are some where sweeps are slow, and
at the end.
"""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.kernels.algebra.quadratic import solve_face
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import share

SWEEPS = 10  # over the support, between two over all
ROUNDS = 60
FACES = 5  # rounds between two calls for exact steps
WORK = 3e7  # multiplications for the exact steps of a call; at least one step is made
RELATIVE_TOLERANCE = 1e-9
ROUNDING = 1e-24  # relative change of a coordinate, squared, that counts as none


@inner(fastmath=FASTMATH)
def _sweep(H, l1, n_penalised, v, slope, some, size):
    """One round of coordinate descent over ``some[:size]``; returns the largest change, as a change of the value."""
    change = 0.0
    for e in range(size):
        j = some[e]
        curvature = H[j, j]
        if curvature <= 0.0:
            continue
        new = v[j] - slope[j] / curvature
        if j < n_penalised:
            shrink = l1 / curvature
            new = max(new - shrink, 0.0) - max(-new - shrink, 0.0)
        step = new - v[j]
        if step != 0.0:
            v[j] = new
            change = max(change, curvature * step * step)
            row = H[j]
            for k in range(v.size):
                slope[k] += row[k] * step
    return change


@inner(fastmath=FASTMATH)
def _slopes(H, c, v, slope):
    """``slope = c + H v``, by the rows of the coordinates that are not zero."""
    slope[:] = c
    for j in range(v.size):
        if v[j] != 0.0:
            row = H[j]
            for k in range(v.size):
                slope[k] += row[k] * v[j]


@inner(fastmath=FASTMATH)
def _to_face(H, c, l1, n_penalised, v, support, size):
    """Go towards the minimiser on the face of the signs of ``v``, from one face to the next where coordinates reach
    zero, for about `WORK` operations.
    """
    n = 0
    for e in range(size):
        if support[e] >= n_penalised or v[support[e]] != 0.0:
            support[n] = support[e]
            n += 1
    L, u, work = np.empty((n, n)), np.empty(n), 0.0
    while n > 0 and work < WORK and solve_face(H, c, l1, n_penalised, v, support, n, L, u):
        work += n * n * n / 3.0
        t, first = 1.0, -1
        for i in range(n):
            j = support[i]
            if j < n_penalised and l1 > 0.0 and v[j] * u[i] <= 0.0:
                crossing = v[j] / (v[j] - u[i])
                if crossing < t:
                    t, first = crossing, i
        for i in range(n):
            v[support[i]] += t * (u[i] - v[support[i]])
        if first < 0:
            break
        v[support[first]] = 0.0
        for i in range(first, n - 1):
            support[i] = support[i + 1]
        n -= 1


@kernel(fastmath=FASTMATH)
def minimise_range(first, last, H, C, l1, n_penalised, V):
    """`minimise` for some rows of ``C`` and ``V``."""
    q = V.shape[1]
    slope, every, support = np.empty(q), np.arange(q), np.empty(q, np.int64)
    for k in range(first, last):
        c, v = C[k], V[k]
        _slopes(H, c, v, slope)
        tol = -1.0
        on_face = False
        for number in range(ROUNDS):
            change = _sweep(H, l1, n_penalised, v, slope, every, q)
            if tol < 0.0:
                tol = RELATIVE_TOLERANCE * change
                for j in range(q):
                    tol = max(tol, ROUNDING * H[j, j] * v[j] * v[j])
            if change <= tol and on_face:
                break
            size = 0
            for j in range(q):
                if H[j, j] > 0.0 and (j >= n_penalised or v[j] != 0.0):
                    support[size] = j
                    size += 1
            for _ in range(SWEEPS):
                if change <= tol:
                    break
                change = _sweep(H, l1, n_penalised, v, slope, support, size)
            on_face = change <= tol  # where sweeps hardly move, the minimiser may still be far
            if on_face or number % FACES == FACES - 1:
                _to_face(H, c, l1, n_penalised, v, support, size)
                _slopes(H, c, v, slope)


def minimise(H, C, l1, V):
    """Minimise ``c.v + v'Hv / 2 + l1 |v|_1`` in place from ``V (K, q)``, for every row of ``C (K, q)``; the last
    coordinate is not penalised, and those with ``H[j, j] <= 0`` are fixed.
    """
    share(minimise_range, len(V), 10.0 * H.size, H, C, l1, V.shape[1] - 1, V)
