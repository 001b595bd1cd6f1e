"""Whether a hyperplane separates two sets of rows: the nearest points of their convex hulls, by Wolfe's algorithm.

Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11 (1976): a minor cycle solves a system of
at most p + 2 equations, so that the cost per step is that of the two scans for the next pair of rows.
"""

import numpy as np

from opttree.runtime.compiling.compiled import inner

STEPS = 300
ROUNDED = 1e-14  # what rounding leaves of a sum of numbers that is zero, relative to their sizes
SOLVED, DEEP = 1e-10, 1e-6  # the same where p + 1 points have the origin inside, with shares of at least the second
APART, TOUCH, UNKNOWN = 1, 0, -1


@inner()
def separate(X, side, left, right, tolerance, stop, normal):
    """Whether the rows at ``side == left`` and ``side == right`` (both there) are apart by a hyperplane.

    Sets ``normal (p,)``, if they are, so that ``normal . x`` is smaller on the left; one that nearly does it is a good
    start. Returns APART (by more than ``tolerance``), TOUCH (the hulls have a point in common) or UNKNOWN, where
    rounding does not let it say, or ``stop (1,)`` was set.
    """
    p = X.shape[1]
    if p == 1:
        return _ordered(X, side, left, right, normal)
    points = np.empty((p + 2, p))
    share = np.zeros(p + 2)
    v = np.zeros(p)
    _low, _high, first, second = _ends(X, side, left, right, -normal)
    for j in range(p):
        points[0, j] = X[first, j] - X[second, j]
        v[j] = points[0, j]
    share[0] = 1.0
    size = 1
    for _ in range(STEPS):
        if stop[0] > 0.0:
            return UNKNOWN
        length = np.sqrt(np.sum(v * v))
        inside = size == p + 1 and share[:size].min() >= DEEP
        zero = True
        for j in range(p):
            sizes = 0.0
            for i in range(size):
                sizes += share[i] * abs(points[i, j])
            zero &= abs(v[j]) <= (SOLVED if inside else ROUNDED) * sizes
        if zero:
            return TOUCH
        low, high, a, b = _ends(X, side, left, right, v)
        if low - high > tolerance * length:  # every point of the difference is on one side of the origin
            for j in range(p):
                normal[j] = -v[j]
            return APART
        if low - high >= length * length * (1.0 - 1e-12):  # the nearest point, and not apart by the tolerance
            return UNKNOWN
        for j in range(p):
            points[size, j] = X[a, j] - X[b, j]
        share[size] = 0.0
        size += 1
        size = _minor_cycles(points, share, size, v)
        if size < 0:
            return UNKNOWN
    return UNKNOWN


@inner()
def _ends(X, side, left, right, v):
    """The smallest ``v . x`` on the left and the largest on the right, and their rows."""
    low, high, a, b = np.inf, -np.inf, -1, -1
    for i in range(X.shape[0]):
        if side[i] != left and side[i] != right:
            continue
        along = 0.0
        for j in range(X.shape[1]):
            along += v[j] * X[i, j]
        if side[i] == left:
            if along < low:
                low, a = along, i
        elif along > high:
            high, b = along, i
    return low, high, a, b


@inner()
def _ordered(X, side, left, right, normal):
    """`separate` for one feature, exactly."""
    low, high = np.array([np.inf, np.inf]), np.array([-np.inf, -np.inf])
    for i in range(X.shape[0]):
        for k, which in enumerate((left, right)):
            if side[i] == which:
                low[k], high[k] = min(low[k], X[i, 0]), max(high[k], X[i, 0])
    normal[0] = 1.0 if high[0] < low[1] else -1.0
    return APART if high[0] < low[1] or high[1] < low[0] else TOUCH


@inner()
def _minor_cycles(points, share, size, v):
    """The nearest point ``v`` of the hull of ``points[:size]``, those that it does not need left out; their number, or
    -1 for a singular system.
    """
    p = points.shape[1]
    while True:
        system = np.zeros((size + 1, size + 1))
        for i in range(size):
            system[i, size] = system[size, i] = 1.0
            for k in range(size):
                for j in range(p):
                    system[i, k] += points[i, j] * points[k, j]
        goal = np.zeros(size + 1)
        goal[size] = 1.0
        if not _solved(system, goal):
            return -1
        inside = True
        for i in range(size):
            inside &= goal[i] > 1e-12
        if inside:
            share[:size] = goal[:size]
            break
        theta = 1.0
        for i in range(size):
            if goal[i] <= 1e-12 and share[i] > goal[i]:
                theta = min(theta, share[i] / (share[i] - goal[i]))
        kept = 0
        dropped = False
        for i in range(size):
            new = share[i] + theta * (goal[i] - share[i])
            if new <= 1e-12 and not (dropped and size - kept <= 1):
                dropped = True
                continue
            share[kept] = new
            for j in range(p):
                points[kept, j] = points[i, j]
            kept += 1
        if kept == size or kept == 0:
            return -1
        size = kept
    for j in range(p):
        v[j] = 0.0
        for i in range(size):
            v[j] += share[i] * points[i, j]
    return size


@inner()
def _solved(system, goal):
    """Solve in place by Gauss's elimination with pivots; False where it is singular."""
    m = goal.size
    scale = 0.0
    for i in range(m):
        for j in range(m):
            scale = max(scale, abs(system[i, j]))
    for c in range(m):
        best = c
        for r in range(c + 1, m):
            if abs(system[r, c]) > abs(system[best, c]):
                best = r
        if abs(system[best, c]) <= 1e-15 * scale:
            return False
        if best != c:
            for j in range(m):
                system[c, j], system[best, j] = system[best, j], system[c, j]
            goal[c], goal[best] = goal[best], goal[c]
        for r in range(c + 1, m):
            factor = system[r, c] / system[c, c]
            for j in range(c, m):
                system[r, j] -= factor * system[c, j]
            goal[r] -= factor * goal[c]
    for c in range(m - 1, -1, -1):
        for j in range(c + 1, m):
            goal[c] -= system[c, j] * goal[j]
        goal[c] /= system[c, c]
    return True
