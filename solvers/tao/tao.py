"""`TAO`: Algorithm 1 of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng

from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import L1, L2, TreeProblem
from opttree.statement.constraints import MaxSplits
from solvers.core.base import Solver, Step, Steps, last_step
from solvers.core.result import Termination
from solvers.initial import Initial, RandomInit
from solvers.nodes import AxisNode, NewtonNode, NodeSolver
from solvers.tao.state import State

PRINTED_STEPS = 5  # of the paper's method: near the minimum, from the hyperplane of the pass before
NEWTON_STEPS = 2  # per node and pass: as measured, more steps take time and do not lower the tree's objective


@dataclass(frozen=True)
class TAO(Solver):
    """Alternate over the levels of a tree of fixed structure: each branch node is refitted as a weighted binary
    classifier of its reduced set, each leaf as a regressor (or class frequencies) of its reduced set.

    The node problems include the l1 and l2 penalties. A `SplitPrice` or a user-defined penalty counts in the objective
    by which the best tree is kept, but is ignored when nodes are refitted. Under `opttree.constraints.MaxSplits` the
    weakest pairs of leaves of the first tree are joined, and no pass adds a split.

    See Also
    --------
    opttree.TAORegressor : the estimator
    Chain, MultiStart : with other starts
    NewtonNode, LiblinearNode, SklearnNode, AxisNode : its node solvers

    References
    ----------
    Zharmagambetov and Carreira-Perpinan, "Smaller, more accurate regression forests using tree alternating
    optimization", ICML 2020.

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> result = solve(problem, TAO(), random_state=0)
    >>> result.objective < problem.objective(problem.best_constant())
    True
    """

    wants_zero = True

    needs = ("value", "constant")
    takes_sparse = True
    respects = (MaxSplits,)

    max_iter: int = option(40, "Largest number of passes over the tree; 40 in the paper.", least=0)
    init: Initial = option(factory=RandomInit, doc="The initial tree, if `solve` is given no start.")
    node_solver: NodeSolver | None = option(
        None,
        """Solver of the node problems; by default `NewtonNode` with two steps per pass for oblique splits, `AxisNode`
        for axis-aligned ones.""",
    )
    accept: Literal["always", "improve"] = option(
        "always",
        """"always" accepts every new hyperplane, which the paper found better; "improve" only those that do not raise
        the node's part of the objective (weighted 0/1 loss plus penalty), so that the objective never rises.""",
    )
    constant_iterations: int = option(
        3,
        """Passes with constant leaves before linear ones, if the start has no linear leaves. Linear leaves fitted to
        the scattered reduced sets of a poor start keep every row in its leaf.""",
        least=0,
    )
    min_linear_rows: int | None = option(
        None, "Fewest rows of a linear leaf, ``2 (p + 1)`` by default; smaller leaves stay constant.", least=1
    )
    split_lasso: float = option(
        0.0,
        """The l1 penalty on the weights of each split in its logistic regression, whose weights sum to one, in place of
        the statement's penalties on splits, which do not shrink with the rows of a node. For oblique splits.""",
        least=0,
    )
    leaf_lasso: float = option(
        0.0,
        """The l1 penalty on the weights of each linear leaf against half the mean squared error, or the mean of another
        loss, on its rows, in place of the statement's penalties on leaves.""",
        least=0,
    )
    clip: bool = option(
        True, "Clip linear leaves to the intersection of the ranges of y and of the fitted values on their rows."
    )
    keep: Literal["best", "last"] = option(
        "best",
        """"best": every pass is a step, and `solve` keeps the best; "last": only the last one is, as in Algorithm 1,
        which returns it even where an earlier tree, or the start, was better.""",
    )
    tol: float = option(
        1e-5,
        "Stop when the best objective has decreased by less than this share over ``patience`` passes.",
        least=0,
    )
    patience: int = option(5, "See ``tol``.", least=1)

    @staticmethod
    def paper(max_iter: int = 40) -> TAO:
        """The method as printed (TAO paper, sections 3 and 4), for standardised features and outputs.

        Random hyperplanes of unit length; 40 passes, root first; l1 logistic regressions, always accepted; lasso leaves
        from the first pass on, of any number of rows; the tree of the last pass is the result, without dead subtrees.
        Its l1 penalty, alpha = .01, is printed beside a sum over rows (eqs. 1, 4, 5), where it would leave trees dense
        (640 parameters on cpu_act in place of the 270 of Table 1); read for the mean over the rows of each reduced
        problem, as in scikit-learn's ``Lasso(alpha=.01)``, it gives trees of the paper's sizes, so that this is the
        reading here. On linear leaves it stands beside errors in the unit of the outputs: their deviation, or y's own
        unit (``y_unit`` of `opttree.TAORegressor`), which is the reading of the protocols of Tables 1 to 4. Thresholds
        of the random start, which are not stated, are medians (``RandomInit(threshold="gaussian")`` draws them); leaves
        are fitted to it.

        Parameters
        ----------
        max_iter : int, default 40
            Passes over the tree.

        Returns
        -------
        TAO
            The solver.

        Examples
        --------
        >>> from solvers import TAO
        >>> TAO.paper().max_iter, TAO.paper().keep
        (40, 'last')
        """
        return TAO(
            max_iter=max_iter,
            init=RandomInit(),
            node_solver=NewtonNode(max_iter=PRINTED_STEPS),
            constant_iterations=0,
            min_linear_rows=1,
            split_lasso=0.01,
            leaf_lasso=0.01,
            clip=False,
            keep="last",
            tol=0.0,
        )

    def nodes(self, problem: TreeProblem) -> NodeSolver:
        """Node solver in use for a problem.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        NodeSolver
            The node solver.
        """
        return self.node_solver or (AxisNode() if problem.splits == "axis" else NewtonNode(max_iter=NEWTON_STEPS))

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes axis-aligned problems if the node solver is axis-aligned, and the penalties that it takes."""
        if (reason := self.init.refusal(problem.restated(constraints=()))) is not None:
            return reason
        solver = self.nodes(problem)
        if problem.splits == "axis" and not solver.axis_aligned:
            return f"{type(solver).__name__} makes oblique splits and the problem asks for axis-aligned ones"
        splits, leaves = ([kind for kind in (L1, L2) if problem.strength(kind, on)] for on in ("splits", "leaves"))
        for name, given in (("split_lasso", splits), ("leaf_lasso", leaves)):
            if getattr(self, name) and given and (name == "leaf_lasso" or problem.splits == "oblique"):
                return f"{name} takes the place of the statement's penalties, and the problem has {given[0].__name__}"
        if self.split_lasso and problem.splits == "oblique":
            return solver.penalty_refusal(self.split_lasso, 0.0)
        return solver.penalty_refusal(problem.strength(L1, "splits"), problem.strength(L2, "splits"))

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Algorithm 1; yields the pruned tree after each pass over the levels, and None between groups of nodes."""
        node_solver, given = self.nodes(problem), start
        if start is None:
            for tree in self.init.growth(problem.restated(constraints=()), rng):
                yield None
                start = tree
            assert start is not None  # growth ends with a tree
        constant_first = problem.leaves == "linear" and not start.linear_leaves
        options = {name: getattr(self, name) for name in ("split_lasso", "leaf_lasso", "clip")}
        feasible = problem.enforce_max_splits(problem.enforce_min_leaf(start))
        state = State(problem, feasible, self.min_linear_rows, self.accept == "improve", **options)
        if self.accept == "always" or constant_first:
            state.fit_leaves(linear=problem.leaves == "linear" and not constant_first)
        tree, objective = state.pruned()
        begun = Step(tree, objective, phase="start")
        if given is not None and given.gate is None and problem.violation(given) is None:
            as_given = problem.objective(given)  # its leaves may be better than those that are fitted here
            begun = begun if objective <= as_given else Step(given, as_given, phase="start")
        passes = self._passes(problem, state, objective, node_solver, constant_first, rng)
        if self.keep == "last":
            return (yield from last_step(passes, begun))
        yield begun
        return (yield from passes)

    def _passes(
        self,
        problem: TreeProblem,
        state: State,
        objective: float,
        node_solver: NodeSolver,
        constant_first: bool,
        rng: Rng,
    ) -> Steps:
        best, stuck = np.inf, 0
        for iteration in range(self.max_iter):
            linear = problem.leaves == "linear" and not (constant_first and iteration < self.constant_iterations)
            before = state.snapshot()
            yield None
            if not (type(node_solver) is NewtonNode and state.whole_pass(node_solver)):
                for nodes in state.levels():
                    yield from self._update_level(state, nodes, node_solver, rng)
            state.fit_leaves(linear)
            last, (tree, objective) = objective, state.pruned()
            if self.accept == "improve" and objective > last * (1.0 + 1e-12):
                # the node problems ignore that rows may revive a dead subtree and its penalties: undo the pass
                state.restore(before)
                return Termination.STALLED
            yield Step(tree, objective, phase="pass")
            if linear != (problem.leaves == "linear"):
                continue
            if np.array_equal(before["leaf"], state.leaf) and not state.leaves_changed:
                return Termination.LOCALLY_OPTIMAL
            stuck = 0 if objective < best - self.tol * abs(best if np.isfinite(best) else objective) else stuck + 1
            best = min(best, objective)
            if stuck >= self.patience:
                return Termination.STALLED
        return Termination.ITERATION_LIMIT

    def _update_level(self, state: State, nodes: np.ndarray, node_solver: NodeSolver, rng: Rng) -> Iterator[None]:
        """Train the decision functions of one level and compute the reduced sets of their children."""
        level, current_cost = state.reduced_problems(nodes)
        A, b, cost = state.A[nodes], state.b[nodes], np.zeros(nodes.size)
        for first, last in state.groups(level, node_solver.exact or node_solver.looks_at_the_clock(level)):
            group = slice(first, last)
            A[group], b[group], cost[group] = node_solver.solve_level(level.part(first, last), A[group], b[group], rng)
            yield None
        state.accept(nodes, level, (A, b, cost), current_cost, node_solver.exact)
        state.advance()
