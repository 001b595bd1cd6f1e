"""AutoTree on a slower and slower machine, beside its floor.

The clock runs 1, 4 and 16 times as fast, so that in the time given a fit does what it would do on a machine that is so
many times slower. The floor is the best of a linear model (ridge or logistic regression), CART, its depth by
cross-validation, and TAO with linear leaves at its defaults, which have all the time they want. Scores are R2 or
accuracy on a quarter of the rows, at most 3,000 of the others in training.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import opttree
from experiments.benchmarks.common import Row, script, timed
from opttree import datasets
from opttree.runtime import clock

SETS = (
    "yacht", "housing", "airfoil", "abalone", "kin8nm", "cpu_act",
    "german", "raisin", "segment", "titanic",
)  # fmt: skip
SPEEDS = (1, 4, 16)
MOST = 3000


@contextmanager
def faster(times: float) -> Iterator[None]:
    """The clock of every time limit runs so many times as fast."""
    own = clock.time
    clock.time = SimpleNamespace(perf_counter=lambda: times * own.perf_counter())  # type: ignore[assignment]
    try:
        yield
    finally:
        clock.time = own


def floor(task: str, seed: int) -> dict[str, Any]:
    """What no choice may fall below."""
    if task == "regression":
        linear: Any = RidgeCV(np.logspace(-3, 3, 13))
        cart, tao = DecisionTreeRegressor, opttree.TAORegressor(leaves="linear", random_state=seed)
    else:
        linear = LogisticRegressionCV(Cs=8, max_iter=500, l1_ratios=(0.0,), use_legacy_attributes=False)
        cart, tao = DecisionTreeClassifier, opttree.TAOClassifier(leaves="linear", random_state=seed)
    grid = {"max_depth": [3, 6, 12], "min_samples_leaf": [1, 5, 20]}
    return {
        "linear": make_pipeline(StandardScaler(), linear),
        "CART": GridSearchCV(cart(random_state=seed), grid),
        "TAO-l": tao,
    }


@script
def main(seconds: float = 20.0, seeds: int = 1, sets: tuple[str, ...] = SETS) -> Iterator[Row | str]:
    warnings.simplefilter("ignore")
    lines = []
    for name in sets:
        data = datasets.load(name)
        X, y = data.as_arrays()
        for seed in range(seeds):
            parts = train_test_split(X, y, test_size=0.25, random_state=seed)
            train, test = (parts[0][:MOST], parts[2][:MOST]), (parts[1], parts[3])
            scores = {label: model.fit(*train).score(*test) for label, model in floor(data.task, seed).items()}
            line: Row = {"set": name, "seed": seed, **scores, "floor": max(scores.values())}
            kind = opttree.AutoTreeRegressor if data.task == "regression" else opttree.AutoTreeClassifier
            for speed in SPEEDS:
                with faster(speed):
                    took, auto = timed(kind(time_limit=seconds, random_state=seed).fit, *train)
                line[f"{speed}x"] = auto.score(*test)
                line |= {f"chosen {speed}x": auto.best_member_, f"seconds {speed}x": speed * took}
            lines.append(line)
            yield line
    for speed in SPEEDS:
        mean = statistics.mean(line[f"{speed}x"] for line in lines)
        below = max(max(line["floor"] - line[f"{speed}x"], 0.0) for line in lines)
        yield f"{speed}x: mean {mean:.3f}, worst below the floor {below:.3f}"
