"""Side constraints of the statement: conditions on trees beyond their depth and the kinds of their splits and leaves.

A constraint must hold for the tree as it stands and for the same tree without the branches that send all rows one way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.options import Checked, option

Floats = NDArray[np.float64]
EXACT = 1e-9  # relative to the range of the outputs: how far answers may be over a limit by rounding
Levels = int | tuple[int, ...] | None


class Statement(Protocol):
    """What constraints ask of a `TreeProblem`."""

    @property
    def depth(self) -> int:
        """Largest depth."""

    @property
    def splits(self) -> str:
        """Kind of the splits."""

    @property
    def leaves(self) -> str:
        """Kind of the leaves."""

    @property
    def X(self) -> Floats:  # noqa: N802
        """(n, p) features."""

    @property
    def Y(self) -> Floats:  # noqa: N802
        """(n, K) outputs, or (n, 1) class codes."""

    @property
    def w(self) -> Floats:
        """(n,) weights that sum to one."""

    @property
    def loss(self) -> Any:
        """The loss."""

    @property
    def constraints(self) -> Sequence[Constraint]:
        """The side constraints."""

    @property
    def n_samples(self) -> int:
        """N."""

    @property
    def n_features(self) -> int:
        """P."""

    @property
    def n_outputs(self) -> int:
        """K."""

    @property
    def is_classification(self) -> bool:
        """Whether y holds labels."""

    def leaves_of(self, tree: Tree) -> NDArray[np.int32]:
        """Leaf node of each row (n,)."""


class Limits(NamedTuple):
    """Linear limits ``sum_lk G[m, l, k] V[l, k] <= h[m]`` on the answers V of the leaves, see `answers`."""

    G: Floats
    h: Floats


class Constraint(Checked):
    """Base class of side constraints; all are frozen dataclasses without data of the problem, `MaxDifference` apart.

    See Also
    --------
    solvers.MIP : proves under side constraints
    LeafConstraint : those that bind leaves together

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import Constraint
    >>> from solvers import TAO, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> from opttree.constraints import MaxSplits
    >>> isinstance(MaxSplits(1), Constraint)
    True
    >>> problem = TreeProblem(X, y, depth=1, constraints=MaxSplits(0))
    >>> problem.violation(solve(TreeProblem(X, y, depth=1), TAO(), random_state=0).tree)
    'the tree has 1 splits; MaxSplits(k=0) allows 0'
    """

    def refusal(self, problem: Statement) -> str | None:
        """Why ``problem`` cannot have this constraint, in one sentence, or None."""
        return None

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """Why ``tree`` does not satisfy the constraint, in one sentence, or None."""
        raise NotImplementedError(f"{type(self).__name__} must define violation")

    def on_rows(self, rows: NDArray[np.integer], n: int) -> Constraint | None:
        """The constraint for the problem of some of its ``n`` rows, given by number; None if it does not concern it."""
        return self

    def in_units(self, y_scale: Floats) -> Constraint:
        """The constraint for outputs divided by ``y_scale (K,)``."""
        return self


class LeafConstraint(Constraint):
    """A constraint on the answers of several leaves, which are therefore fitted together.

    See Also
    --------
    solvers.MIP : proves under side constraints
    Monotone, MaxDifference : its kinds

    Examples
    --------
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import LeafConstraint, Monotone
    >>> from solvers import MIP, solve
    >>> isinstance(Monotone(0), LeafConstraint)
    True
    >>> stated = TreeProblem([[0], [1], [2], [3]], [0, 2, 1, 3], depth=2, splits="axis", constraints=[Monotone(0)])
    >>> solve(stated, MIP("flow")).tree.predict([[0], [1], [2], [3]]).round(6).tolist()
    [0.0, 1.5, 1.5, 3.0]
    """

    def limits(self, problem: Statement, tree: Tree) -> Limits:
        """The limits on the answers of the leaves."""
        raise NotImplementedError(f"{type(self).__name__} must define limits")

    def refusal(self, problem: Statement) -> str | None:
        """Answers are constants, of one output for all but 0/1 loss."""
        if problem.leaves != "constant":
            return f"{type(self).__name__} is for constant leaves"
        if problem.loss == "log" and problem.n_outputs != 2:
            return f"{type(self).__name__} under log loss is for two classes; got {problem.n_outputs}"
        return None

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The limits, to rounding."""
        G, h = self.limits(problem, tree)
        if not h.size:
            return None
        over = np.einsum("mlk,lk->m", G, answers(problem, tree)) - h
        unit = 1.0 if problem.is_classification else float(np.ptp(problem.Y, axis=0).max()) or 1.0
        if over.max() <= EXACT * unit:
            return None
        return self._words(float(over.max()))

    def _words(self, over: float) -> str:
        raise NotImplementedError


