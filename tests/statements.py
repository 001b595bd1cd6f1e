"""Statements that several rooms share."""

import numpy as np

from opttree import L2, L2Constants, SmoothTreeProblem, TreeProblem

RIDGE = (L2(splits=1e-3, leaves=1e-3),)


def smooth_problem(n=500, depth=3, seed=0, alpha=1.0, n_outputs=1, leaves="linear"):
    """A regression problem of ``n_outputs`` outputs, or, where that is "classes", one of three classes."""
    rng = np.random.default_rng(seed)
    classes, n_outputs = n_outputs == "classes", 1 if n_outputs == "classes" else n_outputs
    X = rng.normal(size=(n, 4))
    Y = np.stack([np.sin(X[:, 0] + k) + X[:, 1] * X[:, 2] for k in range(n_outputs)], axis=1)
    weight, loss = rng.uniform(0.5, 2.0, n), "squared"
    if classes:
        Y, loss = np.digitize(Y[:, 0], [-0.5, 0.5]), "log"
    penalties = (*RIDGE, L2Constants(splits=2e-3))
    return SmoothTreeProblem(
        TreeProblem(X, Y, depth=depth, leaves=leaves, loss=loss, penalties=penalties, sample_weight=weight), alpha=alpha
    )


def regression(friedman, **options):
    X, y = friedman
    X = X - X.mean(axis=0)
    return TreeProblem(X / X.std(axis=0), (y - y.mean()) / y.std(), **options)
