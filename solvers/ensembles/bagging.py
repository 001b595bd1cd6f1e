"""`Bagging`: averaged trees of any solver and any loss, each on rows drawn with replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.copies import bootstrap, copies_of
from solvers.core.base import Solver, Step, Steps, at_hand, at_last_call
from solvers.core.origin import steps_of
from solvers.core.parallel import spread
from solvers.core.result import Termination
from solvers.initial.cart import CartInit


@dataclass(frozen=True)
class Bagging(Solver):
    """Trees of ``solver``, each on as many rows as there are, drawn with replacement; their answers are averaged.

    For every loss and kind of tree that ``solver`` takes: forests of quantiles, of counts and of survival times, too.

    See Also
    --------
    TAOForest : trees by compiled passes, for squared loss and classes
    opttree.SurvivalForest : made by it

    References
    ----------
    Breiman, "Bagging predictors", Machine Learning 24 (1996); "Random forests", Machine Learning 45 (2001).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from opttree.losses import Quantile
    >>> from solvers import Bagging, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem(X, y, depth=4, splits="axis", loss=Quantile(0.9), min_leaf=5)
    >>> forest = solve(problem, Bagging(n_trees=20), random_state=0).tree
    >>> bool(0.85 < (y <= forest.predict(X)).mean() < 0.99)
    True
    """

    makes_forests = True

    solver: Solver = option(CartInit(max_features="sqrt"), "What makes a tree of each draw.")
    n_trees: int = option(100, "Number of trees.", least=1)
    n_jobs: int | None = option(
        None,
        "Trees grown in parallel, see `solvers.core.parallel.spread`. The forest does not depend on it.",
        test=lambda n_jobs: n_jobs != 0,
        words="None or an integer other than 0",
    )

    @property
    def takes_sparse(self) -> bool:  # type: ignore[override]
        """Whether ``solver`` takes sparse tables."""
        return self.solver.takes_sparse

    def refusal(self, problem: TreeProblem) -> str | None:
        """Reason why ``solver`` cannot solve the problem."""
        return self.solver.refusal(problem) or self._refusal(problem)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what ``solver`` takes, unless it makes forests."""
        if self.solver.makes_forests:
            return f"bagging averages single trees, and {self.solver.brief()} makes forests"
        return "a forest of actions has no mean" if problem.loss_function.chooses else None

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The constant tree, then the forest; at a time limit or Ctrl-C, the forest of the finished trees."""
        yield from at_hand(problem, start)
        if problem.splits == "axis" and not problem.is_sparse:
            problem.presorted  # noqa: B018 (sorted once, for all draws)
        shared = problem, self.solver, copies_of(problem.X, problem.Y)
        grown: dict[int, tuple[Tree, NDArray[np.intp]]] = {}

        def growth() -> Steps:
            seeds = (rng.spawn(1)[0] for _ in range(self.n_trees))
            for number, pair in spread(_grow, shared, seeds, self.n_jobs, self.n_trees):
                grown[number] = pair
                yield None
            return None

        def forest() -> Step | None:
            if not grown:
                return None
            total, counts = np.zeros((problem.n_samples, problem.n_outputs)), np.zeros(problem.n_samples, np.int64)
            pairs = [grown[number] for number in sorted(grown)]  # sums are the same in whatever order trees came
            for tree, outside in pairs:
                total[outside] += tree.outputs(problem.X[outside])
                counts[outside] += 1
            with np.errstate(invalid="ignore"):
                means = total / counts[:, None]
            model = Forest((tuple(tree for tree, _outside in pairs),), problem.n_outputs, (means, counts))
            return Step(model, phase="forest", info={"trees": float(len(pairs))})

        yield from at_last_call(growth(), forest)
        yield forest()
        return Termination.ITERATION_LIMIT


def _grow(shared: tuple[TreeProblem, Solver, NDArray[np.intp] | None], rng: Rng) -> tuple[Tree, NDArray[np.intp]]:
    """The best tree of the solver on one draw, and the rows that were not drawn."""
    problem, solver, copy = shared
    counts = bootstrap(problem.n_samples, copy, rng)
    rows = np.flatnonzero(counts)
    part = problem.sample(rows)
    part = part.with_rows(part.X, part.y, np.asarray(part.sample_weight) * counts[rows])
    if "presorted" in problem.__dict__:
        part.with_order(problem.presorted, counts > 0)
    best: tuple[float, Any] = np.inf, part.one_leaf()
    for step in steps_of(solver, part, None, rng):
        if step is not None:
            value = part.objective(step.tree) if step.objective is None else step.objective
            best = min(best, (value, step.tree), key=lambda pair: pair[0])
    return as_tree(best[1]), np.flatnonzero(counts == 0)
