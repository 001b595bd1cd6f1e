"""Validation rows: ``eval_set`` as a pair, as several of them, and what a fitted model says of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import is_classifier

from opttree.estimators.recipe import Estimator
from opttree.estimators.steps.rows import read_new
from opttree.model.forest import Forest

TINY = 1e-15  # of a probability, in the log loss
Sets = dict[str, tuple[Any, Any]]


def named_sets(options: Estimator, eval_set: Any) -> Sets:
    """Pairs (X, y) of validation rows by their names; the last stops the fit.

    ``eval_set`` is a pair, a list of pairs, which are called "validation_0" and so on, or a mapping of names to pairs.

    Raises
    ------
    ValueError
        For anything else, and estimators that do not stop early.
    """
    if eval_set is None:
        return {}
    if not options.takes_eval_set:
        raise ValueError(f"eval_set is for estimators that stop early; got it for {type(options).__name__}")
    pairs: Any = eval_set
    if isinstance(eval_set, list) and eval_set and all(isinstance(one, tuple) for one in eval_set):
        pairs = {f"validation_{k}": one for k, one in enumerate(eval_set)}
    elif not isinstance(eval_set, Mapping):
        pairs = {"validation_0": eval_set}
    for pair in pairs.values():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            words = "eval_set must be a pair (X, y) of validation rows, a list of pairs, or a mapping of names to pairs"
            raise ValueError(f"{words}; got {type(pair).__name__}")
    if not pairs:
        raise ValueError("eval_set must hold at least one pair (X, y) of validation rows; got none")
    return dict(pairs)


def history(options: Estimator, sets: Sets) -> dict[str, dict[str, list[float]]]:
    """For each set the root of the mean squared error, or the log loss, of the fitted model.

    Of boosted trees in one ensemble after each tree that is kept; else a list of one number.
    """
    name = "log_loss" if is_classifier(options) else "rmse"
    return {key: {name: [_loss(options, scores, y) for scores in _stages(options, X)]} for key, (X, y) in sets.items()}


def _stages(options: Estimator, X: Any) -> list[NDArray[Any]]:
    """Predictions, or class probabilities, of each stage of the model."""
    forest: Any = getattr(options, "forest_", None)
    starts = forest.starts if isinstance(forest, Forest) else None
    if starts is None or len(starts) != 1:
        return [options.predict_proba(X) if is_classifier(options) else options.predict(X)]
    count, offset = starts[0]
    Z = read_new(options, X)
    total = np.tile(np.asarray(offset, np.float64), (Z.shape[0], 1))
    stages = []
    for tree in forest.trees:  # each is the start, and its own part times their number
        total = total + (tree.outputs(Z) - offset) / count
        stages.append(softmax(total, axis=1) if forest.classes is not None else total)
    return stages


def _loss(options: Estimator, scores: NDArray[Any], y: Any) -> float:
    truth = np.asarray(y)
    if not is_classifier(options):
        return float(np.sqrt(np.mean((scores.reshape(len(truth), -1) - truth.reshape(len(truth), -1)) ** 2)))
    own = scores[np.arange(len(truth)), np.searchsorted(options.classes_, truth)]
    return float(-np.mean(np.log(np.clip(own, TINY, 1.0))))
