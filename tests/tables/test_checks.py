"""Checks of a table."""

import time

import numpy as np
import pandas as pd
import pytest

from opttree import CostClassifier, TableEncoder, TAOClassifier, TAORegressor
from opttree.tables.checks import check_columns


def test_a_table_of_very_many_columns_is_checked_at_once():
    X = pd.DataFrame(np.zeros((2, 200_000)))
    began = time.perf_counter()
    check_columns(X)
    assert time.perf_counter() - began < 5.0
    X.iloc[1, 77] = np.inf
    with pytest.raises(ValueError, match="X column 77 must be finite"):
        check_columns(X)


def test_one_column_is_no_table():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0] * 10})
    for estimator in (TAORegressor(1), TableEncoder()):
        with pytest.raises(ValueError, match=r"Expected a? ?2"):
            estimator.fit(X["a"], X["a"])


def test_whole_numbers_beyond_double_precision():
    X, y = np.arange(40.0)[:, None], [10**400, *range(39)]
    with pytest.raises(ValueError, match="y must hold numbers of double precision"):
        TAORegressor(1).fit(X, y)
    with pytest.raises(ValueError, match="must hold numbers, as in training; got 1000"):
        TAORegressor(1).fit([[value] for value in y], np.arange(40.0))


@pytest.mark.parametrize(
    ("X", "weight", "words"),
    [
        (pd.DataFrame(index=range(40)), None, r"X must have at least one column; got a table of shape \(40, 0\)"),
        (np.zeros(40, [("a", float), ("b", "U3")]), None, "X must be a table or an array of numbers; got a structured"),
        (np.zeros((40, 1)), ["a"] * 40, "sample_weight must hold numbers; got could not convert"),
    ],
)
def test_what_is_no_table_is_named(X, weight, words):
    with pytest.raises(ValueError, match=words):
        TAORegressor(1).fit(X, np.arange(40.0), sample_weight=weight)


def test_integers_of_128_bits_are_named():
    polars = pytest.importorskip("polars")
    X = polars.DataFrame({"v": polars.Series([1, 2] * 20).cast(polars.Int128)})
    with pytest.raises(ValueError, match="X column 'v' must hold numbers of at most 64 bits; got Int128"):
        TAORegressor(1).fit(X, np.arange(40.0))


def test_booleans_among_objects_are_labels():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = pd.Series([*(X[:, 0] > 0.0), None]).dropna()
    assert y.dtype == object
    for model in (TAOClassifier(1), CostClassifier(1)):
        assert model.fit(X, y).classes_.tolist() == [False, True]
    assert TAOClassifier(1).fit(X, y).score(X, y) == 1.0
