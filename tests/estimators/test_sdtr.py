"""The estimators of SDTR."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import log_loss, r2_score

from opttree import SDTRClassifier, SDTRRegressor, explain
from opttree.model.files import load, save


def test_estimator_on_real_data():
    X, y = load_diabetes(return_X_y=True)
    single = SDTRRegressor(4, random_state=0).fit(X[:350], y[:350])
    forest = SDTRRegressor(4, n_trees=16, random_state=0).fit(X[:350], y[:350])
    deep = SDTRRegressor(3, n_trees=6, n_layers=2, tree_output_dim=2, random_state=0).fit(X[:350], y[:350])
    for model in (single, forest, deep):
        assert r2_score(y[350:], model.predict(X[350:])) > 0.3
        assert model.feature_importances_.shape == (10,)
        assert model.feature_importances_.sum() == pytest.approx(1.0)
        assert 0.0 < model.average_entropy_ < 4 * np.log(10)
        assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert len(deep.forest_.trees) == 12
    assert deep.forest_.layers[1][0].n_features == 10 + 12
    assert single.apply(X).shape == y.shape
    assert single.decision_path(X).shape == (len(X), single.tree_.n_nodes)
    for ask in (forest.to_text, forest.get_depth, forest.get_n_leaves):
        with pytest.raises(AttributeError, match="a forest of 16"):
            ask()
    again = clone(single).set_params(init=single.tree_, max_batches=1, learning_rate=1e-9).fit(X[:350], y[:350])
    assert again.validation_loss_ == pytest.approx(single.validation_loss_, rel=1e-3)
    with pytest.raises(AttributeError, match="a forest of 16"):
        _ = forest.tree_
    leaf = clone(single).set_params(prediction="leaf").fit(X[:350], y[:350])
    np.testing.assert_array_equal(leaf.predict(X)[:, None], leaf.tree_.likeliest(leaf.transformer_.transform(X)))


def test_multiple_outputs_and_depth_by_cross_validation():
    X, y = load_diabetes(return_X_y=True)
    Y = np.column_stack([y, -2.0 * y, X[:, 2]])
    model = SDTRRegressor("cv", cv=0.25, n_trees=2, max_batches=60, patience=60, random_state=0).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert 1 <= model.best_depth_ <= 12
    single = SDTRRegressor("cv", cv=0.25, max_batches=60, patience=60, quantile_transform=False, random_state=0)
    assert single.fit(X, y).tree_.depth <= single.best_depth_


def test_a_tree_of_quantiles_is_not_saved_as_one_of_features(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    model = SDTRRegressor(2, max_batches=100, random_state=0).fit(X, y)
    save(model, tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    for ask in (explain.path, explain.counterfactual):
        for saved in (model, loaded, loaded.tree):
            with pytest.raises(ValueError, match="quantile_transform=False"):
                ask(saved, X[:1], **({"target": (200.0, 300.0)} if ask is explain.counterfactual else {}))
    values = explain.shap_values(model, X[:2], X[100:110])
    assert values.values.sum(axis=1) + values.base == pytest.approx(model.predict(X[:2]))
    printed = SDTRRegressor(2, preset="paper", max_batches=100, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="scikit-learn's quantiles"):
        save(printed, tmp_path / "model.json")
    plain = clone(model).set_params(quantile_transform=False).fit(X, y)
    save(plain, tmp_path / "model.json")
    np.testing.assert_array_equal(load(tmp_path / "model.json").predict(X), plain.predict(X))


@pytest.mark.parametrize("options", [{}, {"n_trees": 8}, {"n_trees": 3, "n_layers": 2}], ids=str)
def test_classes(options):
    X, y = load_iris(return_X_y=True)
    names = np.array(["s", "ve", "vi"])[y]
    model = SDTRClassifier(3, max_batches=2000, random_state=0, **options).fit(X[::2], names[::2])
    assert model.score(X[1::2], names[1::2]) > 0.9
    shares = model.predict_proba(X[1::2])
    assert shares.sum(axis=1) == pytest.approx(np.ones(75))
    assert log_loss(names[1::2], shares) < 0.35
    again = SDTRClassifier(3, max_batches=2000, random_state=0, **options).fit(X[::2], names[::2])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_classes_that_arrive_in_parts():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    model = SDTRClassifier(3, random_state=0)
    first = y[:60] != 2  # the third class comes later
    model.partial_fit(X[:60][first], y[:60][first], classes=[0, 1, 2])
    assert list(model.classes_) == [0, 1, 2]
    for _ in range(150):
        model.partial_fit(X[60:], y[60:])
    assert model.predict_proba(X).shape == (150, 3)
    assert model.score(X[60:], y[60:]) > 0.8
    assert 2 in model.predict(X)


def test_a_first_part_is_a_fit_and_the_next_ones_go_on_from_it():
    X = np.random.default_rng(0).normal(size=(400, 5))
    y = 2.0 * X[:, 0] + np.sin(2.0 * X[:, 1])
    model = SDTRRegressor(3, random_state=0).partial_fit(np.zeros((50, 5)), y[:50])  # says nothing
    for part in np.array_split(np.arange(400), 4):
        model.partial_fit(X[part], y[part])
    assert model.score(X, y) > 0.75
    fitted = SDTRRegressor(3, random_state=0).fit(X, y)
    assert fitted.partial_fit(X, y).score(X, y) > 0.8
    few = SDTRRegressor(3, random_state=0).partial_fit(X[:20], y[:20])  # which do not decide for ever
    before = few.score(X, y)
    for part in 8 * np.array_split(np.arange(20, 400), 4):
        few.partial_fit(X[part], y[part])
    assert few.score(X, y) > max(before, 0.0)
    fitted.set_params(prediction="leaf", time_limit=60.0).partial_fit(X, y)  # what may change between parts
    told = fitted.predict(X)
    with pytest.raises(FloatingPointError):
        SDTRRegressor.partial_fit(fitted.set_params(learning_rate=1e30).__sklearn_clone__(), X, y)
    np.testing.assert_array_equal(fitted.predict(X), told)
    chunked = SDTRRegressor(3, random_state=0).fit_chunks(lambda: iter([(X[:200], y[:200]), (X[200:], y[200:])]))
    assert chunked.score(X, y) > 0.8
