"""Estimators that learn from rows in parts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

from opttree import GETClassifier, GETRegressor, SDTRRegressor, chunks


@pytest.fixture
def table(tmp_path):
    X, y = make_friedman1(6000, n_features=6, noise=0.5, random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    np.save(tmp_path / "X.npy", X)
    return X, y, frame, tmp_path


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("nowhere.parquet", "y", "source must be Parquet files or a folder of them; 'nowhere.parquet' does not exist"),
        (7, None, "source must be a path, arrays"),
        (np.zeros((3, 2)), None, "source must have a target to fit to; got none"),
    ],
)
def test_bad_sources(source, target, message):
    with pytest.raises(ValueError, match=message):
        GETRegressor(2).fit_chunks(source, target=target)


@pytest.mark.parametrize(
    "model",
    [
        GETRegressor(3, random_state=0),
        GETRegressor(2, leaves="linear", random_state=0),
        SDTRRegressor(4, random_state=0),
    ],
    ids=repr,
)
def test_all_rows_teach_more_than_the_sample(table, model):
    _X, _y, frame, folder = table
    new_X, new_y = make_friedman1(3000, n_features=6, noise=0.5, random_state=1)
    named = frame[:3000].drop(columns="y").assign(**{f"x{j}": new_X[:, j] for j in range(6)})
    path = folder / "rows.parquet"
    model.fit_chunks(path, target="y", sample_rows=600, chunk_rows=2000, epochs=8)
    alone = type(model)(**model.get_params())
    if isinstance(model, SDTRRegressor):
        alone.set_params(max_batches=10)
    else:
        alone.set_params(leaf_shrinkage=0.0)  # like the leaves that are fitted to all rows
    seed = np.random.RandomState(0).randint(2**31 - 1)
    rows_X, rows_y, _n = chunks.Chunks(path, "y").sample(600, np.random.default_rng(seed))
    assert model.score(named, new_y) > alone.fit(rows_X, rows_y).score(new_X, new_y)
    parts = list(chunks.predict_chunks(model, path, target="y", rows=900))
    np.testing.assert_allclose(np.concatenate(parts), model.predict(frame.drop(columns="y")))


def test_leaves_are_fitted_to_all_rows_exactly(table):
    _X, y, frame, folder = table
    X = frame.drop(columns="y")
    model = GETRegressor(2, random_state=0).fit_chunks(folder / "rows.parquet", target="y", sample_rows=500)
    leaf = model.apply(X)
    for number in np.unique(leaf):
        assert model.predict(X[leaf == number])[0] == pytest.approx(y[leaf == number].mean(), abs=1e-6)


def test_partial_fit_goes_on(table):
    X, y, _frame, _folder = table
    labels = np.array(["low", "high"])[(y > y.mean()).astype(int)]
    model = GETClassifier(2, random_state=0)
    for i in range(0, 3000, 1000):
        model.partial_fit(X[i : i + 1000], labels[i : i + 1000])
    assert model.score(X[3000:], labels[3000:]) > 0.8
    with pytest.raises(ValueError, match="y must hold classes of the first rows"):
        model.partial_fit(X[:10], np.array(["other"] * 10))
    model = GETClassifier(2, random_state=0).partial_fit(X[:500], labels[:500], classes=["high", "low", "middle"])
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.partial_fit(X[:10], np.array(["middle"] * 10)).predict_proba(X[:5]).shape == (5, 3)
    model.fit(X, labels)
    assert model.partial_fit(X[:500], labels[:500]).classes_.tolist() == ["high", "low"]
    soft = SDTRRegressor(3, random_state=0)
    for i in range(0, 6000, 1000):
        soft.partial_fit(X[i : i + 1000], y[i : i + 1000])
    assert np.isfinite(soft.predict(X[:5])).all()


@pytest.mark.parametrize("model", [GETRegressor, GETClassifier])
def test_parts_keep_small_leaves_out(model, rng):
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    y = y > 0.0 if model is GETClassifier else y
    fitted = model(2, min_samples_leaf=20, n_starts=1, polish=False, random_state=0)
    for first in range(0, 300, 100):
        fitted.partial_fit(X[first : first + 100], y[first : first + 100])
    assert fitted.score(X, y) > 0.5


def test_parts_have_the_columns_of_the_first(rng):
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("pqr"))
    y = 3.0 * frame["p"].to_numpy()
    model = GETRegressor(2, n_starts=1, polish=False, random_state=0).partial_fit(frame[:60], y[:60])
    assert list(model.feature_names_in_) == list("pqr")
    other = frame[["r", "q", "p"]]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(other)
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(other[60:], y[60:])
    model.partial_fit(frame[60:], y[60:])


def test_a_first_part_of_one_outcome_does_not_decide(rng):
    X = rng.normal(size=(1205, 3))
    y = 5.0 * (X[:, 0] > 0.0) + X[:, 1]
    y[:5] = 1.0
    label = np.where(X[:, 0] > 0.0, "a", "b")
    label[:5] = "a"
    numbers, classes = (kind(4, n_starts=1, polish=False, random_state=0) for kind in (GETRegressor, GETClassifier))
    for part in (slice(0, 5), slice(5, 605), slice(605, 1205)):
        numbers.partial_fit(X[part], y[part])
        classes.partial_fit(X[part], label[part], classes=["a", "b"])
    assert numbers.score(X[5:], y[5:]) > 0.8
    assert classes.score(X[5:], label[5:]) > 0.9


def test_parts_have_the_outputs_and_classes_of_the_first(rng):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    model = GETRegressor(2, n_starts=1, polish=False, random_state=0).partial_fit(X, y)
    with pytest.raises(ValueError, match="y must have 1 outputs, as the first rows; got 2"):
        model.partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="classes must be None for numbers"):
        model.partial_fit(X, y, classes=[0.0, 1.0])
    with pytest.raises(ValueError, match="max_depth must stay as it was for the first rows, 2; got 3"):
        model.set_params(max_depth=3, n_jobs=1).partial_fit(X, y)
    label = np.where(X[:, 0] > 0.0, "a", "b")
    other = GETClassifier(2, n_starts=1, polish=False, random_state=0).partial_fit(X, label[:, None])
    other.partial_fit(X, label[:, None])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        other.partial_fit(X, label, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="one label of each row"):
        other.partial_fit(X, np.column_stack([label, label]))
