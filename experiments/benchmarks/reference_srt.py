"""NODEC-DR written straightforwardly in NumPy, SciPy and scikit-learn, as the reference that `solvers.NODEC` is timed
against.

The same algorithm on the same statement, from the same start: the root alone and then subtrees, proxies of rows and
subtree, reassignment by weighted logistic regression, leaves by weighted ridge regression, ten macro iterations; the BN
step by SLSQP, as in the paper. Nothing is done to slow it down: objectives and gradients are vectorised over rows and
leaves, the losses of fixed leaves are computed once.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from opttree import L2, TreeProblem


def below(node: int, depth: int) -> np.ndarray:
    """Branches at and below ``node`` of a complete tree of ``depth``, breadth-first."""
    height = depth - (node + 1).bit_length() + 1
    return np.concatenate([((node + 1) << e) - 1 + np.arange(1 << e) for e in range(height)])


def leaf_products(S: np.ndarray) -> np.ndarray:
    """Leaf probabilities (m, 2^d) from left probabilities (m, 2^d - 1)."""
    P = np.ones((len(S), 1))
    while P.shape[1] <= S.shape[1]:
        s = S[:, P.shape[1] - 1 : 2 * P.shape[1] - 1]
        P = np.stack([P * s, P * (1.0 - s)], axis=2).reshape(len(S), 2 * P.shape[1])
    return P


def split_objective(
    point: np.ndarray, X: np.ndarray, losses: np.ndarray, n: int, ridge: float
) -> tuple[float, np.ndarray]:
    """Mean expected loss (a sum over n rows) of a subtree with given leaf losses (m, L), and its gradient."""
    B = losses.shape[1] - 1
    A, b = point[: B * X.shape[1]].reshape(B, -1), point[B * X.shape[1] :]
    S = expit(b - X @ A.T)
    P, V = leaf_products(S), losses
    slopes = np.empty_like(S)
    while V.shape[1] > 1:
        half = V.shape[1] // 2
        here = slice(half - 1, 2 * half - 1)
        reach = P.reshape(len(X), half, -1).sum(axis=2)
        difference = V[:, 0::2] - V[:, 1::2]
        slopes[:, here] = reach * S[:, here] * (1.0 - S[:, here]) * difference
        V = V[:, 1::2] + S[:, here] * difference
    gradient = np.concatenate([(-(slopes.T @ X) / n + 2.0 * ridge * A).ravel(), slopes.sum(axis=0) / n])
    return V.sum() / n + ridge * np.sum(A**2), gradient


def nodec(
    problem: TreeProblem, A: np.ndarray, b: np.ndarray, *, macro_iterations: int = 10, iterations: int = 100
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """From the splits A (B, p), b (B,): A, b, leaf coefficients (L, p + 1), intercept last, of the best point, and its
    smooth objective.
    """
    X, y, depth = problem.X, problem.Y[:, 0], problem.depth
    (n, p), B = X.shape, 2**depth - 1
    split_ridge, leaf_ridge = problem.strength(L2, "splits"), problem.strength(L2, "leaves")
    ones = np.column_stack([X, np.ones(n)])

    def fit_leaf(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        Z = ones[rows] * weight[:, None]
        gram = Z.T @ ones[rows] / n + leaf_ridge * np.diag(np.append(np.ones(p), 0.0))
        return np.linalg.lstsq(gram, Z.T @ y[rows] / n, rcond=None)[0]

    A, b = A.copy(), b.copy()
    P = leaf_products(expit(b - X @ A.T))
    every = np.arange(n)
    leaves = np.stack([fit_leaf(every, P[:, leaf]) for leaf in range(B + 1)])

    def whole() -> float:
        losses = (y[:, None] - ones @ leaves.T) ** 2
        value, _gradient = split_objective(np.concatenate([A.ravel(), b]), X, losses, n, split_ridge)
        return value + leaf_ridge * np.sum(leaves[:, :p] ** 2)

    best, best_value = (A.copy(), b.copy(), leaves.copy()), whole()
    imbalance = np.array([0.1, 0.1, 0.4])
    for _ in range(macro_iterations):
        for t in range(B):
            passes = np.ones(n, bool)
            path = t
            while path > 0:
                parent, goes_left = (path - 1) // 2, path % 2 == 1
                passes &= (X @ A[parent] <= b[parent]) == goes_left
                path = parent
            rows = np.flatnonzero(passes)
            if not rows.size:
                continue
            under = below(t, depth)
            first = (t + 1) * (under.size + 1) - 1 - B
            own = slice(first, first + under.size + 1)
            losses = (y[rows, None] - ones[rows] @ leaves[own].T) ** 2
            S = expit(b[under] - X[rows] @ A[under].T)
            left = S[:, 0] >= 0.5
            smaller = min(left.sum(), rows.size - left.sum())
            if rows.size >= 4 * (p + 1) and smaller <= imbalance[0] * rows.size and imbalance[0] * n >= 1.0:
                larger = np.flatnonzero(left if 2 * left.sum() >= rows.size else ~left)
                expected = np.sum(leaf_products(S) * losses, axis=1)
                worst = larger[np.argsort(-expected[larger])[: math.ceil(imbalance[2] * larger.size)]]
                left[worst] = ~left[worst]
                if left.any() and not left.all():
                    model = LogisticRegression(class_weight="balanced").fit(X[rows], ~left)
                    A[t], b[t] = model.coef_[0], -model.intercept_[0]
            else:
                alone = t == 0 and B > 1
                free = np.arange(under.size * (p + 1))
                if alone:
                    free = np.append(np.arange(p), under.size * p)
                point = np.concatenate([A[under].ravel(), b[under]])

                def objective(v: np.ndarray) -> tuple[float, np.ndarray]:
                    point[free] = v  # noqa: B023
                    value, gradient = split_objective(point, X[rows], losses, n, split_ridge)  # noqa: B023
                    return value, gradient[free]  # noqa: B023

                found = minimize(objective, point[free], jac=True, method="SLSQP", options={"maxiter": iterations})
                point[free] = found.x
                A[under], b[under] = point[: under.size * p].reshape(-1, p), point[under.size * p :]
            if t > 0 or B == 1:
                P = leaf_products(expit(b[under] - X[rows] @ A[under].T))
                for k in range(P.shape[1]):
                    leaves[first + k] = fit_leaf(rows, P[:, k])
            value = whole()
            if value < best_value:
                best, best_value = (A.copy(), b.copy(), leaves.copy()), value
        imbalance *= 0.8
    return *best, best_value
