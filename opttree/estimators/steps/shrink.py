"""Shrinkage of leaves after a fit, see `opttree.statement.shrinkage`: its strength, chosen on held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import clone, is_classifier

from opttree.estimators import bridge
from opttree.estimators.recipe import Estimator, Fit, Outcome, Shrink, searches_depth
from opttree.estimators.steps.rows import encode, read_new
from opttree.estimators.steps.solve import run, within_leaves
from opttree.estimators.steps.state import state
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.clock import now
from opttree.runtime.threads import count, each, limited
from opttree.statement import L1, TreeProblem
from opttree.statement.numbers import orders_of
from opttree.statement.shrinkage import codes_of, observations, refusal, shrinker, softer, tempered
from opttree.tables.checks import TableWarning
from opttree.tables.encoding import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from solvers import Solver

Floats = NDArray[np.float64]
SOFTER = (0.0, 0.5, 1.0, 2.0, 4.0)  # for linear leaves of classes
STRENGTHS = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
LEAST_PROBABILITY = 1e-6  # of the true class of a held-out row, as the log loss of a statement is capped
TEMPERATURES = (1.0, 1.15, 1.3, 1.5, 2.0, 3.0)
FOLDS = 3
TRIAL_PASSES = 3  # of TAO: more do not choose better strengths, see experiments/benchmarks/trial_passes.py
TRIAL_PENALTY = 1e-4  # l1, on splits and linear leaves of the trees of TAO by which the strength is chosen
FEWEST, MOST_ROWS = 12, 20_000  # rows that differ, below which nothing is held out, and of which that many are used
SHARE = 0.3  # of the time limit, for the fits that choose the strength
LEAST_TIME = 1.0  # seconds, the time limit below which there are none


def strength_of(options: Estimator) -> float | str:
    """The strength that is asked for, or "cv"; 0 for estimators that do not shrink."""
    shrink: Shrink | None = options.recipe.shrink
    if shrink is None:
        return 0.0
    given = options.leaf_shrinkage
    if given is not None:
        return float(given) if given != "cv" else "cv"
    return "cv" if shrink.default(options) else 0.0


def by_leaves(options: Estimator) -> bool:
    """Whether the strength is chosen by default: for constant leaves, and for classes."""
    return bool(options.leaves == "constant" or is_classifier(options))


def solve_shrunk(options: Estimator, fit: Fit, solve: Callable[[Estimator, Fit], Outcome]) -> Outcome:
    """Solve, and then choose the strength, for which a share of the time is kept."""
    asked, searched = strength_of(options), searches_depth(options)
    if fit.valid is not None and options.leaf_shrinkage is None:  # validation rows choose the tree
        asked = 0.0
    shrinks = refusal(fit.problem) is None
    searched = searched or "leaf_shrinkage_" in fit.search
    chosen = asked == "cv" and not searched and shrinks
    chosen = chosen and (fit.time_limit is None or fit.time_limit >= LEAST_TIME)
    strength, temperature = 0.0, 1.0
    if chosen:
        outcome, strength, temperature = solve_and_choose(options, fit, solve)
    else:
        outcome = within_leaves(options, fit, solve)
        if asked == "cv" and searched:
            strength = fit.search["leaf_shrinkage_"]
            temperature = fit.search.get("leaf_temperature_", 1.0)
        elif asked != "cv" and shrinks:
            strength = float(asked)
    attributes = {**outcome.attributes, "leaf_shrinkage_": strength, "leaf_temperature_": temperature}
    attributes["_root_ridge"] = fit.search.get("_root_ridge")
    return Outcome(outcome.result, attributes)


def solve_and_choose(
    options: Estimator, fit: Fit, solve: Callable[[Estimator, Fit], Outcome]
) -> tuple[Outcome, float, float]:
    """The outcome, and the strength and the temperature, side by side where there are threads for both."""
    began, limit, aside = now(), fit.time_limit, not options.verbose and count(options.n_jobs) > 1
    own = replace(fit, time_limit=limit if limit is None or aside else (1.0 - SHARE) * limit)

    def choose() -> tuple[float, float]:
        left = None if limit is None else max(limit - (now() - began), 0.0)
        return choose_strength(options, replace(fit, time_limit=left))

    if aside:
        with limited(count(options.n_jobs)):
            outcome, chosen = each(lambda task: task(), [lambda: within_leaves(options, own, solve), choose])
        fit.problem.forget_order()
    else:
        outcome = within_leaves(options, own, solve)
        fit.problem.forget_order()
        chosen = (0.0, 1.0) if outcome.result.termination.name == "INTERRUPTED" else choose()
    return outcome, *chosen


def choose_strength(options: Estimator, fit: Fit) -> tuple[float, float]:
    """The strength of the lowest held-out error, and the temperature; (0, 1) for too few rows, and after Ctrl-C."""
    none, problem = (0.0, 1.0), fit.problem
    parts = parted(problem)
    fold = parts.fold
    if fold.size < FEWEST:
        return none
    began = now()
    strengths = strengths_of(problem)
    answers = np.zeros((len(strengths), fold.size, problem.n_outputs))
    tried = np.zeros(fold.size, bool)
    for k in range(FOLDS):
        limit = None if fit.time_limit is None else (fit.time_limit - (now() - began)) / (FOLDS - k)
        if limit is not None and limit <= 0.0:
            break
        try:
            answered = answer_fold(options, parts, k, answers, fit.seed, limit)
        except KeyboardInterrupt:  # before it had a tree; the fit passes it on, with the tree that there is
            return none
        if not answered:
            return none
        tried |= fold == k
    if not tried.any():
        return none
    Y, w, answers = problem.Y[parts.rows[tried]], parts.weight[tried], answers[:, tried]
    w = w / w.sum()
    errors = np.array([errors_of(problem, Y, part) for part in answers])
    best = int(np.argmin(np.sum(w * errors, axis=1)))
    gain = errors[0] - errors[best]
    mean = float(np.sum(w * gain))
    error = float(np.sqrt(np.sum((w * (gain - mean)) ** 2)))
    best = best if mean > error else 0
    tempers = problem.is_classification and problem.leaves == "constant"
    return strengths[best], temperature_of(Y, w, answers[best]) if tempers else 1.0


def answer_fold(options: Estimator, parts: Parts, k: int, answers: Floats, seed: int, limit: float | None) -> bool:
    """Fill ``answers (strengths, m, K)`` of the rows of a fold, by a tree of the others; False after Ctrl-C."""
    train, held = parts.train(k), parts.fold == k
    solver, stated = options.recipe.shrink.trial(options, train)
    if solver.refusal(stated) is None or stated.max_splits is None:
        result = run(options, solver, stated, None, seed, limit)
    else:
        result = run(options, solver, stated.restated(constraints=()), None, seed, limit)
        result = replace(result, tree=stated.enforce_max_splits(as_tree(result.tree)))
    if result.termination.name == "INTERRUPTED":
        return False
    train.forget_order()
    stated.forget_order()
    moments = shrinker(train, as_tree(result.tree), count=train.n_samples)
    held_out = parts.problem.X[parts.rows[held]]
    leaf = moments.tree.apply(held_out)  # the shrunk trees have its splits
    for number, strength in enumerate(strengths_of(parts.problem)):
        tree = moments.shrunk(strength)
        answers[number, held] = shares_of(tree, tree.outputs(held_out, leaf))
    return True


def shares_of(tree: Tree, outputs: Floats) -> Floats:
    """Numbers, or probabilities of classes, from the outputs of a tree (n, K)."""
    return softmax(outputs, axis=1) if tree.link == "softmax" else outputs


def shrunk_scores(fitted: Estimator, X: Any, y: Any, weight: Floats, held_out: Any) -> dict[float, tuple[float, float]]:
    """For each strength, squared error or log loss and score on the rows ``held_out`` (X, y, weights) of a fitted
    estimator's tree, which was fitted to ``X``, ``y``.
    """
    trial: Any = copy(fitted)
    if trial.encoder_ is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)  # the fit to all rows says it
            X = encode(fitted, clone(trial.encoder_), X, y, weight)
    problem, scaling = state(fitted, X, y, weight)
    if refusal(problem) is not None:
        return {0.0: (0.0, trial.score(*held_out))}
    moments = shrinker(problem, as_tree(fitted.result_.tree))
    used = np.flatnonzero(held_out[2])
    held_out = rows, truth, w = rows_of(held_out[0], used), held_out[1][used], held_out[2][used]
    scores = {}
    for strength in strengths_of(problem):
        trial.tree_ = scaling.unscale(moments.shrunk(strength))
        if problem.is_classification:  # rows of classes that the fit has not seen are wrong under any strength
            classes = np.asarray(problem.classes)
            known = np.isin(truth, classes)
            Y = np.searchsorted(classes, truth[known]).reshape(-1, 1).astype(np.float64)
            errors = np.zeros(len(truth))
            errors[known] = errors_of(problem, Y, trial.tree_.predict_proba(read_new(fitted, rows))[known])
        else:
            off = (trial.predict(rows) - truth).reshape(len(truth), -1) / scaling.y_scale
            errors = np.sum(off**2, axis=1)
        scores[strength] = float(np.sum(w * errors)), float(trial.score(*held_out))
    return scores


def shrunk_tree(problem: TreeProblem, tree: Tree, attributes: Mapping[str, Any]) -> Tree:
    """The tree used for prediction: shrunk and tempered as was found."""
    strength, temperature = attributes.get("leaf_shrinkage_", 0.0), attributes.get("leaf_temperature_", 1.0)
    tree = tree if strength == 0.0 else shrinker(problem, tree, attributes.get("_root_ridge")).shrunk(strength)
    return tree if temperature == 1.0 else tempered(tree, temperature)


def quick_trial(problem: TreeProblem, solver: Any) -> tuple[Solver, TreeProblem]:
    """A tree of TAO of the same depth, in a small part of the time of gradients: it overfits alike. With linear leaves
    of classes it does not, and one start of the ``solver`` itself must do.
    """
    solvers = bridge.solvers
    if problem.is_classification and problem.leaves == "linear":
        return replace(solver, n_starts=1), problem
    init = solvers.HingeInit() if problem.leaves == "linear" else solvers.CartInit()
    return solvers.TAO(init=init, max_iter=TRIAL_PASSES), problem.restated(
        penalties=L1(splits=TRIAL_PENALTY, leaves=TRIAL_PENALTY)
    )


def strengths_of(problem: TreeProblem) -> tuple[float, ...]:
    """The strengths that are compared."""
    return SOFTER if problem.is_classification and problem.leaves == "linear" else STRENGTHS


def errors_of(problem: TreeProblem, Y: Floats, answers: Floats) -> Floats:
    """(n,) squared errors of numbers ``Y (n, K)``, or of the probabilities of constant leaves, where ``Y (n, 1)`` holds
    codes of classes; log losses of linear leaves'.
    """
    if not problem.is_classification:
        return np.sum((answers - Y) ** 2, axis=1)
    label = Y[:, 0].astype(np.intp)
    if problem.leaves == "linear":
        return log_losses(answers[np.arange(len(label)), label])
    return np.sum((answers - np.eye(problem.n_outputs)[label]) ** 2, axis=1)


def temperature_of(Y: Floats, w: Floats, shares: Floats) -> float:
    """The temperature of the lowest log loss of held-out probabilities (n, K) of classes with codes ``Y (n, 1)``."""
    label = Y[:, 0].astype(np.intp)
    losses = [
        np.sum(w * log_losses(softer(shares, temperature)[np.arange(len(label)), label]))
        for temperature in TEMPERATURES
    ]
    return TEMPERATURES[int(np.argmin(losses))]


def log_losses(p: Floats) -> Floats:
    """Log losses of probabilities of the true classes."""
    return -np.log(np.clip(p, LEAST_PROBABILITY, 1.0))


@dataclass(frozen=True)
class Parts:
    """Some rows of a problem, by their numbers, in folds.

    rows, weight, fold : (m,) the numbers, the weights and the folds of the rows.
    least : the fewest rows in a leaf.
    """

    problem: TreeProblem
    rows: NDArray[np.intp]
    weight: Floats
    fold: NDArray[np.int64]
    least: int

    @cached_property
    def _order(self) -> NDArray[np.int32]:
        """(p, m) the rows in increasing order of each feature."""
        return orders_of(self.problem.X[self.rows])

    def train(self, k: int) -> TreeProblem:
        """The problem on the rows of all folds but ``k``; the folds share the order of axis-aligned features."""
        kept = self.fold != k
        rows, problem = self.rows[kept], self.problem
        train = problem.with_rows(problem.X[rows], problem.y[rows], self.weight[kept], min_leaf=self.least)
        ordered = problem.splits == "axis" and not problem.is_sparse
        return train.with_order(self._order, kept) if ordered else train


def parted(problem: TreeProblem, folds: int = FOLDS, most: int | None = None) -> Parts:
    """Each of the `observations` of a problem once, at most so many of them, in folds.

    Weights of copies are added up, and the smallest leaf shrinks as the rows do, so that weights and repeated rows
    agree. The rows are in an order which neither their own order nor the units of the features change, and are dealt
    out in turn; in classification class by class, whatever the classes are called.
    """
    rows = observations(problem)
    n, most = len(rows), MOST_ROWS if most is None else most
    weight = np.asarray(problem.sample_weight)
    if n < problem.n_samples:  # copies
        copy = np.unique(codes_of(problem)[1], return_inverse=True)[1].ravel()
        own = np.bincount(copy[rows])[copy] > 1  # rows that share their features with other outcomes
        copy[own] = copy.max() + 1 + np.arange(int(own.sum()))
        weight = np.bincount(copy, weights=weight)[copy[rows]]
    else:
        weight = weight[rows]
    if n > most:
        taken = np.linspace(0, n, most, endpoint=False).astype(np.intp)
        rows, weight = rows[taken], weight[taken]
    least = max(1, round(problem.min_leaf * n / problem.n_samples))
    order = np.arange(len(rows))
    if problem.is_classification:  # classes in the order of their first rows, and rows by their features
        by_features = np.argsort(codes_of(problem)[0][rows], kind="stable")
        _labels, first, label = np.unique(problem.Y[rows[by_features], 0], return_index=True, return_inverse=True)
        order = by_features[np.argsort(first[label.ravel()], kind="stable")]
    fold = np.empty(len(rows), np.int64)
    fold[order] = np.arange(len(rows)) % folds
    return Parts(problem, rows, np.asarray(weight, np.float64), fold, least)
