"""A campaign against bounds: no tree that a statement allows may be below the bound of any solver.

Random statements with columns that are nearly tied, have outliers, are huge, tiny, whole numbers, dates, of few values;
all losses, weights, prices, side constraints. Every solver that states one is run; its bound is held against its own
tree, those of all the others, the constant, and a hundred random feasible trees, and against what it says when values
are replaced by their ranks. `check` is what the test suite runs on some instances.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from experiments.benchmarks.common import script
from opttree import L1, L2, SplitPrice, Tree, TreeProblem
from opttree.runtime.clock import now
from opttree.statement.constraints import (
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    MaxDifference,
    MaxFeatures,
    MaxSplits,
    Monotone,
    RequireSplit,
    SameLeaf,
)
from opttree.statement.losses import Huber, Poisson, Quantile
from solvers import (
    MIP,
    TAO,
    BlockBounds,
    BranchAndBound,
    CartInit,
    LocalSearch,
    ObliqueBranchAndBound,
    SolverError,
    certify,
    solve,
)

EVALUATION = 1e-15  # of an objective, with weights that sum to one
ROUNDING = 1e-11  # of the objective, and of the sizes that add up to it
MIP_ROUNDING = 0.0
SECONDS = 5.0
RANDOM_TREES = 100


def column(rng: np.random.Generator, n: int) -> Any:
    """A column of one of the kinds that tables hold."""
    kind = rng.integers(0, 9)
    few = rng.integers(0, max(2, n // 3), n).astype(float)
    if kind == 0:
        return rng.normal(size=n)
    if kind == 1:  # nearly tied: neighbours are 1 to 2**20 units in the last place apart
        offset = 10.0 ** rng.integers(-3, 16) * rng.choice([-1.0, 1.0])
        return offset + np.spacing(abs(offset)) * 2.0 ** rng.integers(0, 20) * few
    if kind == 2:  # an outlier
        values = rng.choice([few, rng.normal(size=n)])
        values[rng.integers(0, n)] = rng.choice([-1.0, 1.0]) * 10.0 ** rng.integers(3, 18)
        return values
    if kind == 3:
        return rng.normal(size=n) * 10.0 ** rng.integers(20, 140)
    if kind == 4:
        return rng.normal(size=n) * 10.0 ** -rng.integers(20.0, 140)
    if kind == 5:
        return few
    if kind == 6:  # seconds since 1970, to a millisecond
        return 1.7e9 + np.round(rng.uniform(0, 10.0 ** rng.integers(-2, 8), n), 3)
    if kind == 7:
        return rng.integers(0, 2, n).astype(float)
    return np.round(rng.normal(size=n), 1) * rng.choice([0.1, 1.0, 3.0])


def statement(seed: int) -> TreeProblem:
    """A random statement; ValueError where the draw makes none."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(3, 26)), int(rng.integers(1, 4))
    X = np.column_stack([column(rng, n) for _ in range(p)])
    loss: Any = rng.choice(np.array(["squared", "zero_one", "absolute", "log", "own"]), p=[0.3, 0.3, 0.15, 0.15, 0.1])
    if loss == "own":
        loss = [Quantile(0.8), Huber(0.5), Poisson()][rng.integers(0, 3)]
    kind = rng.integers(0, 4)
    if loss in ("zero_one", "log"):
        y: Any = rng.integers(0, rng.integers(2, 4), n)
    else:
        y = [rng.normal(size=n), rng.integers(0, 4, n).astype(float), column(rng, n), rng.normal(size=n) + 1e6][kind]
        y = np.abs(y) % 1e6 if isinstance(loss, Poisson) else y
    splits = "oblique" if rng.random() < 0.12 and p < 3 else "axis"
    weight = [None, rng.integers(0, 3, n).astype(float), rng.uniform(0.5, 2.0, n), 10.0 ** rng.uniform(-6, 6, n)]
    penalties: list[Any] = []
    if rng.random() < 0.4:
        penalties.append(SplitPrice(float(rng.choice([1e-9, 0.01, 0.3]))))
    if rng.random() < 0.15:
        penalties.append(rng.choice([L1(splits=0.01), L2(splits=0.02)]))
    problem = TreeProblem(
        X,
        y,
        depth=int(rng.choice([0, 1, 2, 3], p=[0.05, 0.25, 0.5, 0.2])) if splits == "axis" else 1,
        splits=splits,
        loss=loss,
        sample_weight=weight[rng.integers(0, 4)],
        penalties=penalties,
        min_leaf=int(rng.choice([1, 1, 1, 2, 4])),
    )
    if rng.random() < 0.3:
        j, rows = int(rng.integers(0, p)), rng.choice(problem.n_samples, 2, replace=problem.n_samples < 2).tolist()
        draws = [
            MaxSplits(int(rng.integers(0, 4))),
            MaxFeatures(1),
            FeatureCost({j: 0.1}, 0.05),
            ForbidSplit(j),
            RequireSplit(j),
            SameLeaf(*rows),
            DifferentLeaf(*rows),
            Monotone(j, 1),
            MaxDifference(rng.integers(0, 2, problem.n_samples), 0.3),
        ]
        problem = problem.restated(constraints=(draws[rng.integers(0, len(draws))],))
    return problem


