"""`ArmijoLineSearch`: the reference step of decomposition methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class ArmijoLineSearch:
    """The largest of the steps a, a delta, a delta^2, ... that lowers a function enough (SRT paper, appendix B.2).

    Enough is ``f(x + alpha d) <= f(x) + gamma alpha g.d``, for the direction ``d = -g`` the paper's
    ``f(x) - gamma alpha |g|^2``. As printed, the loop of the procedure shrinks steps that are already good, and (14)
    has the sign of ``g.d`` reversed; Proposition 2 needs what stands here.

    Parameters
    ----------
    a : first step, > 0.
    gamma : share of the descent that the slope promises, in (0, 1).
    delta : factor from one step to the next, in (0, 1).
    max_trials : steps tried before the answer is 0: so close to a stationary point, rounding hides any descent.
    """

    a: float = 1.0
    gamma: float = 1e-4
    delta: float = 0.5
    max_trials: int = 50

    def __post_init__(self) -> None:
        if not (np.isfinite(self.a) and self.a > 0.0):
            raise ValueError(f"a must be finite and > 0; got {self.a}")
        for name in ("gamma", "delta"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be between 0 and 1; got {getattr(self, name)}")
        if self.max_trials < 1:
            raise ValueError(f"max_trials must be >= 1; got {self.max_trials}")

    def step(
        self,
        function: Callable[[Floats], float],
        x: Floats,
        value: float,
        gradient: Floats,
        direction: Floats | None = None,
    ) -> float:
        """The step length from ``x (n,)``, where ``function`` has ``value`` and ``gradient (n,)``; 0 if none is found.

        ``direction (n,)`` is minus the gradient by default. ValueError for one that does not descend.
        """
        direction = -gradient if direction is None else direction
        slope = float(np.sum(gradient * direction))
        if not slope < 0.0:
            raise ValueError(f"direction must descend; its slope is {slope:g}")
        alpha = self.a
        for _ in range(self.max_trials):
            if function(x + alpha * direction) <= value + self.gamma * alpha * slope:
                return alpha
            alpha *= self.delta
        return 0.0
