"""A logistic regression as a tree of one leaf."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from opttree.model.tree import Tree
from opttree.statement import TreeProblem

ITERATIONS, ABSENT = 200, -30.0  # of the regression; the score of a class without rows


def logistic(problem: TreeProblem, strength: float) -> Tree:
    """A multinomial logistic regression with an l2 penalty, by scikit-learn, as a tree of one leaf; the best constant
    where all rows are of one class.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    constant, codes = problem.best_constant(), problem.Y[:, 0].astype(np.intp)
    there = np.unique(codes)
    if there.size < 2:
        return constant
    n, p = problem.X.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=1.0 / (2.0 * strength * n), max_iter=ITERATIONS)
        model.fit(problem.X, codes, problem.w * n)
    values, coefs = np.full((1, problem.n_outputs), ABSENT), np.zeros((1, problem.n_outputs, p))
    if there.size == 2:
        values[0, there], coefs[0, there[1]] = [0.0, float(model.intercept_[0])], model.coef_[0]
    else:
        values[0, there], coefs[0, there] = model.intercept_, model.coef_
    return replace(constant, values=values, coefs=coefs, link="softmax")
