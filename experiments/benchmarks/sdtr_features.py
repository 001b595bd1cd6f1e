"""SDTR on normal scores by curves beside scikit-learn's normal quantiles, judged on rows within the training part.

A quarter of the rows is set aside and never read; a quarter of the others judges. R2, or accuracy; CPU seconds of a
fit; means over the seeds of the splits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, script
from opttree import SDTRClassifier, SDTRRegressor, datasets
from opttree.preprocessing import Curves, NormalQuantiles

NUMBERS = ("airfoil", "abalone", "cpu_act", "kin8nm", "housing", "wine_red", "elevators", "ailerons")
CLASSES = ("german", "spambase", "contraceptive", "titanic")
MOST = 4000
FEATURES = {
    "curves": lambda X: Curves.normal(X),
    "scikit-learn's": lambda X: NormalQuantiles(random_state=0).fit(X),
}


def on(features: str, classes: bool) -> Any:
    """The estimator with these features."""
    base: Any = SDTRClassifier if classes else SDTRRegressor
    recipe = replace(base.recipe, transform=lambda options, X, weight: FEATURES[features](X))
    return type(base.__name__, (base,), {"recipe": recipe})


@script
def main(
    sets: Annotated[tuple[str, ...], "data sets"] = (*NUMBERS, *CLASSES),
    seeds: Annotated[int, "splits"] = 3,
) -> Iterator[Row]:
    for name in sets:
        X, y = datasets.load(name, as_arrays=True)
        row: Row = {"data": name}
        for features in FEATURES:
            scores, seconds = [], 0.0
            for seed in range(seeds):
                inner, _X, inner_y, _y = train_test_split(X, y, random_state=seed)
                train, judge, train_y, judge_y = train_test_split(inner[:MOST], inner_y[:MOST], random_state=seed)
                began = time.process_time()
                model = on(features, name in CLASSES)(random_state=seed).fit(train, train_y)
                seconds += time.process_time() - began
                scores.append(model.score(judge, judge_y))
            row |= {features: float(np.mean(scores)), f"{features}, CPU s": seconds / seeds}
        yield row
