"""CPU seconds to proofs of optimal axis-aligned trees under 0/1 loss, one thread, beside pycontree and pystreed.

Data sets, and instances of ``experiments/instances.toml``, by name; compiled code is warm. A peer that is not
installed is left out; pystreed gets a binary feature for each cut, where there are at most ``columns`` of them. At the
limit the tree's errors stand without a proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np

from experiments.benchmarks.common import Row, script
from opttree import TreeProblem, datasets
from solvers import BranchAndBound, Result, instances, solve


def table(name: str, folder: str | None) -> tuple[Any, Any]:
    """Features, and labels as numbers."""
    known = instances()
    X, y = known[name].load(folder) if name in known else datasets.load(name, as_arrays=True)
    return X, np.unique(y, return_inverse=True)[1]


def binary(X: Any) -> Any:
    """A column for each cut of each feature."""
    return np.hstack([X[:, [j]] <= np.unique(X[:, j])[None, :-1] for j in range(X.shape[1])]).astype(np.int32)


def by_contree(X: Any, y: Any, depth: int, limit: float) -> tuple[float, bool]:
    from pycontree import ConTree

    began = time.perf_counter()
    model = ConTree(max_depth=depth, time_limit=limit).fit(X, y)
    return float(np.sum(model.predict(X) != y)), time.perf_counter() - began < 0.98 * limit


def by_streed(X: Any, y: Any, depth: int, limit: float) -> tuple[float, bool]:
    from pystreed import STreeDClassifier

    model = STreeDClassifier("accuracy", max_depth=depth, time_limit=limit).fit(X, y)
    return float(np.sum(model.predict(X) != y)), bool(model.fit_result.is_optimal())


def cpu(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Seconds of the processor, and what a call gives."""
    began = time.process_time()
    found = call(*arguments)
    return time.process_time() - began, found


def ours(problem: TreeProblem, limit: float) -> Result:
    return solve(problem, BranchAndBound(n_jobs=1), time_limit=limit)


@script
def main(
    data: tuple[str, ...] = ("banknote", "raisin", "breast_cancer_wisconsin", "segment", "german"),
    depths: tuple[int, ...] = (3,),
    limit: float = 60.0,
    columns: int = 400,
    repeats: int = 3,
    folder: Annotated[str | None, "where files of instances are, if not in exact of OPTTREE_DATA"] = None,
) -> Iterator[Row]:
    peers = {name for name in ("pycontree", "pystreed") if find_spec(name) is not None}
    for name in data:
        X, y = table(name, folder)
        for depth in depths:
            problem = TreeProblem(X, y, depth=depth, splits="axis", loss="zero_one")
            solve(problem, BranchAndBound(n_jobs=1), time_limit=0.01)  # loads what is compiled
            runs = [cpu(ours, problem.restated(), limit) for _ in range(repeats)]
            seconds, result = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
            row: Row = {"data": name, "rows": len(y), "features": X.shape[1], "depth": depth}
            row |= {"errors": round(result.objective * len(y)), "ended": result.termination.name, "seconds": seconds}
            if "pycontree" in peers:
                own, (errors, proved) = cpu(by_contree, X, y, depth, limit)
                row |= {
                    "pycontree": own,
                    "its errors": errors if proved else f"{errors:g} open",
                    "ratio": own / seconds,
                }
            B = binary(X) if "pystreed" in peers and sum(len(np.unique(x)) for x in X.T) <= columns else None
            if B is not None:
                own, (errors, proved) = cpu(by_streed, B, y, depth, limit)
                row |= {"pystreed": own, "errors of it": errors if proved else f"{errors:g} open", "by": own / seconds}
            yield row
