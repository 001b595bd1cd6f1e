"""Fits to tables in parts: a sample says how the statement is read and where the model begins, all rows go on."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils import check_random_state

from opttree.estimators import bridge
from opttree.estimators.recipe import Estimator
from opttree.estimators.steps import choices, fit as fits, stream
from opttree.estimators.steps.over_parts import (
    Begun,
    Census,
    over_boosted,
    over_forest,
    over_smooth,
    over_soft,
    over_tree,
    told_options,
)
from opttree.estimators.steps.rows import class_weighted, read_new
from opttree.estimators.steps.units import on_parts
from opttree.kernels import records
from opttree.runtime.clock import due_at, now
from opttree.runtime.interrupts import noted_interrupts
from opttree.runtime.threads import count, limited
from opttree.tables.chunks import Chunks
from opttree.tables.parts import Read, Rows
from opttree.wide.sparse import is_given_sparse

Floats = NDArray[np.float64]
PASSES = 3
HEAVY = ("tree_", "forest_", "result_", "_stream")  # fitted attributes that reading rows does not need
GO_ON = {"tree": over_tree, "smooth": over_smooth, "soft": over_soft, "forest": over_forest, "boosted": over_boosted}
FEWEST = 2000  # rows of a forest's sample: fewer have trees of several kinds
NOT_OURS = (AttributeError, ImportError, LookupError, TypeError, ValueError)  # of what a pickle may hold
FACTOR = np.uint64(0x9E3779B97F4A7C15)  # of checksums
LIKELY = 100  # expected rows of positive weight in a sample, below which more are taken besides


@dataclass(frozen=True)
class Reader:
    """From a part of a table to rows in the units of a statement, with weights whose sum over all parts is one."""

    options: Estimator
    scaling: Any
    transformer: Any
    classes: NDArray[Any] | None
    class_weights: Floats | None
    total: float

    @classmethod
    def of(cls, options: Estimator, begun: Begun) -> Reader:
        """The reader of a fit to a sample, without what is large in it."""
        light, record, weights = copy(options), begun.record, begun.census.class_weights
        for name in HEAVY:
            light.__dict__.pop(name, None)
        return cls(light, record.scaling, record.transformer, record.problem.classes, weights, begun.census.total)

    def __call__(self, part: Read) -> records.Rows:
        """The rows of a part."""
        if not len(part.y):
            outputs = 1 if self.classes is not None else len(self.scaling.y_mean)
            return records.Rows(np.zeros((0, len(self.scaling.x_mean))), np.zeros((0, outputs)), np.zeros(0))
        X = read_new(self.options, part.X)
        X = X if self.transformer is None else self.transformer.transform(X)
        Z = np.ascontiguousarray(self.scaling.features(X), np.float64)
        weight = (np.ones(len(Z)) if part.weight is None else part.weight) / self.total
        y = flat(part.y)
        if self.classes is None:
            return records.Rows(Z, np.ascontiguousarray(self.scaling.outputs(y).reshape(len(y), -1)), weight)
        code = np.searchsorted(self.classes, y)
        if self.class_weights is not None:
            weight = weight * self.class_weights[code]
        return records.Rows(Z, code.reshape(-1, 1).astype(np.float64), weight)


def flat(y: NDArray[Any]) -> NDArray[Any]:
    """One output as a row of numbers or labels."""
    return y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y


def as_rows(X: Any, y: Any, sample_weight: Any) -> Rows | None:
    """The table in parts that `fit` is given: `Rows`, or a Dask collection; None for a table in memory."""
    if isinstance(X, Rows):
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(
                    f"{name} must be None where X is opttree.Rows, which hold it; got {type(value).__name__}"
                )
        return X
    if not hasattr(X, "to_delayed"):
        return None
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if not (hasattr(value, "to_delayed") or (name == "sample_weight" and value is None)):
            raise ValueError(f"{name} must be a Dask collection where X is one; got {type(value).__name__}")
    return Rows((X, y) if sample_weight is None else (X, y, sample_weight))


def fit_parts(
    options: Estimator, rows: Rows, *, passes: int, sample_rows: int, checkpoint: Any = None, stacklevel: int = 2
) -> None:
    """Fit an estimator to a table in parts: to a sample in memory, then by passes over all rows. A table that is no
    larger than the sample is fitted in memory. What an estimator has learnt before stays where a fit fails.

    Raises
    ------
    ValueError
        For estimators and options that do not add up over parts.
    """
    _refuse(options, checkpoint)
    before = dict(options.__dict__)
    limit = None if options.time_limit is None else now() + options.time_limit
    try:
        with limited(count(options.n_jobs)), noted_interrupts() as interrupted:
            if not options.recipe.parts:  # its gradients take one part after the other
                stream.fit_chunks(options, Chunks(partial(_in_turn, rows)), passes, sample_rows, stacklevel + 1)
                return
            if rows.n_rows <= sample_rows:
                whole = rows.sample(sample_rows, np.random.default_rng(0))
                fits.fit(options, whole.X, flat(whole.y), whole.weight, stacklevel=stacklevel + 2)
                options.n_rows_ = rows.n_rows
                return
            with watched(options, rows, interrupted), due_at(np.inf if limit is None else limit):
                begun = _begun(options, rows, sample_rows, checkpoint)
                read: Any = Reader.of(options, begun)
                if rows.store is not None:
                    rows, read = rows.stored(read), _as_they_are
                GO_ON[options.recipe.parts](options, rows, begun, read, passes, checkpoint)
            cut_short = interrupted()
    except BaseException:
        fits.clear(options, *options.__dict__)
        fits.set_attributes(options, before)
        raise
    if cut_short:
        fits.report_interrupt(options, stacklevel + 1)


def _refuse(options: Estimator, checkpoint: Any) -> None:
    """ValueError, before any work, for what does not add up over parts."""
    name, kind = type(options).__name__, options.recipe.parts
    if not kind and options.recipe.stream is None:
        raise ValueError(f"X must be a table in memory: {name} does not add up over opttree.Rows")
    if checkpoint is not None and kind != "tree":
        raise ValueError(f"checkpoint must be None for {name}; got {str(checkpoint)!r}")
    if checkpoint is not None and (Path(checkpoint).is_dir() or not Path(checkpoint).resolve().parent.is_dir()):
        raise ValueError(f"checkpoint must be a file in a folder that is there; got {str(checkpoint)!r}")
    cv = getattr(options, "cv", 2)
    own = not (isinstance(cv, (int, float, np.number)) or hasattr(cv, "split"))
    if own and getattr(options, "max_depth", None) == "cv":
        raise ValueError(
            f"cv must be a number or a splitter for a table in parts, of which a sample is split; got {cv!r}"
        )
    stream.refuse_few_leaves(options)
    allowed: dict[str, tuple[Any, ...]] = {}
    if kind == "tree":
        allowed = {"loss": ("squared", "zero_one", "log"), "monotonic_cst": (None,)}
    elif kind == "forest":
        kinds = "auto", "oblique", "axis", "cart", "extra"
        allowed = {"warm_start": (False,), "max_features": (None,), "kind": kinds, "monotonic_cst": (None,)}
        allowed["joint_leaves"] = (False,)
    elif kind == "smooth":
        allowed = {"preset": ("default",), "validation_fraction": (None,), "device": ("cpu",)}
    elif kind == "soft":
        allowed = {"preset": ("default",), "min_samples_leaf": (1,), "device": ("cpu",)}
    elif kind == "boosted":
        allowed = {"loss": ("squared", "log"), "monotonic_cst": (None,), "warm_start": (False,)}
    if kind == "boosted" and getattr(options.base, "takes_gates", False):
        raise ValueError(
            f"base must be a solver of hard trees for a table in parts; got {type(options.base).__name__}, of soft ones"
        )
    for option, values in allowed.items():
        value = getattr(options, option, values[0])
        if not any(value is one or (isinstance(value, (str, float)) and value == one) for one in values):
            words = " or ".join(map(repr, values))
            raise ValueError(f"{option} must be {words} for a table in parts; got {value!r}")


@contextmanager
def watched(options: Estimator, rows: Rows, interrupted: Callable[[], bool]) -> Iterator[None]:
    """Context in which rounds end by a KeyboardInterrupt after Ctrl-C, and show a bar with ``verbose``."""
    from tqdm.auto import tqdm

    with tqdm(total=len(rows), unit="part", leave=False, disable=not options.verbose) as bar:

        def watch(done: int) -> None:
            if done <= bar.n or bar.n == 0:
                bar.reset()
                bar.set_description(f"round {rows.traffic.rounds}")
            bar.update(done - bar.n)
            if interrupted():
                raise KeyboardInterrupt

        rows.watch = watch
        try:
            yield
        finally:
            rows.watch = None


def _begun(options: Estimator, rows: Rows, sample_rows: int, checkpoint: Any) -> Begun:
    """What there is after the fit to a sample, or at a checkpoint, if there is one."""
    numbers = is_regressor(options)
    found = list(rows.each(_census, (numbers, np.concatenate([[0], np.cumsum(rows.sizes)]))))
    census, also, labels = _taken_together(options, found, numbers, sample_rows)
    if checkpoint is not None and Path(checkpoint).exists():
        try:
            with Path(checkpoint).open("rb") as file:
                told, attributes, begun = pickle.load(file)
        except (pickle.UnpicklingError, EOFError, *NOT_OURS) as error:
            raise ValueError(f"checkpoint must be a file that a fit has written; got {checkpoint}: {error}") from error
        if told != told_options(options):
            raise ValueError(f"checkpoint must be of the same options; got one of {told}")
        if (begun.census.n_rows, begun.census.digest) != (census.n_rows, census.digest):
            raise ValueError(f"checkpoint must be of these rows; got one of {begun.census.n_rows} others")
        own = options.get_params(deep=False)
        fits.set_attributes(options, {name: value for name, value in attributes.items() if name not in own})
        known: Begun = begun
        return known
    seed = check_random_state(options.random_state).randint(2**31 - 1)
    boosted, forest = options.recipe.parts == "boosted", options.recipe.parts == "forest"
    chosen = rows.draw(max(sample_rows, FEWEST) if forest else sample_rows, np.random.default_rng(seed), also)
    sample = rows.taken(chosen)
    share = len(chosen) / rows.n_rows
    changes: dict[str, Any] = {}
    if hasattr(options, "min_samples_leaf"):
        changes["min_samples_leaf"] = max(1, round(options.min_samples_leaf * share))
    if boosted:  # the sum over all rows begins anew: the sample says how the statement is read
        changes |= {"base": "cart", "n_estimators": 1}
    if census.class_weights is not None:
        changes["class_weight"] = dict(zip(labels, census.class_weights.tolist(), strict=True))

    def begun_at(**more: Any) -> Begun:
        with fits.changed(options, **changes, **more), on_parts():
            record = fits.fit(options, sample.X, flat(sample.y), sample.weight, stacklevel=6, streams=True)
        if record.problem.is_sparse:
            raise ValueError("X must be dense for a table in parts, and is sparse")
        tree = options.result_.tree
        return Begun(record, census, chosen, tree, tree, np.inf, 0)

    begun = choices.made(options, rows, begun_at, Reader.of)
    options.n_rows_ = rows.n_rows
    return begun


class _Seen(NamedTuple):
    """Of a part: rows, those of positive weight, the weight of each label or of all rows, the labels, the places of
    rows that hold a label or a column's blank for the first time, the columns with blanks, a checksum, of tables with
    weights the places of some random rows of positive weight, and the outputs.
    """

    rows: int
    used: int
    mass: Floats
    counts: NDArray[np.intp]
    labels: NDArray[Any]
    first: NDArray[np.intp]
    blank: NDArray[np.intp]
    blank_first: NDArray[np.intp]
    digest: int
    weighty: NDArray[np.intp]
    outputs: int


def drawn(numbers: NDArray[np.int64]) -> Floats:
    """A random number for each row, by its own number alone."""
    chance: Floats = bridge.solvers.core.parts.Bag(0, 0, None).chance(numbers)
    return chance


def _census(part: Read, number: int, told: tuple[bool, NDArray[np.int64]]) -> _Seen:
    numbers, first_row = told[0], int(told[1][number])
    n, y = len(part.y), flat(np.asarray(part.y))
    weight = np.ones(n) if part.weight is None else part.weight
    if n and not (np.isfinite(weight).all() and weight.min() >= 0.0):
        raise ValueError(f"weights must be finite and >= 0; got {weight[~(weight >= 0.0) | ~np.isfinite(weight)][0]}")
    if numbers:
        y = np.asarray(y, np.float64)
        if not np.isfinite(y).all():
            raise ValueError(f"y must be finite; got {y[~np.isfinite(y)][0]}")
        labels, first, mass, counts = np.zeros(0), np.zeros(0, np.intp), np.array([weight.sum()]), np.array([n])
    else:
        if y.ndim != 1:
            raise ValueError(f"y must hold one label a row for a table in parts; got shape {y.shape}")
        try:
            labels, first, code, counts = np.unique(y, return_index=True, return_inverse=True, return_counts=True)
        except TypeError as error:
            raise ValueError(f"y must hold labels of one type, without blanks: {error}") from error
        mass = np.bincount(code, weight, len(labels))
    X = part.X
    blank = X.isna().to_numpy() if hasattr(X, "isna") else np.isnan(X) if np.asarray(X).dtype.kind == "f" else None
    columns = np.flatnonzero(blank.any(axis=0)) if blank is not None and n else np.zeros(0, np.intp)
    places = blank[:, columns].argmax(axis=0) if blank is not None and len(columns) else np.zeros(0, np.intp)
    used, digest = int(np.count_nonzero(weight)), _digest(X, y, weight, first_row)
    weighty = np.zeros(0, np.intp)
    if part.weight is not None:
        weighty = np.flatnonzero(weight)
        weighty = weighty[np.argsort(drawn(first_row + weighty), kind="stable")[:LIKELY]]
    outputs = 1 if y.ndim < 2 else y.shape[1]
    return _Seen(n, used, mass, counts, labels, first, columns, places, digest, weighty, outputs)


def _digest(X: Any, y: NDArray[Any], weight: Floats, first_row: int) -> int:
    """A checksum of rows with their numbers, columns, targets and weights: a sum over rows, however they are cut."""
    import pandas as pd

    table = X if hasattr(X, "columns") else pd.DataFrame(np.zeros((len(y), 0)) if is_given_sparse(X) else X)
    together: Any = np.arange(first_row, first_row + len(y)).astype(np.uint64)
    for column in (series for part in (table, pd.DataFrame(y), pd.DataFrame(weight)) for _name, series in part.items()):
        is_number = pd.api.types.is_numeric_dtype(column.dtype)  # whole numbers may be doubles in another part
        values: Any = column.to_numpy(np.float64, na_value=np.nan) if is_number else column.astype(object).to_numpy()
        together = together * FACTOR + pd.util.hash_array(values)
        together ^= together >> np.uint64(29)
    names = zlib.crc32(repr(list(table.columns)).encode())
    return (int((together * FACTOR).sum(dtype=np.uint64)) + names * len(y)) % 2**64


def _taken_together(
    options: Estimator, seen: list[_Seen], numbers: bool, most: int
) -> tuple[Census, NDArray[np.int64], list[Any]]:
    """The census of all parts; the numbers of rows that a sample of at ``most`` so many rows must have, the first of
    each label, and of the blanks of each column, and some of positive weight where these are rare; the labels.
    """
    firsts = np.concatenate([[0], np.cumsum([one.rows for one in seen])])
    also: dict[Any, int] = {}
    masses: dict[Any, NDArray[np.float64]] = {}
    for first, one in zip(firsts, seen, strict=False):
        for label, place, *mass in zip(one.labels.tolist(), one.first, one.mass, one.counts, strict=False):
            also.setdefault(("label", label), int(first + place))
            masses[label] = masses.get(label, np.zeros(2)) + np.array(mass)
        for column, place in zip(one.blank.tolist(), one.blank_first, strict=True):
            also.setdefault(("blank", column), int(first + place))
    outputs = [one.outputs for one in seen if one.rows]
    if other := [k for k in outputs if k != outputs[0]]:
        raise ValueError(f"y must have as many outputs in each part as in the first, {outputs[0]}; got {other[0]}")
    if len(kinds := {type(label).__name__ for label in masses}) > 1:
        raise ValueError(f"y must hold labels of one type; got {', '.join(sorted(kinds))}")
    total, weights = float(sum(one.mass.sum() for one in seen)), None
    if not numbers and getattr(options, "class_weight", None) is not None:
        names = np.array(sorted(masses))
        mass, counts = np.array([masses[label] for label in names.tolist()]).T
        if isinstance(options.class_weight, str):
            class_weighted(options, names, mass)  # checks it
            weights = counts.sum() / (len(names) * counts)
        else:
            weights = class_weighted(options, names, np.ones(len(names)))
        total = float(mass @ weights)
    if total <= 0.0:
        raise ValueError(f"weights must be positive for some rows; got a sum of {total:g}")
    digest = sum(one.digest for one in seen) % 2**64
    census = Census(int(firsts[-1]), sum(one.used for one in seen), total, weights, digest)
    taken = set(also.values())
    if census.used * most < LIKELY * census.n_rows:  # a sample would have few rows of positive weight, or none
        some = np.concatenate([first + one.weighty for first, one in zip(firsts, seen, strict=False)])
        taken |= set(some[np.argsort(drawn(some), kind="stable")[:LIKELY]].tolist())
    return census, np.array(sorted(taken), np.int64), sorted(masses)


def _as_they_are(part: Read) -> records.Rows:
    return records.Rows(*part)


def _whole(part: Read, number: int, shared: Any) -> Read:
    if part.weight is not None:
        raise ValueError("weights must be None for methods that learn from one part after the other")
    try:
        return Read(np.asarray(part.X, np.float64), part.y, None)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"X must hold numbers for methods that learn from one part after the other: {error}"
        ) from error


def _in_turn(rows: Rows) -> Iterator[tuple[Any, Any]]:
    for part in rows.each(_whole, ()):
        yield part.X, part.y
