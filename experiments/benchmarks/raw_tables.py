"""Accuracy on raw tables, strings and blanks as they stand in the file, beside scikit-learn's gradient boosting.

    python -m experiments.benchmarks.raw_tables --sets adult titanic --splits 5
    python -m experiments.benchmarks.raw_tables --inner ...      # within the training rows, to choose defaults

Every split holds out a quarter of the rows, class by class. `HistGradientBoostingClassifier` has its defaults and
`categorical_features="from_dtype"`, text columns being of pandas' type "category", as it needs them.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from opttree import AutoTreeClassifier, BoostedTreesClassifier, TAOClassifier, TAOForestClassifier, datasets

SETS = ("adult", "titanic", "bank_marketing", "german", "horse_colic", "mushroom")
SHARE = 0.25


def methods(seed: int, limit: float) -> dict[str, Any]:
    return {
        "HistGradientBoosting": HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed),
        "boosted": BoostedTreesClassifier(random_state=seed),
        "forest": TAOForestClassifier(random_state=seed),
        "auto": AutoTreeClassifier(limit, random_state=seed),
        "auto, forest": AutoTreeClassifier(limit, kind="forest", random_state=seed),
        "tao": TAOClassifier(max_depth="cv", random_state=seed),
    }


def as_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Text as pandas' categories."""
    text = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
    return X.astype(dict.fromkeys(text, "category"))


def accuracies(name: str, splits: int, inner: bool, wanted: list[str] | None, limit: float) -> list[dict[str, Any]]:
    data = datasets.load(name)
    rows = []
    for seed in range(splits):
        X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=SHARE, random_state=seed, stratify=data.y)
        if inner:
            X, X_test, y, y_test = train_test_split(X, y, test_size=SHARE, random_state=seed, stratify=y)
        for method, model in methods(seed, limit).items():
            if wanted and method not in wanted:
                continue
            train, test = (as_categories(X), as_categories(X_test)) if method == "HistGradientBoosting" else (X, X_test)
            began = time.perf_counter()
            model.fit(train, y)
            seconds = time.perf_counter() - began
            rows.append({"data": name, "method": method, "seed": seed, "seconds": seconds})
            rows[-1]["accuracy"] = float(np.mean(model.predict(test) == y_test.to_numpy()))
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of auto")
    parser.add_argument("--inner", action="store_true", help="hold out a part of the training rows")
    args = parser.parse_args()
    rows = []
    for name in args.sets:
        rows += accuracies(name, args.splits, args.inner, args.methods, args.limit)
    frame = pd.DataFrame(rows)
    table = frame.pivot_table(index="data", columns="method", values="accuracy", sort=False)
    seconds = frame.pivot_table(index="data", columns="method", values="seconds", sort=False)
    print(table.to_markdown(floatfmt=".4f"))
    print()
    print(seconds.to_markdown(floatfmt=".2f"))


if __name__ == "__main__":
    main()
