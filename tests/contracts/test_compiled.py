"""`opttree.compile`: both backends answer as `predict`, of arrays and of tables, in several threads."""

import datetime
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import opttree
from opttree.export import compiled

BACKENDS = ["c", "numba"]


@pytest.fixture(scope="module", params=["tree", "linear", "forest"])
def fitted(request):
    X, y = opttree.datasets.load("diabetes", as_arrays=True)
    if request.param == "forest":
        return opttree.TAOForestClassifier(n_estimators=3, random_state=0).fit(X, y > 150), X
    leaves = "linear" if request.param == "linear" else "constant"
    return opttree.TAORegressor(3, leaves=leaves, random_state=0).fit(X, y), X


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_of_arrays(fitted, backend):
    model, X = fitted
    fast = opttree.compile(model, backend)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fast.predict_one, X))
    assert fast.backend == backend
    if hasattr(model, "classes_"):
        assert found == model.predict(X).tolist()
        shares = [fast.predict_proba_one(row.tolist()) for row in X[:9]]
        np.testing.assert_allclose(shares, model.predict_proba(X[:9]), rtol=1e-12)
        return
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match="predict_proba_one is for classes"):
        fast.predict_proba_one(X[0])


def table(n=400):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "town": rng.choice(["Aachen", "Bonn", "Köln", ""], n),
        "code": rng.integers(3, 8, n),
        "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        "open": rng.random(n) < 0.5,
        "noise": rng.normal(size=n),
    })  # fmt: skip
    score = 2.0 * (frame["town"] == "Bonn") + (frame["code"] == 5) + frame["size"].fillna(2.0) + 1.0 * frame["open"]
    return frame, score + (frame["day"] > "2021-03-01")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("splits", ["axis", "oblique"])
def test_rows_of_tables(backend, splits):
    frame, y = table()
    model = opttree.TAORegressor(5, splits=splits, categorical_features=["code"], random_state=0).fit(frame, y)
    fast = opttree.compile(model, backend)
    want = model.predict(frame)
    rows = frame.to_dict("records")
    np.testing.assert_allclose([fast.predict_one(row) for row in rows], want, rtol=1e-12)
    assert fast.predict_one(frame[fast.columns].iloc[3].tolist()) == pytest.approx(want[3])
    assert fast.predict_one(frame.iloc[3].tolist()) == pytest.approx(want[3])  # all columns of the table
    other = {"town": "Ulm", "day": datetime.date(2022, 5, 1)}  # all else is missing
    full = pd.DataFrame([{**dict.fromkeys(frame.columns), **other}]).astype({"size": float, "noise": float})
    assert fast.predict_one(other) == pytest.approx(model.predict(full)[0])
    odd = frame.head(2).assign(town=["Bonn\0", "Bonn"])
    np.testing.assert_allclose([fast.predict_one(row) for _k, row in odd[::-1].iterrows()], model.predict(odd)[::-1])
    assert fast.predict_one({**rows[0], "town": "B\udcff"}) == fast.predict_one({**rows[0], "town": "Ulm"})
    with pytest.raises(ValueError, match="row must name columns of the table, such as 'town'; got 'Town'"):
        fast.predict_one({"Town": "Ulm", **{name: rows[0][name] for name in fast.columns if name != "town"}})
    assert fast.predict_one({**rows[0], "more": 1.0}) == pytest.approx(want[0])  # nothing is absent
    with pytest.raises(ValueError, match="'size' must hold numbers"):
        fast.predict_one({"size": "large"})


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_labels_and_named_numbers(backend):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=["a", "b", "c"])
    model = opttree.TAOClassifier(3, random_state=0).fit(X, np.stack([X.a > 0, X.b > X.c], axis=1))
    fast = opttree.compile(model, backend)
    rows = [row[["c", "a", "b"]] for _k, row in X.iterrows()]
    assert np.array_equal([fast.predict_one(row) for row in rows], model.predict(X))
    np.testing.assert_allclose(fast.predict_proba_one(X.iloc[4])[1], model.predict_proba(X)[1][4])
    with pytest.raises(ValueError, match="row must have an entry for 'b'"):
        fast.predict_one({"a": 1.0, "c": 2.0})


def test_rows_that_are_refused(fitted, monkeypatch):
    model, X = fitted
    for backend in BACKENDS:
        fast = opttree.compile(model, backend)
        for row in ([1.0], X[:2], np.where(np.arange(10) == 9, np.nan, X[0]), np.full(10, np.inf), np.full(10, 1e200)):
            with pytest.raises(ValueError, match="row must "):
                fast.predict_one(row)
    with pytest.raises(ValueError, match="backend must be"):
        opttree.compile(model, "rust")
    monkeypatch.setattr(compiled, "COMPILERS", ("none-such",))
    monkeypatch.delenv("CC", raising=False)
    assert opttree.compile(model).backend == "numba"
    with pytest.raises(ValueError, match="needs a compiler"):
        opttree.compile(model, "c")
    monkeypatch.setenv("CC", "false -m64")
    assert opttree.compile(model).backend == "numba"
    with pytest.raises(ValueError, match="needs a compiler that works"):
        opttree.compile(model, "c")
