"""Rewards of actions from treatments and outcomes, for `opttree.PolicyTree`."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from opttree.runtime.words import shown
from opttree.statement.copies import copies_of, different_rows, with_copies
from opttree.tables.checks import TableWarning, as_given
from opttree.tables.encoder import TableEncoder, as_array, needs_encoding
from opttree.tables.numbers import numbers_of, unmasked
from opttree.wide.sparse import is_given_sparse

__all__ = ["residuals", "scores"]

Floats = NDArray[np.float64]
LEAST_TREATED = 0.01  # a probability of either of two treatments counts as no less
OF_ONE = 1e-6  # known probabilities of all treatments may miss one by so much
LEAST_PROPENSITY = 1e-3  # an estimated probability of a treatment counts as no less


def scores(
    X: ArrayLike,
    treatment: ArrayLike,
    outcome: ArrayLike,
    propensity: ArrayLike | None = None,
    *,
    method: Literal["dr", "ipw", "dm"] = "dr",
    cv: int = 5,
    outcome_model: Any = None,
    propensity_model: Any = None,
    random_state: int | None = 0,
) -> Floats:
    """Estimated reward of each row under each treatment, from rows that had one treatment each.

    With outcome models m and probabilities of the treatments e, both fitted to the other folds, "dm" (direct method) is
    ``m_k(x)``; "ipw" (inverse propensity weighting) is ``1[t = k] y / e_k(x)``; and "dr" (doubly robust, augmented
    inverse propensity weighting) is ``m_k(x) + 1[t = k] (y - m_k(x)) / e_k(x)``, right on average if one of the models
    is.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Features.
    treatment : array-like of shape (n,)
        Labels of K >= 2 treatments; the columns of the scores are in their sorted order.
    outcome : array-like of shape (n,)
        Outcomes; higher is better.
    propensity : array-like of shape (n, K) or (K,), or None, default None
        Probabilities of the treatments where they are known, as in an experiment, which add up to 1; None: they are
        estimated, and an estimate below .001 counts as .001.
    method : {"dr", "ipw", "dm"}, default "dr"
        The scores.
    cv : int, default 5
        Folds, stratified by treatment.
    outcome_model : regressor of scikit-learn or None, default None
        Fitted to the rows of each treatment; None: a random forest of 200 trees, of 5 or more rows in a leaf.
    propensity_model : classifier of scikit-learn with ``predict_proba``, or None, default None
        None: such a forest of classes.
    random_state : int or None, default 0
        Seed of the folds and of the forests.

    Returns
    -------
    ndarray of shape (n, K)
        The scores.

    Raises
    ------
    ValueError
        For bad input, in one sentence.

    See Also
    --------
    opttree.PolicyTree : learns from them

    References
    ----------
    Dudik, Langford and Li, "Doubly robust policy evaluation and learning" (2011); Athey and Wager, "Policy learning
    with observational data", Econometrica 89 (2021).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from opttree import causal
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> t = rng.integers(2, size=400)
    >>> y = X[:, 0] * t + 0.1 * rng.normal(size=400)
    >>> found = causal.scores(X, t, y, propensity=[0.5, 0.5], outcome_model=LinearRegression())
    >>> effect = found[:, 1] - found[:, 0]
    >>> bool(np.corrcoef(effect, X[:, 0])[0, 1] > 0.9)
    True
    """
    if method not in ("dr", "ipw", "dm"):
        raise ValueError(f"method must be 'dr', 'ipw' or 'dm'; got {method!r}")
    table, y, labels, code = _checked(X, treatment, outcome, cv)
    n, K = len(table), labels.size
    e = None if propensity is None else _known(propensity, n, K)
    regressor, classifier = _models(outcome_model, propensity_model, random_state)
    expected, chance = np.zeros((n, K)), np.zeros((n, K)) if e is None else e
    for train, test in _folds(table, y, code, cv, random_state):
        if method != "ipw":
            for k in range(K):
                of_k = train[code[train] == k]
                expected[test, k] = clone(regressor).fit(table[of_k], y[of_k]).predict(table[test])
        if method != "dm" and e is None:
            chance[test] = clone(classifier).fit(table[train], code[train]).predict_proba(table[test])
    if method == "dm":
        return expected
    rows = np.arange(n)
    found = expected.copy()
    taken = chance[rows, code] if e is not None else np.maximum(chance[rows, code], LEAST_PROPENSITY)
    found[rows, code] += (y - expected[rows, code]) / taken
    return found


def residuals(
    X: ArrayLike,
    treatment: ArrayLike,
    outcome: ArrayLike,
    propensity: ArrayLike | None = None,
    *,
    cv: int = 5,
    outcome_model: Any = None,
    propensity_model: Any = None,
    random_state: int | None = 0,
) -> tuple[Floats, Floats]:
    """Outcomes less what the features let expect, and treatments less their probabilities: what an R-loss is made of.

    Both expectations are by models of the other folds.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Features.
    treatment : array-like of shape (n,)
        Labels of two treatments; the second of the sorted ones counts as 1, the first as 0.
    outcome : array-like of shape (n,)
        Outcomes.
    propensity : array-like of shape (n,) or float, or None, default None
        Probability of the second treatment where it is known, as in an experiment; None: it is estimated.
    cv : int, default 5
        Folds, stratified by treatment.
    outcome_model : regressor of scikit-learn or None, default None
        None: a random forest of 200 trees, of 5 or more rows in a leaf.
    propensity_model : classifier of scikit-learn with ``predict_proba``, or None, default None
        None: such a forest of classes.
    random_state : int or None, default 0
        Seed of the folds and of the forests.

    Returns
    -------
    outcome : ndarray of shape (n,)
        Residuals of the outcomes.
    treatment : ndarray of shape (n,)
        Residuals of the treatments; probabilities count as no less than .01, and no more than .99.

    Raises
    ------
    ValueError
        For bad input, in one sentence.

    See Also
    --------
    opttree.CausalTree : learns from them

    References
    ----------
    Robinson, "Root-N-consistent semiparametric regression", Econometrica 56 (1988); Nie and Wager, "Quasi-oracle
    estimation of heterogeneous treatment effects", Biometrika 108 (2021).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from opttree import causal
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> t = rng.integers(2, size=400)
    >>> y, t = causal.residuals(X, t, X[:, 0] + 2.0 * t, propensity=0.5, outcome_model=LinearRegression())
    >>> bool(abs(np.sum(y * t) / np.sum(t * t) - 2.0) < 0.1)
    True
    """
    table, y, labels, code = _checked(X, treatment, outcome, cv)
    if labels.size != 2:
        raise ValueError(f"treatment must have two labels; got {labels.size}")
    e = np.zeros(len(y))
    if propensity is not None:
        second = numbers_of("propensity", propensity)
        if second.shape not in ((), y.shape):
            raise ValueError(f"propensity must be a number, or one for each row; got shape {second.shape}")
        if not np.all((second > 0.0) & (second < 1.0)):
            raise ValueError(f"propensity must be > 0 and < 1; got {second.min():g} to {second.max():g}")
        e = np.broadcast_to(second, y.shape).copy()
    regressor, classifier = _models(outcome_model, propensity_model, random_state)
    expected = np.zeros(len(y))
    for train, test in _folds(table, y, code, cv, random_state):
        expected[test] = clone(regressor).fit(table[train], y[train]).predict(table[test])
        if propensity is None:
            e[test] = clone(classifier).fit(table[train], code[train]).predict_proba(table[test])[:, 1]
    return y - expected, code.astype(np.float64) - np.clip(e, LEAST_TREATED, 1.0 - LEAST_TREATED)


def _folds(
    table: Floats, y: Floats, code: NDArray[np.intp], cv: int, random_state: int | None
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to fit models to and rows that they answer; copies of a row are together, if each label has rows enough."""
    first, copy = different_rows(table, np.column_stack([y, code]))
    if np.bincount(code[first]).min() < cv:
        first = copy = np.arange(len(y))
    splitter = StratifiedKFold(cv, shuffle=True, random_state=random_state)
    return with_copies(splitter.split(first, code[first]), copy)


