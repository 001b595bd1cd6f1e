"""Passes of TAO over a table in parts: statistics of parts are added up, and new splits and leaves go out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.kernels import records, routing
from opttree.kernels.algebra.gram import mirror_lower, padded
from opttree.kernels.algebra.quadratic import JITTER, minimise_quadratic, solve_linear_leaf
from opttree.kernels.losses import codes
from opttree.kernels.passes import reduced, summed
from opttree.model.structure import writable
from opttree.model.tree import LINKS, Tree
from opttree.runtime.clock import seconds_left
from opttree.statement import L1, L2, TreeProblem
from solvers.core.parts import Asked, Bag, Reader, in_step

__all__ = ["LeafSums", "PassesOverParts"]

Floats = NDArray[np.float64]
LARGEST = 1e50  # weight of a split: of rows that a plane separates, Newton's steps have no end
TIED = 1e-12  # of the weights of a node: cuts whose costs differ by less cost the same
DECIMALS = 12  # of the shares of classes in a leaf
SCORE_STEPS = 12  # for linear scores of classes
SCORE_TOLERANCE = 1e-7  # of the gain of a step in cross-entropy, relative to the weight of the leaf
MOST_NUMBERS = 2**26  # of the Gram matrices of classes; beyond, the classes of a leaf share one
BINS = 1024  # along each hyperplane, twice: the second time in the bin of the best cut


class LeafSums(NamedTuple):
    """Of the rows of each leaf: weight (L,), weighted outcomes or weights of classes (L, K), squares (L,), rows (L,),
    range of the outcomes (L, K); of linear leaves Gram matrices (L, q, q) and products with the outcomes (L, K, p + 1).
    """

    mass: Floats
    sums: Floats
    squares: Floats
    counts: NDArray[np.int64]
    low: Floats
    high: Floats
    grams: Floats
    products: Floats

    def plus(self, other: LeafSums) -> LeafSums:
        """The sums over the rows of both."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        added: list[Any] = [own + more for own, more in zip(self, other, strict=True)]
        return LeafSums(*added)._replace(low=low, high=high)


