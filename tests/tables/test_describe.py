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
    "customer_id": "has a number for each row",
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


@pytest.mark.parametrize(
    ("table", "target", "words"),
    [
        (pd.DataFrame({"a": []}), None, "X must hold at least one row"),
        (pd.DataFrame({"a": [1, 2]}), [1.0, 2.0, 3.0], "target must have one value for each of the 2 rows"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "different names; got 'a' twice"),
    ],
)
def test_odd_tables_are_one_sentence(table, target, words):
    with pytest.raises(ValueError, match=words):
        opttree.describe_table(table, target)


def test_odd_columns_are_described():
    n = 40
    table = pd.DataFrame(
        {1: np.arange(n) % 3, None: np.arange(n), "list": [[1, 2]] * n, "inf": [np.inf, 1e300] * (n // 2)}
    )
    table["date"], table["blank"] = pd.Timestamp("2024-01-01"), None
    table["large"] = pd.Series([10**400] * n, dtype=object)
    for target in (None, 1, "inf", "date", np.arange(n)):
        assert len(opttree.describe_table(table, target).columns) == 7
    assert "all entries are blank" in notes(table)["blank"]
    polars = pl.DataFrame({"a": [[1, 2]] * n, "b": [{"c": 1}] * n})
    assert len(opttree.describe_table(polars).columns) == len(opttree.describe_table(polars.to_arrow()).columns) == 2


def test_columns_that_count_time_are_no_keys():
    n = 60
    table = pd.DataFrame({"year": 1960 + np.arange(n), "day": np.arange(n), "no_claim_amount": np.arange(n) * 3 + 1})
    table["size"] = 38 + np.arange(n) % 3
    table["y"] = np.arange(n)
    assert set(notes(table.drop(columns="no_claim_amount"), "y").values()) <= {
        "",
        "predicts the target alone: is it known before the target is?",
    }
    assert "key" not in notes(table)["no_claim_amount"]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([2**53 + 1, None] * 20, dtype="Int64"),
        pd.Series([2**53 + 1, 2**60 + 1] * 20, dtype=object),
        pd.Series([2.0**53 + 2, np.nan] * 20),
        pl.Series([2**53 + 1, None] * 20),
    ],
)
def test_whole_numbers_that_are_not_told_apart_are_said(values):
    frame = pd.DataFrame({"k": values}) if isinstance(values, pd.Series) else pl.DataFrame({"k": values})
    assert "beyond 2**53" in notes(frame)["k"]
    with pytest.warns(TableWarning, match=r"beyond 2\*\*53"):
        TAORegressor(1, splits="axis").fit(frame, np.arange(40.0))
