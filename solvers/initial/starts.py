"""The trees that exact solvers over candidate splits begin with."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from numpy.random import Generator as Rng

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems import MIPTreeProblem
from solvers.core.base import Step
from solvers.core.incumbent import Incumbent
from solvers.initial.cart import CartInit


def first_trees(
    run: Incumbent, stated: MIPTreeProblem, start: Tree | None, rng: Rng
) -> Generator[Step | None, Any, list[Tree]]:
    """Take the best constant, CART's tree and the start, moved to the candidate splits; returns these trees."""
    problem, given = run.problem, []
    constant = problem.best_constant()
    yield from run.take(constant, "constant")
    if start is not None:
        given.append((as_tree(start), "start"))
    if problem.depth:
        given.append((CartInit().build(problem.restated(constraints=()), rng), "CART"))
    found = [constant]
    for tree, phase in given:
        if (snapped := stated.snap(tree)) is not None:
            found.append(snapped)
            yield from run.take(snapped, phase)
    return found
