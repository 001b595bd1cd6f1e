"""Trees, soft trees, forests and boosting over all rows of a table in parts, from the fit to a sample."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.estimators import bridge
from opttree.estimators.recipe import Estimator, Fit, TreeKind
from opttree.estimators.steps import fit as fits
from opttree.estimators.steps.model import as_forest, described
from opttree.estimators.steps.rows import class_weighted
from opttree.estimators.steps.shrink import strength_of
from opttree.kernels import records
from opttree.model.forest import Forest
from opttree.model.tree import Tree, replace as with_fields
from opttree.runtime.clock import due_at, now, seconds_left
from opttree.statement import TreeProblem
from opttree.statement.shrinkage import NodeMoments, Softened, tempered
from opttree.tables.parts import Read, Rows

Floats = NDArray[np.float64]
BINS = 256  # of each feature, for axis-aligned splits
ITERATIONS = 10  # of L-BFGS on a soft tree, for each pass that is asked for
ITERATIONS_AT_SCALE = 5  # the same at each scale of the gates of a tree of GET
OF_ROWS = ("oob_prediction_", "_pool", "_outside_errors", "_mean_variance")  # of a forest's training rows


class Census(NamedTuple):
    """Of all rows: their number, those of positive weight, the summed weight (times those of the classes), the weights
    of the classes in their order, and a number that tells tables apart.
    """

    n_rows: int
    used: int
    total: float
    class_weights: Floats | None
    digest: int


class Begun(NamedTuple):
    """The fit to a sample, what is known of all rows, the numbers of the sample's rows, the last tree, the best one and
    its objective, and the number of passes that have been made.
    """

    record: Fit
    census: Census
    sample: NDArray[np.int64]
    last: Tree
    best: Tree
    lowest: float
    done: int


def told_options(options: Estimator) -> str:
    """The options that a checkpoint must have in common with a later fit."""
    aside = ("n_jobs", "verbose", "time_limit", "on_interrupt", "random_state")
    return repr({name: value for name, value in options.get_params(deep=False).items() if name not in aside})


def over_boosted(options: Estimator, rows: Rows, begun: Begun, read: Any, passes: int, checkpoint: Any) -> None:
    """A sum of trees over all rows, of each kind in turn that ``base`` allows: the one of the lowest held-out loss.
    Trees of single features with constant leaves come first, and other kinds end early where they are behind.
    """
    record, ensembles = begun.record, bridge.solvers.ensembles
    problem, held = record.problem, options.validation_fraction is not None
    kinds = options.recipe.kinds(options)[::-1]
    runs: dict[Any, Any] = {}
    ended = bridge.solvers.Termination.STALLED
    try:
        for number, kind in enumerate(kinds):
            if runs and seconds_left() <= 0.0:
                break
            rival = tuple(
                min((run.early(count) for run in runs.values()), default=np.inf) for count in ensembles.boosting.EARLY
            )
            run = ensembles.boosting.Run(np.zeros(problem.n_outputs), held)
            with due_at(now() + seconds_left() / (len(kinds) - number)):
                for trees, losses, run.offset in _boosted(options, rows, begun, read, kind).grown():
                    run.trees, run.losses = trees[: len(losses) - 1], losses[1:]
                    runs[kind.name] = run
                    _said(options, len(run.trees), losses[-1], rows, f"{kind.name} tree")
                    if runs.keys() != {kind.name} and held and run.gives_up(rival):
                        break
    except KeyboardInterrupt:
        ended = bridge.solvers.Termination.INTERRUPTED
    rows.watch = None
    if not runs:  # Ctrl-C before there was a tree of all rows: the sample's stays
        objective = objective_of(options.result_.tree, problem, rows, read)
        found = {"result_": _result(options, options.result_.tree, objective, ended), "validation_loss_": np.nan}
        fits.set_attributes(options, found)
        return
    base = min(runs, key=lambda kind: runs[kind].losses[runs[kind].count - 1])
    run = runs[base]
    if ended is bridge.solvers.Termination.STALLED and seconds_left() <= 0.0:
        ended = bridge.solvers.Termination.TIME_LIMIT
    elif ended is bridge.solvers.Termination.STALLED and len(run.trees) == options.n_estimators:
        ended = bridge.solvers.Termination.ITERATION_LIMIT
    step = ensembles.Boosting(learning_rate=options.learning_rate)._step(problem, [run])
    model = record.scaling.unscale(step.tree)
    model = as_forest(model, problem.n_outputs).with_spread(options.forest_.trees[0].spread)
    found = {
        "result_": _result(options, step.tree, objective_of(step.tree, problem, rows, read), ended),
        "validation_loss_": float(run.losses[run.count - 1]),
        "n_estimators_": len(model.trees),
        "base_": base,
        "begins_linear_": False,
    }
    fits.set_attributes(options, {**found, **described(options, record, {"forest_": model})})


def _boosted(options: Estimator, rows: Rows, begun: Begun, read: Any, kind: TreeKind) -> Any:
    """The solver of a kind of trees over all rows: of single features and constant leaves, all rows choose the splits,
    of others the sample.
    """
    record, ensembles = begun.record, bridge.solvers.ensembles
    seed, used = record.seed, begun.census.used
    problem = record.problem.restated(depth=kind.depth, leaves=kind.leaves)
    if kind.from_bins:
        return ensembles.BoostingOverParts(
            rows,
            read,
            problem.restated(min_leaf=options.min_samples_leaf),
            edges_of(problem.X),
            options.n_estimators,
            options.learning_rate,
            options.subsample,
            options.validation_fraction,
            options.n_iter_no_change,
            seed=seed,
            count=used,
        )
    weight = class_weighted(options, record.rows.y, np.asarray(record.rows.weight, np.float64))
    numbers = begun.sample[weight > 0.0]
    return ensembles.BoostingFromSample(
        rows, read, problem, numbers, kind.solver, seed=seed, count=used, min_leaf=options.min_samples_leaf
    )


def over_tree(options: Estimator, rows: Rows, begun: Begun, read: Any, passes: int, checkpoint: Any) -> None:
    """A tree of TAO."""
    problem = begun.record.problem.restated(min_leaf=options.min_samples_leaf)
    edges = edges_of(problem.X) if problem.splits == "axis" else ()
    solver = bridge.solvers.tao.PassesOverParts(rows, read, problem, edges, accept=options.accept)
    ended = bridge.solvers.Termination.LOCALLY_OPTIMAL
    try:
        for number, (last, objective) in enumerate(solver.passes(begun.last, passes - begun.done), begun.done):
            begun = begun._replace(last=last, done=number)
            if objective < begun.lowest:
                begun = begun._replace(best=last, lowest=objective)
            _said(options, number, objective, rows)
            _keep(checkpoint, (told_options(options), dict(options.__dict__), begun))
        if seconds_left() <= 0.0:
            ended = bridge.solvers.Termination.TIME_LIMIT
        elif begun.done >= passes:
            ended = bridge.solvers.Termination.ITERATION_LIMIT
    except KeyboardInterrupt:
        ended = bridge.solvers.Termination.INTERRUPTED
    rows.watch = None  # another Ctrl-C does not end the rounds that tell of the tree
    best = begun.best
    lowest = begun.lowest if np.isfinite(begun.lowest) else solver.objective(best)
    _finish(options, begun, best, solver.leaf_sums(best), lowest, ended)


def over_forest(options: Estimator, rows: Rows, begun: Begun, read: Any, passes: int, checkpoint: Any) -> None:
    """The trees of the sample's forest over all rows."""
    record, forest, plain = begun.record, options.result_.tree, read
    problem = record.problem.restated(min_leaf=options.min_samples_leaf)
    if problem.is_classification:
        read = partial(_indicators, read, problem.n_outputs)
        Y = np.eye(problem.n_outputs)[problem.Y[:, 0].astype(np.intp)]
        problem = problem.with_rows(problem.X, Y, problem.sample_weight, loss="squared")
    kind = options.kind_
    growth, shrinkage = options.recipe.solver(options, record.problem, None), options.shrinkage_
    over = bridge.solvers.ensembles.parts.ForestOverParts(
        rows,
        read,
        problem,
        growth,
        kind,
        growth.ridge if np.isnan(shrinkage) else shrinkage,
        options.leaf_lasso_,
        edges_of(problem.X) if kind == "axis" else (),
        options._seed,
        begun.census.used,
        begun.sample,
    )
    trees, error = over.fitted(forest.trees, passes)
    new = Forest((tuple(trees),), problem.n_outputs, link=forest.link)
    model = record.scaling.unscale(new).with_spread(options.forest_.trees[0].spread)
    unit = float(np.mean(record.scaling.y_scale**2))
    result = replace(options.result_, tree=new, objective=objective_of(new, record.problem, rows, plain))
    found = {"result_": result, "oob_loss_": error * unit, **described(options, record, {"forest_": model})}
    fits.clear(options, *OF_ROWS)  # the sample's, of other trees
    fits.set_attributes(options, found)


