"""Files of small models of every kind, damage to them, and what must be true of a model that was loaded."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import opttree
from opttree import Model, Tree, save
from opttree.model.files import as_saved
from opttree.tables.form import Form, Written

Place = tuple[str | int, ...]

DAMAGE: tuple[Any, ...] = (  # what may stand in the place of an entry
    None, True, "x", "", {}, [], [[]], [None], ["x"], 0, -1, 0.5, 1e308, 10**30, 10**400, [1, 2], [[1, 2], [3]],
    float("nan"), float("inf"), -float("inf"),
)  # fmt: skip


@cache
def models() -> dict[str, Any]:
    """Fitted models: hard and soft trees, of numbers and of a table, forests, boosted trees and trees in layers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y, three = X[:, 0] * X[:, 1], np.array(["no", "may be", "yes"])[(X[:, 0] > 0.0) + (X[:, 1] > 1.0).astype(int)]
    both = np.stack([X[:, 0], y], axis=1)
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], 60),
            "size": np.where(rng.random(60) < 0.2, np.nan, X[:, 0]),
            "member": rng.random(60) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 60), unit="D"),
        }
    )
    size = frame["size"].fillna(2.0) + (frame["colour"] == "red") + frame["member"]
    large = np.where(size > 1.0, "large", "small")
    forest = {"n_estimators": 2, "max_depth": 2, "random_state": 0}
    boosted = {"n_estimators": 2, "max_depth": 1, "random_state": 0}
    table = opttree.TAORegressor(2, random_state=0).fit(frame, size)
    form = Form(";", decimal=",", marks=("?",), columns={"since": Written("date", "%d.%m.%Y", ("?",))})
    layers = opttree.SDTRRegressor(1, n_trees=2, n_layers=2, quantile_transform=False, max_batches=40, random_state=0)
    return {
        "oblique": opttree.TAORegressor(2, random_state=0).fit(X, y),
        "axis, two outputs": opttree.TAORegressor(2, splits="axis", random_state=0).fit(X, both),
        "linear": opttree.TAORegressor(1, leaves="linear", random_state=0).fit(X, y),
        "classes": opttree.TAOClassifier(2, random_state=0).fit(X, three),
        "classes, numbers": opttree.TAOClassifier(1, splits="axis", random_state=0).fit(X, (y > 0.0).astype(int)),
        "classes, linear": opttree.TAOClassifier(1, leaves="linear", random_state=0).fit(X, y > 0.0),
        "one leaf": Tree.constant([1.5, 2.5], 3),
        "GET, linear": opttree.GETRegressor(1, leaves="linear", n_starts=1, random_state=0).fit(X, y),
        "rectified": opttree.RADDTRegressor(1, epochs=2, n_starts=1, random_state=0).fit(X, y),
        "soft": opttree.ORRTRegressor(1, leaves="constant", max_iter=5, random_state=0).fit(X, y),
        "soft, linear": opttree.ORRTRegressor(1, max_iter=5, random_state=0).fit(X, y),
        "soft, hard answers": opttree.SRTRegressor(1, max_iter=2, random_state=0).fit(X, y).tree_.as_hard,
        "soft, classes": opttree.ORRTClassifier(1, max_iter=5, random_state=0).fit(X, three),
        "forest": opttree.TAOForestRegressor(kind="oblique", **forest).fit(X, both),
        "forest, classes": opttree.TAOForestClassifier(kind="cart", leaves="constant", **forest).fit(X, three),
        "boosted": opttree.BoostedTreesRegressor("axis", **boosted).fit(X, y),
        "boosted, classes": opttree.BoostedTreesClassifier("cart", **boosted).fit(X, three),
        "layers": layers.fit(X, y),
        "curves": opttree.SDTRRegressor(1, max_batches=40, random_state=0).fit(X, y),
        "table": table,
        "table, of a file": replace(as_saved(table), form=form),
        "table, axis, classes": opttree.TAOClassifier(2, splits="axis", random_state=0).fit(frame, large),
        "table, linear": opttree.TAORegressor(1, leaves="linear", random_state=0).fit(frame, size),
        "table, soft": opttree.ORRTRegressor(1, max_iter=5, random_state=0).fit(frame, size),
        "table, forest": opttree.TAOForestRegressor(kind="axis", **forest).fit(frame, size),
        "table, boosted": opttree.BoostedTreesClassifier("cart", **boosted).fit(frame, large),
    }


@cache
def content(name: str, suffix: str) -> bytes:
    """The file of a model, whose name ends in ``.json`` or ``.npz``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{suffix}"
        save(models()[name], path)
        return path.read_bytes()


def places(entries: Any, above: Place = ()) -> Iterator[Place]:
    """The places of all entries, and of those within them."""
    inner = entries.items() if isinstance(entries, dict) else enumerate(entries) if isinstance(entries, list) else ()
    for key, value in inner:
        yield (*above, key)
        yield from places(value, (*above, key))


def damaged(data: Any, place: Place, value: Any) -> Any:
    """A copy of the entries with another value in a place."""
    copy = json.loads(json.dumps(data))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return copy


def dropped(data: Any, place: Place) -> Any:
    """A copy of the entries without the one in a place."""
    copy = json.loads(json.dumps(data))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    return copy


def unpacked(data: bytes) -> dict[str, Any]:
    """The arrays of an NPZ file by their names; its header is one of them."""
    with np.load(BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def packed(arrays: dict[str, Any]) -> bytes:
    """An NPZ file of arrays."""
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def good_rows(model: Model) -> Any:
    """A few rows such as the model's own table has, with values that it has not seen and, where it may, blanks."""
    if model.encoding is None:
        return np.random.default_rng(1).normal(size=(5, model.tree.n_features))
    values: dict[str, list[Any]] = {
        "number": [-2.0, 0.5, np.nan],
        "boolean": [True, False, True],
        "date": [pd.Timestamp("2020-06-01"), pd.Timestamp("2031-01-01"), pd.NaT],
        "category": ["red", "unseen", None],
        "code": [1, 2, 3],
    }
    return pd.DataFrame({column.name: values[column.kind] for column in model.encoding.columns})


def check_answers(model: Model) -> None:
    """A model that was loaded predicts finite numbers, or labels of its own that texts, booleans or numbers are."""
    rows = good_rows(model)
    answers = np.asarray(model.predict(rows))
    assert answers.shape[0] == len(rows)
    assert answers.size >= len(rows)
    if model.tree.classes is None:
        assert np.isfinite(answers).all()
    else:
        labels = model.tree.classes.tolist()
        assert set(map(type, labels)) in ({str}, {bool}, {int}, {float})
        assert len(set(labels)) == len(labels) == len({label for label in labels if label == label})
        assert set(answers.tolist()) <= set(labels)
        assert np.isfinite(model.predict_proba(rows)).all()
    if isinstance(model.tree, Tree):
        assert model.to_text()
