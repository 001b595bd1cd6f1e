"""Fitted models of every kind, with rows to predict, for the tests of what leaves the toolkit."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification, make_friedman1

from opttree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    GETRegressor,
    ORRTClassifier,
    ORRTRegressor,
    SDTRClassifier,
    SDTRRegressor,
    SRTRegressor,
    TAOClassifier,
    TAOForestClassifier,
    TAOForestRegressor,
    TAORegressor,
)

ROWS = 4_000


def numbers(n: int, seed: int = 0) -> tuple[Any, Any]:
    return make_friedman1(n, n_features=6, noise=0.5, random_state=seed)


def classes(n: int, seed: int = 0) -> tuple[Any, Any]:
    X, y = make_classification(n, 6, n_informative=4, n_classes=3, random_state=7)
    return X, np.array(["low", "mid", "it's high"])[y]


def two_outputs(n: int, seed: int = 0) -> tuple[Any, Any]:
    X, y = numbers(n, seed)
    return X, np.stack([y, X[:, 0] * X[:, 1]], axis=1)


def table(n: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Numbers, categories of few and of many levels, booleans, dates and blanks."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "it's blue", 'say "x"'], n).astype(object)
    city = np.array([f"city {k}" for k in range(40)], object)[rng.integers(0, 40, n)]
    X = pd.DataFrame(
        {
            "age": rng.normal(40.0, 12.0, n).round(1),
            "colour of it": np.where(rng.random(n) < 0.1, None, colour),
            "city": city,
            "member": rng.random(n) < 0.5,
            "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D"),
            "score": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        }
    )
    effect = np.array([hash_of(c) for c in city])
    y = X["age"] / 12.0 + 2.0 * (X["colour of it"] == "red") + effect + X["score"].fillna(2.0) + X["member"]
    return X, (y + 0.2 * rng.normal(size=n)).to_numpy()


def hash_of(text: str) -> float:
    return (sum(map(ord, text)) * 37 % 11) / 5.0


def table_classes(n: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    X, y = table(n, seed)
    return X, np.where(y > 6.5, "yes", np.where(y > 5.0, "may be", "no"))


MODELS: dict[str, tuple[Any, Any]] = {
    "TAO, axis": (TAORegressor(4, splits="axis"), numbers),
    "TAO, oblique": (TAORegressor(4), numbers),
    "TAO, axis, linear": (TAORegressor(3, splits="axis", leaves="linear"), numbers),
    "GET-Linear": (GETRegressor(3, leaves="linear"), numbers),
    "TAO, two outputs": (TAORegressor(3, leaves="linear"), two_outputs),
    "TAO, classes": (TAOClassifier(4), classes),
    "TAO, axis, classes": (TAOClassifier(4, splits="axis"), classes),
    "TAO-l, classes": (TAOClassifier(2, leaves="linear"), classes),
    "SRT": (SRTRegressor(3, max_iter=4), numbers),
    "ORRT": (ORRTRegressor(3, max_iter=60), numbers),
    "ORRT, constant": (ORRTRegressor(3, leaves="constant", max_iter=60), numbers),
    "ORRT, classes": (ORRTClassifier(2, max_iter=40), classes),
    "SDTR": (SDTRRegressor(3, quantile_transform=False, max_batches=200), numbers),
    "SDTR, curves": (SDTRRegressor(3, max_batches=200), numbers),
    "SDTR, curves, layers": (SDTRRegressor(2, n_trees=2, n_layers=2, max_batches=200), two_outputs),
    "SDTR, layers": (SDTRRegressor(2, n_trees=3, n_layers=2, quantile_transform=False, max_batches=200), numbers),
    "SDTR, classes": (SDTRClassifier(2, n_trees=3, quantile_transform=False, max_batches=200), classes),
    "forest": (TAOForestRegressor(5, kind="oblique"), numbers),
    "forest, cart": (TAOForestRegressor(5, kind="cart", leaves="constant"), two_outputs),
    "forest, classes": (TAOForestClassifier(5, kind="oblique"), classes),
    "forest, cart, classes": (TAOForestClassifier(5, kind="cart", leaves="constant"), classes),
    "boosted": (BoostedTreesRegressor("oblique", n_estimators=4), numbers),
    "boosted, axis": (BoostedTreesRegressor("cart", n_estimators=4), numbers),
    "boosted, classes": (BoostedTreesClassifier("axis", n_estimators=4, max_depth=4), classes),
    "boosted, cart, classes": (BoostedTreesClassifier("cart", n_estimators=4), classes),
    "table, axis": (TAORegressor(4, splits="axis"), table),
    "table, oblique": (TAORegressor(3), table),
    "table, GET-Linear": (GETRegressor(2, leaves="linear"), table),
    "table, classes": (TAOClassifier(4, splits="axis"), table_classes),
    "table, boosted": (BoostedTreesClassifier("cart", n_estimators=4), table_classes),
    "table, forest": (TAOForestClassifier(5, kind="oblique"), table_classes),
    "table, curves": (SDTRClassifier(2, max_batches=200), table_classes),
    "table, soft": (ORRTRegressor(2, max_iter=30), table),
}


@cache
def fitted(name: str, rows: int = ROWS) -> tuple[Any, Any]:
    """The model, and new rows; of tables, some with categories and blanks that training did not have."""
    model, make = MODELS[name]
    X, y = make(600)
    model = model.set_params(random_state=0).fit(X, y)
    new = make(rows, 1)[0]
    if isinstance(new, pd.DataFrame):
        new.loc[::50, "city"] = "elsewhere"
        new.loc[::70, "age"] = np.nan
        new.loc[::90, "city"] = None
    return model, new


def answers(name: str, rows: int = ROWS) -> tuple[Any, Any, Any]:
    """Numbers, or probabilities (n, K) and labels (n,), of the new rows."""
    model, X = fitted(name, rows)
    labels = model.predict(X)
    if hasattr(model, "classes_"):
        return model.predict_proba(X), labels, X
    return labels.reshape(len(X), -1), None, X
