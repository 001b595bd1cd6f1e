"""`Ratio` and `NeymanPearson`: trees of the best F1 or of few false alarms, by a few solves of weighted 0/1 loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.clock import seconds_left
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from solvers.core.base import Solver, Step, Steps
from solvers.core.driver import solve
from solvers.core.result import Result, Termination, Verdict
from solvers.exact.branch_and_bound import BranchAndBound

CLOSE = 1e-9  # relative, of a ratio or a multiplier
ROUNDS = 60


class _Weighted(Solver):
    """Solves the problem again and again, with weights for either kind of error."""

    solver: Solver

    def refusal(self, problem: TreeProblem) -> str | None:
        """Reason why ``solver`` cannot solve the problem, or it does not have two classes."""
        return self.solver.refusal(problem) or self._refusal(problem)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes 0/1 loss of two classes, without penalties."""
        if problem.loss_function.name != "zero_one" or problem.n_outputs != 2:
            return "it needs loss='zero_one' and two classes, of which the second is the positive one"
        if self.solver.makes_forests:
            return f"it needs single trees, and {self.solver.brief()} makes forests"
        if (reason := problem.violation(problem.best_constant())) is not None:
            return f"a tree of one leaf must satisfy the constraints, and {reason}"
        if problem.penalties:
            return "its measure has no room for penalties; state side constraints such as MaxSplits in their place"
        return None

    def _solved(self, problem: TreeProblem, missed: float, alarms: float, start: Tree | None, rng: Rng) -> Any:
        """The result with these weights of positive and of negative rows, and the bound on its sum of weights."""
        positive = problem.Y[:, 0] == 1.0
        weight = problem.w * np.where(positive, missed, alarms)
        stated = problem.with_rows(problem.X, problem.y, weight, constraints=problem.constraints)
        for name in ("presorted", "ranks"):  # sorted once
            stated.__dict__[name] = getattr(problem, name)
        left = seconds_left()
        result = solve(
            stated,
            self.solver,
            start=start,
            time_limit=max(left, 1e-3) if np.isfinite(left) else None,
            random_state=int(rng.integers(2**31 - 1)),
        )
        bound = 0.0 if result.bound is None else max(result.bound, 0.0)
        return result, bound * weight.sum()


def counted(problem: TreeProblem, tree: Tree) -> tuple[float, float, float]:
    """Weight of the positive rows, of those that the tree finds, and of the rows that it finds wrongly."""
    assert problem.classes is not None  # of 0/1 loss
    positive, found = problem.Y[:, 0] == 1.0, tree.predict(problem.X) == problem.classes[1]
    w: NDArray[np.float64] = problem.w
    return float(w[positive].sum()), float(w[positive & found].sum()), float(w[~positive & found].sum())