@dataclass(frozen=True)
class PassesOverParts:
    """TAO on rows that no one process holds (TAO paper, Theorems 3.2 and 3.3), from a tree that is there.

    A pass goes through the levels, root first. For the nodes of a level together, parts send gradients and Hessians of
    the logistic regressions (one round for each Newton step) and then the signed weights of their rows in bins along
    the new directions (two rounds, the second in the bin of the best cut; of axis-aligned splits the first is in bins
    of every feature). Leaves take one round, the objective another; linear leaves of classes, which are multinomial
    logistic regressions, take one more for each of at most `SCORE_STEPS` steps.

    Attributes
    ----------
    rows : opttree.Rows
        The table.
    reader : callable
        From a part to `opttree.kernels.records.Rows` in the units of the statement, weights of sum one over all parts.
    problem : TreeProblem
        The statement, with some rows or others: squared loss or classes, with constant or linear leaves; penalties on
        splits and leaves.
    edges : tuple of ndarray
        Of each feature, the upper ends of bins, for axis-aligned splits.
    newton_steps : int
        Newton steps for each node in a pass.
    split_lasso : float
        The l1 penalty on splits as of `TAO`.
    bag : Bag or None
        Which rows count.
    accept : {"always", "improve"}
        Whether all new splits are taken, or those that lower the node's cost, 0/1 loss and penalty.

    See Also
    --------
    TAO : on rows in memory
    opttree.Rows : tables in parts
    """

    rows: Any
    reader: Reader
    problem: TreeProblem
    edges: tuple[Floats, ...] = ()
    newton_steps: int = 2
    split_lasso: float = 0.0
    bag: Bag | None = None
    accept: Literal["always", "improve"] = "always"

    @staticmethod
    def refusal(problem: TreeProblem) -> str | None:
        """Why a statement cannot be solved in parts, or None.

        Parameters
        ----------
        problem : TreeProblem
            The statement.

        Returns
        -------
        str or None
            A sentence.
        """
        if problem.loss_code not in (codes.SQUARED, codes.ZERO_ONE, codes.LOG):
            return f"sums over parts are for squared loss and classes; the statement has loss={problem.loss!r}"
        if problem.constraints:
            return f"sums over parts know no constraints; the statement has {problem.constraints[0]!r}"
        if problem.is_sparse:
            return "sums over parts are for dense tables, and X is sparse"
        return None

    def objective(self, tree: Tree) -> float:
        """The objective of a tree over all parts.

        Parameters
        ----------
        tree : Tree
            A tree in the units of the statement.

        Returns
        -------
        float
            Mean loss plus penalties.
        """
        found: float = in_step(self.rows, self.reader, [self._objective(tree)])[0]
        return found

    def passes(self, tree: Tree, count: int) -> Iterator[tuple[Tree, float]]:
        """The tree and its objective, after leaves are refitted to all rows, and after each pass, until the time is up.

        Parameters
        ----------
        tree : Tree
            The start.
        count : int
            Passes.

        Yields
        ------
        tuple of (Tree, float)
            A tree and its objective over all parts.
        """
        tree, objective = in_step(self.rows, self.reader, [self.begin(tree)])[0]
        yield tree, objective
        for _ in range(count):
            if seconds_left() <= 0.0:
                return
            before = tree
            tree, objective = in_step(self.rows, self.reader, [self.one_pass(tree)])[0]
            yield tree, objective
            if tree == before or seconds_left() <= 0.0:
                return

    def begin(self, tree: Tree) -> Asked:
        """The tree with leaves fitted to all rows, and its objective: for `in_step`, which returns both."""
        tree, _sums = yield from self.fitted(tree)
        return tree, (yield from self._objective(tree))

    def one_pass(self, tree: Tree) -> Asked:
        """A pass over the levels, and then `begin`. Levels that the time limit leaves out stay as they are."""
        for level in range(int(tree.node_depth[: tree.n_branches].max(initial=-1)) + 1):
            if seconds_left() > 0.0:
                tree = yield from self._level(tree, level)
        return (yield from self.begin(tree))

    def held_out(self, tree: Tree) -> Asked:
        """The mean loss on rows outside the bag, which is a share, of a tree with leaves fitted to those in it: for
        `in_step`.
        """
        assert self.bag is not None
        tree, _sums = yield from self.fitted(tree)
        loss = yield _loss, _Level.of(replace(self, bag=self.bag._replace(outside=True)), tree, -1)
        return float(loss[0])

    def _objective(self, tree: Tree) -> Asked:
        loss = yield _loss, _Level.of(self, tree, -1)
        return float(loss[0]) + self.problem.penalty(tree)

    # ---- leaves -----------------------------------------------------------------------------------------------------

    def leaf_sums(self, tree: Tree) -> LeafSums:
        """Sums over the rows of each leaf of a tree in the units of the statement."""
        found: LeafSums = in_step(self.rows, self.reader, [self._leaf_sums(tree)])[0]
        return found

    def _leaf_sums(self, tree: Tree) -> Asked:
        return (yield _leaves, _Level.of(self, tree, -1))

    def fitted(self, tree: Tree) -> Asked:
        """The tree with leaves fitted to all rows, without leaves that no row or fewer than ``min_leaf`` reach, and the
        sums over the rows of each leaf: for `in_step`.
        """
        sums, problem = (yield from self._leaf_sums(tree)), self.problem
        if (sums.counts < max(problem.min_leaf, 1)).any() and tree.n_leaves > 1:
            kept = sums.counts >= max(problem.min_leaf, 1)
            kept[np.argmax(sums.counts)] = True
            return (yield from self.fitted(tree.keep(kept)))
        mass = np.where(sums.mass > 0.0, sums.mass, 1.0)
        own = np.where(sums.mass[:, None] > 0.0, sums.sums / mass[:, None], tree.leaf_arrays[0])
        if problem.is_classification:  # shares that differ by the order of their sums alone are equal
            own = own.round(DECIMALS)
        if problem.leaves != "linear":
            return replace_leaves(tree, own, None, None, None, problem), sums
        p, l1, l2 = problem.n_features, problem.strength(L1, "leaves"), problem.strength(L2, "leaves")
        if problem.is_classification:
            scores = yield from self._scores(tree, sums, np.log(np.maximum(own, codes.SMALLEST_PROBABILITY)))
            return replace_leaves(tree, scores[:, :, p], scores[:, :, :p].copy(), None, None, problem), sums
        coefs = np.zeros((*own.shape, p))
        for t in np.flatnonzero(sums.counts >= 2 * (p + 1)):
            gram = sums.grams[t].copy()
            mirror_lower(gram)
            for k in range(own.shape[1]):
                v = np.append(np.zeros(p), own[t, k])
                solve_linear_leaf(gram[: p + 1, : p + 1], sums.products[t, k].copy(), l1, l2, v)
                coefs[t, k], own[t, k] = v[:p], v[p]
        return replace_leaves(tree, own, coefs, sums.low, sums.high, problem), sums

    def _scores(self, tree: Tree, sums: LeafSums, own: Floats) -> Asked:
        """Linear scores of classes (L, K, p + 1) of leaves, by steps of Newton's method for each class, all of them in
        one round: their Hessians are bounded by Gram matrices of the rows times the probabilities. ``own`` are the
        logarithms of the shares of classes, which leaves of few rows keep.
        """
        problem, (L, K) = self.problem, own.shape
        p, l1, l2 = problem.n_features, problem.strength(L1, "leaves"), problem.strength(L2, "leaves")
        x, known = np.zeros((L, K, p + 1)), tree.leaf_arrays
        x[:, :, p] = own
        wanted = (sums.counts >= 2 * (p + 1)) & (np.count_nonzero(sums.sums, axis=1) > 1)
        if known[1].shape == (L, K, p):
            warm = wanted & known[1].any(axis=(1, 2))
            x[warm] = np.dstack([known[1], known[0]])[warm]
        best, lowest, before, smooth = x.copy(), np.full(L, np.inf), x.copy(), np.zeros(L)
        asked = _Level.of(self, tree, -1)
        for step in range(SCORE_STEPS):
            if not wanted.any() or (seconds_left() <= 0.0 and (step > 1 or x[wanted, :, :p].any())):
                break
            at = _Scores(asked, wanted, x[:, :, p].copy(), x[:, :, :p].copy())
            losses, gradients, hessians = yield _softmax, at
            losses = losses + l1 * np.abs(x[:, :, :p]).sum(axis=(1, 2)) + l2 * np.square(x[:, :, :p]).sum(axis=(1, 2))
            back = wanted & (losses > lowest)  # a step too far: half of the way
            x[back], before[back], smooth[back] = 0.5 * (x[back] + best[back]), best[back], 0.0
            ahead = wanted & ~back
            wanted &= back | ~(losses > lowest - SCORE_TOLERANCE * sums.mass)
            best[ahead], lowest[ahead] = x[ahead], losses[ahead]
            for t in np.flatnonzero(ahead & wanted):
                for k in np.flatnonzero(sums.sums[t]):
                    x[t, k] = _newton_step(x[t, k], gradients[t, k], hessians[t, k % hessians.shape[1]], l1, l2)
                if l1 or l2:  # what all classes share changes no probability
                    middle = np.mean if l2 else np.median
                    x[t, :, :p] -= middle(x[t, :, :p], axis=0)
                found, smooth[t] = x[t].copy(), smooth[t] + 1.0
                x[t] += (smooth[t] - 1.0) / (smooth[t] + 2.0) * (found - before[t])  # Nesterov's way ahead
                before[t] = found
        return best

    # ---- splits -----------------------------------------------------------------------------------------------------

    def _level(self, tree: Tree, level: int) -> Asked:
        """The tree with the better splits of a level."""
        nodes = np.flatnonzero(tree.node_depth[: tree.n_branches] == level)
        asked, problem = _Level.of(self, tree, level), self.problem
        l1, l2 = problem.strength(L1, "splits"), problem.strength(L2, "splits")
        A, b = tree.A[nodes].copy(), tree.b[nodes].copy()
        if problem.splits == "axis":
            before, weights, counts = yield _features, asked
            old, _right, weight = before.T
            cuts = [
                _best_cuts(weights[:, j, : len(ends) + 1], counts[:, j, : len(ends) + 1], before, problem.min_leaf)
                for j, ends in enumerate(self.edges)
            ]
            costs = np.array([cost for _cut, cost in cuts])
            feature = np.argmax(costs <= costs.min(axis=0) + TIED * weight, axis=0)
            A, centre, reach = np.eye(A.shape[1])[feature], b.copy(), np.zeros(len(nodes))
            lower, upper = np.empty(len(nodes)), np.empty(len(nodes))
            for s, j in enumerate(feature):
                lower[s], upper[s] = _around(self.edges[j], cuts[j][0][s])
        else:
            old, x = yield from self._newton(asked, A, b, l1, l2)
            A, centre = x[:, :-1], -x[:, -1]
            reach = np.linalg.norm(A, axis=1)
            reach[reach == 0.0] = 1.0
            step = (2.0 * np.arange(1, BINS) + 0.618) / BINS - 1.0  # an irrational way off the values of grids
            ends = centre[:, None] + reach[:, None] * (step / (1.0 - np.abs(step)))
            before, weights, counts = yield _directions, asked._replace(A=A, b=centre, edges=ends)
            cut, _cost = _best_cuts(weights, counts, before, problem.min_leaf)
            lower, upper = np.transpose([_around(ends[s], k) for s, k in enumerate(cut)])
        fine = lower[:, None] + (upper - lower)[:, None] * (np.arange(BINS - 1) / (BINS - 2))
        before, weights, counts = yield _directions, asked._replace(A=A, b=centre, edges=fine)
        if self.split_lasso and problem.splits == "oblique":
            l1, l2 = self.split_lasso * before[:, 2], 0.0
        cut, cost = _best_cuts(weights, counts, before, problem.min_leaf)
        b = fine[np.arange(len(nodes)), cut]
        pays = cost + l1 * np.abs(A).sum(axis=1) + l2 * np.square(A).sum(axis=1)
        was = old + l1 * np.abs(tree.A[nodes]).sum(axis=1) + l2 * np.square(tree.A[nodes]).sum(axis=1)
        better = nodes[
            np.isfinite(pays) & (before[:, 2] > 0.0) if self.accept == "always" else pays < was * (1.0 - 1e-9)
        ]
        splits, thresholds = tree.A.copy(), tree.b.copy()
        taken = np.isin(nodes, better)
        splits[better], thresholds[better] = A[taken], b[taken]
        return replace(tree, A=splits, b=thresholds)

    def _newton(self, asked: _Level, A: Floats, b: Floats, l1: float, l2: float) -> Asked:
        """Costs of the current splits, and weights and intercepts (S, p + 1) after some Newton steps."""
        p = A.shape[1]
        x = np.column_stack([A, -b])
        best, lowest, old = x, np.full(len(x), np.inf), np.zeros(len(x))
        for step in range(self.newton_steps):
            before, losses, gradients, hessians = yield _gradients, asked._replace(A=x[:, :-1], b=-x[:, -1])
            strength = np.full(len(x), l1) if not self.split_lasso else self.split_lasso * before[:, 2]
            l2 = 0.0 if self.split_lasso else l2
            if not step:
                old = before[:, 0]
            losses = losses + strength * np.abs(x[:, :p]).sum(axis=1) + l2 * np.square(x[:, :p]).sum(axis=1)
            back = losses > lowest  # a step too far: half of the way
            x = np.where(back[:, None], 0.5 * (x + best), x)
            best = np.where(back[:, None], best, x)
            lowest = np.minimum(losses, lowest)
            for s in np.flatnonzero(~back & (before[:, 2] > 0.0)):
                x[s] = _newton_step(x[s], gradients[s], hessians[s], strength[s], l2)
        return old, x


