"""Constraints on leaves: what they answer, and which rows share one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.runtime.words import shown
from opttree.statement.constraints.base import (
    Constraint,
    Floats,
    LeafConstraint,
    Limits,
    Statement,
    check_feature,
    picks,
)

MOST_GROUPS = 500  # each two of which are compared


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

    kind: ClassVar[str] = "order"
    feature: int = option(doc="Number of the feature.", least=0)
    sign: Literal[1, -1] = option(1, "1: increasing, -1: decreasing.")

    def refusal(self, problem: Statement) -> str | None:
        """Axis-aligned splits, constant leaves, one output."""
        if problem.splits != "axis":
            return "Monotone is for axis-aligned splits"
        if not problem.is_classification and problem.n_outputs > 1:
            return f"Monotone is for one output; got {problem.n_outputs}"
        return check_feature(self.feature, problem) or super().refusal(problem)

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
        """Numbers by which answers are ordered.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        ndarray of shape (K,)
            The number of each class under 0/1 loss; else a single one.
        """
        return np.arange(problem.n_outputs, dtype=float) if problem.loss_function.form == "errors" else np.ones(1)

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
class _Grouped(Constraint):
    """A constraint on groups of rows: the values of a feature, or one group per row."""

    group: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.group, (int, np.integer)):
            group = np.asarray(self.group)
            if group.ndim != 1:
                raise ValueError(f"group must be the number of a feature or one group per row; got {shown(self.group)}")
            if group.dtype.kind in "fOmM":
                from pandas import isna

                if (blank := isna(group)).any():
                    raise ValueError(f"group must have no missing values; got {int(blank.sum())}")
            try:
                found = np.unique(group, return_inverse=True)[1]
            except TypeError as error:
                raise ValueError(f"group must hold labels of one kind; got {error}") from error
            object.__setattr__(self, "group", found)
        elif self.group < 0:
            raise ValueError(f"group must be the number of a feature >= 0; got {self.group}")

    def refusal(self, problem: Statement) -> str | None:
        """The feature is there, or one group per row."""
        if isinstance(self.group, (int, np.integer)):
            reason = check_feature(int(self.group), problem)
            return (reason and reason.replace("feature", "group", 1)) or super().refusal(problem)
        if len(self.group) != problem.n_samples:
            return f"group must have one entry per row, {problem.n_samples}; got {len(self.group)}"
        return super().refusal(problem)

    def on_rows(self, rows: NDArray[np.integer], n: int) -> Constraint | None:
        """The groups of the rows."""
        if isinstance(self.group, (int, np.integer)) or len(self.group) != n:
            return self  # a wrong number of groups is refused by the problem
        return replace(self, group=self.group[rows]) if rows.size else None

    def members(self, problem: Statement) -> NDArray[np.bool_]:
        """Which rows are in each group.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        ndarray of bool of shape (groups, n)
            True in the row's own group.
        """
        codes = self.codes(problem)
        inside: NDArray[np.bool_] = np.arange(codes.max() + 1)[:, None] == codes
        return inside

    def codes(self, problem: Statement) -> NDArray[np.intp]:
        """The number of the group of each row.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        ndarray of int of shape (n,)
            Numbers of groups from 0 on.
        """
        group = problem.X[:, self.group] if isinstance(self.group, (int, np.integer)) else self.group
        return np.unique(group, return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class MaxDifference(_Grouped, LeafConstraint):
    """Statistical parity: between any two groups of rows, the mean answers differ by at most ``tolerance``.

    Answers are values in regression, probabilities of the second class under log loss, and predicted classes under 0/1
    loss (the share of the rows that are given each class), or actions under costs of actions. Means are weighted as the
    rows are. Constant leaves, whose values are within the range of y in regression.

    Parameters
    ----------
    group : int or array-like of shape (n,)
        The number of the feature whose values are the groups, or the group of each row; at most 500 groups.
    tolerance : float
        Largest difference, >= 0, in units of y, or of shares.

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

    kind: ClassVar[str] = "answers"
    tolerance: float = option(least=0)

    def in_units(self, y_scale: Floats) -> Constraint:
        """The tolerance in the new units; ValueError where outputs have different ones."""
        if np.ptp(y_scale) > 0.0:
            raise ValueError("MaxDifference has one tolerance for all outputs, which are scaled differently here")
        return replace(self, tolerance=float(self.tolerance / y_scale[0]))

    def shares(self, problem: Statement) -> Floats:
        """Weight of each row within its group.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        ndarray of shape (groups, n)
            The weights, 0 in other groups; each group sums to one.
        """
        inside = self.members(problem) * problem.w
        return inside / inside.sum(axis=1, keepdims=True)

    def refusal(self, problem: Statement) -> str | None:
        """Few enough groups, each two of which are compared."""
        reason = super().refusal(problem)
        if reason is None and (groups := int(self.codes(problem).max()) + 1) > MOST_GROUPS:
            return f"group must have at most {MOST_GROUPS} different values; got {groups}"
        return reason

    def terms(self, problem: Statement) -> Limits:
        """Two limits for each pair of groups and each answer."""
        return self._pairs(problem, self.shares(problem))

    def _pairs(self, problem: Statement, shares: Floats) -> Limits:
        """The limits on sums over rows or leaves of which each group has shares (groups, n or L)."""
        K = problem.n_outputs if picks(problem) else 1 if problem.loss_function.form == "entropy" else problem.n_outputs
        first, second = np.nonzero(~np.eye(len(shares), dtype=bool))
        G = np.einsum("mi,kl->mkil", shares[first] - shares[second], np.eye(K))
        return Limits(G.reshape(-1, shares.shape[1], K), np.full(len(first) * K, self.tolerance))

    def limits(self, problem: Statement, tree: Tree) -> Limits:
        """The limits of `terms`, of the shares of the groups in each leaf; the range of y."""
        codes, leaf = self.codes(problem), problem.leaves_of(tree) - tree.n_branches
        n_groups = int(codes.max()) + 1
        held = np.bincount(codes * tree.n_leaves + leaf, problem.w, n_groups * tree.n_leaves)
        of_groups = held.reshape(n_groups, tree.n_leaves)
        table, h = self._pairs(problem, of_groups / of_groups.sum(axis=1, keepdims=True))
        if picks(problem) or problem.is_classification:
            return Limits(table, h)
        K = table.shape[2]
        one = np.eye(tree.n_leaves * K).reshape(-1, tree.n_leaves, K)
        high, low = (np.tile(side, tree.n_leaves) for side in (problem.Y.max(axis=0), problem.Y.min(axis=0)))
        return Limits(np.concatenate([table, one, -one]), np.concatenate([h, high, -low]))

    def _words(self, over: float) -> str:
        return (
            f"mean answers of two groups differ, or answers leave the range of y, by {over:.3g} more than {self} allows"
        )