def as_numbers(X: Any, outcome: Any) -> Floats:
    """The features of a table as numbers (n, p) for the models; arrays of numbers as they are."""
    if is_given_sparse(X):
        raise ValueError("X must be dense; got a sparse table")
    X = as_given(X)
    if not needs_encoding(X, "from_dtype"):
        return np.asarray(as_array(X), np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # the fit of the tree says it
        numbers: Floats = TableEncoder().fit_transform(X, numbers_of("outcome", outcome), copies=copies_of)
    return numbers


def _models(outcome_model: Any, propensity_model: Any, random_state: int | None) -> tuple[Any, Any]:
    """A regressor of outcomes and a classifier of treatments: those that are given, or forests."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    for name, model, method in (
        ("outcome_model", outcome_model, "predict"),
        ("propensity_model", propensity_model, "predict_proba"),
    ):
        if model is not None and not all(hasattr(model, needed) for needed in ("fit", "get_params", method)):
            raise ValueError(f"{name} must be an estimator that has {method}, or None; got {shown(model)}")
    forest = {"n_estimators": 200, "min_samples_leaf": 5, "random_state": random_state, "n_jobs": -1}
    regressor = RandomForestRegressor(**forest) if outcome_model is None else outcome_model
    return regressor, RandomForestClassifier(**forest) if propensity_model is None else propensity_model


def _checked(
    X: ArrayLike, treatment: ArrayLike, outcome: ArrayLike, cv: int
) -> tuple[Floats, Floats, NDArray[Any], NDArray[np.intp]]:
    """Features, outcomes, sorted labels of treatments, and their numbers; ValueError for what is none."""
    table, y, given = numbers_of("X", X), numbers_of("outcome", outcome), np.asarray(unmasked("treatment", treatment))
    if given.dtype.kind in "fOmM" and pd.isna(given).any():
        raise ValueError("treatment must have no missing values; got some")
    try:
        labels, code = np.unique(given, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"treatment must hold labels of one kind; got {error}") from error
    check_shapes(table, given, y)
    for name, numbers in (("X", table), ("outcome", y)):
        if not np.isfinite(numbers).all():
            raise ValueError(f"{name} must be finite; got {numbers[~np.isfinite(numbers)][0]}")
    if not isinstance(cv, (int, np.integer)) or cv < 2:
        raise ValueError(f"cv must be an integer >= 2; got {cv!r}")
    if labels.size < 2:
        raise ValueError(f"treatment must have two or more labels; got {labels.size}")
    counts = np.bincount(code)
    if (fewest := int(counts.min())) < cv:
        label = labels.tolist()[int(counts.argmin())]
        raise ValueError(f"treatment must have cv = {cv} rows or more of each label; got {fewest} of {label!r}")
    return table, y, labels, code


def check_shapes(table: Any, treatment: NDArray[Any], outcome: NDArray[Any], name: str = "X") -> None:
    """ValueError unless there are a treatment and an outcome for each row of a table, the argument ``name``."""
    shape = np.shape(table)
    if len(shape) != 2 or treatment.shape != shape[:1] or outcome.shape != shape[:1]:
        shapes = f"{shape}, {treatment.shape} and {outcome.shape}"
        raise ValueError(f"{name} must be (n, p), treatment and outcome (n,); got shapes {shapes}")


def _known(propensity: ArrayLike, n: int, n_treatments: int) -> Floats:
    """Known probabilities (n, K); ValueError for others."""
    e = numbers_of("propensity", propensity)
    if e.shape not in ((n_treatments,), (n, n_treatments)):
        raise ValueError(f"propensity must have shape ({n}, {n_treatments}) or ({n_treatments},); got {e.shape}")
    if not np.all((e > 0.0) & (e <= 1.0)):
        raise ValueError(f"propensity must be > 0 and <= 1; got {e.min():g} to {e.max():g}")
    total = e.sum(axis=-1)
    if (far := np.abs(total - 1.0)).max() > OF_ONE:
        raise ValueError(f"propensity must add up to 1 over the treatments; got {np.ravel(total)[far.argmax()]:g}")
    return np.broadcast_to(e, (n, n_treatments))