def _newton_step(x: Floats, gradient: Floats, hessian: Floats, l1: float, l2: float) -> Floats:
    """Weights and an intercept (p + 1,) after a proximal Newton step, or as they are where it is not finite. The lower
    half of the Hessian counts, which is padded.
    """
    p, H, new = len(x) - 1, hessian.copy(), x.copy()
    mirror_lower(H)
    H = H[: p + 1, : p + 1].copy()
    H[np.diag_indices(p + 1)] += JITTER * np.trace(H) / (p + 1) + 2.0 * l2 * (np.arange(p + 1) < p)
    c = gradient + 2.0 * l2 * np.append(x[:p], 0.0) - H @ x
    minimise_quadratic(H, c, l1, p, new)
    return new if np.isfinite(new).all() and np.abs(new).max() < LARGEST else x


def replace_leaves(
    tree: Tree, values: Floats, coefs: Floats | None, lower: Floats | None, upper: Floats | None, problem: TreeProblem
) -> Tree:
    """The splits of a tree over other leaves."""
    link = problem.link(coefs is not None)
    return Tree(tree.children, tree.A, tree.b, values, coefs, lower, upper, problem.classes, link)


def _around(ends: Floats, cut: int) -> tuple[float, float]:
    """The neighbouring bins of a cut: where a better one may lie."""
    return float(ends[max(cut - 1, 0)]), float(ends[min(cut + 1, len(ends) - 1)])


