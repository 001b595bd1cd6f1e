"""Shrinkage of leaves after a fit, see `opttree.statement.shrinkage`: its strength, chosen on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from opttree.estimators import bridge
from opttree.estimators.recipe import Estimator, Fit, Outcome, Shrink
from opttree.estimators.steps.rows import encode, read_new
from opttree.estimators.steps.solve import run
from opttree.estimators.steps.state import state
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.clock import now
from opttree.statement import L1, TreeProblem
from opttree.statement.shrinkage import codes_of, observations, refusal, shrinker, softer, tempered
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
    asked, searched = strength_of(options), options.max_depth == "cv"
    if fit.valid is not None and options.leaf_shrinkage is None:  # validation rows choose the tree
        asked = 0.0
    shrinks = refusal(fit.problem) is None
    chosen = asked == "cv" and not searched and shrinks
    chosen = chosen and (fit.time_limit is None or fit.time_limit >= LEAST_TIME)
    began = now()
    share = fit.time_limit if fit.time_limit is None or not chosen else (1.0 - SHARE) * fit.time_limit
    outcome = solve(options, replace(fit, time_limit=share))
    strength, temperature = 0.0, 1.0
    if chosen:
        left = None if fit.time_limit is None else max(fit.time_limit - (now() - began), 0.0)
        if outcome.result.termination.name != "INTERRUPTED":
            strength, temperature = choose_strength(options, replace(fit, time_limit=left))
    elif asked == "cv" and searched:
        strength = fit.search["leaf_shrinkage_"]
    elif asked != "cv" and shrinks:
        strength = float(asked)
    found = {**outcome.found, "leaf_shrinkage_": strength, "leaf_temperature_": temperature}
    return Outcome(outcome.result, found)


def choose_strength(options: Estimator, fit: Fit) -> tuple[float, float]:
    """The strength of the lowest held-out error, and the temperature; (0, 1) for too few rows, and after Ctrl-C."""
    none = 0.0, 1.0
    rows, fold = parted(fit.problem)
    if rows.n_samples < FEWEST:
        return none
    began = now()
    strengths = strengths_of(fit.problem)
    answers = np.zeros((len(strengths), rows.n_samples, rows.n_outputs))
    tried = np.zeros(rows.n_samples, bool)
    for k in range(FOLDS):
        limit = None if fit.time_limit is None else (fit.time_limit - (now() - began)) / (FOLDS - k)
        if limit is not None and limit <= 0.0:
            break
        train = rows.sample(np.flatnonzero(fold != k))
        solver, stated = options.recipe.shrink.trial(options, train)
        try:
            result = run(options, solver, stated, None, fit.seed, limit)
        except KeyboardInterrupt:  # before it had a tree; the fit passes it on, with the tree that there is
            return none
        if result.termination.name == "INTERRUPTED":
            return none
        moments = shrinker(train, as_tree(result.tree))
        tried |= fold == k
        for number, strength in enumerate(strengths):
            tree = moments.shrunk(strength)
            held_out = rows.X[fold == k]
            answers[number, fold == k] = (
                tree.predict_proba(held_out) if rows.is_classification else tree.outputs(held_out)
            )
    if not tried.any():
        return none
    rows, answers = rows.sample(np.flatnonzero(tried)), answers[:, tried]
    errors = np.array([errors_of(rows, part) for part in answers])
    best = int(np.argmin(np.sum(rows.w * errors, axis=1)))
    gain = errors[0] - errors[best]
    mean = float(np.sum(rows.w * gain))
    error = float(np.sqrt(np.sum((rows.w * (gain - mean)) ** 2)))
    best = best if mean > error else 0
    tempers = rows.is_classification and rows.leaves == "constant"
    return strengths[best], temperature_of(rows, answers[best]) if tempers else 1.0


def shrunk_scores(fitted: Estimator, X: Any, y: Any, weight: Floats, held_out: Any) -> dict[float, tuple[float, float]]:
    """For each strength, squared error or log loss and score on the rows ``held_out`` (X, y, weights) of a fitted
    estimator's tree, which was fitted to ``X``, ``y``.
    """
    trial: Any = copy(fitted)
    if trial.encoder_ is not None:
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
        if problem.is_classification:
            Z = read_new(fitted, rows)
            errors = errors_of(problem.with_rows(scaling.features(Z), truth, w), trial.tree_.predict_proba(Z))
        else:
            off = (trial.predict(rows) - truth).reshape(len(truth), -1) / scaling.y_scale
            errors = np.sum(off**2, axis=1)
        scores[strength] = float(np.sum(w * errors)), float(trial.score(*held_out))
    return scores


def shrunk_tree(problem: TreeProblem, tree: Tree, found: Mapping[str, Any]) -> Tree:
    """The tree used for prediction: shrunk and tempered as was found."""
    strength, temperature = found.get("leaf_shrinkage_", 0.0), found.get("leaf_temperature_", 1.0)
    tree = tree if strength == 0.0 else shrinker(problem, tree).shrunk(strength)
    return tree if temperature == 1.0 else tempered(tree, temperature)


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
