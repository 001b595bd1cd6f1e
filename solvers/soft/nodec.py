"""`NODEC`: node-based decomposition of the smooth tree, with the data points reassignment heuristic."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.records import Net
from opttree.kernels.smooth.first_order import lbfgs_memory
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem, SubtreeProblem
from opttree.problems.smooth.rows_at_point import RowsAtPoint
from opttree.runtime.calm import calm_threads
from opttree.runtime.devices import Device
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.wide.logistic import fit_at_any_width
from opttree.wide.soft import fit_leaves
from solvers.core.base import Solver, Step, Steps
from solvers.core.result import Termination
from solvers.initial import ClusterInit
from solvers.soft.line_search import ArmijoLineSearch
from solvers.soft.starts import constant_tree, one_leaf, soft_start, soft_tree, with_depth_cap

Floats = NDArray[np.floating]
PORTION = 25  # iterations on all variables between two steps
ROUNDING = 1e-12  # relative increase of the objective that counts as rounding error


class WorkingSet(NamedTuple):
    """The variables of one inner iteration: splits at and ``"below"`` a node, its ``"own"``, or ``"none"``; leaves."""

    node: int
    splits: str
    leaves: slice  # leaves below the node


@dataclass(frozen=True)
class NODEC(Solver):
    """Minimise the expected loss of a soft tree block by block (SRT paper: NODEC-GS; by default NODEC-DR).

    Every inner iteration updates the splits of a working set (BN step) and refits its leaves by weighted least squares
    (LN step; under log loss, which the paper does not treat, by multinomial logistic regressions, or by the shares of
    the classes in constant leaves); a macro iteration is one pass over the nodes. The BN step is L-BFGS on the
    `SubtreeProblem`, or, where a node sends too small a share of its rows one way, a weighted logistic regression that
    reassigns rows (UPDATEBRANCHNODE). A step is a macro iteration: the hard tree of the point with the lowest smooth
    objective so far (since k0); `solve` keeps the step with the lowest hard objective. ``step.info`` holds the "smooth"
    objective of that point and of the "current" one; "rises", the number of inner iterations that increased it; and
    with ``k0`` the current point's "gradient_norm" and the norms of the changes in the macro iteration, "split_move"
    and "leaf_move" (Proposition 1).

    Penalties are those of the statement, `L1`, `L2` and `L2Constants`; the last two are the paper's (7).
    Working sets are as printed: the root alone, without leaves, where the tree is deeper than one level.

    See Also
    --------
    opttree.SRTRegressor : the estimator
    opttree.SubtreeProblem : its working sets
    ArmijoLineSearch : its line search

    References
    ----------
    Consolo, Amaldi and Manno, "Soft regression trees: a model variant and a decomposition training algorithm"
    (2024).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import NODEC, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> soft = solve(problem, NODEC(), random_state=0).tree
    >>> soft.gate is not None, soft.leaf_proba(X).shape
    (True, (442, 4))
    """

    takes_gates = True
    wants_zero = True
    alpha: float = option(1.0, "Scale of the gates, the paper's mu.", above=0)
    init: Solver = option(factory=lambda: ClusterInit(n_init=1, n_repeats=3), doc="Initial tree.")
    steepness: float | None = option(
        1.0,
        """Initial standard deviation of each gate's argument over the rows that pass the node, for trees without gates;
        None: split weights are used as they are. Clusters are nearly separable, and the logistic regression between
        them so steep that descent hardly leaves the start.""",
        above=0,
    )
    working_sets: Literal["subtree", "node", "all"] = option(
        "subtree",
        """"subtree" (NODEC-DR), "node" (each branch and each leaf separately), "all" (alternating minimisation).""",
    )
    max_iter: int = option(10, "Macro iterations; the pseudocode's ``it < M_it`` gives one less.", least=0)
    k0: int | None = option(
        None,
        """None: BN and LN steps on proxies (the subtree and its rows only), always accepted: the early-stopped method
        of the experiments. An integer: from inner iteration k0 on, both steps are exact, and a change of the splits is
        accepted only if it is no worse than the Armijo step (15) and lowers the objective by ``tau |move|^2`` (16);
        with penalties on splits and leaves the method then converges to stationary points (Proposition 3).""",
        least=0,
    )
    branch_solver: Literal["L-BFGS", "SLSQP"] = option(
        "L-BFGS",
        """Minimiser of a BN step: our L-BFGS, or SciPy's SLSQP as in the paper's experiments, which takes the cube of
        the number of variables.""",
    )
    branch_iterations: int = option(10, "Largest number of its iterations in a BN step.", least=1)
    branch_tolerance: float = option(1e-6, "SLSQP ends when the objective changes by less.", above=0)
    imbalance: tuple[float, float, float] = option(
        (0.1, 0.1, 0.4),
        """The paper's eps_1, eps_2, eps_3. Nodes that send at most a share ``eps_1`` of their rows one way are
        imbalanced; at most ``eps_2``, highly imbalanced: then a share ``eps_3`` of the rows on the larger side, those
        with the largest losses, is reassigned to the other side. The paper requires eps_1 > eps_2 but prints .1, .3,
        which amounts to .1, .1. See ``reassignment``.""",
        least=0,
        below=1,
        words="three shares in [0, 1)",
    )
    decay: float = option(0.8, "Factor of all three after each macro iteration, the paper's zeta.", least=0, below=1)
    line_search: ArmijoLineSearch = option(factory=ArmijoLineSearch, doc="Line search of the reference step.")
    tau: float = option(1e-8, "See ``k0``.", above=0)
    theta: float = option(
        0.5,
        """Thresholds of both steps are ``theta ** k``: if the gradient is smaller, nothing is changed and no row is
        reassigned (lines 15 and 16); a node with saturated gates is not updated until the threshold is below its
        gradient.""",
        least=0,
        below=1,
    )
    joint_iterations: int = option(
        0,
        """Iterations of L-BFGS on all variables after the last macro iteration, from the best point; 0, the default,
        is the paper's method.""",
        least=0,
    )
    tol: float = option(0.0, "With ``k0``, stop if the gradient norm of the whole objective is at most this.", least=0)
    clip: bool = option(True, "Clip the linear leaves of the trees to the range of y.")
    device: Device = option(
        "cpu",
        """"cpu", "gpu" or "auto" (see `opttree.runtime.devices.on_gpu`): device for the objectives of working sets of
        2000 rows or more and for gradients of the whole tree. Leaves and reassignments stay on the CPU.""",
    )
    branch_objective: Literal["mean", "sum"] = option(
        "mean",
        """What a BN step minimises, and of what lines 15 and 16 take the gradient: the mean loss over the rows of the
        problem, or the sum, N times that. SLSQP's first move is as long as the gradient: the two take other paths.
        L-BFGS, whose path is the same, minimises the mean.""",
    )
    reassignment: Literal["careful", "printed"] = option(
        "careful",
        """"careful": nodes with too few rows for two leaves (twice as many each as a leaf has parameters) are skipped,
        and in the regression both sides, after rows have moved, have equal weight. "printed": no node is skipped, and
        the weights N_t / (2 N_left) and N_t / (2 N_right) of (17) are of the sides before; of those after, where one of
        them is empty.""",
    )

    @staticmethod
    def paper(
        max_iter: int = 9,
        branch_solver: Literal["L-BFGS", "SLSQP"] = "SLSQP",
        reading: Literal["closest", "letter"] = "closest",
    ) -> NODEC:
        """NODEC-DR as in the experiments of the SRT paper (section 6.1, early stopped), for features in [0, 1] and
        standardised outputs.

        Nine macro iterations, as the pseudocode counts ten; SLSQP; weighted logistic regressions where rows are
        imbalanced (eps .1, .3, .4, which fall by .8), in nodes of any size and with the weights (17) of the sides
        before; exact linear leaves; the start by clusters; answers not clipped. SRT has no penalty; SRT-l2 has the
        statement's `L2` and `L2Constants`, for n rows and p features 1 / (n p branches) on splits, 1 / (n p leaves) on
        leaves. That is
        the paper's lambda read beside the sum over rows, and for gates without the factor 1/p: to the letter of eq.
        (7), see `printed_ridge`, it leaves the gates flat, far from the paper's numbers.

        By the ``"letter"`` of the paper a BN step minimises the mean over the rows, by SLSQP with SciPy's defaults (100
        iterations, tolerance 1e-6), from the gates of the start as they are. The first macro iteration then makes gates
        so steep that the others change hardly anything. ``"closest"`` minimises the sum over the rows, by at most five
        iterations, from gates whose arguments have a standard deviation of .5. Among sums of 3, 5 and 8 iterations (5,
        10 and 100 with the penalty), deviations of .25, .5, 1 and 2 and flatter regressions at the start, it came close
        to the printed numbers at depths 2 and 3, with and without the penalty, whose constant terms were free then.
        **These readings were compared by R2 on test folds**: two cuts into four folds of airfoil, auto_mpg,
        computer_hardware, housing, kin8nm, lpga2009, puma32H and yacht. Protocol ``srt_readings`` has some of them.

        What else the paper leaves open: the repetitions of the start, 3 of them, each 2-means with ten starts
        (scikit-learn's default then); theta of lines 15 and 16, .5, for the gradient of the working set's own problem,
        since the decomposition is early stopped. Printed eps_1 < eps_2 contradicts the text; taken as printed, every
        imbalanced node has rows reassigned. Where leaves have no unique least squares solution, the one of least norm
        is taken.

        Parameters
        ----------
        max_iter : int, default 9
            Macro iterations.
        branch_solver : {"L-BFGS", "SLSQP"}, default "SLSQP"
            Minimiser of a BN step.
        reading : {"closest", "letter"}, default "closest"
            How what print leaves open is read.

        Returns
        -------
        NODEC
            The solver.

        Raises
        ------
        ValueError
            For another reading.

        Examples
        --------
        >>> from solvers import NODEC
        >>> NODEC.paper().branch_objective, NODEC.paper(reading="letter").branch_objective
        ('sum', 'mean')
        """
        if reading not in ("closest", "letter"):
            raise ValueError(f"reading must be 'closest' or 'letter'; got {reading!r}")
        closest = reading == "closest"
        return NODEC(
            init=ClusterInit(n_init=10, n_repeats=3, routing="clusters"),
            steepness=0.5 if closest else None,
            max_iter=max_iter,
            branch_solver=branch_solver,
            branch_iterations=5 if closest else 100,
            branch_objective="sum" if closest else "mean",
            imbalance=(0.1, 0.3, 0.4),
            reassignment="printed",
            clip=False,
        )

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes smooth problems; depth 0 gives the constant tree."""
        if problem.depth > 0 and (reason := SmoothTreeProblem.refusal(problem)) is not None:
            return reason
        reason = problem.loss_function.refusal("smooth") or self.init.refusal(problem)
        return reason or SmoothTreeProblem.device_refusal(problem, self.device)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The paper's procedures: initialization, decomposition, update of branch nodes."""
        problem = with_depth_cap(problem, start)
        if (constant := constant_tree(problem, self.alpha)) is not None:
            yield Step(constant, phase="constant")
            return Termination.LOCALLY_OPTIMAL
        with calm_threads():
            return (yield from self._steps(problem, start, rng))

    def _steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        start_rng = rng.spawn(1)[0]
        if start is not None and start.gate is None and problem.violation(start) is None:
            yield Step(start, phase="given")
        if start is None:
            yield Step(one_leaf(problem, self.alpha), phase="constant")
            start = yield from self._initial(problem, rng)
        smooth = SmoothTreeProblem(problem, alpha=self.alpha, device=self.device)
        rows = RowsAtPoint(smooth, soft_start(smooth, start, self.steepness, start_rng))
        value = rows.value()
        best, best_value = rows.theta, value
        imbalance = np.array(self.imbalance)
        yield self._step(smooth, best, {"smooth": best_value, "current": value}, "start")
        k = rises = 0
        for _ in range(self.max_iter):
            before = rows.theta
            for working_set in self._macro_iteration(smooth.n_branches):
                if k == self.k0:  # what went before does not bind the exact phase
                    best, best_value = rows.theta, value
                self._inner_iteration(rows, working_set, imbalance, k)
                last, value = value, rows.value()
                rises += value > last + ROUNDING * abs(last)
                if value < best_value:
                    best, best_value = rows.theta, value
                k += 1
                yield None
            imbalance = imbalance * self.decay
            info = {"smooth": best_value, "current": value, "rises": float(rises)}
            if self.k0 is not None:
                info |= self._proposition_1(smooth, before, rows.theta)
            yield self._step(smooth, best, info, "decomposition")
            if self.k0 is not None and info["gradient_norm"] <= self.tol:
                return Termination.LOCALLY_OPTIMAL
        memory = lbfgs_memory(best.size)  # one L-BFGS run across the steps
        for done in range(0, self.joint_iterations, PORTION):
            best = best.copy()
            best_value = smooth.lbfgs(best, min(PORTION, self.joint_iterations - done), memory)
            yield self._step(smooth, best, {"smooth": best_value, "current": best_value}, "all variables")
        return Termination.ITERATION_LIMIT

    def _initial(self, problem: TreeProblem, rng: Rng) -> Generator[None, None, Tree]:
        tree: Tree | None = None
        for step in self.init.steps(problem, None, rng):
            tree = tree if step is None else as_tree(step.tree)
            yield None
        assert tree is not None  # initial trees yield a tree
        return tree

    def _step(self, smooth: SmoothTreeProblem, point: Floats, info: dict[str, float], phase: str) -> Step:
        problem = smooth.problem
        tree = soft_tree(smooth, point, mixture=False, clip=self.clip)
        if problem.min_leaf > 1:
            live = problem.live(tree)
            tree = problem.enforce_min_leaf(live)
            if tree.n_leaves < live.n_leaves:  # rows have moved to leaves that were not fitted to them
                tree = problem.fit_leaves(tree)
                tree = tree if self.clip else replace(tree, lower=None, upper=None)
        return Step(tree, phase=phase, info=info)

    def _macro_iteration(self, n_branches: int) -> Iterator[WorkingSet]:
        none, every = slice(0), slice(None)
        if self.working_sets == "all":
            yield WorkingSet(0, "below", every)
        elif self.working_sets == "node":
            yield from (WorkingSet(t, "own", none) for t in range(n_branches))
            yield from (
                WorkingSet(t, "none", slice(i, i + 1)) for t in range(n_branches // 2, n_branches) for i in (0, 1)
            )
        else:
            for t in range(n_branches):
                above_all = t == 0 and n_branches > 1
                yield WorkingSet(t, "own" if above_all else "below", none if above_all else every)

    # ---- BN step --------------------------------------------------------------------------------------------------

    def _inner_iteration(self, rows: RowsAtPoint, chosen: WorkingSet, imbalance: Floats, k: int) -> None:
        """BN step, then LN step; ``rows`` moves."""
        exact = self.k0 is not None and k >= self.k0
        part = SubtreeProblem(rows.whole, rows.theta, chosen.node, chosen.splits == "own", exact, rows)
        if not part.share > 0.0:
            return
        if chosen.splits != "none":
            splits = self._branch_step(part, imbalance, k)
            rows.move(part.insert(splits), part.branches)
        self._leaf_step(part, chosen.leaves, k)

    def _branch_step(self, part: SubtreeProblem, imbalance: Floats, k: int) -> Floats:
        """Lines 14 to 27 of NODEC-DR: the new splits of the working set."""
        start = part.start
        least = self.theta**k / self._scale(part.whole.problem)  # lines 15 and 16: a smaller gradient changes nothing
        if not part.exact:
            return self._update(part, part, start, imbalance, least)
        value, gradient = part.value_and_grad(start)
        if np.linalg.norm(gradient) <= least:
            return start
        proxy = replace(part, exact=False)
        candidate = self._update(part, proxy, start, imbalance)
        length = self.line_search.step(lambda v: part.value_and_grad(v)[0], start, value, gradient)
        reference = start - length * gradient
        reached = part.value_and_grad(candidate)[0]
        if reached <= value - self.tau * np.sum((candidate - start) ** 2) and (
            length == 0.0 or reached <= part.value_and_grad(reference)[0]
        ):
            return candidate
        return reference

    def _update(
        self, part: SubtreeProblem, proxy: SubtreeProblem, start: Floats, imbalance: Floats, least: float = -1.0
    ) -> Floats:
        """UPDATEBRANCHNODE: the candidate from ``start``, or ``start`` if its gradient is at most ``least``;
        ``proxy`` gives the rows that pass the node.
        """
        balanced, severe, moved = imbalance
        w = proxy.weights
        left = proxy.at_point.gates[proxy.node, proxy.rows] >= 0.5
        on_left = float(w[left].sum())
        smaller = min(on_left, proxy.share - on_left)
        problem = proxy.whole.problem
        enough = self.reassignment == "printed" or proxy.rows.size >= 4 * (1 + problem.n_features * proxy.whole.linear)
        if enough and smaller <= balanced * proxy.share and balanced * problem.n_samples >= 1.0:
            if least >= 0.0 and np.linalg.norm(part.value_and_grad(start)[1]) <= least:
                return start
            before = left
            if smaller <= severe * proxy.share:
                larger = np.flatnonzero(left if 2.0 * on_left >= proxy.share else ~left)
                order = larger[np.argsort(-proxy.row_losses[larger], kind="stable")]
                reached = np.cumsum(w[order])
                count = 1 + np.searchsorted(reached, moved * (1.0 - ROUNDING) * reached[-1])
                left = left.copy()
                left[order[:count]] = ~left[order[:count]]
            return self._reroute(proxy, left, start, before)
        if self.branch_solver == "SLSQP":
            scale = self._scale(problem)
            return slsqp(part, start, self.branch_iterations, self.branch_tolerance, least, scale)
        return part.lbfgs(start, self.branch_iterations, least)

    def _scale(self, problem: TreeProblem) -> float:
        """What `branch_objective` multiplies the mean over the rows by."""
        return float(problem.n_samples) if self.branch_objective == "sum" else 1.0

    def _reroute(
        self, proxy: SubtreeProblem, left: NDArray[np.bool_], start: Floats, before: NDArray[np.bool_]
    ) -> Floats:
        """Weighted logistic regression (17) of the sides ``left (m,)``, weighted by the sides ``before (m,)`` or by
        themselves, see `reassignment`.
        """
        if not (proxy.weights[left].any() and proxy.weights[~left].any()):
            return start
        problem, p = proxy.whole.problem, proxy.whole.problem.n_features
        w = proxy.weights
        of = before if self.reassignment == "printed" and w[before].any() and w[~before].any() else left
        u = w * np.where(left, -0.5 / w[of].sum(), 0.5 / w[~of].sum())
        a = np.zeros(p)
        b, _steps = fit_at_any_width(
            problem.X, proxy.rows, u, np.empty(0), a, 0.0, 0.0, 0.5 / left.size, 1e-3, 50
        )  # scikit-learn's default penalty, as in the paper
        point = start.copy()
        point[:p] = a / self.alpha
        point[proxy.branches.size * p] = b / self.alpha
        return point

    # ---- LN step --------------------------------------------------------------------------------------------------

    def _leaf_step(self, part: SubtreeProblem, chosen: slice, k: int) -> None:
        """Lines 28 to 38: the best leaves, by all rows or by those that pass the node; the rows move."""
        smooth, problem, rows = part.whole, part.whole.problem, part.at_point
        numbers = range(smooth.n_branches + 1)[part.leaves][chosen]
        if not numbers:
            return
        leaves = slice(numbers.start, numbers.stop)
        point = rows.theta.copy()
        _A, _b, values, coefs = smooth.unpack(point)
        new_values, new_coefs = (np.array(array[leaves], np.float64) for array in (values, coefs))
        net = Net(smooth.penalty.l1_leaves, smooth.penalty.l2_leaves)
        data, counted = smooth.leaf_rows(part.rows, part.leaf_weights[:, chosen])
        softmax = problem.is_classification
        fit_leaves(data, counted, net, self.theta**k / self._scale(problem), new_values, new_coefs, softmax=softmax)
        values[leaves], coefs[leaves] = new_values, new_coefs
        rows.move(point, leaves=leaves)

    def _proposition_1(self, smooth: SmoothTreeProblem, before: Floats, point: Floats) -> dict[str, float]:
        """Norms of the gradient and of the macro iteration's moves."""
        _value, gradient = smooth.value_and_grad(point)
        move = point - before
        cut = smooth.n_branches * (smooth.problem.n_features + 1)
        return {
            "gradient_norm": float(np.linalg.norm(gradient)),
            "split_move": float(np.linalg.norm(move[:cut])),
            "leaf_move": float(np.linalg.norm(move[cut:])),
        }


def printed_ridge(n_features: int, depth: int) -> tuple[float, float]:
    """Strengths of the statement's `L2` on splits and leaves that are those of the SRT paper to the letter: half of
    ``lambda = 2 / (p nodes)`` beside the mean loss (eq. 7), for split weights that the gates divide by p, unlike ours.
    """
    n_leaves = 2**depth
    return n_features / (n_leaves - 1), 1.0 / (n_features * n_leaves)


def slsqp(
    part: SubtreeProblem, start: Floats, iterations: int, tolerance: float, least: float, scale: float = 1.0
) -> Floats:
    """SciPy's SLSQP on ``scale`` times a working set's objective; ``start`` where its gradient is at most ``least``."""
    from scipy.optimize import minimize

    def scaled(point: Floats) -> tuple[float, Floats]:
        value, gradient = part.value_and_grad(point)
        return scale * value, scale * gradient

    if least >= 0.0 and np.linalg.norm(part.value_and_grad(start)[1]) <= least:
        return start
    options = {"maxiter": iterations, "ftol": tolerance}
    theta: Floats = minimize(scaled, start, jac=True, method="SLSQP", options=options).x
    return theta
