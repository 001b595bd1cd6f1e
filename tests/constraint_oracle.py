"""Brute force under side constraints: all trees of two levels, with leaves fitted by other means than the product's.

``python -m tests.constraint_oracle --instances 100`` compares every formulation with it, for every constraint.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter

import numpy as np

from opttree import SplitPrice, Tree, TreeProblem
from opttree.statement.constraints import (
    AnswerLimit,
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    MaxDifference,
    MaxFeatures,
    MaxShare,
    MaxSplits,
    MinLeaf,
    MinPerGroup,
    Monotone,
    PathCost,
    RequireSplit,
    SameLeaf,
)
from solvers import CPSAT, MIP, Benders, ColumnGeneration, Lagrangian, MonotoneDP, SolverError, solve

KINDS = (MaxSplits, MaxFeatures, MinLeaf, FeatureCost, Monotone, ForbidSplit, RequireSplit, MaxDifference, SameLeaf,
         DifferentLeaf, MaxShare, MinPerGroup, PathCost, AnswerLimit)  # fmt: skip
FORMS = {form: MIP(form, init=None, threads=1) for form in ("hyperflow", "flow", "big-m", "cut", "cut-w", "binoct")} | {
    "Lagrangian": Lagrangian(),
    "columns": ColumnGeneration(),
    "intervals": MonotoneDP(relax_first=False),
    "MIP": MIP(threads=1),
    "MonotoneDP": MonotoneDP(),
    "CP-SAT": CPSAT(threads=1),
    "Benders": Benders(threads=1),
    "Benders, SCIP": Benders("scip", threads=1),
    "Benders, Gurobi": Benders("gurobi", threads=1),
}
FLOW_ONLY = (Monotone, MaxDifference, MaxShare, PathCost, AnswerLimit)  # not for hyperflow


def instance(kind: type, seed: int) -> TreeProblem:
    """A random small problem with one constraint of a kind, of any loss that it is for."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n, p = int(rng.integers(5, 8)), 2
    X = rng.integers(0, 4, size=(n, p)).astype(float)
    kinds = ["zero_one", "cost"] if kind in (MaxShare, AnswerLimit) else ["squared", "absolute", "zero_one", "log"]
    loss = str(rng.choice([*kinds, "cost"] if kind in (MaxDifference, MinPerGroup, PathCost) else kinds))
    classes = 2 if loss == "log" else 3
    y = rng.integers(0, classes, n) if loss in ("zero_one", "log") else rng.integers(0, 5, n).astype(float)
    if loss in ("zero_one", "log"):
        y[:classes] = range(classes)
    if loss == "cost":
        y = rng.integers(0, 5, (n, classes)).astype(float)
    group = rng.integers(0, 2, n)
    group[:2] = 0, 1
    i, j = (int(row) for row in rng.choice(n, 2, replace=False))
    level = rng.choice([None, 0, 1])
    where = None if level is None else int(level)
    constraint = {
        MaxSplits: lambda: MaxSplits(int(rng.integers(0, 3))),
        MaxFeatures: lambda: MaxFeatures(int(rng.integers(0, 2))),
        MinLeaf: lambda: MinLeaf(int(rng.integers(2, 4))),
        FeatureCost: lambda: FeatureCost(rng.integers(1, 4, p).tolist(), float(rng.integers(0, 6))),
        Monotone: lambda: Monotone(int(rng.integers(p)), int(rng.choice([1, -1]))),
        ForbidSplit: lambda: ForbidSplit(int(rng.integers(p)), where),
        RequireSplit: lambda: RequireSplit(int(rng.integers(p)), where),
        MaxDifference: lambda: MaxDifference(group, float(rng.choice([0.0, 0.1, 0.3]))),
        SameLeaf: lambda: SameLeaf(i, j),
        DifferentLeaf: lambda: DifferentLeaf(i, j),
        MaxShare: lambda: MaxShare(int(rng.integers(classes)), float(rng.choice([0.0, 0.3, 0.6]))),
        MinPerGroup: lambda: MinPerGroup(group, int(rng.integers(1, 3))),
        PathCost: lambda: PathCost(rng.integers(1, 4, p).tolist(), float(rng.integers(0, 5)), bool(rng.random() < 0.5)),
        AnswerLimit: lambda: AnswerLimit(rng.integers(-2, 3, (n, classes)), float(rng.integers(-4, 4))),
    }[kind]()
    weight = rng.integers(1, 3, n).astype(float) if rng.random() < 0.5 else None
    price = (SplitPrice(0.02),) if rng.random() < 0.5 else ()
    options = {"depth": 2, "splits": "axis", "loss": loss, "penalties": price, "sample_weight": weight}
    return TreeProblem(X, y, constraints=(constraint,), **options)


