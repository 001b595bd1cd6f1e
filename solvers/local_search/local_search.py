"""`LocalSearch`: Bertsimas and Dunn's search over trees, a node at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels import records
from opttree.kernels.exact import cuts, partition
from opttree.kernels.losses import codes
from opttree.kernels.passes.thresholds import between
from opttree.model.tree import Tree
from opttree.problems.exact.problem import refusal_of_sums, sums_of_rows
from opttree.runtime.clock import seconds_left
from opttree.runtime.options import option
from opttree.statement import L1, L2, SplitPrice, TreeProblem
from opttree.statement.constraints import FeatureCost, ForbidSplit, MaxFeatures, MaxSplits, MinPerGroup, PathCost
from opttree.statement.numbers import apart
from solvers.core.base import Solver, Step, Steps
from solvers.core.driver import solve
from solvers.core.result import Termination
from solvers.exact import BranchAndBound
from solvers.initial import CartInit
from solvers.initial.base import Initial
from solvers.local_search.search_tree import Rows, SearchTree

Floats = NDArray[np.float64]
DEEP = 10_000  # rows x features up to which optimal subtrees have more than two levels
EXACT_WORK = 1e10  # terms of the costs of an optimal subtree, beyond which there is none
CUTS, PLACES = 50, 64  # of each feature: thresholds, and places on either side of one, that bounds do not rule out
MOST_EQUATIONS = 2000  # features of a linear leaf: with more, one leaf takes over two seconds
SCAN_WORK, FEWEST = 3e7, 32  # multiplications of the least squares of a scan; least number of thresholds per feature
LEAST_GAIN = 1e-9  # least decrease that counts as descent, relative to the one-leaf tree's cost
OF_FEATURES = (MaxFeatures, FeatureCost, ForbidSplit, PathCost)  # constraints for which thresholds matter little
TOGETHER = 2**22  # numbers that are sorted together; the orders of columns of fewer are kept
EDGE = 0.05  # distance of a hyperplane's pivot outside the data, in ranges of the feature


class Move(NamedTuple):
    """A changed tree and the cost of the changed part, prices included."""

    cost: float
    tree: SearchTree


@dataclass(frozen=True)
class LocalSearch(Solver):
    """Change one node at a time to its best alternative until no node improves (Bertsimas and Dunn's ORT-LS and OCT
    local search), from several starts.

    Nodes are visited in random order. Alternatives, evaluated with all leaves below refitted: another split, no split,
    replacement by one of its children, and, for constant leaves, the optimal subtree of small depth, unless there are
    too many features and classes. Another split is the best threshold over all features (under ``n_thresholds`` the
    best of some, and of those between its neighbours); for oblique problems also the present hyperplane shifted, or
    rotated about either end of one feature's range. A
    change is taken only if it lowers the objective.

    See Also
    --------
    opttree.ORTRegressor : the estimator
    BranchAndBound : proves how good its trees are

    References
    ----------
    Bertsimas and Dunn, "Optimal classification trees", Machine Learning 106 (2017); "Machine Learning Under a
    Modern Optimization Lens" (2019).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import LocalSearch, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
    >>> result = solve(problem, LocalSearch(n_starts=2), random_state=0)
    >>> result.objective < problem.objective(problem.best_constant())
    True
    """

    respects = (MaxSplits, MaxFeatures, FeatureCost, ForbidSplit, MinPerGroup, PathCost)
    needs = ()  # a branch in the kernels, or what `opttree.problems.exact.problem.sums_of_rows` needs
    n_starts: int = option(
        20, """Searches; the first from the start tree or ``init``, others from random thresholds.""", least=1
    )
    init: Initial = option(factory=CartInit, doc="Initial tree.")
    n_thresholds: int | Literal["all", "auto"] = option(
        "auto",
        """"all", or how many thresholds per feature are tried first; then all between the neighbours of the best.
        "auto": all for constant leaves; for linear leaves, where every threshold needs a least-squares solution, as
        many as take a few hundredths of a second, at least 32.""",
        least=1,
    )
    max_passes: int = option(100, "Passes over the nodes per search.", least=1)
    max_splits: int | None = option(None, "Largest number of branch nodes, or None.", least=0)
    exact_levels: int = option(
        3,
        """Largest depth of optimal subtrees, by `BranchAndBound` over all thresholds, from 2 to 6; 0 for none. More
        than 2 levels are tried where rows times features are at most 10,000.""",
        test=lambda levels: levels == 0 or 2 <= levels <= 6,
        words="0 or an integer from 2 to 6",
    )

    min_linear_rows: int | None = option(
        None, "Fewest rows of a linear leaf, ``2 (p + 1)`` by default; smaller leaves stay constant.", least=1
    )

    @staticmethod
    def paper(n_starts: int = 10) -> LocalSearch:
        """ORT-L as in the experiments of the SRT paper: Bertsimas and Dunn's local search, a split at a time, all
        leaves linear, for features in [0, 1], standardised outputs and ``L1(leaves=1e-3)``.

        The paper uses the authors' commercial program, whose number of restarts and least number of rows in a leaf it
        does not state: here ten searches, and one row. Where a lasso leaf's penalty is in the objective is not stated
        either; here it is added to the mean loss, for each leaf. Answers are clipped as by default.

        Parameters
        ----------
        n_starts : int, default 10
            Number of searches.

        Returns
        -------
        LocalSearch
            The solver.

        Examples
        --------
        >>> from solvers import LocalSearch
        >>> LocalSearch.paper().n_starts
        10
        """
        return LocalSearch(n_starts=n_starts, exact_levels=0, min_linear_rows=1)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes losses with a branch in the kernels or sums of statistics with constant leaves, squared loss with
        linear leaves of up to `MOST_EQUATIONS` features.
        """
        if problem.loss_code == codes.TABLE and (reason := refusal_of_sums(problem)) is not None:
            return reason
        if problem.leaves == "linear" and problem.loss_function.form != "quadratic":
            return f"linear leaves of loss {problem.loss!r} have no normal equations; use loss='squared'"
        if problem.leaves == "linear" and problem.n_features > MOST_EQUATIONS:
            return (
                f"it solves the normal equations of every leaf that it tries; of {problem.n_features} features, more "
                f"than {MOST_EQUATIONS}, each takes seconds; use TAO or leaves='constant'"
            )
        if any(not isinstance(q, (L1, L2, SplitPrice)) for q in problem.penalties):
            return "it supports the penalties L1, L2 and SplitPrice only"
        if problem.splits == "oblique" and problem.strength(L1, "splits"):
            return "it supports no l1 penalty on oblique splits; use TAO or GET"
        return self.init._refusal(problem)  # its tree is pruned to the limits

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Searches one after another, with a step after every pass."""
        constant = problem.one_leaf()
        if any(c.violation(problem, constant) is not None for c in problem.constraints):
            return Termination.INFEASIBLE  # what one leaf of all rows violates, leaves of fewer rows do
        if start is not None and start.n_branches <= self._most_splits(problem):
            yield Step(problem.live(start), phase="start")
        yield Step(constant, phase="constant")
        if problem.depth == 0:
            return Termination.LOCALLY_OPTIMAL
        costs = Costs(problem, self.min_linear_rows)
        for run in range(self.n_starts):
            start_rng = rng.spawn(1)[0]
            if run > 0:
                tree = _random_tree(problem, start_rng)
            elif start is not None:
                tree = start
            else:
                tree = self.init.build(problem, start_rng)
            grown = self._pruned(SearchTree.of(problem, tree).live())
            phase = f"search {run + 1}"
            yield Step(problem.fit_leaves(grown.tree(), min_rows=self.min_linear_rows), phase=phase)
            improved = True
            for _ in range(self.max_passes):
                grown, improved = yield from self._one_pass(grown, costs, start_rng)
                if improved:
                    yield Step(problem.fit_leaves(grown.tree(), min_rows=self.min_linear_rows), phase=phase)
                else:
                    break
        return Termination.ITERATION_LIMIT if improved else Termination.LOCALLY_OPTIMAL

    def _most_splits(self, problem: TreeProblem) -> float:
        """The largest number of branches."""
        return min(limit for limit in (self.max_splits, problem.max_splits, np.inf) if limit is not None)

    def _allowed(self, grown: SearchTree) -> bool:
        """Whether the tree is within ``max_splits`` and satisfies the side constraints."""
        problem = grown.problem
        if grown.n_splits() > self._most_splits(problem):
            return False
        tree = grown.tree() if problem.constraints else None
        return tree is None or all(c.violation(problem, tree) is None for c in problem.constraints)

    def _pruned(self, grown: SearchTree) -> SearchTree:
        """The tree without its last branches, as many as limits and constraints ask for."""
        for t in reversed(grown.nodes()):
            if self._allowed(grown):
                break
            grown = grown.without(t)
        return grown

    def _one_pass(self, grown: SearchTree, costs: Costs, rng: Rng) -> Generator[None, None, tuple[SearchTree, bool]]:
        """One pass over all nodes; returns the tree and whether it has improved."""
        improved = False
        places = grown.nodes()
        for place in rng.permutation(places).tolist():
            yield
            if place not in grown.nodes():
                continue  # removed by an earlier move
            rows = grown.rows_at(place)
            if rows.size == 0 or costs.is_settled(grown, place, rows):
                continue
            spare = self._most_splits(grown.problem) - grown.n_splits() + grown.n_splits(place)
            now = costs.below(grown, place, rows)
            best: Move | None = None
            for move in self._moves(grown, place, rows, costs, spare):
                if move.cost < (now if best is None else best.cost) - costs.slack and self._allowed(move.tree):
                    best = move
            if best is not None and self._allowed(live := best.tree.live()):
                grown, improved = live, True
            elif best is None and seconds_left() > 0.0:
                costs.settle(grown, place, rows)
        return grown, improved

    def _moves(self, grown: SearchTree, place: int, rows: Rows, costs: Costs, spare: float) -> Iterator[Move]:
        """The alternatives at a node that ``rows`` reach, with at most ``spare`` branches at and below it."""
        if grown.is_branch(place):
            leaf = grown.without(place)
            yield Move(costs.below(leaf, place, rows), leaf)
            for child in (2 * place + 1, 2 * place + 2):
                if grown.is_branch(child):
                    lifted = grown.with_subtree(place, grown, child)
                    yield Move(costs.below(lifted, place, rows), lifted)
        if grown.depth_left(place) >= 1 and spare >= 1 and rows.size >= 2 and seconds_left() > 0.0:
            yield from self._resplit(grown, place, rows, costs)
        if seconds_left() > 0.0:
            yield from self._optimal_below(grown, place, rows, costs, spare)

    def _resplit(self, grown: SearchTree, place: int, rows: Rows, costs: Costs) -> Iterator[Move]:
        """The best other split."""
        problem = grown.problem
        families: list[tuple[Floats, float, tuple[int, float] | None]] = [
            (normal, 0.0, None) for normal in np.eye(problem.n_features)
        ]
        sort_by: list[Floats | int] = list(range(problem.n_features))
        if problem.splits == "oblique" and grown.is_branch(place):
            a0, threshold = grown.branches[place]
            side = grown.side(rows, place)
            families.append((a0, 0.0, None))
            sort_by.append(side)
            for j in range(problem.n_features):
                x = problem.X[rows, j]
                width = float(np.ptp(x))
                for end, sign in ((x.min() - EDGE * width, -1.0), (x.max() + EDGE * width, 1.0)):
                    if width > 0.0 and np.all(x != end):  # a.x - b + d (x_j - end) = 0 at d = (b - a.x) / (x_j - end)
                        families.append((a0, float(end), (j, sign)))
                        sort_by.append(sign * (threshold - side) / (x - end))
        if limits := [c for c in problem.constraints if isinstance(c, OF_FEATURES)]:
            tried = [grown.with_split(place, a, 0.0).tree() for a, _end, _turn in families]
            kept = [f for f, tree in enumerate(tried) if all(c.violation(problem, tree) is None for c in limits)]
            families, sort_by = [families[f] for f in kept], [sort_by[f] for f in kept]
        best: tuple[float, int, float] | None = None
        width = max(TOGETHER // rows.size, 1)  # families at a time: the clock is looked at in between
        for first in range(0, len(families), width):
            if first and seconds_left() <= 0.0:
                break
            found = costs.best_split(grown, place, rows, sort_by[first : first + width], self.n_thresholds)
            if found is not None and (best is None or found[0] < best[0]):
                best = found[0], first + found[1], found[2]
        if best is None:
            return
        cost, family, cut = best
        a, end, turn = families[family]
        if turn is None:
            b = cut
        else:
            j, sign = turn
            d = sign * cut
            a = a.copy()
            a[j] += d
            b = grown.branches[place][1] + d * end
        new = grown.with_split(place, a, b)
        # rounding may change the side of rows at a rotated hyperplane; the cost of a lasso leaf depends a little on its
        # solver's start, and with such noise passes would go on to improve for ever
        if turn is not None or costs.linear:
            cost = costs.below(new, place, rows)
        yield Move(cost, new)

    def _optimal_below(self, grown: SearchTree, place: int, rows: Rows, costs: Costs, spare: float) -> Iterator[Move]:
        """The optimal subtree, of as many levels as there is time for."""
        most = min(self.exact_levels, grown.depth_left(place))
        quick = costs.work(rows, 2) <= EXACT_WORK
        if most >= 2 and spare >= 2 and rows.size >= 2 and not costs.linear and quick:
            new = grown.with_subtree(place, costs.optimal_subtree(rows, most, spare), 0)
            yield Move(costs.below(new, place, rows), new)


class Costs:
    """Costs of leaves on the rows of a problem, computed by the kernels."""

    def __init__(self, problem: TreeProblem, min_linear_rows: int | None = None) -> None:
        self.problem = problem
        self.Y = problem.Y
        if not problem.is_classification:
            self.Y = problem.Y - np.sum(problem.w[:, None] * problem.Y, axis=0)
        self.linear = problem.leaves == "linear"
        self.rows = records.Rows(problem.X, self.Y, problem.w)
        code, leaf = problem.loss_code, partition.Form._field_defaults["leaf"]
        if code == codes.TABLE:
            code, (sums, leaf) = codes.SUMS, sums_of_rows(problem)
            self.rows = records.Rows(problem.X, sums, problem.w)
        self.form = partition.Form(
            code,
            problem.n_outputs if problem.is_classification else 0,
            self.linear,
            problem.strength(L1, "leaves"),
            problem.strength(L2, "leaves"),
            2 * (problem.n_features + 1) if min_linear_rows is None else min_linear_rows,
            problem.min_leaf,
            leaf,
        )
        p = problem.n_features
        self.n_thresholds = max(FEWEST, int(SCAN_WORK / (4.0 * p * (p + 1.0) ** 3))) if self.linear else "all"
        self.subtrees: dict[tuple[bytes, int, int], SearchTree] = {}
        self.settled: set[tuple[object, ...]] = set()
        self.sorted: NDArray[np.int32] | None = None
        if problem.X.size <= TOGETHER:
            self.sorted = np.argsort(problem.X, axis=0, kind="stable").T.astype(np.int32)
        rows = np.arange(problem.n_samples, dtype=np.int32)
        self.slack = LEAST_GAIN * self.of(rows, np.zeros(rows.size, np.int64), 1)

    def _by_y(self, rows: Rows) -> NDArray[np.int32]:
        """Rows in the order of each output, if the loss needs it."""
        if self.problem.loss_code != codes.ABSOLUTE:
            return np.zeros((0, rows.size), np.int32)
        return rows[np.argsort(self.Y[rows], axis=0, kind="stable")].T.copy()

    def of(self, rows: Rows, slot: NDArray[np.int64], n_slots: int) -> float:
        """Cost of ``rows`` in the leaves ``slot``."""
        slots = partition.Slots(slot, n_slots)
        if self.linear:
            return float(cuts.leaves_cost(rows, self.rows, slots, self.form))
        return float(partition.leaves_cost(rows, self.rows, slots, self.form, self._by_y(rows)))

    def below(self, grown: SearchTree, place: int, rows: Rows) -> float:
        """Cost of the subtree at a place for ``rows``, prices included."""
        return self.of(rows, *grown.leaves_of(rows, place)) + self.problem.price_per_split * grown.n_splits(place)

    def is_settled(self, grown: SearchTree, place: int, rows: Rows) -> bool:
        """Whether the subtree at a place is known to have no better alternative for ``rows``."""
        return self._state(grown, place, rows) in self.settled

    def settle(self, grown: SearchTree, place: int, rows: Rows) -> None:
        """Remember that the subtree at a place has no better alternative for ``rows``."""
        if not self.problem.constraints:
            self.settled.add(self._state(grown, place, rows))

    @staticmethod
    def _state(grown: SearchTree, place: int, rows: Rows) -> tuple[object, ...]:
        """What the alternatives at a place depend on, but for constraints."""
        digest = blake2b(rows.tobytes(), digest_size=16).digest()
        elsewhere = grown.n_splits() - grown.n_splits(place)
        return digest, grown.depth_left(place), elsewhere, grown.subtree(place)

    def work(self, rows: Rows, levels: int) -> float:
        """Terms of the costs of an optimal subtree of so many levels, about."""
        p, m = self.problem.n_features, rows.size
        return float(min(m, CUTS) * p) ** (levels - 1) * min(m, PLACES) * p * self.problem.n_outputs

    def optimal_subtree(self, rows: Rows, levels: int, spare: float) -> SearchTree:
        """An optimal axis-aligned subtree for ``rows`` of at most ``levels`` levels, as work allows, and ``spare``
        splits.
        """
        problem = self.problem
        while levels > 2 and (rows.size * problem.n_features > DEEP or self.work(rows, levels) > EXACT_WORK):
            levels -= 1
        most = int(min(spare, 2**levels - 1))
        key = rows.tobytes(), levels, most
        if key not in self.subtrees:
            part = problem.restrict(rows, levels, splits="axis")
            left = seconds_left()
            limit = max(left, 1e-3) if np.isfinite(left) else None
            tree = solve(part, BranchAndBound(init=None, max_splits=most), time_limit=limit).tree
            assert isinstance(tree, Tree)
            self.subtrees[key] = SearchTree.of(part, tree)
        return self.subtrees[key]

    def best_split(
        self, grown: SearchTree, place: int, rows: Rows, sort_by: Sequence[Floats | int], n_thresholds: int | str
    ) -> tuple[float, int, float] | None:
        """The best split over families, which sort ``rows`` by a feature or by values (m,): cost, family, threshold."""
        order, value = self._in_order(rows, sort_by)
        possible = np.zeros(value.shape, bool)
        possible[:, :-1] = value[:, 1:] > value[:, :-1] if self.problem.splits == "axis" else apart(value)
        sides = [partition.Slots(*grown.leaves_of(rows, 2 * place + side)) for side in (1, 2)]
        most = self.n_thresholds if n_thresholds == "auto" else n_thresholds
        wanted = possible if most == "all" else _thin(possible, int(most))
        best, family, at = self._cheapest(rows, order, wanted, sides)
        if best == np.inf:
            return None
        if most != "all":
            tried = np.flatnonzero(wanted[family])
            where = int(np.searchsorted(tried, at))
            near = possible[family : family + 1].copy()
            near[0, : tried[where - 1] + 1 if where else 0] = False
            near[0, tried[where + 1] if where + 1 < tried.size else near.shape[1] :] = False
            cost, _family, position = self._cheapest(rows, order[family : family + 1], near, sides)
            if cost < best:
                best, at = cost, position
        splits = 1 + sum(grown.n_splits(2 * place + side) for side in (1, 2))
        threshold = between(value[family, at], value[family, at + 1])
        return best + self.problem.price_per_split * splits, family, float(threshold)

    def _in_order(self, rows: Rows, sort_by: Sequence[Floats | int]) -> tuple[NDArray[np.int32], Floats]:
        """Positions in ``rows (F, m)`` in the order of each family, and the values in this order."""
        X = self.problem.X
        features = [by for by in sort_by if isinstance(by, int)]
        if self.sorted is not None and len(features) == len(sort_by):
            place = np.full(len(X), -1, np.int32)
            place[rows] = np.arange(rows.size, dtype=np.int32)
            order = place[self.sorted[features]]
            order = order[order >= 0].reshape(len(features), rows.size)
            return order, X[rows[order], np.array(features)[:, None]]
        values = np.array([X[rows, by] if isinstance(by, int) else by for by in sort_by])
        order = np.argsort(values, axis=1, kind="stable").astype(np.int32)
        return order, np.take_along_axis(values, order, axis=1)

    def _cheapest(
        self, rows: Rows, order: NDArray[np.int32], wanted: NDArray[np.bool_], sides: list[partition.Slots]
    ) -> tuple[float, int, int]:
        """The cheapest of the ``wanted (F, m)`` cuts of families, ``order`` of ``rows``: cost, family, position."""
        if not self.linear:
            cost, position = partition.best_splits(
                rows[order], wanted, self.rows, tuple(sides), self.form, self._by_y(rows)
            )
            best = int(cost.argmin())
            return float(cost[best]), best, int(position[best])
        data = records.Rows(*(a[rows] for a in self.rows))
        own = tuple(partition.Slots(side.of[rows], side.count) for side in sides)
        count = wanted.sum(axis=1)
        family, position = np.nonzero(wanted)
        at = np.full((len(wanted), max(count.max(), 1)), -1)
        at[family, np.arange(family.size) - np.repeat(count.cumsum() - count, count)] = position
        return cuts.best_cuts(order, at, data, own, self.form)


def _thin(possible: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
    """At most ``most`` of the possible cuts of each family, next to the quantiles of the rows."""
    thin = np.zeros_like(possible)
    wanted = np.arange(1, most + 1) / (most + 1) * possible.shape[1]
    for cuts_of_family, chosen in zip(possible, thin, strict=True):
        cuts = np.flatnonzero(cuts_of_family)
        if cuts.size > most:
            right = np.clip(np.searchsorted(cuts, wanted), 1, cuts.size - 1)
            nearer = wanted - cuts[right - 1] < cuts[right] - wanted
            cuts = cuts[np.where(nearer, right - 1, right)]
        chosen[cuts] = True
    return thin


def _random_tree(problem: TreeProblem, rng: Rng) -> Tree:
    """A random tree: at each node the best of one random threshold per feature (scikit-learn's random splitter)."""
    part = problem.sample(np.arange(problem.n_samples), leaves="constant", penalties=(), splits="axis")
    return CartInit(splitter="random").build(part, rng)
