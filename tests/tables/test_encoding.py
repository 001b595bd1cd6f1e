"""Encodings of tables: categories, booleans, dates, missing values."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import opttree
from opttree import OCTClassifier, TableEncoder, TAOClassifier, TAORegressor
from opttree.tables.encoding import Column, Encoding, Levels, Missing, Value
from tests.export_models import table


def test_the_encoding_says_what_it_does():
    frame = pd.DataFrame(
        {"size": [1.0, np.nan, 3.0, 5.0], "kind": ["a", "b", None, "c"], "ok": [True, False, True, True]}
    )
    encoder = TableEncoder(min_level_rows=1)
    Z = encoder.fit_transform(frame)
    assert list(encoder.get_feature_names_out()) == [
        "size", "size=missing", "kind=a", "kind=b", "kind=c", "kind=missing", "ok",
    ]  # fmt: skip
    assert Z.tolist() == [
        [1, 0, 1, 0, 0, 0, 1],
        [3, 1, 0, 1, 0, 0, 0],
        [3, 0, 0, 0, 0, 1, 1],
        [5, 0, 0, 0, 1, 0, 1],
    ]
    new = pd.DataFrame({"size": [None, 2.0], "kind": ["zebra", "b"], "ok": [False, None]})
    assert encoder.transform(new).tolist() == [[3, 1, 0, 0, 0, 0, 0], [2, 0, 0, 1, 0, 0, 1]]
    again = Encoding.from_dict(encoder.encoding_.to_dict())
    assert again == encoder.encoding_
    assert np.array_equal(again.transform(frame), Z)


def test_rare_levels_go_together_and_unknown_ones_join_them():
    kind = ["often"] * 60 + ["also"] * 50 + ["once", "twice", "twice", "thrice", "thrice", "thrice"]
    encoder = TableEncoder().fit(pd.DataFrame({"kind": kind}))
    assert list(encoder.get_feature_names_out()) == ["kind=also", "kind=often", "kind=other"]
    Z = encoder.transform(pd.DataFrame({"kind": ["often", "once", "never seen", None]}))
    assert Z.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("classes", [False, True])
def test_target_statistics_do_not_leak(classes):
    """A column of noise with many levels says nothing of the rows it was learned from."""
    rng = np.random.default_rng(0)
    n = 2000
    frame = pd.DataFrame({"code": [f"c{k}" for k in rng.integers(0, 500, n)]})
    y = rng.integers(0, 2, n) if classes else rng.normal(size=n)
    encoder = TableEncoder(min_level_rows=1, high_cardinality="keep")
    Z = encoder.fit_transform(frame, y if classes else y.astype(float))[:, 0]
    assert abs(np.corrcoef(Z, y)[0, 1]) < 0.1
    inside = encoder.transform(frame)[:, 0]  # what the same rows get as new ones
    assert np.corrcoef(inside, y)[0, 1] > 0.3
    model = (TAOClassifier if classes else TAORegressor)(3, high_cardinality="keep", random_state=0)
    assert cross_val_score(model, frame, y, cv=3).mean() < (0.56 if classes else 0.02)


def test_ordered_categories_are_parted_as_well_as_they_can_be():
    """With two classes the best of all subsets is a prefix of the order (Breiman et al. 1984, theorem 4.5)."""
    from itertools import combinations

    rng = np.random.default_rng(1)
    levels = np.array(list("abcdef"))
    kind = rng.choice(levels, 300)
    y = (rng.random(300) < np.array([0.1, 0.9, 0.4, 0.55, 0.2, 0.7])[np.searchsorted(levels, kind)]).astype(int)
    model = OCTClassifier(1, loss="log").fit(pd.DataFrame({"kind": kind}), y)

    def loss(inside):
        total = 0.0
        for side in (inside, ~inside):
            p = np.array([np.mean(y[side] == c) for c in (0, 1)])
            total -= side.sum() * np.sum(p * np.log(np.maximum(p, 1e-12)))
        return total / len(y)

    subsets = [s for size in range(1, 6) for s in combinations(levels, size)]
    best = min(loss(np.isin(kind, s)) for s in subsets)
    assert model.result_.objective == pytest.approx(best, rel=1e-9)
    assert "kind in {" in model.to_text()


def test_missing_numbers_go_to_the_better_side():
    """scikit-learn's rule: of the two sides, the one with the lower loss; also where all others go the other way."""
    x = np.array([1.0, 2.0, 3.0, 4.0, np.nan, np.nan] * 20)
    for y in (np.where(np.isnan(x), 5.0, 0.0), np.where(np.isnan(x) | (x > 2.5), 1.0, 0.0)):
        model = TAORegressor(1, splits="axis", leaf_shrinkage=0.0, random_state=0).fit(x[:, None], y)
        np.testing.assert_allclose(model.predict(x[:, None]), y, atol=1e-9)
    assert "x0 <= 2.5" in model.to_text()
    assert "x0 > 2.5 or missing" in model.to_text()
    alone = TAORegressor(1, splits="axis", random_state=0).fit(x[:, None], np.where(np.isnan(x), 5.0, 0.0))
    assert "x0 missing" in alone.to_text()
    assert alone.predict([[-1e9], [1e9]]).max() < 4.0  # numbers that training did not have are not missing


