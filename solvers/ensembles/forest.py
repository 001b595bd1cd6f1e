"""`TAOForest`: bagged trees by alternating optimization (TAO paper, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes import alternation
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.options import option
from opttree.statement import L2, TreeProblem
from solvers.core.base import Solver, Step, Steps, at_hand, at_last_call
from solvers.core.parallel import spread, width
from solvers.core.result import Termination
from solvers.ensembles.growth import ALL_FEATURES, GrownTree, Shared, grow
from solvers.ensembles.growth_options import MOST_FEATURES, GrowthOptions
from solvers.ensembles.in_time import rows_in_time
from solvers.tao.tao import PRINTED_STEPS

Floats = NDArray[np.float64]
SHRINKAGES = (0.03, 0.3, 3.0, 30.0)
UNSHRUNK = 1e-9  # rows
LASSOS = (0.003, 0.01, 0.03)
FREE = 1.005  # the out-of-bag error may rise by this factor if leaves become sparser
KINDS = (  # "stacked" by `StackedForest`
    *("auto", "oblique", "axis", "cart", "extra", "stacked", "cart-constant"),
    *("cart" + ALL_FEATURES, "cart-constant" + ALL_FEATURES),
)
PILOTS = 8  # trees of each kind, on bootstrap samples, to compare the kinds
CLEARLY = 0.04  # CART trees are preferred if their error is lower by this share at 2,000 rows, half of it at 8,000
ALL_CLEARLY = 0.1  # and those of all features if theirs is lower by this share than with half of them
# Kinds behind by this factor with as many trees, each on half of as many rows, are not compared any further
BEHIND, FEW_PILOTS, FIRST_ROWS = 1.03, 5, 8000
ENOUGH = 10  # trees, for which rows are left out where a time limit is short
LOOKS, LOOKED_AT = 1.5, 20_000  # a forest is asked for all rows, and importances look again; rows that are timed
LOOK = 0.25  # of the time that is left, to compare kinds on some of the rows, and again on all
FEW_PAIRS = 30  # rows with two out-of-bag predictions needed for an average over pairs


@dataclass(frozen=True)
class TAOForest(GrowthOptions, Solver):
    """Trees on random samples of the rows, each from its own random start; their predictions are averaged.

    For squared loss; in classification the outputs are class indicators, so that leaves hold class frequencies and the
    loss of a tree is the Brier score. The passes over a tree run in single precision in one compiled function
    (`opttree.kernels.passes.alternation`).

    After the last pass the leaves are fitted from the root down, each shrunk towards its parent's model by a ridge
    penalty on the difference, with the weight of ``shrinkage`` rows. "oob" takes the value of `SHRINKAGES` with the
    lowest out-of-bag error: with r_t the out-of-bag residual of tree t, the squared error of T averaged trees is the
    mean of ``r_s r_t`` over pairs of trees plus 1/T of what the mean of ``r_t^2`` exceeds it by.

    See Also
    --------
    opttree.TAOForestRegressor : the estimator
    StackedForest : of several kinds of trees

    References
    ----------
    Zharmagambetov and Carreira-Perpinan, "Smaller, more accurate regression forests using tree alternating
    optimization", ICML 2020.

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAOForest, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> forest = solve(problem, TAOForest(n_trees=4), random_state=0)
    >>> len(forest.tree.trees), forest.objective < 1.0
    (4, True)
    """

    makes_forests = True
    takes_sparse = True
    wants_zero = True

    common_start: bool = option(
        False,
        "Whether all oblique trees start from the same random hyperplanes (section 5.5), drawn from the seed.",
    )
    first: int = option(
        0, "Number of the first tree: a forest of 20 and one of 10 with ``first=20`` together equal one of 30.", least=0
    )
    n_jobs: int | None = option(
        None,
        "Trees grown in parallel, see `solvers.core.parallel.spread`. The forest does not depend on it.",
        test=lambda n_jobs: n_jobs != 0,
        words="None or an integer other than 0",
    )
    rows_in_time: bool = option(
        True,
        """Whether, where a time limit is too short for all trees on all rows, they are grown on as many random rows as
        it is enough for, and on 2,000 at least.""",
    )

    @staticmethod
    def paper(n_trees: int = 30, max_iter: int = 40) -> TAOForest:
        """The method as printed (TAO paper, section 4), for standardised features and outputs: trees of `TAO.paper` on
        random samples of nine tenths of the rows, averaged.

        They are grown by the compiled passes: thresholds are the best of 256 along each hyperplane, and numbers of
        single precision.

        Parameters
        ----------
        n_trees : int, default 30
            Number of trees.
        max_iter : int, default 40
            Passes over each tree.

        Returns
        -------
        TAOForest
            The solver.

        Examples
        --------
        >>> from solvers import TAOForest
        >>> TAOForest.paper().kind
        'oblique'
        """
        return TAOForest(
            n_trees=n_trees,
            kind="oblique",
            max_iter=max_iter,
            constant_iterations=0,
            newton_steps=PRINTED_STEPS,
            ridge=0.0,
            shrinkage=UNSHRUNK,
            split_lasso=0.01,
            leaf_lasso=0.01,
            relaxed=False,
            clip=False,
            rows_in_time=False,
        )

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes squared loss and classification, with l1 and l2 penalties on splits."""
        if problem.loss_function.lacks("averages"):
            return f"the trees of a forest are fitted under squared loss; the problem asks for loss={problem.loss!r}"
        if self.monotone is not None:
            if not self.kind.startswith(("cart", "extra")) or problem.leaves != "constant":
                return f"monotone is for kind 'cart' or 'extra' and constant leaves; got kind={self.kind!r}"
            if problem.is_classification or problem.n_outputs > 1:
                return "monotone is for one number; the problem has classes or several outputs"
            if len(self.monotone) != problem.n_features:
                return (
                    f"monotone must have an entry for each of {problem.n_features} features; got {len(self.monotone)}"
                )
        if problem.is_sparse and (self.common_start or self.monotone is not None):
            name = "common_start" if self.common_start else "monotone"
            return f"{name} is for dense tables, and its X is sparse"
        if problem.depth < 1:
            return "a forest needs trees of depth 1 or more; the problem allows 0"
        if problem.float32_refusal is not None:
            return problem.float32_refusal
        if problem.splits == "axis" and self.kind == "oblique":
            return "its trees are oblique, and the problem asks for axis-aligned ones; use kind='axis'"
        if problem.split_price or problem.strength(L2, "leaves"):
            return "leaves are shrunk towards their parents; the problem has an l2 penalty on leaves or a price"
        return None

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The constant tree, then the forest; at a time limit or Ctrl-C, the forest of the finished trees."""
        yield from at_hand(problem, start)
        tallies: dict[str, Tally] = {}
        rows: NDArray[np.intp] | None = None

        def grown() -> Generator[None]:
            nonlocal rows
            if self.rows_in_time:
                rows = yield from rows_in_time(problem, min(self.n_trees, ENOUGH) / width(self.n_jobs), rng, self._one)
            part = problem if rows is None else problem.sample(rows)
            yield from self.growth(part, rng, tallies, problem if np.isfinite(seconds_left()) else None)

        def forest() -> Step | None:
            """The forest of the kind with the most trees so far."""
            kind = max(tallies, key=lambda kind: len(tallies[kind].grown), default="")
            return self._step(problem, kind, tallies[kind], rows) if kind and tallies[kind].grown else None

        yield from at_last_call(grown(), forest)
        yield forest()
        whole = max(len(tally.grown) for tally in tallies.values()) >= self.n_trees
        return Termination.ITERATION_LIMIT if whole else Termination.TIME_LIMIT

    def _one(self, problem: TreeProblem, rng: Rng) -> Iterator[Tree]:
        """A tree of the kind, of the quickest one that there may be."""
        shrinkages, lassos = self._leaf_models(problem)
        shared = Shared.of(problem, self, shrinkages, None, lassos)
        kind = self.kind if self.kind != "auto" else "cart-constant" if shared.linear else "cart"
        yield grow(shared.of_kind(kind), (kind, rng)).tree(0, None)

    def _leaf_models(self, problem: TreeProblem) -> tuple[tuple[float, ...], tuple[float, ...] | None]:
        """The shrinkages, and the lassos that are compared, if any are."""
        shrinkages = SHRINKAGES if self.shrinkage == "oob" else (float(self.shrinkage),)
        chosen = self.leaf_lasso == "oob" and problem.leaves == "linear" and problem.n_features <= MOST_FEATURES
        return shrinkages, (0.0, *LASSOS) if chosen else None

    def growth(
        self, problem: TreeProblem, rng: Rng, tallies: dict[str, Tally], asked: TreeProblem | None = None
    ) -> Generator[None]:
        """Grow the trees.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        rng : numpy.random.Generator
            Random numbers.
        tallies : dict of str to Tally
            Where the trees go, one tally for each kind; filled here.
        asked : TreeProblem or None, default None
            The problem whose rows the forest will be asked for, which takes a part of the time; None: no matter.

        Yields
        ------
        None
            After each tree.
        """
        common, *_seeds_of_known = rng.spawn(1 + self.first)
        pristine = deepcopy(common)
        shrinkages, lassos = self._leaf_models(problem)

        def prepared(part: TreeProblem, sample: Any) -> Shared:
            options = replace(self, sample=sample)
            start = deepcopy(pristine) if self.common_start else None  # the same one for pilots and for later trees
            return Shared.of(part, options, shrinkages, start, lassos)

        kind: str = self.kind
        if kind == "auto":
            kind = yield from self._kind(problem, prepared, common, tallies)
            tallies.clear()
        shared = prepared(problem, self.sample)
        tallies[kind] = Tally(shared.of_kind(kind))
        numbers = range(self.first, self.first + self.n_trees)
        seeds = (rng.spawn(1)[0] for _ in numbers)
        yield from self._grow(shared, kind, numbers, seeds, tallies[kind], asked=asked)

    def quick_trees(self, train: TreeProblem, subsample: float) -> Callable[[Floats, Floats, Rng], Tree]:
        """Function that fits single trees of this kind under squared loss, by the compiled passes.

        The rows are prepared only once.

        Parameters
        ----------
        train : TreeProblem
            The problem whose rows the trees are fitted to.
        subsample : float
            Share of the rows in the sample of each tree.

        Returns
        -------
        callable
            Function of weights (n,), targets (n, K) and random numbers; it returns a tree.
        """
        ridge = self.ridge if self.shrinkage == "oob" else float(self.shrinkage)
        shared = Shared.of(train, replace(self, sample=subsample), (ridge,))
        shared = replace(shared, linear=shared.linear and not shared.wide)  # which would take too long for each tree
        kind = self.kind if self.kind != "auto" else "axis" if train.splits == "axis" else "oblique"

        def fit(weights: Floats, targets: Floats, rng: Rng) -> Tree:
            # single precision: keep the numbers in range
            unit = max(float(np.sqrt(np.mean(weights[:, None] * targets**2))), 1e-300)
            part = replace(shared, Y=(targets / unit).astype(np.float32), w=shared.w * weights.astype(np.float32))
            still = np.zeros(train.n_features)
            return grow(part, (kind, rng)).tree(0, None).unscale(still, still + 1.0, 0.0, unit)

        return fit

    def _kind(
        self, problem: TreeProblem, prepared: Callable[..., Shared], common: Rng, tallies: dict[str, Tally]
    ) -> Generator[None, None, str]:
        """The kind with the lowest out-of-bag error, by some trees of each that go into ``tallies``. Of large tables,
        kinds that are behind on some of the rows are left out before, by forests of as many trees as there will be in
        time; where the others cannot be compared on all rows in time, that says which.
        """
        whole, count = prepared(problem, "bootstrap"), PILOTS
        ours = "axis" if whole.axis_aligned else "oblique"
        kinds = ["cart-constant", "cart", ours] if whole.linear else ["cart", ours]
        clearly = 1.0 - CLEARLY * min(np.sqrt(2000.0 / problem.n_samples), 1.0)
        n_trees = float(self.first + self.n_trees)

        def best(errors: dict[str, float]) -> str:
            return min(errors, key=lambda kind: errors[kind] * (clearly if kind == ours else 1.0))

        if problem.n_samples > FIRST_ROWS:
            count = FEW_PILOTS
            yield from self._pilots(whole, kinds[:1], 1, common, tallies)  # a tree in case the time is short
            some = problem.sample(np.sort(common.choice(problem.n_samples, FIRST_ROWS, replace=False)))
            tried: dict[str, Tally] = {}
            until = (1.0 - LOOK) * seconds_left()
            part = prepared(some, 0.5)
            yield from self._pilots(part, kinds, count, common, tried, until)
            tried = {kind: tally for kind, tally in tried.items() if len(tally.grown) >= min(2, self.n_trees)}
            if not tried:
                return kinds[0]
            left, scale = seconds_left(), problem.n_samples / FIRST_ROWS
            in_time = {kind: max(min(n_trees, left / (scale * tally.pace)), 1.0) for kind, tally in tried.items()}
            errors = expected_errors(tried, in_time)
            yield from self._with_all_features(part, common, tried, errors, until)
            left = seconds_left()
            kinds = [kind for kind in errors if errors[kind] <= BEHIND * min(errors.values())]
            if len(kinds) == 1 or scale * count * sum(tried[kind].pace for kind in kinds) > LOOK * left:
                return best(errors)
        yield from self._pilots(whole, kinds, count, common, tallies)
        errors = expected_errors({kind: tallies[kind] for kind in kinds}, dict.fromkeys(kinds, n_trees))
        if problem.n_samples <= FIRST_ROWS:
            yield from self._with_all_features(whole, common, tallies, errors)
        return best(errors)

    def _with_all_features(
        self,
        shared: Shared,
        common: Rng,
        tallies: dict[str, Tally],
        errors: dict[str, float],
        until: float = 0.0,
    ) -> Iterator[None]:
        """Add to ``errors`` that of the better of CART's kinds with all features at each split, where half of them are
        usual and it is clearly better: where few features tell most, half of the splits are made without them.
        """
        half = min((kind for kind in errors if kind.startswith("cart")), key=errors.__getitem__, default="")
        if not half or not shared.takes_half:
            return
        whole = half + ALL_FEATURES
        yield from self._pilots(shared, [whole], FEW_PILOTS, common, tallies, until)
        gained = gain(tallies[half], tallies[whole], self.first + self.n_trees)
        if gained > ALL_CLEARLY:
            errors[whole] = (1.0 - gained) * errors[half]

    def _pilots(
        self,
        shared: Shared,
        kinds: Sequence[str],
        count: int,
        common: Rng,
        tallies: dict[str, Tally],
        until: float = 0.0,
    ) -> Iterator[None]:
        """Grow ``count`` trees of each kind into ``tallies``; see `_grow` for ``until``."""
        pilots = range(min(count, self.n_trees))
        seeds = common.spawn(len(pilots))
        tallies.update({kind: Tally(shared.of_kind(kind)) for kind in kinds})
        for kind in kinds:
            yield from self._grow(shared, kind, pilots, seeds, tallies[kind], until)

    def _grow(
        self,
        shared: Shared,
        kind: str,
        numbers: range,
        seeds: Iterable[Rng],
        tally: Tally,
        until: float = 0.0,
        asked: TreeProblem | None = None,
    ) -> Iterator[None]:
        """Grow trees of these numbers and seeds into ``tally``; none more, after the first, that would take until fewer
        than ``until`` seconds are left, and what it takes to ask the forest for the rows ``asked``. Oblique ones end
        with a pass, and may begin late.
        """
        began, to_ask = now(), 0.0
        trees = spread(grow, shared.of_kind(kind), ((kind, seed) for seed in seeds), self.n_jobs, len(numbers))
        with closing(trees):
            for i, tree in trees:
                tally.add(numbers[i], tree)
                tally.pace = max((now() - began) / len(tally.grown), 1e-9)
                if asked is not None and len(tally.grown) == 1:
                    to_ask = LOOKS * seconds_of_rows(tree.tree(0, None), asked.X)
                yield None
                reserved = until + to_ask * (len(tally.grown) + 1) + (0.0 if kind == "oblique" else tally.pace)
                if seconds_left() < reserved < np.inf:
                    return

    def _step(self, problem: TreeProblem, kind: str, tally: Tally, rows: NDArray[np.intp] | None) -> Step:
        """The forest at the best shrinkage, of trees on all rows of the problem or on these."""
        n_trees = self.first + self.n_trees
        best = tally.best(n_trees)
        forest = tally.forest(best, problem)
        if rows is not None and forest.outside is not None:
            means, counts = forest.outside
            of_all = np.full((problem.n_samples, means.shape[1]), np.nan), np.zeros(problem.n_samples, np.int64)
            of_all[0][rows], of_all[1][rows] = means, counts
            forest = replace(forest, outside=of_all)
        info = {
            "oob": float(tally.errors(n_trees)[best]),
            "shrinkage": tally.shrinkages[best],
            "lasso": tally.lassos[best],
            "trees": float(len(forest.trees)),
            "kind": float(KINDS.index(kind)),
        }
        return Step(forest, phase="forest", info=info)


def seconds_of_rows(tree: Tree, X: Any) -> float:
    """How long a tree takes for its answers to X, from some of the rows."""
    some, taken = X[:LOOKED_AT], np.inf
    for _ in range(2):  # the first time may be longer by far
        began = now()
        tree.outputs(some)
        taken = min(taken, now() - began)
    return taken * X.shape[0] / some.shape[0]


def expected_errors(tallies: dict[str, Tally], n_trees: dict[str, float]) -> dict[str, float]:
    """The out-of-bag errors that are expected of forests of so many trees of each kind."""
    both = np.min([tally.counts for tally in tallies.values()], axis=0) > 1
    rows = both if both.sum() >= FEW_PAIRS else None
    return {kind: float(np.nan_to_num(tally.errors(n_trees[kind], rows)).min()) for kind, tally in tallies.items()}


def gain(usual: Tally, other: Tally, n_trees: int) -> float:
    """By which share the other's expected out-of-bag error is lower, less two standard errors of the rows' mean."""
    rows = (usual.counts > 1) & (other.counts > 1)
    if rows.sum() < FEW_PAIRS:
        return 0.0
    first, second = (tally.row_errors(n_trees, rows) for tally in (usual, other))
    w = usual.shared.w[rows] / usual.shared.w[rows].sum()
    lower = first - second
    spread = np.sqrt(np.square(w) @ np.square(lower - w @ lower))
    return float((w @ lower - 2.0 * spread) / max(w @ first, 1e-300))


class Tally:
    """Trees, and running sums of out-of-bag errors for each set of leaf models: shrinkages and lassos."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.shrinkages, self.lassos = shared.shrinkages, shared.lassos
        self.grown: dict[int, GrownTree] = {}
        self.pace = np.inf  # seconds of a tree
        n, n_outputs = shared.Y.shape
        sets = len(self.shrinkages)
        self.residuals = np.zeros((sets, n, n_outputs))
        self.squares = np.zeros((sets, n))
        self.counts = np.zeros(n, np.int64)

    def add(self, number: int, tree: GrownTree) -> None:
        """One tree more."""
        self.grown[number] = tree
        X, Y, outside = self.shared.X, self.shared.Y, tree.outside
        for k, models in enumerate(tree.models):
            errors = alternation.answers(X, tree.leaf, models, tree.low, tree.high)[outside] - Y[outside]
            self.residuals[k][outside] += errors
            self.squares[k][outside] += np.square(errors).sum(axis=1)
        self.counts[outside] += 1

    def joined(self, other: Tally) -> Tally:
        """Its trees with another's trees, of other numbers and of the same rows and sets of leaf models."""
        whole = Tally(self.shared)
        whole.grown = other.grown | self.grown
        whole.residuals, whole.squares = self.residuals + other.residuals, self.squares + other.squares
        whole.counts = self.counts + other.counts
        return whole

    @classmethod
    def pooled(cls, parts: Sequence[tuple[Tally, int]]) -> Tally:
        """The sums over the trees of several tallies, each at the shrinkage of this number; without the trees."""
        whole = cls(parts[0][0].shared)
        whole.shrinkages = (np.nan,)
        whole.residuals = sum(tally.residuals[number] for tally, number in parts)[None]
        whole.squares = sum(tally.squares[number] for tally, number in parts)[None]
        whole.counts = np.sum([tally.counts for tally, _number in parts], axis=0)
        return whole

    def best(self, n_trees: int) -> int:
        """Number of the leaf models of a forest of ``n_trees``: of the sparsest whose expected error is at most `FREE`
        times the lowest, the best. Without errors, a shrinkage near 3 rows and no lasso.
        """
        errors = self.errors(n_trees)
        if not np.isfinite(errors).all():
            errors = np.abs(np.log(np.maximum(self.shrinkages, 1e-6)) - np.log(3.0)) + np.array(self.lassos)
            return int(np.argmin(errors))
        free = np.flatnonzero(errors <= FREE * errors.min())
        sparsest = max(self.lassos[i] for i in free)
        return int(min((i for i in free if self.lassos[i] == sparsest), key=lambda i: errors[i]))

    def forest(self, number: int, problem: TreeProblem) -> Forest:
        """The trees at shrinkage ``number``."""
        trees = tuple(self.grown[place].tree(number, problem.classes) for place in sorted(self.grown))
        return Forest((trees,), problem.n_outputs, self.outside(number))

    def outside(self, number: int) -> tuple[Floats, NDArray[np.int64]]:
        """For shrinkage ``number``, mean out-of-bag predictions (n, K), and the number of trees behind each."""
        with np.errstate(invalid="ignore", divide="ignore"):
            means = self.shared.Y + self.residuals[number] / self.counts[:, None]
        return means, self.counts

    def errors(self, n_trees: float, rows: NDArray[np.bool_] | None = None) -> Floats:
        """(shrinkages,) expected squared error of a forest of ``n_trees`` on new rows, summed over outputs.

        Estimated from the rows with at least two out-of-bag predictions (within the mask ``rows (n,)``, if given). With
        too few of these, the error of a single tree; NaN without any out-of-bag prediction.
        """
        w, counts = self.shared.w, self.counts
        seen, twice = counts > 0, (counts > 1 if rows is None else rows & (counts > 1))
        if not seen.any():
            return np.full(len(self.squares), np.nan)
        if twice.sum() < FEW_PAIRS:
            return np.sum(w[seen] * self.squares[:, seen] / counts[seen], axis=1) / w[seen].sum()
        pairs, alone = (np.sum(w[twice] * part, axis=1) / w[twice].sum() for part in self._of_rows(twice))
        return np.maximum(pairs + (alone - pairs) / n_trees, 0.0)

    def row_errors(self, n_trees: float, rows: NDArray[np.bool_]) -> Floats:
        """What each of these rows adds to the lowest of `errors`, but for its weight; it may be negative."""
        pairs, alone = (part[int(np.argmin(self.errors(n_trees, rows)))] for part in self._of_rows(rows))
        return pairs + (alone - pairs) / n_trees

    def _of_rows(self, rows: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """(shrinkages, m) mean products of residuals of two trees, and squared residuals of one, of each row."""
        squares, counts = self.squares[:, rows], self.counts[rows]
        products = np.square(self.residuals[:, rows]).sum(axis=2) - squares
        return products / (counts * (counts - 1.0)), squares / counts
