"""The page of a tree: what its script follows a row by."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import opttree
from opttree import export

N = 400


def table():
    rng = np.random.default_rng(0)
    dates = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), unit="D")
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=N).round(2),
            "city </script>": rng.choice(["Bonn", "Ulm", "Köln & more"], N),
            "since": dates,
            "open": rng.integers(0, 2, N).astype(bool),
        }
    )
    y = frame["size"] * (frame["city </script>"] == "Ulm") + (frame["since"] > "2021-03-01") + 2.0 * frame["open"]
    frame.loc[::7, "size"] = np.nan
    frame.loc[::11, "city </script>"] = None
    return frame, y.to_numpy(float)


def data_of(model, **options):
    page = export.to_html(model, **options)
    return json.loads(re.search(r"const model = (.*);\n", page)[1])


def followed(data, row):
    """The leaf's text, as the page's script finds it."""
    given = ["" if pd.isna(row[one["name"]]) else row[one["name"]] for one in data["inputs"]]
    x = []
    for one in data["features"]:
        value, kind = given[one["input"]], data["inputs"][one["input"]]["kind"]
        if one["kind"] == "missing":
            x.append(float(isinstance(value, str) and value == ""))
        elif one["kind"] == "levels":
            x.append(one["missing"] if value == "" else one["known"].get(str(value), one["other"]))
        elif isinstance(value, str) and value == "":
            x.append(one["fill"])
        else:
            value = (value - pd.Timestamp(0)) / pd.Timedelta(days=1) if kind == "date" else float(value)
            low, high = one.get("low"), one.get("high")
            x.append(min(max(value, -np.inf if low is None else low), np.inf if high is None else high))
    node = data["nodes"][0]
    while "kids" in node:
        total = sum(weight * x[k] for k, weight in node["split"]["weights"])
        node = data["nodes"][node["kids"][0 if total <= node["split"]["threshold"] else 1]]
    return node["whole"]


@pytest.mark.parametrize("splits", ["axis", "oblique"])
def test_a_row_goes_where_the_model_sends_it(splits):
    frame, y = table()
    model = opttree.TAORegressor(4, splits=splits, leaf_shrinkage=0.0, floor=False, random_state=0).fit(frame, y)
    data = data_of(model)
    answers = model.predict(frame)
    for row, answer in zip(frame.iloc[:120].to_dict("records"), answers, strict=False):
        assert float(followed(data, row)) == pytest.approx(answer, rel=2e-3, abs=1e-3)
    assert "</script>" not in re.search(r"const model = (.*);\n", export.to_html(model))[1]


def test_arrays_have_numbers_and_mixtures_no_form():
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = X[:, 0] - X[:, 2]
    model = opttree.TAORegressor(3, splits="axis", leaf_shrinkage=0.0, floor=False, random_state=0).fit(X, y)
    data = data_of(model)
    rows = [{f"x{j}": value for j, value in enumerate(row)} for row in X[:50]]
    for row, answer in zip(rows, model.predict(X), strict=False):
        assert float(followed(data, row)) == pytest.approx(answer, rel=2e-3, abs=1e-3)
    assert "inputs" not in data_of(opttree.ORRTRegressor(2, random_state=0).fit(X, y))
    wide = np.random.default_rng(1).normal(size=(300, 100))
    assert "inputs" not in data_of(opttree.TAORegressor(2, random_state=0).fit(wide, wide @ np.ones(100)))


def test_a_page_asks_for_dates_and_times(tmp_path):
    frame = pd.DataFrame({"when": pd.date_range("2024-01-01 12:00", periods=200, freq="D")})
    y = np.repeat([0.0, 1.0], 100)
    model = opttree.TAORegressor(1, leaf_shrinkage=0.0, floor=False, random_state=0).fit(frame, y)
    assert [one["kind"] for one in data_of(model)["inputs"]] == ["date"]
    page = export.to_html(model)
    assert all(words in page for words in ('type: "time"', "T${field.clock.value}Z"))
    assert [float(followed(data_of(model), row)) for row in frame.to_dict("records")] == y.tolist()