def _best_cuts(
    weights: Floats, counts: NDArray[np.int64], before: Floats, least: int
) -> tuple[NDArray[np.intp], Floats]:
    """Of each node, the bin after which to cut, and what it costs: in the middle of cuts that cost the same. ``before``
    holds what `_level` returns of the nodes: the cost of all rows on the right, and their weight.
    """
    _old, right, mass = before.T
    cost = right[:, None] + np.cumsum(weights, axis=1)[:, :-1]
    below = np.cumsum(counts, axis=1)[:, :-1]
    total = counts.sum(axis=1)[:, None]
    cost = np.where((below >= least) & (total - below >= least), cost, np.inf)
    tied = cost.min(axis=1) + TIED * mass
    first = np.argmax(cost <= tied[:, None], axis=1)
    lowest = np.take_along_axis(cost, first[:, None], axis=1)[:, 0]
    best = first.copy()
    for s, k in enumerate(first):  # bins without rows after it
        last = int(np.searchsorted(below[s], below[s, k], side="right")) - 1
        best[s] = (k + last) // 2
    return best, lowest


# ---- what a part computes --------------------------------------------------------------------------------------------


class _Level(NamedTuple):
    """What parts are told: the tree, the level whose nodes are asked for, and directions and bins of these nodes."""

    bag: Bag | None
    tree: records.Tree
    leaves: records.Leaves
    depth: NDArray[np.int64]
    loss: int
    link: int
    linear: bool
    by_rows: bool  # whether rows of no weight in a node problem count
    level: int
    A: Floats
    b: Floats
    edges: Any

    @classmethod
    def of(cls, solver: PassesOverParts, tree: Tree, level: int) -> _Level:
        problem, none = solver.problem, np.zeros(0)
        by_rows = problem.min_leaf > 1 or problem.splits == "axis"
        splits = records.Tree(writable(tree.children), tree.A, tree.b, routing.single_features(tree.A))
        return cls(
            solver.bag,
            splits,
            records.Leaves(*tree.leaf_arrays),
            np.asarray(tree.node_depth),
            problem.loss_code,
            LINKS[tree.link],
            problem.leaves == "linear" and not problem.is_classification,
            by_rows,
            level,
            none,
            none,
            solver.edges,
        )


