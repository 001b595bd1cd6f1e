"""`StackedForest`: a forest of trees of several kinds and of a linear model, as many of each as held-out rows say."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.model_selection import KFold, StratifiedKFold

from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.copies import different_rows, with_copies
from solvers.core.base import Solver, Step, Steps, at_hand, at_last_call
from solvers.core.result import Termination
from solvers.ensembles.forest import KINDS, Tally, TAOForest
from solvers.ensembles.growth import Shared
from solvers.ensembles.linear import RIDGES, ridge_leaf

Floats = NDArray[np.float64]
NEAR = 1.01  # times the expected error of endlessly many trees, where there are trees enough
SUM = 1e3  # weight of the condition that the weights add to one, against the data


@dataclass(frozen=True)
class Linear:
    """A linear model: the strength of its ridge, and its answers (n, K) to rows held out."""

    ridge: float
    answers: Floats


@dataclass(frozen=True)
class Fixed:
    """A tree that stands for a grown one."""

    fixed: Tree

    def tree(self, number: int, classes: NDArray[Any] | None) -> Tree:
        """The tree, whatever the shrinkage."""
        return replace(self.fixed, classes=classes)


def usual_members() -> tuple[TAOForest, ...]:
    """Oblique trees, axis-aligned ones by TAO, extremely randomised ones."""
    return tuple(TAOForest(kind=kind) for kind in ("oblique", "axis", "extra"))


def in_shares(weights: Floats, number: int) -> NDArray[np.intp]:
    """So many trees in shares of these weights, which add to one."""
    exact = weights * number
    counts = np.floor(exact).astype(np.intp)
    counts[np.argsort(counts - exact, kind="stable")[: number - counts.sum()]] += 1
    return counts


@dataclass(frozen=True)
class StackedForest(Solver):
    """A forest whose trees are of several kinds, in shares that predict best on held-out rows.

    In each of ``folds`` parts a small forest of every kind predicts the rows that are left out. The shares are the
    weights, nonnegative and adding to one, of least squares from these predictions to the outputs (class indicators
    in classification): stacking (Breiman, "Stacked regressions", 1996). Then the trees are grown on all rows, each
    kind its share of ``n_trees``, and averaged. With ``linear``, one of the kinds is a ridge regression (of classes, of
    their indicators, within 0 and 1), its strength chosen on the same parts: trees of one leaf, all the same.

    With ``most_trees``, trees are added in the same shares where the trees' variance says that it pays: so many that
    the expected error, by the rows that each tree leaves out, is within a hundredth of that of endlessly many.

    For squared loss and classification. ``step.info`` holds the expected squared error of new rows, from the rows that
    each tree leaves out ("oob", as in `TAOForest`), and each kind's number of trees ("oblique", "axis", ...).

    See Also
    --------
    opttree.TAOForestRegressor : the estimator
    TAOForest : of one kind

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import StackedForest, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> forest = solve(problem, StackedForest(n_trees=10), random_state=0)
    >>> len(forest.tree.trees)
    10
    """

    makes_forests = True
    wants_zero = True

    n_trees: int = option(30, "Number of trees.", least=1)
    members: tuple[TAOForest, ...] = option(
        factory=usual_members,
        doc='Forests, one for each kind but "auto", whose own ``n_trees`` does not matter.',
        test=lambda members: (
            len(members) > 0
            and all(isinstance(member, TAOForest) and member.kind != "auto" for member in members)
            and len({member.kind for member in members}) == len(members)
        ),
        words="forests of different kinds, none of them 'auto'",
    )
    folds: int = option(4, "Parts of the rows that are held out in turn.", least=2)
    fold_trees: int = option(10, "Trees of each kind in each fold.", least=1)
    most_trees: int | None = option(
        None,
        "Trees that there may be where more than ``n_trees`` pay; None: never more.",
        least=1,
    )
    linear: bool = option(False, "Whether a linear model is one of the kinds; for oblique splits, linear leaves.")

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what all members take."""
        reasons = (member.refusal(problem) for member in self.members)
        return next((reason for reason in reasons if reason is not None), None)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The constant tree, then the forest; where it is stopped, the forest of the trees that there are."""
        yield from at_hand(problem, start)
        early: dict[str, Tally] = {}
        grown: dict[str, Tally] = {}
        held_out: list[Floats] = []

        def forest() -> Step | None:
            finished = {kind: tally for kind, tally in (grown or early).items() if tally.grown}
            return self._step(problem, finished, *held_out) if finished else None

        yield from at_last_call(self._grown(problem, rng, early, grown, held_out), forest)
        yield forest()
        return Termination.ITERATION_LIMIT

    def _grown(
        self,
        problem: TreeProblem,
        rng: Rng,
        early: dict[str, Tally],
        grown: dict[str, Tally],
        held_out: list[Floats],
    ) -> Generator[None]:
        """Grow the trees of all kinds into ``grown``; ``early`` gets those of one kind on the first fold, for want of
        others; ``held_out`` the answers (n, K) of all kinds together to the rows held out.
        """
        seeds = rng.spawn(len(self.members))
        weights, linear, answers = yield from self._weights(problem, rng, early)
        held_out += [] if answers is None else [np.tensordot(weights, answers, axes=1)]
        counts = in_shares(weights, self.n_trees)
        for k in np.argsort(-counts, kind="stable"):  # the largest share first, in case time runs out
            if counts[k] and k == len(self.members):
                grown["linear"] = self._copies(problem, int(counts[k]), linear)
            elif counts[k]:
                yield from replace(self.members[k], n_trees=int(counts[k])).growth(problem, seeds[k], grown)
        more = in_shares(weights, self._worth(grown)) - counts
        for k in np.flatnonzero(more > 0):
            if k == len(self.members):
                grown["linear"] = self._copies(problem, int(counts[k] + more[k]), linear)
                continue
            added: dict[str, Tally] = {}
            kind = self.members[k].kind
            further = replace(self.members[k], n_trees=int(more[k]), first=int(counts[k]))
            for _ in further.growth(problem, seeds[k], added):
                yield
            (tally,) = added.values()
            grown[kind] = tally.joined(grown[kind]) if kind in grown else tally

    def _worth(self, grown: dict[str, Tally]) -> int:
        """The number of trees that pays."""
        most = max(self.most_trees or 0, self.n_trees)
        parts = [(tally, tally.best(self.n_trees)) for tally in grown.values()]
        errors = [float(Tally.pooled(parts).errors(number)[0]) for number in (1, 10**9)]
        if not np.isfinite(errors).all() or errors[1] <= 0.0:
            return self.n_trees
        return int(np.clip(np.ceil((errors[0] / errors[1] - 1.0) / (NEAR - 1.0)), self.n_trees, most))

    def _weights(
        self, problem: TreeProblem, rng: Rng, early: dict[str, Tally]
    ) -> Generator[None, Any, tuple[Floats, Linear, Floats | None]]:
        """The weights of the members and of the linear model, nonnegative, which add to one; that model; the answers
        (kinds, n, K) to the rows held out.
        """
        Y = np.eye(problem.n_outputs)[problem.Y[:, 0].astype(np.intp)] if problem.is_classification else problem.Y
        answers = np.zeros((len(self.members), *Y.shape))
        has_linear = self.linear and problem.splits == "oblique" and problem.leaves == "linear"
        by_ridge = np.zeros((len(RIDGES) if has_linear else 0, *Y.shape))
        first, copy = different_rows(problem.X, problem.Y)
        label, n_folds = problem.Y[first, 0], min(self.folds, first.size)
        if n_folds < 2:  # nothing can be left out
            return np.eye(len(self.members))[0], Linear(0.0, Y), None
        rare = problem.is_classification and np.bincount(label.astype(np.intp)).min() < n_folds
        kind = StratifiedKFold if problem.is_classification and not rare else KFold
        cuts = kind(n_folds, shuffle=True, random_state=int(rng.integers(2**31 - 1)))
        for train, valid in with_copies(cuts.split(label, label), copy):
            part = problem.sample(train)
            for k, strength in enumerate(RIDGES[: len(by_ridge)]):
                by_ridge[k, valid] = ridge_leaf(part, Y[train], strength).outputs(problem.X[valid])
                yield  # with a thousand features each takes a good part of a second
            for k, member in enumerate(self.members):
                few = replace(member, n_trees=self.fold_trees)
                tallies: dict[str, Tally] = {} if early else early
                yield from few.growth(part, rng.spawn(1)[0], tallies)
                (tally,) = tallies.values()
                answers[k, valid] = tally.forest(tally.best(self.n_trees), part).outputs(problem.X[valid])
        linear = Linear(0.0, Y)
        if len(by_ridge):
            best = int(np.argmin([np.sum(problem.w[:, None] * (answer - Y) ** 2) for answer in by_ridge]))
            linear = Linear(RIDGES[best], by_ridge[best])
            answers = np.concatenate([answers, by_ridge[best][None]])
        root = np.sqrt(problem.w)[:, None]
        table = np.column_stack([(root * answer).ravel() for answer in answers])
        unit = max(float(np.linalg.norm(table)), 1e-300)
        weights = nnls(np.vstack([table / unit, np.full(len(answers), SUM)]), np.append(root * Y / unit, SUM))[0]
        return weights / weights.sum(), linear, answers

    def _copies(self, problem: TreeProblem, number: int, linear: Linear) -> Tally:
        """So many copies of the linear model of all rows; their errors are those of the rows held out."""
        tally = Tally(Shared.of(problem, self.members[0], (np.nan,), None, None))
        tree = ridge_leaf(problem, tally.shared.Y.astype(np.float64), linear.ridge)
        tally.grown = dict.fromkeys(range(number), cast(Any, Fixed(tree)))
        errors = linear.answers - tally.shared.Y
        tally.residuals[0], tally.squares[0] = number * errors, number * np.square(errors).sum(axis=1)
        tally.counts[:] = number
        return tally

    def _step(self, problem: TreeProblem, tallies: dict[str, Tally], held_out: Floats | None = None) -> Step:
        """The forest of all trees, each kind at its best shrinkage.

        Its answers to rows held out are those of the folds, where there are any: few of its own trees leave a row out,
        but all copies of a linear model do.
        """
        total = sum(len(tally.grown) for tally in tallies.values())
        parts = [(tally, tally.best(total)) for tally in tallies.values()]
        forest, *others = (tally.forest(number, problem) for tally, number in parts)
        for other in others:
            forest = forest.joined(other)
        error = float(Tally.pooled(parts).errors(total)[0])
        if len(parts[0][0].counts) != problem.n_samples:  # trees of the first fold
            unseen = np.full((problem.n_samples, problem.n_outputs), np.nan), np.zeros(problem.n_samples, np.int64)
            forest, error = replace(forest, outside=unseen), np.nan
        elif held_out is not None:
            forest = replace(forest, outside=(held_out, np.full(problem.n_samples, total)))
        info = {"oob": error, "trees": float(total), "kind": float(KINDS.index("stacked"))}
        info |= {kind: float(len(tally.grown)) for kind, tally in tallies.items()}
        return Step(forest, phase="forest", info=info)
