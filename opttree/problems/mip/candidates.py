"""The candidate splits of an exact formulation: the finite set of hyperplanes that a proof covers."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.exact import states
from opttree.kernels.passes.sorting import stable_order
from opttree.kernels.passes.thresholds import between
from opttree.kernels.routing import goes_left
from opttree.model.tree import Tree
from opttree.statement.numbers import unit_range

Floats = NDArray[np.float64]
MOST_BYTES = 2.0e9  # of the weights of candidate splits
PAIRS = 64  # of rows, between two points where it can be stopped
COLLINEAR = 1e-13  # distance from a line, relative to the coordinates, that may be due to rounding


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidate splits in families with nested left sides, such as the thresholds of one feature.

    Attributes
    ----------
    A : ndarray of shape (m, p)
        Weights of the splits ``A[c] . x <= b[c]``.
    b : ndarray of shape (m,)
        Thresholds of the splits.
    order : ndarray of int of shape (families, n)
        The rows in an order in which each split of the family sends the first ones left.
    start : ndarray of int of shape (families + 1,)
        Splits of family f are ``start[f]..start[f + 1] - 1``, in increasing order.
    cut : ndarray of int of shape (m,)
        Number of rows that go left.
    feature : ndarray of int of shape (families,)
        The feature of each family, -1 for oblique splits.
    description : str
        The set in words, for messages.
    doubtful : bool
        Whether rounding has kept hyperplanes from dividing the rows as they should, so that some may be missing.
    """

    A: Floats
    b: Floats
    order: NDArray[np.int32]
    start: NDArray[np.int64]
    cut: NDArray[np.int64]
    feature: NDArray[np.int64]
    description: str
    doubtful: bool = False

    def __len__(self) -> int:
        return int(self.b.size)

    @cached_property
    def family(self) -> NDArray[np.int64]:
        """(m,) family of each split."""
        return np.repeat(np.arange(self.order.shape[0]), np.diff(self.start))

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        """(m, words) the left sides as bit strings, 64 rows per word."""
        return states.pack(self.order, self.start, self.cut)

    def side(self, split: int) -> NDArray[np.bool_]:
        """(n,) whether each row goes left."""
        left = np.zeros(self.order.shape[1], bool)
        left[self.order[self.family[split], : self.cut[split]]] = True
        return left

    @cached_property
    def left(self) -> NDArray[np.bool_]:
        """(m, n) `side` of all splits; only for small sets."""
        return np.array([self.side(c) for c in range(len(self))], bool).reshape(len(self), self.order.shape[1])

    def name(self, split: int) -> str:
        """Short name of a split in hyperflow: x3_7 is the eighth threshold of feature 3, h12 the hyperplane 12."""
        family = self.family[split]
        feature = self.feature[family]
        return f"h{split}" if feature < 0 else f"x{feature}_{split - self.start[family]}"

    def key(self, split: int) -> tuple[int, float]:
        """Index of a threshold in flow: its feature and its value."""
        return int(self.feature[self.family[split]]), float(self.b[split])

    def distinct(self) -> Candidates:
        """One of several splits, or mirror images, that divide the rows alike."""
        first = self.words[:, :1] & np.uint64(1)  # whether row 0 goes left
        n = self.order.shape[1]
        every = states.pack_rows(np.arange(n), n)
        alike = np.where(first == 1, self.words, every & ~self.words)
        stays = np.zeros(len(self), bool)
        stays[np.unique(alike, axis=0, return_index=True)[1]] = True
        counts = np.bincount(self.family[stays], minlength=len(self.start) - 1)
        return replace(
            self,
            A=self.A[stays],
            b=self.b[stays],
            cut=self.cut[stays],
            start=np.concatenate([[0], np.cumsum(counts)]),
        )

    def nearest(self, tree: Tree, X: Floats) -> Tree:
        """``tree`` with each split replaced by the candidate that routes the fewest of its rows differently, and of
        several by one on the same feature, or the most parallel.
        """
        A, b = tree.A.copy(), tree.b.copy()
        inside = np.zeros((tree.n_nodes, len(X)), bool)
        inside[0] = True
        for t in range(tree.n_branches):
            rows = np.flatnonzero(inside[t])
            on_left = goes_left(X, A[t], b[t], rows)
            if 0 < on_left.sum() < rows.size and len(self):
                here, left = states.pack_rows(rows, len(X)), states.pack_rows(rows[on_left], len(X))
                wrong = states.differences(self.words, here, left)
                wrongs = np.minimum(wrong, rows.size - wrong)
                equal = np.flatnonzero(wrongs == wrongs.min())
                best = int(equal[np.abs(self.A[equal] @ A[t]).argmax()])
                mirrored = 2 * wrong[best] > rows.size
                sign = -1.0 if mirrored else 1.0
                A[t], b[t] = sign * self.A[best], sign * self.b[best]
                on_left = self.side(best)[rows] != mirrored
            inside[tree.children[t, 0], rows[on_left]] = True
            inside[tree.children[t, 1], rows[~on_left]] = True
        return replace(tree, A=A, b=b, gate=None, mixture=False).canonical


