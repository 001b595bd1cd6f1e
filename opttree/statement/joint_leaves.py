"""Best constant leaves under `LeafConstraint`s, which tie the answers of several leaves together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.statement.constraints import LeafConstraint, Limits, Statement, answers, picks
from opttree.statement.constraints.base import EXACT

Floats = NDArray[np.float64]
NEWTON_STEPS, CONVERGED = 100, 1e-14
TINY = 1e-14  # coefficients of limits, which are shares of rows or numbers of classes
MOST_WAYS = 2**17  # to choose the answers of leaves, all of which are tried
INSIDE = 1e-9  # least distance of a probability from 0 and 1 while it is fitted


class NoAnswersError(ValueError):
    """No answers of a tree's leaves are within the limits."""


def fit_jointly(problem: Statement, tree: Tree) -> Tree:
    """``tree``, whose leaves are each the best for their rows, with the best answers within the limits instead.

    Least squares with linear limits by Lawson and Hanson's reduction to nonnegative least squares; log loss by Newton's
    method on such problems; absolute loss as a linear program; 0/1 loss as a mixed-integer program. A leaf without rows
    gets an answer that the limits allow.

    Raises
    ------
    NoAnswersError
        A ValueError, if no answers are within the limits.
    """
    limits = [c.limits(problem, tree) for c in problem.constraints if isinstance(c, LeafConstraint)]
    G, h = np.concatenate([m.G for m in limits]), np.concatenate([m.h for m in limits])
    G = np.where(np.abs(G) > TINY, G, 0.0)  # differences of equal shares are rounding errors
    some = np.any(G != 0.0, axis=(1, 2))
    G, h = G[some], h[some]
    best = answers(problem, tree)
    if not h.size or np.all(np.einsum("mlk,lk->m", G, best) <= h):
        return tree
    leaf = problem.leaves_of(tree) - tree.n_branches
    filled = np.bincount(leaf, minlength=tree.n_leaves) > 0
    number = np.cumsum(filled) - 1
    touching = ~np.any(G[:, ~filled] != 0.0, axis=(1, 2))
    group_limits = Limits(G[touching][:, filled], h[touching])
    table = best.copy()
    table[filled] = _fit(problem, number[leaf], best[filled], group_limits)
    for empty in np.flatnonzero(~filled).tolist():
        table[empty] = _allowed(G, table, filled, empty)
        filled[empty] = True
    if problem.loss_function.form == "entropy":
        table = np.column_stack([1.0 - table, table])
    return replace(tree, values=table)


def _allowed(G: Floats, table: Floats, known: NDArray[np.bool_], leaf: int) -> Floats:
    """An answer for an empty leaf: the nearest to its own between those of the leaves that it is ordered with."""
    lower = [table[other] for other in np.flatnonzero(known).tolist() if _ordered(G, other, leaf)]
    upper = [table[other] for other in np.flatnonzero(known).tolist() if _ordered(G, leaf, other)]
    if table.shape[1] > 1:  # classes: any of a neighbour is in order
        return max(lower, key=np.argmax) if lower else min(upper, key=np.argmax) if upper else table[leaf]
    low = max((float(answer[0]) for answer in lower), default=-np.inf)
    high = min((float(answer[0]) for answer in upper), default=np.inf)
    return np.clip(table[leaf], low, max(low, high))


def _ordered(G: Floats, first: int, second: int) -> bool:
    """Whether a limit asks that the answer of ``first`` be at most that of ``second``."""
    pair = (G[:, first].max(axis=1) > 0.0) & (G[:, second].min(axis=1) < 0.0)
    return bool(np.any(pair))


def _fit(problem: Statement, leaf: NDArray[np.integer], best: Floats, limits: Limits) -> Floats:
    """The best answers (L, K) of leaves that all hold rows."""
    L, K = best.shape
    if not len(limits.h):
        return best
    G, h = limits.G.reshape(len(limits.h), L * K), limits.h
    weight: Floats = np.bincount(leaf, weights=problem.w, minlength=L).astype(np.float64)
    if picks(problem):
        return _classes(problem, leaf, G, h, best.shape)
    match problem.loss_function.form:
        case "absolute":
            return _medians(problem, leaf, G, h, best.shape)
        case "entropy":
            return _probabilities(weight, best[:, 0], G, h)[:, None]
        case "quadratic":
            return least_squares_within(np.repeat(weight, K), best.ravel(), G, h).reshape(L, K)
    raise NotImplementedError(problem.loss_function.form)


