"""Products with some rows of a table that is not copied, by BLAS where there are many columns of results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.routing import is_sparse
from opttree.kernels.wide.products import gather_range, products_range, sums_range
from opttree.runtime.threads import each, share

Floats = NDArray[np.float64]
WIDE = 64  # more features than this are taken by this folder
BLOCK = 4096  # rows whose columns are gathered at a time


def part_of(X: Any, rows: NDArray[np.integer]) -> Part:
    """Some rows of a table of numbers, dense or sparse."""
    return SparsePart(X, rows) if is_sparse(X) else Part(X, rows)


class Part:
    """Some rows of a table ``X (n, p)``, and a column of ones behind its columns."""

    def __init__(self, X: Floats, rows: NDArray[np.integer]) -> None:
        self.X, self.rows = X, rows
        self.size, self.p = len(rows), X.shape[1]

    def times(self, x: Floats) -> Floats:
        """(m,) ``x[:p] . features + x[p]`` of each row."""
        out = np.empty(self.size)
        share(products_range, self.size, self.p, self.X, self.rows, x[:-1], out)
        out += x[-1]
        return out

    def sums(self, c: Floats) -> Floats:
        """(p + 1,) the sums of ``c_i (x_i, 1)``; the same for any number of threads."""
        n = max(min(self.size // BLOCK, 16), 1)
        out = np.zeros((n, self.p))
        bounds = np.arange(n + 1) * self.size // n
        share(sums_range, n, self.size / n * self.p, self.X, self.rows, c, bounds, out)
        return np.append(out.sum(axis=0), c.sum())

    def squares(self, h: Floats) -> Floats:
        """(p + 1,) the sums of ``h_i`` times the squares of ``(x_i, 1)``."""
        every, root = np.arange(self.p), np.sqrt(h)
        found = np.zeros(self.p + 1)
        for first in range(0, self.size, BLOCK):
            B = self.columns(every, root, first, min(first + BLOCK, self.size), np.float64)
            found += np.square(B, out=B).sum(axis=0)
        return found

    def columns(self, some: NDArray[np.intp], factor: Floats, first: int, last: int, dtype: Any) -> NDArray[Any]:
        """(rows, columns + 1) the features ``some`` of rows ``first`` to ``last``, and ones, times ``factor`` (m,)."""
        out = np.empty((last - first, some.size + 1), dtype)
        part = self.X, self.rows[first:last], some, factor[first:last]
        share(gather_range, last - first, some.size, *part, out)
        out[:, -1] = factor[first:last]
        return out

    def gram(self, h: Floats, some: NDArray[np.intp], dtype: Any = np.float64) -> Floats:
        """(s + 1, s + 1) the sum of ``h_i (x_i, 1)(x_i, 1)'`` over the features ``some``, by BLAS."""
        root, q = np.sqrt(h), some.size + 1

        def part(first: int) -> NDArray[Any]:
            B = self.columns(some, root, first, min(first + BLOCK, self.size), dtype)
            return B.T @ B

        return sum(each(part, range(0, self.size, BLOCK)), np.zeros((q, q)))

    def moments(self, h: Floats, Y: Floats) -> Floats:
        """(K, p + 1) the sums of ``h_i y_i (x_i, 1)``, Y (m, K)."""
        every, one = np.arange(self.p), np.ones(self.size)

        def part(first: int) -> Floats:
            last = min(first + BLOCK, self.size)
            return (Y[first:last] * h[first:last, None]).T @ self.columns(every, one, first, last, np.float64)

        return sum(each(part, range(0, self.size, BLOCK)), np.zeros((Y.shape[1], self.p + 1)))

    def outputs(self, coef: Floats, value: Floats) -> Floats:
        """(m, K) outputs of linear models, ``coef (K, p)`` and ``value (K,)``, by the features that they use."""
        some = np.flatnonzero(np.any(coef != 0.0, axis=0))
        B = self.columns(some, np.ones(self.size), 0, self.size, np.float64)
        answer: Floats = B @ np.column_stack([coef[:, some], value]).T
        return answer


class SparsePart(Part):
    """Some rows of a sparse table, which stay sparse."""

    def __init__(self, X: Any, rows: NDArray[np.integer]) -> None:
        super().__init__(X, rows)
        self.S = X if len(rows) == X.shape[0] and np.array_equal(rows, np.arange(len(rows))) else X[rows]

    def times(self, x: Floats) -> Floats:
        """As of a dense table."""
        product: Floats = self.S @ x[:-1]
        return product + x[-1]

    def sums(self, c: Floats) -> Floats:
        """As of a dense table."""
        return np.append(self.S.T @ c, c.sum())

    def squares(self, h: Floats) -> Floats:
        """As of a dense table."""
        return np.append(self.S.power(2).T @ h, h.sum())

    def columns(self, some: NDArray[np.intp], factor: Floats, first: int, last: int, dtype: Any) -> NDArray[Any]:
        """As of a dense table."""
        out = np.empty((last - first, some.size + 1), dtype)
        out[:, :-1] = self.S[first:last][:, some].toarray()
        out[:, -1] = 1.0
        out *= factor[first:last, None].astype(dtype)
        return out

    def gram(self, h: Floats, some: NDArray[np.intp], dtype: Any = np.float64) -> Floats:
        """As of a dense table."""
        B = self.S[:, some]
        G = np.empty((some.size + 1, some.size + 1))
        G[:-1, :-1] = (B.T @ (B * h[:, None])).toarray()
        G[-1, :-1] = G[:-1, -1] = B.T @ h
        G[-1, -1] = h.sum()
        return G

    def moments(self, h: Floats, Y: Floats) -> Floats:
        """As of a dense table."""
        weighted = Y * h[:, None]
        return np.column_stack([(self.S.T @ weighted).T, weighted.sum(axis=0)])

    def outputs(self, coef: Floats, value: Floats) -> Floats:
        """As of a dense table."""
        product: Floats = self.S @ np.ascontiguousarray(coef.T)
        return product + value
