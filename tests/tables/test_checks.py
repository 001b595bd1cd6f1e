"""Checks of a table."""

import time

import numpy as np
import pandas as pd
import pytest

from opttree import TableEncoder, TAORegressor
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
