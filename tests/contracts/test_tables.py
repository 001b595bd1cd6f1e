"""Tables of pandas, polars and Arrow, by every kind of estimator."""

import datetime
import decimal
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

import opttree
from opttree import (
    BoostedTreesClassifier,
    GETRegressor,
    ORRTRegressor,
    SDTRRegressor,
    TableEncoder,
    TAOClassifier,
    TAOForestClassifier,
    TAORegressor,
)
from opttree.model.structure import used_features
from opttree.tables.checks import as_given
from opttree.tables.encoding import Levels
from tests.export_models import table, table_classes

SINGLE = [
    TAORegressor(3),
    TAORegressor(3, splits="axis"),
    GETRegressor(2, leaves="linear"),
    ORRTRegressor(2, max_iter=20),
]


@pytest.mark.parametrize("model", SINGLE, ids=repr)
def test_libraries_of_tables_do_not_matter(model):
    X, y = table(300)
    fitted = clone(model).set_params(random_state=0).fit(X, y)
    expected = fitted.predict(X)
    for other in (
        pl.DataFrame(X),
        pl.DataFrame(X).to_arrow(),
        X.astype({"city": "category", "colour of it": "category"}),
    ):
        np.testing.assert_array_equal(fitted.predict(other), expected)
        again = clone(model).set_params(random_state=0).fit(other, y)
        np.testing.assert_array_equal(again.predict(X), expected)
        assert list(again.feature_names_in_) == list(X.columns)
    assert fitted.n_features_in_ == X.shape[1]
    assert len(fitted.feature_importances_) == X.shape[1]
    assert fitted.feature_importances_.sum() == pytest.approx(1.0)


def test_numbers_alone_are_not_encoded():
    X, y = table(200)
    numbers = X[["age", "member"]]
    plain = TAORegressor(2, random_state=0).fit(numbers, y)
    assert plain.encoder_ is None
    array = TAORegressor(2, random_state=0).fit(numbers.to_numpy(float), y)
    np.testing.assert_array_equal(plain.predict(numbers), array.predict(numbers.to_numpy(float)))
    polars = TAORegressor(2, random_state=0).fit(pl.DataFrame(numbers), y)
    np.testing.assert_array_equal(polars.predict(pl.DataFrame(numbers)), plain.predict(numbers))
    assert polars.tree_.feature_names == ("age", "member")


def test_columns_of_numbers_may_be_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 6, 300), rng.normal(size=300)]).astype(float)
    y = np.isin(X[:, 0], [1, 4]).astype(float)
    frame = pd.DataFrame(X, columns=["code", "x"])
    for rows, chosen in ((frame, ["code"]), (X, [0]), (X, [True, False]), (frame, [-2])):
        model = TAORegressor(1, splits="axis", categorical_features=chosen, leaf_shrinkage=0.0, random_state=0)
        assert model.fit(rows, y).score(rows, y) == pytest.approx(1.0)
        assert "in {1, 4}" in model.to_text()
    for wrong in (["kode"], [7], [True], 3, "code", [0.5]):
        with pytest.raises(ValueError, match="categorical_features must be"):
            TAORegressor(1, categorical_features=wrong).fit(frame, y)
    search = TAORegressor("cv", splits="axis", categorical_features=["code"], cv=2, random_state=0).fit(frame, y)
    assert search.score(frame, y) > 0.9


def test_dates_are_days_and_read_as_dates():
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(100), unit="D")
    y = (days >= pd.Timestamp("2020-02-10")).astype(float)
    for column in (days, days.date, days.tz_localize("Europe/Berlin")):
        frame = pd.DataFrame({"since": column})
        model = TAORegressor(1, splits="axis", leaf_shrinkage=0.0, random_state=0).fit(frame, y)
        assert model.score(frame, y) == pytest.approx(1.0)
        assert "since <= 2020-02-09" in model.to_text()
    row = pd.DataFrame({"since": [datetime.date(2020, 3, 1)]})
    assert model.predict(row) == pytest.approx(1.0)
    assert "since = 2020-03-01" in model.explain(row)


