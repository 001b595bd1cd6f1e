"""ORRT under `FeatureL1`: R2 on rows within the training part, and how many features are left, by strength.

Data sets with as many columns of normal noise beside their own, and Friedman's first function with 25 columns of noise;
at most 1,200 rows, of which two fifths judge. Depth 3; means over the seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, script
from opttree import ORRTRegressor, datasets

ROWS = 1200


def table(name: str, seed: int) -> tuple[Any, Any]:
    """The rows of the training part, with noise."""
    if name == "friedman":
        X, y = make_friedman1(1500, 30, noise=1.0, random_state=seed)
    else:
        X, y = datasets.load(name, as_arrays=True)
        X = np.hstack([X, np.random.default_rng(seed).normal(size=X.shape)])
    X, _X, y, _y = train_test_split(X, y, random_state=seed)
    return X[:ROWS], y[:ROWS]


@script
def main(
    sets: Annotated[tuple[str, ...], "data sets"] = ("friedman", "housing", "cpu_act", "kin8nm", "airfoil"),
    strengths: tuple[float, ...] = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1),
    seeds: int = 3,
) -> Iterator[Row]:
    for name in sets:
        for leaves in ("constant", "linear"):
            row: Row = {"data": name, "leaves": leaves}
            for strength in strengths:
                found = []
                for seed in range(seeds):
                    train, judge, train_y, judge_y = train_test_split(
                        *table(name, seed), test_size=0.4, random_state=seed
                    )
                    options = {"leaves": leaves, "feature_l1": strength, "floor": False, "random_state": seed}
                    model = ORRTRegressor(3, **options).fit(train, train_y)
                    used = model.tree_.A.any(axis=0)
                    if model.tree_.linear_leaves:
                        used |= model.tree_.leaf_arrays[1].any(axis=(0, 1))
                    found.append((model.score(judge, judge_y), used.sum() / used.size))
                score, share = np.mean(found, axis=0)
                row |= {f"{strength:g}": float(score), f"{strength:g}, features": float(share)}
            yield row