@dataclass(frozen=True)
class Ratio(_Weighted):
    """The tree of the highest F1, F-beta or Jaccard measure, by a few solves under weighted 0/1 loss.

    Dinkelbach's method: at a ratio r, errors weigh as much as they would change its numerator less r times its
    denominator; the best tree's ratio is the next r, until none is better. With a solver that proves its trees, the
    last one is proved too. `solve` returns this tree; its ``ratio`` and a ``bound`` that no tree exceeds are in the
    ``info`` of the last step, and in the message. Leaves hold shares of the weighted rows.

    See Also
    --------
    NeymanPearson : few false alarms
    opttree.OCTClassifier : the fewest errors

    References
    ----------
    Dinkelbach, "On nonlinear fractional programming", Management Science 13 (1967).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import Ratio, solve
    >>> X, y = datasets.load("breast_cancer", as_arrays=True)
    >>> problem = TreeProblem(X, y, depth=2, splits="axis", loss="zero_one")
    >>> result = solve(problem, Ratio("f1"))
    >>> last = result.trace.rows[-1].info
    >>> round(last["ratio"], 4), bool(last["bound"] - last["ratio"] < 1e-6)
    (0.9469, True)
    """

    measure: Literal["f1", "fbeta", "jaccard"] = option("f1", "What is maximised, of the second class.")
    solver: Solver = option(BranchAndBound(), "What solves each round.")
    beta: float = option(2.0, "Weight of recall against precision of ``fbeta``.", least=1e-3)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The tree of the highest ratio, once no better one is left or the time is up."""
        square = {"f1": 1.0, "fbeta": self.beta**2, "jaccard": 0.0}[self.measure]

        def ratio_of(tree: Tree) -> float:
            total, found, wrong = counted(problem, tree)
            if not square:
                return found / (total + wrong)
            return (1.0 + square) * found / (square * total + found + wrong)

        positives = counted(problem, problem.best_constant())[0]
        if not positives:
            return (yield from _only(problem.best_constant(), 0.0, 0.0, self.measure, Termination.STALLED))
        everything = problem.best_constant()
        everything = Tree.constant(np.array([0.0, 1.0]), everything.n_features, everything.classes)
        best, ratio, bound = everything, ratio_of(everything), 1.0
        ended = Termination.ITERATION_LIMIT
        for _ in range(ROUNDS):
            yield None
            missed = 1.0 + square - ratio if square else 1.0
            result, least = self._solved(problem, missed, ratio, start, rng)
            tree = as_tree(result.tree)
            above = (missed - square * ratio if square else 1.0 - ratio) * positives - least
            bound = min(bound, ratio + max(above, 0.0) / ((square or 1.0) * positives))
            found = ratio_of(tree)
            settled = found <= ratio * (1.0 + CLOSE)
            if found > ratio:
                best, ratio, start = tree, found, tree
            if settled or _stopped(result):
                ended = result.termination if _stopped(result) else Termination.STALLED
                break
        return (yield from _only(best, ratio, max(bound, ratio), self.measure, ended))


@dataclass(frozen=True)
class NeymanPearson(_Weighted):
    """A tree that finds many positive rows while at most a share of the negative ones is taken for positive.

    By a multiplier of false alarms, which is halved and doubled until trees on both sides of the limit are next to one
    another. `solve` returns the best tree that keeps the limit; its ``recall`` and ``false_alarms``, and a ``bound`` on
    the recall of all trees that keep the limit, are in the ``info`` of the last step. A gap may remain that no
    multiplier closes: there may be trees that find more and are the best at none of them.

    See Also
    --------
    Ratio : F1 and other ratios

    References
    ----------
    Scott and Nowak, "A Neyman-Pearson approach to statistical learning", IEEE Transactions on Information Theory 51
    (2005).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import NeymanPearson, solve
    >>> X, y = datasets.load("breast_cancer", as_arrays=True)
    >>> problem = TreeProblem(X, y, depth=2, splits="axis", loss="zero_one")
    >>> last = solve(problem, NeymanPearson(0.02)).trace.rows[-1].info
    >>> bool(last["false_alarms"] <= 0.02), bool(last["recall"] <= last["bound"])
    (True, True)
    """

    share: float = option(0.05, "Largest share of the negative rows that is taken for positive.", above=0, most=1)
    solver: Solver = option(BranchAndBound(), "What solves each round.")
    rounds: int = option(20, "Multipliers that are tried.", least=1)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The best tree that keeps the limit, after all rounds or when the time is up."""
        constant = problem.best_constant()
        none = Tree.constant(np.array([1.0, 0.0]), constant.n_features, constant.classes)
        positives = counted(problem, none)[0]
        negatives = 1.0 - positives
        best, most, bound, low, high = none, 0.0, 1.0, 0.0, np.inf
        multiplier, ended = positives / max(negatives, 1e-300), Termination.ITERATION_LIMIT
        for _ in range(self.rounds if positives and negatives else 0):
            yield None
            result, least = self._solved(problem, 1.0, multiplier, start, rng)
            tree = as_tree(result.tree)
            _total, found, wrong = counted(problem, tree)
            # missed + multiplier (wrong - share negatives) is at least least - multiplier share negatives
            bound = min(bound, 1.0 - (least - multiplier * self.share * negatives) / positives)
            if wrong <= (self.share + CLOSE) * negatives:
                if found > most:
                    best, most = tree, found
                high = multiplier
            else:
                low = multiplier
            if _stopped(result) or (np.isfinite(high) and high - low <= CLOSE * high):
                ended = result.termination if _stopped(result) else Termination.STALLED
                break
            multiplier = 2.0 * multiplier if np.isinf(high) else 0.5 * (low + high)
        recall, alarms = most / max(positives, 1e-300), counted(problem, best)[2] / max(negatives, 1e-300)
        info = {"recall": recall, "false_alarms": alarms, "bound": max(bound, recall)}
        yield Step(best, phase="neyman-pearson", info=info)
        return Verdict(ended, f" Recall {recall:.6g}, of at most {info['bound']:.6g}.")


def _stopped(result: Result) -> bool:
    return result.termination in (Termination.TIME_LIMIT, Termination.INTERRUPTED)


def _only(tree: Tree, ratio: float, bound: float, name: str, ended: Termination) -> Steps:
    """One step, and the end."""
    yield Step(tree, phase=name, info={"ratio": ratio, "bound": bound})
    return Verdict(ended, f" {name} {ratio:.6g}, of at most {bound:.6g}.")
