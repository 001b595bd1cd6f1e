"""Fits to tables in parts: a sample says how the statement is read and where the model begins, all rows go on."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils import check_random_state

from opttree.estimators import bridge
from opttree.estimators.recipe import Estimator, Fit
from opttree.estimators.steps import fit as fits, stream
from opttree.estimators.steps.model import as_forest, described
from opttree.estimators.steps.rows import read_new
from opttree.estimators.steps.shrink import strength_of
from opttree.kernels import records
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.clock import due_at, now
from opttree.statement.shrinkage import NodeMoments, tempered
from opttree.tables.chunks import Chunks
from opttree.tables.parts import Read, Rows
from opttree.tables.row_weights import check_sample_weight

Floats = NDArray[np.float64]
BINS = 256  # of each feature, for axis-aligned splits
PASSES = 3
DEPTH = 6  # of boosted trees
HEAVY = ("tree_", "forest_", "result_", "_stream")  # fitted attributes that reading rows does not need


@dataclass(frozen=True)
class Reader:
    """From a part of a table to rows in the units of a statement, with weights whose sum over all parts is one."""

    options: Estimator
    scaling: Any
    transformer: Any
    classes: NDArray[Any] | None
    total: float

    @classmethod
    def of(cls, options: Estimator, record: Fit, total: float) -> Reader:
        """The reader of a fit to a sample, without what is large in it."""
        light = copy(options)
        for name in HEAVY:
            vars(light).pop(name, None)
        return cls(light, record.scaling, record.transformer, record.problem.classes, total)

    def __call__(self, part: Read) -> records.Rows:
        """The rows of a part."""
        X = read_new(self.options, part.X)
        X = X if self.transformer is None else self.transformer.transform(X)
        Z = np.ascontiguousarray(self.scaling.features(X), np.float64)
        if self.classes is None:
            y = np.asarray(part.y, np.float64)
            if not np.isfinite(y).all():
                raise ValueError(f"y must be finite; got {y[~np.isfinite(y)][0]}")
            Y = self.scaling.outputs(y).reshape(len(y), -1)
        else:
            place = np.minimum(np.searchsorted(self.classes, part.y), len(self.classes) - 1)
            if (new := self.classes[place] != part.y).any():
                raise ValueError(f"y must hold labels that the first pass has seen; got {part.y[new][0]!r}")
            Y = place.reshape(-1, 1).astype(np.float64)
        weight = np.ones(len(Y)) if part.weight is None else check_sample_weight(part.weight, Z)
        return records.Rows(Z, np.ascontiguousarray(Y), weight / self.total)


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
    if y is None or not hasattr(y, "to_delayed"):
        raise ValueError(f"y must be a Dask collection where X is one; got {type(y).__name__}")
    return Rows((X, y) if sample_weight is None else (X, y, sample_weight))


def fit_parts(
    options: Estimator, rows: Rows, *, passes: int, sample_rows: int, checkpoint: Any = None, stacklevel: int = 2
) -> None:
    """Fit an estimator to a table in parts: to a sample in memory, then by passes over all rows. A table that is no
    larger than the sample is fitted in memory.

    Raises
    ------
    ValueError
        For estimators and options that do not add up over parts.
    """
    if options.recipe.stream is not None:  # its gradients take one part after the other
        source = Chunks(partial(_in_turn, rows))
        stream.fit_chunks(options, source, passes, sample_rows, stacklevel + 1)
        return
    if not options.recipe.parts:
        raise ValueError(f"X must be a table in memory: {type(options).__name__} does not add up over opttree.Rows")
    stream.refuse_few_leaves(options)
    boosted = options.recipe.parts == "boosted"
    if boosted and (options.base not in ("auto", "cart") or getattr(options, "monotonic_cst", None) is not None):
        rule = "base must be 'auto' or 'cart', and monotonic_cst None, for a table in parts"
        raise ValueError(f"{rule}; got {options.base!r} and {getattr(options, 'monotonic_cst', None)!r}")
    began = now()
    limit = None if options.time_limit is None else began + options.time_limit
    if checkpoint is not None and options.recipe.parts != "tree":
        raise ValueError(f"checkpoint must be None for {type(options).__name__}; got {str(checkpoint)!r}")
    if rows.n_rows <= sample_rows:
        whole = rows.sample(sample_rows, np.random.default_rng(0))
        fits.fit(options, whole.X, whole.y, whole.weight, stacklevel=stacklevel + 2)
        options.n_rows_ = rows.n_rows
        return
    with fits.changed(options, **({"base": "cart"} if boosted else {})):
        begun = _begun(options, rows, sample_rows, checkpoint)
    record, total = begun.record, begun.total
    read: Any = Reader.of(options, record, total)
    if rows.store is not None:
        rows, read = rows.stored(read), _as_they_are
    with due_at(np.inf if limit is None else limit):
        if options.recipe.parts == "forest":
            cut_short = _forest(options, rows, record, read, passes)
        elif options.recipe.parts == "boosted":
            cut_short = _boosted(options, rows, record, read)
        else:
            cut_short = _tree(options, rows, begun, read, passes, checkpoint)
    if cut_short:
        fits.report_interrupt(options, stacklevel + 1)


def _boosted(options: Estimator, rows: Rows, record: Fit, read: Any) -> bool:
    """A sum of trees of single features over all rows; whether Ctrl-C was pressed."""
    problem, ensembles = record.problem, bridge.solvers.ensembles
    if not problem.is_classification and problem.loss != "squared":
        raise ValueError(f"sums over parts are for squared loss and classes; the statement has loss={problem.loss!r}")
    solver = ensembles.BoostingOverParts(
        rows,
        read,
        problem.restated(depth=options.max_depth or DEPTH),
        edges_of(problem.X),
        options.n_estimators,
        options.learning_rate,
        options.subsample,
        options.validation_fraction,
        options.n_iter_no_change,
        seed=0 if record.seed is None else record.seed,
    )
    trees: list[Tree] = []
    losses, offset, cut_short = [np.inf], np.zeros(problem.n_outputs), False
    try:
        for trees, losses, offset in solver.grown():  # noqa: B007
            if options.verbose:
                _said(options, len(trees), losses[-1], rows)
    except KeyboardInterrupt:
        cut_short = True
    if not trees:
        return cut_short
    run = ensembles.boosting.Run(offset, options.validation_fraction is not None)
    run.trees, run.losses = trees[: len(losses) - 1], losses[1:]
    step = ensembles.Boosting(learning_rate=options.learning_rate)._step(problem, [run])
    model = record.scaling.unscale(step.tree)
    model = as_forest(model, problem.n_outputs).with_spread(options.forest_.trees[0].spread)
    found = {
        "result_": replace(options.result_, tree=step.tree, objective=np.nan),
        "validation_loss_": float(run.losses[run.count - 1]),
        "n_estimators_": len(model.trees),
        "base_": "cart",
        "begins_linear_": False,
        "n_rows_": rows.n_rows,
    }
    fits.set_attributes(options, {**found, **described(options, record, {"forest_": model})})
    return cut_short


class Begun(NamedTuple):
    """The fit to a sample, the weight of all rows, the last tree, the best one and its objective, and the number of
    passes that have been made.
    """

    record: Fit
    total: float
    last: Tree
    best: Tree
    lowest: float
    done: int


def _tree(options: Estimator, rows: Rows, begun: Begun, read: Any, passes: int, checkpoint: Any) -> bool:
    """A tree of TAO; whether Ctrl-C was pressed."""
    problem = begun.record.problem
    if (reason := bridge.solvers.tao.PassesOverParts.refusal(problem)) is not None:
        raise ValueError(reason)
    edges = edges_of(problem.X) if problem.splits == "axis" else ()
    solver = bridge.solvers.tao.PassesOverParts(rows, read, problem, edges, accept=options.accept)
    cut_short, told = False, repr(options)
    try:
        for number, (last, objective) in enumerate(solver.passes(begun.last, passes - begun.done), begun.done):
            begun = begun._replace(last=last, done=number)
            if objective < begun.lowest:
                begun = begun._replace(best=last, lowest=objective)
            _said(options, number, objective, rows)
            _keep(checkpoint, (told, dict(vars(options)), begun))
    except KeyboardInterrupt:
        cut_short = True
    lowest = begun.lowest if np.isfinite(begun.lowest) else solver.objective(begun.best)
    _finish(options, begun.record, begun.best, solver.leaf_sums(begun.best), lowest)
    return cut_short


def _forest(options: Estimator, rows: Rows, record: Fit, read: Any, passes: int) -> bool:
    """The trees of the sample's forest over all rows; whether Ctrl-C was pressed."""
    problem, forest = record.problem, options.result_.tree
    if problem.is_classification:
        read = partial(_indicators, read, problem.n_outputs)
        Y = np.eye(problem.n_outputs)[problem.Y[:, 0].astype(np.intp)]
        problem = problem.with_rows(problem.X, Y, problem.sample_weight, loss="squared")
    kind = options.kind_
    if kind == "stacked":
        raise ValueError("kind must be one kind of trees for a table in parts; got 'stacked', as of small samples")
    edges = edges_of(problem.X) if kind == "axis" else ()
    growth, seed = options.recipe.solver(options, record.problem, None), options._seed
    shrinkage = growth.ridge if np.isnan(options.shrinkage_) else options.shrinkage_
    over = bridge.solvers.ensembles.parts.ForestOverParts(
        rows, read, problem, growth, kind, shrinkage, options.leaf_lasso_, edges, seed
    )
    try:
        trees, error = over.fitted(forest.trees, passes)
    except KeyboardInterrupt:
        return True
    new = Forest((tuple(trees),), problem.n_outputs, link=forest.link)
    model = record.scaling.unscale(new).with_spread(options.forest_.trees[0].spread)
    unit = float(np.mean(record.scaling.y_scale**2))
    result = replace(options.result_, tree=new, objective=np.nan)
    found = {"result_": result, "oob_loss_": error * unit, "n_rows_": rows.n_rows}
    fits.set_attributes(options, {**found, **described(options, record, {"forest_": model})})
    return False


