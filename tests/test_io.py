"""Model files: exact round trips, and one sentence for every kind of damage."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris

import opttree
from opttree import TAOClassifier, TAORegressor, Tree
from tests.test_kernels import random_tree


@pytest.fixture(params=["json", "npz"])
def path(request, tmp_path):
    return tmp_path / f"model.{request.param}"


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_estimators_round_trip(path, leaves):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = TAORegressor(3, leaves=leaves, random_state=0).fit(X, y)
    opttree.save(model, path, target="progression")
    loaded = opttree.load(path)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict(X[X.columns[::-1]]), model.predict(X))  # found by name
    assert np.array_equal(loaded.predict(X.to_numpy()), model.predict(X))
    assert (loaded.target, loaded.method) == ("progression", "TAORegressor")
    assert loaded.feature_names == tuple(X.columns)
    assert np.array_equal(loaded.tree.share, model.tree_.share)


@pytest.mark.parametrize("labels", [np.array([0, 1, 2]), np.array(["a", "b", "c"]), np.array([0.5, 1.5, 2.5])])
def test_classifiers_round_trip(path, labels):
    X, y = load_iris(return_X_y=True)
    model = TAOClassifier(2, random_state=0).fit(X, labels[y].astype(str) if labels.dtype.kind == "f" else labels[y])
    opttree.save(model, path)
    loaded = opttree.load(path)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_bare_trees_and_one_leaf_trees_round_trip(path, rng):
    for tree in (random_tree(rng, 3, 2, 2, linear=True), Tree.constant([1.5, 2.5], 4)):
        opttree.save(tree, path, feature_names=[f"f{j}" for j in range(tree.n_features)])
        loaded = opttree.load(path)
        assert loaded.tree == tree
        assert "f0" in loaded.feature_names
        opttree.save(loaded, path)
        assert opttree.load(path).tree == tree


def test_truncated_files_are_refused(path, rng):
    opttree.save(random_tree(rng, 3, 2, 1), path)
    whole = path.read_bytes()
    for size in (0, 1, len(whole) // 3, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="must be a model written by opttree"):
            opttree.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "its format is not"),
        ('{"format": "other"}', "its format is not"),
        ('{"format": "opttree.Model", "version": 2}', "must have model version 1.*got 2"),
        ('{"format": "opttree.Model", "version": 1}', "its content is damaged"),
        ("import os", "damaged or not a model"),
    ],
)
def test_files_that_are_no_models_are_refused(tmp_path, content, message):
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        opttree.load(path)
    assert len(str(error.value).splitlines()) == 1


def test_inner_damage_is_refused(tmp_path, rng):
    path = tmp_path / "model.json"
    opttree.save(random_tree(rng, 2, 2, 1), path)
    data = json.loads(path.read_text())
    for damage in ({"A": "x"}, {"children": [[1, 2], [3, 3], [5, 6]]}, {"version": 7}, {"values": None}):
        path.write_text(json.dumps({**data, "tree": {**data["tree"], **damage}}))
        with pytest.raises(ValueError, match="damaged"):
            opttree.load(path)


def test_nothing_is_left_behind_by_a_failed_save(tmp_path):
    with pytest.raises(ValueError, match="or a fitted estimator of one; got TAORegressor"):
        opttree.save(TAORegressor(), tmp_path / "m.json")
    with pytest.raises(FileNotFoundError):
        opttree.save(Tree.constant([0.0], 1), tmp_path / "absent" / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_missing_columns_are_named(tmp_path, rng):
    opttree.save(random_tree(rng, 1, 2, 1), tmp_path / "m.json", feature_names=["u", "v"])
    with pytest.raises(ValueError, match="got none called 'v'"):
        opttree.load(tmp_path / "m.json").predict(pd.DataFrame({"u": [1.0]}))
