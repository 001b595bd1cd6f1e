"""What estimators of axis-aligned trees with a proof share: their options, and the solver that these ask for."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.recipe import Estimator, Floats
from opttree.estimators.steps.solve import AUTO_SECONDS
from opttree.estimators.steps.units import Scaling
from opttree.runtime.options import option
from opttree.statement import SplitPrice, TreeProblem


def solver_of(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    """Branch and bound from TAO's tree, or TAO alone, as ``solver`` says."""
    solvers = bridge.solvers
    tao = build_solver(options, solvers.TAO, node_solver=solvers.AxisNode(), init=solvers.CartInit())
    searched = build_solver(options, solvers.BranchAndBound, init=tao)
    reason = searched.refusal(problem)
    if options.solver == "tao" or (options.solver == "auto" and reason is not None):
        return tao
    if reason is not None:
        raise ValueError(f"solver must be 'auto' or 'tao' for this problem: {reason}")
    return searched if options.solver == "bnb" else replace(searched, time_limit=AUTO_SECONDS)


def unscaled(options: Estimator, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Outcomes in their own units."""
    return np.zeros(Y.shape[1]), np.ones(Y.shape[1])


def priced(
    options: Estimator, problem: TreeProblem, scaling: Scaling, X: Floats, weight: Floats
) -> tuple[TreeProblem, Scaling]:
    """With a `SplitPrice`, if it is known before the fit."""
    if options.split_price and options.split_price != "cv":
        problem = problem.restated(penalties=(SplitPrice(float(options.split_price)),))
    return problem, scaling


@dataclass(eq=False, repr=False)
class ProvedTree(TreeEstimator):
    """Base class of estimators of axis-aligned trees that branch and bound proves."""

    splits = "axis"
    leaves = "constant"

    _: KW_ONLY
    solver: Literal["auto", "bnb", "tao"] = option(
        "auto",
        """"bnb": `solvers.BranchAndBound` to a proof or the time limit, depth 1 to 6, or to 16 where a limit of
        leaves or a price leaves no deeper trees; "tao": `solvers.TAO` from a greedy tree, of any depth and without a
        bound; "auto": "bnb" for 10 seconds, after which the best tree is kept
        with its gap, or "tao" where it is not to be had.""",
    )
    split_price: float | Literal["cv"] = option(0.0, "Price of a split, in units of the objective.", least=0)
    min_samples_leaf: int | None = groups.min_samples_leaf()
    max_leaf_nodes: int | None = groups.max_leaf_nodes()
    gap: float = option(0.0, "Relative gap of the objective that counts as proved.", least=0)
