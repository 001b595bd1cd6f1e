"""Training on data that does not fit into memory or arrives in parts: the steps of `fit_chunks` and `partial_fit`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from opttree.estimators.recipe import Estimator, Fit
from opttree.estimators.steps import fit as fits
from opttree.estimators.steps.rows import read_new
from opttree.runtime import devices
from opttree.runtime.interrupts import noted_interrupts
from opttree.runtime.threads import count, limited
from opttree.statement import TreeProblem
from opttree.tables.checks import check_columns, validated
from opttree.tables.chunks import Chunks
from opttree.tables.numbers import check_numbers
from opttree.wide.sparse import as_rows, is_given_sparse

Floats = NDArray[np.float64]
NONE = np.zeros(0)
MAY_CHANGE = ("n_jobs", "device", "verbose", "time_limit", "on_interrupt", "prediction")  # between two parts
MOST_NUMBERS = 2**27  # of a sparse part that is made dense: 1 GB


class Stream:
    """What an estimator learns from chunks of rows with; subclasses say how it begins and finishes.

    options : the estimator.
    fit : the record of the first rows.
    learner : a stream of `solvers.streaming`.
    cut_short : whether Ctrl-C ended the fit of the first rows.
    given : the options as they were for the first rows.
    """

    def __init__(self, options: Estimator, X: Floats, y: NDArray[Any], missing: NDArray[Any] = NONE) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define __init__")

    options: Estimator
    fit: Fit
    learner: Any  # of `solvers.streaming`
    cut_short = False
    given: Mapping[str, Any] = MappingProxyType({})

    @property
    def says_nothing(self) -> bool:
        """Whether the first rows gave no split, as those of one outcome do: the next ones are then the first."""
        return False

    def part(self, X: Floats, y: NDArray[Any]) -> TreeProblem:
        """The problem on more raw rows."""
        if self.fit.transformer is not None:
            X = self.fit.transformer.transform(X)
        problem: TreeProblem = self.fit.scaling.problem(self.fit.problem, X, y)
        return problem

    def learn(self, X: Floats, y: NDArray[Any]) -> None:
        """Train on more rows."""
        rows = self.part(X, y)
        with limited(count(self.options.n_jobs)):
            self.learner.learn(rows)

    def begun(self) -> dict[str, Any]:
        """The attributes after the first rows, beside those that their fit has set."""
        return {}

    def finish(self, chunks: Chunks | None) -> dict[str, Any]:
        """The attributes of the best model so far, refitted to all ``chunks`` where possible."""
        raise NotImplementedError(f"{type(self).__name__} must define finish")


def with_missing(X: Floats, y: NDArray[Any], missing: NDArray[Any]) -> tuple[Floats, NDArray[Any], Floats]:
    """Rows, targets and weights; rows of weight zero declare the classes that are missing."""
    weight = np.concatenate([np.ones(len(X)), np.zeros(len(missing))])
    if len(missing):
        X, y = np.concatenate([X, np.resize(X, (len(missing), X.shape[1]))]), np.concatenate([y, missing])
    return X, y, weight


def fit_chunks(options: Estimator, chunks: Chunks, epochs: int, sample_rows: int, stacklevel: int) -> None:
    """Train on a sample, then on all rows chunk by chunk, and keep the best model."""
    refuse_few_leaves(options)
    seed = check_random_state(options.random_state).randint(2**31 - 1)
    with noted_interrupts() as interrupted:
        X, y, n_rows = chunks.sample(sample_rows, np.random.default_rng(seed))
        check_numbers("X", X)
        stream = options.recipe.stream(options, X, y)
        stream.given = options.get_params(deep=False)
        names = chunks.names()
        named = {} if names is None else {"feature_names_in_": np.array(names, object)}
        fits.set_attributes(options, {"n_rows_": n_rows, "_stream": stream, **stream.begun(), **named})
        for _ in range(epochs):
            seen = 0
            for X, y in chunks.labelled():
                if interrupted():
                    break
                check_numbers("X", X)
                stream.learn(X, y)
                seen += len(X)
            if seen != n_rows and not interrupted():
                raise ValueError(f"source must have the same rows at each pass, {n_rows}; got {seen} at a later one")
        cut_short = interrupted()
        fits.set_attributes(options, stream.finish(None if cut_short else chunks))
    if cut_short:
        fits.report_interrupt(options, stacklevel + 1)


def refuse_few_leaves(options: Estimator) -> None:
    """ValueError if ``max_leaf_nodes`` is set, since trees that learn from chunks are not pruned."""
    if (most := getattr(options, "max_leaf_nodes", None)) is not None:
        raise ValueError(f"max_leaf_nodes must be None to train in chunks; got {most}")


def dense_part(X: Any) -> Floats:
    """Some rows of a sparse table as an array: streams learn from arrays; ValueError for too many numbers."""
    if X.shape[0] * X.shape[1] > MOST_NUMBERS:
        raise ValueError(
            f"sparse rows are made dense part by part, so X must have at most {MOST_NUMBERS} numbers, zeros included; "
            f"got {X.shape[0]} x {X.shape[1]}"
        )
    dense: Floats = as_rows(X).toarray()
    return dense


def _check_part(options: Estimator, stream: Stream, y: Any, classes: Any, anew: bool) -> None:
    """ValueError for more rows that have other outputs or classes than the first ones, or options that have changed."""
    for name, value in () if anew else options.get_params(deep=False).items():
        first = stream.given.get(name, value)
        same = value is first or repr(value) == repr(first) or (np.isscalar(value) and value == first)
        if not same and name not in MAY_CHANGE:
            raise ValueError(f"{name} must stay as it was for the first rows, {first!r}; got {value!r}")
    if classes is not None and set(classes) != set(options.classes_):
        raise ValueError(f"classes must be those of the first call, {options.classes_.tolist()}; got {list(classes)}")
    outputs, known = 1 if np.ndim(y) < 2 else np.shape(y)[1], stream.fit.problem.n_outputs
    if is_regressor(options) and outputs != known:
        raise ValueError(f"y must have {known} outputs, as the first rows; got {outputs}")


def partial_fit(options: Estimator, X: Any, y: Any, classes: Any) -> None:
    """Train on more rows; the first are a fit, and so are those after rows of which no split came."""
    refuse_few_leaves(options)
    before = dict(vars(options))
    stream: Stream | None = vars(options).get("_stream")
    anew = stream is None or (stream.says_nothing and np.shape(X)[0] > 1)
    if is_given_sparse(X):
        X = dense_part(X)
    if getattr(options, "encoder_", None) is not None and stream is not None:
        X = read_new(options, X)
    check_columns(X)
    check_numbers("X", np.asarray(X, np.float64))
    if is_regressor(options):
        if classes is not None:
            raise ValueError("classes must be None for numbers; got some")
        check_numbers("y", np.asarray(y, np.float64))
    else:
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            raise ValueError(f"y must hold one label of each row, to train in parts; got {y.shape[1]}")
        y = y.ravel()
        check_classification_targets(y)
    if stream is not None:
        _check_part(options, stream, y, classes, anew)
        devices.require(options.device)
        stream.learner.move(options.device)
    if stream is None or anew:
        if anew and stream is not None and not is_regressor(options):
            classes = options.classes_
        if classes is not None and (new := np.setdiff1d(y, classes)).size:
            raise ValueError(f"classes must hold all labels of y; got a label that is not among them, {new[0]!r}")
        missing = np.setdiff1d([] if classes is None else classes, y)
        table = validated(options, X, dtype=np.float64, order="C")
        names = {name: value for name, value in vars(options).items() if name == "feature_names_in_"}
        try:
            stream = options.recipe.stream(options, table, np.asarray(y), missing)
        except Exception:
            options.__dict__ = before  # what was fitted before stays
            raise
        stream.given = options.get_params(deep=False)
        fits.set_attributes(options, {"_stream": stream, **stream.begun(), **names})
        if stream.cut_short:
            fits.report_interrupt(options, stacklevel=3)
        return
    if getattr(options, "encoder_", None) is None:
        X = validated(options, X, reset=False, dtype=np.float64, order="C")
    stream.learn(X, np.asarray(y))
    fits.set_attributes(options, stream.finish(None))
