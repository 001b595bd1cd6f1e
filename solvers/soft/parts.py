"""Soft and smooth trees over a table in parts: the objective and its gradient add up over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from opttree.kernels import records
from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem
from opttree.runtime.clock import seconds_left
from opttree.statement import L1, L2, FeatureL1, L2Constants, TreeProblem
from solvers.core.parts import bare, on_part
from solvers.core.result import Termination
from solvers.soft.by_feature import add_smoothed, constant_bounds, without_tiny
from solvers.soft.starts import soft_start, soft_tree

__all__ = ["Answered", "SoftOverParts"]

SCALES = (10.0, 20.0, 40.0, 80.0, 160.0)  # of gates, one after the other

Floats = NDArray[np.float64]


class Answered(NamedTuple):
    """Of a tree and all rows: the mean loss, the share of the rows at each node (2 B + 1,), and the range of the
    outcomes (K,).
    """

    loss: float
    share: Floats
    low: Floats
    high: Floats


class _TimeUpError(Exception):
    """The time is up, at a point that is kept."""


@dataclass(frozen=True)
class SoftOverParts:
    """L-BFGS on all variables of a soft tree (SRT paper, eq. 3 and 4), from a tree that is there; each evaluation of
    the objective and its gradient is a round over all rows.

    Attributes
    ----------
    rows : opttree.Rows
        The table.
    reader : callable
        From a part to its rows in the units of the statement, with weights whose sum over all parts is one.
    problem : TreeProblem
        The statement, on a sample; its penalties are those for all rows.
    mixture : bool
        Whether the tree answers with the mean of its leaves.
    class_weights : ndarray of shape (K,) or None
        Weights of the classes that are part of the rows' weights; shares of rows are without them.
    """

    rows: Any
    reader: Callable[[Any], records.Rows]
    problem: TreeProblem
    mixture: bool
    class_weights: Floats | None = None

    def minimised(
        self, tree: Tree, iterations: int, said: Callable[[int, float], None], rng: np.random.Generator
    ) -> tuple[Tree, float, Termination]:
        """The soft tree after L-BFGS; after Ctrl-C, or where time is up, the best so far.

        Parameters
        ----------
        tree : Tree
            A soft tree of the statement, where descent begins; one leaf gets random splits.
        iterations : int
            Largest number of iterations.
        said : callable
            Is told the number of each evaluation, and the lowest objective.
        rng : numpy.random.Generator
            Random numbers of splits.

        Returns
        -------
        tree : Tree
            The soft tree, whose linear leaves answer without bounds.
        objective : float
            Its smooth objective; infinite where there was no time for one evaluation.
        termination : Termination
            Why descent ended.
        """
        assert tree.gate is not None
        smooth = SmoothTreeProblem(
            self.problem.restated(depth=tree.depth or self.problem.depth),
            alpha=float(tree.gate),
            aggregation="mixture" if self.mixture else "expected",
        )
        begun = np.asarray(soft_start(smooth, tree, None, rng), np.float64)
        best, lowest, ended = self._descended(smooth, begun, iterations, said)
        self.rows.watch = None  # another Ctrl-C does not end the rounds that tell of the tree
        return soft_tree(smooth, best, mixture=self.mixture, clip=False), lowest, ended

    def hardened(
        self, tree: Tree, iterations: int, said: Callable[[int, float], None], rng: np.random.Generator
    ) -> tuple[Tree, Termination]:
        """The hard tree after L-BFGS on all variables of the smooth one (GET paper, eq. 4), whose gates become steeper;
        after Ctrl-C, or where time is up, that of the best point so far.

        Parameters
        ----------
        tree : Tree
            A hard tree of the statement, where descent begins; one leaf gets random splits.
        iterations : int
            Largest number of iterations at each of the scales of gates.
        said : callable
            Is told the number of each evaluation, and the lowest smooth objective.
        rng : numpy.random.Generator
            Random numbers of splits.

        Returns
        -------
        tree : Tree
            A complete hard tree with the leaves of the smooth one.
        termination : Termination
            Why descent ended.
        """
        problem = self.problem.restated(depth=tree.depth or self.problem.depth, min_leaf=1)
        smooth = SmoothTreeProblem(problem, alpha=SCALES[0])
        theta = np.asarray(smooth.unit_splits(soft_start(smooth, tree, None, rng)), np.float64)
        ended = Termination.ITERATION_LIMIT
        for scale in SCALES:
            theta, _lowest, ended = self._descended(smooth.with_alpha(scale), theta, iterations, said)
            if ended in (Termination.TIME_LIMIT, Termination.INTERRUPTED):
                break
        return smooth.harden(theta), ended

    def _descended(
        self, smooth: SmoothTreeProblem, best: Floats, iterations: int, said: Callable[[int, float], None]
    ) -> tuple[Floats, float, Termination]:
        """The best point of L-BFGS, its objective, and why it ended."""
        ended = Termination.ITERATION_LIMIT
        lowest, number = np.inf, 0

        def evaluated(theta: Floats) -> tuple[float, Floats]:
            nonlocal best, lowest, number
            value, gradient = self._value_and_grad(smooth, theta)
            if value < lowest:
                best, lowest = theta.copy(), value
            said(number, lowest)
            number += 1
            if seconds_left() <= 0.0:
                raise _TimeUpError
            return value, gradient

        try:
            bounds = None
            if smooth.problem.strength(FeatureL1, "strength"):
                bounds = Bounds(*constant_bounds(smooth))
                best = np.clip(best, bounds.lb, bounds.ub)
            how = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": {"maxiter": iterations}}
            found = minimize(evaluated, best, **how)
            if found.success:
                ended = Termination.LOCALLY_OPTIMAL
        except _TimeUpError:
            ended = Termination.TIME_LIMIT
        except KeyboardInterrupt:
            ended = Termination.INTERRUPTED
        return np.asarray(without_tiny(smooth, best), np.float64), lowest, ended

    def answered(self, tree: Tree) -> Answered:
        """The loss of a tree, and what else is known of its rows, in one round.

        Parameters
        ----------
        tree : Tree
            A tree of the statement.

        Returns
        -------
        Answered
            Loss, shares and range.
        """
        low, high = np.full(self.problem.n_outputs, np.inf), np.full(self.problem.n_outputs, -np.inf)
        loss, share = 0.0, np.zeros(tree.n_nodes)
        told = self.reader, bare(self.problem), tree, self.class_weights
        for own, shares, least, most in self.rows.each(_answered, told):
            loss, share = loss + own, share + shares
            low, high = np.minimum(low, least), np.maximum(high, most)
        return Answered(loss, share / share[0], low, high)

    def _value_and_grad(self, smooth: SmoothTreeProblem, theta: Floats) -> tuple[float, Floats]:
        told = self.reader, bare(smooth.problem), smooth.alpha, smooth.aggregation, theta
        value, gradient = self.rows.sum(_gradient, told)
        gradient = gradient.copy()
        A, b, values, coefs = smooth.unpack(theta)
        of_A, of_b, of_values, of_coefs = smooth.unpack(gradient)
        for on, weights, slopes, kinds in (
            ("splits", A, of_A, (L1, L2)),
            ("splits", b, of_b, (None, L2Constants)),
            ("leaves", values, of_values, (None, L2Constants)),
            ("leaves", coefs, of_coefs, (L1, L2)),
        ):
            l1, l2 = (0.0 if kind is None else smooth.problem.strength(kind, on) for kind in kinds)
            value += l1 * np.sum(np.abs(weights)) + l2 * np.sum(weights**2)
            slopes += l1 * np.sign(weights) + 2.0 * l2 * weights
        if strength := smooth.problem.strength(FeatureL1, "strength"):
            value += add_smoothed(smooth, theta, strength, gradient)
        return float(value), gradient


def _gradient(part: Any, number: int, told: Any) -> tuple[float, Floats]:
    reader, problem, alpha, aggregation, theta = told
    stated, mass = on_part(problem, reader(part))
    if stated is None:
        return 0.0, np.zeros_like(theta)
    value, gradient = SmoothTreeProblem(stated, alpha, aggregation).value_and_grad(theta)
    return mass * value, mass * np.asarray(gradient, np.float64)


def _answered(part: Any, number: int, told: Any) -> tuple[float, Floats, Floats, Floats]:
    reader, problem, tree, class_weights = told
    stated, mass = on_part(problem, reader(part))
    if stated is None:
        none = np.full(problem.n_outputs, np.inf)
        return 0.0, np.zeros(tree.n_nodes), none, -none
    weight = mass * stated.w
    if class_weights is not None:
        weight = weight / class_weights[stated.Y[:, 0].astype(np.intp)]
    share = float(weight.sum()) * tree.node_share(stated.X, weight)
    return mass * stated.mean_loss(tree), share, stated.Y.min(axis=0), stated.Y.max(axis=0)