def answers(problem: Statement, tree: Tree) -> Floats:
    """What the leaves answer, as constraints see it: values (L, K) in regression; the probability of the second class
    (L, 1) under log loss; 1 for the predicted class and 0 for the others (L, K) under 0/1 loss.
    """
    if problem.loss == "zero_one":
        return np.eye(problem.n_outputs)[tree.values.argmax(axis=1)]
    return tree.values[:, 1:] if problem.loss == "log" else tree.values


def _check_feature(feature: int, problem: Statement) -> str | None:
    if feature >= problem.n_features:
        return f"feature must be below the number of features, {problem.n_features}; got {feature}"
    return None


def _features(tree: Tree) -> NDArray[np.intp]:
    """The features in the splits of ``tree``."""
    return np.flatnonzero(np.any(tree.A != 0.0, axis=0))


@dataclass(frozen=True)
class MaxSplits(Constraint):
    """At most ``k`` branch nodes.

    See Also
    --------
    solvers.MIP : proves under side constraints
    opttree.SplitPrice : a price instead of a largest number

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import MaxSplits
    >>> from solvers import MIP, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> solve(TreeProblem(X, y, depth=2, splits="axis", constraints=[MaxSplits(2)]), MIP()).tree.n_branches
    2
    """

    k: int = option(least=0)

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The number of branches."""
        return None if tree.n_branches <= self.k else f"the tree has {tree.n_branches} splits; {self} allows {self.k}"


@dataclass(frozen=True)
class MaxFeatures(Constraint):
    """At most ``k`` different features in the splits; one with a weight other than 0 counts.

    See Also
    --------
    solvers.MIP : proves under side constraints
    FeatureCost : features that cost different amounts

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import MaxFeatures
    >>> from solvers import MIP, solve
    >>> rows, target = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0.0, 1.0, 3.0, 4.0])
    >>> for constraints in ([], [MaxFeatures(1)]):
    ...     tree = solve(TreeProblem(rows, target, depth=2, splits="axis", constraints=constraints), MIP()).tree
    ...     print(len({int(j) for j in np.nonzero(tree.A)[1]}))
    2
    1
    """

    k: int = option(least=0)

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The number of features."""
        used = _features(tree).size
        return None if used <= self.k else f"the tree splits on {used} features; {self} allows {self.k}"


@dataclass(frozen=True)
class MinLeaf(Constraint):
    """At least ``k`` rows in every nonempty leaf: ``TreeProblem(min_leaf=k)`` in other words, which it becomes.

    See Also
    --------
    solvers.MIP : proves under side constraints
    opttree.TreeProblem : its ``min_leaf`` is the same

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import MinLeaf
    >>> from solvers import MIP, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> tree = solve(TreeProblem(X, y, depth=2, splits="axis", constraints=[MinLeaf(3)]), MIP()).tree
    >>> int(np.bincount(tree.apply(X))[tree.n_branches:].min()) >= 3
    True
    """

    k: int = option(least=1)


