"""TAO written straightforwardly in NumPy and scikit-learn, as the reference that `solvers.TAO` is timed against.

It runs the same algorithm on the same statement: pseudolabels from both subtrees, an l1 logistic regression of
liblinear with instance weights, the exact threshold by sorting, level by level, constant leaves by means. Nothing is
done to slow it down: everything inside a node is vectorised; what it lacks is warm starts, compiled loops and threads.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from sklearn.linear_model import LogisticRegression

from opttree import Tree, TreeProblem


def predict_from(tree: Tree, node: int, X: np.ndarray) -> np.ndarray:
    """Outputs (m,) of the subtree at ``node`` (one output, constant leaves)."""
    if node >= tree.n_branches:
        return np.full(X.shape[0], tree.values[node - tree.n_branches, 0])
    left = X @ tree.A[node] <= tree.b[node]
    out = np.empty(X.shape[0])
    out[left] = predict_from(tree, tree.children[node, 0], X[left])
    out[~left] = predict_from(tree, tree.children[node, 1], X[~left])
    return out


def fit_split(X: np.ndarray, u: np.ndarray, l1: float, tol: float) -> tuple[np.ndarray, float] | None:
    """Logistic direction and exact weighted 0/1 threshold; None where the pseudolabels agree."""
    used = u != 0.0
    X, u = X[used], u[used]
    labels = u > 0.0
    if labels.size == 0 or labels.all() or not labels.any():
        return None
    scale = 1.0 / np.abs(u).mean()
    model = LogisticRegression(l1_ratio=1, C=1.0 / (l1 * scale), solver="liblinear", tol=tol, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, labels, sample_weight=np.abs(u) * scale)
    a = model.coef_[0]
    z = X @ a
    order = np.argsort(z)
    cost = np.concatenate([[0.0], np.cumsum(u[order])])  # change from sending every row right
    best = int(np.argmin(cost))
    z = z[order]
    cuts = np.concatenate([[z[0] - 1.0], 0.5 * (z[1:] + z[:-1]), [z[-1] + 1.0]])
    return a, float(cuts[best])


def one_pass(problem: TreeProblem, tree: Tree, tol: float) -> Tree:
    """One TAO iteration over a regression tree with constant leaves and one output, squared loss."""
    X, y, w = problem.X, problem.Y[:, 0], problem.w
    l1 = sum(penalty.splits for penalty in problem.penalties)
    A, b, values = tree.A.copy(), tree.b.copy(), tree.values.copy()
    rows = {0: np.arange(problem.n_samples)}
    for node in range(tree.n_branches):  # breadth-first: parents come before children
        here = rows.pop(node)
        if here.size:
            losses = [(y[here] - predict_from(tree, int(child), X[here])) ** 2 for child in tree.children[node]]
            found = fit_split(X[here], w[here] * (losses[0] - losses[1]), l1, tol)
            if found is not None:
                A[node], b[node] = found
        left = X[here] @ A[node] <= b[node]
        rows[int(tree.children[node, 0])], rows[int(tree.children[node, 1])] = here[left], here[~left]
    for node, here in rows.items():
        if here.size:
            values[node - tree.n_branches, 0] = np.average(y[here], weights=w[here])
    return replace(tree, A=A, b=b, values=values)