def over_smooth(options: Estimator, rows: Rows, begun: Begun, read: Any, passes: int, checkpoint: Any) -> None:
    """A tree of GET: L-BFGS on the smooth tree, from the sample's; the better of both, with leaves of all rows."""
    record, tree = begun.record, begun.last
    problem = record.problem.restated(min_leaf=options.min_samples_leaf)
    solver = bridge.solvers.soft.SoftOverParts(rows, read, problem, mixture=False)
    said = partial(_said, options, rows=rows, word="evaluation")
    rng = np.random.default_rng(record.seed)
    moved, ended = solver.hardened(tree, ITERATIONS_AT_SCALE * passes, said, rng)
    rows.watch = None  # another Ctrl-C does not end the rounds that tell of the trees
    tao = bridge.solvers.tao
    sums = tao.PassesOverParts(rows, read, problem)
    found = bridge.solvers.core.parts.in_step(rows, read, [sums.begin(one) for one in (tree, moved)])
    best, lowest = min(found, key=lambda pair: pair[1])
    _finish(options, begun, best, sums.leaf_sums(best), lowest, ended)


def over_soft(options: Estimator, rows: Rows, begun: Begun, read: Any, passes: int, checkpoint: Any) -> None:
    """A soft tree: L-BFGS on all its variables, with penalties as they are for all rows."""
    record, tree, census = begun.record, options.result_.tree, begun.census
    n = max(census.total, float(census.n_rows))  # weights count as repeated rows
    terms = options.recipe.terms(options, np.array([n]), record.problem.n_features, record.scaling.y_scale)
    problem = record.problem.restated(**terms)
    solver = bridge.solvers.soft.SoftOverParts(rows, read, problem, tree.mixture, census.class_weights)
    said = partial(_said, options, rows=rows, word="evaluation")
    rng = np.random.default_rng(record.seed)
    tree, lowest, ended = solver.minimised(tree, ITERATIONS * passes, said, rng)
    known = solver.answered(tree)
    if problem.leaves == "linear" and not problem.is_classification and getattr(options, "clip", False) is not False:
        low, high = (np.tile(bound, (tree.n_leaves, 1)) for bound in (known.low, known.high))
        tree = with_fields(tree, lower=low, upper=high)
        known = solver.answered(tree)
    raw = record.scaling.unscale(tree).canonical.with_share(known.share).with_spread(options.tree_.spread)
    objective = known.loss + problem.penalty(tree)
    result = _result(options, tree, objective, ended)
    found = {"result_": result, **described(options, record, {"tree_": raw})}
    if hasattr(options, "smooth_objective_") and np.isfinite(lowest):
        found["smooth_objective_"] = lowest
    fits.set_attributes(options, found)


