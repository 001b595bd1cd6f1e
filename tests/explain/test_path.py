"""The path of a row in words."""

import numpy as np
import pandas as pd
import pytest

import opttree
from opttree import explain
from opttree.model.files import as_saved
from tests.export_models import MODELS, fitted


@pytest.mark.parametrize("name", [name for name in MODELS if "curves" not in name])
def test_paths_end_in_the_answer(name):
    model, X = fitted(name)
    row = X[5:6]
    words = explain.path(model, row)
    answer = model.predict(row)[0]
    assert words.startswith(f"target = {answer}" if isinstance(answer, str) else "target = ")
    saved = as_saved(model)
    if isinstance(saved.tree, opttree.Tree) and not saved.tree.mixture:
        depth = saved.tree.node_depth[saved.tree.apply(saved.table(row))[0]]
        assert len(words.splitlines()) == depth + 2
    assert model.explain(row) == words


def test_a_path_wants_one_row():
    model, X = fitted("TAO, oblique")
    assert explain.path(model, X[0]) == explain.path(model, X[:1])
    with pytest.raises(ValueError, match="row must be one row; got 2"):
        explain.path(model, X[:2])


@pytest.mark.parametrize("column", ["year", "latitude", "moment"])
def test_what_is_printed_is_true(column):
    """`year > 2008  (year = 2008)` it was: thresholds lay on values when they had four digits."""
    rng = np.random.default_rng(0)
    found = {
        "year": pd.Series(rng.integers(1990, 2025, 600)),
        "latitude": pd.Series((52.5 + rng.uniform(0.0, 0.05, 600)).round(4)),
        "moment": pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 50, 600) * 100, unit="ms")),
    }[column]
    high = found >= found.sort_values().iloc[300]
    model = opttree.TAORegressor(1, splits="axis", random_state=0).fit(pd.DataFrame({column: found}), high * 2.0)
    below = model.to_text().split("\n")[0].removeprefix("if ").removesuffix(":")
    limit = type(found[0])(below.split(" <= ")[1]) if column == "moment" else float(below.split(" <= ")[1])
    assert ((found > limit) == high).all()
    row = pd.DataFrame({column: [found[high].min()]})
    condition, value = model.explain(row).split("\n")[1].strip().split("  (")
    assert condition.split(" > ")[1] != value.split(" = ")[1].removesuffix(")")
