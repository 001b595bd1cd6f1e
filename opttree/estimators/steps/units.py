"""Scaling: offsets and units of features and outputs, applied to rows on the way in and to models on the way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.model.convert import Model
from opttree.model.tree import Tree
from opttree.statement import TreeProblem
from opttree.statement.numbers import NUMBERS, RESOLUTION, ROUNDING, SMALLEST, barely_varies, between, is_constant
from opttree.tables.preprocessing import NormalQuantiles
from opttree.wide import sparse

Floats = NDArray[np.float64]
NOISE = 2.0 * ROUNDING  # distances from one of the values of a column that is constant but for rounding are below it
FEATURES = "X column {}"  # what messages call the features
_ON_PARTS: ContextVar[bool] = ContextVar("on_parts", default=False)


class Scaling(NamedTuple):
    """``(X - x_mean) / x_scale`` and ``(y - y_mean) / y_scale``; ``tree.unscale(*scaling)`` undoes it."""

    x_mean: Floats
    x_scale: Floats
    y_mean: Floats
    y_scale: Floats

    def features(self, X: Any) -> Any:
        """Raw features ``(n, p)`` as the solver sees them; ``X`` itself where they stay as they are."""
        if not self.x_mean.any() and (self.x_scale == 1.0).all():
            return X
        if sparse.is_sparse(X):
            return sparse.scaled(X, self.x_scale)
        scaled = X - self.x_mean
        scaled /= self.x_scale
        for j in np.flatnonzero(self.x_scale == 1.0):  # constant columns: what is left of them is rounding error
            column = scaled[:, j]
            column[np.abs(column) <= NOISE * abs(self.x_mean[j])] = 0.0
        return scaled

    def outputs(self, y: NDArray[Any]) -> Floats:
        """Raw outputs, ``(n,)`` or ``(n, K)``, as the solver sees them."""
        table = np.asarray(y, np.float64).reshape(len(y), -1)
        return ((table - self.y_mean) / self.y_scale).reshape(np.shape(y))

    def scale(self, tree: Tree) -> Tree:
        """A tree on raw features and outputs, transformed to scaled ones."""
        return tree.scale(*self)

    def unscale(self, model: Model) -> Any:
        """A tree or forest of the scaled problem, transformed to raw features and outputs."""
        return model.unscale(*self)

    def problem(self, problem: TreeProblem, X: Floats, y: NDArray[Any]) -> TreeProblem:
        """The same problem on new raw rows; ValueError for an unknown class."""
        if problem.classes is None:
            y = self.outputs(y)
        elif not np.isin(y, problem.classes).all():
            new = np.setdiff1d(y, problem.classes)[0]
            raise ValueError(f"y must hold classes of the first rows, {problem.classes.tolist()}; got {new!r}")
        return problem.with_rows(self.features(X), y)


class QuantileScaling:
    """Features as normal quantiles, for axis-aligned trees; outputs as `Scaling`.

    Of a quantile that splits the training rows, the raw threshold is the midpoint of their values on either side.
    """

    def __init__(self, X: Floats, outputs: Scaling) -> None:
        """From the raw rows ``X``; ``outputs`` for y."""
        self._outputs = outputs
        self._quantiles = NormalQuantiles(random_state=0).fit(X)
        self._values = [np.unique(column) for column in X.T]
        self._known: dict[int, Floats] = {}  # quantiles of the values of features on which trees have split

    @property
    def y_mean(self) -> Floats:
        """Offset of the outputs."""
        return self._outputs.y_mean

    @property
    def y_scale(self) -> Floats:
        """Unit of the outputs."""
        return self._outputs.y_scale

    def features(self, X: Floats) -> Floats:
        """Raw features ``(n, p)`` as the solver sees them."""
        return np.asarray(self._quantiles.transform(X), np.float64)

    def outputs(self, y: NDArray[Any]) -> Floats:
        """Raw outputs as the solver sees them."""
        return self._outputs.outputs(y)

    def scale(self, tree: Tree) -> Tree:
        """A tree on raw features and outputs, with thresholds in quantiles."""
        return self._of_outputs(self._moved(tree, to_raw=False), "scale")

    def unscale(self, tree: Tree) -> Tree:
        """A tree of the scaled problem, with raw thresholds and outputs."""
        return self._of_outputs(self._moved(tree, to_raw=True), "unscale")

    def _of_outputs(self, tree: Tree, how: str) -> Tree:
        still, unit = np.zeros(tree.n_features), np.ones(tree.n_features)
        moved: Tree = getattr(tree, how)(still, unit, self._outputs.y_mean, self._outputs.y_scale)
        return moved

    def _quantiles_of(self, feature: int, n_features: int) -> Floats:
        if feature not in self._known:
            table = np.zeros((self._values[feature].size, n_features))
            table[:, feature] = self._values[feature]
            self._known[feature] = self.features(table)[:, feature]
        return self._known[feature]

    def _moved(self, tree: Tree, *, to_raw: bool) -> Tree:
        A, b = np.zeros_like(tree.A), np.zeros_like(tree.b)
        for t, feature in enumerate(tree.feature):
            weight = tree.A[t, feature]
            raw, quantiles = self._values[feature], self._quantiles_of(int(feature), tree.n_features)
            before, after = (quantiles, raw) if to_raw else (raw, quantiles)
            below = int(np.searchsorted(before, tree.b[t] / weight, side="right" if weight > 0.0 else "left"))
            ends = np.concatenate([[after[0] - 1.0], after, [after[-1] + 1.0]])
            A[t, feature] = np.sign(weight)
            b[t] = np.sign(weight) * between(ends[below], ends[below + 1])
        return replace(tree, A=A, b=b)


def raw_tree(scaling: Any, tree: Tree, problem: TreeProblem, X: Any) -> Tree:
    """`tree` of the scaled ``problem`` on the raw features of its rows ``X``, in canonical form; an axis-aligned one
    routes the rows as it did, whatever scaling has done to its thresholds.
    """
    raw: Tree = scaling.unscale(tree)
    if not tree.is_axis_aligned or tree.gate is not None or X.shape[0] != problem.n_samples:
        return raw.canonical
    return raw.routing(X, problem.leaves_of(tree))


@contextmanager
def on_parts() -> Iterator[None]:
    """For fits to parts of rows that have been taken: a column that varies too little in a part is constant there."""
    token = _ON_PARTS.set(True)
    try:
        yield
    finally:
        _ON_PARTS.reset(token)


def moments(X: Any, weight: Floats, name: str = FEATURES) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each column; deviation 1 for constant columns. Columns of a sparse table
    are not centred, and have units of their own, see `opttree.wide.sparse.units`.

    Columns are processed some at a time, to avoid a temporary array of the size of ``X``.

    Raises
    ------
    ValueError
        For a column, called ``name`` with its number, that varies too little, see `is_constant`; not `on_parts`.
    """
    if sparse.is_sparse(X):
        return np.zeros(X.shape[1]), sparse.units(X)
    share = weight / weight.sum()
    mean, scale = np.empty(X.shape[1]), np.ones(X.shape[1])
    for first, columns in _some_columns(X):
        here = slice(first, first + len(columns))
        mean[here] = np.sum(share * columns, axis=1)
        largest = np.abs(columns).max(axis=1)
        unit = np.where(largest >= SMALLEST, largest, np.inf)
        away = (columns - mean[here, None]) / unit[:, None]
        deviation = np.sqrt(np.sum(share * away**2, axis=1))
        varies = deviation > RESOLUTION
        scale[here][varies] = (largest * deviation)[varies]
        for j in (first + np.flatnonzero(~varies)).tolist():
            used = X[weight > 0.0, j]
            if (_ON_PARTS.get() and barely_varies(used)) or is_constant(name.format(j), used):
                mean[j] = used[0]  # the sum is rounded, and constant columns are to be exactly zero
    return mean, scale


