"""Trees that rise or fall with a feature."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from opttree import BoostedTreesClassifier, BoostedTreesRegressor, ORTRegressor


def rises(model, frame, column, sign=1):
    """Whether predictions go one way as a column grows, in the rows of a table."""
    grid = np.linspace(frame[column].min(), frame[column].max(), 60)
    for i in range(0, len(frame), 20):
        rows = pd.concat([frame[i : i + 1]] * 60, ignore_index=True).assign(**{column: grid})
        if np.any(sign * np.diff(model.predict(rows)) < -1e-9):
            return False
    return True


def test_boosted_trees_can_be_monotone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((400, 2)), columns=["up", "down"])
    frame["kind"] = rng.choice(["a", "b", "c"], 400)
    frame.loc[::9, "up"] = np.nan
    y = frame["up"].fillna(0.3) - 2 * frame["down"] + 0.5 * np.sin(9 * frame["up"].fillna(0.0)) + rng.normal(size=400)
    free = BoostedTreesRegressor("cart", n_estimators=40, random_state=0).fit(frame, y)
    kept = clone(free).set_params(base="auto", monotonic_cst={"up": 1, "down": -1}).fit(frame, y)
    whole = frame[frame["up"].notna()]
    assert not (rises(free, whole, "up") and rises(free, whole, "down", -1))
    assert rises(kept, whole, "up")
    assert rises(kept, whole, "down", -1)
    assert kept.score(frame, y) > 0.3
    for wrong, message in (
        ({"over": 1}, "got 'over'"),
        ([1, 0], "of which there are 3"),
        ([2, 0, 0], "must be -1, 0 or 1"),
        ({"kind": 1}, "must be 0 for categories"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(free).set_params(monotonic_cst=wrong).fit(frame, y)
    with pytest.raises(ValueError, match="needs base='auto' or 'cart'"):
        BoostedTreesRegressor("oblique", monotonic_cst=[1]).fit(frame[["down"]], y)


def test_the_probability_of_the_second_of_two_classes_can_be_monotone():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.random((500, 2)), columns=["up", "down"])
    margin = 2 * frame["up"] - 2 * frame["down"] + np.sin(9 * frame["up"]) + 0.7 * rng.normal(size=500)
    y = np.where(margin > 0.0, "yes", "no")

    class Margin:
        def __init__(self, model):
            self.predict = lambda rows: model.predict_proba(rows)[:, 1]

    free = BoostedTreesClassifier("cart", n_estimators=40, random_state=0).fit(frame, y)
    kept = clone(free).set_params(base="auto", monotonic_cst=[1, -1]).fit(frame, y)
    assert not (rises(Margin(free), frame, "up") and rises(Margin(free), frame, "down", -1))
    assert rises(Margin(kept), frame, "up")
    assert rises(Margin(kept), frame, "down", -1)
    assert kept.score(frame, y) > 0.75
    np.testing.assert_allclose(kept.predict_proba(frame).sum(axis=1), 1.0)
    none = clone(free).set_params(monotonic_cst=[0, 0], max_depth=2).fit(frame, y)
    assert none.score(frame, y) > 0.75
    with pytest.raises(ValueError, match="monotonic_cst is for one number or two classes; y has 3 classes"):
        kept.fit(frame, np.digitize(margin, [-0.5, 0.5]))
    with pytest.raises(ValueError, match="monotonic_cst is for one number or two classes; y has 2 outputs"):
        BoostedTreesRegressor(monotonic_cst=[1, -1]).fit(frame, np.column_stack([margin, margin]))


@pytest.mark.long
def test_optimal_trees_can_be_monotone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(30), "z": rng.random(30)})
    y = np.where(frame["x"] > 0.5, -1.0, 0.0) + 2.0 * (frame["z"] > 0.6) + 0.1 * rng.normal(size=30)
    free = ORTRegressor(2, n_thresholds=4).fit(frame, y)
    kept = ORTRegressor(2, n_thresholds=4, monotonic_cst={"x": 1}, time_limit=60).fit(frame, y)
    assert not rises(free, frame, "x")
    assert rises(kept, frame, "x")
    assert kept.result_.objective > free.result_.objective
    with pytest.raises(ValueError, match="needs solver='auto' or 'mip'"):
        ORTRegressor(2, monotonic_cst=[1, 0], solver="bnb").fit(frame, y)
