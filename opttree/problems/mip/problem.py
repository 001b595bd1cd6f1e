"""`MIPTreeProblem`: the statement as a mixed-integer linear program, and the way back."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from opttree.files import whole_file
from opttree.options import Checked, option
from opttree.problems.mip.candidates import Candidates, dichotomies, thresholds, with_margin
from opttree.problems.mip.exact_leaves import fit_exact_leaves, leaves_in_range
from opttree.problems.mip.hypergraph import enumerate_levels, plan, tree_of
from opttree.problems.penalties import L1, L2, SplitPrice
from opttree.problems.tree_problem import TreeProblem
from opttree.tree import Tree

LEAST_MARGIN = 1e-5
FORMULATIONS = ("hyperflow", "flow", "big-m")
OBJECTIVES = ("exact", "outer")


class Formulation(Protocol):
    """What stands behind a `MIPTreeProblem`."""

    bound: float

    def build(self) -> Any:
        """The Pyomo model."""

    def encode(self, model: Any, tree: Tree) -> bool:
        """Set all variables to a tree of candidate splits; whether it has a place in the model."""

    def decode(self, model: Any) -> Tree:
        """The splits that the variables hold, leaves zero."""

    def refine(self, model: Any) -> bool:
        """Add what the solution in the variables violates; whether there was anything."""


@dataclass(frozen=True, eq=False)
class MIPTreeProblem(Checked):
    """A `TreeProblem` over a finite set of candidate splits as a mixed-integer linear program in Pyomo.

    Raises
    ------
    ValueError
        For an unknown option, or a statement that the formulation cannot hold exactly, with the reason.

    References
    ----------
    Bertsimas and Dunn, "Optimal classification trees", Machine Learning 106 (2017), and "Machine Learning Under a
    Modern Optimization Lens" (2019); Aghaei, Gomez and Vayanos, "Strong optimal classification trees" (2021), for
    flows.
    """

    problem: TreeProblem = option(
        doc="""Axis or oblique splits, constant or linear leaves, loss "squared", "absolute" or "zero_one" ("log" too in
        hyperflow), `SplitPrice`, penalties on splits that come to a price (`TreeProblem.price_per_split`), `L1` on
        linear leaves (`L2` as well in hyperflow), ``min_leaf``, weights."""
    )
    formulation: Literal["hyperflow", "flow", "big-m"] = option(
        "hyperflow",
        """"hyperflow": a dynamic program over sets of rows as a linear program, see `Hyperflow`; axis-aligned splits,
        or oblique ones of two features. By far the fastest to a proof. "flow": a binary per node and candidate
        split, rows flow through the tree, rows that no candidate tells apart are one; axis-aligned splits. See
        `Flow`. "big-m": Bertsimas and Dunn's (ORT, ORT-H, ORT-L, ORT-LH, OCT, OCT-H). See `BigM`.""",
    )
    n_thresholds: int | Literal["all"] = option(
        "all",
        """"all" thresholds between two values of a feature (then every axis-aligned split is a candidate), or at most
        so many per feature, next to its quantiles.""",
        least=1,
    )
    max_splits: int | None = option(None, "Most branch nodes of the tree, or None.", least=0)
    max_features: int | None = option(None, "Most features in its splits, or None; hyperflow only.", least=0)
    reduce: bool = option(
        True,
        """Of the program that `MIP` solves and ``build(complete=False)`` hands out, in "hyperflow": leave out what no
        tree as good as a known one can use (fixing by reduced costs); few columns are left. False: all columns that
        an optimal tree may need, the formulation as it is written down.""",
    )
    objective: Literal["exact", "outer"] = option(
        "exact",
        """Of "flow" and "big-m" with squared loss. "exact": a convex quadratic objective, for solvers that take one
        with integer variables (SCIP, Gurobi, CPLEX; HiGHS does not). "outer": a linear one, of tangents to the
        squares: a relaxation, whose optimum is below the problem's, and the first program of a cutting-plane method
        (`MIP` adds tangents where the solution lies). Other programs are exact and linear whatever it says.""",
    )
    coef_bound: float = option(
        10.0,
        """"flow" and "big-m" with linear leaves: largest absolute weight and constant term, on features scaled to [0,
        1], in units of the range of y.""",
        above=0,
    )
    margin: float = option(
        0.005,
        """"big-m" with oblique splits: hyperplanes ``a.x <= b``, ``|a|_1 <= 1``, on features scaled to [0, 1] keep
        this distance from the rows on their right.""",
        least=LEAST_MARGIN,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (reason := self.refusal()) is not None:
            raise ValueError(f"formulation {self.formulation!r} cannot hold this problem: {reason}")

    def refusal(self) -> str | None:
        """Why the formulation cannot state the problem exactly, in one sentence, or None."""
        problem, hyper = self.problem, self.formulation == "hyperflow"
        for penalty in problem.penalties:
            if not isinstance(penalty, (L1, L2, SplitPrice)):
                return f"the penalty {penalty!r} is not known to be linear in the tree"
        if problem.splits == "oblique" and problem.strength(L1, "splits"):
            return "an l1 penalty on hyperplanes of unit length is not linear in their weights"
        linear = problem.leaves == "linear"
        if problem.is_classification and linear:
            return "linear leaves of classes are not linear in the model; use leaves='constant'"
        if linear and problem.loss == "absolute" and problem.strength(L2, "leaves"):
            return "an absolute loss with a squared penalty on the leaves is a quadratic program; use L1"
        if not hyper and problem.loss == "log":
            return "the log loss is not linear in the leaves; use hyperflow"
        if not hyper and linear and problem.strength(L2, "leaves"):
            return "HiGHS takes no quadratic objectives with integer variables; use L1 on the leaves, or hyperflow"
        if problem.splits == "oblique" and self.formulation == "flow":
            return "oblique splits have no thresholds; use big-m, or hyperflow for two features"
        if problem.splits == "oblique" and hyper and problem.n_features != 2:
            return f"oblique splits of {problem.n_features} features have too many sides to list; use big-m"
        if self.max_features is not None and not hyper:
            return "max_features is stated in hyperflow only"
        if self.max_features is not None and problem.splits == "oblique":
            return "max_features counts the features of axis-aligned splits"
        return None

    @cached_property
    def candidates(self) -> Candidates:
        """The candidate splits; for oblique ones, all linear dichotomies of the rows."""
        if self.problem.splits == "axis":
            return thresholds(self.problem.X, self.n_thresholds)
        return dichotomies(self.problem.X)

    @property
    def lists_candidates(self) -> bool:
        """Whether there is a finite list of candidates: not for oblique splits in "big-m"."""
        return self.problem.splits == "axis" or self.formulation != "big-m"

    @property
    def leaf_text(self) -> str:
        """What linear leaves there are, in words, for a certificate."""
        if self.formulation == "hyperflow":
            return "without bounds"
        return f"with weights up to {self.coef_bound:g} in units of the ranges"

    @property
    def candidate_text(self) -> str:
        """The candidate splits in words, for a certificate."""
        if not self.lists_candidates:
            return f"hyperplanes with a margin of {self.margin:g} on features scaled to [0, 1]"
        return self.candidates.description

    def formulation_of(self, *, complete: bool) -> Formulation:
        """The formulation, with all that it enumerates; see `build`."""
        found: Formulation = _finished(self.prepare(complete=complete))
        return found

    def prepare(self, *, complete: bool = False) -> Generator[None, None, Formulation]:
        """Enumerate what the formulation needs, once; yields None where it may be stopped."""
        complete = complete and self.formulation == "hyperflow"  # the others hold every tree anyway
        known = self.__dict__.setdefault("_formulations", {})
        if complete not in known:
            known[complete] = yield from self._prepare(complete)
        return known[complete]

    def _prepare(self, complete: bool) -> Generator[None, None, Formulation]:
        # Pyomo takes a while to import: when a model is wanted
        if self.formulation == "hyperflow":
            from opttree.problems.mip.hyperflow import Hyperflow

            return (yield from Hyperflow.prepare(self, complete))
        yield
        if self.formulation == "flow":
            from opttree.problems.mip.flow import Flow

            return Flow(self)
        from opttree.problems.mip.big_m import BigM

        return BigM(self)

    def best_tree(self) -> Tree:
        """An optimal tree by the dynamic program that "hyperflow" writes down, without side constraints; no model."""
        levels = _finished(enumerate_levels(self.problem, self.candidates, "best"))
        best = plan(levels, self.problem.price_per_split)
        return fit_exact_leaves(self.problem, tree_of(levels, best.choice, self.candidates, self.problem))

    def build(self, *, complete: bool = True) -> Any:
        """A new Pyomo ``ConcreteModel``; its objective ``cost`` is the problem's objective.

        Parameters
        ----------
        complete : every tree of the candidate splits is an integer point of the model, which therefore stays right when
            constraints are added. False: "hyperflow" with the columns that an optimal tree may need (see ``reduce``),
            far fewer; its optimum is the problem's, but not under further constraints. The model's name ends in
            "_reduced" then, and its ``doc`` says so. ("flow" and "big-m" are complete always. The latter holds one of
            two mirror images of an oblique tree.)

        Notes
        -----
        With squared loss and ``objective="outer"`` the models of "flow" and "big-m" are relaxations: their names end in
        "_outer".

        Raises
        ------
        TooLargeError
            A ValueError: where the columns of "hyperflow" are too many for the memory.
        """
        model = self.formulation_of(complete=complete).build()
        model._built_as = self.formulation, complete
        return model

    def encode(self, tree: Tree, model: Any = None) -> Any:
        """A model whose variables all hold ``tree``: a full start. A new, complete one unless ``model`` is given.

        Raises
        ------
        ValueError
            Where the tree is no point of the model: it breaks a constraint, or its splits are no candidates and the
            nearest ones make no feasible tree, or it can be no optimum (hyperflow).
        """
        if (reason := self.problem.violation(tree)) is not None:
            raise ValueError(f"tree must be feasible; {reason}")
        model = self.build() if model is None else model
        snapped = self.snap(tree)
        if snapped is None or self.over_limit(snapped) or not self._behind(model).encode(model, snapped):
            raise ValueError("tree must be a point of the model; a limit on splits, features or leaves rules it out")
        return model

    def decode(self, model: Any) -> Tree:
        """The tree that the variables of ``model`` hold, with the best leaves for its splits; linear ones that would be
        beyond ``coef_bound`` are the model's.
        """
        tree = self._behind(model).decode(model).prune_dead(self.problem.X)
        exact = fit_exact_leaves(self.problem, tree)
        return exact if self.within_bound(exact) else tree

    def _behind(self, model: Any) -> Formulation:
        """The formulation that ``model`` was built from; ValueError for a model from elsewhere."""
        formulation, complete = getattr(model, "_built_as", (None, True))
        if formulation != self.formulation:
            raise ValueError(f"model must be one that build() of this {self.formulation!r} gave; got {model.name!r}")
        return self.formulation_of(complete=complete)

    def write(self, path: str | Path, *, complete: bool = True) -> None:
        """Write the model that `build` gives to a file, ``.lp`` or ``.mps``, with readable names.

        The file appears whole or not at all.
        """
        path = Path(path)
        if path.suffix not in (".lp", ".mps"):
            raise ValueError(f"path must end in .lp or .mps; got {str(path)!r}")
        import pyomo.environ  # noqa: F401  the writers

        model = self.build(complete=complete)
        with whole_file(path) as unfinished:
            model.write(str(unfinished), io_options={"symbolic_solver_labels": True})
            if path.suffix == ".lp":  # SCIP reads squares as "x^2" only, the others in either form
                unfinished.write_text(unfinished.read_text().replace(" ^ 2\n", "^2\n"))

    def snap(self, tree: Tree) -> Tree | None:
        """``tree`` with each split replaced by the candidate that sends the fewest of its rows another way.

        Splits that send all rows one way are left out, leaves are fitted. Hyperplanes of "big-m" stay, moved into the
        middle between the rows. None where one has less than the margin, or linear leaves are beyond ``coef_bound``.
        """
        problem = self.problem
        live = tree.prune_dead(problem.X)
        if self.lists_candidates:
            moved = self.candidates.nearest(live, problem.X)
            placed: Tree | None = problem.enforce_min_leaf(moved.prune_dead(problem.X))
        else:
            placed = with_margin(live, problem.X, self.margin)
        exact = None if placed is None else fit_exact_leaves(problem, placed)
        return None if exact is None or not self.within_bound(exact) else exact

    def within_bound(self, tree: Tree) -> bool:
        """Whether the linear leaves of ``tree`` are within ``coef_bound``, which "hyperflow" has not."""
        if self.problem.leaves == "constant" or self.formulation == "hyperflow":
            return True
        values, coefs = leaves_in_range(self.problem, tree)
        return bool(
            max(np.abs(values).max(), np.abs(coefs).max()) <= self.coef_bound * (1.0 + 1e-6)
        )  # HiGHS's tolerance

    def over_limit(self, tree: Tree) -> bool:
        """Whether the tree has too many splits or features."""
        if self.max_splits is not None and tree.n_branches > self.max_splits:
            return True
        return self.max_features is not None and np.unique(tree.feature).size > self.max_features


def _finished(work: Generator[None, None, Any]) -> Any:
    """What ``work`` returns, without stops."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value