def _begun(rows: records.Rows, first: int, asked: _Level) -> tuple[records.Rows, reduced.Tracks, float]:
    """The rows of a part, by their weights in a bag, where they are, and their loss."""
    n = len(rows.weight)
    if asked.bag is not None:
        rows = rows._replace(weight=rows.weight * asked.bag.weights(first, n))
    whole, real = (np.zeros(n, np.int32) for _ in range(2)), (np.zeros(n) for _ in range(3))
    node, leaf = whole
    leaf_loss, u, other_loss = real
    tracks = reduced.Tracks(
        node, leaf, leaf_loss, np.zeros(n, np.int32), np.zeros(n, np.int8), u, np.zeros(n, np.int32), other_loss
    )
    told = rows, asked.tree, asked.leaves, asked.loss, asked.link
    return rows, tracks, float(summed.begin(*told, asked.depth, asked.level, tracks))


def _level(data: records.Rows, first: int, asked: _Level) -> tuple[reduced.Level, Floats]:
    """The node problems of a level on the rows of a part; of each node the cost of its split, the cost of all rows on
    the right, and the summed weights.
    """
    rows, tracks, _loss = _begun(data, first, asked)
    nodes = np.flatnonzero(asked.depth[: asked.tree.b.size] == asked.level)
    slot_of = np.full(asked.depth.size, -1, np.int32)
    slot_of[nodes] = np.arange(nodes.size, dtype=np.int32)
    told = rows, asked.tree, asked.leaves, asked.loss, asked.link
    reduced.pseudolabels_range(0, len(rows.weight), *told, slot_of, tracks)
    group = reduced.group_rows(tracks.slot, nodes.size, rows.weight if asked.by_rows else tracks.u)
    u, cost = reduced.level_weights(group, tracks.u, tracks.side)
    slot = np.repeat(np.arange(nodes.size), np.diff(group.start))
    right = np.bincount(slot, np.maximum(-u, 0.0), nodes.size)
    return reduced.Level(rows.X, group, u), np.column_stack([cost, right, np.bincount(slot, np.abs(u), nodes.size)])