def _begun(options: Estimator, rows: Rows, sample_rows: int, checkpoint: Any) -> Begun:
    """What there is after the fit to a sample, or at a checkpoint, if there is one."""
    if checkpoint is not None and Path(checkpoint).exists():
        with Path(checkpoint).open("rb") as file:
            told, attributes, begun = pickle.load(file)
        if told != repr(options):
            raise ValueError(f"checkpoint must be of the same estimator; got one of {told}")
        if attributes["n_rows_"] != rows.n_rows:
            raise ValueError(f"checkpoint must be of these rows; got one of {attributes['n_rows_']} rows")
        fits.set_attributes(options, {name: value for name, value in attributes.items() if name.endswith("_")})
        found: Begun = begun
        return found
    seed = check_random_state(options.random_state).randint(2**31 - 1)
    sample = rows.sample(sample_rows, np.random.default_rng(seed))
    labels: list[Any] = []
    total = 0.0
    for mass, found in rows.each(_census, not is_regressor(options)):
        total, labels = total + mass, [*labels, found]
    weight = np.ones(len(sample.y)) if sample.weight is None else sample.weight
    X, y = sample.X, sample.y
    if not is_regressor(options) and len(missing := np.setdiff1d(np.unique(np.concatenate(labels)), y)):
        again = np.zeros(len(missing), np.intp)  # rows of weight zero declare classes that the sample lacks
        X = X.iloc[np.append(np.arange(len(X)), again)] if hasattr(X, "iloc") else np.concatenate([X, X[again]])
        y, weight = np.concatenate([y, missing]), np.append(weight, np.zeros(len(missing)))
    record = fits.fit(options, X, y, weight, stacklevel=4, streams=True)
    options.n_rows_ = rows.n_rows
    tree = options.result_.tree
    return Begun(record, total, tree, tree, np.inf, 0)