def least_squares_within(weight: Floats, target: Floats, G: Floats, h: Floats) -> Floats:
    """The x that minimises ``sum weight (x - target)^2`` subject to ``G x <= h`` (Lawson and Hanson 1974, chapter 23:
    least-distance programming as a nonnegative least-squares problem). ValueError if there is none.
    """
    from scipy.optimize import nnls

    root = np.sqrt(weight)
    A, slack = -G / root, G @ target - h  # with z = root (x - target): A z >= slack
    size = max(float(np.abs(slack).max(initial=0.0)), 1e-300)  # a distance in units of the largest violation
    E = np.vstack([A.T, slack / size])
    f = np.zeros(len(E))
    f[-1] = 1.0
    residual = E @ nnls(E, f, maxiter=100 * E.shape[1])[0] - f
    if residual[-1] >= -1e-12:
        raise NoAnswersError("no answers of the leaves satisfy the constraints")
    return target - residual[:-1] / residual[-1] * size / root


def _probabilities(weight: Floats, target: Floats, G: Floats, h: Floats) -> Floats:
    """The probabilities q that minimise ``-sum weight (target log q + (1 - target) log(1 - q))``."""
    box = np.vstack([G, np.eye(len(weight)), -np.eye(len(weight))])
    room = np.concatenate([h, np.ones(len(weight)), np.zeros(len(weight))])

    def loss(q: Floats) -> float:
        inside = np.clip(q, INSIDE, 1.0 - INSIDE)
        return -float(np.sum(weight * (target * np.log(inside) + (1.0 - target) * np.log1p(-inside))))

    q = np.clip(least_squares_within(weight, target, box, room), 0.0, 1.0)  # the answer where limits only order
    for _ in range(NEWTON_STEPS):
        inside = np.clip(q, INSIDE, 1.0 - INSIDE)
        slope = weight * ((1.0 - target) / (1.0 - inside) - target / inside)
        curvature = weight * ((1.0 - target) / (1.0 - inside) ** 2 + target / inside**2)
        step = least_squares_within(curvature, q - slope / curvature, box, room) - q
        length, before = 1.0, loss(q)
        while length > 1e-8 and loss(q + length * step) > before:
            length *= 0.5
        if before - loss(q + length * step) <= CONVERGED:
            break
        q = q + length * step
    return np.clip(q, 0.0, 1.0)


def _medians(problem: Statement, leaf: NDArray[np.integer], G: Floats, h: Floats, shape: tuple[int, int]) -> Floats:
    """Least absolute deviations within the limits, by cutting planes (Kelley 1960): the costs of an answer are linear
    between the targets in its leaf, so that linear programs of the pieces that were met end at the optimum.
    """
    from scipy.optimize import linprog

    L, K = shape
    shift = np.median(problem.Y, axis=0)  # in units of its own, as the tolerances of linear programming are absolute
    size = float(np.abs(problem.Y - shift).max()) or 1.0
    h = (h - G @ np.tile(shift, L)) / size
    costs = [
        _Deviations((problem.Y[leaf == k, j] - shift[j]) / size, problem.w[leaf == k])
        for k in range(L)
        for j in range(K)
    ]
    m = L * K
    pieces = list(
        dict.fromkeys((c, *one) for c, cost in enumerate(costs) for at in cost.first for one in cost.pieces(at))
    )
    best, lowest = np.zeros(m), np.inf
    while True:
        which, slope, start = (np.array(part) for part in zip(*pieces, strict=True))
        cuts = np.zeros((len(which), 2 * m))
        cuts[np.arange(len(which)), which], cuts[np.arange(len(which)), m + which] = slope, -1.0
        limits = np.hstack([G, np.zeros((len(h), m))])
        objective = np.concatenate([np.zeros(m), np.ones(m)])
        sides = {"A_ub": np.vstack([cuts, limits]), "b_ub": np.concatenate([-start, h])}
        solution = linprog(objective, **sides, bounds=(None, None), method="highs-ds")
        if solution.x is None:
            raise NoAnswersError("no answers of the leaves satisfy the constraints")
        answers = solution.x[:m]
        found = float(sum(cost(at) for cost, at in zip(costs, answers, strict=True)))
        if found < lowest:
            best, lowest = answers, found
        known = len(pieces)
        pieces = list(dict.fromkeys(pieces + [(c, *p) for c, at in enumerate(answers) for p in costs[c].pieces(at)]))
        if lowest - solution.fun <= CONVERGED * lowest or len(pieces) == known:
            return best.reshape(shape) * size + shift


