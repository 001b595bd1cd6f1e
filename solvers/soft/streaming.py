"""Training on rows that arrive in parts: mini-batch descent on each part; the first rows select the best model.

Parts are `TreeProblem`s with the same options on other rows, see `TreeProblem.with_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.algebra.quadratic import solve_linear_leaf
from opttree.kernels.smooth import first_order
from opttree.kernels.smooth.walk import Objective
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem, SoftForestProblem
from opttree.runtime.clock import now
from opttree.runtime.devices import Device
from opttree.runtime.interrupts import interrupted
from opttree.statement import L1, L2, TreeProblem
from solvers.sdtr import SDTR
from solvers.sdtr.descent import DIVERGED, QHADAM, descent, parts_of, portion, rates

__all__ = ["ForestStream", "TreeStream"]

ENOUGH_JUDGES = 1000  # rows
LEAST_BATCHES = 20  # of a part, in passes over it
BATCH = 4096  # rows of a gradient step
RATE = 1e-3  # learning rate of Adam, from a trained tree
SCALE = 20.0  # gate scale
ADAM = first_order.Moments(0.9, 0.999, 1.0, 1.0, 1e-8)


class TreeStream:
    """Training of GET's smooth tree with steep gates, from a tree that solves a problem.

    After every part the hard tree, with leaves fitted to the first rows, is kept if its objective on them is lower.

    Parameters
    ----------
    problem : TreeProblem
        The problem of the first rows.
    tree : Tree
        Tree to start from.
    rng : numpy.random.Generator
        Random numbers.
    device : {"cpu", "gpu", "torch", "auto"}, default "cpu"
        Device of the steps on a part, as `opttree.SmoothTreeProblem` has it.

    See Also
    --------
    opttree.GETRegressor.fit_chunks : what runs it

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, solve, streaming
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> import numpy as np
    >>> stream = streaming.TreeStream(problem, solve(problem, TAO(), random_state=0).tree, np.random.default_rng(0))
    >>> stream.learn(problem.with_rows(problem.X, problem.y))
    >>> problem.violation(stream.tree) is None
    True
    """

    def __init__(self, problem: TreeProblem, tree: Tree, rng: Rng, device: Device = "cpu") -> None:
        self.problem = problem.restated(depth=max(tree.depth, 1))
        self.tree, self.objective, self.rng, self.device = tree, problem.objective(tree), rng, device
        smooth = SmoothTreeProblem(self.problem.sample(np.arange(1)).restated(min_leaf=1), dtype="float32")
        self.theta = smooth.unit_splits(smooth.soften(self.problem.fit_leaves(tree)))
        self.moments = np.zeros((2, self.theta.size), np.float32)
        self.steps = 0

    def move(self, device: Device) -> None:
        """Take further steps on another device.

        Parameters
        ----------
        device : {"cpu", "gpu", "torch", "auto"}
            The device.
        """
        self.device = device

    def learn(self, part: TreeProblem) -> None:
        """Take one pass over further rows, in mini-batches.

        Parameters
        ----------
        part : TreeProblem
            The problem of the rows.
        """
        smooth = SmoothTreeProblem(part, alpha=SCALE, dtype="float32", device=self.device)
        groups = batches(part.n_samples, BATCH, self.rng)
        if smooth.uses_device:
            self._descend_on_device(smooth, groups)
        else:
            data, bounds = smooth.pack_rows(groups)
            rates, scales = np.full(len(bounds), RATE), np.full(len(bounds), SCALE)
            schedule = first_order.Schedule(self.steps, rates, scales, bounds)
            stated = Objective(data, smooth.form, smooth.penalty)
            first_order.descend(self.theta, self.moments, schedule, ADAM, False, stated)
        self.steps += len(groups)
        tree = self.problem.fit_leaves(smooth.harden(self.theta))
        objective = self.problem.objective(tree)
        if objective < self.objective:
            self.tree, self.objective = self.problem.trim(tree), objective

    def _descend_on_device(self, smooth: SmoothTreeProblem, groups: list[NDArray[Any]]) -> None:
        """The steps of `learn` on a device."""
        batch = SmoothTreeProblem.batch_of([smooth])
        with batch.within_memory():
            theta, alpha = batch.upload(self.theta[None]), batch.upload([SCALE])
            state = batch.upload(self.moments[:1]), batch.upload(self.moments[1:])
            for i, group in enumerate(groups):
                rows = batch.batch([group])
                theta, state = batch.step(theta, state, self.steps + i + 1, RATE, alpha, rows, ADAM, False)
            self.theta, self.moments = batch.download(theta)[0], np.concatenate([batch.download(s) for s in state])

    def refit(self, parts: Iterable[TreeProblem]) -> Tree:
        """Fit the leaves of the best tree exactly to all rows, by accumulated sums.

        Linear leaves for classes have no such sums and are unchanged; bounds of leaves are those of the first rows.

        Parameters
        ----------
        parts : iterable of TreeProblem
            Problems of all rows, part by part.

        Returns
        -------
        Tree
            The tree with these leaves.
        """
        tree, problem = self.tree, self.problem
        if problem.is_classification and tree.linear_leaves:
            return tree
        K, p = problem.n_outputs, problem.n_features if tree.linear_leaves else 0
        grams, sums = np.zeros((tree.n_leaves, p + 1, p + 1)), np.zeros((tree.n_leaves, K, p + 1))
        for part in parts:
            target = np.eye(K)[part.Y[:, 0].astype(int)] if problem.is_classification else part.Y
            leaf = tree.apply(part.X) - tree.n_branches
            order = np.argsort(leaf, kind="stable")
            ends = np.searchsorted(leaf[order], np.arange(tree.n_leaves + 1))
            rows = np.column_stack([part.X[:, :p], np.ones(part.n_samples)])
            for number in range(tree.n_leaves):
                members = order[ends[number] : ends[number + 1]]
                grams[number] += rows[members].T @ rows[members]
                sums[number] += target[members].T @ rows[members]
        counts = grams[:, p, p]
        values, coefs = tree.values.copy(), tree.leaf_arrays[1].copy()
        l1, l2 = (problem.strength(kind, "leaves") * float(counts.sum()) for kind in (L1, L2))
        for number in map(int, np.flatnonzero(counts >= (2 * (p + 1) if p else 1))):
            for k in range(K):
                v = np.append(coefs[number, k], values[number, k])
                solve_linear_leaf(grams[number], sums[number, k], l1, l2, v)
                coefs[number, k], values[number, k] = v[:p], v[p]
        return replace(tree, values=values, coefs=coefs)


class ForestStream:
    """Training by SDTR's QHAdam: a run on the first rows, then a pass over every further part, or several, of twenty
    batches in all. The rows that the run holds out, and as large a share of every part until there are a thousand, say
    which theta is the best so far.

    Parameters
    ----------
    solver : SDTR
        Options of the training.
    problem : TreeProblem
        The problem of the first rows.
    rng : numpy.random.Generator
        Random numbers.
    time_limit : float or None, default None
        Seconds of the run on the first rows.

    See Also
    --------
    opttree.SDTRRegressor.fit_chunks : what runs it

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import SDTR, streaming
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> import numpy as np
    >>> stream = streaming.ForestStream(SDTR(n_trees=2), problem, np.random.default_rng(0))
    >>> stream.learn(problem.with_rows(problem.X, problem.y))
    >>> stream.model.predict(problem.X).shape
    (442,)
    """

    def __init__(self, solver: SDTR, problem: TreeProblem, rng: Rng, time_limit: float | None = None) -> None:
        end = np.inf if time_limit is None else now() + time_limit
        self.solver, self.rng = solver, rng
        self.whole = SoftForestProblem(problem, aggregation=solver.aggregations[0], **solver.shared)
        train, held_out = parts_of(solver, problem, rng)
        self.judge = replace(self.whole, problem=held_out)
        start = self.whole.random_theta(rng, solver.beta)
        run = descent(solver, replace(self.whole, problem=train), self.judge, start, rng)
        batches_at_once = portion(solver, train.n_samples, start.size)
        while run.remaining and now() < end and not interrupted():
            run.advance(batches_at_once)
        self.best, self.loss = run.best[0].theta, run.best[0].loss
        self.theta, self.moments = self.best, np.zeros((2, self.best.size), self.best.dtype)
        self.rates = rates(solver, problem.depth)
        self.steps = 0

    def move(self, device: Device) -> None:
        """Take further steps on another device.

        Parameters
        ----------
        device : {"cpu", "gpu", "torch", "auto"}
            The device.
        """
        self.whole, self.judge = (replace(forest, device=device) for forest in (self.whole, self.judge))

    def learn(self, part: TreeProblem) -> None:
        """Take a pass over further rows, in mini-batches, or several of few, but for those that are held out.

        Parameters
        ----------
        part : TreeProblem
            The problem of the rows.
        """
        judges = self.judge.problem
        share = isinstance(self.solver.validation, float)
        if share and judges.n_samples < ENOUGH_JUDGES and part.n_samples > 1:
            part, more = parts_of(self.solver, part, self.rng)
            judges = judges.with_rows(np.concatenate([judges.X, more.X]), np.concatenate([judges.y, more.y]))
            self.judge = replace(self.judge, problem=judges)
            self.loss = self.judge.mean_loss(self.best)
        soft = replace(self.whole, problem=part)
        groups: list[NDArray[Any]] = []
        while len(groups) < LEAST_BATCHES:
            groups += batches(part.n_samples, self.solver.batch_size, self.rng)
        theta, state = soft.descent_state(self.theta, self.moments)
        theta, state, loss = soft.descend(theta, state, self.steps, self.rates, groups, QHADAM)
        self.theta, self.moments = soft.to_numpy(theta), np.stack([soft.to_numpy(moment) for moment in state])
        if not (np.isfinite(loss) and np.isfinite(self.theta).all()):
            raise FloatingPointError(DIVERGED)
        self.steps += len(groups)
        judged = self.judge.mean_loss(self.theta)
        if judged < self.loss:
            self.best, self.loss = self.theta, judged

    @property
    def model(self) -> Tree | Forest:
        """The best model so far."""
        return self.whole.harden(self.best)


def batches(n: int, size: int, rng: Rng) -> list[NDArray[Any]]:
    """``n`` rows in random order, in batches of about ``size``."""
    return np.array_split(rng.permutation(n), -(-n // size))