def several(seed: int) -> TreeProblem:
    """A random small problem with two or three constraints of different kinds, none on all answers of a group."""
    rng = np.random.default_rng([seed, 99])
    kinds = [k for k in KINDS if k not in (MaxDifference, MaxShare, AnswerLimit)]
    chosen = rng.choice(len(kinds), int(rng.integers(2, 4)), replace=False)
    base = next(p for p in (instance(kinds[chosen[0]], seed + 1000 * t) for t in range(50)) if p.loss != "cost")
    others = []
    for k in chosen[1:]:
        made = next(p for p in (instance(kinds[k], seed + 1000 * t) for t in range(50)) if _fits(p, base))
        others += [*made.constraints, *([MinLeaf(made.min_leaf)] if kinds[k] is MinLeaf else [])]
    return base.restated(constraints=(*base.constraints, *others))


def _fits(other: TreeProblem, base: TreeProblem) -> bool:
    if any(isinstance(c, MinPerGroup) and len(c.group) != base.n_samples for c in other.constraints):
        return False
    rows = [row for c in other.constraints if isinstance(c, (SameLeaf, DifferentLeaf)) for row in (c.i, c.j)]
    return max(rows, default=0) < base.n_samples


def optimum(problem: TreeProblem) -> float:
    """The least objective over all trees of two levels without dead branches; infinite if none is feasible."""
    return min(value(problem, tree) for tree in trees(problem.X, problem.depth))


def trees(X, depth):
    """All trees as nested (feature, threshold, left, right), None: a leaf; every branch divides its rows."""

    def below(rows, levels):
        yield None
        if levels == 0:
            return
        for j in range(X.shape[1]):
            values = np.unique(X[rows, j])
            for threshold in 0.5 * (values[1:] + values[:-1]):
                left = rows[X[rows, j] <= threshold]
                right = rows[X[rows, j] > threshold]
                for a in below(left, levels - 1):
                    for b in below(right, levels - 1):
                        yield j, threshold, a, b

    return below(np.arange(len(X)), depth)


def value(problem: TreeProblem, nested) -> float:
    """The objective of the best leaves for the splits; infinite if the constraint rules the tree out."""
    splits, leaf, order = [], np.full(problem.n_samples, -1), []

    def walk(node, rows, level):
        if node is None:
            leaf[rows] = len(order)
            order.append(rows)
            return [len(order) - 1]
        j, threshold, a, b = node
        goes = problem.X[rows, j] <= threshold
        left, right = walk(a, rows[goes], level + 1), walk(b, rows[~goes], level + 1)
        splits.append((j, level, left, right))
        return left + right

    walk(nested, np.arange(problem.n_samples), 0)
    features = {j for j, *_rest in splits}
    if len(splits) > 0 and min(len(rows) for rows in order) < problem.min_leaf:
        return np.inf
    ruled_out = {
        MaxSplits: lambda c: len(splits) > c.k,
        MaxFeatures: lambda c: len(features) > c.k,
        FeatureCost: lambda c: sum(c.costs[j] for j in features) > c.budget,
        ForbidSplit: lambda c: any(j == c.feature and c.where in (None, level) for j, level, *_ in splits),
        RequireSplit: lambda c: not any(j == c.feature and c.where in (None, level) for j, level, *_ in splits),
        SameLeaf: lambda c: leaf[c.i] != leaf[c.j],
        DifferentLeaf: lambda c: leaf[c.i] == leaf[c.j],
    }
    pairs, parity, budget = [], None, None
    for c in problem.constraints:
        if type(c) in ruled_out and ruled_out[type(c)](c):
            return np.inf
        if isinstance(c, Monotone):
            for j, _level, left, right in splits:
                if j == c.feature:
                    pairs += [(a, b) if c.sign == 1 else (b, a) for a in left for b in right]
        if isinstance(c, MaxDifference):
            parity = (c.group, c.tolerance)
        if isinstance(c, (MaxShare, AnswerLimit)):
            (budget,) = zip(*c.terms(problem), strict=True)
        if isinstance(c, MinPerGroup) and any(np.sum(c.group[rows] == g) < c.k for rows in order for g in (0, 1)):
            return np.inf
        if isinstance(c, PathCost):
            paid = [sum(c.costs[j] for j in {j for j, _l, a, b in splits if m in a + b}) for m in range(len(order))]
            if (problem.w @ np.array(paid)[leaf] if c.mean else max(paid)) > c.budget + 1e-9:
                return np.inf
    return leaf_cost(problem, leaf, len(order), pairs, parity, budget) + problem.split_price * len(splits)


