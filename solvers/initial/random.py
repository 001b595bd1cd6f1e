"""Random hyperplanes, the start of the TAO paper (section 4)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng

from opttree.kernels.routing import project
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from solvers.initial.base import Growth, Initial, Rows, Split, grow, weighted_quantile


@dataclass(frozen=True)
class RandomInit(Initial):
    """A tree of the problem's full depth with random splits: Gaussian (0, 1) weight vectors normalised to unit length;
    for axis-aligned problems, one random feature per split.

    See Also
    --------
    MultiStart : many of them

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import RandomInit, TAO, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> start = solve(problem, RandomInit(), random_state=0)
    >>> solve(problem, TAO(), start=start.tree, random_state=0).objective <= start.objective
    True
    """

    needs = ("value", "constant")
    takes_sparse = True

    threshold: Literal["median", "gaussian"] = option(
        "median",
        """"median" or "gaussian": the bias, which the paper does not specify. "median" cuts each reduced set at its
        weighted median along the vector, so that no subtree starts dead; "gaussian" draws the bias from (0, 1) together
        with the weights and scales it with them, which suits centred features only.""",
    )

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """The random tree with fitted constant leaves."""
        p = problem.n_features

        def split(rows: Rows, depth: int) -> Generator[None, None, Split | None]:
            yield
            if problem.splits == "axis":
                a = np.zeros(p)
                a[rng.integers(p)] = 1.0
                bias = rng.normal()
            else:
                a, bias = rng.normal(size=p), rng.normal()
                norm = float(np.linalg.norm(a))
                a, bias = a / norm, bias / norm
            if self.threshold == "median":
                bias = weighted_quantile(project(problem.X, rows, a), problem.w[rows])
            return a, float(bias)

        yield (yield from grow(problem, split, leaves="constant"))