@dataclass(frozen=True)
class MaxShare(LeafConstraint):
    """At most a share of the rows is given an action, or a class: a budget. Rows count by their weights.

    For costs of actions and 0/1 loss, constant leaves.

    See Also
    --------
    solvers.MIP : proves under side constraints
    MaxDifference : equal shares of groups

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import MaxShare
    >>> from solvers import MIP, solve
    >>> X = np.arange(8.0)[:, None]
    >>> gain = np.array([1.0, 2.0, 1.0, 3.0, 4.0, 5.0, 4.0, 6.0])      # of a treatment
    >>> costs = np.column_stack([gain, np.zeros(8)])
    >>> stated = TreeProblem(X, costs, depth=1, splits="axis", loss="cost", constraints=[MaxShare(1, 0.4)])
    >>> solve(stated, MIP("flow")).tree.predict(X).tolist()            # at most 40 % of the rows are treated
    [0, 0, 0, 0, 0, 1, 1, 1]
    """

    kind: ClassVar[str] = "answers"
    action: int = option(doc="Number of the action, or of the class in the order of the labels.", least=0)
    share: float = option(doc="The largest share of the rows, 0 to 1.", least=0, most=1)

    def refusal(self, problem: Statement) -> str | None:
        """Costs of actions, or 0/1 loss, with such an action."""
        if not picks(problem):
            return f"MaxShare is for costs of actions and 0/1 loss; got loss={problem.loss!r}"
        if self.action >= problem.n_outputs:
            return f"action must be below the number of actions, {problem.n_outputs}; got {self.action}"
        return super().refusal(problem)

    def terms(self, problem: Statement) -> Limits:
        """One limit."""
        G = np.zeros((1, problem.n_samples, problem.n_outputs))
        G[0, :, self.action] = problem.w
        return Limits(G, np.array([self.share]))

    def _words(self, over: float) -> str:
        return f"the share of rows that are given {self.action} is {over:.3g} more than {self} allows"


