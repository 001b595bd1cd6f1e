"""Linear leaves of a smooth tree of many features or outputs: every row counts in every leaf, by its weight there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.algebra.quadratic import RANK
from opttree.kernels.leaves.fit import CONSTANT
from opttree.kernels.records import Net, Rows
from opttree.kernels.smooth import subtree as narrow
from opttree.runtime.calm import calm_threads
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.threads import each
from opttree.wide.leaves import fit_linear, fit_softmax, takes
from opttree.wide.rows import WIDE, Part

Floats = NDArray[np.float64]


def fit_leaves(
    data: Rows, rows: NDArray[np.int32], net: Net, threshold: float, values: Floats, coefs: Floats, *, softmax: bool
) -> float:
    """The kernels `fit_leaves` and `fit_softmax_leaves` at any width; the norm of the gradient, where it is asked for:
    ``threshold`` is above 0 or the table is narrow.
    """
    _L, K, p = coefs.shape
    if p == 0 or not (p > WIDE if softmax else takes(p, K)):
        fit = narrow.fit_softmax_leaves if softmax else narrow.fit_leaves
        return float(fit(data, rows, net, threshold, values, coefs))
    X, Y, W = data
    end = now() + seconds_left()
    part, y = Part(X, rows), Y[rows]
    with calm_threads():
        norm = np.sqrt(_squares(part, y, W, net.l2, values, coefs, softmax)) if threshold > 0.0 else np.inf
        if norm <= threshold:
            return float(norm)
        by_rows = None if softmax or net.l1 > 0.0 or p < part.size else Products(part, net.l2)

        def fit_one(leaf: int) -> None:
            h, where = W[:, leaf], (values[leaf], coefs[leaf])
            mass = float(h.sum())
            if not (mass > narrow.LEAST_WEIGHT or (net.l2 > 0.0 and mass > 0.0 and not softmax)):
                return
            if by_rows is not None and (found := by_rows.ridge(h, y)) is not None:
                coefs[leaf], values[leaf] = found
                return
            near = np.flatnonzero(h > narrow.LEAST_WEIGHT * mass)
            if softmax:
                fit_softmax(X, rows[near], h[near], y[near, 0], net.l1, net.l2, *where, end)
            else:
                fit_linear(X, rows[near], h[near], y[near], net.l1, net.l2, *where)

        each(fit_one, range(len(values)))
    return float(norm)


def _squares(part: Part, y: Floats, W: Floats, l2: float, values: Floats, coefs: Floats, softmax: bool) -> float:
    """Squared norm of the gradient, without an l1 term."""
    L, K, p = coefs.shape
    answer = part.outputs(coefs.reshape(L * K, p), values.ravel()).reshape(-1, L, K)
    if softmax:
        answer = np.exp(answer - answer.max(axis=2, keepdims=True))
        answer /= answer.sum(axis=2, keepdims=True)
        answer[np.arange(len(answer)), :, y[:, 0].astype(np.intp)] -= 1.0
    else:
        answer = 2.0 * (answer - y[:, None])
    answer *= W[:, :, None]
    slope = part.moments(np.ones(part.size), answer.reshape(-1, L * K))
    slope[:, :-1] += 2.0 * l2 * coefs.reshape(L * K, p)
    return float(np.square(slope).sum())


class Products:
    """No more rows than features: the products of any two of them, which serve the regressions of all leaves. Without a
    ridge, weights are the least in units of the features' standard deviations.
    """

    def __init__(self, part: Part, l2: float) -> None:
        self.l2 = l2
        A = part.columns(np.arange(part.p), np.ones(part.size), 0, part.size, np.float64)[:, :-1]
        self.center = A.mean(axis=0)
        A = A - self.center
        A[:, np.abs(A).max(axis=0) <= CONSTANT * np.abs(self.center)] = 0.0
        unit = np.ones(part.p) if l2 > 0.0 else np.sqrt(np.square(A).mean(axis=0))
        self.unit = np.where(unit > 0.0, unit, 1.0)
        self.A = A / self.unit
        self.between = self.A @ self.A.T

    def ridge(self, h: Floats, Y: Floats) -> tuple[Floats, Floats] | None:
        """Weights A (K, p) and constants c (K,) that minimise ``sum_i h_i |y_i - c - A x_i|^2 + l2 |A|^2``; None where
        that has no solution in double precision.
        """
        from scipy.linalg import LinAlgError, cho_solve, cholesky  # imported late: a tree that predicts needs none

        share, root = h / h.sum(), np.sqrt(h)
        level = self.between @ share
        S = self.between - level - level[:, None]
        S += float(share @ level)
        S *= root
        S *= root[:, None]
        S[np.diag_indices_from(S)] += self.l2 if self.l2 > 0.0 else 10.0 * RANK * np.trace(S) / len(S)
        middle = share @ Y
        try:
            L = cholesky(S, lower=True, check_finite=False, overwrite_a=True)
        except LinAlgError:
            return None
        alpha = root[:, None] * cho_solve((L, True), root[:, None] * (Y - middle), check_finite=False)
        coef = alpha.T @ self.A - alpha.sum(axis=0)[:, None] * (share @ self.A)
        coef /= self.unit
        return coef, middle - coef @ (self.center + (share @ self.A) * self.unit)
