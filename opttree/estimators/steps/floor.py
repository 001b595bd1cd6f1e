"""A floor under single trees: on rows held out, their size is chosen, and a linear model and CART's tree are tried.

Folds of the training rows compare trees of the method, of several depths and strengths of shrinkage, alone and on what
a ridge regression leaves, with this ridge regression (of classes, a multinomial logistic one) and with CART's trees.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from opttree.estimators import bridge
from opttree.estimators.recipe import Estimator, Fit, Rows, is_printed
from opttree.estimators.steps.rows import class_weighted
from opttree.estimators.steps.shrink import LEAST_PROBABILITY, errors_of, parted, strengths_of, temperature_of
from opttree.estimators.steps.state import feature_units
from opttree.estimators.steps.tails import clipped, limits_of, target_limits_of, with_targets_clipped
from opttree.estimators.steps.units import Scaling, moments, on_parts, outputs_name, with_training
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.clock import due_at, now
from opttree.runtime.interrupts import noted_interrupts
from opttree.runtime.threads import count, each, limited
from opttree.statement import L2, TreeProblem
from opttree.statement.pruning import with_splits
from opttree.statement.shrinkage import refusal, shrinker
from opttree.wide.sparse import is_sparse

Floats = NDArray[np.float64]
FitRows = Callable[[Estimator, Rows, Any], Fit]
LOSSES = ("squared", "zero_one", "log")
FEWEST, MOST_ROWS = 6, 10_000  # rows that differ, below which nothing is held out, and of which that many are used
FOLDS, MORE_FOLDS, FEW_ROWS = 3, 5, 2000  # with fewer rows than that there are more folds
SHARE, LEAST_TIME = 0.5, 1.0  # of the time limit, for the choice; seconds below which there is none
# l2 on standardised features, in units of the mean loss
RIDGES = (1e-6, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 10.0)
WIDE = 200  # features, from which every third of them is tried
SPARSE_RIDGES = (3e-5, 3e-4, 3e-3)  # on features in the units of sparse tables
CART_DEPTHS, CART_LEAVES = (0, 1, 2, 3, 4, 5, 6, 8, 10, 30, 60), (1, 5, 20)
CART_SHRINKAGE = 3.0  # rows of the parent in a leaf of classes, none of which is then certain
CLEARLY = 1.0  # standard errors, by which trees of the first folds are given up
MARGIN = 0.1  # of the range of y, by which answers of linear leaves may lie beyond it
DEEP_ENOUGH = 3  # from here on, a depth that is no better is the last
STEEP = 1e9  # gate of a tree of hard splits
PENALTIES, MANY_FEATURES = (1e-3, 1e-2), 10  # on splits, that are tried from so many features on
ABOUT = 1.02  # times the lowest mean error
BETTER = 0.99  # of the mean error, which clipping or a penalty must bring it below
WORTH = 0.02  # share of the loss that a linear model must explain before trees begin with it


class Setting(NamedTuple):
    """What trees of the method are tried with: their depth, whether they begin with a linear model, the l1 penalty on
    splits (None: as the options say), whether heavy tails of features are clipped, and those of targets.
    """

    depth: int
    based: bool = False
    penalty: float | None = None
    clips: bool = False
    tames: bool = False

    def __str__(self) -> str:
        words = [f"depth {self.depth}", "on linear" if self.based else ""]
        words += [f"l1 {self.penalty:g}" if self.penalty is not None else "", "clipped" if self.clips else ""]
        words += ["targets clipped" if self.tames else ""]
        return ", ".join(filter(None, words))


@dataclass(frozen=True)
class Choice:
    """What the folds chose.

    depth, strength, temperature, penalty : of the method's tree.
    fallback : None for the method's tree, "linear" or "cart".
    base : the linear model, a tree of one leaf on raw features, to which the method's tree is added, or None.
    other : the fallback's tree on raw features, or None.
    ridge : strength of the ridge of linear models of all rows.
    limits : (2, p) where features are clipped, or None.
    target_limits : (2, K) where targets are, or None.
    means : the mean errors by which they were compared.
    errors : (m, K) sizes of the errors on the rows held out, in regression.
    """

    depth: int
    strength: float | None = None
    temperature: float = 1.0
    penalty: float | None = None
    fallback: str | None = None
    base: Tree | None = None
    other: Tree | None = None
    ridge: float | None = None
    limits: Floats | None = None
    target_limits: Floats | None = None
    means: dict[str, float] | None = None
    errors: Floats | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of the estimator."""
        found: dict[str, Any] = {"best_depth_": self.depth, "fallback_": self.fallback, "floor_errors_": self.means}
        if self.errors is not None:
            found["_held_out_errors"] = self.errors
        if self.strength is not None:
            found |= {"leaf_shrinkage_": self.strength, "leaf_temperature_": self.temperature}
            found["split_penalty_"] = self.penalty
            found["_root_ridge"] = self.ridge
        return found


