"""Scores that say that something is wrong with a table or a model, in words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

FAR = 0.1  # in R2 or accuracy
MOST_ROWS = 20_000  # of the linear model


def doubts(task: str, scores: Sequence[float | None], X: Any, y: Any, held_out: Any) -> list[str]:
    """What the scores on training rows and on ``held_out`` rows (X, y) give to think.

    Parameters
    ----------
    task : {"regression", "classification"}
        What is predicted.
    scores : sequence of float or None
        R2, or accuracy, on the training rows and on those held out.
    X, y : DataFrame, ndarray of shape (n,)
        The training rows.
    held_out : tuple of (X, y) or None
        The rows held out.

    Returns
    -------
    list of str
        Sentences.
    """
    said: list[str] = []
    training, test = scores
    name = "R2" if task == "regression" else "accuracy"
    if training is None:
        return said
    least = 0.0
    if task == "classification":
        labels, counts = np.unique(y, return_counts=True)
        least = float(counts.max() / len(y))
        if training < least - 1e-9:
            said.append(
                f"the training accuracy, {training:.4f}, is below the share of the commonest label, {least:.4f}: "
                f"always answering {labels[np.argmax(counts)]!s:.60} would be better"
            )
    elif training < -1e-6:  # that of the mean is 0 but for rounding
        said.append(f"the training R2, {training:.4f}, is below 0: the mean of all rows would be better")
    if test is None:
        return said
    if training < test - FAR:
        said.append(f"the training {name} is far below that on held-out rows: {training:.4f} and {test:.4f}")
    truth = held_out[1]
    constant = float(np.mean(truth == labels[np.argmax(counts)])) if task == "classification" else 0.0
    if test < constant - 0.5 * FAR:
        said.append(f"the held-out {name}, {test:.4f}, is below that of one answer for all rows, {constant:.4f}")
    linear = _linear(task, X, y, held_out)
    if linear is not None and test < linear - FAR:
        said.append(f"the held-out {name}, {test:.4f}, is far below that of a linear model, {linear:.4f}")
    return said


def _linear(task: str, X: Any, y: Any, held_out: Any) -> float | None:
    """The score of a linear model on held-out rows; None where it cannot be fitted."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from opttree.tables.encoder import TableEncoder

    model = RidgeCV(np.logspace(-2, 4, 7)) if task == "regression" else LogisticRegression(max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            whole = make_pipeline(TableEncoder(), StandardScaler(), model).fit(X[:MOST_ROWS], y[:MOST_ROWS])
            return float(whole.score(*held_out))
        except ValueError:
            return None
