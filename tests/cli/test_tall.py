"""`opttree fit` of Parquet files that are read in parts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

import opttree
from opttree.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("parts")
    for number in range(4):
        X, y = make_friedman1(600, noise=0.3, random_state=number)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
        frame.assign(town=np.where(X[:, 0] > 0.5, "Ulm", "Bonn"), y=y).to_parquet(place / f"{number}.parquet")
    return place


def test_files_are_fitted_and_some_parts_held_out(folder, tmp_path, capsys):
    out = tmp_path / "model.json"
    words = ["--target", "y", "--method", "tao-l", "--depth", "3", "--sample", "900", "--part-rows", "300"]
    assert main(["fit", str(folder / "*.parquet"), *words, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "tao-l, regression: 1800 rows in 6 parts" in said
    assert "on 600 rows of other parts" in said
    table = pd.read_parquet(folder / "0.parquet")
    assert np.corrcoef(opttree.load(out).predict(table.drop(columns="y")), table["y"])[0, 1] > 0.9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "y", "--sep", ","], "--sep is for text files"),
        (["--target", "y", "--method", "gradtree"], "--method must be one that reads parts"),
        (["--target", "z"], "must name columns of the table; got 'z'"),
        (["--target", "y", "--passes", "0"], "--passes must be at least 1; got 0"),
    ],
)
def test_what_does_not_suit_is_said(words, message, folder, tmp_path, capsys):
    assert main(["fit", str(folder), *words, "--out", str(tmp_path / "model.json")]) != 0
    assert message in capsys.readouterr().err
