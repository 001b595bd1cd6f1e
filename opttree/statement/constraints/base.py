"""What side constraints are: conditions on trees beyond their depth and the kinds of their splits and leaves.

A constraint must hold for the tree as it stands and for the same tree without the branches that send all rows one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.options import Checked
from opttree.statement.losses import Loss

Floats = NDArray[np.float64]
EXACT = 1e-9  # relative to the range of the outputs: how far answers may be over a limit by rounding


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
    def loss_function(self) -> Loss:
        """The loss."""

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
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Number of features."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs or classes."""

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

    # what a solver must keep count of: "filter", single splits and leaves; "branches", sums over them; "answers", sums
    # over the answers of rows; "order", answers of leaves that are compared; "features", the set of those in splits;
    # "paths", the set of those above a leaf; "" for one that does not say
    kind: ClassVar[str] = ""

    def refusal(self, problem: Statement) -> str | None:
        """Reason why a problem cannot have this constraint.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        return None

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """Reason why a tree does not satisfy the constraint.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        tree : Tree
            The tree.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        raise NotImplementedError(f"{type(self).__name__} must define violation")

    def on_rows(self, rows: NDArray[np.integer], n: int) -> Constraint | None:
        """The constraint for the problem of some of the rows.

        Parameters
        ----------
        rows : ndarray of int of shape (m,)
            Numbers of the rows.
        n : int
            Number of all rows.

        Returns
        -------
        Constraint or None
            The constraint; None if it does not concern these rows.
        """
        return self

    def in_units(self, y_scale: Floats) -> Constraint:
        """The constraint in other units of the outputs.

        Parameters
        ----------
        y_scale : ndarray of shape (K,)
            The units.

        Returns
        -------
        Constraint
            The constraint for outputs divided by the units.
        """
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
        """Limits on the answers of the leaves.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        tree : Tree
            The tree.

        Returns
        -------
        Limits
            The limits.
        """
        G, h = self.terms(problem)
        leaf = problem.leaves_of(tree) - tree.n_branches
        sums = np.zeros((len(h), tree.n_leaves, G.shape[2]))
        for m, table in enumerate(G):
            np.add.at(sums[m], leaf, table)
        return Limits(sums, h)

    def terms(self, problem: Statement) -> Limits:
        """The limits as sums over rows, of constraints that add up: ``sum_i G[m, i, answer of row i] <= h[m]``, or, of
        numbers, ``sum_ik G[m, i, k] answer_ik <= h[m]``.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        Limits
            The limits, G of shape (M, n, K).
        """
        raise NotImplementedError(f"{type(self).__name__} must define terms or limits")

    @property
    def adds_up(self) -> bool:
        """Whether it has `terms`."""
        return type(self).terms is not LeafConstraint.terms

    def refusal(self, problem: Statement) -> str | None:
        """Answers are constants, of one output for all but 0/1 loss."""
        if problem.leaves != "constant":
            return f"{type(self).__name__} is for constant leaves"
        if not picks(problem) and (reason := problem.loss_function.refusal("form")) is not None:
            return f"{type(self).__name__} takes named losses; {reason}"
        if problem.loss_function.form == "entropy" and problem.n_outputs != 2:
            return f"{type(self).__name__} under log loss is for two classes; got {problem.n_outputs}"
        return None

    def violation(self, problem: Statement, tree: Tree) -> str | None:
        """The limits, to rounding."""
        G, h = self.limits(problem, tree)
        if not h.size:
            return None
        over = np.einsum("mlk,lk->m", G, answers(problem, tree)) - h
        unit = 1.0 if problem.is_classification or picks(problem) else float(np.ptp(problem.Y, axis=0).max()) or 1.0
        if over.max() <= EXACT * unit:
            return None
        return self._words(float(over.max()))

    def _words(self, over: float) -> str:
        raise NotImplementedError


def answers(problem: Statement, tree: Tree) -> Floats:
    """What the leaves answer, as constraints see it: values (L, K) in regression; the probability of the second class
    (L, 1) under log loss; 1 for the predicted class, or the action, and 0 for the others (L, K) under 0/1 loss and
    costs of actions.
    """
    if picks(problem):
        return np.eye(problem.n_outputs)[tree.values.argmax(axis=1)]
    return tree.values[:, 1:] if problem.loss_function.form == "entropy" else tree.values


def picks(problem: Statement) -> bool:
    """Whether leaves answer with one of several classes or actions."""
    return problem.loss_function.form == "errors" or problem.loss_function.chooses


def check_feature(feature: int, problem: Statement) -> str | None:
    """Why ``problem`` has no feature of this number, or None."""
    if feature >= problem.n_features:
        return f"feature must be below the number of features, {problem.n_features}; got {feature}"
    return None
