"""Trees whose leaves are shrunk towards the nodes above them, by a strength chosen on held-out rows."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from opttree.estimators import bridge
from opttree.estimators.kinds import SingleTree
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.clock import now
from opttree.runtime.options import option
from opttree.statement import L1, TreeProblem
from opttree.statement.shrinkage import codes_of, observations, refusal, shrinker, softer, tempered
from opttree.tables.encoding import rows_of

if TYPE_CHECKING:
    from solvers import Result, Solver

Floats = NDArray[np.float64]
SOFTER = (0.0, 0.5, 1.0, 2.0, 4.0)  # for linear leaves of classes
STRENGTHS = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
LEAST_PROBABILITY = 1e-6  # of the true class of a held-out row, as the log loss of a statement is capped
TEMPERATURES = (1.0, 1.15, 1.3, 1.5, 2.0, 3.0)
FOLDS = 3
TRIAL_PENALTY = 1e-4  # l1, on splits and linear leaves of the trees of TAO by which the strength is chosen
FEWEST, MOST_ROWS = 12, 20_000  # rows that differ, below which nothing is held out, and of which that many are used
SHARE = 0.3  # of the time limit, for the fits that choose the strength
LEAST_TIME = 1.0  # seconds, the time limit below which there are none


@dataclass(eq=False, repr=False, kw_only=True)
class ShrunkLeaves(SingleTree):
    """Estimators of one tree whose leaves are shrunk after the fit, see `opttree.statement.shrinkage`."""

    leaf_shrinkage: float | Literal["cv"] | None = option(
        None,
        """Weight of the parent's model in a leaf's, in rows, from the root down (hierarchical shrinkage): ``tree_`` has
        the shrunk leaves, ``result_.tree`` those of least objective. "cv": the one of 0, .3, 1, 3, 10, 30, 100 with the
        lowest squared error (of probabilities in classification) on held-out rows, in three folds of at most 20,000
        rows in all, with trees of their own, see ``leaf_shrinkage_``; 0 where that error is not lower by more than a
        standard error, and for a time limit below a second, unless the depth is searched. Where it is not,
        probabilities p then become p^(1 / T), normalised, with the T of the lowest held-out log loss,
        ``leaf_temperature_``, which changes no label. The scores of linear leaves of classes are divided by one plus
        the strength, of 0, .5, 1, 2, 4, that has the lowest log loss, instead. With ``max_depth="cv"``, of depth and
        strength together the pair of the best mean score on its folds. Copies of a row count once (unless most rows
        with equal features differ in y), so that neither the scale of the weights nor repeated rows matter. None: "cv"
        for constant leaves and for classes, 0 for linear leaves of numbers. Shrunk linear leaves of numbers are dense,
        and linear however few rows they have. Medians, leaves fitted by other losses, linear leaves of very many
        features, and trees that go on learning from chunks of rows are not shrunk.""",
        least=0,
    )

    @property
    def _shrinkage(self) -> float | str:
        """The strength asked for, or "cv"."""
        if self.leaf_shrinkage is not None:
            return self.leaf_shrinkage
        me: Any = self
        return "cv" if me.leaves == "constant" or is_classifier(self) else 0.0

    def _trial(self, problem: TreeProblem) -> tuple[Solver, TreeProblem]:
        """The solver, and the statement, of the trees on which strengths are compared."""
        return self._solver(problem), problem

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Result:
        """Solve, and then choose the strength, for which a share of the time is kept."""
        tried = self._shrinkage == "cv" and self.max_depth != "cv" and refusal(problem) is None
        tried = tried and (time_limit is None or time_limit >= LEAST_TIME)
        began = now()
        self.leaf_temperature_ = 1.0
        share = time_limit if time_limit is None or not tried else (1.0 - SHARE) * time_limit
        result = super()._solve(problem, start, seed, share, watch)
        if tried:
            left = None if time_limit is None else max(time_limit - (now() - began), 0.0)
            stopped = result.termination.name == "INTERRUPTED"
            self.leaf_shrinkage_ = 0.0 if stopped else self._strength(problem, seed, left)
        elif not (self._shrinkage == "cv" and self.max_depth == "cv"):  # where the search for the depth chose it
            given = self._shrinkage != "cv" and refusal(problem) is None
            self.leaf_shrinkage_ = float(self._shrinkage) if given else 0.0
        return result

    def _strength(self, problem: TreeProblem, seed: int | None, time_limit: float | None) -> float:
        """The strength of the lowest held-out error; 0 for too few rows, and after Ctrl-C."""
        rows, fold = parted(problem)
        if rows.n_samples < FEWEST:
            return 0.0
        began = now()
        strengths = strengths_of(problem)
        answers = np.zeros((len(strengths), rows.n_samples, rows.n_outputs))
        tried = np.zeros(rows.n_samples, bool)
        for k in range(FOLDS):
            limit = None if time_limit is None else (time_limit - (now() - began)) / (FOLDS - k)
            if limit is not None and limit <= 0.0:
                break
            try:
                moments = self._trial_moments(rows.sample(np.flatnonzero(fold != k)), seed, limit)
            except KeyboardInterrupt:  # before it had a tree; `_fit` passes it on, with the tree that there is
                return 0.0
            if moments is None:
                return 0.0
            tried |= fold == k
            for number, strength in enumerate(strengths):
                tree = moments.shrunk(strength)
                held_out = rows.X[fold == k]
                answers[number, fold == k] = (
                    tree.predict_proba(held_out) if rows.is_classification else tree.outputs(held_out)
                )
        if not tried.any():
            return 0.0
        rows, answers = rows.sample(np.flatnonzero(tried)), answers[:, tried]
        errors = np.array([errors_of(rows, own) for own in answers])
        best = int(np.argmin(np.sum(rows.w * errors, axis=1)))
        gain = errors[0] - errors[best]
        mean = float(np.sum(rows.w * gain))
        error = float(np.sqrt(np.sum((rows.w * (gain - mean)) ** 2)))
        best = best if mean > error else 0
        if rows.is_classification and rows.leaves == "constant":
            self.leaf_temperature_ = temperature_of(rows, answers[best])
        return strengths[best]

    def _trial_moments(self, train: TreeProblem, seed: int | None, limit: float | None) -> Any:
        """A tree on a part of the rows, ready to be shrunk; None after Ctrl-C."""
        solver, stated = self._trial(train)
        result = self._run(solver, stated, None, seed, limit, None)
        return None if result.termination.name == "INTERRUPTED" else shrinker(train, as_tree(result.tree))

    def shrunk_scores(self, X: Any, y: Any, weight: Floats, held_out: Any) -> dict[float, tuple[float, float]]:
        """For each strength, squared error or log loss and score on the rows ``held_out`` (X, y, weights) of this
        tree, which was fitted to ``X``, ``y``.
        """
        me: Any = copy(self)
        if me.encoder_ is not None:
            X = self._encoded(clone(me.encoder_), X, y, weight)
        problem, scaling = self.state(X, y, weight)
        if refusal(problem) is not None:
            return {0.0: (0.0, me.score(*held_out))}
        moments = shrinker(problem, as_tree(self.result_.tree))
        used = np.flatnonzero(held_out[2])
        held_out = rows, truth, w = rows_of(held_out[0], used), held_out[1][used], held_out[2][used]
        scores = {}
        for strength in strengths_of(problem):
            me.tree_ = scaling.unscale(moments.shrunk(strength))
            if problem.is_classification:
                Z = self._prepared(rows)
                errors = errors_of(problem.with_rows(scaling.features(Z), truth, w), me.tree_.predict_proba(Z))
            else:
                off = (me.predict(rows) - truth).reshape(len(truth), -1) / scaling.y_scale
                errors = np.sum(off**2, axis=1)
            scores[strength] = float(np.sum(w * errors)), float(me.score(*held_out))
        return scores

    def _final(self, problem: TreeProblem, tree: Tree) -> Tree:
        strength = getattr(self, "leaf_shrinkage_", 0.0)
        tree = tree if strength == 0.0 else shrinker(problem, tree).shrunk(strength)
        return tree if self.leaf_temperature_ == 1.0 else tempered(tree, self.leaf_temperature_)


def quick_trial(problem: TreeProblem, solver: Any) -> tuple[Solver, TreeProblem]:
    """A tree of TAO of the same depth, in a small part of the time of gradients: it overfits alike. With linear leaves
    of classes it does not, and one start of the ``solver`` itself must do.
    """
    solvers = bridge.solvers
    if problem.is_classification and problem.leaves == "linear":
        return replace(solver, n_starts=1), problem
    init = solvers.HingeInit() if problem.leaves == "linear" else solvers.CartInit()
    return solvers.TAO(init=init), problem.restated(penalties=L1(splits=TRIAL_PENALTY, leaves=TRIAL_PENALTY))


def strengths_of(problem: TreeProblem) -> tuple[float, ...]:
    """The strengths that are compared."""
    return SOFTER if problem.is_classification and problem.leaves == "linear" else STRENGTHS


def errors_of(rows: TreeProblem, answers: Floats) -> Floats:
    """(n,) squared errors of numbers, or of the probabilities of constant leaves; log losses of linear leaves'."""
    if not rows.is_classification:
        return np.sum((answers - rows.Y) ** 2, axis=1)
    label = rows.Y[:, 0].astype(np.intp)
    if rows.leaves == "linear":
        return log_losses(answers[np.arange(len(label)), label])
    return np.sum((answers - np.eye(rows.n_outputs)[label]) ** 2, axis=1)


