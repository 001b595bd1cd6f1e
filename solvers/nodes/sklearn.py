"""scikit-learn's liblinear as a node solver: the same weighted logistic loss through `sample_weight`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.problems import NodeProblem
from opttree.runtime.options import option
from solvers.nodes.base import NodeSolver

Floats = NDArray[np.float64]
NO_PENALTY = 1e-12  # relative to the total weight, since liblinear has no unpenalised mode


@dataclass(frozen=True)
class SklearnNode(NodeSolver):
    """`sklearn.linear_model.LogisticRegression(solver="liblinear")` on the node's rows with instance weights.

    liblinear penalises the intercept too; ``intercept_scaling`` shrinks that penalty by its value, so that the minimum
    is near the unpenalised one. There is no warm start.

    See Also
    --------
    TAO : takes it as ``node_solver``

    References
    ----------
    Fan, Chang, Hsieh, Wang and Lin, "LIBLINEAR: a library for large linear classification", JMLR 9 (2008).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, SklearnNode, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=1)
    >>> result = solve(problem, TAO(node_solver=SklearnNode()), random_state=0)
    >>> result.objective < 0.62          # of the variance
    True
    """

    tol: float = option(1e-2, "Liblinear's stopping tolerance.", above=0)
    max_iter: int = option(1000, "Largest number of outer iterations.", least=1)
    intercept_scaling: float = option(1000.0, "Value of the constant feature.", above=0)

    def penalty_refusal(self, level_l1: float, level_l2: float) -> str | None:
        """Takes one penalty at a time."""
        if level_l1 > 0 and level_l2 > 0:
            return "liblinear takes an l1 or an l2 penalty on the splits, not both; use NewtonNode"
        return None

    def solve(self, problem: NodeProblem, a: Floats, b: float, rng: Rng) -> tuple[Floats, float]:
        """One node, from scratch; a node whose pseudolabels all agree keeps ``(a, b)``."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        used = problem.weights > 0.0
        labels = problem.labels[used]
        if labels.size == 0 or labels.min() == labels.max():
            return a, b
        weights = problem.weights[used]
        scale = 1.0 / weights.mean()  # liblinear needs weights of order one
        strength = problem.l1 if problem.l1 > 0.0 else 2.0 * problem.l2
        strength = max(strength, NO_PENALTY * weights.sum())
        model = LogisticRegression(
            l1_ratio=1.0 if problem.l1 > 0.0 else 0.0,
            C=1.0 / (strength * scale),
            solver="liblinear",
            tol=self.tol,
            max_iter=self.max_iter,
            intercept_scaling=self.intercept_scaling,
            random_state=int(rng.integers(2**31 - 1)),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(problem.X[problem.rows[used]], labels, sample_weight=weights * scale)
        return model.coef_[0], -float(model.intercept_[0])