def test_what_does_not_fit_is_one_sentence():
    X, y = table(100)
    model = TAORegressor(2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X.drop(columns="city"))
    with pytest.raises(ValueError, match="X column 'age' must hold numbers, as in training; got 'old'"):
        model.predict(X.assign(age="old"))
    with pytest.raises(ValueError, match=r"X column 'age' must be finite; got infinity"):
        model.predict(X.assign(age=np.inf))
    twice = pd.concat([X, X[["age"]]], axis=1)
    with pytest.raises(ValueError, match="columns of different names; got 'age' twice"):
        TAORegressor(2).fit(twice, y)
    plain = TAORegressor(2).fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="X column 0 must have no missing values; got 1 NaN"):
        plain.predict([[np.nan]])


def test_weights_and_fractions_of_rows():
    X, y = table(200)
    w = np.ones(200)
    w[:20] = 0.0
    X.loc[:19, "colour of it"] = "only there"
    model = TAORegressor(2, random_state=0).fit(X, y, sample_weight=w)
    levels = {level for f in model.encoder_.encoding_.features if isinstance(f, Levels) for level in f.numbers}
    assert "only there" not in levels
    without = TAORegressor(2, random_state=0).fit(X[20:], y[20:])
    # sums over 200 rows, some of them zeros, and over 180 differ in the last digit on some processors
    np.testing.assert_allclose(model.predict(X[20:]), without.predict(X[20:]), rtol=1e-14)


def test_weights_travel_through_scikit_learns_routing():
    import sklearn

    X, y = table_classes(300)
    w = np.where(y == "yes", 3.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            TAOClassifier(2, high_cardinality="keep", random_state=0)
            .set_fit_request(sample_weight=True)
            .set_score_request(sample_weight=True)
        )
        found = cross_validate(
            make_pipeline(model), X, y, params={"sample_weight": w}, cv=2, return_estimator=True, return_indices=True
        )
    for pipeline, train in zip(found["estimator"], found["indices"]["train"], strict=True):
        direct = TAOClassifier(2, high_cardinality="keep", random_state=0).fit(
            X.iloc[train], y[train], sample_weight=w[train]
        )
        np.testing.assert_array_equal(pipeline.predict_proba(X), direct.predict_proba(X))


@pytest.mark.parametrize("model", [TAOForestClassifier(4), BoostedTreesClassifier(n_estimators=5)], ids=repr)
def test_forests_take_tables(model):
    X, y = table_classes(400)
    fitted = model.set_params(random_state=0).fit(X, y)
    assert fitted.score(X, y) > 0.7
    assert fitted.forest_.encoding == fitted.encoder_.encoding_.only(used_features(fitted.forest_))
    assert fitted.feature_importances_[list(X.columns).index("city")] > 0.05


def test_quantiles_of_tables():
    X, y = table(300)
    model = SDTRRegressor(2, max_batches=100, random_state=0).fit(X, y)
    assert model.predict(X).shape == (300,)
    assert len(model.feature_importances_) == X.shape[1]


@pytest.mark.parametrize("splits", ["axis", "oblique"])
def test_nullable_and_sparse_columns_of_pandas(splits):
    rng = np.random.default_rng(0)
    a, kind, flag = rng.normal(size=200), rng.choice(["x", "y"], 200).astype(object), rng.random(200) < 0.5
    gaps = np.arange(200) % 7 == 0
    frame = pd.DataFrame({"a": np.where(gaps, np.nan, a), "kind": np.where(gaps, None, kind), "flag": flag})
    y = np.nan_to_num(frame["a"], nan=2.0) + (kind == "x") + flag
    model = TAORegressor(3, splits=splits, random_state=0).fit(frame, y)
    expected = model.predict(frame)
    integers = frame.assign(a=frame["a"].round().astype("Int64"))
    for other in (
        frame.convert_dtypes(),
        frame.astype({"a": "Float64", "flag": "boolean", "kind": "string"}),
        frame.astype(object),
    ):
        np.testing.assert_array_equal(model.predict(other), expected)
        again = TAORegressor(3, splits=splits, random_state=0).fit(other, y)
        np.testing.assert_array_equal(again.predict(frame), expected)
    assert TAORegressor(3, splits=splits, random_state=0).fit(integers, y).score(integers, y) > 0.5
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray(a), "kind": kind})
    assert TAORegressor(3, splits=splits, random_state=0).fit(sparse, a).score(sparse, a) > 0.7


