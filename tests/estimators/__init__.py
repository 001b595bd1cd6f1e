"""Tests of estimators."""

from opttree.statement import TreeProblem


def solver_of(model, problem: TreeProblem | None):
    """The solver that an estimator makes of its options."""
    return model.recipe.solver(model, problem, None)
