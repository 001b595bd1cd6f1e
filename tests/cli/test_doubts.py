"""Scores that say that something is wrong, in words."""

import numpy as np
import pandas as pd
import pytest

from opttree.cli import main
from opttree.cli.doubts import doubts

RNG = np.random.default_rng(0)
X = pd.DataFrame({"x": RNG.normal(size=200)})
NUMBERS = 3.0 * X["x"].to_numpy() + 0.1 * RNG.normal(size=200)
LABELS = np.where(np.arange(200) % 4 == 0, "rare", "usual")


@pytest.mark.parametrize(
    ("task", "scores", "words"),
    [
        ("classification", (0.2, 0.7), "training accuracy, 0.2000, is below the share of the commonest label, 0.74"),
        ("classification", (0.8, 0.1), "held-out accuracy, 0.1000, is below that of one answer for all rows"),
        ("regression", (-0.5, -0.5), "training R2, -0.5000, is below 0"),
        ("regression", (0.5, 0.9), "training R2 is far below that on held-out rows: 0.5000 and 0.9000"),
        ("regression", (0.6, 0.6), "held-out R2, 0.6000, is far below that of a linear model, 0.99"),
    ],
)
def test_scores_give_to_think(task, scores, words):
    y = NUMBERS if task == "regression" else LABELS
    said = doubts(task, scores, X[:150], y[:150], (X[150:], y[150:]))
    assert any(words in sentence for sentence in said)


def test_good_scores_are_silent():
    assert doubts("regression", (0.99, 0.98), X[:150], NUMBERS[:150], (X[150:], NUMBERS[150:])) == []
    assert doubts("classification", (0.8, None), X, LABELS, None) == []


def test_the_command_says_them(tmp_path, capsys):
    X.assign(y=X["x"] + X["x"] ** 3).to_csv(tmp_path / "a.csv", index=False)
    fit = ["fit", str(tmp_path / "a.csv"), "--target", "y", "--method", "tao-axis", "--depth", "1"]
    assert main([*fit, "--out", str(tmp_path / "m.json")]) == 0
    assert "opttree: look again: the held-out R2" in capsys.readouterr().err
