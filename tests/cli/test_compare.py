"""opttree compare: a table and a figure."""

import sys

import numpy as np
import pandas as pd
import pytest

from opttree import load
from opttree.cli.main import main


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["u", "v", "w"])
    frame["y"] = np.where(frame.u > 0, frame.v, 3.0)
    frame["label"] = np.where(frame.u + frame.v > 0, "up", "down")
    frame.drop(columns="label").to_csv(tmp_path / "number.csv", index=False)
    frame.drop(columns="y").to_csv(tmp_path / "label.csv", index=False)
    return tmp_path


def test_compare_prints_a_table_and_draws_a_figure(tmp_path, capsys):
    for name in ("diabetes", "iris"):
        assert main(["compare", "--data", name, "--depth", "2", "--cv", "2", "--out", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        for word in ("cart", "rf", "tao-c", "tao-l", "train", "test", "objective", "seconds", "parameters"):
            assert word in out
        table = pd.read_csv(tmp_path / f"compare_{name}_depth2.csv", index_col=0)
        assert table.loc["tao-c", "objective"] > 0
        assert np.isnan(table.loc["rf", "objective"])
        assert (tmp_path / f"compare_{name}_depth2.png").exists()


def test_forests_can_be_compared_and_saved(csv, tmp_path, capsys):
    assert main(["compare", "--data", "diabetes", "--methods", "forest", "--cv", "2", "--out", str(tmp_path)]) == 0
    assert pd.read_csv(tmp_path / "compare_diabetes_depth4.csv", index_col=0).loc["forest", "parameters"] > 1000
    model = str(csv / "m.json")
    assert main(["fit", str(csv / "number.csv"), "--target", "y", "--method", "forest", "--out", model]) == 0
    n_trees = len(load(model).tree.trees)
    assert f"{n_trees} trees" in capsys.readouterr().out
    assert main(["predict", model, str(csv / "number.csv"), "--out", str(csv / "p.csv")]) == 0
    frame = pd.read_csv(csv / "number.csv")
    np.testing.assert_allclose(pd.read_csv(csv / "p.csv")["y"], load(model).predict(frame))
    assert main(["show", model]) == 0
    assert f"a forest of {n_trees} trees" in capsys.readouterr().out
    assert main(["show", model, "--tree", "3"]) == 0
    assert "if " in capsys.readouterr().out
    assert main(["show", model, "--tree", str(n_trees)]) == 2


def test_a_library_that_is_absent_is_named_before_any_work(csv, capsys, monkeypatch):
    from opttree.cli import compare

    monkeypatch.setitem(sys.modules, "catboost", None)  # as if it were not installed
    monkeypatch.setattr(compare, "cross_validate", lambda *args, **options: pytest.fail("work has begun"))
    assert main(["compare", str(csv / "number.csv"), "--target", "y", "--methods", "cart,catboost"]) == 2
    assert "CatBoostRegressor needs catboost: pip install catboost" in capsys.readouterr().err


def test_other_libraries_are_compared(csv, tmp_path, capsys):
    pytest.importorskip("xgboost")
    command = ["compare", str(csv / "number.csv"), "--target", "y", "--methods", "cart,xgboost", "--cv", "2"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    assert "xgboost" in capsys.readouterr().out


def test_a_model_that_is_not_its_solvers_tree_alone_has_no_objective(tmp_path, capsys):
    command = ["compare", "--data", "diabetes", "--methods", "tao-l,tao-c,linear", "--depth", "auto", "--cv", "2"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    assert "- where the model is not the solver's tree alone" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "compare_diabetes_depthauto.csv", index_col=0)
    assert np.isnan(table.loc["linear", "objective"])
    assert np.isnan(table.loc["tao-c", "objective"])  # a ridge regression, with or without a tree on what it leaves
    assert table.loc["tao-c", "test"] > table.loc["linear", "test"] - 0.03