def temperature_of(rows: TreeProblem, shares: Floats) -> float:
    """The temperature of the lowest log loss of held-out probabilities (n, K)."""
    label = rows.Y[:, 0].astype(np.intp)
    losses = [
        np.sum(rows.w * log_losses(softer(shares, temperature)[np.arange(len(label)), label]))
        for temperature in TEMPERATURES
    ]
    return TEMPERATURES[int(np.argmin(losses))]


def log_losses(p: Floats) -> Floats:
    """Log losses of probabilities of the true classes."""
    return -np.log(np.clip(p, LEAST_PROBABILITY, 1.0))


def parted(problem: TreeProblem) -> tuple[TreeProblem, NDArray[np.int64]]:
    """The problem with each of its `observations` once, at most `MOST_ROWS` of them, and the fold (n,) of each.

    Weights of copies are added up, and the smallest leaf shrinks as the rows do, so that weights and repeated rows
    agree. The rows are in an order which neither their own order nor the units of the features change, and are dealt
    out in turn; in classification class by class.
    """
    rows = observations(problem)
    n = len(rows)
    weight = np.asarray(problem.sample_weight)
    if n < problem.n_samples:  # copies
        codes = codes_of((*problem.X.T, *problem.Y.T), problem.n_samples)
        weight = np.bincount(np.searchsorted(codes[rows], codes), weights=weight)
    else:
        weight = weight[rows]
    if n > MOST_ROWS:
        taken = np.linspace(0, n, MOST_ROWS, endpoint=False).astype(np.intp)
        rows, weight = rows[taken], weight[taken]
    least = max(1, round(problem.min_leaf * n / problem.n_samples))
    part = problem.with_rows(problem.X[rows], problem.y[rows], weight, min_leaf=least)
    order = np.argsort(part.Y[:, 0], kind="stable") if problem.is_classification else np.arange(len(rows))
    fold = np.empty(len(rows), np.int64)
    fold[order] = np.arange(len(rows)) % FOLDS
    return part, fold
