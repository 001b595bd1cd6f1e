"""Sums over the parts of a table: questions go out, what parts answer is added up."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.kernels import records
from opttree.statement import TreeProblem

__all__ = ["Asked", "Bag", "Reader", "bare", "in_step", "mean_loss", "on_part"]

Floats = NDArray[np.float64]
Reader = Callable[[Any], records.Rows]  # from a part to its rows in the units of the statement, weights of sum one
Asked = Generator[tuple[Callable[..., Any], Any], Any, Any]  # asks parts, is sent the sums, and returns
POISSON = np.cumsum(np.exp(-1.0) / np.cumprod([1.0, *range(1, 20)]))


class Bag(NamedTuple):
    """A random share of the rows, or all rows with Poisson's weights, by the seed and the numbers of the rows alone:
    however they are cut into parts, the same rows count. Or the rows ``outside`` a share, but for those of the
    ascending numbers ``but``.
    """

    seed: int
    number: int
    share: float | None  # None: bootstrap weights
    outside: bool = False
    but: NDArray[np.int64] | None = None

    def chance(self, numbers: NDArray[np.int64]) -> Floats:
        """Random numbers in [0, 1) of rows of these numbers; a share has those whose own is below it."""
        key = np.random.SeedSequence([self.seed, self.number]).generate_state(1, np.uint64)[0]
        bits = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = bits + key  # splitmix64 of a counter
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((bits ^ (bits >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def weights(self, first: int, count: int) -> Floats:
        """Weights of rows from the number ``first`` on, with mean one over all rows but for chance."""
        chance = self.chance(np.arange(first, first + count))
        if self.share is not None and self.outside:
            weight = (chance >= self.share) / (1.0 - self.share)
            if self.but is not None:
                weight[self.but[slice(*np.searchsorted(self.but, [first, first + count]))] - first] = 0.0
            return weight
        if self.share is not None:
            return (chance < self.share) / self.share
        return np.searchsorted(POISSON, chance, side="right").astype(np.float64)


def in_step(rows: Any, reader: Reader, runs: Sequence[Asked]) -> list[Any]:
    """What generators return, which ask parts for sums: the questions of all of them go out together.

    Parameters
    ----------
    rows : opttree.Rows
        The table.
    reader : callable
        From a part to its rows in the units of the statement, with weights whose sum over all parts is one.
    runs : sequence of generators
        They yield a function of the rows of a part, the number of its first row and what else it is told; and that.

    Returns
    -------
    list
        Their results.
    """
    found: list[Any] = [None] * len(runs)
    questions: dict[int, Any] = {}

    def go_on(k: int, answer: Any) -> None:
        try:
            questions[k] = runs[k].send(answer)
        except StopIteration as end:
            questions.pop(k, None)
            found[k] = end.value

    for k in range(len(runs)):
        go_on(k, None)
    firsts = np.concatenate([[0], np.cumsum(rows.sizes)])
    while questions:
        asked = list(questions)
        total = rows.sum(_answers, (reader, firsts, [questions[k] for k in asked]))
        for k, answer in zip(asked, total, strict=True):
            go_on(k, answer)
    return found


def bare(problem: TreeProblem) -> TreeProblem:
    """The statement without penalties, on one row, for the way to the parts."""
    return problem.sample(np.array([np.argmax(problem.w)]), penalties=())


def on_part(problem: TreeProblem, rows: records.Rows) -> tuple[TreeProblem | None, float]:
    """The statement on the rows of a part, None where none has weight; and their share of the weight."""
    mass = float(rows.weight.sum())
    if not mass > 0.0:
        return None, 0.0
    y = rows.Y if problem.classes is None else problem.classes[rows.Y[:, 0].astype(np.intp)]
    return problem.with_rows(rows.X, y, rows.weight), mass


def mean_loss(problem: TreeProblem, model: Any, bag: Bag | None = None) -> Asked:
    """The mean loss of a tree or forest over the rows of a bag, or all rows: for `in_step`."""
    total, mass = yield _of_model, (bare(problem), model, bag)
    return float(total / mass) if mass > 0.0 else np.nan


def _of_model(rows: records.Rows, first: int, told: tuple[TreeProblem, Any, Bag | None]) -> Floats:
    problem, model, bag = told
    if bag is not None:
        rows = rows._replace(weight=rows.weight * bag.weights(first, len(rows.weight)))
    stated, mass = on_part(problem, rows)
    return np.zeros(2) if stated is None else np.array([mass * stated.mean_loss(model), mass])


def _answers(part: Any, number: int, shared: Any) -> tuple[Any, ...]:
    reader, firsts, questions = shared
    rows = reader(part)
    return tuple(function(rows, int(firsts[number]), told) for function, told in questions)
