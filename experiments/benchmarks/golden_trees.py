"""Whether a change of the code leaves trees as they were: hashes of the fits of all estimators and solvers.

Every estimator on both tasks it has, and every solver on the small problems of `check_solver`, each with two seeds and
one thread. Floating-point sums differ between machines: record and compare on one. They also differ in their last
digits between compilations: a kernel that was compiled in the same process, or whose callees stand in another module,
may contain other copies of these. So beside the hash a few sums of a fit's numbers are recorded, and fits whose hashes
differ while the sums agree to eight digits are counted as equal but for rounding. Compare with caches that were made
alike: run twice, and take the second.

python -m experiments.benchmarks.golden_trees record FILE
python -m experiments.benchmarks.golden_trees compare FILE
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from sklearn.datasets import make_friedman1

import opttree
import solvers
from opttree import Forest, Tree
from solvers.conformance import example_problems

SEEDS = (0, 1)
QUICK: dict[str, dict[str, Any]] = {  # options that make a fit short; defaults otherwise
    "AutoTree": {"time_limit": None},
    "BoostedTrees": {"n_estimators": 5, "max_depth": 2},
    "GET": {"max_depth": 3},
    "GradTree": {"max_depth": 3},
    "OCT": {"max_depth": 2},
    "ORRT": {"max_depth": 2},
    "ORT": {"max_depth": 2},
    "SDTR": {"max_depth": 3, "max_batches": 200},
    "SRT": {"max_depth": 2},
    "TAO": {"max_depth": 3},
    "TAOForest": {"n_estimators": 4, "max_depth": 3},
}
SOLVERS = (
    solvers.RandomInit(),
    solvers.CartInit(),
    solvers.ClusterInit(n_init=2),
    solvers.HingeInit(),
    solvers.GreedyInit(epochs=30),
    solvers.TAO(max_iter=5),
    solvers.TAO(max_iter=3, node_solver=solvers.LiblinearNode()),
    solvers.MultiStart(solvers.TAO(max_iter=3), 3),
    solvers.Chain(solvers.CartInit(), solvers.TAO(max_iter=3)),
    solvers.Distilled(solvers.TAOForest(2, max_iter=3), n_starts=1, max_iter=3),
    solvers.GET(anneal=solvers.Anneal(epochs=30), finish=solvers.Anneal(epochs=20), race_rows=100),
    solvers.SubtreePolish(anneal=solvers.Anneal(epochs=20)),
    solvers.NODEC(max_iter=3),
    solvers.ORRT(n_starts=2, max_iter=60),
    solvers.ORRT(method="SLSQP", max_iter=5),
    solvers.LocalSearch(n_starts=2),
    solvers.GradTree(epochs=20, n_starts=2),
    solvers.SDTR(max_batches=60),
    solvers.SDTR(max_batches=60, aggregation="mixture", validation=None),
    solvers.MIP(n_thresholds=4),
    solvers.TAOForest(3, kind="oblique", max_iter=3),
    solvers.TAOForest(3, kind="axis", max_iter=3),
    solvers.TAOForest(3, kind="cart"),
    solvers.Boosting(solvers.CartInit(), n_trees=3),
)


def fits() -> Iterator[tuple[str, Callable[[], tuple[float, Tree | Forest]]]]:
    """Names of the fits, and what does each: its objective and what it fitted."""
    X, y = make_friedman1(300, n_features=6, random_state=0)
    labels = np.digitize(y, np.quantile(y, (0.4, 0.8)))
    for name in sorted(n for n in opttree.__all__ if n.endswith(("Regressor", "Classifier"))):
        classifies = name.endswith("Classifier")
        stem = name.removesuffix("Classifier").removesuffix("Regressor")
        for seed in SEEDS:
            model = getattr(opttree, name)(**QUICK.get(stem, {}), random_state=seed)

            def fit(model: Any = model, target: Any = labels if classifies else y) -> tuple[float, Tree | Forest]:
                model.fit(X, target)
                fitted = model.forest_ if hasattr(model, "forest_") else model.tree_
                return float(model.result_.objective), fitted

            yield f"{name} {seed}", fit
    for name, problem in example_problems().items():
        for solver in SOLVERS:
            if solver.refusal(problem) is None:
                for seed in SEEDS:

                    def run(solver: Any = solver, problem: Any = problem, seed: int = seed) -> tuple[float, Any]:
                        result = solvers.solve(problem, solver, random_state=seed)
                        return result.objective, result.tree

                    yield f"{solver!r} on {name!r} {seed}", run


DIGITS = 1e-8  # relative difference of sums that counts as rounding


def digest(objective: float, fitted: Tree | Forest) -> str:
    """Hash of the objective and of all numbers of a tree or forest."""
    layers = fitted.layers if isinstance(fitted, Forest) else [[fitted]]
    numbers = [repr(objective), [[tree.to_dict() for tree in layer] for layer in layers]]
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]


def sums(objective: float, fitted: Tree | Forest) -> list[float]:
    """The objective, how many numbers there are, the sum of their sizes, and a sum in which they have other factors."""
    arrays = (
        [array for tree in fitted.trees for array in (tree.A, tree.b, *tree.leaf_arrays)]
        if isinstance(fitted, Forest)
        else [fitted.A, fitted.b, *fitted.leaf_arrays]
    )
    flat = np.concatenate([np.ravel(array) for array in arrays])
    flat = np.where(np.isfinite(flat), flat, 0.0)
    return [objective, float(flat.size), float(np.abs(flat).sum()), float(np.sum(np.cos(np.arange(flat.size)) * flat))]


def agree(before: list[float], after: list[float]) -> bool:
    """Whether sums agree but for rounding."""
    scale = max(abs(before[2]), 1e-300)
    return before[1] == after[1] and all(
        abs(a - b) <= DIGITS * size
        for a, b, size in zip(before, after, (max(abs(before[0]), DIGITS), 1, scale, scale), strict=True)
    )


def found() -> dict[str, tuple[str, list[float]]]:
    """Hashes and sums by name."""
    numba.set_num_threads(1)
    recorded = {}
    for name, fit in fits():
        objective, fitted = fit()
        recorded[name] = digest(objective, fitted), sums(objective, fitted)
        print(name, recorded[name][0], flush=True)
    return recorded


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    args = parser.parse_args()
    if args.what == "record":
        recorded = found()
        args.file.write_text(json.dumps(recorded, indent=1))
        print(f"{len(recorded)} fits recorded in {args.file}")
        return 0
    before, after = json.loads(args.file.read_text()), found()
    rounded, others = [], []
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            others.append(name)
        elif before[name][0] != after[name][0]:
            (rounded if agree(before[name][1], after[name][1]) else others).append(name)
    for name in rounded:
        print(f"rounds otherwise: {name}")
    for name in others:
        print(f"differs: {name}: {before.get(name, 'none')} -> {after.get(name, 'none')}")
    print(f"{len(before)} fits, {len(rounded)} differ in rounding alone, {len(others)} differ")
    return int(bool(others))


if __name__ == "__main__":
    sys.exit(main())
