"""`Boosting`: trees fitted one after another, each to the errors of those before."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.forest import Forest
from opttree.model.tree import Tree, replace as with_fields
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from solvers.core.base import Solver, Step, Steps, at_hand, at_last_call
from solvers.core.driver import solve
from solvers.core.result import Termination
from solvers.ensembles.forest import TAOForest
from solvers.ensembles.in_time import rows_in_time
from solvers.ensembles.linear import best_ridge, linear_term

Floats = NDArray[np.float64]
REPEATS, FEW_ROWS = 4, 1000
# Trees, and how many times a rival's loss theirs may be after as many: on 66 data sets no trees of TAO that were over
# it after ten or twenty won in the end, nor after five or three
EARLY = {3: 1.02, 5: 1.02, 10: 1.0, 20: 1.0}
ENOUGH = 100  # trees, for which rows are left out where a time limit is short
NEGLIGIBLE = 1e-3  # share of the held-out log loss of the class frequencies, below which no more trees are added
SMALLEST_CURVATURE = 0.05  # lower limit for the curvature of the log loss in a class score


@dataclass(frozen=True)
class Boosting(Solver):
    """Gradient boosting (Friedman, Annals of Statistics 2001) with optimised trees.

    Every tree is fitted by weighted least squares to a quadratic majoriser of each row's loss, tangent at the current
    prediction F; weights w and targets t (relative to F) are::

        squared    w = 1                                      t = y - F
        absolute   w = 1 / (2 max(|y - F|, small))            t = y - F
        log        w = max(2 max_k p_k (1 - p_k), .05)        t_k = (1[y = k] - p_k) / w

    p is the softmax of the scores F; the Hessian of the log loss in F is at most ``2 max_k p_k (1 - p_k)`` by
    Gershgorin's theorem. An `opttree.losses.Loss` gives weights and targets by its ``majorizer``.

    See Also
    --------
    opttree.BoostedTreesRegressor : the estimator
    TAOForest : averaged trees

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29 (2001).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import Boosting, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> sums = solve(problem, Boosting(n_trees=20), random_state=0)
    >>> sums.objective < 0.6
    True
    """

    wants_zero = True

    needs = ("value", "constant")
    makes_forests = True
    takes_sparse = True

    base: Solver = option(
        factory=lambda: TAOForest(
            1, kind="oblique", max_iter=5, constant_iterations=1, shrinkage=10.0, sample=0.7, split_lasso=0.0
        ),
        doc="""Solver of the trees. With a `TAOForest`, single trees are grown with its options and kind, on samples of
        ``subsample`` of data that is prepared once; any other solver solves a separate `TreeProblem` for each tree.""",
    )
    n_trees: int = option(300, "Largest number of trees of an ensemble, see ``repeats``.", least=1)
    learning_rate: float = option(0.1, "Factor by which each tree's output is multiplied, in (0, 1].", above=0, most=1)
    subsample: float = option(0.7, "Share of the rows in each tree's sample.", above=0, most=1)
    validation: float | TreeProblem | None = option(
        0.1,
        """Share of the rows held out to choose the number of trees, or a `TreeProblem` of other rows for it; None: all
        trees are kept.""",
        above=0,
        below=1,
    )
    patience: int = option(
        20,
        """Stop after this many trees without a lower held-out loss; and for classes once it is a thousandth of that of
        the class frequencies.""",
        least=1,
    )
    repeats: int | None = option(
        None,
        """Ensembles, each with other rows held out, whose predictions (of classes: scores) are averaged; None: 4 for
        fewer than 1000 rows, else 1, as with ``validation=None``.""",
        least=1,
    )

    rival: tuple[float, ...] | None = option(
        None,
        """The lowest held-out losses of another run's first 3, 5, 10 and 20 trees (``early`` of its `Run`; its
        ``step.info["after 3"]`` and so on): a run of one ensemble that is behind ends there, after 3 and 5 if by two
        percent.""",
        test=lambda losses: losses is None or len(losses) == len(EARLY),
        words="None or four losses",
    )

    ridge: float | Literal["cv"] | None = option(
        None,
        """Strength of the ridge of a linear model with which the sum begins, in units of the mean loss, for squared
        loss; "cv": chosen on five folds; None: it begins with a constant.""",
        above=0,
    )

    begun: tuple[tuple[Tree, ...], ...] = option(
        (),
        """The trees of each ensemble of an earlier run, as its forest has them, to go on from under the same seed and
        options: only missing ones are grown.""",
    )
    rows_in_time: bool = option(
        True,
        """Whether, where a time limit is too short for all trees on all rows, they are grown on as many random rows as
        it is enough for, and on 2,000 at least.""",
    )

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes differentiable losses, if ``base`` takes the problem under squared loss."""
        loss = problem.loss_function
        if loss.positive:
            return f"sums of trees may leave the domain of {loss!r}, whose predictions are positive"
        if loss.lacks("smooth") if loss.labels else not loss.can_boost:
            return f"boosting needs a loss with a majorizer, or a gradient and a curvature; {problem.loss!r} has none"
        if self.ridge is not None and problem.loss != "squared":
            return f"boosting begins with a linear model for squared loss; the problem has {problem.loss!r}"
        if self.ridge is not None and problem.leaves != "linear":
            return "boosting begins with a linear model where leaves are linear; the problem has constant ones"
        if problem.depth < 1:
            return "boosting needs trees of depth 1 or more; the problem allows 0"
        if problem.float32_refusal is not None:
            return problem.float32_refusal
        if self._is_twin(problem) and problem.n_outputs > 2:
            return f"monotone trees are for one number or two classes; the problem has {problem.n_outputs} classes"
        outputs = 1 if self._is_twin(problem) else problem.n_outputs
        y = np.zeros((problem.n_samples, outputs)) if problem.is_classification else problem.y
        return self.base.refusal(problem.with_rows(problem.X, y, problem.sample_weight, loss="squared"))

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The best constant, then the sum of the trees up to the lowest held-out loss."""
        yield from at_hand(problem, start)
        share = self.validation if problem.n_samples > 1 else None
        given = self.validation if isinstance(self.validation, TreeProblem) else None
        repeats = len(self.begun) or (
            1
            if share is None or given is not None
            else self.repeats or (REPEATS if problem.n_samples < FEW_ROWS else 1)
        )
        runs: list[Run] = []

        def grown() -> Generator[None, Any, Termination]:
            termination, ridge = Termination.ITERATION_LIMIT, self.ridge
            if ridge == "cv":
                own = rng.spawn(1)[0]  # where trees are there, so is the linear model
                ridge = 0.0 if self.begun else (yield from best_ridge(problem, own))
            for start_rng in [rng] if repeats == 1 else rng.spawn(repeats):
                if share is None or isinstance(share, TreeProblem):
                    train, valid = problem, given
                else:
                    train, valid = problem.split(share, start_rng)
                if self.rows_in_time and not self.begun:
                    rows = yield from rows_in_time(train, min(self.n_trees, ENOUGH), start_rng, self._one)
                    if rows is not None:
                        train = train.sample(rows)
                        if valid is not None and valid.n_samples > rows.size:
                            some = deepcopy(start_rng).choice(valid.n_samples, rows.size, replace=False)
                            valid = valid.sample(np.sort(some))
                begun = self.begun[len(runs)] if self.begun else ()
                runs.append(Run(starting_scores(train), valid is not None, repeats == 1))
                if begun:
                    share_of_one = sum(map(len, self.begun)) / (repeats * len(begun))
                    runs[-1].trees += self._alone(begun, share_of_one, runs[-1].offset)
                seen = train.n_samples + (0 if valid is None or valid is given else valid.n_samples)
                left_out = problem.n_samples / seen if seen < problem.n_samples else 0.0
                termination = yield from self._grown(runs[-1], train, valid, start_rng, ridge, left_out)
                if termination is Termination.TIME_LIMIT:
                    break
            return termination

        def ensemble() -> Step | None:
            grown = [run for run in runs if run.trees]
            return self._step(problem, grown) if grown else None

        termination = yield from at_last_call(grown(), ensemble)
        yield ensemble()
        return termination

    def _one(self, problem: TreeProblem, rng: Rng) -> Iterator[Tree]:
        """The first tree."""
        scores = np.tile(starting_scores(problem), (problem.n_samples, 1))
        yield self.of_rows(problem)(*working_targets(problem, scores), rng)

    def _grown(
        self,
        run: Run,
        train: TreeProblem,
        valid: TreeProblem | None,
        rng: Rng,
        ridge: float | None,
        left_out: float,
    ) -> Generator[None, Any, Termination]:
        """Add trees to ``run``, after a linear model under a ``ridge``, until the loss on ``valid`` gets no lower, or
        no more time is left than the answers for all rows take: ``left_out`` times as many, if rows are left out.
        """
        parts = [train] if valid is None else [train, valid]
        scores = [np.tile(run.offset, (part.n_samples, 1)) for part in parts]
        alone = mean_loss(parts[-1], scores[-1])
        fit = self.of_rows(train)
        known, looked = len(run.trees), 0.0
        rng.spawn(max(known - (ridge is not None), 0))  # those of the trees that are there
        for number in range(max(self.n_trees, known)):
            if number < known:
                tree = run.trees[number]
            elif number == 0 and ridge is not None:
                tree = self._linear(train, run.offset, ridge)
            else:
                tree = fit(*working_targets(train, scores[0]), rng.spawn(1)[0])
            if number >= known:
                run.trees.append(tree)
            began = now()
            for part, sums in zip(parts, scores, strict=True):
                sums += self.learning_rate * tree.outputs(part.X)
            looked += left_out * (now() - began)
            run.losses.append(mean_loss(parts[-1], scores[-1]))
            if number < known:
                continue
            yield None
            if left_out and seconds_left() < looked:
                return Termination.TIME_LIMIT
            if valid is not None and valid.is_classification and run.losses[-1] < NEGLIGIBLE * alone:
                return Termination.STALLED
            if run.gives_up(self.rival):
                return Termination.STALLED
            if valid is not None and len(run.losses) - 1 - int(np.argmin(run.losses)) >= self.patience:
                return Termination.STALLED
        return Termination.ITERATION_LIMIT

    def _alone(self, trees: Sequence[Tree], share: float, offset: Floats) -> list[Tree]:
        """Trees of an ensemble as they were before `_step`, but for rounding."""
        scale = self.learning_rate * len(trees) * share
        still, unit = np.zeros(trees[0].n_features), np.ones(trees[0].n_features)
        alone = [tree.unscale(still, unit, -offset * share / scale, 1.0 / scale) for tree in trees]
        return [with_fields(tree, classes=None) for tree in alone]

    def _linear(self, train: TreeProblem, offset: Floats, ridge: float) -> Tree:
        """The linear model less the constant, so large that the learning rate brings it back to its size."""
        tree = linear_term(train, ridge)
        still, unit = np.zeros(train.n_features), np.ones(train.n_features)
        return tree.unscale(still, unit, -offset / self.learning_rate, np.full(len(offset), 1.0 / self.learning_rate))

    def _step(self, problem: TreeProblem, runs: Sequence[Run]) -> Step:
        """The mean of the runs' sums of trees, each up to its best number on held-out rows, as the mean of a forest of
        scaled-up trees.
        """
        still, unit = np.zeros(problem.n_features), np.ones(problem.n_features)
        total = sum(run.count for run in runs)
        scaled: list[Tree] = []
        for run in runs:
            share = total / (len(runs) * run.count)
            scale = self.learning_rate * run.count * share
            scaled += [tree.unscale(still, unit, run.offset * share, scale) for tree in run.trees[: run.count]]
        if problem.is_classification:
            scaled = [with_fields(tree, classes=problem.classes) for tree in scaled]
        link = "softmax" if problem.is_classification else "identity"
        starts = tuple((run.count, run.offset) for run in runs)
        forest = Forest((tuple(scaled),), problem.n_outputs, link=link, starts=starts)
        losses = [run.losses[run.count - 1] if run.held_out else np.inf for run in runs]
        info = {"trees": float(total), "validation": float(np.mean(losses))}
        info |= {f"after {count}": float(np.mean([run.early(count) for run in runs])) for count in EARLY}
        return Step(forest, phase="boosting", info=info)

    def of_rows(self, train: TreeProblem) -> Callable[[Floats, Floats, Rng], Tree]:
        """Function that fits a tree of ``base`` to samples of rows.

        Parameters
        ----------
        train : TreeProblem
            The statement on these rows.

        Returns
        -------
        callable
            Function of weights (n,), targets (n, K) and random numbers; it returns a tree.
        """
        quick = getattr(self.base, "quick_trees", None)
        if quick is None:
            return self._stated(train)
        if not self._is_twin(train):
            fit: Callable[[Floats, Floats, Rng], Tree] = quick(train, self.subsample)
            return fit
        second = quick(
            train.with_rows(train.X, np.zeros(train.n_samples), train.sample_weight, loss="squared"), self.subsample
        )

        def twin(weights: Floats, targets: Floats, rng: Rng) -> Tree:
            tree = second(weights, targets[:, 1:], rng)
            both = np.column_stack([-tree.values[:, 0], tree.values[:, 0]])
            return Tree(tree.children, tree.A, tree.b, both)

        return twin

    def _is_twin(self, problem: TreeProblem) -> bool:
        """Whether trees are monotone and for classes: of two, the scores are opposite numbers."""
        return problem.is_classification and getattr(self.base, "monotone", None) is not None

    def _stated(self, train: TreeProblem) -> Callable[[Floats, Floats, Rng], Tree]:
        """A function that fits a tree by any solver, on a separate problem."""

        def fit(weights: Floats, targets: Floats, rng: Rng) -> Tree:
            rows = np.sort(rng.choice(train.n_samples, max(round(self.subsample * train.n_samples), 1), replace=False))
            part = train.with_rows(train.X[rows], targets[rows], (train.w * weights)[rows], loss="squared")
            tree = solve(part, self.base, random_state=rng).tree
            return tree.trees[0] if isinstance(tree, Forest) else tree

        return fit


@dataclass
class Run:
    """The trees of one ensemble, its loss after each of them, and the scores from which it starts."""

    offset: Floats
    held_out: bool  # whether the losses are those of held-out rows
    alone: bool = True  # whether it is the only ensemble
    trees: list[Tree] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The trees that are kept: up to the lowest held-out loss, or all."""
        return int(np.argmin(self.losses)) + 1 if self.held_out else len(self.trees)

    def early(self, count: int) -> float:
        """The lowest held-out loss of the first trees."""
        return min(self.losses[:count]) if self.held_out else np.inf

    def gives_up(self, rival: Sequence[float] | None) -> bool:
        """Whether it is behind another run after as many trees."""
        count = len(self.losses)
        if rival is None or not self.alone or count not in EARLY:
            return False
        return self.early(count) >= EARLY[count] * rival[list(EARLY).index(count)]


def starting_scores(problem: TreeProblem) -> Floats:
    """(K,) the best constant prediction; for classes, logarithms of class frequencies."""
    value = problem.best_constant().values[0]
    return np.log(np.maximum(value, 1e-6)) if problem.is_classification else value


def working_targets(problem: TreeProblem, scores: Floats) -> tuple[Floats, Floats]:
    """Weights (n,) of mean one and targets (n, K) for the next tree, see `Boosting`."""
    if problem.is_classification:
        shares = softmax(scores)
        target = np.eye(problem.n_outputs)[problem.Y[:, 0].astype(int)] - shares
        weights = np.maximum(2.0 * np.max(shares * (1.0 - shares), axis=1), SMALLEST_CURVATURE)
        return weights, target / weights[:, None]
    weights, target = problem.loss_function.majorizer(problem.Y, scores)
    weights = weights.mean(axis=1)  # one per row, as trees take them
    return weights / weights.mean(), target


def mean_loss(problem: TreeProblem, scores: Floats) -> float:
    """Mean loss of predictions with these scores."""
    return problem.mean_loss_of(softmax(scores) if problem.is_classification else scores)


def softmax(scores: Floats) -> Floats:
    """Probabilities (n, K) of class scores."""
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
