"""`JointForest`: a forest whose leaves are fitted to the rows together, once its trees are grown."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray
from scipy.sparse import csr_array

from opttree.model.forest import Forest, leaves_of
from opttree.model.tree import Tree, replace as with_fields
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.copies import different_rows, with_copies
from solvers.core.base import Solver, Step, Steps, changed_steps
from solvers.ensembles.forest import TAOForest

Floats = NDArray[np.float64]
STRENGTHS = (100.0, 10.0, 1.0, 0.1, 0.01, 0.001)  # of the ridge penalty, beside a tenth of the rows
FEWEST = 20  # rows held out, below which leaves stay as they are
ITERATIONS, CLOSE = 200, 1e-4  # of conjugate gradients


@dataclass(frozen=True)
class JointForest(Solver):
    """The forest of another solver, whose leaves are moved together to what all trees leave over (Ren et al. 2015).

    With r_i what the forest leaves of the outputs of row i, the moves d of all leaves minimise
    ``sum_i w_i |r_i - sum_t d_(leaf of i in t)|^2 + strength n / 10 |d|^2``, by conjugate gradients. The strength is
    that by which a forest of three quarters of the rows predicts the others best, if it clearly gains: by more than a
    standard error of the difference. Bounds of linear leaves move with them. ``step.info`` has the strength
    ("joint"), 0 where the leaves stay. Class shares of leaves no longer need to lie between 0 and 1.

    See Also
    --------
    opttree.TAOForestRegressor : ``joint_leaves``
    TAOForest : averages trees that do not know of each other
    Boosting : trees that are grown one after the other

    References
    ----------
    Ren, Cao, Wei and Sun, "Global refinement of random forest", CVPR 2015.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from opttree import TreeProblem
    >>> from solvers import JointForest, TAOForest, solve
    >>> X, y = make_friedman1(400, noise=0.1, random_state=0)
    >>> problem = TreeProblem.standardized(X, y, depth=4, leaves="linear")
    >>> forest = TAOForest(n_trees=10, kind="oblique")
    >>> before, after = (solve(problem, solver, random_state=0).objective for solver in (forest, JointForest(forest)))
    >>> after < before
    True
    """

    makes_forests = True
    wants_zero = True

    forest: Solver = option(
        factory=TAOForest,
        doc="What grows the trees.",
        test=lambda forest: isinstance(forest, Solver) and forest.makes_forests,
        words="a solver that makes forests",
    )
    strength: float | None = option(None, "Strength of the penalty; None: chosen on rows held out.", above=0)
    held_out: float = option(0.25, "Share of the rows held out to choose it.", above=0, below=1)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what the forest takes; no order of answers, which moved leaves would not keep."""
        if getattr(self.forest, "monotone", None) is not None:
            return "leaves that are moved together do not keep an order of answers"
        return self.forest.refusal(problem)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The steps of the forest, and the forest with other leaves."""
        of_forest, of_choice = rng.spawn(2)
        last: Step | None = None

        def kept(step: Step) -> Step:
            nonlocal last
            last = step
            return step

        ended = yield from changed_steps(self.forest.steps(problem, start, of_forest), kept)
        if last is None or not isinstance(last.tree, Forest) or not last.tree.averages_outputs:
            return ended
        strength = self.strength
        if strength is None:
            strength = yield from self._chosen(problem, of_choice)
        if strength:
            forest = moved(last.tree, problem, strength)
            yield Step(forest, phase="joint", info={**last.info, "joint": strength})
        return ended

    def _chosen(self, problem: TreeProblem, rng: Rng) -> Generator[None, Any, float]:
        """The strength of the lowest error on rows held out, or 0."""
        first, copy = different_rows(problem.X, problem.Y)
        held, kept = np.split(rng.permutation(first.size), [round(self.held_out * first.size)])
        ((valid, train),) = with_copies([(held, kept)], copy)
        if len(valid) < FEWEST or len(train) < FEWEST:
            return 0.0
        part, few = problem.sample(train), None
        for step in self.forest.steps(part, None, rng):
            few = few if step is None else step.tree
            yield None
        if not isinstance(few, Forest):
            return 0.0
        X, Y, w = problem.X[valid], targets(problem)[valid], problem.w[valid]
        known, asked = leaf_table(few, part.X), leaf_table(few, X)
        left, open_ = targets(part) - few.outputs(part.X), Y - few.outputs(X)
        errors, moves = [np.sum(open_**2, axis=1)], None
        for strength in STRENGTHS:
            moves = solved(known, left, part.w, strength, moves)
            errors.append(np.sum((open_ - asked @ moves) ** 2, axis=1))
            yield None
        best = int(np.argmin([w @ error for error in errors]))
        gain = errors[0] - errors[best]
        mean = float(w @ gain) / float(w.sum())
        spread = float(np.sqrt(np.sum((w * (gain - mean)) ** 2))) / float(w.sum())
        return STRENGTHS[best - 1] if best and mean > spread else 0.0


def targets(problem: TreeProblem) -> Floats:
    """(n, K) what trees of a forest are fitted to: outputs, or indicators of classes."""
    if not problem.is_classification:
        return np.asarray(problem.Y, np.float64)
    return np.eye(problem.n_outputs)[problem.Y[:, 0].astype(np.intp)]


def leaf_table(forest: Forest, X: Any) -> Any:
    """(n, leaves of all trees) sparse: one where a row is in a leaf."""
    leaf = leaves_of(forest.trees, X)
    (n, T), whole = leaf.shape, sum(tree.n_leaves for tree in forest.trees)
    return csr_array((np.ones(n * T), leaf.ravel(), np.arange(n + 1) * T), shape=(n, whole))


def solved(table: Any, left: Floats, w: Floats, strength: float, moves: Floats | None = None) -> Floats:
    """(leaves, K) moves of the leaves by ridge regression of what is left (n, K), from the ``moves`` that there are."""
    n = len(left)
    weight, ridge, turned = n * w[:, None], strength * n / 10.0, table.T.tocsr()
    goal = turned @ (weight * left)
    x = np.zeros_like(goal) if moves is None else moves
    residual = goal - turned @ (weight * (table @ x)) - ridge * x
    direction, size = residual.copy(), np.sum(residual**2, axis=0)
    enough = CLOSE**2 * np.maximum(np.sum(goal**2, axis=0), np.finfo(np.float64).tiny)
    for _ in range(ITERATIONS):
        going = size > enough
        if not going.any():
            break
        image = turned @ (weight * (table @ direction)) + ridge * direction
        step = np.where(going, size / np.maximum(np.sum(direction * image, axis=0), np.finfo(np.float64).tiny), 0.0)
        x = x + step * direction
        residual -= step * image
        before, size = size, np.sum(residual**2, axis=0)
        direction = residual + size / np.maximum(before, np.finfo(np.float64).tiny) * direction
    return x


def moved(forest: Forest, problem: TreeProblem, strength: float) -> Forest:
    """The forest with its leaves fitted together."""
    left = targets(problem) - forest.outputs(problem.X)
    moves = len(forest.trees) * solved(leaf_table(forest, problem.X), left, problem.w, strength)
    parts = np.split(moves, np.cumsum([tree.n_leaves for tree in forest.trees])[:-1])
    trees = tuple(_moved(tree, part) for tree, part in zip(forest.trees, parts, strict=True))
    return replace(forest, layers=(trees,))


def _moved(tree: Tree, moves: Floats) -> Tree:
    bounds = {name: getattr(tree, name) for name in ("lower", "upper")}
    return with_fields(
        tree,
        values=tree.values + moves,
        **{name: None if bound is None else bound + moves for name, bound in bounds.items()},
    )