@dataclass(frozen=True, eq=False)
class FeatureCost(Constraint):
    """The costs of the different features in the splits add up to at most ``budget``.

    Parameters
    ----------
    costs : (p,) numbers >= 0, or a mapping from features to them; features that it does not name are free.
    budget : >= 0.

    See Also
    --------
    solvers.MIP : proves under side constraints
    MaxFeatures : where all cost the same

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import FeatureCost
    >>> from solvers import MIP, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> stated = TreeProblem(X, y, depth=2, splits="axis", constraints=[FeatureCost([3.0, 1.0], budget=2.0)])
    >>> tree = solve(stated, MIP()).tree
    >>> bool((tree.A[:, 0] == 0.0).all())
    True
    """

    costs: Any
    budget: float = option(least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.costs
        numbers = np.asarray(list(given.values()) if isinstance(given, Mapping) else given, np.float64)
        if numbers.ndim != 1 or not (np.isfinite(numbers) & (numbers >= 0)).all():
            raise ValueError(f"costs must be a list of finite numbers >= 0 or a mapping to them; got {given!r}")
        if isinstance(given, Mapping) and not all(isinstance(j, (int, np.integer)) and j >= 0 for j in given):
            raise ValueError(f"costs must be a mapping from numbers of features >= 0; got {given!r}")

    def of(self, problem: Statement) -> Floats:
        """(p,) the cost of each feature."""
        if not isinstance(self.costs, Mapping):
            return np.asarray(self.costs, np.float64)
        costs = np.zeros(problem.n_features)
        costs[list(self.costs)] = list(self.costs.values())
        return costs

    def refusal(self, problem: Statement) -> str | None:
        """One cost per feature."""
        if isinstance(self.costs, Mapping):
            return next((why for j in self.costs if (why := _check_feature(int(j), problem))), None)
        if len(self.costs) != problem.n_features:
            return f"costs must have one entry per feature, {problem.n_features}; got {len(self.costs)}"
        return None

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The sum of the costs."""
        spent = float(self.of(problem)[_features(tree)].sum())
        if spent <= self.budget + EXACT * max(self.budget, 1.0):
            return None
        return f"the features of the tree cost {spent:g}; the budget is {self.budget:g}"


@dataclass(frozen=True)
class _Split(Constraint):
    """A condition on the splits on a feature, at all levels or some; the root is level 0."""

    feature: int = option(doc="Number of the feature.", least=0)
    where: Levels = option(None, "Level, or tuple of levels, of the splits; None: all.", least=0)

    def at(self, level: int) -> bool:
        """Whether splits at ``level`` count."""
        return self.where is None or level in ((self.where,) if isinstance(self.where, int) else self.where)

    def refusal(self, problem: Statement) -> str | None:
        """The feature is there."""
        return _check_feature(self.feature, problem)

    def _there(self, tree: Tree) -> bool:
        """Whether the tree has such a split."""
        levels = tree.node_depth[: tree.n_branches]
        return any(self.at(int(level)) for level in levels[tree.A[:, self.feature] != 0.0])

    @property
    def _place(self) -> str:
        return f"feature {self.feature}" + ("" if self.where is None else f" at level {self.where}")


@dataclass(frozen=True)
class ForbidSplit(_Split):
    """No split on ``feature``, at the levels ``where`` (the root is level 0) or anywhere.

    See Also
    --------
    solvers.MIP : proves under side constraints
    RequireSplit : the opposite

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import ForbidSplit
    >>> from solvers import MIP, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> stated = TreeProblem(X, y, depth=2, splits="axis", constraints=[ForbidSplit(0, where=0)])
    >>> tree = solve(stated, MIP()).tree
    >>> bool(tree.A[0, 0] == 0.0)
    True
    """

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The splits on the feature."""
        return f"the tree has a split on {self._place}; it is forbidden" if self._there(tree) else None


@dataclass(frozen=True)
class RequireSplit(_Split):
    """At least one split on ``feature``, at one of the levels ``where`` (the root is level 0) or anywhere.

    A split that sends all rows one way does not count. Axis-aligned splits.

    See Also
    --------
    solvers.MIP : proves under side constraints
    ForbidSplit : the opposite

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import RequireSplit
    >>> from solvers import MIP, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> stated = TreeProblem(X, y, depth=2, splits="axis", constraints=[RequireSplit(1, where=0)])
    >>> bool(solve(stated, MIP()).tree.A[0, 1] != 0.0)
    True
    """

    def refusal(self, problem: Statement) -> str | None:
        """Axis-aligned splits, at levels that are there."""
        if problem.splits != "axis":
            return "RequireSplit is for axis-aligned splits"
        if not any(self.at(level) for level in range(problem.depth)):
            return f"RequireSplit must name a level above the depth, {problem.depth}; got {self.where}"
        return super().refusal(problem)

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The splits on the feature."""
        return None if self._there(tree) else f"the tree has no split on {self._place}; one is required"


@dataclass(frozen=True)
class Monotone(LeafConstraint):
    """Answers are ordered along every split on ``feature``: no leaf on its lower side answers more than one on its
    upper side (``sign=1``), or less (``sign=-1``). The tree is then monotone in the feature.

    Answers are values, probabilities of the second class under log loss, and classes in the order of their labels under
    0/1 loss. Axis-aligned splits, constant leaves, one output.

    See Also
    --------
    solvers.MIP : proves under side constraints
    opttree.ORTRegressor : takes ``monotonic_cst``

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import Monotone
    >>> from solvers import MIP, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> stated = TreeProblem(X, y, depth=2, splits="axis", constraints=[Monotone(0), Monotone(1)])
    >>> answers = solve(stated, MIP("flow")).tree.predict(X[np.argsort(X[:, 0])])
    >>> bool((np.diff(answers) >= -1e-6).all())
    True
    """

    feature: int = option(doc="Number of the feature.", least=0)
    sign: Literal[1, -1] = option(1, "1: increasing, -1: decreasing.")

    def refusal(self, problem: Statement) -> str | None:
        """Axis-aligned splits, constant leaves, one output."""
        if problem.splits != "axis":
            return "Monotone is for axis-aligned splits"
        if not problem.is_classification and problem.n_outputs > 1:
            return f"Monotone is for one output; got {problem.n_outputs}"
        return _check_feature(self.feature, problem) or super().refusal(problem)

    def limits(self, problem: Statement, tree: Tree) -> Limits:
        """One limit for each pair of leaves on two sides of a split on the feature."""
        below = [sorted(leaves) for leaves in _leaves_below(tree)]
        pairs = []
        for t in np.flatnonzero(tree.feature == self.feature):
            low, high = tree.children[t][:: self.sign * (1 if tree.A[t, self.feature] > 0.0 else -1)]
            pairs += [(a, b) for a in below[low] for b in below[high]]
        score = self.scores(problem)
        G = np.zeros((len(pairs), tree.n_leaves, score.size))
        for m, (a, b) in enumerate(pairs):
            G[m, a], G[m, b] = score, -score
        return Limits(G, np.zeros(len(pairs)))

    @staticmethod
    def scores(problem: Statement) -> Floats:
        """The number of each class under 0/1 loss; else (1,) one."""
        return np.arange(problem.n_outputs, dtype=float) if problem.loss == "zero_one" else np.ones(1)

    def _words(self, over: float) -> str:
        way = "increase" if self.sign == 1 else "decrease"
        return f"answers of the tree must {way} with feature {self.feature}; two leaves are out of order by {over:.3g}"


def _leaves_below(tree: Tree) -> list[set[int]]:
    """The leaves at and below each node, leaf B + l as l."""
    below: list[set[int]] = [set() for _ in range(tree.n_branches)] + [{leaf} for leaf in range(tree.n_leaves)]
    for t in range(tree.n_branches - 1, -1, -1):
        below[t] = below[tree.children[t, 0]] | below[tree.children[t, 1]]
    return below


@dataclass(frozen=True, eq=False)
class MaxDifference(LeafConstraint):
    """Statistical parity: between any two groups of rows, the mean answers differ by at most ``tolerance``.

    Answers are values in regression, probabilities of the second class under log loss, and predicted classes under 0/1
    loss (the share of the rows that are given each class). Means are weighted as the rows are. Constant leaves, whose
    values are within the range of y in regression.

    Parameters
    ----------
    group : number of the feature whose values are the groups, or (n,) the group of each row.
    tolerance : >= 0, in units of y, or of shares.

    See Also
    --------
    solvers.MIP : proves under side constraints

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import MaxDifference
    >>> from solvers import MIP, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> group = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    >>> stated = TreeProblem(X, y, depth=2, splits="axis", constraints=[MaxDifference(group, 1.0)])
    >>> answers = solve(stated, MIP("flow"), time_limit=10).tree.predict(X)
    >>> bool(abs(answers[group == 0].mean() - answers[group == 1].mean()) <= 1.0 + 1e-6)
    True
    """

    group: Any
    tolerance: float = option(least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.group, (int, np.integer)):
            group = np.asarray(self.group)
            if group.ndim != 1:
                raise ValueError(f"group must be the number of a feature or one group per row; got {self.group!r}")
            object.__setattr__(self, "group", np.unique(group, return_inverse=True)[1])
        elif self.group < 0:
            raise ValueError(f"group must be the number of a feature >= 0; got {self.group}")

    def refusal(self, problem: Statement) -> str | None:
        """The feature is there, or one group per row."""
        if isinstance(self.group, (int, np.integer)):
            reason = _check_feature(int(self.group), problem)
            return (reason and reason.replace("feature", "group", 1)) or super().refusal(problem)
        if len(self.group) != problem.n_samples:
            return f"group must have one entry per row, {problem.n_samples}; got {len(self.group)}"
        return super().refusal(problem)

    def on_rows(self, rows: NDArray[np.integer], n: int) -> Constraint | None:
        """The groups of the rows."""
        if isinstance(self.group, (int, np.integer)) or len(self.group) != n:
            return self  # a wrong number of groups is refused by the problem
        return replace(self, group=self.group[rows]) if rows.size else None

    def in_units(self, y_scale: Floats) -> Constraint:
        """The tolerance in the new units; ValueError where outputs have different ones."""
        if np.ptp(y_scale) > 0.0:
            raise ValueError("MaxDifference has one tolerance for all outputs, which are scaled differently here")
        return replace(self, tolerance=float(self.tolerance / y_scale[0]))

    def shares(self, problem: Statement) -> Floats:
        """(groups, n) the weight of each row within its group, 0 in the others; rows sum to one."""
        group = problem.X[:, self.group] if isinstance(self.group, (int, np.integer)) else self.group
        inside = (np.unique(group)[:, None] == group) * problem.w
        return inside / inside.sum(axis=1, keepdims=True)

    def limits(self, problem: Statement, tree: Tree) -> Limits:
        """Two limits for each pair of groups and each output; the range of y."""
        leaf = problem.leaves_of(tree) - tree.n_branches
        shares = np.array([np.bincount(leaf, weights=s, minlength=tree.n_leaves) for s in self.shares(problem)])
        K = answers(problem, tree).shape[1]
        G = [
            np.outer(first - second, np.eye(K)[k])
            for a, first in enumerate(shares)
            for b, second in enumerate(shares)
            if a != b
            for k in range(K)
        ]
        table, h = np.array(G).reshape(-1, tree.n_leaves, K), np.full(len(G), self.tolerance)
        if problem.is_classification:
            return Limits(table, h)
        one = np.eye(tree.n_leaves * K).reshape(-1, tree.n_leaves, K)
        high, low = (np.tile(side, tree.n_leaves) for side in (problem.Y.max(axis=0), problem.Y.min(axis=0)))
        return Limits(np.concatenate([table, one, -one]), np.concatenate([h, high, -low]))

    def _words(self, over: float) -> str:
        return (
            f"mean answers of two groups differ, or answers leave the range of y, by {over:.3g} more than {self} allows"
        )


@dataclass(frozen=True)
class _Pair(Constraint):
    """A condition on the leaves of two rows, numbered as in the X that was given; void where one has weight 0."""

    i: int = option(doc="Number of a row.", least=0)
    j: int = option(doc="Number of another row.", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.i == self.j:
            raise ValueError(f"i and j must be two rows; got {self.i} twice")

    def refusal(self, problem: Statement) -> str | None:
        """The rows are there."""
        last = max(self.i, self.j)
        n = problem.n_samples
        return None if last < n else f"{type(self).__name__} must name rows below {n}; got {last}"

    def on_rows(self, rows: NDArray[np.integer], n: int) -> Constraint | None:
        """The same two rows, or None if one is missing."""
        if max(self.i, self.j) >= n:
            return self  # refused by the problem
        places = [np.flatnonzero(rows == row) for row in (self.i, self.j)]
        return replace(self, i=int(places[0][0]), j=int(places[1][0])) if all(p.size for p in places) else None

    def together(self, problem: Statement, tree: Tree) -> bool:
        """Whether both are in one leaf."""
        leaf = problem.leaves_of(tree)
        return bool(leaf[self.i] == leaf[self.j])


@dataclass(frozen=True)
class SameLeaf(_Pair):
    """Rows ``i`` and ``j`` reach the same leaf.

    See Also
    --------
    solvers.MIP : proves under side constraints
    DifferentLeaf : the opposite

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import SameLeaf
    >>> from solvers import MIP, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> tree = solve(TreeProblem(X, y, depth=1, splits="axis", constraints=[SameLeaf(0, 2)]), MIP()).tree
    >>> leaves = tree.apply(X)
    >>> bool(leaves[0] == leaves[2])
    True
    """

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The two leaves."""
        reason = f"rows {self.i} and {self.j} must reach the same leaf; they reach two"
        return None if self.together(problem, tree) else reason


@dataclass(frozen=True)
class DifferentLeaf(_Pair):
    """Rows ``i`` and ``j`` reach different leaves.

    See Also
    --------
    solvers.MIP : proves under side constraints
    SameLeaf : the opposite

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import DifferentLeaf
    >>> from solvers import MIP, solve
    >>> X = np.arange(16.0).reshape(8, 2)[:, ::-1]
    >>> y = np.array([0.0, 0.0, 5.0, 5.0, 1.0, 1.0, 4.0, 4.0])
    >>> tree = solve(TreeProblem(X, y, depth=1, splits="axis", constraints=[DifferentLeaf(0, 1)]), MIP()).tree
    >>> leaves = tree.apply(X)
    >>> bool(leaves[0] != leaves[1])
    True
    """

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The two leaves."""
        reason = f"rows {self.i} and {self.j} must reach different leaves; they reach the same"
        return reason if self.together(problem, tree) else None
