"""Boosting over a table in parts: splits of trees from a sample of its rows, leaves from all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.kernels import records
from opttree.kernels.algebra.gram import mirror_lower, padded
from opttree.kernels.passes import summed
from opttree.model.tree import Tree
from opttree.runtime.clock import seconds_left
from opttree.statement import TreeProblem
from solvers.core.parts import Bag, Reader
from solvers.ensembles.boosting import NEGLIGIBLE, Boosting, working_targets
from solvers.ensembles.boosting_parts import HELD_OUT, SHRINKAGE, at_scores, first_scores, in_training
from solvers.ensembles.growth_options import GrowthOptions
from solvers.ensembles.parts import MOST_BYTES, Moments, with_leaves

__all__ = ["BoostingFromSample"]

Floats = NDArray[np.float64]
MOST_NUMBERS = 2**24  # of a sample that parts send
SAMPLES = 2 * 10**9  # number of the bag of the first of them
UNIT = 2.0**44  # products of the moments are multiples of its inverse


@dataclass(frozen=True)
class BoostingFromSample:
    """Gradient boosting of trees of any solver over rows that no one process holds.

    Each tree's splits are fitted to a sample of the rows, to what all trees before it leave there, and its leaves to
    all rows, in one round, in which parts also take up the leaves of the tree before and send the next tree's sample.
    Where samples would be larger than `MOST_NUMBERS`, all trees have the first. Parts keep the scores of their rows,
    and are read in each round.

    Attributes
    ----------
    rows, reader : opttree.Rows, callable
        As of `PassesOverParts`.
    problem : TreeProblem
        The statement of a tree, on the first sample, with the smallest leaf that belongs to it.
    numbers : ndarray of int of shape (m,)
        Numbers of its rows; later samples have as many, more or less.
    boosting : Boosting
        The solver of the trees, and options of the sum.
    shrinkage : float
        Weight of the parent's model in a leaf, in rows.
    seed : int
        Of the rows that count for a tree.
    count : int
        Rows of positive weight; 0: all rows.
    min_leaf : int
        Fewest rows of a leaf, of all.

    Raises
    ------
    ValueError
        For solvers of soft trees, whose leaves are not those of rows.

    See Also
    --------
    BoostingOverParts : trees of single features, of which all rows choose the splits
    Boosting : on rows in memory
    """

    rows: Any
    reader: Reader
    problem: TreeProblem
    numbers: NDArray[np.int64]
    boosting: Boosting
    shrinkage: float = SHRINKAGE
    seed: int = 0
    count: int = 0
    min_leaf: int = 1

    def grown(self) -> Iterator[tuple[list[Tree], list[float], Floats]]:
        """The trees so far, the held-out loss of the first scores and after each tree (without rows held out, that of
        all rows), and the first scores; after each tree.

        Yields
        ------
        tuple of (list of Tree, list of float, ndarray)
            Trees on the features of the statement, losses, and scores (K,).
        """
        problem, boosting = self.problem, self.boosting
        share: Any = boosting.validation
        held = None if share is None else Bag(self.seed, HELD_OUT, 1.0 - float(share))
        firsts = np.concatenate([[0], np.cumsum(self.rows.sizes)])
        begin = _Begin(self.reader, firsts, held, problem.is_classification, problem.n_outputs)
        begin, states, offset = first_scores(self.rows, _begun, begin)
        held, train = begin.held, problem
        if held is not None:  # the rows held out choose no splits
            kept = held.chance(self.numbers) < float(held.share or 0.0)
            train = problem.sample(np.flatnonzero(kept)) if kept.any() else problem
        rng, share = np.random.default_rng(self.seed), min(len(self.numbers) / max(self.rows.n_rows, 1), 1.0)
        renewed = train.n_samples * problem.n_features <= MOST_NUMBERS
        fit, scores = boosting.of_rows(train), np.tile(offset, (train.n_samples, 1))
        trees: list[Tree] = []
        losses: list[float] = []
        told = _Told(begin, offset, None, None, Bag(self.seed, 0, boosting.subsample), None, linear=False)
        while True:
            ends = len(trees) == boosting.n_trees or (bool(trees) and seconds_left() <= 0.0)
            tree = None if ends else fit(*working_targets(train, scores), rng.spawn(1)[0])
            if tree is not None and tree.gate is not None:
                raise ValueError(f"base must be a solver of hard trees for a table in parts; got {boosting.base!r}")
            told = told._replace(
                tree=tree,
                bag=Bag(self.seed, len(trees), boosting.subsample),
                sample=Bag(self.seed, SAMPLES + len(trees), share) if renewed and tree is not None else None,
                linear=self._linear(tree),
            )
            (loss, weight), moments, some = self.rows.sum(_moments, told, states, again=True)
            losses.append(float(loss / max(weight, 1e-300)))
            if trees:
                yield trees, losses, offset
            behind = len(losses) - 1 - int(np.argmin(losses))
            done = problem.is_classification and held is not None and losses[-1] < NEGLIGIBLE * losses[0]
            if tree is None or done or (held is not None and behind >= boosting.patience):
                return
            told = told._replace(start=None, last=None, sample=None)
            if not moments.rows.any():  # the bag has no row of weight: all rows take part
                told = told._replace(bag=told.bag._replace(share=1.0))
                _loss, moments, _some = self.rows.sum(_moments, told, states, again=True)
            while (few := moments.rows[tree.n_branches :] < max(self.min_leaf, 1)).any() and tree.n_leaves > 1:
                kept = ~few
                kept[np.argmax(moments.rows[tree.n_branches :])] = True
                tree = tree.keep(kept)
                told = told._replace(tree=tree)
                _loss, moments, _some = self.rows.sum(_moments, told, states, again=True)
            trees.append(self._with_leaves(tree, moments))
            if len(some.weight):
                y = some.Y if problem.classes is None else problem.classes[some.Y[:, 0].astype(np.intp)]
                train, scores = problem.with_rows(some.X, y, some.weight), some.scores
                fit = boosting.of_rows(train)
            scores = scores + boosting.learning_rate * trees[-1].outputs(train.X)
            told = told._replace(last=(trees[-1], boosting.learning_rate))

    def _linear(self, tree: Tree | None) -> bool:
        """Whether the leaves of a tree are linear: where Gram matrices take too much memory, they are constant."""
        if tree is None or self.problem.leaves != "linear":
            return False
        return tree.n_leaves * int(padded(self.problem.n_features)) ** 2 * 8 <= MOST_BYTES

    def _with_leaves(self, tree: Tree, moments: Moments) -> Tree:
        n = float(self.count or self.rows.n_rows)
        for gram in moments.G[tree.n_branches :]:
            mirror_lower(gram)
        single = [part.astype(np.float32) for part in (moments.low, moments.high)]
        moments = Moments(moments.rows, n * moments.G, n * moments.c, *single)
        growth = self.boosting.base if isinstance(self.boosting.base, GrowthOptions) else GrowthOptions()
        return with_leaves(tree, moments, self.problem.n_features, growth, self.shrinkage, 0.0)


class _Begin(NamedTuple):
    reader: Reader
    firsts: NDArray[np.int64]
    held: Bag | None
    classes: bool
    n_outputs: int


class _Told(NamedTuple):
    """What parts are told: first scores; the last tree with its leaves, and the factor of its answers; the splits of
    the next tree, the bag of its rows, the bag of the sample for the tree after it, and whether leaves are linear.
    """

    begin: _Begin
    start: Floats | None
    last: tuple[Tree, float] | None
    tree: Tree | None
    bag: Bag
    sample: Bag | None
    linear: bool


class _Some(NamedTuple):
    """Some rows with their scores."""

    X: Floats
    Y: Floats
    weight: Floats
    scores: Floats

    def plus(self, other: _Some) -> _Some:
        """The rows of both."""
        return _Some(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def _begun(part: Any, number: int, told: _Begin, state: None) -> tuple[Any, Floats]:
    """Weights and outcomes, or weights of classes, of the rows that are not held out; no scores."""
    rows, held = told.reader(part), _held(told, number, len(part.y))
    return in_training(rows, held, told)[1], np.zeros((0, told.n_outputs))


def _held(begin: _Begin, number: int, n: int) -> NDArray[np.bool_]:
    first = int(begin.firsts[number])
    return np.zeros(n, bool) if begin.held is None else begin.held.weights(first, n) == 0.0


def _moments(part: Any, number: int, told: _Told, state: Floats) -> tuple[Any, Floats]:
    """The loss and weight of rows held out, or of all; the moments of the next tree's leaves; the rows of the sample;
    the scores.
    """
    begin = told.begin
    rows: records.Rows = begin.reader(part)
    n, first = len(rows.weight), int(begin.firsts[number])
    held, scores = _held(begin, number, n), state
    if told.start is not None:
        scores = np.tile(told.start, (n, 1))
    if told.last is not None:
        tree, rate = told.last
        scores = scores + rate * tree.outputs(rows.X)
    losses, curvature, targets = at_scores(scores, rows.Y, begin.classes)
    judged = np.ones(n, bool) if begin.held is None else held
    total = np.array([rows.weight[judged] @ losses[judged], rows.weight[judged].sum()])
    chosen = np.zeros(n, bool)
    if told.sample is not None:
        chosen = (told.sample.weights(first, n) > 0.0) & ~held & (rows.weight > 0.0)
    some = _Some(*(part[chosen] for part in (rows.X, rows.Y, rows.weight, scores)))
    if told.tree is None:
        return (total, _empty(0, begin.n_outputs, 1, 1), some), scores
    drawn = told.bag.weights(first, n) > 0.0
    w = np.where(held | ~drawn, 0.0, rows.weight * curvature)
    tree, p = told.tree, rows.X.shape[1]
    sums = _empty(tree.n_nodes, begin.n_outputs, *((int(padded(p)), p + 1) if told.linear else (1, 1)))
    leaf = tree.apply(rows.X).astype(np.int64)
    summed.exact_moments(rows.X, np.ascontiguousarray(targets), w, leaf, UNIT, *sums)
    return (total, sums, some), scores


def _empty(nodes: int, n_outputs: int, q: int, used: int) -> Moments:
    low, high = np.full((nodes, n_outputs), np.inf), np.full((nodes, n_outputs), -np.inf)
    return Moments(np.zeros(nodes, np.int64), np.zeros((nodes, q, q)), np.zeros((nodes, n_outputs, used)), low, high)
