"""What rows outside the sample choose of a model of a table in parts: its depth, and how its leaves are shrunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.estimators import bridge
from opttree.estimators.recipe import Estimator, chooses_depth, searches_depth
from opttree.estimators.steps import fit as fits
from opttree.estimators.steps.depth import DEEPEST
from opttree.estimators.steps.over_parts import Begun, shrunk_by
from opttree.estimators.steps.shrink import TEMPERATURES, errors_of, log_losses, shares_of, strength_of, strengths_of
from opttree.kernels import records
from opttree.model.tree import Tree
from opttree.runtime.clock import now, seconds_left
from opttree.statement import TreeProblem
from opttree.statement.shrinkage import refusal, softer

Floats = NDArray[np.float64]
SHARE = 0.8  # of all rows, to which leaves are fitted where the others choose
LEVELS = 3  # beyond the depth that the sample chose
MOST_NUMBERS = 2**27  # of Gram matrices of linear leaves, or of a level's Hessians
FEWEST = 2000  # rows by which something is chosen


def made(
    options: Estimator,
    rows: Any,
    begun_at: Callable[..., Begun],
    reader: Callable[[Estimator, Begun], Callable[[Any], records.Rows]],
) -> Begun:
    """The fit to the sample, at the best depth and with the best strength of shrinkage that rows outside it choose.

    ``begun_at`` fits the sample with other options; ``reader`` is that of a fit.
    """
    begun = begun_at()
    kind = options.recipe.parts
    if kind in ("tree", "smooth", "soft") and chooses_depth(options):
        begun = _of_best_depth(options, rows, begun, begun_at, reader)
    if kind in ("tree", "smooth") and strength_of(options) == "cv":
        _choose_strength(options, rows, begun, reader(options, begun))
    return begun


def _outside(options: Estimator, begun: Begun, share: float) -> Any:
    """The bag of the rows outside the sample and a share of all rows."""
    return bridge.solvers.core.parts.Bag(begun.record.seed, 0, share, but=np.sort(begun.sample))


def _of_best_depth(
    options: Estimator, rows: Any, begun: Begun, begun_at: Callable[..., Begun], reader: Callable[..., Any]
) -> Begun:
    """The fit to the sample at the depth with the lowest loss on rows outside the sample; ``best_depth_``. Hard trees
    have their leaves fitted to most of all rows before, and the other rows judge. Where these are few, where none is
    lower by more than one over the root of their number, and after Ctrl-C, the first depth stays.
    """
    problem, search = begun.record.problem, begun.record.search
    soft = options.recipe.parts == "soft"
    first, others = problem.depth, (1.0 if soft else 1.0 - SHARE) * (begun.census.used - len(begun.sample))
    if others < FEWEST:
        return begun
    if soft:
        depths = sorted({first, *options.recipe.depths})
    elif searches_depth(options):
        depths = list(range(first, min(first + LEVELS, DEEPEST) + 1))
    else:
        depths = sorted({first, *options.recipe.depths, max(options.recipe.depths) + 2})
    grams = problem.splits == "oblique" or problem.leaves == "linear"
    found = {first: (begun, dict(options.__dict__))}
    errors: list[float] = []
    try:
        taken = 0.0
        for depth in depths:
            began = now()
            if depth == first:
                continue
            if seconds_left() < 4.0 * taken or (grams and 2**depth * (problem.n_features + 1) ** 2 > MOST_NUMBERS):
                break
            if rows.watch is not None:
                rows.watch(0)  # raises after Ctrl-C
            found[depth] = begun_at(max_depth=depth), dict(options.__dict__)
            taken = now() - began
        if len(found) > 1:
            trees = [one.last for one, _attributes in found.values()]
            errors = _held_out_errors(options, rows, begun, trees, reader(options, begun))
    except KeyboardInterrupt:  # the sample's tree stays; what comes next ends soon, too
        pass
    depth = first
    if errors:
        lowest, best = min(zip(errors, found, strict=True))
        if lowest < errors[0] * (1.0 - others**-0.5):
            depth = best
    begun, attributes = found[depth]
    fits.clear(options, *options.__dict__)
    fits.set_attributes(options, {**attributes, **search, "best_depth_": depth})
    return begun


def _held_out_errors(options: Estimator, rows: Any, begun: Begun, trees: Sequence[Tree], read: Any) -> list[float]:
    """The losses of trees on rows outside the sample: of soft trees as they are, of hard ones with leaves fitted to a
    share of all rows, on the others.
    """
    over, problem = bridge.solvers.core.parts, begun.record.problem.restated(depth=max(tree.depth for tree in trees))
    if options.recipe.parts == "soft":
        bag = _outside(options, begun, 0.0)._replace(outside=True)
        losses: list[float] = over.in_step(rows, read, [over.mean_loss(problem, tree, bag) for tree in trees])
        return losses
    problem = problem.restated(min_leaf=options.min_samples_leaf)
    judge = bridge.solvers.tao.PassesOverParts(rows, read, problem, bag=_outside(options, begun, SHARE))
    errors: list[float] = over.in_step(rows, read, [judge.held_out(tree) for tree in trees])
    return errors


def _choose_strength(options: Estimator, rows: Any, begun: Begun, read: Any) -> None:
    """``leaf_shrinkage_`` and ``leaf_temperature_`` for the splits of the sample, with leaves of most of all rows:
    those of the lowest error on the others, where its gain is clear, see `steps.shrink.choose_strength`. Where these
    are few, and after Ctrl-C, those of the sample stay.
    """
    problem = begun.record.problem.restated(min_leaf=options.min_samples_leaf)
    others = (1.0 - SHARE) * (begun.census.used - len(begun.sample))
    if others < FEWEST or seconds_left() <= 0.0 or refusal(problem) is not None:
        return
    bag, over = _outside(options, begun, SHARE), bridge.solvers.core.parts
    try:
        solver = bridge.solvers.tao.PassesOverParts(rows, read, problem, bag=bag)
        tree, sums = over.in_step(rows, read, [solver.fitted(begun.last)])[0]
        strengths = strengths_of(problem)
        trees = [shrunk_by(strength, problem, tree, sums, SHARE * begun.census.used) for strength in strengths]
        told = bag._replace(outside=True), over.bare(problem), trees
        errors, off, square, mass, squares = over.in_step(rows, read, [_asked(_errors, told)])[0].T
        best = int(np.argmin(errors))
        mean = (errors[0] - errors[best]) / mass[0]  # of the gain, beside its standard error
        error = np.sqrt(max(square[best] - 2.0 * mean * off[best] + mean**2 * squares[0], 0.0)) / mass[0]
        best = best if mean > error else 0
        temperature = 1.0
        if problem.is_classification and problem.leaves == "constant":
            losses = over.in_step(rows, read, [_asked(_tempered, (*told[:2], trees[best]))])[0]
            temperature = TEMPERATURES[int(np.argmin(losses))]
    except KeyboardInterrupt:  # what comes next ends soon, too
        return
    fits.set_attributes(options, {"leaf_shrinkage_": strengths[best], "leaf_temperature_": temperature})


def _asked(question: Callable[..., Any], told: Any) -> Any:
    """A run of one question, for `solvers.core.parts.in_step`."""
    return (yield question, told)


def _errors(rows: records.Rows, first: int, told: tuple[Any, TreeProblem, Sequence[Tree]]) -> Floats:
    """Of each tree, over the rows of a bag: sums of errors times weights, of gains on the first tree and of their
    squares, each times squared weights, of the weights, and of their squares: (T, 5).
    """
    bag, problem, trees = told
    w = rows.weight * bag.weights(first, len(rows.weight))
    kept = w > 0.0
    X, Y, w = rows.X[kept], rows.Y[kept], w[kept]
    leaf = trees[0].apply(X)  # shrunk trees have the same splits
    errors = np.array([errors_of(problem, Y, shares_of(tree, tree.outputs(X, leaf))) for tree in trees])
    gains = errors[0] - errors
    count = len(trees)
    mass, squares = np.full(count, w.sum()), np.full(count, np.sum(w**2))
    return np.column_stack([errors @ w, gains @ w**2, gains**2 @ w**2, mass, squares])


def _tempered(rows: records.Rows, first: int, told: tuple[Any, TreeProblem, Tree]) -> Floats:
    """Summed log losses of the classes of the rows of a bag, of each temperature."""
    bag, _problem, tree = told
    w = rows.weight * bag.weights(first, len(rows.weight))
    shares, label = tree.outputs(rows.X), rows.Y[:, 0].astype(np.intp)
    found = [log_losses(softer(shares, temperature)[np.arange(len(label)), label]) @ w for temperature in TEMPERATURES]
    return np.array(found)
