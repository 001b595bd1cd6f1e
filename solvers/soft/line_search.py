"""`ArmijoLineSearch`, which gives the reference step of decomposition methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.options import Checked, option

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class ArmijoLineSearch(Checked):
    """The largest of the steps a, a delta, a delta^2, ... with sufficient decrease (SRT paper, appendix B.2).

    Sufficient decrease is ``f(x + alpha d) <= f(x) + gamma alpha g.d``; for ``d = -g`` the right side is the paper's
    ``f(x) - gamma alpha |g|^2``. As printed, the loop of the procedure shrinks steps that are already good, and (14)
    has the sign of ``g.d`` reversed; Proposition 2 needs the version here.

    See Also
    --------
    NODEC : takes it as ``line_search``

    References
    ----------
    Consolo, Amaldi and Manno, "Soft regression trees: a model variant and a decomposition training algorithm"
    (2024).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import NODEC, ArmijoLineSearch, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> result = solve(problem, NODEC(k0=0, max_iter=3, line_search=ArmijoLineSearch()), random_state=0)
    >>> result.objective < 1.0
    True
    """

    a: float = option(1.0, "First step.", above=0)
    gamma: float = option(1e-4, "Share of the descent that the slope promises, in (0, 1).", above=0, below=1)
    delta: float = option(0.5, "Factor from one step to the next, in (0, 1).", above=0, below=1)
    max_trials: int = option(
        50,
        "Steps tried before 0 is returned: so close to a stationary point, rounding hides any descent.",
        least=1,
    )

    def step(
        self,
        function: Callable[[Floats], float],
        x: Floats,
        value: float,
        gradient: Floats,
        direction: Floats | None = None,
    ) -> float:
        """Find a step length.

        Parameters
        ----------
        function : callable
            The function, of arrays of shape (n,).
        x : ndarray of shape (n,)
            Where the line begins.
        value : float
            Value of the function at ``x``.
        gradient : ndarray of shape (n,)
            Gradient of the function at ``x``.
        direction : ndarray of shape (n,) or None, default None
            Direction of the line; None: minus the gradient.

        Returns
        -------
        float
            The step length; 0 if there is none.

        Raises
        ------
        ValueError
            If the direction does not descend.
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