@dataclass(frozen=True)
class Trial:
    """Answers (m, K) of a method's trees to the rows held out, their mean error, the best strength and temperature."""

    answers: Floats
    mean: float
    strength: float = 0.0
    temperature: float = 1.0


def has_floor(options: Estimator) -> bool:
    """Whether there is a floor: where ``floor`` is None, if the depth is left to the estimator."""
    floor = getattr(options, "floor", False)
    return bool(options.max_depth == "auto" if floor is None else floor)


def choose(options: Estimator, rows: Rows, seed: int, fit_rows: FitRows, *, plain: bool) -> Choice:
    """The choice for an estimator on rows, with its ``fit_rows``; ``plain``: trees do not begin with a linear model."""
    usual, init = options.recipe.usual_depth, getattr(options, "init", None)
    if options.max_depth != "auto":
        usual = int(options.max_depth)
    elif isinstance(init, Tree):
        usual = max(init.depth, 1)
    limit, loss = options.time_limit, options.loss
    given = is_printed(options) or rows.several is not None or loss not in LOSSES
    if given or np.count_nonzero(rows.weight) < FEWEST or (limit is not None and limit < LEAST_TIME):
        return Choice(usual)
    feature_units(options, rows.X, rows.weight)  # refuses what the fit to all rows would
    with warnings.catch_warnings(), on_parts(), due_at(np.inf if limit is None else now() + limit):
        warnings.simplefilter("ignore")
        with noted_interrupts() as interrupted:
            return Folds(options, rows, seed, fit_rows, interrupted).choose(rows, usual, plain=plain)


