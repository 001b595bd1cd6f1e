"""Growth of one tree of a forest: random sample, start, compiled TAO passes, and leaf models for every shrinkage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes import alternation, binned
from opttree.kernels.smooth import vectors
from opttree.model.convert import as_tree
from opttree.model.structure import writable
from opttree.model.tree import Tree
from opttree.problems.smooth.blocks import pack_rows
from opttree.runtime.calm import calm_threads
from opttree.runtime.clock import seconds_left
from opttree.statement import L1, L2, TreeProblem
from opttree.statement.copies import bootstrap, copies_of
from solvers.ensembles.growth_options import SPLIT_LASSO, GrowthOptions
from solvers.initial.cart import SUMS, features_in_time
from solvers.tao.tao import TAO

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
SAME = 1e-5  # what rounding leaves of differences between sums of two outputs
MOST_BINNED = 16  # outputs, up to which randomised trees are grown on features in bins
CART_ROWS = 4  # a randomised tree is grown down to one row per this many parameters of a linear leaf
FEW_ENOUGH = 10  # rows, of which a constant leaf may consist
CART_FEATURES = 0.5  # share of random features for each of its splits
ALL_FEATURES = "-all"  # the end of the names of kinds whose splits look at all features
BOOTSTRAP = 0.63  # share of different rows in a bootstrap sample
PINNED = 1.0  # rows per parameter of a linear leaf: with fewer, rows stay in the leaf they were fitted in (puma32H)
MOST_MOMENTS = 2**27  # bytes of Gram matrices of all nodes, beyond which trees are `TAO`'s, leaves and all
MOST_SPANNED = 2e9  # multiplications of the span of the rows, a fifth of a second
MOST_COLUMNS = 400  # beyond which trees of constant leaves are `TAO`'s, whose nodes look at some columns at a time
LIGHTEST = 1e-30  # weight of a row, in rows: in single precision it would be none
WIDE_LASSO = 0.01  # on splits and leaves of those trees, where the options leave it open


@dataclass(frozen=True)
class Shared:
    """The data shared by all trees of a forest: the problem in single precision (rows and blocks), and the options.

    Ridge penalties leave hyperplanes and leaf models in the span of the rows. Where these are fewer than the features,
    ``X`` and ``blocks`` hold their coordinates there, and trees are found in these.
    """

    rows: Any  # the features as they are, dense or sparse, by which trees of single features are grown
    X: Singles
    Y: Singles
    blocks: Singles
    w: Singles
    options: GrowthOptions
    depth: int
    linear: bool
    min_leaf: int
    l1: float
    l2: float
    leaf_l1: float
    shrinkages: tuple[float, ...]  # of each set of leaf models
    lassos: tuple[float, ...]
    most_depth: int  # depth limit of the problem, for CART trees; ``depth`` is that of TAO trees
    common: tuple[Singles, ...]  # common random start directions (B, p) of all oblique trees, or empty
    axis_aligned: bool  # whether the problem asks for axis-aligned splits
    wide: bool = False  # whether oblique trees are those of `TAO`: Gram matrices of linear leaves are too large
    by_root: bool = False  # whether CART's trees look at the square root of the features: classes, sparse tables
    is_sparse: bool = False  # whether ``rows`` is, and ``X`` one column of zeros: leaves are constant
    basis: Floats | None = None  # (p, q) orthonormal, of the coordinates in ``X`` and ``blocks``, if they are that
    precise: Floats | None = None  # these in double precision: Gram matrices of a sample of the rows are singular
    copy: NDArray[np.intp] | None = None  # see `copies_of`: copies of a row are drawn, or left out, together
    made: list[Any] = field(default_factory=list)  # `bins`, once there

    @classmethod
    def of(
        cls,
        problem: TreeProblem,
        options: GrowthOptions,
        shrinkages: tuple[float, ...],
        common: Rng | None = None,
        lassos: tuple[float, ...] | None = None,
    ) -> Shared:
        """The shared data of ``problem``; class codes become indicators, so that squared loss is the Brier score.

        ``common`` : random generator of the common start of all oblique trees, if they have one. ``shrinkages`` and
        ``lassos``, by default that of the options: leaves are fitted for each pair.
        """
        if lassos is None:
            lassos = (0.0 if options.leaf_lasso == "oob" else float(options.leaf_lasso),)
        n = problem.n_samples
        if problem.is_classification:
            Y = np.eye(problem.n_outputs, dtype=np.float32)[problem.Y[:, 0].astype(int)]
        else:
            Y = problem.Y.astype(np.float32)
        basis = basis_of(problem, options, lassos)
        Z = problem.X if basis is None else np.ascontiguousarray(problem.X @ basis)
        X = np.zeros((n, 1), np.float32) if problem.is_sparse else Z.astype(np.float32)
        depth = min(options.levels or problem.depth, problem.depth)
        shape = (2**depth - 1, problem.n_features)
        if problem.is_sparse:
            blocks = np.zeros((-(-n // vectors.BLOCK), 1, 4 * vectors.BLOCK), np.float32)
        else:
            blocks = pack_rows(problem, [np.arange(n)], "float32", Z)[0].X
        return cls(
            problem.X,
            X,
            Y,
            blocks,
            np.maximum(problem.w * n, LIGHTEST).astype(np.float32),
            options,
            depth,
            problem.leaves == "linear" and not problem.is_sparse,
            problem.min_leaf,
            problem.strength(L1, "splits"),
            problem.strength(L2, "splits"),
            problem.strength(L1, "leaves"),
            shrinkages * len(lassos),
            tuple(lasso for lasso in lassos for _ in shrinkages),
            problem.depth,
            () if common is None else (common.normal(size=shape).astype(np.float32),),
            problem.splits == "axis",
            not problem.is_sparse and is_wide(problem, depth),
            problem.is_sparse and problem.is_classification,
            problem.is_sparse,
            basis,
            None if basis is None else Z,
            copies_of(problem.X, problem.Y),
        )

    @property
    def n_features(self) -> int:
        """Number of features, p, that leaves use."""
        return self.X.shape[1] if self.basis is None else len(self.basis)

    @property
    def takes_bins(self) -> bool:
        """Whether randomised trees are grown on features in bins."""
        return not self.is_sparse and self.options.monotone is None and self.Y.shape[1] <= MOST_BINNED

    @property
    def takes_half(self) -> bool:
        """Whether splits of CART's trees look at half of the features."""
        return self.options.max_features is None and self.rows.shape[1] > 1 and not self.by_root

    @property
    def bins(self) -> tuple[NDArray[np.unsignedinteger], list[Floats], NDArray[np.bool_]]:
        """The features in bins, see `opttree.kernels.passes.binned.in_bins`; made once for all copies of this."""
        if not self.made:
            self.made.append(binned.in_bins(self.rows))
        return self.made[0]

    @property
    def leaf_lasso(self) -> float:
        """The l1 penalty on leaves of wide trees."""
        given = self.options.leaf_lasso
        return WIDE_LASSO if given == "oob" else float(given)

    @property
    def fewest(self) -> int:
        """Rows that a leaf of a randomised tree has at least; linear leaves take many where there are many features."""
        fewest = min(self.n_features // CART_ROWS, self.w.size // (3 * self.Y.shape[1]))
        return fewest if self.linear else min(fewest, FEW_ENOUGH)

    def of_kind(self, kind: str) -> Shared:
        """The same for trees of one kind: leaves of "cart" and "extra" are too small for a lasso to choose by, those of
        wide trees are fitted once, those of "cart-constant" are constants.
        """
        if kind.endswith(ALL_FEATURES):
            sample = self.options.sample  # of nearly all rows, such trees would be nearly the same
            sample = sample if isinstance(sample, float) and sample < BOOTSTRAP else "bootstrap"
            options = replace(self.options, max_features=1.0, sample=sample)
            return replace(self, options=options).of_kind(kind.removesuffix(ALL_FEATURES))
        if kind == "cart-constant":
            return replace(self, linear=False).of_kind("cart")
        if kind == "oblique" and self.wide and self.linear:
            X = np.asarray(self.rows, np.float32)
            return replace(self, X=X, basis=None, precise=None, shrinkages=(np.nan,), lassos=(self.leaf_lasso,))
        if kind not in ("cart", "extra") or self.options.leaf_lasso != "oob":
            return self
        shrinkages = tuple(dict.fromkeys(self.shrinkages))
        return replace(self, shrinkages=shrinkages, lassos=(0.0,) * len(shrinkages))

    def weights(self, rng: Rng) -> Singles:
        """(n,) weights of a random sample: zero on the rows left out."""
        n, sample = self.w.size, self.options.sample
        if sample == "bootstrap":
            return self.w * bootstrap(n, self.copy, rng).astype(np.float32)
        m = n if self.copy is None else int(self.copy.max()) + 1
        drawn = np.zeros(m, np.float32)
        drawn[rng.choice(m, max(round(float(sample) * m), 1), replace=False)] = 1.0
        return self.w * (drawn if self.copy is None else drawn[self.copy])


class GrownTree(NamedTuple):
    """A tree whose leaf models are stored separately, one set for every shrinkage."""

    skeleton: Tree
    leaf: NDArray[np.int32]  # (n,) leaf number of every row of the problem
    outside: NDArray[np.int32]  # out-of-bag rows
    models: Singles  # (shrinkages, L, K, p + 1), the constant last
    low: Singles  # (L, K), like high: the range to which predictions are clipped
    high: Singles
    basis: Floats | None = None  # of the models' coordinates, see `Shared`

    def tree(self, number: int, classes: NDArray[Any] | None) -> Tree:
        """The tree with the models of shrinkage ``number``."""
        models, low, high = (part.astype(np.float64) for part in (self.models[number], self.low, self.high))
        values, coefs = models[:, :, -1], models[:, :, :-1]
        if self.basis is not None:
            coefs = coefs @ self.basis.T
        skeleton = self.skeleton
        splits = skeleton.children, skeleton.split_weights, skeleton.b
        if not coefs.any():  # constants are always within their range
            return Tree(*splits, np.clip(values, low, high), classes=classes)
        if np.isinf(low).any():
            return Tree(*splits, values, coefs, classes=classes)
        return Tree(*splits, values, coefs, lower=low, upper=high, classes=classes)


def grow(shared: Shared, task: tuple[str, Rng], ended: Callable[[], bool] | None = None) -> GrownTree:
    """Grow one tree, from its kind, "oblique", "axis", "cart", "cart-constant" or "extra", and from random numbers;
    for ``ended``, which is for oblique trees, see `oblique`.
    """
    kind, rng = task
    kind = kind.removesuffix(ALL_FEATURES)
    w = shared.weights(rng)
    rows = np.flatnonzero(w).astype(np.int32)
    sample = alternation.Sample(shared.X, shared.Y, shared.blocks, w)
    outside = np.flatnonzero((w == 0.0) & (shared.w > 0.0)).astype(np.int32)
    if kind == "oblique" and shared.wide and shared.linear:
        return wide_tree(shared, sample, rows, rng, outside)
    if kind == "oblique" and (shared.wide or shared.is_sparse):
        skeleton, leaf = by_passes(shared, sample, rows, rng, "oblique")
    elif kind == "oblique":
        if ended is None and np.isfinite(seconds_left()):
            ended = is_late
        skeleton, leaf = oblique(shared, sample, rows, rng, ended)
    else:
        growers = {"axis": axis, "cart": cart, "cart-constant": cart, "extra": extra}
        skeleton, leaf = growers[kind](shared, sample, rows, rng)
    p = shared.n_features
    linear = shared.linear and not too_large(skeleton.n_nodes, p)
    children = writable(skeleton.children)
    told = sample if shared.precise is None else sample._replace(X=shared.precise)
    moments = alternation.node_moments(told, leaf, children, linear, 2 * (p + 1))
    low, high = (np.asarray(ends, np.float32) for ends in (moments.low, moments.high))
    moments = moments._replace(low=low, high=high)
    shape = len(shared.shrinkages), skeleton.n_leaves, shared.Y.shape[1], shared.X.shape[1] + 1
    models = np.zeros(shape, np.float32)
    leaf_l1, relaxed = shared.leaf_l1 * float(w.sum()), shared.options.relaxed
    for shrinkage, lasso, model in zip(shared.shrinkages, shared.lassos, models, strict=True):
        towards = alternation.Shrinkage(float(shrinkage), leaf_l1, 2.0 * lasso, relaxed)
        alternation.leaf_models(children, moments, towards, model)
    if not shared.options.clip:
        low[:], high[:] = -np.inf, np.inf
    if shared.options.monotone is not None:  # scikit-learn's values, which are in order
        models[..., :-1], models[..., -1] = 0.0, skeleton.values
        low[skeleton.n_branches :] = high[skeleton.n_branches :] = skeleton.values
    first = skeleton.n_branches
    low, high = low[first:].copy(), high[first:].copy()
    return GrownTree(skeleton, leaf.astype(np.int32), outside, models, low, high, shared.basis)


def basis_of(problem: TreeProblem, options: GrowthOptions, lassos: tuple[float, ...]) -> Floats | None:
    """Orthonormal columns (p, n) that span the rows, if these are fewer than the features and nothing but ridge
    penalties ties weights to the features: neither l1 penalties nor random features.
    """
    n, p = problem.n_samples, problem.n_features
    penalised = problem.strength(L1, "splits") or problem.strength(L1, "leaves") or options.l1_of_splits(p)
    used = p <= MOST_COLUMNS or (problem.leaves == "linear" and not too_large(1, p))
    if problem.is_sparse or not n < p or n * n * p > MOST_SPANNED or not used:
        return None
    if penalised or any(lassos) or options.max_features is not None:
        return None
    with calm_threads():
        basis: Floats = np.linalg.qr(problem.X.T)[0]
    return basis


def is_late() -> bool:
    """Whether the run's time is up."""
    return seconds_left() <= 0.0


def too_large(n_nodes: int, p: int) -> bool:
    """Whether the Gram matrices of so many nodes are too large."""
    return bool(n_nodes * alternation.padded(p) ** 2 * 8 > MOST_MOMENTS)


def is_wide(problem: TreeProblem, depth: int) -> bool:
    """Whether its trees of this depth have too many columns for the compiled passes."""
    p = problem.n_features
    return too_large(2 ** (depth + 1) - 1, p) if problem.leaves == "linear" else p > MOST_COLUMNS


def wide_tree(shared: Shared, sample: Any, rows: NDArray[np.int32], rng: Rng, outside: NDArray[np.int32]) -> GrownTree:
    """A tree of `TAO` with linear leaves, in double precision, under the lasso."""
    tree, leaf = by_passes(shared, sample, rows, rng, "oblique", "linear")
    values, coefs = tree.leaf_arrays[:2]
    if not tree.linear_leaves:
        coefs = np.zeros((*values.shape, shared.X.shape[1]))
    models = np.concatenate([coefs, values[:, :, None]], axis=2)[None].astype(np.float32)
    low, high = np.full_like(models[0, :, :, 0], -np.inf), np.full_like(models[0, :, :, 0], np.inf)
    if shared.options.clip and tree.lower is not None and tree.upper is not None:
        low[:], high[:] = tree.lower, tree.upper
    return GrownTree(tree.branches_only, leaf.astype(np.int32), outside, models, low, high)


def oblique(
    shared: Shared, sample: Any, rows: NDArray[np.int32], rng: Rng, ended: Callable[[], bool] | None = None
) -> tuple[Tree, NDArray[np.int64]]:
    """Splits by passes of TAO from a complete tree of random hyperplanes, and the leaf number of every row.

    ``ended``, if given, is asked after each pass whether it was the last one.
    """
    options, p, q = shared.options, shared.n_features, shared.X.shape[1]
    n_branches = 2**shared.depth - 1
    masks = options.masks(n_branches, p, rng)
    start = np.asarray(shared.common[0] if shared.common else rng.normal(size=(n_branches, p)), np.float32)
    if masks.size:
        start = start * masks
    length = np.maximum(np.linalg.norm(start, axis=1), 1e-30)
    A = np.zeros((n_branches, -(-q // 4) * 4), np.float32)
    A[:, :q] = (start if shared.basis is None else start @ shared.basis) / length[:, None]
    b = np.zeros(n_branches, np.float32)
    if options.start_threshold == "gaussian":
        b[:] = rng.normal(size=n_branches) / length
    else:
        alternation.medians(shared.X, rows, A, b)
    mass = float(sample.w.sum())
    crowd = rows.size / (2**shared.depth * (p + 1))
    shrinkage = alternation.Shrinkage(
        options.ridge * max(PINNED / crowd, 1.0) ** 2,
        shared.leaf_l1 * mass,
        0.0 if options.ridge or options.leaf_lasso == "oob" else 2.0 * options.leaf_lasso,
        options.relaxed,
    )
    rule = alternation.Rule(
        options.max_iter,
        options.constant_iterations,
        shared.linear and (crowd >= PINNED or options.constant_iterations == 0),
        shared.l1 * mass,
        options.l1_of_splits(p),
        shared.l2 * mass,
        shrinkage,
        options.clip,
        2 * (p + 1),
        options.newton_steps,
    )
    live, portion = np.ones(n_branches, bool), rule.passes if ended is None else 1
    for begun in range(0, max(rule.passes, 1), max(portion, 1)):
        part = rule._replace(passes=min(begun + portion, rule.passes))
        leaf = alternation.alternate(sample, rows, A, b, live, part, begun, masks)
        if ended is not None and ended():
            break
    numbers = np.arange(n_branches + 1.0)[:, None]
    tree = Tree.complete(A[:, :q].astype(np.float64), b.astype(np.float64), 1)
    tree = Tree(tree.children, tree.A, tree.b, numbers)
    counts = np.bincount(leaf[rows], minlength=n_branches + 1)
    tree = tree.keep(counts > 0)
    new = np.full(n_branches + 1, -1)
    new[tree.values[:, 0].astype(int)] = np.arange(tree.n_leaves)
    leaf = new[leaf]
    stray = np.flatnonzero(leaf < 0)  # out-of-bag rows that reach a leaf without sample rows
    if stray.size:
        leaf[stray] = tree.apply(shared.X[stray]) - tree.n_branches
    while tree.n_branches and (counts := np.bincount(leaf[rows], minlength=tree.n_leaves)).min() < shared.min_leaf:
        tree = tree.keep(np.arange(tree.n_leaves) != counts.argmin())
        leaf = tree.apply(shared.X).astype(np.int64) - tree.n_branches
    if shared.basis is not None:
        tree = Tree(tree.children, tree.split_weights @ shared.basis.T, tree.b, tree.values)
    return tree, leaf


def axis(shared: Shared, sample: Any, rows: NDArray[np.int32], rng: Rng) -> tuple[Tree, NDArray[np.int64]]:
    """Axis-aligned splits by passes of TAO from a randomised tree, and the leaf of every row."""
    return by_passes(shared, sample, rows, rng, "axis")


def by_passes(
    shared: Shared, sample: Any, rows: NDArray[np.int32], rng: Rng, splits: str, leaves: str = "constant"
) -> tuple[Tree, NDArray[np.int64]]:
    """Splits by passes of TAO from a randomised tree, and the leaf of every row."""
    options = shared.options
    stated = TreeProblem(
        shared.rows[rows],
        shared.Y[rows].astype(np.float64),
        depth=shared.depth,
        splits=splits,
        leaves=leaves,
        sample_weight=sample.w[rows].astype(np.float64),
        min_leaf=shared.min_leaf,
    )
    tree = random_tree(shared, sample, rows, rng, shared.depth)
    lasso = 0.0
    if splits == "oblique":
        usual = WIDE_LASSO if leaves == "linear" else SPLIT_LASSO
        lasso = usual if options.split_lasso is None else options.split_lasso
        penalties = () if lasso else (L1(splits=shared.l1), L2(splits=shared.l2))
        stated = stated.restated(penalties=penalties)
    best, lowest = tree, np.inf
    solver = TAO(max_iter=options.max_iter, split_lasso=lasso)
    if leaves == "linear":
        solver = replace(solver, leaf_lasso=shared.leaf_lasso, min_linear_rows=1)
    for step in solver.steps(stated, stated.fit_leaves(tree), rng):
        if step is not None and step.objective is not None and step.objective < lowest:
            best, lowest = as_tree(step.tree), step.objective
        if is_late():
            break
    return best, best.apply(shared.rows).astype(np.int64) - best.n_branches


def cart(shared: Shared, sample: Any, rows: NDArray[np.int32], rng: Rng) -> tuple[Tree, NDArray[np.int64]]:
    """A randomised tree to the depth limit of the problem, and the leaf of every row. A leaf may hold a single row,
    since its model is shrunk towards its parent's.
    """
    tree = random_tree(shared, sample, rows, rng, shared.most_depth, shared.fewest)
    return tree, tree.apply(shared.rows).astype(np.int64) - tree.n_branches


def extra(shared: Shared, sample: Any, rows: NDArray[np.int32], rng: Rng) -> tuple[Tree, NDArray[np.int64]]:
    """scikit-learn's tree of one random threshold per feature, to the depth limit, and the leaf of every row."""
    tree = random_tree(shared, sample, rows, rng, shared.most_depth, shared.fewest, "random", 1.0)
    return tree, tree.apply(shared.rows).astype(np.int64) - tree.n_branches


def binned_tree(
    shared: Shared, sample: Any, rows: NDArray[np.int32], rng: Rng, depth: int, fewest: int, max_features: float
) -> Tree:
    """`random_tree` on features in bins; leaves whose rows differ within bins alone, as those of many keys do, go on in
    bins of their own. Where other features vary, rows are told apart by them before.
    """
    p = shared.rows.shape[1]
    wanted: Any = features_in_time(rows.size, p, depth, shared.options.max_features or max_features, None)
    count = int(wanted) if isinstance(wanted, (int, np.integer)) else max(int(wanted * p), 1)
    fewest, seed = max(shared.min_leaf, fewest), int(rng.integers(2**31 - 1))
    Y = shared.Y
    if Y.shape[1] == 2 and float(np.ptp(Y.sum(axis=1))) <= SAME:  # of two classes one says it
        Y = np.ascontiguousarray(Y[:, :1])

    bins = *shared.bins, np.arange(p)
    left, right, feature, b = links_in_bins(shared.rows, Y, sample.w, bins, rows, (depth, fewest, count), seed, rng)
    A, inner = np.zeros((left.size, p)), np.flatnonzero(left >= 0)
    A[inner, feature[inner]] = 1.0
    return Tree.from_links(left, right, A, b, np.zeros((b.size, shared.Y.shape[1])))


def links_in_bins(
    X: Floats, Y: Singles, w: Singles, bins: tuple[Any, ...], rows: Any, limits: Any, seed: int, rng: Rng
) -> tuple[NDArray[Any], ...]:
    """Children, features and thresholds of the nodes of a tree on ``rows`` of X, whose features are in ``bins``: those
    of `binned.in_bins`, and the features' numbers; ``limits`` are levels, fewest rows of a leaf, and features that are
    tried.
    """
    (codes, ends, coarse, columns), (depth, fewest, count) = bins, limits
    order = rows.copy()
    grown = binned.grow(codes, order, Y, w, depth, fewest, min(count, len(codes)), seed)
    inner = grown.left >= 0
    feature, threshold = np.full(inner.size, -1), np.zeros(inner.size)
    feature[inner] = columns[grown.feature[inner]]
    threshold[inner] = [ends[j][c] for j, c in zip(grown.feature[inner], grown.cut[inner], strict=True)]
    tree = [grown.left.copy(), grown.right.copy(), feature, threshold]
    if not (coarse.any() and inner.any()):
        return tuple(tree)
    more: list[list[NDArray[Any]]] = [[part] for part in tree]
    size = inner.size
    leaves = np.flatnonzero(~inner)
    leaves = leaves[np.argsort(grown.first[leaves])]
    y, begins = Y[order], grown.first[leaves]
    varied = (np.minimum.reduceat(y, begins) < np.maximum.reduceat(y, begins)).any(axis=1)
    leaves = leaves[varied & (grown.last[leaves] - begins >= 2 * fewest)]
    level, nodes, step = np.full(inner.size, depth), np.zeros(int(leaves.size > 0), np.int64), 0
    while nodes.size:
        level[nodes], step = step, step + 1
        nodes = np.concatenate([grown.left[nodes], grown.right[nodes]])
        nodes = nodes[nodes >= 0]
    for t in leaves[level[leaves] < depth]:
        own = order[grown.first[t] : grown.last[t]]
        varies = np.flatnonzero((X[own] != X[own[0]]).any(axis=0))
        if not coarse[varies].any():
            continue
        x, own_rows = X[np.ix_(own, varies)], np.arange(own.size, dtype=np.int32)
        finer = *binned.in_bins(x), columns[varies]
        left_over = depth - int(level[t]), fewest, count
        below = links_in_bins(x, Y[own], w[own], finer, own_rows, left_over, int(rng.integers(2**31 - 1)), rng)
        number = np.append(t, size + np.arange(below[0].size - 1))  # its root is node t, and others follow
        linked = [np.where(part >= 0, number[part], -1) for part in below[:2]]
        for part, whole, new in zip(tree, more, (*linked, *below[2:]), strict=True):
            part[t] = new[0]
            whole.append(new[1:])
        size += below[0].size - 1
    return tuple(np.concatenate(whole) for whole in more)


def random_tree(
    shared: Shared,
    sample: Any,
    rows: NDArray[np.int32],
    rng: Rng,
    depth: int,
    fewest: int = 1,
    splitter: Literal["best", "random"] = "best",
    max_features: float = CART_FEATURES,
) -> Tree:
    """A randomised tree on a sample; each split is the best over a random subset of the features, for classes of a
    sparse table by default over the square root of their number, and over fewer where time is short. It is
    `binned_tree`'s or, of sparse tables, for monotone splits, random thresholds and many outputs, scikit-learn's.
    """
    if splitter == "best" and shared.takes_bins:
        return binned_tree(shared, sample, rows, rng, depth, fewest, max_features)
    if shared.by_root and splitter == "best":
        max_features = max(round(math.sqrt(shared.rows.shape[1])), 1)
    from sklearn.tree import DecisionTreeRegressor

    wanted = shared.options.max_features or max_features
    model = DecisionTreeRegressor(
        max_depth=depth,
        splitter=splitter,
        max_features=features_in_time(rows.size, shared.rows.shape[1], depth, wanted, SUMS * shared.Y.shape[1]),
        min_samples_leaf=max(shared.min_leaf, fewest),
        random_state=int(rng.integers(2**31 - 1)),
        monotonic_cst=shared.options.monotone,
    )
    X = shared.rows[rows].tocsc() if shared.is_sparse else shared.rows[rows]
    model.fit(X, shared.Y[rows], sample_weight=sample.w[rows])
    return Tree.from_sklearn(model)
