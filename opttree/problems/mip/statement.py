"""The data of a mixed-integer program: the problem, its candidate splits and its limits."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

from opttree.model.tree import Tree
from opttree.problems.exact.problem import refusal_of_sums
from opttree.problems.mip.candidates import (
    MOST_BYTES,
    Candidates,
    bytes_of_thresholds,
    dichotomies,
    divisions,
    thresholds,
)
from opttree.runtime.options import Checked, option
from opttree.statement.constraints import (
    AnswerLimit,
    Constraint,
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    LeafConstraint,
    MaxDifference,
    MaxFeatures,
    MaxShare,
    MaxSplits,
    MinPerGroup,
    Monotone,
    PathCost,
    RequireSplit,
    SameLeaf,
    picks,
)
from opttree.statement.penalties import L1, L2, SplitPrice
from opttree.statement.problem import TreeProblem

LEAST_MARGIN = 1e-5
COMPARED = ("cut", "cut-w", "binoct")
CARDS = {  # when all vertices of the linear program are trees, and its value
    "hyperflow": ("without further rows", "the optimum without further rows"),
    "flow": ("the splits and answers are whole", "0 or nearly so without rows of subtrees"),
    "big-m": ("never without branching", "0 without rows of subtrees"),
    "cut": ("the splits and answers are whole", "that of flow"),
    "cut-w": ("the splits and answers are whole", "at most that of flow"),
    "binoct": ("never without branching", "0 but for errors that no tree can save"),
}


class Card(NamedTuple):
    """What a formulation of a problem is: numbers of its variables, of those that are whole, and of its rows; when all
    vertices of its linear program are trees; the value of that.
    """

    formulation: str
    variables: int
    whole: int
    rows: int
    integral_when: str
    linear_value: str


STATED = (
    AnswerLimit,
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    MaxDifference,
    MaxFeatures,
    MaxShare,
    MaxSplits,
    MinPerGroup,
    Monotone,
    PathCost,
    RequireSplit,
    SameLeaf,
)


class Formulation(Protocol):
    """The interface of a formulation, used by `MIPTreeProblem`."""

    bound: float

    def build(self) -> Any:
        """The Pyomo model."""

    def encode(self, model: Any, tree: Tree) -> bool:
        """Set all variables to a tree of candidate splits; returns whether the model contains the tree."""

    def decode(self, model: Any) -> Tree:
        """The splits encoded in the variables; leaves are zero."""

    def refine(self, model: Any) -> bool:
        """Add constraints that the current solution violates; returns whether there were any."""


@dataclass(frozen=True, eq=False)
class MIPStatement(Checked):
    """A `TreeProblem` over candidate splits, with the options of its formulation."""

    problem: TreeProblem = option(
        doc="""Axis or oblique splits, constant or linear leaves; loss "squared", "absolute", "zero_one", or "log" (two
        classes bounded by tangents in flow and big-m); `SplitPrice`, penalties on splits that amount to a price
        (`TreeProblem.price_per_split`), `L1` on linear leaves (`L2` as well in hyperflow), ``min_leaf``, weights, side
        constraints."""
    )
    formulation: Literal["hyperflow", "flow", "big-m", "cut", "cut-w", "binoct"] = option(
        "hyperflow",
        """"hyperflow": a dynamic program over sets of rows as a linear program, see `Hyperflow`; axis-aligned splits,
        or oblique ones of two features. By far the fastest to a proof. "flow": one binary per node and candidate split;
        rows flow through the tree, grouped if no candidate separates them; axis-aligned splits. See `Flow`. "big-m":
        Bertsimas and Dunn's (ORT, ORT-H, ORT-L, ORT-LH, OCT, OCT-H). See `BigM`. For comparison, under 0/1 loss and
        costs of actions: "cut" and "cut-w", "flow" without its flows, see `Sinks`; "binoct", see `BinOCT`.""",
    )
    n_thresholds: int | Literal["all"] = option(
        "all",
        """"all": thresholds between all neighbouring values of a feature, so that every axis-aligned split is a
        candidate. A number: at most so many per feature, next to its quantiles.""",
        least=1,
    )
    max_splits: int | None = option(None, "Largest number of branch nodes, or None: `MaxSplits`.", least=0)
    max_features: int | None = option(None, "Largest number of features in splits, or None: `MaxFeatures`.", least=0)
    constraints: tuple[Any, ...] = option(
        (),
        """Side constraints of `opttree.constraints` beside those of ``problem``, and functions of the complete Pyomo
        model, which add to it what they like; see the names of its variables below.""",
        test=lambda given: all(isinstance(c, Constraint) or (callable(c) and not isinstance(c, type)) for c in given),
        words="a sequence of side constraints, such as MaxSplits(3), and functions of the model",
    )
    reduce: bool = option(
        True,
        """For the "hyperflow" program that `MIP` solves and ``build(complete=False)`` returns: leave out the columns
        that no tree as good as a known one can use (reduced-cost fixing); few columns remain. False: keep all columns
        that an optimal tree may need.""",
    )
    subtree_rows: bool = option(
        True,
        """For "flow" and "big-m", axis-aligned splits, constant leaves and linear objectives: a row that says what a
        tree costs at least whose root has each candidate split, by the dynamic program of "hyperflow" without side
        constraints. It makes the unconstrained optimum the bound of the root, which is 0 or nearly so without it; left
        out where the dynamic program takes more than a tenth of the time, or ten seconds.""",
    )
    objective: Literal["exact", "outer"] = option(
        "exact",
        """For "flow" and "big-m" with squared loss. "exact": a convex quadratic objective, for solvers that support it
        with integer variables (SCIP, Gurobi, CPLEX, but not HiGHS). "outer": a linear objective from tangents to the
        squares, a relaxation with a smaller optimum, and the first program of a cutting-plane method (`MIP` adds
        tangents at the solution). Other programs are always exact and linear.""",
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
        further = [c for c in self.constraints if isinstance(c, Constraint)]
        further += [] if self.max_splits is None else [MaxSplits(self.max_splits)]
        further += [] if self.max_features is None else [MaxFeatures(self.max_features)]
        if further:
            stated = self.problem.restated(constraints=(*self.problem.constraints, *further))
            object.__setattr__(self, "problem", stated)
        if (reason := self.refusal()) is not None:
            raise ValueError(f"formulation {self.formulation!r} cannot hold this problem: {reason}")

    def refusal(self) -> str | None:
        """Why the formulation cannot express the problem exactly, in one sentence, or None."""
        problem, hyper, form = self.problem, self.formulation == "hyperflow", self.problem.loss_function.form
        if form is None and hyper and (reason := refusal_of_sums(problem)) is not None:
            return reason
        if form is None and not hyper and not problem.loss_function.chooses:
            return f"{problem.loss_function.refusal('form')}, or costs of actions; use hyperflow"
        for penalty in problem.penalties:
            if not isinstance(penalty, (L1, L2, SplitPrice)):
                return f"the penalty {penalty!r} is not known to be linear in the tree"
        if problem.splits == "oblique" and problem.strength(L1, "splits"):
            return "an l1 penalty on hyperplanes of unit length is not linear in their weights"
        linear = problem.leaves == "linear"
        if problem.is_classification and linear:
            return "linear leaves of classes are not linear in the model; use leaves='constant'"
        if linear and form == "absolute" and problem.strength(L2, "leaves"):
            return "an absolute loss with a squared penalty on the leaves is a quadratic program; use L1"
        if not hyper and form == "entropy" and problem.n_outputs != 2:
            return "the log loss of more than two classes is not linear in the leaves; use hyperflow"
        if not hyper and form == "entropy" and self.objective == "exact":
            return "the log loss is neither linear nor quadratic in the leaves; use objective='outer', or hyperflow"
        if not hyper and linear and problem.strength(L2, "leaves"):
            return "HiGHS takes no quadratic objectives with integer variables; use L1 on the leaves, or hyperflow"
        if self.formulation in COMPARED and (reason := self._compared_refusal()) is not None:
            return reason
        if problem.splits == "oblique" and self.formulation == "flow":
            return "oblique splits have no thresholds; use big-m, or hyperflow for two features"
        if problem.splits == "oblique" and hyper and problem.n_features != 2:
            return f"oblique splits of {problem.n_features} features have too many sides to list; use big-m"
        if problem.splits == "axis":
            count, size = bytes_of_thresholds(problem.X, self.n_thresholds)
            if size > MOST_BYTES:
                return (
                    f"the {count:,} candidate splits of its {problem.n_features:,} features take {size / 1e9:.3g} GB; "
                    "take fewer thresholds (n_thresholds) or features"
                )
            sets = count * problem.n_samples / 8  # of a bit for each row
            if sets > MOST_BYTES:
                return (
                    f"the left sides of its {count:,} candidate splits take {sets / 1e9:.3g} GB on "
                    f"{problem.n_samples:,} rows; take fewer thresholds (n_thresholds) or rows"
                )
        for c in problem.constraints:
            if hyper and isinstance(c, PathCost):
                return f"{c!r} is a matter of paths, which hyperflow's states forget; use flow or big-m"
            if hyper and isinstance(c, LeafConstraint):
                return f"{c!r} ties leaves together, which hyperflow prices one by one; use flow or big-m"
            if hyper and problem.splits == "oblique" and isinstance(c, (MaxFeatures, FeatureCost, ForbidSplit)):
                return f"{c!r} counts the features of axis-aligned splits in hyperflow; use big-m"
            if not isinstance(c, STATED):
                return f"{c!r} has no linear form here; a function of the model can state it"
        return None

    def _compared_refusal(self) -> str | None:
        """Why a formulation that is here for comparison cannot express the problem."""
        problem, name = self.problem, self.formulation
        if not picks(problem) or problem.splits != "axis" or problem.leaves != "constant":
            return f"{name!r} is for 0/1 loss and costs of actions, axis-aligned splits and constant leaves; use flow"
        if problem.min_leaf > 1:
            return f"{name!r} does not count the rows of leaves, and min_leaf is {problem.min_leaf}; use flow"
        for c in problem.constraints:
            if not isinstance(c, (MaxSplits, MaxFeatures, FeatureCost)) and not self._forbids_everywhere(c):
                return f"{name!r} has no rows for {c!r}; use flow"
        return f"{name!r} takes no functions of the model; use flow" if self.extensions else None

    @staticmethod
    def _forbids_everywhere(c: Constraint) -> bool:
        return isinstance(c, ForbidSplit) and c.where is None

    @property
    def extensions(self) -> tuple[Any, ...]:
        """The functions among ``constraints``."""
        return tuple(c for c in self.constraints if not isinstance(c, Constraint))

    @cached_property
    def candidates(self) -> Candidates:
        """The candidate splits; for oblique ones, all linear dichotomies of the rows."""
        if self.problem.splits == "axis":
            return thresholds(self.problem.X, self.n_thresholds)
        return dichotomies(self.problem.X)

    def list_candidates(self) -> Generator[None, None, None]:
        """List the candidate splits once, where that takes long; yields None wherever it can be stopped."""
        if self.problem.splits == "oblique" and self.lists_candidates and "candidates" not in self.__dict__:
            self.__dict__["candidates"] = yield from divisions(self.problem.X)

    @property
    def lists_candidates(self) -> bool:
        """Whether the candidates form a finite list: not for oblique splits in "big-m"."""
        return self.problem.splits == "axis" or self.formulation != "big-m"

    @property
    def leaf_text(self) -> str:
        """The set of linear leaves in words, for a certificate."""
        if self.formulation == "hyperflow":
            return "without bounds"
        return f"with weights up to {self.coef_bound:g} in units of the ranges"

    @property
    def candidate_text(self) -> str:
        """The candidate splits in words, for a certificate."""
        if not self.lists_candidates:
            return f"hyperplanes with a margin of {self.margin:g} on features scaled to [0, 1]"
        if self.problem.splits == "oblique" and "candidates" not in self.__dict__:
            return "all linear dichotomies of the rows"  # which are not listed yet
        return self.candidates.description