class Folds:
    """Rows in folds: models are fitted to all but one fold, and answer its rows."""

    def __init__(
        self, options: Estimator, rows: Rows, seed: int, fit_rows: FitRows, interrupted: Callable[[], bool]
    ) -> None:
        self.options, self.seed, self.fit_rows, self.interrupted = options, seed, fit_rows, interrupted
        self.due = np.inf if options.time_limit is None else now() + SHARE * options.time_limit
        self.numbers = is_regressor(options)
        fields = {one.name: one.default for one in dataclasses.fields(cast(Any, options))}
        given = ("split_penalty", "l1_ratio")
        self.penalised = all(name in fields and getattr(options, name) == fields[name] for name in given)  # by default
        loss = "squared" if self.numbers else "log"
        used = rows.weight > 0.0
        whole = TreeProblem(rows.X[used], rows.y[used], 0, loss=loss, sample_weight=rows.weight[used])
        parts = parted(whole, FOLDS, MOST_ROWS)
        if len(parts.rows) < FEW_ROWS:
            parts = parted(whole, MORE_FOLDS, MOST_ROWS)
        self.sampled = len(parts.rows) == MOST_ROWS
        self.rows = Rows(rows.X[used][parts.rows], rows.y[used][parts.rows], parts.weight)
        self.parts = [(np.flatnonzero(parts.fold != k), np.flatnonzero(parts.fold == k)) for k in np.unique(parts.fold)]
        weight = class_weighted(options, self.rows.y, parts.weight)
        y, self.unit = self.rows.y, np.ones(1)
        if self.numbers:
            Y = y.reshape(len(y), -1)
            self.unit = moments(Y, weight, outputs_name(Y))[1]
            y = Y / self.unit
        self.judge = TreeProblem(np.zeros((len(y), 1)), y, 0, loss=loss, sample_weight=weight)
        self.n_answers = self.judge.n_outputs
        self.classes: Any = self.judge.classes

    def late(self) -> bool:
        """Whether the share of the time limit is used up, or Ctrl-C was pressed."""
        return self.interrupted() or now() > self.due

    def errors(self, answers: Floats) -> Floats:
        """(m,) errors: squared, and of classes the 0/1 error and half the squared error of the probabilities."""
        off = errors_of(self.judge, self.judge.Y, answers / self.unit if self.numbers else answers)
        if self.numbers:
            return off
        return 0.5 * off + (np.argmax(answers, axis=1) != self.judge.Y[:, 0])

    def sizes(self, answers: Floats) -> Floats | None:
        """(m, K) sizes of the errors in units of y, in regression."""
        return np.abs(answers - self.judge.Y * self.unit) if self.numbers else None

    def mean(self, answers: Floats, seen: Any = ...) -> float:
        """Their weighted mean, over rows that have been ``seen``."""
        w = self.judge.w[seen]
        return float(np.sum(w * self.errors(answers)[seen]) / np.sum(w))

    def best_of(self, answers: Sequence[Floats], seen: Any = ...) -> int:
        """The number of the strength of shrinkage with these answers that is best: by the mean error; of classes by the
        log loss among those whose mean error is about the lowest.
        """
        errors = np.array([self.mean(found, seen) for found in answers])
        if self.numbers:
            return int(np.argmin(errors))
        w, true = self.judge.w[seen], self.judge.Y[seen, 0].astype(np.intp)
        shares = [np.take_along_axis(found[seen], true[:, None], axis=1)[:, 0] for found in answers]
        losses = np.array([np.sum(w * -np.log(np.maximum(share, LEAST_PROBABILITY))) for share in shares])
        return int(np.argmin(np.where(errors <= ABOUT * errors.min(), losses, np.inf)))

    def beats(self, mine: Floats, other: Floats, seen: Any = ..., errors: float = 1.0) -> bool:
        """Whether answers are better than others by more than so many standard ``errors``."""
        w = self.judge.w[seen] / np.sum(self.judge.w[seen])
        gain = (self.errors(other) - self.errors(mine))[seen]
        mean = float(np.sum(w * gain))
        return mean > errors * float(np.sqrt(np.sum((w * (gain - mean)) ** 2)))

    def answers_of(self, model: Tree, X: Any) -> Floats:
        """(n, K) numbers, or probabilities of all classes."""
        if self.numbers:
            return np.asarray(model.predict(X), np.float64).reshape(X.shape[0], -1)
        found = np.zeros((X.shape[0], self.n_answers))
        found[:, np.searchsorted(self.classes, np.asarray(model.classes))] = model.predict_proba(X)
        return found

    # ---- the models that are tried --------------------------------------------------------------------------------

    def choose(self, rows: Rows, usual: int, *, plain: bool) -> Choice:
        """The choice, with what it needs fitted to all ``rows``."""
        options, m = self.options, len(self.rows.y)
        if m < FEWEST:  # the others are copies
            return Choice(usual)
        means: dict[str, float] = {}
        limits = limits_of(options, self.rows)
        strengths = RIDGES if self.rows.X.shape[1] < WIDE else RIDGES[2::3]
        strengths = SPARSE_RIDGES if is_sparse(self.rows.X) else strengths
        by_ridge = np.zeros((1 if limits is None else 2, len(strengths), m, self.n_answers))
        bases: list[list[list[Tree]]] = []
        for train, held in self.parts:
            bases.append([])
            for clips in range(len(by_ridge)):
                part, X = self.split(train, held, bool(clips))
                bases[-1].append([])
                for k, strength in enumerate(strengths):
                    if self.late():
                        return self.at_once(rows, usual)
                    with due_at(self.due):
                        bases[-1][-1].append(linear_model(options, part, strength))
                    by_ridge[clips, k, held] = self.answers_of(bases[-1][-1][-1], X)
        errors = np.array([[self.mean(a) for a in answers] for answers in by_ridge])
        clips = len(errors) > 1 and errors[1].min() < BETTER * errors[0].min()
        best = int(np.argmin(errors[int(clips)]))
        linear, ridge = by_ridge[int(clips), best], strengths[best]
        means["linear"] = self.mean(linear)
        flat = self.constant()
        cart, size = self.cart(usual, flat)
        if size is None:
            if self.interrupted():
                return self.at_once(rows, usual)
            size = 0, 1
        means["cart"], constant = self.mean(cart), self.mean(flat)
        begins = (
            not plain
            and options.floor is not False
            and self.numbers
            and options.leaves == "constant"
            and means["linear"] < (1 - WORTH) * constant
        )
        floor, fallback = (linear, "linear") if means["linear"] <= means["cart"] else (cart, "cart")
        tried: dict[Setting, Trial] = {}

        def attempt(setting: Setting) -> None:
            if setting not in tried and not (tried and self.late()):
                own = [b[int(setting.clips)][best] for b in bases] if setting.based else None
                try:
                    tried[setting] = self.method(setting, own, rivals(), ridge)
                except (MemoryError, KeyboardInterrupt):  # a tree of this depth does not fit, or there is none yet
                    tried[setting] = Trial(linear, np.inf)
                means[str(setting)] = tried[setting].mean

        def lowest() -> Setting:
            return min(tried, key=lambda key: tried[key].mean)

        def rivals() -> list[Floats]:
            best = [tried[lowest()].answers] if tried else []
            return best if options.floor is False else [floor, *best]

        def attempt_other(**changes: Any) -> None:
            before, setting = lowest(), lowest()._replace(**changes)
            attempt(setting)
            if lowest() == setting and tried[setting].mean >= BETTER * tried[before].mean:  # by less than is worth it
                del tried[setting]

        one = self.sampled or options.max_depth != "auto" or isinstance(getattr(options, "init", None), Tree)
        depths = (usual,) if one else options.recipe.depths
        for depth in depths:
            before = lowest() if tried else None
            for based in (False, True) if begins and before is None else (before is not None and before.based,):
                attempt(Setting(depth, based))
            if before is not None and lowest() == before and depth >= DEEP_ENOUGH:
                break
        if begins:
            attempt(lowest()._replace(based=not lowest().based))
        hyperplanes = options.splits == "oblique"
        if limits is not None and (hyperplanes or options.leaves == "linear"):
            attempt_other(clips=True)
        tails = target_limits_of(self.rows) if self.numbers else None
        if tails is not None:
            attempt_other(tames=True)
        if hyperplanes and self.penalised and self.rows.X.shape[1] >= MANY_FEATURES:
            for penalty in PENALTIES:
                attempt_other(penalty=penalty)
        chosen = lowest()
        depth, trial = chosen.depth, tried[chosen]
        better = self.beats(trial.answers, linear) and trial.mean < means["cart"]
        if size[0] <= depth:  # CART's tree is the smaller one
            better = better and self.beats(trial.answers, cart)
        own = options.floor is False or (better and not self.interrupted())  # there is no time for its tree
        clips = chosen.clips if own else clips and fallback == "linear"
        limits = limits_of(options, rows) if clips else None
        rows = rows if limits is None else clipped(rows, limits)
        target_limits = target_limits_of(rows) if own and chosen.tames else None
        base = other = None
        if own:
            base = linear_model(options, rows, ridge) if chosen.based else None
        elif fallback == "linear":
            other = linear_model(options, rows, ridge)
        else:
            grown = cart_tree(options, rows if self.sampled else self.rows, *size, self.seed)
            other = with_classes(grown, rows.y)
        return Choice(
            depth,
            trial.strength,
            trial.temperature,
            chosen.penalty,
            None if own else fallback,
            base,
            other,
            ridge,
            limits,
            target_limits,
            means,
            self.sizes(trial.answers if own else floor),
        )

    def at_once(self, rows: Rows, usual: int) -> Choice:
        """The choice before there is anything to compare: after Ctrl-C CART's tree, which takes no time."""
        if self.options.floor is False or not self.interrupted():
            return Choice(usual)
        fewest = max(CART_LEAVES[-1], getattr(self.options, "min_samples_leaf", 1))
        grown = cart_tree(self.options, rows if self.sampled else self.rows, usual, fewest, self.seed)
        return Choice(usual, fallback="cart", other=with_classes(grown, rows.y))

    def split(self, train: NDArray[np.intp], held: NDArray[np.intp], clips: bool) -> tuple[Rows, Any]:
        """Some of the rows, and the features of others, clipped to the limits of the first or not."""
        part, X = self.part(train), self.rows.X[held]
        limits = limits_of(self.options, part) if clips else None
        return (part, X) if limits is None else (clipped(part, limits), np.clip(X, *limits))

    def part(self, train: NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        return Rows(self.rows.X[train], self.rows.y[train], self.rows.weight[train])

    def constant(self) -> Floats:
        """Answers of constants."""
        answers = np.zeros((len(self.rows.y), self.n_answers))
        for train, held in self.parts:
            part = self.judge.sample(train)
            answers[held] = part.best_constant().outputs(np.zeros((1, 1)))[0] * self.unit
        return answers

    def method(self, setting: Setting, bases: list[Tree] | None, rivals: list[Floats], ridge: float) -> Trial:
        """Trees of the method, on what ``bases`` leave; given up once they are clearly worse than one of ``rivals``."""
        options = self.options
        changes = {
            "max_depth": setting.depth,
            "floor": False,
            "verbose": 0,
            "on_interrupt": "keep",
            "random_state": self.seed,
        }
        changes |= {name: min(getattr(options, name), most) for name, most in options.recipe.trial_limits.items()}
        shrinks = options.recipe.shrink is not None and options.leaf_shrinkage in (None, "cv")
        if shrinks:
            changes["leaf_shrinkage"] = 0.0
        if setting.penalty is not None:
            changes |= {"split_penalty": setting.penalty, "l1_ratio": 1.0}
        if options.time_limit is not None:
            changes["time_limit"] = max(SHARE * options.time_limit / (2 * len(self.parts)), 1e-2)

        def fold(number: int) -> tuple[tuple[float, ...], list[Floats]]:
            """The strengths, and the answers of their trees to the rows of a fold."""
            part, X = self.split(*self.parts[number], setting.clips)
            tails = target_limits_of(part) if setting.tames else None
            part = part if tails is None else with_targets_clipped(part, tails)
            trial = clone(options).set_params(**changes)
            trial.encoder_ = None
            base = None if bases is None else bases[number]
            record = self.fit_rows(trial, part if base is None else replace(part, y=less(part, base)), None)
            strengths: tuple[float, ...] = (0.0,)
            trees = [trial.tree_]
            if shrinks and refusal(record.problem) is None:
                shrinking = shrinker(record.problem, as_tree(trial.result_.tree), ridge)
                strengths = strengths_of(record.problem)
                trees = [record.scaling.unscale(shrinking.shrunk(s)) for s in strengths]
            if base is not None:
                trees = [with_base(tree, base, part) for tree in trees]
            return strengths, [self.answers_of(bounded(tree, part), X) for tree in trees]

        answers: list[Floats] = []
        seen = np.zeros(len(self.rows.y), bool)
        at_once = count(options.n_jobs)
        for first in range(0, len(self.parts), at_once):
            numbers = range(len(self.parts))[first : first + at_once]
            with limited(at_once):
                found = each(fold, numbers)
            for number, (strengths, parts) in zip(numbers, found, strict=True):
                held = self.parts[number][1]
                answers = answers or [np.zeros((len(self.rows.y), self.n_answers)) for _ in parts]
                for whole, part in zip(answers, parts, strict=True):
                    whole[held] = part
                seen[held] = True
                best = self.best_of(answers, seen)
                if any(self.beats(rival, answers[best], seen, CLEARLY) for rival in rivals):
                    return Trial(answers[best], np.inf, strengths[best])
        tempers = not self.numbers and options.leaves == "constant" and options.recipe.shrink is not None
        temperature = temperature_of(self.judge.Y, self.judge.w, answers[best]) if tempers else 1.0
        return Trial(answers[best], self.mean(answers[best]), strengths[best], temperature)

    def cart(self, depth: int, flat: Floats) -> tuple[Floats, tuple[int, int] | None]:
        """Answers of CART's trees of the best depth, within a ``depth`` that is given, and smallest leaf; these two.

        Where these are not clearly better than constants, whose answers are ``flat``: theirs, and depth 0. Where there
        was no time to compare any: theirs, and None.
        """
        kind = DecisionTreeRegressor if self.numbers else DecisionTreeClassifier
        least, X = getattr(self.options, "min_samples_leaf", 1), as_singles(self.rows.X)
        leaves = sorted({max(fewest, least) for fewest in CART_LEAVES})
        depths = [d for d in CART_DEPTHS if self.options.max_depth == "auto" or d <= depth]
        limits = {"max_depth": depths[-1], "max_leaf_nodes": getattr(self.options, "max_leaf_nodes", None)}
        found = {(d, s): np.zeros((X.shape[0], self.n_answers)) for d in depths for s in leaves}

        ended: list[int] = []

        def fold(rows: tuple[NDArray[np.intp], NDArray[np.intp]]) -> None:
            train, held = rows
            part = self.part(train)
            weight = class_weighted(self.options, part.y, part.weight)
            for fewest in leaves:
                if self.late():
                    return
                model = kind(min_samples_leaf=fewest, random_state=self.seed, **limits)
                model.fit(X[train], part.y, sample_weight=weight)
                path = model.decision_path(X[held])
                level = np.asarray(path.sum(axis=1)).ravel() - 1
                values = model.tree_.value.reshape(model.tree_.node_count, -1)
                for depth in depths:  # nodes of a path are numbered from the root down
                    at = path.indices[path.indptr[:-1] + np.minimum(level, depth)]
                    if self.numbers:
                        found[depth, fewest][held] = values[at]
                    else:
                        columns = np.searchsorted(self.classes, model.classes_)
                        found[depth, fewest][np.ix_(held, columns)] = values[at]
                ended.append(fewest)

        with limited(count(self.options.n_jobs)):
            each(fold, self.parts)
        found = {key: answers for key, answers in found.items() if ended.count(key[1]) == len(self.parts)}
        if not found:
            return flat, None
        best = min(found, key=lambda key: self.mean(found[key]))
        return (found[best], best) if self.beats(found[best], flat) else (flat, (0, leaves[0]))


def less(rows: Rows, base: Tree) -> Floats:
    """What a linear model leaves of the targets, in their shape."""
    left: Floats = rows.y - np.asarray(base.predict(rows.X)).reshape(rows.y.shape)
    return left


def linear_model(options: Estimator, rows: Rows, ridge: float) -> Tree:
    """The tree of one linear leaf on raw features, under a ridge."""
    weight = class_weighted(options, rows.y, rows.weight)
    numbers = is_regressor(options)
    units = (np.zeros(1), np.ones(1))
    if numbers:
        Y = rows.y.reshape(len(rows.y), -1)
        units = moments(Y, weight, outputs_name(Y))
    scaling = Scaling(*moments(rows.X, weight), *units)
    problem = TreeProblem(
        scaling.features(rows.X),
        scaling.outputs(rows.y) if numbers else rows.y,
        depth=0,
        leaves="linear",
        loss="squared" if numbers else "log",
        sample_weight=weight,
        penalties=(L2(leaves=ridge),),
    )
    start = Tree.constant(np.zeros(problem.n_outputs), problem.n_features, problem.classes)
    leaf: Tree = scaling.unscale(problem.fit_leaves(start, min_rows=1))
    return bounded(replace(leaf, lower=None, upper=None), rows)


def cart_tree(options: Estimator, rows: Rows, depth: int, fewest: int, seed: int) -> Tree:
    """CART's tree of all rows, on raw features, by the criterion of the trees that were compared."""
    weight = class_weighted(options, rows.y, rows.weight)
    by, loss = ("squared", "squared") if is_regressor(options) else ("zero_one", "log")  # squares; Gini impurity
    problem = TreeProblem(rows.X, rows.y, depth, splits="axis", loss=loss, sample_weight=weight)
    cart = bridge.solvers.CartInit(min_rows=fewest)
    tree: Tree = problem.fit_leaves(cart.build(problem.restated(loss=by), np.random.default_rng(seed)))
    if (most := getattr(options, "max_leaf_nodes", None)) is not None:
        tree = with_splits(problem, tree, most - 1)
    return shrinker(problem, tree).shrunk(CART_SHRINKAGE) if problem.is_classification else tree


def with_classes(tree: Tree, y: NDArray[Any]) -> Tree:
    """The tree with all classes of ``y``, those without weight included."""
    if tree.classes is None:
        return tree
    classes = np.unique(y)
    values = np.zeros((tree.n_leaves, len(classes)))
    values[:, np.searchsorted(classes, tree.classes)] = tree.values
    return replace(tree, values=values, classes=classes, coefs=np.zeros((*values.shape, 0)))


def as_singles(X: Any) -> Any:
    """The features as scikit-learn's trees take them: their ranks where single precision would not tell them apart."""
    if is_sparse(X):
        return X
    with np.errstate(over="ignore"):
        singles = X.astype(np.float32)
    if np.isfinite(singles).all() and all(
        np.unique(a).size == np.unique(b).size for a, b in zip(X.T, singles.T, strict=True)
    ):
        return X
    return np.stack([np.unique(column, return_inverse=True)[1] for column in X.T], axis=1).astype(np.float64)


def with_base(tree: Tree, base: Tree, rows: Rows) -> Tree:
    """The sum of a tree of constant leaves and a linear model, as one tree whose leaves are bounded."""
    coefs = np.repeat(base.leaf_arrays[1], tree.n_leaves, axis=0)
    return bounded(replace(tree, values=tree.values + base.values, coefs=coefs, lower=None, upper=None), rows)


def bounded(tree: Tree, rows: Rows) -> Tree:
    """A tree of linear leaves, not bounded before, whose answers are at most a tenth of the range of y beyond it.

    Leaves of a mixture, which balance each other, may answer at most the range beyond it.
    """
    if not tree.linear_leaves or tree.classes is not None or tree.lower is not None:
        return tree
    y = rows.y[rows.weight > 0.0].reshape(-1, tree.n_outputs)
    low, high = y.min(axis=0), y.max(axis=0)
    margin = (1.0 if tree.mixture else MARGIN) * (high - low)
    lower, upper = (np.tile(bound, (tree.n_leaves, 1)) for bound in (low - margin, high + margin))
    return replace(tree, lower=lower, upper=upper)


def above_floor(options: Estimator, rows: Rows, record: Fit, fitted: dict[str, Any], choice: Choice) -> dict[str, Any]:
    """The fitted attributes with the tree that was chosen; ``rows`` are those of the fit, ``record`` is of what the
    linear model left of them.
    """
    if choice.other is not None:
        tree, own = choice.other, fitted["tree_"]
        if own.gate is not None:  # one leaf, or gates as steep as the splits of CART's tree
            tree = replace(tree, gate=own.gate if choice.fallback == "linear" else STEEP)
    elif choice.base is not None:
        tree = with_base(fitted["tree_"], choice.base, rows)
    elif choice.strength is not None:
        return fitted | {"tree_": bounded(fitted["tree_"], rows)}
    else:
        return fitted
    return fitted | {"tree_": with_training(tree, rows.X, rows.weight)}