@pytest.mark.parametrize(
    "model",
    [
        SDTRRegressor(2, quantile_transform=False, max_batches=100),
        opttree.TAOForestRegressor(1),
        opttree.AutoTreeRegressor(1.0),
    ],
    ids=repr,
)
def test_a_forest_of_one_tree_keeps_its_table(model, tmp_path):
    X, y = table(200)
    fitted = model.set_params(random_state=0).fit(X, y)
    opttree.save(fitted, tmp_path / "m.json")
    np.testing.assert_allclose(opttree.load(tmp_path / "m.json").predict(X), fitted.predict(X), rtol=1e-12)
    assert "age" in fitted.to_text()
    assert fitted.explain(X[:1])
    objects = X[["age", "city"]].to_numpy(object)
    again = clone(model).set_params(random_state=0).fit(objects, y)
    opttree.save(again, tmp_path / "m.json")
    np.testing.assert_allclose(opttree.load(tmp_path / "m.json").predict(objects), again.predict(objects), rtol=1e-12)


def test_a_search_for_the_depth_learns_the_encoding_in_each_fold():
    """On noise the held-out accuracy of the chosen depth is that of guessing, but for the choice among depths."""
    best = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"code": [f"c{k}" for k in rng.integers(0, 15, 150)], "x": rng.normal(size=150)})
        y = rng.integers(0, 2, 150)
        model = TAOClassifier("cv", splits="axis", high_cardinality="keep", random_state=0).fit(frame, y)
        best.append(model.cv_results_["mean_score"][0])  # of depth 1, which is not chosen
    assert np.mean(best) < 0.54
    leaked = TAOClassifier("cv", splits="axis", random_state=0).fit(
        TableEncoder(ordered=True, high_cardinality="keep").fit_transform(frame, y), y
    )
    assert leaked.cv_results_["mean_score"][0] >= model.cv_results_["mean_score"][0]


def test_warm_starts_need_the_same_table():
    X, y = table_classes(200)
    model = TAOForestClassifier(2, kind="cart", warm_start=True, random_state=0).fit(X, y)
    model.set_params(n_estimators=3).fit(X, y)
    assert len(model.forest_.trees) == 3
    with pytest.raises(ValueError, match="warm_start needs the table of the first fit"):
        model.set_params(n_estimators=4).fit(X.assign(city="one"), y)


def test_blanks_in_new_rows_get_the_median_where_asked():
    X, y = table(200)
    numbers = X[["age", "member"]]
    model = TAORegressor(2, categorical_features=[], random_state=0).fit(numbers, y)
    blank = numbers[:1].assign(age=np.nan)
    filled = numbers[:1].assign(age=numbers["age"].median())
    np.testing.assert_array_equal(model.predict(blank), model.predict(filled))


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow", "numpy"])
def test_folds_without_a_blank_are_encoded_like_the_others(library):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    X[5, 0] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b"])
    rows = {"pandas": frame, "polars": pl.DataFrame(frame), "arrow": pl.DataFrame(frame).to_arrow(), "numpy": X}[
        library
    ]
    y = (np.nan_to_num(X[:, 0]) + X[:, 1] > 0).astype(int)
    w = np.ones(120)
    w[::5] = 0.0
    for weight in (None, w):
        assert TAOClassifier("cv", cv=2, random_state=0).fit(rows, y, sample_weight=weight).score(rows, y) > 0.8
    assert TAORegressor("cv", cv=2, random_state=0).fit(rows, y.astype(float), sample_weight=w).score(rows, y) > 0.3


def test_several_outputs_of_tables_may_be_of_several_kinds():
    X, y = table_classes(200)
    Y = pd.DataFrame({"u": y, "v": (X["age"] > 40).astype(int)})
    model = TAOClassifier(3, random_state=0).fit(X, Y)
    assert model.predict(X).shape == (200, 2)
    assert [len(labels) for labels in model.classes_] == [3, 2]


def test_a_start_deeper_than_the_search_waits_for_its_depth():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    start = TAORegressor(3, random_state=0).fit(X, 2 * X[:, 0] + X[:, 1] ** 2).tree_
    assert TAORegressor("cv", init=start, cv=2, random_state=0).fit(X, 2 * X[:, 0]).score(X, 2 * X[:, 0]) > 0.8


