"""Features far from zero, such as years: solvers of hyperplanes get them about zero; their models are moved back."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.statement import L1, L2, SplitPrice, TreeProblem
from solvers.core.base import Solver, Step, Steps, changed_steps

Floats = NDArray[np.float64]
FAR = 0.1  # of a feature's range: the least distance of its values from zero by which a table is far from zero
FREE_TO_MOVE = L1, L2, SplitPrice  # penalties that depend on no threshold and no constant


def origin(problem: TreeProblem) -> Floats | None:
    """(p,) what is taken from the features: of a table in which a feature is far from zero, their means; where splits
    are axis-aligned, of features that are farther away than they are long, so that no two values become equal. None if
    none is far, or if that states another problem: where a penalty may depend on constants, or a constraint on rows.
    """
    if problem.is_sparse or problem.constraints or not all(type(q) in FREE_TO_MOVE for q in problem.penalties):
        return None
    low, high = problem.X.min(axis=0), problem.X.max(axis=0)
    distance, length = np.maximum(low, -high), high - low
    far = (distance >= length if problem.splits == "axis" else distance > FAR * length) & (length > 0.0)
    if not far.any():
        return None
    return np.where(far | (problem.splits != "axis"), np.clip(problem.moments[0], low, high), 0.0)


def steps_of(solver: Solver, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
    """The solver's steps. One that says ``wants_zero`` gets features about zero, if some are far from it.

    Of hyperplanes about zero, both random starts and convex surrogates are good ones; far from it neither are, though
    the statement is the same.
    """
    moved = origin(problem) if solver.wants_zero else None
    return solver.steps(problem, start, rng) if moved is None else _moved(solver, problem, moved, start, rng)


def _moved(solver: Solver, problem: TreeProblem, moved: Floats, start: Tree | None, rng: Rng) -> Steps:
    """`steps_of` for features moved by so much."""
    near, still = problem.with_rows(problem.X - moved, problem.y, problem.sample_weight), np.ones(problem.n_features)
    best = np.inf
    last: tuple[Step, Step] | None = None

    def back(step: Step) -> Step:
        """The step with its model on the problem's own features, where what may be the best one is evaluated anew."""
        nonlocal best, last
        if last is not None and step.tree is last[0].tree:  # a step may bring a new bound of the tree before
            return replace(step, tree=last[1].tree, objective=last[1].objective)
        model, objective = step.tree.unscale(moved, still), step.objective
        if objective is None or objective < best:
            if isinstance(model, Tree) and model.is_axis_aligned and model.gate is None:
                model = model.routing(problem.X, near.leaves_of(cast(Tree, step.tree)))
            objective = problem.objective(model)
            best = min(objective, best)
        last = step, replace(step, tree=model, objective=objective)
        return last[1]

    start = None if start is None else start.scale(moved, still)
    return (yield from changed_steps(solver.steps(near, start, rng), back))
