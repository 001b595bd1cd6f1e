"""Fewer rows for the trees of an ensemble, where a run's time is too short for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from copy import deepcopy

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.clock import now, seconds_left
from opttree.statement import TreeProblem

# rows for the trees whose growth is measured, fewer where there are more features and outputs, or hardly any time
PILOT_ROWS, PILOT_NUMBERS, FEWEST_ROWS = 20_000, 400_000.0, 2000
TRIAL = 0.2  # of the time that is left, for trees on more than the fewest rows
SPARE = 0.6  # of the rows for which the time seems enough: larger trees take longer than in proportion


def rows_in_time(
    problem: TreeProblem, n_trees: float, rng: Rng, grow: Callable[[TreeProblem, Rng], Iterator[Tree]]
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
        Grows a tree of each kind that there may be; they are timed on some rows, where there are many more, and the
        quickest kind counts: with another one there are fewer trees.

    Returns
    -------
    ndarray of int of shape (m,), or None
        Numbers of the rows in increasing order; None: all.
    """
    rows = np.flatnonzero(problem.w)
    pilot = int(np.clip(PILOT_NUMBERS / (problem.n_features * problem.n_outputs), FEWEST_ROWS, PILOT_ROWS))
    if rows.size < 2 * pilot or math.isinf(seconds_left()):
        return None
    own = deepcopy(rng)

    def timed(m: int) -> Generator[None, None, tuple[float, float]]:
        """Seconds of a row, to grow a tree of the quickest kind and to look at what it answers."""
        some = problem.sample(np.sort(own.choice(rows, m, replace=False)))
        to_grow, to_look, began = math.inf, 0.0, now()
        for tree in grow(some, own):
            grown = now()
            tree.outputs(some.X)
            if grown - began < to_grow:
                to_grow, to_look = grown - began, now() - grown
            yield None
            began = now()
        return to_grow / m, to_look / m

    least = min(FEWEST_ROWS, pilot)
    to_grow, to_look = yield from timed(least)
    if least < pilot and pilot * (to_grow + to_look) <= TRIAL * seconds_left():
        least = pilot
        to_grow, to_look = yield from timed(pilot)
    left = max(seconds_left() - n_trees * problem.n_samples * to_look, 0.5 * seconds_left())
    count = max(int(SPARE * left / (n_trees * to_grow)), least)
    return None if count >= rows.size else np.sort(own.choice(rows, count, replace=False))