def _result(options: Estimator, tree: Tree | Forest, objective: float, ended: Any) -> Any:
    return replace(options.result_, tree=tree, objective=objective, termination=ended, message=ended.value)


def _finish(options: Estimator, begun: Begun, tree: Tree, sums: Any, objective: float, ended: Any) -> None:
    """Set the attributes: the tree shrunk as on the sample, on raw features, with shares of all rows."""
    record, strength = begun.record, getattr(options, "leaf_shrinkage_", 0.0) if strength_of(options) else 0.0
    model = shrunk_by(strength, record.problem, tree, sums, begun.census.used)
    temperature = getattr(options, "leaf_temperature_", 1.0)
    model = model if temperature == 1.0 else tempered(model, temperature)
    mass = sums.mass
    if begun.census.class_weights is not None:  # shares of rows are without them
        mass = (sums.sums / begun.census.class_weights).sum(axis=1)
        mass = mass / mass.sum()
    share = np.append(np.zeros(tree.n_branches), mass)
    for t in range(tree.n_branches - 1, -1, -1):
        share[t] = share[tree.children[t]].sum()
    raw = record.scaling.unscale(model).canonical.with_share(share).with_spread(options.tree_.spread)
    result = _result(options, tree, objective, ended)
    fits.set_attributes(options, {"result_": result, **described(options, record, {"tree_": raw})})


def shrunk_by(strength: float, problem: TreeProblem, tree: Tree, sums: Any, n_rows: float) -> Tree:
    """A tree whose leaves are shrunk towards their parents, by the sums over ``n_rows`` rows at its leaves."""
    if not strength:
        return tree
    if tree.classes is not None and tree.linear_leaves:
        return Softened(tree).shrunk(strength)
    grams, products = sums.mass[:, None, None], sums.sums[:, None, :]
    if problem.leaves == "linear":
        used = problem.n_features + 1
        grams = np.tril(sums.grams[:, :used, :used])
        grams = grams + np.tril(grams, -1).transpose(0, 2, 1)
        products = sums.products.transpose(0, 2, 1)
    model = NodeMoments.of_leaves(problem, tree, n_rows * grams, n_rows * products).shrunk(strength)
    return with_fields(model, lower=sums.low, upper=sums.high) if problem.leaves == "linear" else model


def objective_of(model: Tree | Forest, problem: TreeProblem, rows: Rows, read: Any) -> float:
    """The objective of a model over all rows, in one round; NaN where there is no time for it."""
    if seconds_left() <= 0.0:
        return np.nan
    parts = bridge.solvers.core.parts
    found: float = parts.in_step(rows, read, [parts.mean_loss(problem, model)])[0]
    return found + problem.penalty(model)


def edges_of(X: Floats) -> tuple[Floats, ...]:
    """Of each column, thresholds between at most `BINS` groups of its values."""
    found = []
    for x in X.T:
        values = np.unique(x)
        if len(values) > BINS:
            values = np.unique(np.quantile(x, np.linspace(0.0, 1.0, BINS), method="nearest"))
        found.append(0.5 * (values[:-1] + values[1:]) if len(values) > 1 else values)
    return tuple(found)


def _said(options: Estimator, number: int, objective: float, rows: Rows, word: str = "pass") -> None:
    if options.verbose:
        print(f"{type(options).__name__}, {word} {number} over {len(rows)} parts: {objective:.6g}", file=sys.stderr)


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
