"""Boosting over a table in parts: trees are grown level by level from histograms that parts send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.kernels import records
from opttree.kernels.passes import summed
from opttree.model.tree import Tree
from opttree.runtime.clock import seconds_left
from opttree.statement import TreeProblem
from solvers.core.parts import Bag, Reader
from solvers.ensembles.boosting import SMALLEST_CURVATURE, softmax

__all__ = ["BoostingOverParts"]

Floats = NDArray[np.float64]
LEAST_GAIN = 1e-12  # relative to the weighted squares of the targets
SHRINKAGE = 10.0  # weight of the parent's value in a leaf, in rows
HELD_OUT = 10**9  # number of the bag of the rows held out


@dataclass(frozen=True)
class BoostingOverParts:
    """Gradient boosting of trees with constant leaves over rows that no one process holds.

    As `Boosting`, for squared loss and classes. A part keeps its features in bins, a byte each, and the scores of its
    rows, where it is; its rows are read once. A tree takes a round a level, of histograms of weights and targets.

    Attributes
    ----------
    rows, reader : opttree.Rows, callable
        As of `PassesOverParts`.
    problem : TreeProblem
        The statement of a tree.
    edges : tuple of ndarray
        Of each feature, the upper ends of at most 255 bins.
    n_trees, learning_rate, subsample, patience : int, float, float, int
        As of `Boosting`.
    validation : float or None
        Share of the rows held out, by their numbers.
    shrinkage : float
        Weight of the parent's value in a leaf, in rows.
    seed : int
        Of the rows that count for a tree.
    count : int
        Rows of positive weight; 0: all rows.

    See Also
    --------
    Boosting : on rows in memory
    """

    rows: Any
    reader: Reader
    problem: TreeProblem
    edges: tuple[Floats, ...]
    n_trees: int = 300
    learning_rate: float = 0.1
    subsample: float = 0.7
    validation: float | None = 0.1
    patience: int = 20
    shrinkage: float = SHRINKAGE
    seed: int = 0
    count: int = 0

    def grown(self) -> Iterator[tuple[list[Tree], list[float], Floats]]:
        """The trees so far, the held-out loss of the first scores and after each tree (without rows held out, that of
        all rows), and the first scores; after each tree.

        Yields
        ------
        tuple of (list of Tree, list of float, ndarray)
            Trees on the features of the statement, losses, and scores (K,).
        """
        problem, n = self.problem, self.count or self.rows.n_rows
        most = max(len(ends) for ends in self.edges)
        edges = np.full((len(self.edges), most), np.inf)
        for own, ends in zip(edges, self.edges, strict=True):
            own[: len(ends)] = ends
        firsts = np.concatenate([[0], np.cumsum(self.rows.sizes)])
        held = None if self.validation is None else Bag(self.seed, HELD_OUT, 1.0 - self.validation)
        begin = _Begin(self.reader, edges, firsts, held, problem.is_classification, problem.n_outputs)
        begin, states, offset = first_scores(self.rows, _begun, begin)
        held = begin.held
        bins = np.concatenate([[0], np.cumsum([len(ends) + 1 for ends in self.edges])])
        told = _Told(offset[None], None, None, 0, 1, bins, self._bag(0), held is not None)
        trees: list[Tree] = []
        losses: list[float] = []
        while True:
            sums, total = self.rows.sum(_histograms, told, states)
            losses.append(float(total[0] / max(total[1], 1e-300)))
            if trees:
                yield trees, losses, offset
            behind = len(losses) - 1 - int(np.argmin(losses))
            if len(trees) == self.n_trees or seconds_left() <= 0.0 or (held is not None and behind >= self.patience):
                return
            tree, values, splits = self._tree(sums, told, states, n)
            trees.append(tree)
            told = told._replace(
                start=None, values=self.learning_rate * values, splits=splits, bag=self._bag(len(trees))
            )

    def _bag(self, number: int) -> Bag:
        return Bag(self.seed, number, self.subsample)

    def _tree(self, sums: Floats, told: _Told, states: list[Any], n: int) -> tuple[Tree, Floats, _Splits]:
        """A tree from the histograms at its root, the values of all its nodes, and the splits of its last level."""
        depth, p, least = self.problem.depth, len(self.edges), max(self.problem.min_leaf, 1)
        feature, cut, child = [-1], [-1], [0]
        whole = sums[0, : told.offset_of_bins[1]].sum(axis=0)
        values = [whole[1:] / max(whole[0], 1e-300)]
        squares = float(np.sum(np.square(whole[1:])) / max(whole[0], 1e-300)) + 1e-300
        first, last = 0, 1
        new = _Splits(*(np.full(1, -1) for _ in _Splits._fields))
        for level in range(depth):
            S, both = len(sums), sums.shape[2]
            gains, features, cuts, sides = np.empty(S), np.empty(S, int), np.empty(S, int), np.empty((S, 2, both))
            summed.best_cuts(sums, told.offset_of_bins, least / n, gains, features, cuts, sides)
            new = _Splits(np.full(last, -1), np.full(last, -1), np.full(last, -1))
            for s, t in enumerate(range(first, last)):
                if gains[s] <= LEAST_GAIN * squares:
                    continue
                feature[t], cut[t], child[t] = int(features[s]), int(cuts[s]), len(feature)
                new.feature[t], new.cut[t], new.child[t] = feature[t], cut[t], child[t]
                for side in sides[s]:
                    feature.append(-1)
                    cut.append(-1)
                    child.append(0)
                    share = side[0] / (side[0] + self.shrinkage / n)
                    values.append(values[t] + share * (side[1:] / max(side[0], 1e-300) - values[t]))
            first, last = last, len(feature)
            if first == last or level == depth - 1:
                break
            further = told._replace(splits=new, level=level + 1, slots=last - first, first=first)
            sums, _total = self.rows.sum(_histograms, further._replace(start=None, values=None), states)
        left = np.array([child[t] if feature[t] >= 0 else -1 for t in range(last)])
        right = np.where(left >= 0, left + 1, -1)
        A, b = np.zeros((last, p)), np.zeros(last)
        for t in np.flatnonzero(left >= 0).tolist():
            A[t, feature[t]], b[t] = 1.0, self.edges[feature[t]][cut[t]]
        answers = np.array(values)
        return Tree.from_links(left, right, A, b, answers), answers, new


class _Begin(NamedTuple):
    reader: Reader
    edges: Floats
    firsts: NDArray[np.int64]
    held: Bag | None
    classes: bool
    n_outputs: int


class _Splits(NamedTuple):
    """Of each node: feature, -1 for none; the last bin on the left; the left child, after which comes the right."""

    feature: NDArray[np.int64]
    cut: NDArray[np.int64]
    child: NDArray[np.int64]


class _Told(NamedTuple):
    """What parts are told: first scores; the splits of the last level, the values of the nodes of a finished tree; the
    level of the tree, its nodes and the first of them; where the bins of each feature begin; the bag of a new tree;
    whether rows are held out.
    """

    start: Floats | None
    splits: _Splits | None
    values: Floats | None
    level: int
    slots: int
    offset_of_bins: NDArray[np.int64]
    bag: Bag
    holds: bool
    first: int = 0


class _State(NamedTuple):
    """What a part keeps: bins of the features, outcomes, weights, whether a row is held out, scores, the node of each
    row, weights and weighted targets of the tree that grows, and the number of its first row.
    """

    codes: NDArray[np.uint8]
    Y: Floats
    weight: Floats
    held: NDArray[np.bool_]
    scores: Floats
    node: NDArray[np.int64]
    w: Floats
    wt: Floats
    first: int
    classes: bool


def _begun(part: Any, number: int, told: _Begin, state: None) -> tuple[Any, _State]:
    rows: records.Rows = told.reader(part)
    n, first = len(rows.weight), int(told.firsts[number])
    held = np.zeros(n, bool) if told.held is None else told.held.weights(first, n) == 0.0
    codes = summed.in_bins(rows.X, told.edges)
    Y = rows.Y
    used, answer = in_training(rows, held, told)
    none = np.zeros((n, told.n_outputs))
    kept = _State(codes, Y, rows.weight, held, none, np.zeros(n, np.int64), used, none, first, told.classes)
    return answer, kept


def _histograms(part: None, number: int, told: _Told, state: _State) -> tuple[Any, _State]:
    """The histograms of the nodes of a level, and of rows held out, before a new tree, the loss and the weight."""
    node, scores, n = state.node.copy(), state.scores, len(state.weight)
    if told.start is not None:
        scores = np.repeat(told.start, n, axis=0)
    if told.splits is not None:
        summed.send_on(state.codes, node, *told.splits)
    if told.values is not None:
        scores = scores + told.values[node]
    total = np.zeros(2)
    w, wt = state.w, state.wt
    if told.level == 0:
        node = np.zeros(n, np.int64)
        losses, curvature, targets = at_scores(scores, state.Y, state.classes)
        judged = state.held if told.holds else np.ones(n, bool)
        total[:] = state.weight[judged] @ losses[judged], state.weight[judged].sum()
        drawn = told.bag.weights(state.first, n) > 0.0
        w = exact(np.where(state.held | ~drawn, 0.0, state.weight * curvature), 52)
        wt = exact(w[:, None] * targets, 48)
    slot = np.where(w > 0.0, node - told.first, -1)
    sums = np.zeros((told.slots, told.offset_of_bins[-1], 1 + wt.shape[1]))
    summed.histograms(state.codes, told.offset_of_bins, slot, w, wt, sums)
    return (sums, total), state._replace(scores=scores, node=node, w=w, wt=wt)


def first_scores(rows: Any, function: Any, begin: Any) -> tuple[Any, list[Any], Floats]:
    """What parts were told, with no rows held out where those or the others have no weight; the states that
    ``function`` has left in them; and the best constants, of classes the logarithms of their shares, (K,).
    """
    states: list[Any] = []
    (mass, out), sums = rows.sum(function, begin, states)
    if begin.held is not None and not (mass > 0.0 and out > 0.0):
        return first_scores(rows, function, begin._replace(held=None))
    return begin, states, np.log(np.maximum(sums / mass, 1e-6)) if begin.classes else sums / mass


def in_training(rows: records.Rows, held: NDArray[np.bool_], told: Any) -> tuple[Floats, tuple[Floats, Floats]]:
    """The weights of rows that are not held out; for `first_scores`, their sum and that of the others, and weighted
    outcomes, or weights of classes.
    """
    used, sums = exact(np.where(held, 0.0, rows.weight), 52), np.zeros(told.n_outputs)
    if told.classes:
        sums += np.bincount(rows.Y[:, 0].astype(np.intp), used, told.n_outputs)
    else:
        sums = exact(used[:, None] * rows.Y, 48).sum(axis=0)
    return used, (np.array([used.sum(), rows.weight[held].sum()]), sums)


def at_scores(scores: Floats, Y: Floats, classes: bool) -> tuple[Floats, Floats, Floats]:
    """Losses (n,), weights (n,) and targets (n, K) of rows for the next tree, see `Boosting`."""
    if not classes:
        targets = Y - scores
        return np.square(targets).sum(axis=1), np.ones(len(Y)), targets
    shares, label = softmax(scores), Y[:, 0].astype(np.intp)
    losses = -np.log(np.maximum(shares[np.arange(len(Y)), label], 1e-6))
    curvature = np.maximum(2.0 * np.max(shares * (1.0 - shares), axis=1, initial=0.0), SMALLEST_CURVATURE)
    return losses, curvature, (np.eye(scores.shape[1])[label] - shares) / curvature[:, None]


def exact(values: Floats, bits: int) -> Floats:
    """Numbers rounded to multiples of ``2**-bits``, whose sums have no error while they are below ``2**(53 - bits)``:
    then it does not matter how the rows are cut into parts.
    """
    rounded: Floats = np.round(values * 2.0**bits) * 2.0**-bits
    return rounded