def bytes_of_thresholds(X: Floats, n_thresholds: int | str) -> tuple[int, float]:
    """How many splits `thresholds` lists, and the bytes of their weights; columns are read where these are many."""
    n, p = X.shape
    most = n - 1 if n_thresholds == "all" else min(int(n_thresholds), n - 1)
    if max(8.0 * p * p * most, p * most * n / 8) > MOST_BYTES:
        count = sum(min(np.unique(x).size - 1, most) for x in X.T)
        return count, 8.0 * p * count
    return p * most, 8.0 * p * p * most


def thresholds(X: Floats, n_thresholds: int | str) -> Candidates:
    """Thresholds between the values of each feature: all, or those next to k quantiles.

    Thresholds are midpoints of neighbouring values, however close; "all" covers every axis-aligned split.
    """
    n, p = X.shape
    A, b, cuts, start, features = [], [], [], [0], []
    normals = np.eye(p)
    order = stable_order(np.ascontiguousarray(X.T)).astype(np.int32)
    for j in range(p):
        x = X[order[j], j]
        cut = 1 + np.flatnonzero(x[1:] > x[:-1])
        if n_thresholds != "all" and cut.size > int(n_thresholds):
            wanted = np.arange(1, int(n_thresholds) + 1) / (int(n_thresholds) + 1) * n
            cut = np.unique(cut[np.abs(cut[None, :] - wanted[:, None]).argmin(axis=1)])
        if cut.size:
            features.append(j)
            start.append(start[-1] + cut.size)
            cuts.append(cut)
            b.append(between(x[cut - 1], x[cut]))
            A.append(np.tile(normals[j], (cut.size, 1)))
    which = "all" if n_thresholds == "all" else f"at most {n_thresholds} per feature,"
    return Candidates(
        A=np.concatenate(A) if A else np.zeros((0, p)),
        b=np.concatenate(b) if b else np.zeros(0),
        order=np.ascontiguousarray(order[features]),
        start=np.array(start),
        cut=np.concatenate(cuts) if cuts else np.zeros(0, np.int64),
        feature=np.array(features, np.int64),
        description=f"{which} {start[-1]} thresholds of {len(features)} features",
    )


