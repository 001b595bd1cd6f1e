"""How many passes of TAO the trees need by which a fit chooses: strengths of shrinkage, and depths and penalties.

Of the training rows of each data set, two thirds of all, a third is held out; the others are fitted with several limits
on the passes of the trees of folds, and the scores on the rows held out are averaged over sets and seeds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, script
from opttree import TAOClassifier, TAORegressor, datasets
from opttree.estimators import tao

KINDS: dict[str, dict[str, Any]] = {"oblique": {}, "linear": {"leaves": "linear"}, "axis": {"splits": "axis"}}
FEWEST = 6  # rows of a class


def inner_rows(name: str, most: int, seed: int) -> Any:
    """Rows to fit and rows held out, of the training rows of a set: X, Z, y, z; and whether labels are classes."""
    X, y = datasets.load(name, as_arrays=True)
    some = np.random.default_rng(seed).permutation(len(y))[:most]
    X, y, classes = X[some], y[some], datasets.load(name).task != "regression"
    if classes:
        labels, counts = np.unique(y, return_counts=True)
        kept = np.isin(y, labels[counts >= FEWEST])
        X, y = X[kept], y[kept]
    for _ in range(2):  # the test rows, which are not read, and the rows held out
        X, Z, y, z = train_test_split(X, y, test_size=1 / 3, random_state=seed, stratify=y if classes else None)
    return X, Z, y, z, classes


@script
def main(
    data: tuple[str, ...] = (),
    kinds: Annotated[tuple[str, ...], KINDS] = ("oblique", "axis"),
    passes: tuple[int, ...] = (40, 10, 3, 1),
    depth: Annotated[bool, "of the trees by which depth and penalties are chosen"] = False,
    seeds: int = 2,
    rows: int = 4500,
) -> Iterator[Row]:
    warnings.simplefilter("ignore")
    found = []
    for name in data or datasets.names():
        if datasets.load(name).y.ndim > 1:
            continue
        for seed, kind in ((seed, kind) for seed in range(seeds) for kind in kinds):
            X, Z, y, z, classes = inner_rows(name, rows, seed)
            for most in passes:
                options = {"max_depth": "auto" if depth else 6, "random_state": 0, "n_jobs": 1, **KINDS[kind]}
                if depth:
                    tao.RECIPE.trial_limits["max_iter"] = most  # type: ignore[index]
                else:
                    tao.TRIAL_PASSES = tao.AXIS_PASSES = most
                began = time.process_time()
                model = (TAOClassifier if classes else TAORegressor)(**options).fit(X, y)
                seconds = time.process_time() - began
                found.append((kind, "classes" if classes else "numbers", most, name, seconds, model.score(Z, z)))
    table = pd.DataFrame(found, columns=["kind", "task", "passes", "set", "seconds", "score"])
    for (kind, task, most), part in table.groupby(["kind", "task", "passes"]):
        usual = table[(table.kind == kind) & (table.task == task) & (table.passes == max(passes))]
        gain = part.score.to_numpy() - usual.score.to_numpy()
        error = float(gain.std() / np.sqrt(len(gain)))
        yield {
            "trees": kind,
            "task": task,
            "passes": int(most),
            "fits": len(part),
            "score": float(part.score.clip(-1).mean()),
            "gain": float(gain.mean()),
            "standard error": error,
            "seconds": float(part.seconds.sum()),
        }
