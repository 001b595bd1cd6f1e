"""`Distilled`: one tree trained on the predictions of a forest."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import wait
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes import alternation
from opttree.model.convert import Model, as_tree
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.interrupts import POLL
from opttree.runtime.options import option
from opttree.runtime.threads import pool
from opttree.statement import TreeProblem
from solvers.core.base import Solver, Step, Steps, at_last_call
from solvers.core.result import Termination
from solvers.ensembles.forest import TAOForest
from solvers.ensembles.growth import GrownTree, Shared, grow

Floats = NDArray[np.float64]
MOST_ROWS = 200_000
LEAST_SHARE = 1e-3  # of a class in the teacher's answer, to be told to a student


@dataclass(frozen=True)
class Distilled(Solver):
    """Fit a forest, and then a tree to the forest's predictions on the training rows and on many rows between them
    ("born-again trees", Breiman and Shang 1996; here teacher and student are optimised trees).

    The forest's predictions have less noise than y, and their number is not limited: new rows are random points on the
    lines from training rows to their nearest neighbours. Whether that gives a better tree than fitting y depends on the
    data: `opttree.AutoTreeRegressor` lets held-out rows decide.

    Trees of every depth in ``depths`` and ``n_starts`` random starts are grown; the steps are those that agree best
    with the forest, one per depth. `solve` keeps the one with the lowest objective, as of any solver.

    See Also
    --------
    TAOForest : its teacher
    opttree.AutoTreeRegressor : tries it among others

    References
    ----------
    Breiman and Shang, "Born again trees" (1996).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import Distilled, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> solve(problem, Distilled(), random_state=0).tree.n_leaves <= 4
    True
    """

    wants_zero = True

    teacher: Solver = option(
        factory=TAOForest,
        doc="""A solver that returns a forest or a tree; by default `TAOForest`, whose "cart" trees may be deeper than
        the problem allows: the limit applies to the student only.""",
    )
    depths: tuple[int, ...] | None = option(
        None,
        "Depths of the trees, at most the problem's; None: the problem's depth.",
        least=1,
        test=lambda depths: depths is None or len(depths) > 0,
    )
    n_starts: int = option(3, "Random starts per depth.", least=1)
    factor: int = option(10, "New rows per training row, up to 200,000 rows in total.", least=0)
    neighbours: int = option(10, "Number of nearest neighbours for new rows.", least=1)
    max_iter: int = option(20, "Passes of TAO over the tree.", least=0)
    shrinkage: float = option(3.0, "Weight of the parent's model in a leaf, in rows, see `TAOForest`.", above=0)
    student: Solver | None = option(
        None,
        """A solver that is run once per depth on the predictions of the forest, with the problem's penalties, such as
        `ORRT`: under squared loss, of classes under the cross-entropy to the forest's probabilities. None: ``n_starts``
        oblique trees are grown by passes of TAO.""",
    )

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes oblique splits, if the teacher and the student take the problem."""
        if problem.splits == "axis":
            return "distilled trees have oblique splits; the problem asks for axis-aligned ones"
        if self.depths is not None and max(self.depths) > problem.depth:
            return f"depths must be at most the problem's, {problem.depth}; got {self.depths}"
        if self.student is not None and (reason := self.student.refusal(problem)) is not None:
            return reason
        if self.student is not None and self.student.makes_forests:
            return f"{type(self.student).__name__} makes a forest, and the student must be a single tree"
        return self.teacher.refusal(problem)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The teacher's constant tree, then a tree for each depth."""
        forest: Model = problem.best_constant()
        teacher, taught_from = self._teacher(problem)
        inner = teacher.steps(taught_from, None, rng.spawn(1)[0])
        for step in inner:
            if step is not None and isinstance(step.tree, Tree):
                yield replace(step, phase=f"teacher: {step.phase}")
            else:
                yield None
            forest = forest if step is None else step.tree
        X = np.concatenate([problem.X, between(problem.X, self._n_new(problem), self.neighbours, rng)])
        yield None
        answers = forest.answers(X) if isinstance(forest, Forest) else forest.outputs(X)
        linear = "linear" if problem.leaves == "linear" and not problem.is_classification else "constant"
        weight = np.concatenate([problem.w, np.full(len(X) - problem.n_samples, 1.0 / problem.n_samples)])
        grower = TAOForest(
            1,
            kind="oblique",
            sample=1.0,
            max_iter=self.max_iter,
            constant_iterations=min(3, self.max_iter),
            split_lasso=0.0,
        )
        if self.student is not None:
            taught = taught_of(problem, X, answers, weight)
            for depth in self.depths or (problem.depth,):
                yield from self._studied(self.student, taught.restated(depth=depth), rng.spawn(1)[0])
            return Termination.ITERATION_LIMIT
        taught = problem.with_rows(X, answers, weight, loss="squared", leaves=linear, min_leaf=1)
        shared = Shared.of(taught, grower, (float(self.shrinkage),)).of_kind("oblique")
        for depth in self.depths or (problem.depth,):
            students: list[tuple[float, Tree]] = []
            deep = replace(shared, depth=depth)
            last = partial(student, students, depth)
            yield from at_last_call(self._grown(problem, deep, rng, students), last)
            yield student(students, depth)
        return Termination.ITERATION_LIMIT

    def _studied(self, student: Solver, taught: TreeProblem, rng: Rng) -> Generator[Step | None, Any, None]:
        """Run the student on the forest's predictions; yields a step at the end or at the last call."""
        trees: list[Tree] = []

        def last() -> Step | None:
            if not trees:
                return None
            info = {"depth": float(taught.depth), "unlike_teacher": taught.mean_loss(trees[-1])}
            return Step(trees[-1], phase="student", info=info)

        def run() -> Generator[None, Any, None]:
            with closing(student.steps(taught, None, rng)) as steps:
                for step in steps:
                    if step is not None:
                        trees.append(as_tree(step.tree))
                    yield None

        yield from at_last_call(run(), last)
        yield last()

    def _grown(
        self, problem: TreeProblem, shared: Shared, rng: Rng, students: list[tuple[float, Tree]]
    ) -> Generator[None, Any, None]:
        """Add trees to ``students``, each with the distance of its predictions from the teacher's.

        Where it is stopped, the tree that is being grown ends with the pass that it is in.
        """
        for _ in range(self.n_starts):
            seed = rng.spawn(1)[0]
            ended = Event()
            growing = pool().submit(copy_context().run, grow, shared, ("oblique", seed), ended.is_set)
            try:
                while not wait([growing], POLL).done:
                    yield None
            finally:
                ended.set()
                students.append(self._rated(problem, shared, growing.result()))
            yield None

    def _rated(self, problem: TreeProblem, shared: Shared, grown: GrownTree) -> tuple[float, Tree]:
        """Distance of a tree's predictions from the teacher's, and the tree."""
        answers = alternation.answers(shared.X, grown.leaf, grown.models[0], grown.low, grown.high)
        error = float(np.sum(shared.w * np.square(answers - shared.Y).sum(axis=1))) / len(shared.X)
        return error, problem.enforce_min_leaf(grown.tree(0, problem.classes))

    def _teacher(self, problem: TreeProblem) -> tuple[Solver, TreeProblem]:
        """The teacher and its problem: fully grown trees of a forest may be deeper than the student."""
        if isinstance(self.teacher, TAOForest) and self.teacher.levels is None and problem.depth > 0:
            any_depth = problem.restated(depth=max(problem.n_samples, problem.depth))
            return replace(self.teacher, levels=problem.depth), any_depth
        return self.teacher, problem

    def _n_new(self, problem: TreeProblem) -> int:
        return max(min(self.factor * problem.n_samples, MOST_ROWS - problem.n_samples), 0)


