"""Shapley values: what every column adds to the answer for a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.model.convert import check_plain, check_proper
from opttree.model.files import as_saved
from opttree.model.forest import Forest
from opttree.model.structure import used_features
from opttree.model.tree import Tree
from opttree.tables.encoding import raw_columns

Floats = NDArray[np.float64]
MOST_EXACT = 10  # columns that a model uses up to which all coalitions are tried
SAMPLES = 100  # pairs of orders for each row beyond, and as many more as deal out all rows of the background alike
MOST_BACKGROUND = 100  # rows of the background that are used
NUMBERS = 2**22  # numbers in one block of rows


@dataclass(frozen=True)
class Shapley:
    """Shapley values of some rows.

    Attributes
    ----------
    values : ndarray of shape (n, p) or (n, p, K)
        What each column adds to the answer, (n, p, K) for several outputs or classes. The values sum to the answer less
        ``base``; sampled values whose number of samples is no multiple of the background's rows do so but for the share
        of the rows that were drawn more often.
    base : float or ndarray of shape (K,)
        Mean answer over the background.
    error : ndarray
        Standard error of each value, of the shape of ``values``; zeros if the values are exact.
    is_exact : bool
        Whether all coalitions of columns were tried, rather than samples of orders.
    names : tuple of str
        The p columns.
    data : ndarray of shape (n, p)
        The rows: features, or the columns of a table as its encoding reads them.

    See Also
    --------
    shap_values : what returns it

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> values = opttree.explain.shap_values(model, X[:3], X[100:140])
    >>> gap = values.values.sum(axis=1) + values.base - model.predict(X[:3])
    >>> bool(abs(gap).max() < 1e-8)
    True
    """

    values: Floats
    base: Any
    error: Floats
    is_exact: bool
    names: tuple[str, ...]
    data: NDArray[Any]

    def to_shap(self) -> Any:
        """The same as a ``shap.Explanation``, for the plots of the package shap."""
        import shap

        base = np.broadcast_to(np.asarray(self.base), (len(self.values), *np.shape(self.base)))
        return shap.Explanation(
            values=self.values, base_values=np.array(base), data=self.data, feature_names=list(self.names)
        )


def shap_values(
    model: Any,
    X: Any,
    background: Any,
    *,
    n_samples: int | None = None,
    random_state: int | None = 0,
) -> Shapley:
    """Interventional Shapley values of any model of opttree: oblique, linear leaves, soft, forests, tables.

    The value of a set S of columns is the mean answer over the background's rows with the columns S of the explained
    row (Lundberg et al., Nature Machine Intelligence 2020); of classes, the answer is the probability. Exact if the
    model uses at most 10 columns: all coalitions are tried for every row of the background. Otherwise orders of the
    columns are drawn, in pairs of an order and its reverse, each with a row of the background; `Shapley.error` is then
    the standard error of the mean over the pairs. Columns that the model does not use have the value 0.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.
    X : DataFrame or array-like of shape (n, p)
        The rows to explain.
    background : DataFrame or array-like of shape (m, p)
        Rows that stand for all, such as a sample of the training rows; at most 100 of them, at even distances, are
        used.
    n_samples : int or None, default None
        Pairs of orders for each row; None: exact if it can be, else the first multiple of the background's rows from
        100 on. A number always samples.
    random_state : int or None, default 0
        Seed of the orders.

    Returns
    -------
    Shapley
        The values, their errors and the columns.

    Raises
    ------
    ValueError
        For rows that do not fit the model, no background, or ``n_samples`` below 1.

    See Also
    --------
    Shapley : what it returns
    to_shap : axis-aligned trees for the package shap

    References
    ----------
    Lundberg et al., "From local explanations to global understanding with explainable AI for trees", Nature Machine
    Intelligence 2 (2020).

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> values = opttree.explain.shap_values(model, X[:3], X[100:140])
    >>> values.values.shape, values.is_exact
    ((3, 10), True)
    """
    if n_samples is not None and not (isinstance(n_samples, (int, np.integer)) and n_samples >= 1):
        raise ValueError(f"n_samples must be an integer >= 1 or None; got {n_samples!r}")
    saved = as_saved(model, curves=True)
    inside = saved.tree
    Z, B = saved.table(X), saved.table(background)
    if not len(B):
        raise ValueError("background must hold at least one row; got none")
    B = B[np.linspace(0, len(B) - 1, min(len(B), MOST_BACKGROUND)).astype(np.intp)]
    sources = np.arange(inside.n_features) if inside.encoding is None else inside.encoding.sources
    n_columns = inside.n_features if inside.encoding is None else len(inside.encoding.columns)
    used = np.unique(sources[used_features(inside)])
    groups = [np.flatnonzero(sources == column) for column in used]
    base = answers(inside, B).mean(axis=0)
    exact = n_samples is None and len(used) <= MOST_EXACT
    if exact:
        group_values = _exact(inside, Z, B, groups)
        error = np.zeros_like(group_values)
    else:
        rng = np.random.default_rng(random_state)
        usual = -(-SAMPLES // len(B)) * len(B)
        group_values, error = _sampled(inside, Z, B, groups, usual if n_samples is None else int(n_samples), rng)
    values, errors = (np.zeros((len(Z), n_columns, base.size)) for _ in range(2))
    values[:, used], errors[:, used] = group_values, error
    if base.size == 1:
        values, errors, base = values[:, :, 0], errors[:, :, 0], float(base[0])
    data = Z
    if inside.encoding is not None:
        data = np.array(
            [list(column) for column in raw_columns(X, inside.encoding.columns, inside.encoding.read)], object
        ).T
    return Shapley(values, base, errors, exact, tuple(saved.columns), data)


def answers(model: Tree | Forest, X: Floats) -> Floats:
    """(n, K) numbers, or class probabilities."""
    return model.outputs(X) if model.classes is None else model.predict_proba(X)


def _blocks(count: int, width: int) -> Iterator[slice]:
    """Parts of ``count`` things, of so many numbers each."""
    size = max(NUMBERS // max(width, 1), 1)
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def _exact(model: Tree | Forest, Z: Floats, B: Floats, groups: list[NDArray[np.intp]]) -> Floats:
    """Values (n, q, K) of the q groups of features, by all coalitions."""
    q = len(groups)
    masks = (np.arange(2**q)[:, None] >> np.arange(q)) & 1 == 1  # (2^q, q)
    size = masks.sum(axis=1)
    # the coefficient of v(S) in the value of group g: + for S with g, - for S without
    inside = np.array([1.0 / (q * comb(q - 1, max(s - 1, 0))) if s else 0.0 for s in size])
    outside = np.array([1.0 / (q * comb(q - 1, s)) if s < q else 0.0 for s in size])
    weights = np.where(masks, inside[:, None], -outside[:, None]).T  # (q, 2^q)
    columns = np.zeros((2**q, Z.shape[1]), bool)
    for g, features in enumerate(groups):
        columns[:, features] = masks[:, g, None]
    values = []
    for z in Z:
        total: Any = 0.0
        for part in _blocks(len(B), columns.size):
            rows = np.where(columns[None], z, B[part][:, None])  # (b, 2^q, p)
            outputs: Any = answers(model, rows.reshape(-1, Z.shape[1]))
            total = total + outputs.reshape(len(B[part]), 2**q, -1).sum(axis=0)
        values.append(weights @ (total / len(B)))
    return np.array(values) if values else np.zeros((0, q, answers(model, B[:1]).shape[1]))


def _sampled(
    model: Tree | Forest,
    Z: Floats,
    B: Floats,
    groups: list[NDArray[np.intp]],
    n_samples: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Values (n, q, K) of the groups and their standard errors, by pairs of orders."""
    q, p = len(groups), Z.shape[1]
    group_of = np.full(p, -1)
    for g, features in enumerate(groups):
        group_of[features] = g
    values, errors = [], []
    for part in _blocks(len(Z), n_samples * 2 * (q + 1) * p):
        m = len(Z[part])
        order = rng.permuted(np.tile(np.arange(q), (m * n_samples, 1)), axis=1)
        order = np.stack([order, order[:, ::-1]], axis=1)  # (m samples, 2, q)
        place = np.argsort(order, axis=2)  # when each group comes in
        # step s of an order has the groups of the first s places from the row
        when = np.where(group_of >= 0, place[:, :, group_of], q)  # (m samples, 2, p)
        step = np.arange(q + 1)[:, None]
        row: Any = np.repeat(Z[part], n_samples, axis=0)[:, None, None]
        other = B[_dealt(m, n_samples, len(B), rng)][:, None, None]
        rows = np.where(when[:, :, None] < step, row, other)  # (m samples, 2, q + 1, p)
        outputs = answers(model, rows.reshape(-1, p)).reshape(m * n_samples, 2, q + 1, -1)
        gains = np.diff(outputs, axis=2)  # (m samples, 2, q, K), by place
        by_group = np.take_along_axis(gains, place[..., None], axis=2).mean(axis=1)
        by_group = by_group.reshape(m, n_samples, q, -1)
        values.append(by_group.mean(axis=1))
        spread = by_group.std(axis=1, ddof=1) if n_samples > 1 else np.full_like(values[-1], np.nan)
        errors.append(spread / np.sqrt(n_samples))
    K = answers(model, B[:1]).shape[1]
    empty = np.zeros((0, q, K))
    return np.concatenate([empty, *values]), np.concatenate([empty, *errors])


