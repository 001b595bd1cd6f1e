"""Constraints on the shape of a tree: how many splits, on which features, at which levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement.constraints.base import EXACT, Constraint, Floats, Statement, check_feature

Levels = int | tuple[int, ...] | None


def _features(tree: Tree) -> NDArray[np.intp]:
    """The features in the splits of ``tree``."""
    return np.flatnonzero(np.any(tree.A != 0.0, axis=0))


@dataclass(frozen=True)
class MaxSplits(Constraint):
    """At most ``k`` branch nodes.

    Parameters
    ----------
    k : int
        Largest number of branch nodes, >= 0.

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

    kind: ClassVar[str] = "branches"
    k: int = option(least=0)

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The number of branches."""
        return None if tree.n_branches <= self.k else f"the tree has {tree.n_branches} splits; {self} allows {self.k}"


@dataclass(frozen=True)
class MaxFeatures(Constraint):
    """At most ``k`` different features in the splits; one with a weight other than 0 counts.

    Parameters
    ----------
    k : int
        Largest number of features, >= 0.

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

    kind: ClassVar[str] = "features"
    k: int = option(least=0)

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The number of features."""
        used = _features(tree).size
        return None if used <= self.k else f"the tree splits on {used} features; {self} allows {self.k}"


@dataclass(frozen=True)
class MinLeaf(Constraint):
    """At least ``k`` rows in every nonempty leaf: ``TreeProblem(min_leaf=k)`` in other words, which it becomes.

    Parameters
    ----------
    k : int
        Fewest rows, >= 1.

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

    kind: ClassVar[str] = "filter"
    k: int = option(least=1)


@dataclass(frozen=True, eq=False)
class _Costs(Constraint):
    """A budget for the costs of features."""

    costs: Any
    budget: float = option(least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.costs
        try:
            numbers = np.asarray(list(given.values()) if isinstance(given, Mapping) else given, np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"costs must be numbers, or a mapping to them; got {given!r}") from error
        if numbers.ndim != 1 or not (np.isfinite(numbers) & (numbers >= 0)).all():
            raise ValueError(f"costs must be a list of finite numbers >= 0 or a mapping to them; got {given!r}")
        if isinstance(given, Mapping) and not all(isinstance(j, (int, np.integer)) and j >= 0 for j in given):
            raise ValueError(f"costs must be a mapping from numbers of features >= 0; got {given!r}")

    def of(self, problem: Statement) -> Floats:
        """Cost of each feature.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        ndarray of shape (p,)
            The costs.
        """
        if not isinstance(self.costs, Mapping):
            return np.asarray(self.costs, np.float64)
        costs = np.zeros(problem.n_features)
        costs[list(self.costs)] = list(self.costs.values())
        return costs

    def refusal(self, problem: Statement) -> str | None:
        """One cost per feature."""
        if isinstance(self.costs, Mapping):
            return next((why for j in self.costs if (why := check_feature(int(j), problem))), None)
        if len(self.costs) != problem.n_features:
            return f"costs must have one entry per feature, {problem.n_features}; got {len(self.costs)}"
        return None

    def _within(self, spent: float) -> bool:
        return spent <= self.budget * (1.0 + EXACT)


@dataclass(frozen=True, eq=False)
class FeatureCost(_Costs):
    """The costs of the different features in the splits add up to at most ``budget``.

    Parameters
    ----------
    costs : array-like of shape (p,) or mapping
        Costs of the features, >= 0; features that a mapping does not name are free.
    budget : float
        Largest sum, >= 0.

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

    kind: ClassVar[str] = "features"

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The sum of the costs."""
        spent = float(self.of(problem)[_features(tree)].sum())
        if self._within(spent):
            return None
        return f"the features of the tree cost {spent:g}; the budget is {self.budget:g}"


@dataclass(frozen=True, eq=False)
class PathCost(_Costs):
    """The costs of the different features on a row's path add up to at most ``budget``: what it costs to answer for
    it, where a feature is measured once, when a split asks for it. Axis-aligned splits.

    Parameters
    ----------
    costs : array-like of shape (p,) or mapping
        Costs of the features, >= 0; features that a mapping does not name are free.
    budget : float
        Largest sum, >= 0.
    mean : bool
        Whether the budget is for the mean over the rows, by their weights, and not for each path; by default False.

    See Also
    --------
    solvers.MIP : proves under side constraints
    FeatureCost : the features of the whole tree

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import PathCost
    >>> from solvers import MIP, solve
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> y = np.array([0.0, 0.0, 3.0, 5.0])
    >>> for budget in (1.5, 1.0, 0.5):                              # of the features' costs 1 and 1, per row
    ...     stated = TreeProblem(X, y, depth=2, splits="axis", constraints=[PathCost([1.0, 1.0], budget, mean=True)])
    ...     print(solve(stated, MIP("flow", gap=1e-6)).tree.n_branches)
    2
    1
    0
    """

    kind: ClassVar[str] = "paths"
    mean: bool = option(False, "Whether the budget is for the mean over the rows.")

    def refusal(self, problem: Statement) -> str | None:
        """Axis-aligned splits, one cost per feature."""
        return "PathCost is for axis-aligned splits" if problem.splits != "axis" else super().refusal(problem)

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The sums of the costs."""
        uses = np.zeros((tree.n_nodes, problem.n_features), bool)
        for t in range(tree.n_branches):
            uses[tree.children[t]] = uses[t] | (tree.A[t] != 0.0)
        paid = uses[tree.n_branches :] @ self.of(problem)
        spent = float(problem.w @ paid[problem.leaves_of(tree) - tree.n_branches] if self.mean else paid.max())
        if self._within(spent):
            return None
        what = "the features on the paths of the rows cost on average" if self.mean else "the features on a path cost"
        return f"{what} {spent:g}; the budget is {self.budget:g}"


@dataclass(frozen=True)
class _Split(Constraint):
    """A condition on the splits on a feature, at all levels or some; the root is level 0."""

    feature: int = option(doc="Number of the feature.", least=0)
    where: Levels = option(None, "Level, or tuple of levels, of the splits; None: all.", least=0)

    def at(self, level: int) -> bool:
        """Whether splits at a level count.

        Parameters
        ----------
        level : int
            The level; the root is at 0.

        Returns
        -------
        bool
            True if they do.
        """
        return self.where is None or level in ((self.where,) if isinstance(self.where, int) else self.where)

    def refusal(self, problem: Statement) -> str | None:
        """The feature is there."""
        return check_feature(self.feature, problem)

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

    kind: ClassVar[str] = "filter"

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

    kind: ClassVar[str] = "features"

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
