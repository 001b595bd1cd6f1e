"""Fewer rows for the trees of an ensemble, where a run's time is too short for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from copy import deepcopy

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.clock import now, seconds_left
from opttree.statement import TreeProblem

PILOT_ROWS = 20_000  # for the trees whose growth is measured; no tree gets fewer
SPARE = 0.6  # of the rows for which the time seems enough: larger trees take longer than in proportion


def rows_in_time(
    problem: TreeProblem, n_trees: float, rng: Rng, grow: Callable[[TreeProblem, Rng], Sequence[Tree]]
) -> Generator[None, None, NDArray[np.intp] | None]:
    """Random rows of which ``n_trees`` trees can be grown in what is left of the run's time.

    Parameters
    ----------
    problem : TreeProblem
        The rows.
    n_trees : float
        The number of trees, by those that are grown at a time.
    rng : numpy.random.Generator
        Random numbers, of which none are used up: with enough time, the trees are those of a run without a limit.
    grow : callable
        Grows a tree of each kind that there will be; it is timed on some rows, where there are many more.

    Returns
    -------
    ndarray of int of shape (m,), or None
        Numbers of the rows in increasing order; None: all.
    """
    rows = np.flatnonzero(problem.w)
    if rows.size < 2 * PILOT_ROWS or math.isinf(seconds_left()):
        return None
    own = deepcopy(rng)
    some = problem.sample(np.sort(own.choice(rows, PILOT_ROWS, replace=False)))
    began = now()
    trees = grow(some, own)
    grown = now()
    for tree in trees:
        tree.outputs(some.X)
    to_grow, to_look = ((end - start) / (PILOT_ROWS * len(trees)) for start, end in ((began, grown), (grown, now())))
    yield None
    left = max(seconds_left() - n_trees * problem.n_samples * to_look, 0.5 * seconds_left())
    count = max(int(SPARE * left / (n_trees * to_grow)), PILOT_ROWS)
    return None if count >= rows.size else np.sort(own.choice(rows, count, replace=False))