def leaf_cost(problem, leaf, L, pairs, parity, budget=None) -> float:
    """The least mean loss of ``L`` leaves with ordered ``pairs`` or means that differ by at most a tolerance."""
    w, loss = problem.w, problem.loss
    Y = problem.Y[:, 0]
    weight = np.bincount(leaf, weights=w, minlength=L)
    slope = np.zeros((0, L))
    if parity is not None:
        group, tolerance = parity
        share = [np.bincount(leaf, weights=w * (group == g), minlength=L) / w[group == g].sum() for g in (0, 1)]
        slope = share[0] - share[1]

    def in_order(v):
        return all(v[a] <= v[b] + 1e-12 for a, b in pairs)

    if loss in ("zero_one", "cost"):
        lost = problem.Y if loss == "cost" else 1.0 - (np.arange(problem.n_outputs) == problem.Y)
        best = np.inf
        for choice in itertools.product(range(problem.n_outputs), repeat=L):
            predicted = np.array(choice)
            if not in_order(predicted):
                continue
            if parity and any(abs(slope @ (predicted == k)) > tolerance + 1e-12 for k in range(problem.n_outputs)):
                continue
            if budget and budget[0][np.arange(len(w)), predicted[leaf]].sum() > budget[1] + 1e-12:
                continue
            best = min(best, float(w @ lost[np.arange(len(w)), predicted[leaf]]))
        return best

    def cost(v):
        if loss == "squared":
            return float(np.sum(w * (Y - v[leaf]) ** 2))
        if loss == "absolute":
            return float(np.sum(w * np.abs(Y - v[leaf])))
        own = np.where(Y == 1, v[leaf], 1.0 - v[leaf])
        return float(-np.sum(w * np.log(np.clip(own, 1e-6, 1.0))))

    mean = np.bincount(leaf, weights=w * Y, minlength=L) / weight
    if parity is None:  # blocks of leaves of one answer
        best = np.inf
        for labels in itertools.product(range(L), repeat=L):
            block = np.array(labels)
            if loss == "absolute":
                v = np.array(
                    [
                        _median(
                            Y[np.isin(leaf, np.flatnonzero(block == k))], w[np.isin(leaf, np.flatnonzero(block == k))]
                        )
                        for k in block
                    ]
                )
            else:
                v = np.array([np.sum((weight * mean)[block == k]) / weight[block == k].sum() for k in block])
            if in_order(v):
                best = min(best, cost(v))
        return best
    if loss == "squared":
        candidates, low, high = [], Y.min(), Y.max()
        for held in itertools.product((None, low, high), repeat=L):  # leaves at an end of the range of y
            free = np.array([h is None for h in held])
            v = np.where(free, mean, np.array([0.0 if h is None else h for h in held]))
            candidates.append(v)
            scale = np.sum((slope**2 / weight)[free])
            for side in (tolerance, -tolerance) if scale > 0 else ():
                candidates.append(v - np.where(free, slope / weight, 0.0) * (slope @ v - side) / scale)
        inside = [v for v in candidates if v.min() >= low - 1e-9 and v.max() <= high + 1e-9]
        return min(cost(v) for v in inside if abs(slope @ v) <= tolerance + 1e-9)
    if loss == "absolute":
        best, values = np.inf, np.unique(Y)
        for choice in itertools.product(values, repeat=L):
            v = np.array(choice)
            if abs(slope @ v) <= tolerance + 1e-9:
                best = min(best, cost(v))
            for k in np.flatnonzero(np.abs(slope) > 1e-12):
                for side in (tolerance, -tolerance):
                    u = v.copy()
                    u[k] = (side - slope @ v + slope[k] * v[k]) / slope[k]
                    if Y.min() - 1e-9 <= u[k] <= Y.max() + 1e-9:
                        best = min(best, cost(u))
        return best
    return _log_parity(cost, mean, weight, slope, tolerance)


