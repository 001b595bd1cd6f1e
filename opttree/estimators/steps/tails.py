"""Heavy tails: features that are clipped where rows held out say that this helps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opttree.estimators.recipe import Estimator, Rows
from opttree.kernels.passes.sorting import stable_order
from opttree.tables.encoder import TableEncoder
from opttree.tables.encoding import Encoding, Value
from opttree.wide.sparse import is_sparse

Floats = NDArray[np.float64]
TAIL, BEYOND = 0.01, 0.5  # share of the rows in a tail, and how far beyond it values are kept, in ranges between tails


class Limits(TableEncoder):
    """Holds the encoding of a table of numbers of which some are clipped; columns are known by their places."""


def limits_of(options: Estimator, rows: Rows) -> Floats | None:
    """(2, p) where features are clipped, infinite for those that are not; None if none is.

    A feature is clipped half a range beyond its first and last percentile, the range being that between the two. Of a
    sparse table none is.
    """
    if is_sparse(rows.X):
        return None
    return _limits(rows.X, rows.weight, _numbers(options, rows.X.shape[1]))


def _limits(X: Floats, weight: Floats, may: NDArray[np.bool_]) -> Floats | None:
    """Limits (2, p) of the columns that ``may`` have some, infinite for those that need none; None if none does."""
    X, weight = X[weight > 0.0], weight[weight > 0.0]
    order = stable_order(np.ascontiguousarray(X.T)).T
    share = np.cumsum(weight[order], axis=0) / weight.sum()
    first = np.argmax(share >= TAIL - 1e-12, axis=0), np.argmax(share >= 1.0 - TAIL - 1e-12, axis=0)
    low, high = (np.take_along_axis(X, order[place, range(X.shape[1])][None], axis=0)[0] for place in first)
    low, high = low - BEYOND * (high - low), high + BEYOND * (high - low)
    least, most = X.min(axis=0), X.max(axis=0)
    heavy = ((least < low) | (most > high)) & (low < high) & may
    if not heavy.any():
        return None
    return np.where(heavy, [low, high], [[-np.inf], [np.inf]])


def clipped(rows: Rows, limits: Floats) -> Rows:
    """The rows with features within limits."""
    return replace(rows, X=np.clip(rows.X, *limits))


def target_limits_of(rows: Rows) -> Floats | None:
    """(2, K) where targets are clipped, as features are; None if none is."""
    y = rows.y.reshape(len(rows.y), -1)
    return _limits(y, rows.weight, np.ones(y.shape[1], np.bool_))


def with_targets_clipped(rows: Rows, limits: Floats) -> Rows:
    """The rows with targets within limits."""
    return replace(rows, y=np.clip(rows.y, *(limits if rows.y.ndim == 2 else limits[:, 0])))


def keep_limits(options: Estimator, rows: Rows, limits: Floats) -> None:
    """Have the estimator's encoding clip new rows, too; numbers without one get one, which answers a missing number as
    the mean.
    """
    before = options.encoder_
    if before is None:
        names = getattr(options, "feature_names_in_", [f"x{j}" for j in range(rows.X.shape[1])])
        encoding = Encoding.of_numbers([str(name) for name in names])
        mean = np.average(np.clip(rows.X, *limits), axis=0, weights=rows.weight)
        features = [replace(f, fill=float(mean[j])) for j, f in enumerate(encoding.features) if isinstance(f, Value)]
        encoding = replace(encoding, features=tuple(features))
        options.encoder_ = Limits(categorical_features=options.categorical_features)
    else:
        encoding = before.encoding_
    low, high = limits
    options.encoder_.encoding_ = replace(
        encoding,
        features=tuple(
            replace(f, low=float(low[j]), high=float(high[j])) if isinstance(f, Value) and np.isfinite(low[j]) else f
            for j, f in enumerate(encoding.features)
        ),
    )


def _numbers(options: Estimator, p: int) -> NDArray[np.bool_]:
    """(p,) whether a feature is a number that is not clipped already."""
    encoder = options.encoder_
    if encoder is None:
        return np.ones(p, bool)
    return np.array([isinstance(f, Value) and f.low is None for f in encoder.encoding_.features], bool)