def _dealt(rows: int, n_samples: int, n_background: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows of the background for all samples of all rows, each about equally often for each row."""
    rounds = -(-n_samples // n_background)
    dealt = rng.permuted(np.tile(np.arange(n_background), (rows * rounds, 1)), axis=1)
    return dealt.reshape(rows, -1)[:, :n_samples].ravel()


def to_shap(model: Any) -> dict[str, Any]:
    """An axis-aligned model with constant leaves in the form that ``shap.TreeExplainer`` takes: a dict of "trees".

    It gives the values of exact TreeSHAP: ``shap.TreeExplainer(to_shap(model)).shap_values(Z)``, of the features
    ``Z``, path-dependent by the share of the training rows in each node, or interventional with ``data=``. Classes have
    their probabilities, or their scores in boosted models.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        An axis-aligned model with constant leaves; an estimator must be fitted.

    Returns
    -------
    dict
        Entry "trees", as ``shap.TreeExplainer`` takes it.

    Raises
    ------
    ValueError
        For oblique splits, linear leaves, soft trees and layers, for which `shap_values` is there, and for forests
        whose trees do not know the share of the training rows in their nodes (`Tree.with_share`) or answer with scores
        that are normalised after their mean.

    See Also
    --------
    shap_values : of all models

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> "trees" in opttree.explain.to_shap(model)
    True
    """
    inside = as_saved(model).tree
    trees: tuple[Tree, ...] = (inside,) if isinstance(inside, Tree) else inside.trees
    if isinstance(inside, Forest):
        check_proper(inside, "to_shap")
        if len(inside.layers) > 1:
            raise ValueError(f"to_shap takes forests of one layer; got {len(inside.layers)}")
    scores = isinstance(inside, Forest) and inside.link == "softmax"
    parts = []
    for tree in trees:
        check_plain(tree, "to_shap")
        if tree.share is None:
            raise ValueError("to_shap needs the share of the rows in each node; got a tree without: use shap_values")
        canonical = tree.canonical
        values = np.zeros((canonical.n_nodes, canonical.n_outputs))
        leaf = canonical.values if canonical.classes is None or scores else canonical._probabilities(canonical.values)
        values[canonical.n_branches :] = leaf / len(trees)
        none = np.full(canonical.n_leaves, -1)
        parts.append(
            {
                "children_left": np.append(canonical.children[:, 0], none),
                "children_right": np.append(canonical.children[:, 1], none),
                "children_default": np.append(canonical.children[:, 0], none),
                "features": np.append(canonical.feature, none),
                "thresholds": np.append(
                    canonical.b / canonical.A[np.arange(canonical.n_branches), canonical.feature],
                    np.full(canonical.n_leaves, np.nan),
                ),
                "values": values,
                "node_sample_weight": np.array(canonical.share, float),
            }
        )
    return {"trees": parts}