def _log_parity(cost, mean, weight, slope, tolerance):
    """Log loss: along the multiplier of the one limit that binds, by bisection."""
    from scipy.optimize import brentq

    if abs(slope @ mean) <= tolerance:
        return cost(mean)
    side = tolerance * np.sign(slope @ mean)

    def answer(multiplier):  # weight ((1 - m) / (1 - q) - m / q) + multiplier slope = 0
        out = np.empty(len(mean))
        for k, (m, t) in enumerate(zip(mean, multiplier * slope / weight, strict=True)):
            if abs(t) < 1e-14:
                out[k] = m
            else:  # t q^2 - (1 + t) q + m = 0 has one root in [0, 1]
                root = np.sqrt(max((1.0 + t) ** 2 - 4.0 * t * m, 0.0))
                out[k] = np.clip(((1.0 + t) - root) / (2.0 * t), 0.0, 1.0)
        return out

    gap = lambda multiplier: slope @ answer(multiplier) - side  # noqa: E731
    sign = np.sign(slope @ mean)
    far = 1.0
    while np.sign(gap(sign * far)) == np.sign(gap(0.0)) and far < 1e9:
        far *= 2.0
    if far >= 1e9:
        return cost(answer(sign * far))
    return cost(answer(brentq(gap, 0.0, sign * far, xtol=1e-14)))


def _median(y, w):
    order = np.argsort(y)
    return y[order][np.searchsorted(np.cumsum(w[order]), 0.5 * w.sum())]


def formulations(problem: TreeProblem) -> list[str]:
    """Those that state the problem."""
    return [form for form, solver in FORMS.items() if solver.refusal(problem) is None]


def disagreement(problem: TreeProblem, form: str, truth: float) -> str | None:
    """What is wrong with the result of a solver, or None."""
    try:
        result = solve(problem, FORMS[form], time_limit=60, random_state=0)
    except SolverError as error:  # no tree was found, and none may exist: branch and bound does not prove that
        return None if np.isinf(truth) and "required splits" in str(error) else str(error)
    if np.isinf(truth) or result.tree is None:
        same = np.isinf(truth) and result.tree is None and result.bound == np.inf
        return None if same else f"{result.objective:.9g}, {result.message} (optimum {truth:.9g})"
    tangents = form in ("flow", "big-m", "MIP") and problem.loss in ("squared", "log")
    slack = (1.1e-4 if tangents else 2e-6) * max(abs(truth), 1e-3) + 1e-9  # the gap that MIP asks for
    assert isinstance(result.tree, Tree)
    if problem.violation(result.tree) is not None:
        return f"infeasible: {problem.violation(result.tree)}"
    if (
        form in ("Lagrangian", "intervals", "MonotoneDP") and result.termination.name == "STALLED"
    ):  # a bound, and a tree
        right = result.objective >= truth - 1e-7 and result.bound <= truth + 1e-7
        return None if right else f"objective {result.objective:.9g}, bound {result.bound:.9g}; optimum {truth:.9g}"
    if abs(result.objective - truth) > slack or result.objective < truth - 1e-7 or (result.bound or 0.0) > truth + 1e-7:
        return f"objective {result.objective:.9g}, bound {result.bound:.9g}; optimum {truth:.9g}"
    return None if result.termination.name == "OPTIMAL" else f"ended {result.termination.name}"


def main() -> int:
    """Compare; print a line per constraint and formulation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--several", action="store_true", help="two or three constraints at a time")
    parser.add_argument("--kinds", nargs="*", default=[kind.__name__ for kind in KINDS])
    args = parser.parse_args()
    failures = 0
    for kind in (None,) if args.several else KINDS:
        name = "several" if kind is None else kind.__name__
        if kind is not None and name not in args.kinds:
            continue
        counts: Counter[str] = Counter()
        began, infeasible = time.perf_counter(), 0
        for seed in range(args.instances):
            problem = several(seed) if kind is None else instance(kind, seed)
            truth = optimum(problem)
            infeasible += bool(np.isinf(truth))
            for form in formulations(problem):
                wrong = disagreement(problem, form, truth)
                counts[form] += 1
                if wrong is not None:
                    failures += 1
                    print(f"  {name} seed {seed}, {form}, {problem.loss}: {wrong}", flush=True)
        text = ", ".join(f"{form} {count}" for form, count in counts.items())
        print(f"{name}: {text}; {infeasible} infeasible; {time.perf_counter() - began:.0f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
