"""Small dense quadratic programs with an l1 term: the inner problem of node fits and of linear leaves.

    minimise over v (q,)    c.v + v'Hv / 2 + l1 * sum_{j < n_penalised} |v_j|

Coordinate descent finds the signs; the minimiser on the face of those signs is then exact (Cholesky), walking back
to the first coordinate that would change sign. Coordinate descent alone needs thousands of sweeps where features are
nearly collinear (elevators, ailerons); the face steps make the count independent of the conditioning.
"""

import numpy as np
from numba import njit

from opttree.kernels.gram import FASTMATH

SWEEPS = 3
JITTER = 1e-10  # share of the diagonal that callers add to it
MAX_ROUNDS = 50
RELATIVE_TOLERANCE = 1e-9


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def solve_face(H, c, l1, n_penalised, v, support, size, L, u):
    """Minimise over the coordinates ``support[:size]`` with the signs of ``v`` held; the solution goes to ``u``.

    Returns False where the face's Hessian is not positive definite.
    """
    for i in range(size):
        a = support[i]
        for k in range(i + 1):
            s = H[a, support[k]]
            for e in range(k):
                s -= L[i, e] * L[k, e]
            if i == k:
                if s <= 0.0:
                    return False
                L[i, i] = np.sqrt(s)
            else:
                L[i, k] = s / L[k, k]
        s = -c[a]
        if a < n_penalised:
            s -= l1 if v[a] > 0.0 else -l1
        for e in range(i):
            s -= L[i, e] * u[e]
        u[i] = s / L[i, i]
    for i in range(size - 1, -1, -1):
        s = u[i]
        for e in range(i + 1, size):
            s -= L[e, i] * u[e]
        u[i] = s / L[i, i]
    return True


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def minimise_quadratic(H, c, l1, n_penalised, v):
    """Minimise the quadratic plus l1 term in place, from the start ``v``; where ``H[j, j] <= 0``, j stays put."""
    q = v.size
    slope = np.empty(q)
    support = np.empty(q, np.int64)
    L = np.empty((q, q))
    u = np.empty(q)
    tol = -1.0
    for _ in range(MAX_ROUNDS):
        for j in range(q):
            s = c[j]
            for k in range(q):
                s += H[j, k] * v[k]
            slope[j] = s
        for _sweep in range(SWEEPS):
            change = 0.0
            for j in range(q):
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
                    for k in range(q):
                        slope[k] += row[k] * step
            if tol < 0.0:
                tol = RELATIVE_TOLERANCE * change
            if change <= tol:
                return
        size = 0
        for j in range(q):
            if H[j, j] > 0.0 and (j >= n_penalised or v[j] != 0.0):
                support[size] = j
                size += 1
        while size > 0 and solve_face(H, c, l1, n_penalised, v, support, size, L, u):
            t = 1.0
            first = -1
            for i in range(size):
                j = support[i]
                if j < n_penalised and l1 > 0.0 and v[j] * u[i] <= 0.0:
                    crossing = v[j] / (v[j] - u[i])
                    if crossing < t:
                        t = crossing
                        first = i
            for i in range(size):
                v[support[i]] += t * (u[i] - v[support[i]])
            if first < 0:
                break
            v[support[first]] = 0.0
            for i in range(first, size - 1):
                support[i] = support[i + 1]
            size -= 1
