"""Small dense quadratic programs with an l1 term: the inner problem of node fits and of linear leaves.

    minimise over v (q,)    c.v + v'Hv / 2 + l1 * sum_{j < n_penalised} |v_j|

Coordinate descent finds the signs; the minimiser on the face with these signs is computed by Cholesky, going only to
the first coordinate that would change sign. Coordinate descent alone needs thousands of sweeps where features are
nearly collinear (elevators, ailerons); the face steps make the count independent of the conditioning.
"""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.runtime.compiling.compiled import inner, kernel

SWEEPS = 3
JITTER = 1e-10  # callers add this share of the diagonal to it
RANK = 1e-10  # pivots and diagonals below it, of a Gram matrix scaled to a diagonal of at most one, count as zero
MAX_ROUNDS = 50
RELATIVE_TOLERANCE = 1e-9
ROUNDING = 1e-24  # relative change of a coordinate, squared, that counts as none


@inner(fastmath=FASTMATH)
def solve_face(H, c, l1, n_penalised, v, support, size, L, u):
    """Minimise over the coordinates ``support[:size]`` with the signs of ``v`` fixed; the solution goes to ``u``.

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


@kernel(fastmath=FASTMATH)
def minimise_quadratic(H, c, l1, n_penalised, v):
    """Minimise the quadratic plus l1 term in place, from the start ``v``; coordinates with ``H[j, j] <= 0`` are
    fixed.
    """
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
            if tol < 0.0:  # a start at the solution itself changes by rounding errors only
                tol = RELATIVE_TOLERANCE * change
                for j in range(q):
                    tol = max(tol, ROUNDING * H[j, j] * v[j] * v[j])
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


@kernel()
def solve_linear_leaf(G, c, l1, l2, v):
    """Linear leaf from its sums: minimise ``v'Gv - 2 c.v + l1 |v|_1 + l2 |v|_2^2``; the last entry is not penalised.

    ``G (p + 1, p + 1)`` and ``c (p + 1,)`` are sums over the rows of ``h (x, 1)(x, 1)'`` and ``h y (x, 1)``;
    ``v (p + 1,)`` is the start for l1, unless a constant is better, and the result. Without l1 it is the minimum-norm
    solution, see `least_norm`.
    """
    p = v.size - 1
    if l1 == 0.0:
        least_norm(G, c, l2, v)
        return
    mass = G[p, p]
    if mass > 0.0:
        v[p] = (c[p] - np.sum(G[p, :p] * v[:p])) / mass
        more = c[p] * (c[p] / mass)  # than the constant
        for i in range(p + 1):
            s = -2.0 * c[i]
            for j in range(p + 1):
                s += G[i, j] * v[j]
            more += s * v[i]
        for j in range(p):
            more += l1 * abs(v[j]) + l2 * v[j] ** 2
        if not more <= 0.0:
            v[:p], v[p] = 0.0, c[p] / mass
    H = 2.0 * G
    for j in range(p + 1):
        H[j, j] += JITTER * H[j, j] + (2.0 * l2 if j < p else 0.0)
    minimise_quadratic(H, -2.0 * c, l1, p, v)


@inner(fastmath=FASTMATH)
def least_norm(G, c, l2, v):
    """The least-norm solution of a least-squares problem with an unpenalised constant and ridge ``l2``, see
    `solve_linear_leaf`.

    The constant is eliminated, features are scaled to standard deviation one, and their Gram matrix is factorised as
    LL' with pivoting, largest pivot first, until the rest is rounding error: L is (p, rank). With full rank the
    solution is unique; else it is the one of least norm, in those units, L (L'L)^-2 L'c. Features whose variance is
    rounding error beside their mean square are constant.
    """
    p = v.size - 1
    mass = G[p, p]
    if not mass > 0.0:
        v[:] = 0.0
        return
    unit = np.empty(p)
    M = np.empty((p, p))
    r = np.empty(p)
    for j in range(p):
        squares = G[j, j] - G[j, p] * (G[j, p] / mass)
        unit[j] = np.sqrt((squares + l2) / mass) if squares > RANK * G[j, j] else 0.0
    for j in range(p):
        scale = unit[j] * mass if unit[j] > 0.0 else 1.0
        r[j] = (c[j] - G[j, p] * (c[p] / mass)) / scale if unit[j] > 0.0 else 0.0
        for k in range(j + 1):
            M[j, k] = 0.0
            if unit[j] > 0.0 and unit[k] > 0.0:
                s = G[j, k] - G[j, p] * (G[k, p] / mass)
                M[j, k] = (s + l2 if j == k else s) / (scale * unit[k])
            M[k, j] = M[j, k]
    order = np.arange(p)
    L = np.zeros((p, p))
    rank = 0
    for step in range(p):
        best = step
        for i in range(step + 1, p):
            if M[order[i], order[i]] > M[order[best], order[best]]:
                best = i
        a = order[best]
        if not M[a, a] > RANK:
            break
        order[best] = order[step]
        order[step] = a
        pivot = np.sqrt(M[a, a])
        L[a, step] = pivot
        for i in range(step + 1, p):
            b = order[i]
            L[b, step] = M[b, a] / pivot
        for i in range(step + 1, p):
            b = order[i]
            for k in range(step + 1, i + 1):
                e = order[k]
                M[b, e] -= L[b, step] * L[e, step]
                M[e, b] = M[b, e]
        rank = step + 1
    u = np.empty(rank)
    W = np.empty((rank, rank))
    if rank == p:
        for i in range(p):
            u[i] = r[order[i]]
            for k in range(i + 1):
                W[i, k] = L[order[i], k]
        solve_factorised(W, u)
        for i in range(p):
            v[order[i]] = u[i]
    else:
        for i in range(rank):
            s = 0.0
            for j in range(p):
                s += L[j, i] * r[j]
            u[i] = s
            for k in range(i + 1):
                s = 0.0
                for j in range(p):
                    s += L[j, i] * L[j, k]
                W[i, k] = s
        factorise(W)
        solve_factorised(W, u)
        solve_factorised(W, u)
        for j in range(p):
            s = 0.0
            for i in range(rank):
                s += L[j, i] * u[i]
            v[j] = s
    constant = c[p] / mass
    for j in range(p):
        v[j] = v[j] / unit[j] if unit[j] > 0.0 else 0.0
        constant -= v[j] * (G[j, p] / mass)
    v[p] = constant


@inner(fastmath=FASTMATH)
def factorise(W):
    """Cholesky factorisation of a positive definite matrix in place, in the lower triangle."""
    for i in range(W.shape[0]):
        for k in range(i + 1):
            s = W[i, k]
            for e in range(k):
                s -= W[i, e] * W[k, e]
            W[i, k] = np.sqrt(s) if i == k else s / W[k, k]


@inner(fastmath=FASTMATH)
def solve_factorised(W, u):
    """Solve in place with the factor in ``W`` from `factorise`."""
    for i in range(u.size):
        s = u[i]
        for k in range(i):
            s -= W[i, k] * u[k]
        u[i] = s / W[i, i]
    for i in range(u.size - 1, -1, -1):
        s = u[i]
        for k in range(i + 1, u.size):
            s -= W[k, i] * u[k]
        u[i] = s / W[i, i]
