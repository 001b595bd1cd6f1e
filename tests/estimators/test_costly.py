"""Classifiers by costs: brute force, costs of rows, routing of metadata, bad input."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import opttree
from opttree import CostClassifier


def drawn(n=40, K=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, size=(n, 3)).astype(float)
    return X, rng.integers(0, K, size=n), rng


def least_cost(X, table, w):
    """The least mean cost of a tree of one split, by trying all."""
    best = (w @ table).min()
    for j in range(X.shape[1]):
        for t in np.unique(X[:, j])[:-1]:
            left = X[:, j] <= t
            best = min(best, (w[left] @ table[left]).min() + (w[~left] @ table[~left]).min())
    return best / w.sum()


@pytest.mark.parametrize("seed", range(6))
def test_the_cost_is_the_least(seed):
    X, y, rng = drawn(seed=seed)
    matrix = rng.integers(0, 9, size=(3, 3)).astype(float)
    w = rng.integers(1, 4, size=40).astype(float)
    model = CostClassifier(1, cost_matrix=matrix).fit(X, y, sample_weight=w)
    assert model.is_optimal_
    assert -model.score(X, y, w) == pytest.approx(least_cost(X, matrix[y], w))
    assert model.result_.objective == pytest.approx(-model.score(X, y, w))
    costs = rng.exponential(size=(40, 3))
    own = CostClassifier(1, cost_matrix=matrix).fit(X, y, costs=costs)
    assert own.mean_cost(X, y, costs=costs) == pytest.approx(least_cost(X, costs, np.ones(40)))


def test_labels_and_tables_are_the_users():
    X, y = opttree.datasets.load("breast_cancer", as_arrays=True)
    labels = np.array(["malignant", "benign"])[y.astype(int)]
    table = pd.DataFrame(X[:, :5]).assign(kind=np.where(X[:, 0] > 15.0, "large", "small")).rename(columns=str)
    model = CostClassifier(cost_matrix=pd.DataFrame([[0, 1], [20, 0]])).fit(table, labels)
    assert model.classes_.tolist() == ["benign", "malignant"]
    assert ((labels == "malignant") & (model.predict(table) == "benign")).sum() <= 3
    assert "benign" in model.to_text()
    assert clone(model).fit(table, labels).score(table, labels) == model.score(table, labels)
    priced = CostClassifier(3, cost_matrix=[[0, 1], [20, 0]], split_price="cv", random_state=0).fit(X, labels)
    assert priced.split_price_ >= 0.0
    alone = CostClassifier(cost_matrix=[[0, 1], [20, 0]]).fit(X, labels)  # of some labels, too
    assert alone.score(X[labels == "benign"][:9], labels[labels == "benign"][:9]) <= 0.0


def test_costs_are_routed():
    X, y, rng = drawn(n=90, K=2)
    costs = rng.exponential(size=(90, 2))
    with sklearn.config_context(enable_metadata_routing=True):
        model = CostClassifier(1).set_fit_request(costs=True).set_score_request(costs=True)
        scores = cross_validate(model, X, y, params={"costs": costs}, cv=3)["test_score"]
        assert (scores < 0.0).all()
        search = GridSearchCV(make_pipeline(StandardScaler(), model), {"costclassifier__max_depth": [1, 2]}, cv=3)
        assert search.fit(X, y, costs=costs).best_score_ < 0.0


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({"cost_matrix": [[0, 1]]}, {}, r"cost_matrix must have shape \(3, 3\), for the labels of y; got \(1, 2\)"),
        ({"cost_matrix": -np.ones((3, 3))}, {}, "cost_matrix must be >= 0; got -1"),
        ({"cost_matrix": np.full((3, 3), np.nan)}, {}, "cost_matrix must"),
        ({"cost_matrix": [["a"]]}, {}, "cost_matrix must be numbers"),
        ({}, {"costs": np.ones((4, 3))}, r"costs must have shape \(40, 3\), for the rows and labels of y"),
        ({"solver": "bnb", "max_depth": 9}, {}, "solver must be 'auto' or 'tao'"),
    ],
)
def test_what_is_wrong_is_said(options, given, words):
    X, y, _rng = drawn()
    with pytest.raises(ValueError, match=words):
        CostClassifier(**options).fit(X, y, **given)
    with pytest.raises(ValueError, match="two or more classes; got 1 class"):
        CostClassifier().fit(X, np.zeros(40))
    with pytest.raises(ValueError, match="y must hold labels of the training; got"):
        CostClassifier().fit(X, y).score(X, y + 7)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([CostClassifier()])
def test_scikit_learn_takes_it(estimator, check):
    check(estimator)


def test_a_matrix_with_names_is_read_by_them():
    X, y, _rng = drawn(K=2)
    labels = np.array(["a", "b"])[y]
    matrix = pd.DataFrame([[0, 5], [1, 0]], index=["a", "b"], columns=["a", "b"])
    turned = matrix.loc[["b", "a"], ["b", "a"]]
    models = [CostClassifier(2, cost_matrix=one).fit(X, labels) for one in (matrix, turned, matrix.to_numpy())]
    assert len({tuple(model.predict(X)) for model in models}) == 1
    more = matrix.reindex(index=["a", "b", "c"], columns=["a", "b", "c"], fill_value=2)  # a fold may lack a label
    assert np.array_equal(CostClassifier(2, cost_matrix=more).fit(X, labels).predict(X), models[0].predict(X))


def test_costs_of_rows_are_found_by_the_names_of_their_columns():
    X, y = pd.DataFrame({"b": ["x", "y"] * 20}), np.array(["a", "b"] * 20)
    costs = pd.DataFrame({"b": (y == "a") * 1.0, "a": (y == "b") * 1.0})
    model = CostClassifier(random_state=0)
    for table in (
        costs,
        costs[["a", "b"]],
        costs[["a", "b"]].to_numpy(),
        costs[["a", "b"]].set_axis(["p", "q"], axis=1),
    ):
        assert (model.fit(X, y, costs=table).predict(X) == y).all()
        assert model.mean_cost(X, y, costs=table) == 0.0
    with pytest.raises(
        ValueError, match=r"costs must have a column named by each label, \['a', 'b'\]; got \['b', 'c'\]"
    ):
        model.fit(X, y, costs=costs.set_axis(["b", "c"], axis=1))
    matrix = pd.DataFrame([[0, 5], [1, 0]], index=["a", "c"], columns=["a", "b"])
    with pytest.raises(ValueError, match="cost_matrix must have a row named by each label; got none for 'b'"):
        CostClassifier(cost_matrix=matrix).fit(X, y)


@pytest.mark.parametrize("weight", [np.zeros(40), -np.ones(40)])
def test_scores_refuse_weights_that_fits_refuse(weight):
    X, y, rng = drawn()
    rewards = rng.normal(size=(40, 2))
    for score in (
        lambda: CostClassifier().fit(X, y).mean_cost(X, y, weight),
        lambda: opttree.PolicyTree(1).fit(X, rewards).policy_value(X, rewards, weight),
    ):
        with pytest.raises(ValueError, match="sample_weight must be finite, >= 0 and not all zero"):
            score()


def test_names_of_other_types_and_tables_are_read():
    """A matrix whose columns were named in another order was read by position."""
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(rng.random(300) < 0.4, rng.integers(0, 3, 300), (X[:, 0] > 0).astype(int) + (X[:, 1] > 0))
    M = np.array([[0, 1, 5], [1, 0, 1], [30, 9, 0.0]])
    expected = CostClassifier(max_depth=2, cost_matrix=M).fit(X, y).predict(X)
    turned = pd.DataFrame(M, index=list("012"), columns=list("012")).iloc[[2, 0, 1], [2, 0, 1]]
    np.testing.assert_array_equal(CostClassifier(max_depth=2, cost_matrix=turned).fit(X, y).predict(X), expected)
    in_order = pl.DataFrame({str(k): M[:, k] for k in range(3)})
    np.testing.assert_array_equal(CostClassifier(max_depth=2, cost_matrix=in_order).fit(X, y).predict(X), expected)
    with pytest.raises(ValueError, match="cost_matrix must have a row named by each label; got none for 0"):
        CostClassifier(cost_matrix=in_order[["2", "0", "1"]]).fit(X, y)
    costs = pd.DataFrame({1: (y == 0) * 1.0, 0: (y > 0) * 1.0})  # columns in another order than the labels
    for labels in ((y > 0).astype(float), y > 0, (y > 0).astype(int)):
        found = CostClassifier(max_depth=2).fit(X, labels, costs=costs)
        assert found.score(X, labels, costs=costs) > -0.5
        assert np.mean(found.predict(X) == labels) > 0.6
    flags = pd.DataFrame([[0, 9], [1, 0]], index=[False, True], columns=[False, True])
    assert CostClassifier(cost_matrix=flags).fit(X, y > 1).classes_.tolist() == [False, True]


@pytest.mark.parametrize("kind", ["int64", "Int64", "int64[pyarrow]", "boolean", "bool[pyarrow]"])
@pytest.mark.parametrize("estimator", [CostClassifier, opttree.TAOClassifier, opttree.OCTClassifier])
def test_labels_are_the_same_in_any_column(estimator, kind):
    """Labels of pandas' own whole numbers went through doubles, in which 2^53 and 2^53 + 1 are one."""
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    X = np.random.default_rng(0).normal(size=(100, 2))
    labels = [False, True] if "bool" in kind else [2**53, 2**53 + 1]
    y = pd.Series(np.array(labels)[(X[:, 0] > 0).astype(int)]).astype(kind)
    model = estimator(max_depth=1).fit(X, y)
    assert model.classes_.tolist() == labels
    assert model.predict(X).tolist() == y.tolist()