def _some_columns(X: Floats) -> Iterator[tuple[int, Floats]]:
    """Blocks of columns, as rows, and the number of the first."""
    width = max(NUMBERS // max(len(X), 1), 1)
    for first in range(0, X.shape[1], width):
        yield first, np.ascontiguousarray(X[:, first : first + width].T)


def minmax(X: Floats, weight: Floats, name: str = FEATURES) -> tuple[Floats, Floats]:
    """Least value and range of each column over the rows of positive weight; range 1 for constant columns.

    Raises
    ------
    ValueError
        As `moments`.
    """
    mean, deviation = moments(X, weight, name)
    used = X[weight > 0.0]
    low, scale = used.min(axis=0), np.ptp(used, axis=0)
    constant = (deviation == 1.0) & (scale <= NOISE * np.abs(mean))
    return np.where(constant, mean, low), np.where(constant, 1.0, scale)


def spread(X: Any, weight: Floats) -> Floats:
    """(p,) standard deviation of each column; 0 for constant ones."""
    if sparse.is_sparse(X):
        return sparse.moments(X, weight)[1]
    share, out = weight / weight.sum(), np.empty(X.shape[1])
    one = int(np.argmax(weight > 0.0))
    for first, columns in _some_columns(X):
        away = columns - columns[:, [one]]
        away -= np.sum(share * away, axis=1, keepdims=True)
        out[first : first + len(columns)] = np.sqrt(np.sum(share * np.square(away), axis=1))
    return out


def outputs_name(Y: Floats) -> str:
    """What messages call the columns of ``Y (n, K)``, to be formatted with their number."""
    return "y" if Y.shape[1] == 1 else "y column {}"


def with_training(tree: Tree, X: Any, weight: Floats) -> Tree:
    """``tree`` with statistics of its training rows: weight shares of the nodes, standard deviations of the
    features.
    """
    return tree.with_share(tree.node_share(X, weight)).with_spread(spread(X, weight))
