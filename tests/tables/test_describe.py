"""Reports of tables, and the warnings of estimators by the same checks."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import opttree
from opttree import TableWarning, TAORegressor


def notes(frame, target=None):
    return {column.name: " ".join(column.notes) for column in opttree.describe_table(frame, target).columns}


def frame(n=200):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "customer_id": rng.permutation(n) + 1000,
            "x": rng.normal(size=n),
            "price": [f"{v:.2f} EUR" for v in rng.random(n)],
            "when": [f"{1 + k % 28}.03.2024" for k in range(n)],
            "answer": np.where(np.arange(n) % 2, " yes", "no"),
            "case": np.where(np.arange(n) % 2, "Yes", "yes"),
            "name": [f"n{k}" for k in range(n)],
            "far": 2**53 + rng.integers(0, 9, n),
            "mark": np.where(np.arange(n) % 9 == 0, -999.0, rng.normal(size=n)),
            "unknown": np.where(np.arange(n) % 9 == 0, "?", "level"),
            "one": "same",
            "y": rng.normal(size=n),
        }
    ).assign(leak=lambda table: np.exp(table["y"]))


EXPECTED = {
    "id": "counts the rows",
    "customer_id": "a number for each row",
    "price": "numbers with 'EUR' within text",
    "when": "dates like '1.03.2024'",
    "answer": "blanks around them, such as ' yes'",
    "case": "differ in case or blanks only",
    "name": "names or keys",
    "far": "beyond 2**53",
    "mark": "-999 in 23 rows may mark blanks",
    "unknown": "'?' in 23 rows may mark blanks",
    "one": "one value alone",
    "leak": "predicts the target alone",
}


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_a_report_says_what_may_be_meant_otherwise(library):
    table = frame()
    given = {
        "pandas": lambda: table,
        "polars": lambda: pl.DataFrame(table),
        "arrow": lambda: pl.DataFrame(table).to_arrow(),
    }
    found = notes(given[library](), "y")
    for name, words in EXPECTED.items():
        assert words in found[name], name
    assert found["x"] == ""
    report = opttree.describe_table(table, "y")
    assert "14 columns" in str(report)
    assert len(report.to_frame()) == 14


def test_estimators_warn_by_the_same_checks():
    table = frame()
    with pytest.warns(TableWarning) as caught:
        TAORegressor(2, random_state=0).fit(table.drop(columns=["y", "leak"]), table["y"])
    words = [str(one.message) for one in caught]
    for name in ("id", "price", "when", "answer", "far", "name"):
        assert 1 <= sum(f"column {name!r}" in word for word in words) <= 2, name
    assert len(words) == len(set(words))
    assert all(one.filename == __file__ for one in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        TAORegressor(2, random_state=0).fit(table[["x", "mark"]], table["y"])
        far = {"categorical_features": ["far"], "high_cardinality": "keep"}
        TAORegressor(2, **far, random_state=0).fit(table[["x", "far"]], table["y"])
    with pytest.warns(TableWarning, match=r"column 0: has whole numbers beyond 2\*\*53"):
        TAORegressor(2, random_state=0).fit(2**53 + 2**40 * np.arange(40)[:, None], np.arange(40.0))


def test_wrong_targets_of_a_report():
    with pytest.raises(ValueError, match="target must be a column of X"):
        opttree.describe_table(frame(), "z")
    with pytest.raises(ValueError, match="X must be a table"):
        opttree.describe_table(np.zeros((3, 2)))
