"""A run of SciPy's L-BFGS-B over increasing gate scales."""

from __future__ import annotations

from collections.abc import Generator
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.problems import SmoothTreeProblem
from solvers.core.scipy_runs import Iterate, minimise

Floats = NDArray[np.floating]


class LBFGSRun:
    """State of one run of `LBFGS`. A step is an iteration; a scale may take as many as it has epochs."""

    def __init__(self, options: Any, smooth: SmoothTreeProblem, theta: Floats, scales: Floats) -> None:
        self.options, self.smooth = options, smooth
        self.theta: Floats = np.array(theta, np.float64)
        self.device = smooth.device
        self.ladder = [(float(a), len(list(run))) for a, run in groupby(np.asarray(scales))]
        self.run: Generator[Iterate | None, None, Any] | None = None  # at the current scale

    @property
    def thetas(self) -> list[Floats]:
        """The current theta."""
        return [self.theta]

    @property
    def remaining(self) -> int:
        """Largest number of remaining iterations."""
        return sum(k for _alpha, k in self.ladder)

    def advance(self, steps: int) -> None:
        """Run the next `LBFGS.iterations` iterations at the current gate scale, regardless of ``steps``."""
        alpha, left = self.ladder[0]
        if self.run is None:
            smooth = self.smooth.with_alpha(alpha)
            self.run = minimise(
                smooth.value_and_grad,
                self.theta,
                self.options.iterations,
                method="L-BFGS-B",
                options={"maxcor": self.options.memory, "maxiter": left, "gtol": self.options.tol, "ftol": 0.0},
            )
        try:
            while (iterate := next(self.run)) is None:
                pass
            self.theta = iterate.theta
            self.ladder[0] = alpha, max(left - self.options.iterations, 1)
        except StopIteration as stop:
            self.theta, self.run = stop.value[0].x, None
            self.ladder.pop(0)
