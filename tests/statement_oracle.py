"""Brute force of statements beyond prediction: all trees of two levels, with costs of leaves by other means than the
product's, beside every solver that takes them.

``python -m tests.statement_oracle --instances 1000`` compares every solver with it, for every statement, with weights,
ties, prices, smallest leaves and limits of splits by turns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np

from opttree import SplitPrice, TreeProblem
from opttree.statement.constraints import ForbidSplit, MaxSplits
from opttree.statement.losses import Decision, Exponential, Gamma, Poisson
from solvers import MIP, TAO, AxisNode, BranchAndBound, CartInit, ExactInit, LocalSearch, NeymanPearson, Ratio, solve
from tests.constraint_oracle import trees

PROVERS = {
    "BranchAndBound": BranchAndBound(),
    "hyperflow": MIP("hyperflow", threads=1),
    "flow": MIP("flow", threads=1),
    "big-m": MIP("big-m", threads=1),
}
SEARCHES = {
    "ExactInit": ExactInit(),
    "LocalSearch": LocalSearch(n_starts=2),
    "TAO": TAO(node_solver=AxisNode()),
    "CartInit": CartInit(),
}
MEASURES = ("f1", "fbeta", "jaccard")


def two_cheapest(costs):
    chosen = np.zeros(costs.size)
    chosen[np.argsort(costs)[:2]] = 1.0
    return chosen


# ---- outcomes of each statement, and the loss of a leaf by its closed form -------------------------------------------


def costs(rng, n):
    return rng.integers(0, 6, size=(n, int(rng.integers(2, 5)))).astype(float), "cost"


def dear_costs(rng, n):
    return rng.exponential(size=(n, 3)) * 10.0 ** rng.integers(-4, 5), "cost"


def survival_times(rng, n):
    time = rng.integers(1, 5, n).astype(float) if rng.random() < 0.5 else rng.exponential(size=n)
    return time * np.where(rng.random(n) < 0.6, 1.0, -1.0), Exponential()


def counts(rng, n):
    return rng.poisson(1.5, n).astype(float), Poisson()


def amounts(rng, n):
    return rng.integers(1, 6, n) * 10.0 ** rng.integers(-3, 4), Gamma()


def decisions(rng, n):
    return rng.integers(1, 9, size=(n, 3)).astype(float), Decision(two_cheapest)


def clusters(rng, n):
    return rng.normal(size=(n, 2)).round(1), "squared"


def effects(rng, n):
    return rng.normal(size=n), "squared"


def loss_of_leaf(kind, y, w):
    """The least weighted loss of a leaf of these rows."""
    if kind in (costs, dear_costs):
        return float((w @ y).min())
    if kind is decisions:
        mean = w @ y
        chosen = two_cheapest(mean)
        return float(mean @ chosen - sum(weight * (row @ two_cheapest(row)) for weight, row in zip(w, y, strict=True)))
    if kind in (clusters, effects):
        table = y.reshape(len(y), -1)
        return float(w @ np.sum((table - w @ table / w.sum()) ** 2, axis=1))
    if kind is survival_times:
        events, total = w[y > 0.0].sum(), w @ np.abs(y)
        best = w[y > 0.0] @ (np.log(np.abs(y[y > 0.0])) + 1.0)  # of each row alone
        return float(events * np.log(total / events) + events - best) if events > 0.0 else 0.0
    mean = float(w @ y / w.sum())
    if kind is counts:
        if mean == 0.0:
            return 0.0
        some = y > 0.0
        return float(2.0 * (w[some] @ (y[some] * np.log(y[some] / mean)) - w @ (y - mean)))
    return float(2.0 * w @ (np.log(mean / y) + y / mean - 1.0))


STATEMENTS = (costs, dear_costs, survival_times, counts, amounts, decisions, clusters, effects)


def instance(kind, seed: int) -> TreeProblem:
    """A small problem of a statement."""
    rng = np.random.default_rng([seed, STATEMENTS.index(kind)])
    n = int(rng.integers(5, 9))
    X = rng.integers(0, 3, size=(n, 2)).astype(float)
    y, loss = kind(rng, n)
    weight = rng.integers(1, 4, n).astype(float) if rng.random() < 0.5 else None
    limits: list = [()] * 3 + [(MaxSplits(int(rng.integers(1, 3))),), (ForbidSplit(int(rng.integers(2))),)]
    size = float(np.mean(np.abs(y)))
    return TreeProblem(
        X,
        y,
        depth=2,
        splits="axis",
        loss=loss,
        penalties=(SplitPrice(float(rng.uniform(0.0, 0.1)) * size),) if rng.random() < 0.4 else (),
        sample_weight=weight,
        min_leaf=int(rng.integers(1, 3)),
        constraints=limits[rng.integers(5)],
    )


def leaves(nested, X):
    """The rows of each leaf, and the features of the splits, of a nested tree."""
    found, features = [], []

    def walk(node, rows):
        if node is None:
            found.append(rows)
            return
        j, threshold, left, right = node
        features.append(j)
        walk(left, rows[X[rows, j] <= threshold])
        walk(right, rows[X[rows, j] > threshold])

    walk(nested, np.arange(len(X)))
    return found, features


def allowed(problem, rows, features):
    """Whether a tree keeps to the smallest leaf and the limits."""
    if len(rows) > 1 and min(len(leaf) for leaf in rows) < problem.min_leaf:
        return False
    for c in problem.constraints:
        if isinstance(c, MaxSplits) and len(features) > c.k:
            return False
        if isinstance(c, ForbidSplit) and c.feature in features:
            return False
    return True


def optimum(kind, problem: TreeProblem) -> float:
    """The least objective of all trees."""
    y = problem.Y[:, 0] if problem.Y.shape[1] == 1 else problem.Y
    best = np.inf
    for nested in trees(problem.X, problem.depth):
        rows, features = leaves(nested, problem.X)
        if allowed(problem, rows, features):
            value = sum(loss_of_leaf(kind, y[leaf], problem.w[leaf]) for leaf in rows)
            best = min(best, value + problem.price_per_split * len(features))
    return best


def disagreements(problem: TreeProblem, truth: float, unit: float) -> list[tuple[str, str | None]]:
    """For each solver that takes the problem what is wrong with its result, or None."""
    found = []
    for name, solver in (PROVERS | SEARCHES).items():
        if solver.refusal(problem) is not None:
            continue
        result = solve(problem, solver, time_limit=60, random_state=0)
        proves = name in PROVERS
        slack = (1e-9 if name in ("BranchAndBound", "ExactInit") else 2e-6) * max(abs(truth), unit) + 1e-12
        tangents = name in ("flow", "big-m") and problem.loss == "squared"
        slack = 1.1e-4 * max(abs(truth), 0.1 * unit) if tangents else slack
        wrong = problem.violation(result.tree)
        if result.objective < truth - 1e-9 * max(abs(truth), unit) - 1e-12:
            wrong = f"objective {result.objective:.12g} below {truth:.12g}"
        elif result.bound is not None and result.bound > truth + slack:
            wrong = f"bound {result.bound:.12g} above {truth:.12g}"
        elif proves and abs(result.objective - truth) > slack:
            wrong = f"objective {result.objective:.12g}, not {truth:.12g}: {result.termination.name}"
        found.append((name, wrong))
    return found


# ---- measures that do not add up -------------------------------------------------------------------------------------


def of_measure(measure: str, seed: int) -> str | None:
    """What is wrong with `Ratio`, or `NeymanPearson`, on a small problem; None if nothing is."""
    rng = np.random.default_rng([seed, 77])
    n = int(rng.integers(5, 9))
    X, y = rng.integers(0, 3, size=(n, 2)).astype(float), rng.integers(0, 2, n)
    y[:2] = 0, 1
    weight = rng.integers(1, 4, n).astype(float) if rng.random() < 0.5 else None
    problem = TreeProblem(X, y, 2, "axis", loss="zero_one", sample_weight=weight, min_leaf=int(rng.integers(1, 3)))
    most = float(rng.choice([0.1, 0.2, 0.5]))
    positive, w = problem.Y[:, 0] == 1, problem.w
    best = 0.0
    for nested in trees(problem.X, 2):
        rows, features = leaves(nested, problem.X)
        if not allowed(problem, rows, features):
            continue
        for code in range(2 ** len(rows)):
            flagged = np.zeros(n, bool)
            for k, leaf in enumerate(rows):
                flagged[leaf] = bool(code >> k & 1)
            hit, alarm, missed = w[flagged & positive].sum(), w[flagged & ~positive].sum(), w[~flagged & positive].sum()
            if measure == "recall":
                if alarm <= most * w[~positive].sum() + 1e-12:
                    best = max(best, hit / w[positive].sum())
                continue
            beta = {"f1": 1.0, "fbeta": 2.0}.get(measure)
            own = beta is not None and (1 + beta**2) * hit / ((1 + beta**2) * hit + beta**2 * missed + alarm)
            best = max(best, hit / (hit + alarm + missed) if beta is None else float(own))
    if measure == "recall":
        info = solve(problem, NeymanPearson(most)).trace.rows[-1].info
        value, bound = info["recall"], info["bound"]
        exact = False  # a multiplier reaches the hull of recalls alone
    else:
        solver = Ratio(measure, beta=2.0) if measure == "fbeta" else Ratio(measure)
        info = solve(problem, solver).trace.rows[-1].info
        value, bound, exact = info["ratio"], info["bound"], True
    if value > best + 1e-9 or bound < best - 1e-9 or (exact and abs(value - best) > 1e-9):
        return f"{value:.12g}, bound {bound:.12g}; best {best:.12g}"
    return None


def main() -> int:
    """Compare; print a line per statement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--statements", nargs="*", default=[kind.__name__ for kind in STATEMENTS])
    args = parser.parse_args()
    failures = 0
    for kind in STATEMENTS:
        if kind.__name__ not in args.statements:
            continue
        taken: Counter[str] = Counter()
        began = time.perf_counter()
        for seed in range(args.instances):
            problem = instance(kind, seed)
            unit = problem.objective(problem.best_constant())
            for name, wrong in disagreements(problem, optimum(kind, problem), unit):
                taken[name] += 1
                if wrong is not None:
                    failures += 1
                    print(f"  {kind.__name__} seed {seed}, {name}: {wrong}", flush=True)
        text = ", ".join(f"{name} {count}" for name, count in taken.items())
        print(f"{kind.__name__}: {text}; {time.perf_counter() - began:.0f} s", flush=True)
    for measure in (*MEASURES, "recall"):
        if args.statements != [kind.__name__ for kind in STATEMENTS]:
            break
        wrong_ones = [(seed, wrong) for seed in range(args.instances) if (wrong := of_measure(measure, seed))]
        failures += len(wrong_ones)
        for seed, wrong in wrong_ones:
            print(f"  {measure} seed {seed}: {wrong}", flush=True)
        print(f"{measure}: {args.instances}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
