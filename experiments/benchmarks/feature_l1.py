"""ORRT under `FeatureL1`: scores on rows within the training part, and how many features are left, by strength.

Trees of depth 3 on data sets with as many columns of normal noise beside their own, and Friedman's first function with
25 columns of noise, at most 1,200 rows, of which two fifths judge. With ``--plain``, the estimator by default, but for
the strength, on data sets as they are: at most 3,000 rows, of which three tenths judge, and factors of 1 / sqrt(rows).
Means over the seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, script
from opttree import ORRTClassifier, ORRTRegressor, datasets

NOISY = ("friedman", "housing", "cpu_act", "kin8nm", "airfoil")
STRENGTHS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
NUMBERS = ("housing", "abalone", "airfoil", "cpu_act", "kin8nm", "elevators", "ailerons", "puma8NH")
CLASSES = ("german", "spambase", "contraceptive", "titanic", "landsat")
FACTORS = (0.0, 0.027, 0.08, 0.27)


def table(name: str, seed: int, plain: bool) -> tuple[Any, Any]:
    """The rows of the training part."""
    if name == "friedman":
        X, y = make_friedman1(1500, 30, noise=1.0, random_state=seed)
    else:
        X, y = datasets.load(name, as_arrays=True)
        X = X if plain else np.hstack([X, np.random.default_rng(seed).normal(size=X.shape)])
    X, _X, y, _y = train_test_split(X, y, random_state=seed)
    most = 3000 if plain else 1200
    return X[:most], y[:most]


@script
def main(
    sets: Annotated[tuple[str, ...], "data sets; none: those of the experiment"] = (),
    strengths: Annotated[tuple[float, ...], "or factors; none: those of the experiment"] = (),
    plain: Annotated[bool, "data sets as they are"] = False,
    seeds: int = 3,
) -> Iterator[Row]:
    for name in sets or ((*NUMBERS, *CLASSES) if plain else NOISY):
        for leaves in ("linear",) if plain else ("constant", "linear"):
            row: Row = {"data": name, "leaves": leaves}
            for strength in strengths or (FACTORS if plain else STRENGTHS):
                found = []
                for seed in range(seeds):
                    train, judge, train_y, judge_y = train_test_split(
                        *table(name, seed, plain), test_size=0.3 if plain else 0.4, random_state=seed
                    )
                    unit = np.sqrt(len(train)) if plain else 1.0
                    options: dict[str, Any] = {} if plain else {"max_depth": 3, "leaves": leaves, "floor": False}
                    kind = ORRTClassifier if name in CLASSES else ORRTRegressor
                    model = kind(**options, feature_l1=strength / unit, random_state=seed).fit(train, train_y)
                    found.append((model.score(judge, judge_y), np.mean(model.feature_importances_ > 0.0)))
                score, share = np.mean(found, axis=0)
                row |= {f"{strength:g}": float(score), f"{strength:g}, features": float(share)}
            yield row
