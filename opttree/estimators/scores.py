"""Rewards of actions from treatments and outcomes, for `opttree.PolicyTree`."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["scores"]

Floats = NDArray[np.float64]
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
        Probabilities of the treatments where they are known, as in an experiment; None: they are estimated.
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
    from sklearn.base import clone
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.model_selection import StratifiedKFold

    table = np.asarray(X, np.float64)
    y = np.asarray(outcome, np.float64)
    labels, code = np.unique(np.asarray(treatment), return_inverse=True)
    n, K = len(table), labels.size
    if method not in ("dr", "ipw", "dm"):
        raise ValueError(f"method must be 'dr', 'ipw' or 'dm'; got {method!r}")
    if table.ndim != 2 or code.shape != (n,) or y.shape != (n,):
        shapes = f"{table.shape}, {code.shape} and {y.shape}"
        raise ValueError(f"X must be (n, p), treatment and outcome (n,); got shapes {shapes}")
    for name, numbers in (("X", table), ("outcome", y)):
        if not np.isfinite(numbers).all():
            raise ValueError(f"{name} must be finite; got {numbers[~np.isfinite(numbers)][0]}")
    if not isinstance(cv, (int, np.integer)) or cv < 2:
        raise ValueError(f"cv must be an integer >= 2; got {cv!r}")
    if K < 2 or np.bincount(code).min() < cv:
        raise ValueError(f"treatment must have two or more labels with at least cv = {cv} rows each; got {K} labels")
    e = None if propensity is None else _known(propensity, n, K)

    forest = {"n_estimators": 200, "min_samples_leaf": 5, "random_state": random_state, "n_jobs": -1}
    regressor = RandomForestRegressor(**forest) if outcome_model is None else outcome_model
    classifier = RandomForestClassifier(**forest) if propensity_model is None else propensity_model
    expected, chance = np.zeros((n, K)), np.zeros((n, K)) if e is None else e
    for train, test in StratifiedKFold(cv, shuffle=True, random_state=random_state).split(table, code):
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
    found[rows, code] += (y - expected[rows, code]) / np.maximum(chance[rows, code], LEAST_PROPENSITY)
    return found


def _known(propensity: ArrayLike, n: int, n_treatments: int) -> Floats:
    """Known probabilities (n, K); ValueError for others."""
    e = np.asarray(propensity, np.float64)
    if e.shape not in ((n_treatments,), (n, n_treatments)):
        raise ValueError(f"propensity must have shape ({n}, {n_treatments}) or ({n_treatments},); got {e.shape}")
    if not np.all((e > 0.0) & (e <= 1.0)):
        raise ValueError(f"propensity must be > 0 and <= 1; got {e.min():g} to {e.max():g}")
    return np.broadcast_to(e, (n, n_treatments))
