"""`fit_chunks` and `partial_fit`: training on tables that do not fit into memory, or come in parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from opttree.chunks import ROWS, Chunks
from opttree.estimators.base import Floats, TreeEstimator, threads
from opttree.kernels import first_order, forest
from opttree.kernels.quadratic import JITTER, minimise_quadratic
from opttree.problems import L1, L2, SmoothTreeProblem, SoftForestProblem, TreeProblem
from opttree.tree import Tree

SAMPLE_ROWS = 50_000
BATCH = 4096  # rows of a gradient step
RATE = 1e-3  # of Adam, from a tree that is trained already
SCALE = 20.0  # of the gates meanwhile


@dataclass
class Stream:
    """What `partial_fit` goes on from."""

    problem: Any  # of the first rows, by which the best model is kept
    scaling: tuple[Floats, ...]
    theta: Any
    best: tuple[float, Any]  # the lowest number on the first rows, and the model that it is of
    rng: np.random.Generator
    solver: Any = None
    steps: int = 0

    def __post_init__(self) -> None:
        self.moments = np.zeros((2, self.theta.size), self.theta.dtype)


class Streaming(TreeEstimator):
    """Adds `fit_chunks` and `partial_fit` to an estimator. Subclasses say how a part of the rows is learnt from."""

    def fit_chunks(
        self,
        source: Any,
        *,
        target: str | list[str] | None = None,
        epochs: int = 1,
        sample_rows: int = SAMPLE_ROWS,
        chunk_rows: int = ROWS,
    ) -> Self:
        """Train on a table of any length: a random sample sets up the model, all rows train it, chunk by chunk.

        Parameters
        ----------
        source, target : see `opttree.chunks.Chunks`.
        epochs : passes over all rows, after the one that draws the sample; >= 1.
        sample_rows : rows of the sample, which stays in memory and by which the best model is kept.
        chunk_rows : most rows of a chunk.
        """
        for name, value in (("epochs", epochs), ("sample_rows", sample_rows)):
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1; got {value!r}")
        chunks = Chunks(source, target, chunk_rows)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        X, y, self.n_rows_ = chunks.sample(sample_rows, np.random.default_rng(seed))
        self._begin(X, y)
        for _ in range(epochs):
            for X, y in chunks.labelled():
                self._learn(X, y)
        self._finish(chunks)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Train on some rows more. The first call is a `fit`; by its rows the best model is kept later on."""
        if not hasattr(self, "_stream"):
            self._begin(np.asarray(X, np.float64), np.asarray(y))
            return self
        X = self._raw(X)
        self._learn(X, np.asarray(y))
        self._finish(None)
        return self

    def _raw(self, X: Any) -> Floats:
        return validate_data(self, X, reset=False, dtype=np.float64, order="C")

    def _begin(self, X: Floats, y: NDArray[Any]) -> None:
        raise NotImplementedError

    def _learn(self, X: Floats, y: NDArray[Any]) -> None:
        raise NotImplementedError

    def _finish(self, chunks: Chunks | None) -> None:
        raise NotImplementedError


def scaled(X: Floats, y: NDArray[Any], scaling: tuple[Floats, ...], classes: NDArray[Any] | None) -> tuple[Any, Any]:
    """Features, and outputs in regression, in the units of the problem; ValueError for a class that is new."""
    x_mean, x_scale, y_mean, y_scale = scaling
    if classes is not None:
        if not np.isin(y, classes).all():
            raise ValueError(f"y must hold classes of the first rows, {classes}; got {np.setdiff1d(y, classes)[0]}")
        return (X - x_mean) / x_scale, y
    table = np.asarray(y, np.float64).reshape(len(y), -1)
    return (X - x_mean) / x_scale, ((table - y_mean) / y_scale).reshape(np.shape(y))


