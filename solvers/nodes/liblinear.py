"""liblinear-official as a node solver. It does not support instance weights, so rows are replicated or resampled."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.problems import NodeProblem
from opttree.runtime.options import option
from solvers.nodes.base import NodeSolver

Floats = NDArray[np.float64]
L1_LOGISTIC, L2_LOGISTIC = 6, 0


@dataclass(frozen=True)
class LiblinearNode(NodeSolver):
    """LIBLINEAR's logistic regression with unpenalised intercept, and the two substitutes for instance weights of the
    TAO paper (section 3.3). Its `problem` has no field for them, and its class weights are one per label.

    See Also
    --------
    TAO : takes it as ``node_solver``

    References
    ----------
    Fan, Chang, Hsieh, Wang and Lin, "LIBLINEAR: a library for large linear classification", JMLR 9 (2008).

    Examples
    --------
    >>> from opttree import L1, TreeProblem, datasets
    >>> from solvers import TAO, LiblinearNode, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=1, penalties=L1(splits=1e-3))
    >>> result = solve(problem, TAO(node_solver=LiblinearNode()), random_state=0)
    >>> result.objective < 0.62          # of the variance
    True
    """

    weighting: Literal["replicate", "resample"] = option(
        "replicate",
        """"replicate" or "resample". "replicate" repeats each row ``round(copies * weight / largest weight)`` times:
        exact where the weights are multiples of ``largest / copies`` (in particular if all are equal), otherwise each
        is off by at most half of that, and rows lighter than half are dropped. "resample" draws as many rows as there
        are, with replacement, in proportion to their weights: unbiased but noisy, and dependent on the random
        state.""",
    )
    copies: int = option(20, 'Resolution of "replicate"; time and memory grow with the mean number of copies.', least=1)
    tol: float = option(1e-2, "Liblinear's stopping tolerance.", above=0)

    def penalty_refusal(self, level_l1: float, level_l2: float) -> str | None:
        """Takes exactly one penalty."""
        if (level_l1 > 0) == (level_l2 > 0):
            return "liblinear needs either an l1 or an l2 penalty on the splits; use NewtonNode for none or both"
        return None

    def solve(self, problem: NodeProblem, a: Floats, b: float, rng: Rng) -> tuple[Floats, float]:
        """One node, from scratch; a node whose (sampled) pseudolabels all agree keeps ``(a, b)``."""
        from liblinear.liblinearutil import parameter, problem as liblinear_problem, train
        from scipy.sparse import csr_matrix

        weights = problem.weights
        if not weights.any():
            return a, b
        if self.weighting == "replicate":
            unit = weights.max() / self.copies
            chosen = np.repeat(np.arange(weights.size), np.rint(weights / unit).astype(int))
        else:
            unit = weights.sum() / weights.size
            chosen = np.sort(rng.choice(weights.size, weights.size, p=weights / weights.sum()))
        labels = problem.labels[chosen]
        if labels.min() == labels.max():
            return a, b
        kind = L1_LOGISTIC if problem.l1 > 0 else L2_LOGISTIC
        C = float(unit / (problem.l1 if problem.l1 > 0 else 2.0 * problem.l2))
        data = liblinear_problem(labels.astype(np.float64), csr_matrix(problem.X[problem.rows[chosen]]), 1.0)
        _seed_c_library(int(rng.integers(2**31)))
        model = train(data, parameter(f"-s {kind} -c {C!r} -e {self.tol!r} -B 1 -R -q"))
        w, bias = model.get_decfun()
        sign = 1.0 if model.get_labels()[0] == 1 else -1.0
        w = np.asarray(w) * sign
        # with a csr matrix, liblinear would not count trailing zero columns as features
        return np.concatenate([w, np.zeros(a.size - w.size)]), -sign * float(bias)


def _seed_c_library(seed: int) -> None:
    """Seed the C library's `rand`, which orders LIBLINEAR's coordinate descent; LIBLINEAR has no option for it."""
    library = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
    library.srand(ctypes.c_uint(seed))
