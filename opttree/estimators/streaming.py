"""`fit_chunks` and `partial_fit`: training on data that does not fit into memory or arrives in parts."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from opttree.estimators import bridge
from opttree.estimators.base import Floats, TreeEstimator
from opttree.estimators.scaling import Scaling
from opttree.runtime.interrupts import noted_interrupts
from opttree.runtime.threads import count, limited
from opttree.statement import TreeProblem
from opttree.statement.numbers import check_numbers
from opttree.tables.checks import check_columns
from opttree.tables.chunks import ROWS, Chunks

SAMPLE_ROWS = 50_000
NONE = np.zeros(0)


class Streaming(TreeEstimator):
    """Adds `fit_chunks` and `partial_fit` to an estimator. Subclasses define how to learn from a part of the rows."""

    def fit_chunks(
        self,
        source: Any,
        *,
        target: str | list[str] | None = None,
        epochs: int = 1,
        sample_rows: int = SAMPLE_ROWS,
        chunk_rows: int = ROWS,
    ) -> Self:
        """Train on a table of any length: a random sample initialises the model, then all rows train it chunk by chunk.

        Parameters
        ----------
        source, target : see `opttree.chunks.Chunks`.
        epochs : passes over all rows, after the one that draws the sample; >= 1.
        sample_rows : rows of the sample; it stays in memory and is used to select the best model.
        chunk_rows : largest number of rows in a chunk.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.GETRegressor(2, random_state=0)
        >>> model = model.fit_chunks(lambda: iter([(X[:200], y[:200]), (X[200:], y[200:])]), sample_rows=300)
        >>> model.n_rows_
        442
        """
        for name, value in (("epochs", epochs), ("sample_rows", sample_rows)):
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1; got {value!r}")
        chunks = Chunks(source, target, chunk_rows)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        with noted_interrupts() as interrupted:
            X, y, self.n_rows_ = chunks.sample(sample_rows, np.random.default_rng(seed))
            self._begin(X, y)
            for _ in range(epochs):
                for X, y in chunks.labelled():
                    if interrupted():
                        break
                    self._learn(X, y)
            cut_short = interrupted()
            self._finish(None if cut_short else chunks)
        if cut_short:
            self._conclude_interrupted(3)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Train on more rows. The first call is a `fit`; its rows are used to select the best model later.

        ``classes``, for the first call of a classifier: all labels that will occur; by default those of ``y``.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.GETRegressor(2, random_state=0)
        >>> for part in (slice(0, 200), slice(200, 442)):
        ...     model = model.partial_fit(X[part], y[part])
        >>> model.score(X, y) > 0.3
        True
        """
        if getattr(self, "encoder_", None) is not None and hasattr(self, "_stream"):
            X = self._prepared(X)
        check_columns(X)
        check_numbers("X", np.asarray(X, np.float64))
        if is_regressor(self):
            check_numbers("y", np.asarray(y, np.float64))
        else:
            check_classification_targets(y)
        if not hasattr(self, "_stream"):
            if classes is not None and (new := np.setdiff1d(y, classes)).size:
                raise ValueError(f"classes must hold all labels of y; got a label that is not among them, {new[0]!r}")
            missing = np.setdiff1d([] if classes is None else classes, y)
            self._begin(np.asarray(X, np.float64), np.asarray(y), missing)
            return self
        if getattr(self, "encoder_", None) is None:
            X = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        self._learn(X, np.asarray(y))
        self._finish(None)
        return self

    def _fit_noted(self, X: Floats, y: NDArray[Any], sample_weight: ArrayLike | None) -> tuple[TreeProblem, Scaling]:
        self._forget("_stream")  # of an earlier `partial_fit`
        return super()._fit_noted(X, y, sample_weight)

    def _begin(self, X: Floats, y: NDArray[Any], missing: NDArray[Any] = NONE) -> None:
        """Set up the model and the stream from the first rows; ``missing`` are classes that do not occur in them."""
        raise NotImplementedError(f"{type(self).__name__} must define _begin")

    def _part(self, X: Floats, y: NDArray[Any]) -> TreeProblem:
        """The problem on more raw rows."""
        raise NotImplementedError(f"{type(self).__name__} must define _part")

    def _learn(self, X: Floats, y: NDArray[Any]) -> None:
        part = self._part(X, y)
        with limited(count(self.n_jobs)):
            self._stream.learn(part)

    def _finish(self, chunks: Chunks | None) -> None:
        """Keep the best model of the stream for prediction, refitted to all ``chunks`` where possible."""
        raise NotImplementedError(f"{type(self).__name__} must define _finish")


class StreamingGET(Streaming):
    """GET: fit the sample, train on mini-batches, refit the leaves to all rows; see `solvers.streaming`."""

    def _begin(self, X: Floats, y: NDArray[Any], missing: NDArray[Any] = NONE) -> None:
        weight = np.concatenate([np.ones(len(X)), np.zeros(len(missing))])
        if len(missing):  # rows of weight zero declare the missing classes
            X, y = np.concatenate([X, np.resize(X, (len(missing), X.shape[1]))]), np.concatenate([y, missing])
        problem, self._scaling = self._train(X, y, weight)
        rng = np.random.default_rng(len(X))
        self._stream = bridge.solvers.streaming.TreeStream(problem, self.result_.tree, rng, self.device)

    def _part(self, X: Floats, y: NDArray[Any]) -> TreeProblem:
        return self._scaling.problem(self._stream.problem, X, y)

    def _finish(self, chunks: Chunks | None) -> None:
        tree = self._stream.tree
        if chunks is not None:
            tree = self._stream.refit(self._part(X, y) for X, y in chunks.labelled())
        known = self.tree_.spread  # of the first rows
        assert known is not None  # set by `fit`
        self.tree_ = self._scaling.unscale(tree).canonical.with_spread(known)
        self.leaf_shrinkage_ = 0.0


class StreamingSDTR(Streaming):
    """SDTR: train on mini-batches from a random start; the sample gives the quantiles and serves as validation rows."""

    def _begin(self, X: Floats, y: NDArray[Any], missing: NDArray[Any] = NONE) -> None:
        self._check_options()
        self.encoder_ = None
        if self.max_depth == "cv":
            raise ValueError("max_depth must be an integer to train in chunks; got 'cv'")
        numbers = is_regressor(self)
        y = np.asarray(y, np.float64 if numbers else None)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", multi_output=numbers)
        known, weight = y, np.ones(len(X))
        if len(missing):  # rows of weight zero declare the missing classes
            weight = np.concatenate([weight, np.zeros(len(missing))])
            X, y = np.concatenate([X, np.resize(X, (len(missing), X.shape[1]))]), np.concatenate([y, missing])
        problem, self._scaling = self._state_of_fit(X, y, weight)
        X, y = X[: len(known)], known
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        solver: Any = self._solver(problem)
        self._stream = bridge.solvers.streaming.ForestStream(solver, problem, rng)
        if not numbers:
            self.classes_ = problem.classes
        self._learn(X, y)
        self._finish(None)

    def _part(self, X: Floats, y: NDArray[Any]) -> TreeProblem:
        return self._scaling.problem(self._stream.whole.problem, self._transformed(X), y)

    def _finish(self, chunks: Chunks | None) -> None:
        self.validation_loss_, self.result_ = self._stream.loss, None
        problem, units = self._stream.whole.problem, self._scaling.x_scale  # standard deviations in the first rows
        self._keep_model(self._stream.model, problem, self._scaling, problem.X.std(axis=0) * units)