class StreamingGET(Streaming):
    """GET: the sample's tree, then Adam on mini-batches of the smooth tree at a steep gate, then all rows' leaves.

    After every chunk the hard tree, its leaves fitted to the sample, is kept if its objective there is lower. At the
    end of `fit_chunks` the leaves are fitted to all rows: exactly, but for linear leaves of classes, which stay as they
    are.
    """

    def _begin(self, X: Floats, y: NDArray[Any]) -> None:
        self.fit(X, y)
        weight = np.ones(len(X))
        problem, scaling = self.state(X, y if is_classifier(self) else y.astype(np.float64), weight)
        tree = self.tree_.scale(*scaling)
        problem = replace(problem, depth=max(tree.depth, 1))
        smooth = SmoothTreeProblem(problem.sample(np.arange(1)), dtype="float32")
        theta = smooth.unit_splits(smooth.soften(problem.fit_leaves(tree)))
        rng = np.random.default_rng(len(X))
        self._stream = Stream(problem, scaling, theta, (problem.objective(tree), tree), rng)

    def _learn(self, X: Floats, y: NDArray[Any]) -> None:
        s = self._stream
        judge: TreeProblem = s.problem
        part = judge.with_rows(*scaled(X, y, s.scaling, judge.classes))
        smooth = SmoothTreeProblem(part, alpha=SCALE, dtype="float32")
        order = s.rng.permutation(part.n_samples)
        data, bounds = smooth.pack_rows(np.array_split(order, -(-order.size // BATCH)))
        steps = len(bounds)
        adam = first_order.Moments(0.9, 0.999, 1.0, 1.0, 1e-8)
        with threads(self.n_jobs):
            first_order.descend(
                s.theta,
                s.moments,
                s.steps,
                np.full(steps, RATE),
                np.full(steps, SCALE),
                bounds,
                adam,
                False,
                data,
                smooth.form,
                smooth.penalty,
                True,
            )
        s.steps += steps
        tree = judge.fit_leaves(smooth.harden(s.theta))
        objective = judge.objective(tree)
        if objective < s.best[0]:
            s.best = objective, judge.trim(tree)

    def _finish(self, chunks: Chunks | None) -> None:
        tree = self._stream.best[1].unscale(*self._stream.scaling).canonical
        if chunks is not None:
            tree = self._refitted(tree, chunks)
        self.tree_ = tree

    def _refitted(self, tree: Tree, chunks: Chunks) -> Tree:
        """``tree``, on raw features, with its leaves fitted to all rows: one pass of sums."""
        problem, scaling = self._stream.problem, self._stream.scaling
        if problem.is_classification and tree.linear_leaves:
            return tree
        tree = tree.scale(*scaling)
        K, p = problem.n_outputs, problem.n_features if tree.linear_leaves else 0
        grams, sums = np.zeros((tree.n_leaves, p + 1, p + 1)), np.zeros((tree.n_leaves, K, p + 1))
        for X, y in chunks.labelled():
            part = problem.with_rows(*scaled(X, y, scaling, problem.classes))
            target = np.eye(K)[part.Y[:, 0].astype(int)] if problem.is_classification else part.Y
            leaf = tree.apply(part.X) - tree.n_branches
            order = np.argsort(leaf, kind="stable")
            ends = np.searchsorted(leaf[order], np.arange(tree.n_leaves + 1))
            rows = np.column_stack([part.X[:, :p], np.ones(len(X))])
            for number in range(tree.n_leaves):
                own = order[ends[number] : ends[number + 1]]
                grams[number] += rows[own].T @ rows[own]
                sums[number] += target[own].T @ rows[own]
        total = grams[:, p, p].sum()
        values, coefs = tree.values.copy(), tree.leaf_arrays[1].copy()
        l1, l2 = problem.strength(L1, "leaves") * total, problem.strength(L2, "leaves") * total
        for number in map(int, np.flatnonzero(grams[:, p, p] >= (2 * (p + 1) if p else 1))):
            H = 2.0 * grams[number]
            H[np.diag_indices(p + 1)] *= 1.0 + JITTER
            H[np.arange(p), np.arange(p)] += 2.0 * l2
            for k in range(K):
                v = np.append(coefs[number, k], values[number, k])
                minimise_quadratic(H, -2.0 * sums[number, k], l1, p, v)
                coefs[number, k], values[number, k] = v[:p], v[p]
        return replace(tree, values=values, coefs=coefs).unscale(*scaling)


class StreamingSDTR(Streaming):
    """SDTR: QHAdam on mini-batches from random numbers, as ever; the sample holds the quantiles and judges theta."""

    def _begin(self, X: Floats, y: NDArray[Any]) -> None:
        self._check_options()
        if self.max_depth == "cv":
            raise ValueError("max_depth must be an integer to train in chunks; got 'cv'")
        y = np.asarray(y, np.float64)
        X = validate_data(self, X, dtype=np.float64, order="C")
        problem, scaling = self.state(X, y, np.ones(len(X)))
        solver = self._sdtr()
        whole = SoftForestProblem(problem, aggregation=solver.aggregations[0], **solver.shared)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        theta = whole.random_theta(rng, solver.beta)
        best = whole.mean_loss(theta), theta.copy()
        self._stream = Stream(whole, scaling, theta, best, rng, solver)
        self._learn(X, y)
        self._finish(None)

    def _learn(self, X: Floats, y: NDArray[Any]) -> None:
        s = self._stream
        whole: SoftForestProblem = s.problem
        X, y = scaled(self._transformed(X), np.asarray(y, np.float64), s.scaling, None)
        part = replace(whole, problem=whole.problem.with_rows(X, y))
        solver = s.solver
        rate = solver.learning_rate
        rates = np.array([rate, rate * 2**whole.problem.depth if solver.reweight else rate])
        order = s.rng.permutation(len(X))
        data, bounds = part.pack_rows(np.array_split(order, -(-order.size // solver.batch_size)))
        with threads(self.n_jobs):
            loss = forest.descend(s.theta, s.moments, s.steps, rates, bounds, data, part.form, solver.moments, True)
            if not (np.isfinite(loss) and np.isfinite(s.theta).all()):
                raise FloatingPointError("the weights ceased to be finite; use a lower learning rate")
            s.steps += len(bounds)
            judged = whole.mean_loss(s.theta)
        if judged < s.best[0]:
            s.best = judged, s.theta.copy()

    def _finish(self, chunks: Chunks | None) -> None:
        s = self._stream
        self.validation_loss_, self.result_ = s.best[0], None
        self._keep_model(s.problem.harden(s.best[1]), s.problem.problem, s.scaling)
