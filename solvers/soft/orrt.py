"""`ORRT`: soft trees that predict with the mixture of all leaves, trained over all variables at once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem
from opttree.runtime.calm import calm_threads
from opttree.runtime.devices import Device
from opttree.runtime.options import option
from opttree.statement import FeatureL1, TreeProblem
from solvers.core.base import Solver, Step, Steps, at_hand, changed_steps
from solvers.core.result import Termination
from solvers.core.scipy_runs import Iterate, minimise
from solvers.soft.by_feature import constant_bounds, descend, smoothed
from solvers.soft.starts import constant_tree, soft_start, soft_tree, with_depth_cap

Floats = NDArray[np.floating]
METHODS = ("L-BFGS-B", "SLSQP")
PORTION = 50  # iterations between two steps
TRIALS = 20  # mean number of evaluations allowed per iteration


@dataclass(frozen=True)
class ORRT(Solver):
    """Optimal randomized regression trees (Blanquero et al.; SRT paper, eq. 4): one smooth problem in all variables.

    Minimises the loss of the mixture's prediction, plus the statement's l1 and l2 penalties, with SciPy from several
    starts. Under `FeatureL1` a second run follows from there, in which the penalty is smooth at zero, and then proximal
    gradient descent, which takes features out of the tree: the penalty from the beginning led to worse trees. Steps are
    mixtures, whose objective is `TreeProblem.objective`.

    See Also
    --------
    opttree.ORRTRegressor : the estimator
    NODEC : soft trees that answer with one leaf

    References
    ----------
    Blanquero, Carrizosa, Molero-Rio and Romero Morales, "On sparse optimal regression trees", EJOR 299 (2022).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import ORRT, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> solve(problem, ORRT(), random_state=0).tree.mixture
    True
    """

    takes_gates = True
    wants_zero = True
    alpha: float = option(1.0, "Scale of the gates, the paper's mu.", above=0)
    method: Literal["L-BFGS-B", "SLSQP"] = option(
        "L-BFGS-B",
        """"L-BFGS-B", or "SLSQP" as in the paper, whose steps cost the cube of the number of variables.""",
    )
    n_starts: int = option(1, "Starts; a start tree given to `solve` replaces the first.", least=1)
    max_iter: int = option(
        500, "Iterations per start, in one run of SciPy's minimiser; every fifty iterations are a step.", least=1
    )
    tol: float = option(
        1e-6, "Stop if the projected gradient (L-BFGS-B) or the change of the objective (SLSQP) is below this.", above=0
    )
    scale: float = option(
        1.0,
        """Standard deviation of the normal initial weights of splits and leaves in a random start, on the scale of the
        given data.""",
        above=0,
    )
    per_feature: bool = option(
        False,
        """Whether the variables are the paper's: split weights divided by the number of features, in the random start
        and in SciPy's steps.""",
    )
    steepness: float | None = option(1.0, "Steepness of gates from a hard tree, see `NODEC`.", above=0)
    bounded: bool = option(
        False, "Whether constant leaves are kept within the range of y, so that answers are, too; regression only."
    )
    device: Device = option(
        "cpu",
        """"cpu", "gpu" or "auto" (see `opttree.runtime.devices.on_gpu`): device for the objective and its gradient;
        SciPy's steps stay on the CPU.""",
    )

    @staticmethod
    def paper(n_starts: int = 1) -> ORRT:
        """Eq. (4) by SLSQP, as in the experiments of the SRT paper, for features in [0, 1] and standardised outputs.

        The gates are ``1 / (1 + exp(-(w_0 + w . x / p)))``, without a penalty. Its settings of SLSQP are not stated,
        and are SciPy's defaults (100 iterations, tolerance 1e-6); neither are its starts, which are standard normal
        here in all variables. From there SLSQP often stops while all gates are nearly constant, and the mixture nearly
        one linear function: which is what the paper's numbers for it look like.

        Parameters
        ----------
        n_starts : int, default 1
            Random starts.

        Returns
        -------
        ORRT
            The solver.

        Examples
        --------
        >>> from solvers import ORRT
        >>> ORRT.paper().method
        'SLSQP'
        """
        return ORRT(method="SLSQP", n_starts=n_starts, max_iter=100, tol=1e-6, per_feature=True)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what the smooth formulation takes, and depth 0 (the constant tree), but no ``min_leaf``."""
        if problem.min_leaf > 1:
            return f"every row is at every leaf of a soft tree, so that min_leaf = {problem.min_leaf} has no effect"
        reason = None if problem.depth == 0 else SmoothTreeProblem.refusal(problem)
        return reason or SmoothTreeProblem.device_refusal(problem, self.device, aggregation="mixture")

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """A step is fifty iterations, or the end of a run; its number of iterations is in the trace."""
        problem = with_depth_cap(problem, start)
        if (constant := constant_tree(problem, self.alpha)) is not None:
            yield Step(constant, phase="constant")
            return Termination.LOCALLY_OPTIMAL
        yield from at_hand(problem, start if start is not None and start.mixture else None)
        smooth = SmoothTreeProblem(problem, alpha=self.alpha, aggregation="mixture", device=self.device)
        ended = None
        with calm_threads():
            for run in range(self.n_starts):
                start_rng = rng.spawn(1)[0]
                if run == 0 and start is not None:
                    theta = soft_start(smooth, start, self.steepness, start_rng)
                else:
                    theta = self.scale * start_rng.normal(size=smooth.size) * self._units(smooth)
                label = "" if self.n_starts == 1 else f"{run + 1}: "
                yield self._step(smooth, theta, f"{label}start")
                theta, ended = yield from self._descend(smooth, theta, f"{label}{self.method}")
                if strength := problem.strength(FeatureL1, "strength"):
                    theta, _ended = yield from self._descend(smooth, theta, f"{label}{self.method}", strength)
                    ended = yield from self._by_feature(smooth, theta, strength, f"{label}by feature")
        return ended

    def _units(self, smooth: SmoothTreeProblem) -> Floats:
        """What each entry of theta is multiplied by, from the variables."""
        units = np.ones(smooth.size)
        if self.per_feature:
            smooth.unpack(units)[0][:] = 1.0 / smooth.problem.n_features
        return units

    def _bounds(self, smooth: SmoothTreeProblem) -> Any:
        """The range of y for every constant leaf if ``bounded``, and those of `constant_bounds`; none for splits."""
        from scipy.optimize import Bounds

        bounded = self.bounded and not smooth.linear and not smooth.problem.is_classification
        return Bounds(*constant_bounds(smooth, always=bounded))

    def _step(
        self, smooth: SmoothTreeProblem, theta: Floats, phase: str, iterations: int = 0, n_evaluations: int = 1
    ) -> Step:
        tree = soft_tree(smooth, theta, mixture=True, clip=False)
        return Step(tree, phase=phase, n_evaluations=n_evaluations, info={"iterations": iterations})

    def _descend(
        self, smooth: SmoothTreeProblem, theta: Floats, label: str, strength: float = 0.0
    ) -> Generator[Step | None, None, tuple[Floats, Termination]]:
        """One complete run of SciPy's minimiser, under `FeatureL1` of a strength: the last point, and why it ended."""
        if self.method == "L-BFGS-B":
            options = {"maxiter": self.max_iter, "maxfun": TRIALS * self.max_iter, "gtol": self.tol, "ftol": 0.0}
        else:
            options = {"maxiter": self.max_iter, "ftol": self.tol}
        bounds, units = self._bounds(smooth), self._units(smooth)
        theta = np.clip(theta, bounds.lb, bounds.ub)

        def evaluate(variables: Floats) -> tuple[float, Floats]:
            value, gradient = smoothed(smooth, variables * units, strength)
            return value, gradient * units

        def step(point: Iterate) -> Step:
            return self._step(smooth, point.theta * units, label, point.number, point.n_evaluations)

        run = minimise(evaluate, theta / units, PORTION, method=self.method, options=options, bounds=bounds)
        with closing(run):
            outcome, evaluations = yield from changed_steps(run, step)
        found = outcome.x * units
        yield self._step(smooth, found, label, int(outcome.nit), evaluations)
        if outcome.success:
            return found, Termination.LOCALLY_OPTIMAL
        return found, Termination.STALLED if outcome.nit < self.max_iter else Termination.ITERATION_LIMIT

    def _by_feature(
        self, smooth: SmoothTreeProblem, theta: Floats, strength: float, label: str
    ) -> Generator[Step | None, None, Termination]:
        """Proximal gradient descent under `FeatureL1`."""
        bounds, done, evaluations = self._bounds(smooth), 0, 0
        points = descend(smooth, theta, strength, self.max_iter, bounds.lb, bounds.ub)
        for theta, more in points:
            done, evaluations = done + 1, evaluations + more
            if done % PORTION:
                yield None
                continue
            yield self._step(smooth, theta, label, done, evaluations)
            evaluations = 0
        yield self._step(smooth, theta, label, done, evaluations)
        return Termination.ITERATION_LIMIT if done == self.max_iter else Termination.LOCALLY_OPTIMAL