@dataclass(frozen=True, eq=False)
class AnswerLimit(LeafConstraint):
    """A linear limit on what rows are answered, by classes or actions: ``sum_i weights[i, answer of row i] <= limit``.

    Floors of recall and precision, quotas, and what else adds up over rows: a recall of at least r is
    ``-sum of w_i [answer 1] <= -r`` over the positive rows, w_i being their shares. Rows do not count by their weights
    here but by ``weights``. For costs of actions and 0/1 loss, constant leaves.

    Parameters
    ----------
    weights : array-like of shape (n, K)
        What each answer adds for each row.
    limit : float
        The largest sum.

    See Also
    --------
    solvers.Lagrangian, solvers.MIP : prove under it
    MaxShare, MaxDifference : limits of this kind that need no table

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import AnswerLimit
    >>> from solvers import MIP, solve
    >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 1, 0, 0, 0, 1, 1])
    >>> recall = np.zeros((8, 2))
    >>> recall[y == 1, 1] = -1 / 3                                   # a share of the positive rows
    >>> for least in (0.0, 1.0):
    ...     limit = AnswerLimit(recall, -least)
    ...     stated = TreeProblem(X, y, depth=1, splits="axis", loss="zero_one", constraints=[limit])
    ...     print(solve(stated, MIP("flow")).tree.predict(X).tolist())
    [0, 0, 0, 0, 0, 0, 1, 1]
    [0, 0, 1, 1, 1, 1, 1, 1]
    """

    kind: ClassVar[str] = "answers"
    weights: Any
    limit: float = option(doc="The largest sum.")

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            table = np.asarray(self.weights, np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"weights must be numbers (n, K); got {error}") from error
        if table.ndim != 2 or not np.isfinite(table).all():
            raise ValueError(f"weights must be finite numbers (n, K); got shape {table.shape}")
        object.__setattr__(self, "weights", table)

    def refusal(self, problem: Statement) -> str | None:
        """Costs of actions, or 0/1 loss, with a weight for each row and answer."""
        if not picks(problem):
            return f"AnswerLimit is for costs of actions and 0/1 loss; got loss={problem.loss!r}"
        if self.weights.shape != (problem.n_samples, problem.n_outputs):
            shape = problem.n_samples, problem.n_outputs
            return f"weights must have shape {shape}, of the rows and answers; got {self.weights.shape}"
        return super().refusal(problem)

    def on_rows(self, rows: NDArray[np.integer], n: int) -> Constraint | None:
        """The weights of the rows, and the same limit."""
        if len(self.weights) != n:
            return self  # refused by the problem
        return replace(self, weights=self.weights[rows]) if rows.size else None

    def terms(self, problem: Statement) -> Limits:
        """One limit, in units of all weights."""
        return Limits(self.weights[None] / self._unit, np.array([self.limit / self._unit]))

    @property
    def _unit(self) -> float:
        return float(np.abs(self.weights).max(axis=1).sum()) or 1.0

    def _words(self, over: float) -> str:
        return f"the weights of the answers add up to {over * self._unit:.3g} more than {self.limit:g}, their limit"


@dataclass(frozen=True, eq=False)
class MinPerGroup(_Grouped):
    """At least ``k`` rows of every group in every leaf that holds rows: of each treatment, say, so that a leaf's
    comparison of treatments rests on enough rows of each.

    Parameters
    ----------
    group : int or array-like of shape (n,)
        The feature whose values are the groups, or the group of each row.
    k : int
        Fewest rows of each group, >= 1.

    See Also
    --------
    solvers.MIP : proves under side constraints
    MinLeaf : fewest rows of all groups together

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import MinPerGroup
    >>> from solvers import MIP, solve
    >>> X, y = np.arange(8.0)[:, None], np.array([0.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0])
    >>> arm = np.array(["a", "a", "b", "a", "a", "b", "a", "b"])
    >>> tree = solve(TreeProblem(X, y, depth=1, splits="axis", constraints=[MinPerGroup(arm, 1)]), MIP()).tree
    >>> tree.apply(X).tolist()                         # the first row alone would be a leaf without "b"
    [1, 1, 1, 2, 2, 2, 2, 2]
    """

    kind: ClassVar[str] = "filter"
    k: int = option(least=1)

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The numbers of rows."""
        leaf = problem.leaves_of(tree) - tree.n_branches
        counts = np.array([np.bincount(leaf[inside], minlength=tree.n_leaves) for inside in self.members(problem)])
        least = int(counts[:, counts.sum(axis=0) > 0].min())
        return None if least >= self.k else f"a leaf has {least} rows of a group; MinPerGroup(k={self.k}) asks for more"


@dataclass(frozen=True)
class _Pair(Constraint):
    """A condition on the leaves of two rows, numbered as in the X that was given; void where one has weight 0."""

    kind: ClassVar[str] = "filter"
    apart: ClassVar[bool]  # whether the rows must not share a leaf
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

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The two leaves."""
        leaf = problem.leaves_of(tree)
        if (leaf[self.i] != leaf[self.j]) == self.apart:
            return None
        must, do = ("different leaves", "the same") if self.apart else ("the same leaf", "two")
        return f"rows {self.i} and {self.j} must reach {must}; they reach {do}"


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

    apart: ClassVar[bool] = False


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

    apart: ClassVar[bool] = True
