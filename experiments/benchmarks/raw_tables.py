"""Accuracy on raw tables, strings and blanks as they stand in the file, beside scikit-learn's gradient boosting.

Every split holds out a quarter of the rows, class by class; with --inner, within the training rows, to choose defaults.
`HistGradientBoostingClassifier` has its defaults and `categorical_features="from_dtype"`, text columns being of pandas'
type "category", as it needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, script, timed
from opttree import AutoTreeClassifier, BoostedTreesClassifier, TAOClassifier, TAOForestClassifier, datasets

SHARE = 0.25
METHODS = {
    "HistGradientBoosting": HistGradientBoostingClassifier(categorical_features="from_dtype"),
    "boosted": BoostedTreesClassifier(),
    "forest": TAOForestClassifier(),
    "auto": AutoTreeClassifier(),
    "auto, forest": AutoTreeClassifier(kind="forest"),
    "tao": TAOClassifier(max_depth="cv"),
}


def as_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Text as pandas' categories."""
    text = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
    return X.astype(dict.fromkeys(text, "category"))


@script
def main(
    sets: tuple[str, ...] = ("adult", "titanic", "bank_marketing", "german", "horse_colic", "mushroom"),
    methods: Annotated[tuple[str, ...], METHODS] = tuple(METHODS),
    splits: int = 5,
    limit: Annotated[float, "seconds of auto"] = 60.0,
    inner: Annotated[bool, "hold out a part of the training rows"] = False,
) -> Iterator[Row]:
    for name in sets:
        data = datasets.load(name)
        for method in methods:
            found = []
            for seed in range(splits):
                X, y = data.X, data.y
                for _ in range(2 if inner else 1):
                    X, X_test, y, y_test = train_test_split(X, y, test_size=SHARE, random_state=seed, stratify=y)
                if method == "HistGradientBoosting":
                    X, X_test = as_categories(X), as_categories(X_test)
                model = clone(METHODS[method]).set_params(random_state=seed)
                if method.startswith("auto"):
                    model.set_params(time_limit=limit)
                taken, _model = timed(model.fit, X, y)
                found.append((float(np.mean(model.predict(X_test) == y_test.to_numpy())), taken))
            accuracy, taken = np.mean(found, axis=0)
            yield {"data": name, "method": method, "accuracy": accuracy, "seconds": taken}
