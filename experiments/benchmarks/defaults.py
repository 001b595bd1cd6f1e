"""Estimators as they come beside the better of a linear model and a tuned CART: small sets, and three generated kinds.

The linear model is a ridge regression or a multinomial logistic one on standardised features, its strength chosen by
cross-validation; CART's depth, smallest leaf and pruning are. A third of the rows is held out, the training rows are at
most ``rows``; with --inner a third of these is held out instead, to choose defaults.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import opttree
from experiments.benchmarks.common import Row, script, timed
from opttree import datasets
from opttree.tables.encoder import TableEncoder

SHARE = 1 / 3
GENERATED = ("heavy_tails", "few_of_many", "noise")
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "tao-c": ("TAO", {}),
    "tao-l": ("TAO", {"leaves": "linear"}),
    "get": ("GET", {}),
    "get-linear": ("GET", {"leaves": "linear"}),
    "srt": ("SRT", {}),
    "orrt": ("ORRT", {}),
    "gradtree": ("GradTree", {}),
    "ort": ("ORT", {}),
    "forest": ("TAOForest", {}),
    "boosted": ("BoostedTrees", {}),
    "auto": ("AutoTree", {"time_limit": 60.0}),
}
GRID = {"max_depth": [2, 3, 4, 6, 8, None], "min_samples_leaf": [1, 5, 20], "ccp_alpha": [0.0, 1e-3, 1e-2]}


def generated(name: str, seed: int, n: int = 1000) -> tuple[Any, Any, str]:
    """A table of one of the generated kinds."""
    rng = np.random.default_rng([seed, GENERATED.index(name)])
    if name == "heavy_tails":
        X = rng.standard_t(1.5, size=(n, 8))
        y = np.arctan(X[:, 0]) + 0.5 * np.tanh(X[:, 1] * X[:, 2]) + 0.3 * np.sign(X[:, 3]) + 0.3 * rng.normal(size=n)
    elif name == "few_of_many":
        X = rng.normal(size=(n, 100))
        y = X[:, 0] + X[:, 1] * (X[:, 2] > 0) + np.abs(X[:, 3]) + 0.5 * X[:, 4] + rng.normal(size=n)
    else:
        X, y = rng.normal(size=(n, 10)), rng.normal(size=n)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), y, "regression"


def table(name: str, seed: int) -> tuple[Any, Any, str]:
    """Features, target and task."""
    if name in GENERATED:
        return generated(name, seed)
    data = datasets.load(name)
    return data.X, np.asarray(data.y), data.task


def floor(X: Any, y: Any, X_test: Any, y_test: Any, task: str) -> dict[str, float]:
    """Held-out scores of the linear model and of CART."""
    encoder = TableEncoder(categorical_features="from_dtype")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        number = task == "regression"
        codes = y if number else np.unique(y, return_inverse=True)[1]
        Z, Z_test = encoder.fit_transform(X, codes.astype(float)), encoder.transform(X_test)
        alphas = np.logspace(-3, 4, 15)
        linear = RidgeCV(alphas) if number else LogisticRegressionCV(Cs=8, cv=4, max_iter=300)
        linear = make_pipeline(StandardScaler(), linear).fit(Z, y)
        if number:
            scale = float(np.var(y)) or 1.0
            grid = GRID | {"ccp_alpha": [a * scale for a in GRID["ccp_alpha"]]}
        else:
            grid = GRID
        tree = (DecisionTreeRegressor if number else DecisionTreeClassifier)(random_state=0)
        cart = GridSearchCV(tree, grid, cv=5).fit(Z, y)
        return {"linear": float(linear.score(Z_test, y_test)), "cart": float(cart.score(Z_test, y_test))}


@script
def main(
    sets: tuple[str, ...] = (),
    methods: Annotated[tuple[str, ...], KINDS] = tuple(KINDS),
    splits: int = 3,
    rows: int = 2500,
    inner: Annotated[bool, "hold out a part of the training rows"] = False,
    task: Annotated[str, "of the sets, if none are named: regression, classification or both"] = "both",
) -> Iterator[Row | str]:
    named = [name for name in datasets.names() if task in ("both", datasets.load(name).task)] if not sets else []
    wanted = sets or (*named, *(GENERATED if task != "classification" else ()))
    found: list[Row] = []
    for name in wanted:
        for seed in range(splits):
            X, y, kind = table(name, seed)
            for _ in range(2 if inner else 1):
                labels = y if kind == "classification" and np.unique(y, return_counts=True)[1].min() > 2 else None
                X, X_test, y, y_test = train_test_split(X, y, test_size=SHARE, random_state=seed, stratify=labels)
            X, y, X_test = X.iloc[:rows].reset_index(drop=True), y[:rows], X_test.reset_index(drop=True)
            lowest = floor(X, y, X_test, y_test, kind)
            for method in methods:
                family, options = KINDS[method]
                end = "Regressor" if kind == "regression" else "Classifier"
                cls = getattr(opttree, "OCTClassifier" if family + end == "ORTClassifier" else family + end)
                model = cls(random_state=seed, **options)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        taken, _model = timed(model.fit, X, y)
                        score = float(model.score(X_test, y_test))
                    except ValueError as error:
                        yield f"{name}, {method}: {error}"
                        continue
                row = {"data": name, "task": kind, "split": seed, "method": method, "score": score}
                row |= {"above": score - max(lowest.values()), "seconds": taken, **lowest}
                row["fallback"] = str(getattr(model, "fallback_", None))
                found.append(row)
                yield row
    frame = pd.DataFrame(found)
    for (kind, method), part in frame.groupby(["task", "method"], sort=False):
        means = part.groupby("data")["above"].mean()
        yield (
            f"{kind}, {method}: mean {part['score'].mean():.4f}, above the floor {means.mean():.4f}, worst "
            f"{means.min():.3f} ({means.idxmin()}), {int((means < -0.02).sum())} of {len(means)} below -.02, "
            f"median {part['seconds'].median():.2f} s"
        )
