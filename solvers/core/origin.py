"""Features far from zero, such as years: solvers of hyperplanes get them about zero; their models are moved back."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.convert import Model
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.statement import L1, L2, SplitPrice, TreeProblem
from solvers.core.base import Solver, Step, Steps, changed_steps

Floats = NDArray[np.float64]
FAR = 0.1  # of a feature's range: the least distance of its values from zero by which a table is far from zero
FEW = 1e-11  # of its distance from zero: the range of a feature whose values are next to equal
FREE_TO_MOVE = L1, L2, SplitPrice  # penalties that depend on no threshold and no constant


def origin(problem: TreeProblem) -> Floats | None:
    """(p,) what is taken from the features: of a table in which one is far from zero, the means of those that are
    larger than deviations, too; where splits are axis-aligned, of features that are farther away than they are long.
    0 where that makes different values equal. None if no feature is far, or if that states another problem: where a
    penalty may depend on constants, or a constraint on rows.
    """
    if problem.is_sparse or problem.constraints or not all(type(q) in FREE_TO_MOVE for q in problem.penalties):
        return None
    low, high = problem.X.min(axis=0), problem.X.max(axis=0)
    distance, length = np.maximum(low, -high), high - low
    several = length > FEW * np.maximum(distance, 0.0)  # values; of others hyperplanes cannot be moved back
    exact = several & (distance >= length)  # a difference of numbers so near each other has no rounding
    far = exact if problem.splits == "axis" else several & (distance > FAR * length)
    if not far.any():
        return None
    mean, deviation = problem.moments
    mean = np.clip(mean, low, high)
    if problem.splits == "oblique":
        far |= (np.abs(mean) > deviation) & (several | (length == 0.0))
    for j in np.flatnonzero(far & ~exact & (length > 0.0)):
        x = problem.X[:, j]
        far[j] = np.unique(x - mean[j]).size == np.unique(x).size
    return np.where(far, mean, 0.0)


def steps_of(solver: Solver, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
    """The solver's steps. One that says ``wants_zero`` gets features about zero, if some are far from it.

    Of hyperplanes about zero, both random starts and convex surrogates are good ones; far from it neither are, though
    the statement is the same.
    """
    moved = origin(problem) if solver.wants_zero else None
    if moved is None:
        return solver.steps(problem, start, rng)
    near = problem.with_rows(problem.X - moved, problem.y, problem.sample_weight)
    inner = solver.steps(near, None if start is None else start.scale(moved, np.ones(problem.n_features)), rng)
    return _moved(inner, problem, near, moved, start) if isinstance(inner, Generator) else inner


def _moved(inner: Steps, problem: TreeProblem, near: TreeProblem, moved: Floats, start: Tree | None) -> Steps:
    """Steps of features moved by so much. Objectives are left to who runs them: rows may be on other sides."""
    last: tuple[Model | None, Model | None] = None, None

    def back(step: Step) -> Step:
        """The step with its model on the problem's own features."""
        nonlocal last
        if not (isinstance(step, Step) and isinstance(step.tree, (Tree, Forest))):
            return step
        if step.tree is not last[0]:  # a step may bring a new bound of the tree before
            last = step.tree, _unmoved(step.tree, moved, problem, near)
        return replace(step, tree=cast(Model, last[1]), objective=None)

    if start is not None:
        yield Step(start, phase="start")
    return (yield from changed_steps(inner, back))


def _unmoved(model: Model, moved: Floats, problem: TreeProblem, near: TreeProblem) -> Model:
    """A model of moved features on the problem's own; rounding may not leave a leaf with too few rows."""
    new = model.unscale(moved, np.ones(problem.n_features))
    if isinstance(model, Forest) or isinstance(new, Forest) or model.gate is not None:
        return new
    if new.is_axis_aligned:
        return new.routing(problem.X, near.leaves_of(model))
    return new if problem.violation(new) is None else problem.trim(new)
