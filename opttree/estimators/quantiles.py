"""Quantiles of forests: errors of the training rows that share leaves with a new row, pooled over the trees."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from opttree.model.forest import leaves_of as leaves_of

Floats = NDArray[np.float64]
NUMBERS = 2**24  # weights of new and training rows that are held at a time


class Pool(NamedTuple):
    """The leaf (n, T) of each training row in each tree, numbered over all trees; out-of-bag errors (n, K); weights."""

    leaf: NDArray[np.int32]
    errors: Floats
    weight: Floats


def pool_of(trees: Any, X: Floats, errors: Floats, weight: Floats) -> Pool:
    """The pool of rows whose errors are known."""
    known = ~np.isnan(errors[:, 0]) & (weight > 0.0)
    return Pool(leaves_of(trees, X[known]), errors[known], weight[known])


def pooled(pool: Pool, leaf: NDArray[np.int32], quantiles: Floats) -> Floats:
    """(m, K, Q) quantiles of the pool's errors, where a training row counts by its share of the weight in the leaves
    (m, T) that it has in common with a new row (Meinshausen, 2006).
    """
    (n, T), (m, _T) = pool.leaf.shape, leaf.shape
    size = int(max(pool.leaf.max(initial=0), leaf.max(initial=0))) + 1
    total = np.bincount(pool.leaf.ravel(), np.repeat(pool.weight, T), minlength=size)
    shares = pool.weight[:, None] / total[pool.leaf]
    held = csr_array((shares.ravel(), pool.leaf.ravel(), np.arange(n + 1) * T), shape=(n, size)).T.tocsr()
    out = np.empty((m, pool.errors.shape[1], quantiles.size))
    order = np.argsort(pool.errors, axis=0, kind="stable")
    step = max(NUMBERS // n, 1)
    for first in range(0, m, step):
        some = leaf[first : first + step]
        ones = np.ones(some.size)
        asked = csr_array((ones, some.ravel(), np.arange(len(some) + 1) * T), shape=(len(some), size))
        weights = (asked @ held).toarray()
        weights[weights.sum(axis=1) <= 0.0] = pool.weight  # of a row that shares no leaf with any: all count
        for k in range(out.shape[1]):
            summed = np.cumsum(weights[:, order[:, k]], axis=1)
            aims = quantiles * summed[:, -1:]
            for q in range(quantiles.size):
                at = np.argmax(summed >= aims[:, [q]] * (1.0 - 1e-12), axis=1)
                out[first : first + step, k, q] = pool.errors[order[at, k], k]
    return out