def finished(work: Generator[None, None, Any]) -> Any:
    """Run ``work`` without stopping and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value


def dichotomies(X: Floats) -> Candidates:
    """`divisions`, without stopping."""
    found: Candidates = finished(divisions(X))
    return found


def divisions(X: Floats) -> Generator[None, None, Candidates]:
    """All divisions of the rows of ``X (n, 2)`` into two parts by a line; yields None wherever it can be stopped.

    A line that divides two sets can be moved to an inner tangent of both, on which the touching rows of one set come
    before those of the other. So every division comes from a line through two rows that are neighbours on it, rotated
    slightly about their midpoint in either direction.
    """
    points = np.unique(X, axis=0)
    centre, scale = typical(points)
    unit, rows = (points - centre) / scale, (X - centre) / scale
    astray = False  # whether a row lies elsewhere than it should
    by_side: dict[bytes, tuple[Floats, float, NDArray[np.bool_]]] = {}

    def add(a: Floats, b: float) -> None:
        left = goes_left(X, a, b)
        if 0 < left.sum() < len(left):  # a split and its mirror image count once
            first = left == left[0]
            if not left[0]:  # -a.x <= -b, and no row is on the hyperplane
                a, b = -a, -float(np.nextafter(b, np.inf))
            by_side.setdefault(np.packbits(first).tobytes(), (a, b, first))

    axis = thresholds(X, "all")
    for a, b in zip(axis.A, axis.b, strict=True):
        add(a, float(b))
    for i in range(len(unit)):
        for k in range(i + 1, len(unit)):
            if k % PAIRS == 0:
                yield
            along = unit[k] - unit[i]
            length = np.hypot(*along)
            along = along / length
            middle = 0.5 * (unit[i] + unit[k])
            t, s = (unit - middle) @ along, (unit - middle) @ np.array([-along[1], along[0]])
            on_line = np.abs(s) <= COLLINEAR * (np.abs(t) + np.abs(middle).max() + length)
            if np.any(on_line & (np.abs(t) < 0.5 * length * (1.0 - 1e-9))):
                continue  # a row lies between the two: they are not neighbours
            angles = np.abs(np.arctan2(s[~on_line], t[~on_line]))
            angles = np.minimum(angles, np.pi - angles)
            turn = 0.5 * min(angles.min(initial=np.pi / 4), np.pi / 4)
            for angle in (turn, -turn):
                c, d = np.cos(angle), np.sin(angle)
                normal = np.array([-along[1] * c - along[0] * d, along[0] * c - along[1] * d])
                a = normal / scale
                b = float(normal @ middle + a @ centre)
                add(a, b)
                astray |= bool(np.any((rows @ normal <= normal @ middle) != goes_left(X, a, b)))
    splits = list(by_side.values())
    order = [np.concatenate([np.flatnonzero(left), np.flatnonzero(~left)]) for _a, _b, left in splits]
    return Candidates(
        A=np.array([a for a, _b, _left in splits]).reshape(-1, X.shape[1]),
        b=np.array([b for _a, b, _left in splits]),
        order=np.array(order, np.int32).reshape(-1, len(X)),
        start=np.arange(len(splits) + 1),
        cut=np.array([left.sum() for _a, _b, left in splits], np.int64),
        feature=np.full(len(splits), -1),
        description=f"all {len(splits)} linear dichotomies of the rows",
        doubtful=astray,
    )


def typical(X: Floats) -> tuple[Floats, Floats]:
    """Median of each feature and median distance from it, or the range where that is 0, or 1: in these units outliers
    take no digits from other rows.
    """
    centre = np.median(X, axis=0)
    spread = np.median(np.abs(X - centre), axis=0)
    return centre, np.where(spread > 0.0, spread, unit_range(X)[1])


def with_margin(tree: Tree, X: Floats, margin: float) -> Tree | None:
    """``tree`` with every hyperplane scaled to ``|a|_1 = 1`` on features in [0, 1] and centred between the rows of its
    two sides; None if these are less than ``margin`` apart.
    """
    low, scale = unit_range(X)
    A, b = tree.A.copy(), tree.b.copy()
    inside = np.zeros((tree.n_nodes, len(X)), bool)
    inside[0] = True
    for t in range(tree.n_branches):
        norm = np.abs(A[t] * scale).sum()
        z = (X - low) @ A[t] / norm
        on_left = goes_left(X, tree.A[t], tree.b[t])
        left, right = inside[t] & on_left, inside[t] & ~on_left
        first, second = z[left].max(), z[right].min()
        if second - first < margin * (1.0 + 1e-6):
            return None
        A[t], b[t] = A[t] / norm, 0.5 * (first + second) + low @ A[t] / norm
        inside[tree.children[t]] = left, right
    return replace(tree, A=A, b=b, gate=None, mixture=False)