def student(students: list[tuple[float, Tree]], depth: int) -> Step:
    """The step of the tree that agrees best with the teacher."""
    error, tree = min(students, key=lambda pair: pair[0])
    return Step(tree, phase="student", info={"depth": float(depth), "unlike_teacher": error})


def taught_of(problem: TreeProblem, X: Floats, answers: Floats, weight: Floats) -> TreeProblem:
    """The problem of a student: rows ``X`` with the forest's answers. Of classes every row stands there once per class,
    with the class's probability as weight, where that is not negligible: their log loss is the cross-entropy.
    """
    if problem.classes is None:
        return problem.with_rows(X, answers, weight, min_leaf=1)
    row, label = np.nonzero(answers >= LEAST_SHARE)
    shares = weight[row] * answers[row, label]
    return problem.with_rows(X[row], problem.classes[label], shares, loss="log", min_leaf=1)


def between(X: Floats, count: int, neighbours: int, rng: Rng) -> Floats:
    """``count`` random points on the lines from rows of ``X`` to one of their nearest ``neighbours``."""
    from sklearn.neighbors import NearestNeighbors

    if count == 0 or len(X) < 2:
        return X[:0]
    near = NearestNeighbors(n_neighbors=min(neighbours, len(X) - 1)).fit(X).kneighbors(return_distance=False)
    row = rng.integers(len(X), size=count)
    other = near[row, rng.integers(near.shape[1], size=count)]
    return X[row] + rng.random((count, 1)) * (X[other] - X[row])