def test_dates_are_the_same_moments_in_any_zone(tmp_path):
    """Splits are in the zone of the training; clocks of other zones were taken for its."""
    hours = pd.date_range("2024-01-01", periods=200, freq="h", tz="UTC")
    y = (hours > pd.Timestamp("2024-01-05 03:30", tz="UTC")).astype(int)
    model = TAOClassifier(1, splits="axis", random_state=0).fit(pd.DataFrame({"t": hours.tz_convert("Asia/Tokyo")}), y)
    assert "t <= 2024-01-05 12:30" in model.to_text()
    opttree.save(model, tmp_path / "m.json")
    mixed = pd.DataFrame({"t": [t.tz_convert("Asia/Tokyo" if k % 2 else "UTC") for k, t in enumerate(hours)]})
    for one in (model, opttree.load(tmp_path / "m.json"), TAOClassifier(1, random_state=0).fit(mixed, y)):
        for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
            assert np.array_equal(one.predict(pd.DataFrame({"t": hours.tz_convert(zone)})), y)
        assert np.array_equal(one.predict(mixed), y)


def test_lists_that_are_no_rows_are_named():
    for X, message in (
        ([["a", 1.0], ["b"]] * 3, "X must have rows of one length; got rows of 1 and of 2 entries"),
        (["a", "b"] * 3, "X must have rows and columns; got a list of texts"),
    ):
        with pytest.raises(ValueError, match=message):
            TAORegressor().fit(X, np.arange(6.0))


def test_a_long_text_in_a_list_takes_no_more_than_itself():
    """As texts of NumPy, all as long as the longest: 160 MB."""
    rows = [["a", float(k)] for k in range(2000)]
    rows[7][0] = "b" * 10_000
    tracemalloc.start()
    assert as_given(rows)[7, 0] == "b" * 10_000
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_lists_of_rows_with_text_are_arrays_of_objects():
    """NumPy makes one text of each entry, and of a blank "nan", which was a level."""
    rng = np.random.default_rng(0)
    kind, z = np.array(["a", np.nan, "b", "c"], object)[rng.integers(0, 4, 200)], rng.normal(size=200)
    rows = [list(row) for row in zip(kind, z, strict=True)]
    y = np.where(pd.isna(kind), 5.0, 0.0) + z
    array = np.array(rows, object)
    fits = [TAORegressor(3, random_state=0).fit(X, y) for X in (rows, array)]
    assert fits[0].tree_ == fits[1].tree_
    for model in fits:
        assert model.score(rows, y) > 0.9
        assert np.array_equal(model.predict(rows), model.predict(array))


def test_zones_of_any_name_are_those_of_the_training():
    """Of America/New_York narwhals says that it does not know the type: such columns were read in UTC."""
    hours = pd.Series(pd.date_range("2024-01-01", periods=200, freq="h", tz="UTC"))
    y = hours > pd.Timestamp("2024-01-05 03:30", tz="UTC")
    for zone, clock in (("America/New_York", "2024-01-04 22:30"), ("Etc/GMT+5", "2024-01-04 22:30")):
        table = pd.DataFrame({"t": hours.dt.tz_convert(zone)})
        model = TAOClassifier(1, splits="axis", random_state=0).fit(table, y)
        assert f"t <= {clock}" in model.to_text()
        table.loc[3, "t"] = pd.NaT
        for rows in (table, table.assign(t=table["t"].dt.tz_localize(None)), table.assign(t=hours)):
            assert np.array_equal(model.predict(rows)[4:], y[4:])


def test_arrays_of_objects_may_hold_what_tables_hold():
    days = pd.date_range("2024-01-01", periods=60)
    rows = pd.DataFrame({"kind": list("abc") * 20, "day": days, "n": [decimal.Decimal(k) for k in range(60)]})
    rows.loc[3, "kind"] = pd.NA
    y = days > pd.Timestamp("2024-02-01")
    model = BaggingClassifier(TAOClassifier(random_state=0), 3, random_state=0).fit(rows, y)
    assert model.score(rows, y) == 1.0
    for X in ([{"a": 1}, {"a": 2}], {"a": [1, 2]}):
        with pytest.raises(ValueError, match=r"X must be a table or an array; got .*dict.*: make a data frame of it"):
            TAOClassifier().fit(X, [0, 1])
    with pytest.raises(ValueError, match=r"y must be at most 1e\+150 beside text; got 1e\+200"):
        TAORegressor().fit(rows, np.r_[1e200, np.zeros(59)])
    with pytest.raises(ValueError, match="class_weight must be positive for a class of y"):
        TAOClassifier(class_weight={False: 0, True: 0}).fit(rows, y)
