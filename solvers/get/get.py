"""`GET`: Algorithm 1 of the paper, and what makes it faster and better."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem
from opttree.runtime.devices import Device
from opttree.runtime.options import option
from opttree.statement import L1, TreeProblem
from solvers.core.base import LastCall, Solver, Step, Steps, at_last_call
from solvers.core.combinators import follow
from solvers.core.result import Termination
from solvers.descent import Adam
from solvers.get.anneal import Anneal, Annealing
from solvers.get.polish import SubtreePolish
from solvers.get.sparse import without_small_weights
from solvers.initial import CartInit, GreedyInit, HingeInit, Initial
from solvers.soft.starts import with_depth_cap
from solvers.tao import TAO

Floats = NDArray[np.floating]
POLISH_DEEP = Anneal(epochs=600, scales=(5.0, 30.0), optimizer=Adam(0.02))  # deep trees benefit from a longer polish
REFINE_LINEAR = Anneal(epochs=900, scales=(10.0, 50.0), optimizer=Adam(0.003), closed_leaves=False, refit=False)
HINGE = HingeInit(n_random=6, n_moves=12, price=2.0)
PAPER_RANGES = ((5.0, 25.0), (50.0, 150.0))
PROGRAM_RANGES = ((5.0, 25.0), (80.0, 120.0))


@dataclass(frozen=True)
class GET(Solver):
    """Minimise the smooth loss of the whole tree while the gates become steeper; the best hard tree is the result.

    1. Every start is annealed (Algorithm 1; see `Anneal`).
    2. With ``race_rows``, step 1 uses a random sample of this many rows, and the ``n_kept`` best starts are annealed
       again on all rows (``finish``).
    3. Their trees and those of ``portfolio`` are compared by the objective, after ``sweeps`` passes of `TAO` each.
    4. The best tree is annealed once more (``refine``) and polished subtree by subtree (Algorithm 2).
    5. Under an l1 penalty on splits, small weights are set to zero if that lowers the objective (``sparsify``).

    Anneals penalise split weights as they are (eq. 5), since gates depend on their length; the objective by which trees
    are compared uses unit length, see `opttree.L1`.

    A start tree given to `solve` replaces the first random start, and is itself one of the candidates.

    Features are not scaled: gate scales and learning rates are for standardised features (`GETRegressor` standardises),
    and data far from that (offsets of 100, units of 1e-5) can give the constant tree.

    See Also
    --------
    opttree.GETRegressor : the estimator
    Anneal, SubtreePolish : its parts
    opttree.SmoothTreeProblem : what it minimises

    References
    ----------
    "Can a single tree outperform an entire forest?", under review (2024).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import GET, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> result = solve(problem, GET(), random_state=0)
    >>> result.objective < problem.objective(problem.best_constant())
    True
    """

    wants_zero = True

    n_starts: int | None = option(
        None, "Random starts; None: 4 up to depth 4, 2 up to depth 9, else 1; none for linear leaves.", least=0
    )
    anneal: Anneal = option(factory=Anneal, doc="Options of the anneals.")
    race_rows: int | None = option(2048, "Rows of the race, see above; None: no race.", least=1)
    n_kept: int = option(1, "Starts that the race keeps, see above.", least=1)
    finish: Anneal = option(
        factory=lambda: Anneal(epochs=300, scales=(6.0, 20.0), optimizer=Adam(0.02)),
        doc="Options of the anneal on all rows after a race.",
    )
    portfolio: tuple[Initial, ...] | None = option(
        None,
        """Additional initial trees; None: `HingeInit` for linear leaves; for constant leaves, from depth 5 on,
        `GreedyInit` two levels at a time, which is often the best start there.""",
        words="a tuple of initial trees, such as (HingeInit(),), or None",
    )
    sweeps: int | None = option(
        None,
        "Passes of TAO on each tree before the polish; 0: none. None: 5, or 15 from depth 5 on; 40 for linear leaves.",
        least=0,
    )
    refine: Anneal | Literal["auto"] | None = option(
        "auto", 'Options of the anneal of the best tree, or None. "auto": a gentle anneal for linear leaves.'
    )
    polish: SubtreePolish | Literal["auto"] | None = option(
        "auto", """Options of Algorithm 2, or None. "auto": none for linear leaves, where it overfits (appendix H.6)."""
    )
    sparsify: bool = option(
        True,
        """If the problem has an l1 penalty on splits, set small weights to zero at the end, see
        `without_small_weights`.""",
    )
    eps: float = option(
        0.0,
        """Skip subtrees that a block of rows reaches with less than this probability, see `SmoothTreeProblem`; for
        anneals of the whole tree, useful from depth 8 on.""",
        least=0,
    )
    dtype: Literal["float32", "float64"] = option(
        "float32", """"float32" or "float64"; for the anneals and the default polish."""
    )
    device: Device = option(
        "cpu",
        """"cpu", "gpu" or "auto" (see `opttree.runtime.devices.on_gpu`), for the anneals, and for the default
        `GreedyInit` and polish. On a GPU all starts take their steps together. Passes of `TAO` and other initial trees
        run on the CPU.""",
    )
    first: Initial | None = option(
        None, "Initial tree in place of the first random start, where `solve` is given no tree; it is a candidate, too."
    )

    @staticmethod
    def paper(
        n_starts: int = 10,
        *,
        leaves: Literal["constant", "linear"] = "constant",
        polish: bool | None = None,
        polish_starts: int = 1,
        epochs: int = 3000,
        scale_ranges: tuple[tuple[float, float], ...] = PAPER_RANGES,
        dtype: Literal["float32", "float64"] = "float32",
        device: Device = "cpu",
    ) -> GET:
        """The method as printed, with the paper's hyperparameters (section 4, appendices F to H), for features and
        outputs in [0, 1].

        Each of ``n_starts`` random trees is annealed with one gate scale of each range, drawn uniformly, for ``epochs``
        epochs over all rows each, all variables by gradients; after each scale the leaves are fitted to the rows of the
        hard tree (all of them, linear ones by least squares without a penalty, and not clipped), and the tree of the
        lowest objective is kept. GET is then polished (Algorithm 2); GET-Linear is not (appendix H.6).

        What the paper leaves open: the optimizer is Adam; the learning rate, .01 under cosine annealing with warm
        restarts, restarts with each scale; the random starts are `SmoothTreeProblem.random_theta`. Algorithm 2 names
        one warm start for each subtree and "Algorithm 1", which has N_start starts: ``polish_starts=1`` is the first
        reading, ``polish_starts=10``, the same warm start under ten draws of the scales, the second (protocol
        ``get_table9``). Trees are compared by the objective, penalties included; by eq. 3, the loss alone, as in
        Algorithm 1, `GETRegressor` keeps the best of its steps under ``preset="paper"``.

        Tables 5 and 9: ``polish=False`` and, for a fixed scale factor a, ``scale_ranges=((a, a),)``.

        Parameters
        ----------
        n_starts : int, default 10
            Random starts, N_start.
        leaves : {"constant", "linear"}, default "constant"
            Leaves of the trees: "linear" gives GET-Linear.
        polish : bool or None, default None
            Whether Algorithm 2 polishes the best tree; None: for constant leaves.
        polish_starts : int, default 1
            Starts for each subtree of Algorithm 2.
        epochs : int, default 3000
            Epochs of each scale, N_epoch.
        scale_ranges : tuple of tuple[float, float], default ((5.0, 25.0), (50.0, 150.0))
            Interval from which each gate scale is drawn.
        dtype : {"float32", "float64"}, default "float32"
            Floating type of the anneals.
        device : {"cpu", "gpu", "torch", "auto"}, default "cpu"
            Device of the anneals.

        Returns
        -------
        GET
            The solver.

        Examples
        --------
        >>> from solvers import GET
        >>> printed = GET.paper()
        >>> printed.n_starts, printed.anneal.epochs, printed.anneal.scale_ranges
        (10, 3000, ((5.0, 25.0), (50.0, 150.0)))
        """
        polish = leaves == "constant" if polish is None else polish
        printed = Anneal(
            epochs=epochs,
            scale_ranges=scale_ranges,
            optimizer=Adam(0.01),
            closed_leaves=False,
            min_linear_rows=1,
            clip=False,
        )
        polishing = SubtreePolish(printed, n_starts=polish_starts, unit_splits=False, dtype=dtype, device=device)
        return GET(
            n_starts=n_starts,
            anneal=printed,
            race_rows=None,
            portfolio=(),
            sweeps=0,
            refine=None,
            sparsify=False,
            polish=polishing if polish else None,
            dtype=dtype,
            device=device,
        )

    @staticmethod
    def program(**options: Any) -> GET:
        """The method as in the authors' program where it differs from print, for constant leaves.

        The first of the ten starts is CART's tree, and the result is not worse; after every epoch the leaves of the
        hard tree are refitted, and the best epoch is kept; the second scale is drawn from [80, 120]; the polish goes
        through the subtrees of four levels, ten starts each. Not here: its AdamW (weight decay .01) and warm-up of the
        learning rate, and random starts in the polish, whose ten begin at the current subtree.

        Parameters
        ----------
        **options : object
            Options of `paper`.

        Returns
        -------
        GET
            The solver.

        Examples
        --------
        >>> from solvers import GET
        >>> GET.program().anneal.checks, GET.program(epochs=100).polish.levels
        (3000, 4)
        """
        given: dict[str, Any] = {"polish_starts": 10, "scale_ranges": PROGRAM_RANGES} | options
        printed = GET.paper(**given)
        anneal = replace(printed.anneal, checks=printed.anneal.epochs)
        polish = printed.polish
        if isinstance(polish, SubtreePolish):
            polish = replace(polish, anneal=anneal, levels=4)
        return replace(printed, first=CartInit(), anneal=anneal, polish=polish)

    def for_problem(self, problem: TreeProblem) -> GET:
        """Fill in the options whose defaults depend on the problem.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        GET
            The solver with these options.
        """
        deep, linear = problem.depth >= 5, problem.leaves == "linear"
        chosen: dict[str, Any] = {}
        if self.n_starts is None:
            chosen["n_starts"] = 0 if linear else 1 if problem.depth > 9 else 2 if deep else 4
        if self.portfolio is None:
            chosen["portfolio"] = (HINGE,) if linear else (GreedyInit(levels=2, device=self.device),) if deep else ()
        if self.sweeps is None:
            chosen["sweeps"] = 40 if linear else 15 if deep else 5
        if self.refine == "auto":
            chosen["refine"] = REFINE_LINEAR if linear else None
        if self.polish == "auto":
            chosen["polish"] = None if linear else self.usual_polish(problem)
        return replace(self, **chosen)

    def usual_polish(self, problem: TreeProblem) -> SubtreePolish:
        """Polish of ``polish="auto"`` for constant leaves.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        SubtreePolish
            The options.
        """
        polish = SubtreePolish(dtype=self.dtype, device=self.device)
        return replace(polish, anneal=POLISH_DEEP) if problem.depth >= 5 else polish

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what the smooth formulation and the other parts take; depth 0 gives the constant tree."""
        reason = None if problem.depth == 0 else SmoothTreeProblem.refusal(problem)
        filled = self.for_problem(problem)
        starts = max(1, (filled.n_kept if filled._races(problem) else filled.n_starts) or 0)
        reason = reason or SmoothTreeProblem.device_refusal(problem, self.device, starts, dtype=self.dtype)
        for part in (*(filled.portfolio or ()), self.first, filled.polish):
            reason = reason or (part.refusal(problem) if isinstance(part, Solver) else None)
        return reason

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Algorithm 1 and the steps after it; each step is a hard tree with fitted leaves."""
        problem = with_depth_cap(problem, start)
        yield from self.for_problem(problem)._steps(problem, start, rng)
        return Termination.ITERATION_LIMIT

    def _steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Iterator[Step | None]:
        assert self.n_starts is not None
        assert self.portfolio is not None
        if start is not None:
            yield Step(start, phase="start")
        constant = problem.best_constant()
        yield Step(constant, phase="constant")
        if problem.depth == 0 or np.ptp(problem.Y, axis=0).max() == 0.0:
            return
        if start is None and self.first is not None:
            tree, _objective, _end = yield from follow(
                problem, self.first.steps(problem, None, rng.spawn(1)[0]), type(self.first).__name__
            )
            start = as_tree(tree)
        candidates = [] if start is None else [start]
        if self.n_starts:
            candidates += yield from self._anneals(problem, start, rng)
        for initial in self.portfolio:
            tree, _objective, _end = yield from follow(
                problem, initial.steps(problem, None, rng.spawn(1)[0]), type(initial).__name__
            )
            candidates.append(as_tree(tree))
        best, best_objective = constant, problem.objective(constant)
        for tree in candidates:
            best, best_objective = yield from self._sweep(problem, tree, rng, best, best_objective)
        if isinstance(self.refine, Anneal):
            refine_rng = rng.spawn(1)[0]
            smooth = self._smooth(problem, 1)
            theta = smooth.unit_splits(smooth.soften(best, refine_rng))
            runs = yield from self._collect(self.refine, [smooth], [theta], [refine_rng], problem)
            objective, tree, _theta = runs[0]
            best = tree if objective < best_objective else best
        if isinstance(self.polish, SubtreePolish):
            inner = self.polish.steps(problem, best, rng.spawn(1)[0])
            polished, _objective, _end = yield from follow(problem, inner, "polish", best, problem.objective(best))
            best = as_tree(polished)
        if self.sparsify and problem.strength(L1, "splits") > 0.0:
            for tree in without_small_weights(problem, best):
                yield None if tree is None else Step(tree, phase="sparsify")

    def _sweep(
        self, problem: TreeProblem, tree: Tree, rng: Rng, best: Tree, best_objective: float
    ) -> Generator[Step | None, None, tuple[Tree, float]]:
        """TAO passes from ``tree``; returns the best of their trees, ``tree`` and ``best``."""
        objective = problem.objective(tree)
        if objective < best_objective:
            best, best_objective = tree, objective
        if self.sweeps and tree.n_branches:
            inner = TAO(max_iter=self.sweeps).steps(problem, tree, rng.spawn(1)[0])
            model, best_objective, _end = yield from follow(problem, inner, "sweep", best, best_objective)
            best = as_tree(model)
        return best, best_objective

    def _anneals(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Generator[Step | None, None, list[Tree]]:
        """Anneal all starts; returns the hard trees to continue with."""
        n = problem.n_samples
        assert self.n_starts is not None
        race = self._races(problem)
        whole = smooth = self._smooth(problem, self.n_kept if race else self.n_starts)
        if race:
            smooth = self._smooth(problem.sample(np.sort(rng.permutation(n)[: self.race_rows])), self.n_starts)
        rngs = rng.spawn(self.n_starts)
        thetas = [smooth.random_theta(start_rng) for start_rng in rngs]
        if start is not None:
            thetas[0] = smooth.unit_splits(whole.soften(start, rngs[0]))
        runs = yield from self._collect(self.anneal, [smooth] * self.n_starts, thetas, rngs, problem)
        runs.sort(key=lambda run: run[0])
        if race:
            thetas = [theta for _objective, _tree, theta in runs[: self.n_kept]]
            runs = yield from self._collect(self.finish, [whole] * len(thetas), thetas, rngs[: len(thetas)], problem)
        return [tree for _objective, tree, _theta in runs[: self.n_kept]]

    def _races(self, problem: TreeProblem) -> bool:
        return self.race_rows is not None and self.race_rows < problem.n_samples

    def _smooth(self, problem: TreeProblem, n_starts: int) -> SmoothTreeProblem:
        """The smooth problem, on the device best for ``n_starts`` thetas."""
        device = SmoothTreeProblem.placed(problem, self.device, n_starts, dtype=self.dtype)
        return SmoothTreeProblem(problem, dtype=self.dtype, eps=self.eps, device=device)

    def _collect(
        self,
        anneal: Anneal,
        smooths: list[SmoothTreeProblem],
        thetas: list[Floats],
        rngs: list[Rng],
        problem: TreeProblem,
    ) -> Generator[Step | None, None, list[tuple[float, Tree, Floats]]]:
        """Run ``anneal``; returns per start the objective on its own rows, the best hard tree, and the last theta."""
        run = Annealing(anneal, smooths, thetas, rngs)
        best = [(np.inf, smooth.harden(theta)) for smooth, theta in zip(smooths, thetas, strict=True)]

        def annealed() -> Generator[Step | None, None, None]:
            for trees in run.descend():
                for i, tree in enumerate(trees or ()):
                    part = smooths[i].problem
                    objective = part.objective(tree)
                    if objective < best[i][0]:
                        best[i] = objective, tree
                    if part is problem:
                        yield Step(tree, objective, phase="anneal")
                if trees and smooths[0].problem is not problem:
                    yield Step(problem.fit_leaves(min(best, key=lambda b: b[0])[1]), phase="race")
                yield None

        def current() -> Step | None:
            if not run.is_descending:
                return None
            trees = run.current_trees()
            lowest = min(trees, key=lambda i: smooths[i].problem.objective(trees[i]))
            return Step(anneal.fit_leaves(problem, trees[lowest]), phase="anneal")

        yield from at_last_call(annealed(), current, (LastCall, KeyboardInterrupt))
        return [(objective, tree, theta) for (objective, tree), theta in zip(best, run.thetas, strict=True)]