def test_polars_in_polars_out():
    X, y = table(100)
    frame = pl.DataFrame(X)
    encoder = TableEncoder().set_output(transform="polars")
    out = encoder.fit_transform(frame, y)
    assert isinstance(out, pl.DataFrame)
    assert out.columns == list(encoder.get_feature_names_out())
    assert isinstance(encoder.transform(frame), pl.DataFrame)
    pandas = TableEncoder().set_output(transform="pandas").fit(X, y).transform(X)
    assert isinstance(pandas, pd.DataFrame)
    pipeline = make_pipeline(TableEncoder().set_output(transform="polars"), TAORegressor(2, random_state=0))
    assert pipeline.fit(frame, y).score(frame, y) > 0.5


def test_the_encoder_passes_scikit_learns_checks():
    outcomes = check_estimator(TableEncoder(), on_fail=None, on_skip=None)
    bad = [(o["check_name"], str(o["exception"])) for o in outcomes if o["status"] not in ("passed", "skipped")]
    assert not bad


def test_encodings_refuse_damage():
    good = Encoding.of_numbers(["a"]).to_dict()
    for damage in (
        {"features": [{"kind": "value", "column": 3, "fill": 0.0}]},
        {"columns": [["a", "colour"]]},
        {"features": 3},
    ):
        with pytest.raises(ValueError, match=r"must|needs"):
            Encoding.from_dict({**good, **damage})
    with pytest.raises(ValueError, match="fill must be finite"):
        Encoding.from_dict({**good, "features": [{"kind": "value", "column": 0, "fill": float("nan")}]})
    tree = opttree.Tree.constant([1.0], 2)
    with pytest.raises(ValueError, match="encoding must make the model's 2 features; it makes 1"):
        tree.with_names(None, Encoding.of_numbers(["a"]))


@pytest.mark.parametrize(
    ("feature", "weight", "threshold", "words"),
    [
        (Missing(0), 1.0, 0.5, ("a present", "a missing")),
        (Missing(0), -1.0, -0.5, ("a missing", "a present")),
        (Value(0, 1.0), 1.0, 2.0, ("a <= 2", "a > 2")),
        (Value(0, 1.0), -2.0, -4.0, ("a >= 2", "a < 2")),
        (Value(0, -9.0, 0.0, 5.0), 1.0, -3.0, ("a missing", "a present")),
        (Value(0, 9.0, 0.0, 5.0), 1.0, 2.0, ("a <= 2", "a > 2 or missing")),
        (Levels(0, {"x": 1.0}, 0.0, 0.0), 1.0, 0.5, ("a is not x", "a is x")),
        (Levels(0, {"x": 1.0}, 0.0, 0.0), -1.0, -0.5, ("a is x", "a is not x")),
        (Levels(0, {"x": 0.1, "y": 0.9}, 0.5, 0.5, "mean"), 1.0, 0.4, ("a in {x}", "a in {y, other}")),
    ],
)
def test_conditions_in_words(feature, weight, threshold, words):
    kind = "category" if isinstance(feature, Levels) else "number"
    encoding = Encoding((Column("a", kind),), (feature,))
    assert encoding.sides(0, weight, threshold) == words
