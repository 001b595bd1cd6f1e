"""Checks of a table."""

import time

import numpy as np
import pandas as pd
import pytest

from opttree.tables.checks import check_columns


def test_a_table_of_very_many_columns_is_checked_at_once():
    X = pd.DataFrame(np.zeros((2, 200_000)))
    began = time.perf_counter()
    check_columns(X)
    assert time.perf_counter() - began < 5.0
    X.iloc[1, 77] = np.inf
    with pytest.raises(ValueError, match="X column 77 must be finite"):
        check_columns(X)