def _finish(options: Estimator, record: Fit, tree: Tree, sums: Any, objective: float) -> None:
    """Set the attributes: the tree shrunk as on the sample, on raw features, with shares of all rows."""
    problem, strength = record.problem, getattr(options, "leaf_shrinkage_", 0.0)
    result = replace(options.result_, tree=tree, objective=objective)
    model = tree
    if strength_of(options) and strength and problem.leaves == "constant":
        grams, products = sums.mass[:, None, None], sums.sums[:, None, :]
        model = NodeMoments.of_leaves(problem, tree, options.n_rows_ * grams, options.n_rows_ * products).shrunk(
            strength
        )
    temperature = getattr(options, "leaf_temperature_", 1.0)
    model = model if temperature == 1.0 else tempered(model, temperature)
    share = np.append(np.zeros(tree.n_branches), sums.mass)
    for t in range(tree.n_branches - 1, -1, -1):
        share[t] = share[tree.children[t]].sum()
    raw = record.scaling.unscale(model).canonical.with_share(share).with_spread(options.tree_.spread)
    fits.set_attributes(options, {"result_": result, **described(options, record, {"tree_": raw})})


def edges_of(X: Floats) -> tuple[Floats, ...]:
    """Of each column, thresholds between at most `BINS` groups of its values."""
    found = []
    for x in X.T:
        values = np.unique(x)
        if len(values) > BINS:
            values = np.unique(np.quantile(x, np.linspace(0.0, 1.0, BINS), method="nearest"))
        found.append(0.5 * (values[:-1] + values[1:]) if len(values) > 1 else values)
    return tuple(found)


def _said(options: Estimator, number: int, objective: float, rows: Rows) -> None:
    if options.verbose:
        print(f"{type(options).__name__}, pass {number} over {len(rows)} parts: {objective:.6g}", file=sys.stderr)


def _keep(checkpoint: Any, state: tuple[Any, ...]) -> None:
    """Write the state beside the file, and then put it in its place."""
    if checkpoint is not None:
        path = Path(checkpoint)
        beside = path.with_name(path.name + ".new")
        with beside.open("wb") as file:
            pickle.dump(state, file)
        beside.replace(path)


def _indicators(read: Any, n_classes: int, part: Read) -> records.Rows:
    """Rows with indicators of their classes."""
    rows = read(part)
    return records.Rows(rows.X, np.eye(n_classes)[rows.Y[:, 0].astype(np.intp)], rows.weight)


def _as_they_are(part: Read) -> records.Rows:
    return records.Rows(*part)


def _whole(part: Read, number: int, shared: Any) -> Read:
    return Read(np.asarray(part.X, np.float64), part.y, part.weight)


def _census(part: Read, number: int, labels: bool) -> tuple[float, NDArray[Any]]:
    """Weight of a part, and its labels."""
    mass = float(len(part.y)) if part.weight is None else float(part.weight.sum())
    return mass, np.unique(part.y) if labels else np.zeros(0)


def _in_turn(rows: Rows) -> Iterator[tuple[Any, Any]]:
    for part in rows.each(_whole, ()):
        yield part.X, part.y
