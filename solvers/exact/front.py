"""The sparse front: the best trees of no, one, two, ... splits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING

import pandas as pd

from opttree.model.convert import as_tree
from opttree.runtime.clock import now
from opttree.statement import TreeProblem
from solvers.core.driver import solve
from solvers.core.result import Result, Termination
from solvers.exact.branch_and_bound import BranchAndBound

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class SparseFront:
    """The best trees of up to k splits, for k = 0, 1, 2, ..., by `sparse_front`.

    Parameters
    ----------
    results : tuple of Result
        A result for each k, with its tree, objective and bound.

    See Also
    --------
    sparse_front : finds it
    BranchAndBound : the solver

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import sparse_front
    >>> X, y = datasets.load("iris", as_arrays=True)
    >>> front = sparse_front(TreeProblem(X, y.astype(int), depth=2, splits="axis", loss="zero_one"))
    >>> [round(150 * result.objective) for result in front.results]
    [100, 50, 6, 6]
    """

    results: tuple[Result, ...]

    @property
    def is_proved(self) -> bool:
        """Whether all trees are proved optimal."""
        return all(result.termination is Termination.OPTIMAL for result in self.results)

    def to_frame(self) -> pd.DataFrame:
        """A line for each number of splits: the tree's splits, its objective, the bound, how the search ended, seconds.

        Returns
        -------
        DataFrame
            The table, by the largest number of splits.
        """
        lines = [
            {
                "splits": as_tree(result.tree).n_branches,
                "objective": result.objective,
                "bound": result.bound,
                "ended": result.termination.name,
                "seconds": result.seconds,
            }
            for result in self.results
        ]
        return pd.DataFrame(lines).rename_axis("most splits")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Objective by number of splits; a line down to the bound where a tree is not proved.

        Parameters
        ----------
        ax : Axes or None, default None
            Where to draw; None: new ones.

        Returns
        -------
        Axes
            The axes.
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _figure, ax = plt.subplots(layout="constrained")
        frame = self.to_frame()
        ax.step(frame.index, frame["objective"], where="post", marker="o")
        ax.vlines(frame.index, frame["bound"], frame["objective"], color="0.6")
        ax.set(xlabel="most splits", ylabel="objective", title="sparse front")
        ax.set_xticks(frame.index)
        return ax


def sparse_front(
    problem: TreeProblem,
    max_splits: int | None = None,
    *,
    solver: BranchAndBound | None = None,
    time_limit: float | None = None,
) -> SparseFront:
    """The best trees of up to k splits for k = 0, 1, ..., each proved where time allows.

    Parameters
    ----------
    problem : TreeProblem
        The statement, axis-aligned; its depth limits the trees.
    max_splits : int or None, default None
        The largest k; None: all splits that the depth allows.
    solver : BranchAndBound or None, default None
        The solver, whose ``max_splits`` does not matter; None: the default.
    time_limit : float or None, default None
        Seconds for all, of which each k has an equal share of what is left; k = 0 is not limited.

    Returns
    -------
    SparseFront
        The trees; after Ctrl-C those so far.

    Raises
    ------
    ValueError
        If the solver does not take the problem, or a number is out of its range.

    See Also
    --------
    SparseFront : what is returned
    BranchAndBound : the solver

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import sparse_front
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> front = sparse_front(TreeProblem.standardized(X, y, depth=2, splits="axis"))
    >>> front.is_proved, front.to_frame()["splits"].tolist()
    (True, [0, 1, 2, 3])
    """
    most = 2**problem.depth - 1
    if max_splits is not None and (
        isinstance(max_splits, bool) or not isinstance(max_splits, Integral) or max_splits < 0
    ):
        raise ValueError(f"max_splits must be None or an integer >= 0; got {max_splits!r}")
    if time_limit is not None and not time_limit > 0.0:
        raise ValueError(f"time_limit must be None or > 0 seconds; got {time_limit!r}")
    most = most if max_splits is None else min(most, int(max_splits))
    base, began = BranchAndBound() if solver is None else solver, now()
    results: list[Result] = []
    for k in range(most + 1):
        left = None if time_limit is None else max((time_limit - (now() - began)) / (most + 1 - k), 1e-3)
        start = as_tree(results[-1].tree) if results else None
        results.append(solve(problem, replace(base, max_splits=k), start=start, time_limit=left if k else None))
        if results[-1].termination is Termination.INTERRUPTED:
            break
    return SparseFront(tuple(results))
