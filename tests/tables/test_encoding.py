"""Encodings of tables: categories, booleans, dates, missing values."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import opttree
from opttree import (
    BoostedTreesRegressor,
    OCTClassifier,
    TableEncoder,
    TableWarning,
    TAOClassifier,
    TAOForestRegressor,
    TAORegressor,
)
from opttree.tables.encoding import Column, Encoding, Levels, Missing, Unread, Value
from tests.conftest import thinned
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


USELESS = [
    TAORegressor(3),
    TAORegressor(3, leaves="linear"),
    TAORegressor(3, splits="axis"),
    TAOForestRegressor(n_estimators=5),
    BoostedTreesRegressor(n_estimators=30),
]


@pytest.mark.parametrize("model", USELESS, ids=repr)
@pytest.mark.parametrize(
    ("k", "n"), thinned([(1, 300), (2, 300), (3, 300), (5, 300), (10, 300), (10, 150), (20, 300)], 7)
)
@pytest.mark.filterwarnings("ignore::opttree.TableWarning")
def test_a_useless_column_of_rare_levels_costs_nothing(model, k, n):
    rng = np.random.default_rng(k)
    X = pd.DataFrame({"x": rng.normal(size=n), "customer": [f"c{i // k:04d}" for i in range(n)]})
    new = pd.DataFrame({"x": rng.normal(size=n), "customer": X["customer"]})
    y, truth = (np.sin(2 * table["x"]) + table["x"] + 0.2 * rng.normal(size=n) for table in (X, new))
    fitted = clone(model).set_params(random_state=0).fit(X, y)
    alone = clone(model).set_params(random_state=0).fit(X[["x"]], y)
    assert fitted.score(new, truth) > alone.score(new[["x"]], truth) - 0.01
    assert fitted.score(X, y) == pytest.approx(alone.score(X[["x"]], y), abs=0.02)


def test_levels_of_few_rows_that_matter_are_kept():
    """Eight rows a level, whose effect shows only beside that of another column."""
    rng = np.random.default_rng(0)
    level = np.repeat(np.arange(50), 8)
    X = pd.DataFrame({"x": rng.normal(size=400), "shop": [f"s{k}" for k in level]})
    y = 3.0 * X["x"] + rng.normal(size=50)[level] + 0.3 * rng.normal(size=400)
    encoder = TableEncoder().fit(X, y)
    assert list(encoder.get_feature_names_out()) == ["x", "mean(shop)"]
    with pytest.warns(TableWarning, match="'shop' is left out: its 50 levels do not predict the target"):
        TableEncoder().fit(X.assign(shop=rng.permutation(X["shop"])), y)
    keep = TableEncoder(high_cardinality="keep").fit(X.assign(shop=rng.permutation(X["shop"])), y)
    assert list(keep.get_feature_names_out()) == ["x", "mean(shop)"]
    rare = X.assign(shop=[f"s{k // 3}" for k in range(400)])
    with pytest.warns(TableWarning, match=r"134 levels in 400 rows, fewer than two of them with 5 rows or more"):
        assert list(TableEncoder().fit(rare, y).get_feature_names_out()) == ["x"]
    with pytest.warns(TableWarning, match="high_cardinality='drop'"):
        TableEncoder(high_cardinality="drop").fit(rare, y)


def test_training_and_prediction_see_the_same_spread():
    rng = np.random.default_rng(1)
    level = np.repeat(np.arange(60), 10)
    X = pd.DataFrame({"shop": [f"s{k}" for k in level]})
    y = rng.normal(size=60)[level] + rng.normal(size=600)
    encoder = TableEncoder()
    seen, later = encoder.fit_transform(X, y)[:, 0], encoder.transform(X)[:, 0]
    assert 0.8 < seen.std() / later.std() < 1.25
    slopes = [np.polyfit(values, y, 1)[0] for values in (seen, later)]
    assert slopes[0] == pytest.approx(1.0, abs=0.3)  # of shrunk means, as for new rows


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("min_level_rows", 0, "min_level_rows must be an integer >= 1; got 0"),
        ("max_levels", 2.5, "max_levels must be an integer >= 1; got 2.5"),
        ("high_cardinality", "maybe", "high_cardinality must be one of"),
    ],
)
def test_wrong_options_of_the_encoder(name, value, rule):
    with pytest.raises(ValueError, match=rule):
        TableEncoder(**{name: value}).fit(pd.DataFrame({"a": ["x", "y"]}))


def test_models_keep_only_what_they_read():
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame({"age": rng.normal(50, 9, n), "city": rng.choice(list("abc"), n), "size": rng.normal(size=n)})
    model = TAORegressor(1, splits="axis", random_state=0).fit(X, np.where(X["age"] > 50, 1.0, 0.0))
    encoding = model.tree_.encoding
    assert [type(feature) for feature in encoding.features] == [Value, Unread, Unread]
    assert encoding.read == {0}
    saved = opttree.io.Model(model.tree_, tuple(model.tree_.names()))
    np.testing.assert_array_equal(saved.predict(X[["age"]]), model.predict(X))
    assert saved.explain(X[:1][["age"]]).startswith("target = ")


DAMAGE = [
    ({"columns": [["a", "number"], ["a", "number"]]}, "different names"),
    ({"columns": [[5, "number"]]}, "name of a column must be text"),
    ({"columns": [["a", ["number"]]]}, "kind must be one of"),
    ({"features": [{"kind": "value", "column": 0.5, "fill": 0.0}]}, "column must be one of"),
    ({"features": [{"kind": "value", "column": True, "fill": 0.0}]}, "column must be one of"),
    ({"features": [{"kind": "value", "column": 0, "fill": None}]}, "fill must be finite"),
    ({"features": [{"kind": "value", "column": 0, "fill": 0.0, "low": 2.0, "high": 1.0}]}, "low must be at most high"),
    ({"features": [{"kind": "value", "column": 0, "fill": 0.0, "low": 2.0}]}, "given together"),
    ({"features": [{"kind": "levels", "column": 0, "numbers": {}, "other": 0.0, "missing": 0.0}]}, "holds numbers"),
    ({"columns": [["a", "category"]]}, "has levels; got a feature of numbers"),
    (
        {
            "columns": [["a", "category"]],
            "features": [{"kind": "levels", "column": 0, "numbers": {"x": float("inf")}, "other": 0.0, "missing": 0.0}],
        },
        "the number of level 'x' must be finite",
    ),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGE)
def test_an_encoding_is_checked_when_it_is_built(damage, words):
    with pytest.raises(ValueError, match=words):
        Encoding.from_dict({**Encoding.of_numbers(["a"]).to_dict(), **damage})


def test_types_that_change_meaning_are_refused_or_read():
    days = pd.DataFrame({"since": pd.date_range("2024-01-01", periods=60)})
    y = np.arange(60.0)
    model = TAORegressor(1, splits="axis", random_state=0).fit(days, y)
    with pytest.raises(ValueError, match="X column 'since' must hold dates, as in training; got the number 3"):
        model.predict(pd.DataFrame({"since": [3, 4]}))
    for wrong, words in (
        (
            pd.DataFrame({"a": pd.period_range("2020", periods=60, freq="M")}),
            r"'a' must hold numbers, text.*to_timestamp",
        ),
        (pd.DataFrame({"a": [[1, 2]] * 60}), "'a' must hold numbers, text"),
        (pd.DataFrame({"a": [1j] * 60}), "'a' must hold real numbers"),
        (pl.DataFrame({"a": range(60)}).lazy(), "X must be a table in memory; got LazyFrame: call .collect"),
    ):
        with pytest.raises(ValueError, match=words):
            TAORegressor(1).fit(wrong, y)
    X = np.ma.masked_array(np.arange(60.0)[:, None], mask=np.arange(60)[:, None] % 6 == 0)
    assert "x0=missing" in TAORegressor(1, random_state=0).fit(X, y).encoder_.get_feature_names_out()
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray(np.arange(60.0) % 3)})
    assert TAORegressor(1, random_state=0).fit(sparse, y).encoder_ is None


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a", None] * 20, "y must have no missing values; got 20, the first in row 1"),
        ([1.0, np.nan] * 20, "y must have no missing values; got 20 NaN"),
        (pd.Series(["a", pd.NA] * 20, dtype=object), "y must have no missing values; got 20, the first in row 1"),
        (["a", 1] * 20, "y must have labels of one type; got 'a' and 1"),
        (["a\0", "b"] * 20, "y must have labels without zero bytes"),
        (pd.date_range("2020", periods=40), "y must hold numbers or labels; got dates or times"),
        ([{}, {}] * 20, "y must hold numbers or labels; got {} in row 0"),
        (np.ma.masked_array(np.arange(40), mask=np.arange(40) == 3), "y must have no missing values; got 1 masked"),
    ],
)
def test_wrong_targets_are_one_sentence_that_names_y(y, words):
    if isinstance(y, list) and "a" in y:
        y = np.array(y, object)
    with pytest.raises(ValueError, match=words):
        TAOClassifier(1).fit(np.arange(40.0)[:, None], y)


def test_a_regressor_refuses_texts():
    with pytest.raises(ValueError, match="y must hold numbers; got 'No' in row 0"):
        TAORegressor(1).fit(np.arange(40.0)[:, None], ["No", "Yes"] * 20)


@pytest.mark.parametrize("written", ["1", "1.0", 1, 1.0])
def test_a_level_has_one_meaning(written):
    X = pd.DataFrame({"code": [1.0, 2.0, 0.0] * 20})
    model = TAORegressor(2, splits="axis", categorical_features=["code"], leaf_shrinkage=0.0, random_state=0)
    model.fit(X, [5.0, 1.0, 3.0] * 20)
    assert model.predict(pd.DataFrame({"code": [written]})) == pytest.approx(5.0)
    assert model.predict(pd.DataFrame({"code": [-0.0]})) == pytest.approx(3.0)
    assert model.tree_.encoding.columns[0].kind == "code"


@pytest.mark.filterwarnings("ignore::opttree.TableWarning")
@pytest.mark.parametrize("constant", [0.1, 0.3, 1 / 3, 7.7])
@pytest.mark.parametrize("n", [40, 100, 250])
def test_a_constant_beside_text_of_few_rows_a_level(constant, n):
    rng = np.random.default_rng(n)
    X = pd.DataFrame({"name": [f"k{i // 2}" for i in range(n)], "rate": constant, "x": rng.normal(size=n)})
    model = TAORegressor(2, random_state=0).fit(X, rng.normal(size=n))
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.filterwarnings("ignore::opttree.TableWarning")
def test_texts_of_numbers_with_zeros_are_levels_in_every_export(tmp_path):
    sizes = pd.DataFrame({"size": ["1.00", "2.00", "3.50", "4.00"] * 20})
    model = TAORegressor(2, splits="axis", leaf_shrinkage=0.0, random_state=0).fit(sizes, [5.0, 1.0, 7.0, 2.0] * 20)
    assert model.predict(sizes[:4]) == pytest.approx([5.0, 1.0, 7.0, 2.0])
    opttree.export.to_c(model, tmp_path)
    assert all(f'"{text}"' in (tmp_path / "model.c").read_text() for text in ("1.00", "2.00", "3.50", "4.00"))


def test_rows_of_unknown_levels_are_said():
    X = pd.DataFrame({"city": ["Bonn", "Ulm", "Trier"] * 20})
    model = TAORegressor(2, splits="axis", random_state=0).fit(X, [1.0, 2.0, 5.0] * 20)
    with pytest.warns(TableWarning, match="column 'city': 40 of 60 rows have levels that the model does not know"):
        model.predict(pd.DataFrame({"city": ["bonn", "ULM", "Trier"] * 20}))
    model.predict(X)


def test_texts_for_terminals_have_no_escape_sequences():
    X = pd.DataFrame({"a\x1b[31m": ["x\x1b[2J", "y"] * 30})
    model = TAORegressor(1, splits="axis", random_state=0).fit(X, [1.0, 2.0] * 30)
    assert "\x1b" not in model.to_text() + model.explain(X[:1]) + str(opttree.describe_table(X))