class _Deviations:
    """The weighted sum of absolute deviations of some targets from an answer, and its linear pieces."""

    def __init__(self, y: Floats, w: Floats) -> None:
        order = np.argsort(y)
        self.y, self.w = y[order], np.concatenate([[0.0], np.cumsum(w[order])])
        self.wy = np.concatenate([[0.0], np.cumsum(w[order] * y[order])])
        self.first = self.y[[0, np.searchsorted(self.w[1:], 0.5 * self.w[-1]), -1]]

    def piece(self, number: int) -> tuple[float, float]:
        """Slope and value at 0 of the piece that has so many targets below it."""
        below, sums = self.w[number], self.wy[number]
        return float(2.0 * below - self.w[-1]), float(self.wy[-1] - 2.0 * sums)

    def pieces(self, at: float) -> list[tuple[float, float]]:
        """The pieces on both sides of an answer."""
        return [self.piece(int(np.searchsorted(self.y, at, side))) for side in ("left", "right")]

    def __call__(self, at: float) -> float:
        slope, start = self.pieces(at)[0]
        return slope * at + start


def _classes(problem: Statement, leaf: NDArray[np.integer], G: Floats, h: Floats, shape: tuple[int, int]) -> Floats:
    """The classes of the leaves with the fewest errors within the limits, or the actions of the least cost: the best of
    all ways to choose them, or of too many by a mixed-integer program.
    """
    L, K = shape
    lost = np.zeros(shape)
    if problem.is_classification:
        np.add.at(lost, (leaf, problem.Y[:, 0].astype(np.intp)), -problem.w)
    else:
        np.add.at(lost, leaf, problem.w[:, None] * problem.Y)
    lost -= lost.min(axis=1, keepdims=True)
    if K**L <= MOST_WAYS:
        return _best_way(lost, G.reshape(len(h), L, K), h)
    from scipy.optimize import Bounds, LinearConstraint, milp

    one = np.kron(np.eye(L), np.ones(K))
    solution = milp(
        lost.ravel() / (lost.max() or 1.0),  # tolerances of programs are absolute
        integrality=np.ones(L * K),
        bounds=Bounds(0.0, 1.0),
        constraints=[LinearConstraint(one, 1.0, 1.0), LinearConstraint(G, -np.inf, h)],
        options={"mip_rel_gap": 0.0},
    )
    if solution.x is None:
        raise NoAnswersError("no classes of the leaves satisfy the constraints")
    return np.round(solution.x).reshape(shape)


def _best_way(lost: Floats, G: Floats, h: Floats) -> Floats:
    """The choice (L, K) of one of K answers for each leaf that loses the least within the limits."""
    L, K = lost.shape
    total, used = np.zeros(1), np.zeros((1, len(h)))
    for leaf in range(L):  # the ways so far, times the answers of one more leaf
        total = (total[:, None] + lost[leaf]).ravel()
        used = (used[:, None] + G[:, leaf].T).reshape(-1, len(h))
    inside = np.flatnonzero(np.all(used <= h + EXACT, axis=1))
    if not inside.size:
        raise NoAnswersError("no classes of the leaves satisfy the constraints")
    way = int(inside[np.argmin(total[inside])])
    return np.eye(K)[[way // K ** (L - 1 - leaf) % K for leaf in range(L)]]