def random_trees(problem: TreeProblem, rng: np.random.Generator) -> Iterator[Tree]:
    """Random trees with thresholds at, between and beyond the values, of either sign, with the best leaves."""
    B = 2**problem.depth - 1
    for _ in range(RANDOM_TREES if B else 0):
        A, b = np.zeros((B, problem.n_features)), np.zeros(B)
        for t in range(B):
            if problem.splits == "axis":
                j = rng.integers(0, problem.n_features)
                A[t, j] = rng.choice([1.0, -1.0, 1.0, 0.7, -3.0])
            else:
                A[t] = rng.normal(size=problem.n_features) / np.maximum(np.ptp(problem.X, axis=0), 1e-140)
            at = A[t] @ problem.X[rng.integers(0, problem.n_samples)]
            b[t] = rng.choice([at, 0.5 * (at + A[t] @ problem.X[rng.integers(0, problem.n_samples)])])
        try:
            tree = problem.trim(problem.fit_leaves(Tree.complete(A, b, problem.n_outputs, problem.classes)))
        except ValueError:  # no answers of these leaves satisfy the constraints
            continue
        if problem.violation(tree) is None:
            yield tree


def provers(problem: TreeProblem, rng: np.random.Generator) -> Iterator[Any]:
    """The solvers that bound all trees of the problem; the slow ones on a part of the instances."""
    yield BranchAndBound(init=None)
    if rng.random() < 0.3:
        yield BranchAndBound(gap=float(rng.choice([0.01, 0.3])))
    yield ObliqueBranchAndBound(init=None)
    if rng.random() < 0.15:
        yield BlockBounds(blocks=int(rng.integers(1, 4)))
    if problem.n_samples <= 14 and rng.random() < 0.5:
        yield MIP(formulation="hyperflow")
        if problem.depth <= 2 and rng.random() < 0.3:
            yield MIP(formulation="flow")
            yield MIP(formulation="big-m")


def check(seed: int, seconds: float = SECONDS) -> list[str]:
    """What is wrong on the instance of ``seed``, in sentences; ``seconds``: the limit of each run."""
    rng = np.random.default_rng([seed, 1])
    try:
        problem = statement(seed)
    except ValueError:
        return []
    constant = problem.best_constant()
    trees = [("constant", constant), *(("random", tree) for tree in random_trees(problem, rng))]
    bounds: list[tuple[str, float, float]] = []
    proofs: list[tuple[str, float]] = []
    for solver in (CartInit(), TAO(), LocalSearch(n_starts=1), *provers(problem, rng)):
        name = repr(solver)
        if solver.refusal(problem) is not None:
            continue
        try:
            result = solve(problem, solver, time_limit=seconds, random_state=0)
        except SolverError as error:  # no tree in time, or none with the required splits, as `BranchAndBound` says
            if error.result is None and ("time limit" in str(error) or "required splits" in str(error)):
                continue
            return [f"{seed}: {name}: {error}"]
        if result.tree is not None:
            trees.append((name, result.tree))
        if result.bound is not None and solver.covers(problem):
            bounds.append((name, result.bound, MIP_ROUNDING if isinstance(solver, MIP) else 0.0))
            if result.termination.name == "OPTIMAL" and not getattr(solver, "gap", 0.0):
                proofs.append((name, result.objective))
    try:
        if BranchAndBound().refusal(problem) is None:
            if problem.violation(constant) is None:
                verdict = certify(problem, constant, time_limit=seconds, random_state=0)
                if verdict.bound is not None:
                    bounds.append(("certify", verdict.bound, 0.0))
            ranked = problem.with_rows(problem.ranks.T.astype(float), problem.y, problem.sample_weight)
            ranked = ranked.restated(constraints=problem.constraints)
            result = solve(ranked, BranchAndBound(init=None), time_limit=seconds, random_state=0)
            bounds.append(("ranks", result.bound or 0.0, 0.0))
            if result.termination.name == "OPTIMAL":
                proofs.append(("ranks", result.objective))
    except ValueError as error:
        return [f"{seed}: certify or ranks: {error}"]
    found = {name: problem.objective(tree) for name, tree in trees if problem.violation(tree) is None}
    if not found:
        return []
    least = min(found, key=lambda name: found[name])
    scale = abs(found[least]) + ROUNDING * problem.restated(constraints=()).objective(constant)
    wrong = [
        f"{seed}: bound {bound!r} of {name} above {found[least]!r} of {least}"
        for name, bound, own in bounds
        if bound > found[least] + (ROUNDING + own) * scale + EVALUATION
    ]
    if proofs and not any(isinstance(q, L1) for q in problem.penalties):
        low, high = min(value for _name, value in proofs), max(value for _name, value in proofs)
        if high - low > 1e-5 * scale + MIP_ROUNDING * scale:
            wrong.append(f"{seed}: proved optima differ: {proofs}")
    return wrong


def _checked(seed: int) -> list[str]:
    warnings.simplefilter("ignore")
    try:
        return check(seed)
    except Exception as error:
        return [f"{seed}: {type(error).__name__}: {error}"]


@script
def main(count: int = 20_000, first: int = 0, jobs: int = 2) -> Iterator[str]:
    began, failures = now(), 0
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for done, wrong in enumerate(pool.map(_checked, range(first, first + count), chunksize=20), 1):
            failures += len(wrong)
            yield from wrong
            if done % 500 == 0 or done == count:
                yield f"{done} instances, {failures} failures, {now() - began:.0f} s"