def _loss(data: records.Rows, first: int, asked: _Level) -> Floats:
    return np.array([_begun(data, first, asked)[2]])


def _gradients(data: records.Rows, first: int, asked: _Level) -> tuple[Floats, ...]:
    level, costs = _level(data, first, asked)
    S, p = asked.A.shape
    q = int(padded(p))
    losses, gradients, hessians = np.zeros(S), np.zeros((S, p + 1)), np.zeros((S, q, q))
    at = np.column_stack([asked.A, -asked.b])
    summed.newton_sums(level.X, level.group, level.u, at, losses, gradients, hessians)
    return costs, losses, gradients, hessians


def _directions(data: records.Rows, first: int, asked: _Level) -> tuple[Any, ...]:
    level, costs = _level(data, first, asked)
    shape = len(asked.b), asked.edges.shape[1] + 1
    weights, counts = np.zeros(shape), np.zeros(shape, np.int64)
    splits = records.Splits(np.ascontiguousarray(asked.A), asked.b, routing.single_features(asked.A))
    summed.along_hyperplanes(level.X, level.group, level.u, splits, asked.edges, weights, counts)
    return costs, weights, counts


def _features(data: records.Rows, first: int, asked: _Level) -> tuple[Any, ...]:
    level, costs = _level(data, first, asked)
    p, most = level.X.shape[1], max(len(ends) for ends in asked.edges)
    edges = np.full((p, most), np.inf)
    for own, ends in zip(edges, asked.edges, strict=True):
        own[: len(ends)] = ends
    shape = len(costs), p, most + 1
    weights, counts = np.zeros(shape), np.zeros(shape, np.int64)
    summed.along_features(level.X, level.group, level.u, edges, weights, counts)
    return costs, weights, counts


class _Scores(NamedTuple):
    """Linear scores of classes, (L, K) and (L, K, p), and of which leaves they are wanted."""

    asked: _Level
    wanted: NDArray[np.bool_]
    values: Floats
    coefs: Floats


def _softmax(data: records.Rows, first: int, told: _Scores) -> tuple[Floats, ...]:
    asked, (L, K, p) = told.asked, told.coefs.shape
    rows, tracks, _loss = _begun(data, first, asked)
    group = reduced.group_rows(tracks.leaf - asked.tree.b.size, L, rows.weight)
    q, none = int(padded(p)), np.zeros((0, 0))
    shared = L * K * q * q > MOST_NUMBERS
    losses, gradients, hessians = np.zeros(L), np.zeros((L, K, p + 1)), np.zeros((L, 1 if shared else K, q, q))
    leaves = records.Leaves(told.values, told.coefs, none, none)
    summed.softmax_sums(rows, group, told.wanted, leaves, losses, gradients, hessians)
    return losses, gradients, hessians


def _leaves(data: records.Rows, first: int, asked: _Level) -> LeafSums:
    rows, tracks, _loss = _begun(data, first, asked)
    L, K = asked.leaves.values.shape
    leaf = tracks.leaf - asked.tree.b.size
    classes = asked.loss != codes.SQUARED
    mass, squares, sums = np.zeros(L), np.zeros(L), np.zeros((L, K))
    low, high = np.full((L, K), np.inf), np.full((L, K), -np.inf)
    summed.leaf_sums(rows, leaf, L, classes, mass, sums, squares, low, high)
    group = reduced.group_rows(leaf, L, rows.weight)
    p = rows.X.shape[1]
    q = int(padded(p))
    shape, products = ((L, q, q), (L, K, p + 1)) if asked.linear else ((0, 0, 0), (0, 0, 0))
    found = LeafSums(mass, sums, squares, np.diff(group.start), low, high, np.zeros(shape), np.zeros(products))
    if asked.linear:
        summed.linear_sums(rows, group, found.grams, found.products)
    return found
