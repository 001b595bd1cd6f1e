"""Computes the table of side constraints: which solver takes which, as the solvers themselves say.

``python docs/tools/takes.py`` rewrites the table of ``docs/research/constraints.md``; `table` gives its lines.
"""

import re
from pathlib import Path

import numpy as np

import solvers
from opttree import TreeProblem
from opttree.statement import constraints as c

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "research" / "constraints.md"
GROUP = np.arange(60) % 2
EXAMPLES = {
    "MaxSplits(k)": (c.MaxSplits(2), "at most k branches"),
    "MaxFeatures(k)": (c.MaxFeatures(1), "at most k features in splits"),
    "MinLeaf(k)": (c.MinLeaf(5), "at least k rows in a leaf: `min_leaf=k`"),
    "FeatureCost(costs, budget)": (c.FeatureCost([1.0, 2.0], 2.0), "the features in splits cost at most a budget"),
    "ForbidSplit(feature, where)": (c.ForbidSplit(0), "no split on a feature, anywhere or at levels"),
    "RequireSplit(feature, where)": (c.RequireSplit(0), "a split on a feature"),
    "SameLeaf(i, j)": (c.SameLeaf(0, 1), "two rows in one leaf"),
    "DifferentLeaf(i, j)": (c.DifferentLeaf(0, 1), "two rows in two leaves"),
    "Monotone(feature, sign)": (c.Monotone(0, 1), "answers ordered along the splits on a feature"),
    "MaxDifference(group, tolerance)": (c.MaxDifference(GROUP, 0.5), "mean answers of groups differ by at most this"),
    "MaxShare(action, share)": (c.MaxShare(1, 0.5), "at most a share of the rows is given an action, or a class"),
    "AnswerLimit(weights, limit)": (
        c.AnswerLimit(np.ones((60, 2)), 60.0),
        "a linear limit on the rows' classes or actions: recall, precision, quotas",
    ),
    "MinPerGroup(group, k)": (c.MinPerGroup(GROUP, 2), "at least k rows of every group in a leaf"),
    "PathCost(costs, budget, mean)": (c.PathCost([1.0, 2.0], 2.0), "a row's path costs at most a budget"),
}
WORDS = {
    "filter": "each split or leaf",
    "branches": "sum over branches",
    "answers": "sum over rows' answers",
    "order": "order of leaves",
    "features": "set of features",
    "paths": "set of features of a path",
}
SOLVERS = {
    "hyperflow": solvers.MIP("hyperflow"),
    "flow": solvers.MIP("flow"),
    "big-m": solvers.MIP("big-m"),
    "`BranchAndBound`": solvers.BranchAndBound(),
    "`Lagrangian`": solvers.Lagrangian(),
    "`MonotoneDP`": solvers.MonotoneDP(),
    "`ColumnGeneration`": solvers.ColumnGeneration(),
    "`Benders`": solvers.Benders(),
    "`CPSAT`": solvers.CPSAT(),
    "`LocalSearch`": solvers.LocalSearch(),
    "`TAO`": solvers.TAO(),
}


def problems(constraint: c.Constraint) -> dict[str, TreeProblem]:
    """Small problems with a constraint, of those that can have it: regression and classes, axis-aligned and oblique."""
    rng = np.random.default_rng(0)
    X, found = rng.normal(size=(60, 2)), {}
    for splits in ("axis", "oblique"):
        for loss, y in (("squared", X[:, 0]), ("zero_one", np.arange(60) % 2)):
            try:
                found[f"{splits} {loss}"] = TreeProblem(X, y, 2, splits, loss=loss, constraints=[constraint])
            except ValueError:
                continue
    return found


def cell(solver: solvers.Solver, constraint: c.Constraint) -> str:
    """What a solver says of a constraint: yes, on axis-aligned trees ("axis"), of those for 0/1 loss alone ("0/1")."""
    takes = {name for name, problem in problems(constraint).items() if solver.refusal(problem) is None}
    if {"axis zero_one", "axis squared"} <= takes or (takes and "axis squared" not in problems(constraint)):
        return "yes" if any(name.startswith("oblique") for name in takes) else "axis"
    return "0/1" if "axis zero_one" in takes else "squared" if "axis squared" in takes else ""


def table() -> list[str]:
    """The lines of the table."""
    names = list(SOLVERS)
    lines = [f"| constraint | what it says | adds up as | {' | '.join(names)} |", "|---" * (len(names) + 3) + "|"]
    for name, (constraint, words) in EXAMPLES.items():
        cells = " | ".join(cell(solver, constraint) for solver in SOLVERS.values())
        lines.append(f"| `{name}` | {words} | {WORDS[constraint.kind]} | {cells} |")
    return lines


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    whole = re.compile(r"^\| constraint \|.*?(?=\n\n)", re.S | re.M)
    PAGE.write_text(whole.sub(lambda _found: "\n".join(table()), text), encoding="utf-8")
