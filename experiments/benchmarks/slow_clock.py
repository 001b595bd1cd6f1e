"""AutoTree on a slower and slower machine, beside its floor.

    python -m experiments.benchmarks.slow_clock --seconds 20 --seeds 1

The clock runs 1, 4 and 16 times as fast, so that in the time given a fit does what it would do on a machine that is so
many times slower. The floor is the best of a linear model (ridge or logistic regression), CART, its depth by
cross-validation, and TAO with linear leaves at its defaults, which have all the time they want. Scores are R2 or
accuracy on a quarter of the rows, at most 3,000 of the others in training.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import opttree
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


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sets", default=",".join(SETS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for name in args.sets.split(","):
        data = datasets.load(name)
        X, y = data.as_arrays()
        for seed in range(args.seeds):
            parts = train_test_split(X, y, test_size=0.25, random_state=seed)
            train, test = (parts[0][:MOST], parts[2][:MOST]), (parts[1], parts[3])
            line: dict[str, Any] = {"set": name, "seed": seed}
            for label, model in floor(data.task, seed).items():
                line[label] = model.fit(*train).score(*test)
            line["floor"] = max(line[label] for label in ("linear", "CART", "TAO-l"))
            kind = opttree.AutoTreeRegressor if data.task == "regression" else opttree.AutoTreeClassifier
            for speed in SPEEDS:
                with faster(speed):
                    began = time.perf_counter()
                    auto = kind(time_limit=args.seconds, random_state=seed).fit(*train)
                    took = time.perf_counter() - began
                line[f"{speed}x"] = auto.score(*test)
                line[f"chosen {speed}x"] = auto.best_member_
                line[f"seconds {speed}x"] = speed * took
            lines.append(line)
            print(pd.DataFrame([line]).to_string(index=False, float_format="%.3f"), flush=True)
    table = pd.DataFrame(lines)
    print(table.to_markdown(index=False, floatfmt=".3f"))
    for speed in SPEEDS:
        below = (table["floor"] - table[f"{speed}x"]).clip(lower=0.0)
        print(f"{speed}x: mean {table[f'{speed}x'].mean():.3f}, worst below the floor {below.max():.3f}")


if __name__ == "__main__":
    main()
