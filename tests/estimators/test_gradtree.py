"""The estimators of GradTree."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import f1_score

from opttree import GradTreeClassifier, GradTreeRegressor, TreeProblem
from opttree.tables.preprocessing import rebalanced
from solvers import CartInit, solve
from tests.conftest import classification_problem
from tests.solvers.test_gradtree import FAST


def test_class_weights_count_once():
    X, y = make_classification(300, 6, weights=[0.8], random_state=0)
    weight = np.where(y == 1, 5.0, 1.0)
    fast = {"epochs": 40, "n_starts": 1, "random_state": 0}
    for depth in (3, "cv"):
        by_class = GradTreeClassifier(depth, class_weight={0: 1.0, 1: 5.0}, cv=0.3, **fast).fit(X, y)
        problem, _scaling = by_class.state(X, y)
        assert problem.w[y == 1][0] == pytest.approx(5 * problem.w[y == 0][0])
    direct = GradTreeClassifier(3, **fast).fit(X, y, sample_weight=weight)
    by_class = GradTreeClassifier(3, class_weight={0: 1.0, 1: 5.0}, **fast).fit(X, y)
    assert direct.tree_ == by_class.tree_
    assert np.mean(direct.predict(X) == 1) > np.mean(GradTreeClassifier(3, **fast).fit(X, y).predict(X) == 1)


def test_labels_weights_and_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    fast = {"epochs": 60, "n_starts": 1, "random_state": 0}
    model = GradTreeClassifier(3, **fast).fit(X, names)
    assert set(model.predict(X)) == set(names)
    assert model.score(X, names) > 0.7
    assert GradTreeClassifier(3, class_weight="balanced", **fast).fit(X, y).score(X, y) > 0.8
    one = GradTreeClassifier(3, **fast).fit(X[:20], y[:20])
    assert one.get_n_leaves() == 1
    two = GradTreeClassifier(3, **fast).fit(X[48:52], y[48:52])  # two rows of each class
    assert two.score(X[48:52], y[48:52]) > 0.5
    with pytest.raises(ValueError, match="class_weight"):
        GradTreeClassifier(3, class_weight="heavy", **fast).fit(X, y)


def test_starting_from_cart_is_no_worse_on_the_rows_that_judge():
    problem = classification_problem(n=400, splits="axis")
    fast = replace(FAST, validation=None, refit=True)
    cart = solve(problem, CartInit()).objective
    assert solve(problem, replace(fast, init=CartInit()), random_state=0).objective <= cart + 0.02
    X, y = load_iris(return_X_y=True)
    options = {"epochs": 60, "n_starts": 1, "random_state": 0}
    model = GradTreeClassifier(3, init="cart", **options).fit(X, y)
    assert model.score(X, y) > 0.9
    assert GradTreeClassifier(3, **options).fit(X, y).tree_ == model.tree_  # the default for classes
    assert GradTreeClassifier(3, init="random", **options).fit(X, y).tree_ != model.tree_
    numbers = [GradTreeRegressor(3, init=init, **options).fit(X, y).tree_ for init in (None, "random", "cart")]
    assert numbers[0] == numbers[1] != numbers[2]
    with pytest.raises(ValueError, match=r"init must be a Tree, one of \['cart', 'random'\] or None; got 'oak'"):
        GradTreeClassifier(init="oak").fit(X, y)


def test_rebalancing_leaves_the_held_out_rows_as_they_are(monkeypatch):
    pytest.importorskip("imblearn")
    X, y = make_classification(400, 6, weights=[0.9], random_state=0)
    seen = {}

    def watched(rows, labels, seed):
        seen["before"] = len(labels)
        seen["X"], seen["y"] = rebalanced(rows, labels, seed)
        return seen["X"], seen["y"]

    monkeypatch.setattr("opttree.estimators.gradtree.rebalanced", watched)
    model = GradTreeClassifier(3, epochs=60, n_starts=1, init="random", rebalance=True, random_state=0)
    model.fit(X, y)
    assert seen["before"] == 320
    assert np.ptp(np.unique(seen["y"], return_counts=True)[1]) == 0
    assert model.result_.trace.rows[0].objective == pytest.approx(0.5)  # the constant, on the rebalanced rows
    assert f1_score(y, model.predict(X), average="macro") > 0.7
    with pytest.raises(ValueError, match=r"rebalance.* needs classes of one weight; got class_weight='balanced'"):
        GradTreeClassifier(3, rebalance=True, class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match=r"needs weights of at most 10,000,000 rows in all"):
        GradTreeClassifier(3, rebalance=True).fit(X, y, np.where(y == 0, 1.0, 1e6))
    with pytest.raises(ValueError, match=r"weights of rows that say how often each is there; got 1 to 2.5"):
        GradTreeClassifier(3, rebalance=True).fit(X, y, np.where(y == 0, 1.0, 2.5))


def test_rebalancing_counts_copies_of_rows_once_each(monkeypatch):
    pytest.importorskip("imblearn")
    X, y = make_classification(300, 5, weights=[0.8], random_state=0)
    seen = []
    monkeypatch.setattr(
        "opttree.estimators.gradtree.rebalanced", lambda *told: seen.append(told[:2]) or rebalanced(*told)
    )
    model = GradTreeClassifier(3, epochs=20, n_starts=1, rebalance=True, validation_fraction=None, random_state=0)
    times = np.where(np.arange(300) % 7, 2.0, 6.0)  # three to one
    model.fit(X, y, times)
    assert len(seen[-1][0]) == len(seen[-1][1]) == int(times.sum()) // 2
    model.fit(X, y, np.where(np.arange(300) % 2, 2.0, 3.0))  # whole numbers without a common divisor
    assert len(seen[-1][0]) == 750
    again = np.repeat(np.arange(300), np.where(np.arange(300) % 2, 2, 3))
    model.set_params(max_depth="auto").fit(X[again], y[again])  # the trials of the floor take copies together
    assert model.score(X, y) > 0.5


def test_quantiles_inside_split_raw_features():
    rng = np.random.default_rng(0)
    X = np.exp(3.0 * rng.normal(size=(300, 3)))  # long tails
    y = ((X[:, 0] > 1.0) ^ (X[:, 1] > 0.2)).astype(int)
    options = {"epochs": 150, "n_starts": 2, "random_state": 0}
    plain = GradTreeClassifier(3, **options).fit(X, y)
    inside = GradTreeClassifier(3, quantile_transform=True, **options).fit(X, y)
    assert inside.score(X, y) > max(0.9, plain.score(X, y))
    rows = inside.result_.tree
    problem, scaling = inside.state(X, y)
    raw = scaling.unscale(rows)
    assert np.array_equal(raw.apply(X), rows.apply(problem.X))  # the same rows at every leaf
    assert np.array_equal(scaling.scale(raw).apply(problem.X), rows.apply(problem.X))
    mirrored = replace(rows, A=-rows.A, b=-rows.b)
    assert np.array_equal(scaling.unscale(mirrored).apply(X), mirrored.apply(problem.X))
    again = GradTreeClassifier(3, quantile_transform=True, init=inside.tree_, **options).fit(X, y)
    assert again.validation_loss_ <= inside.validation_loss_ + 0.1
    number = GradTreeRegressor(3, quantile_transform=True, **options).fit(X, np.log(X[:, 0]))
    assert number.score(X, np.log(X[:, 0])) > 0.7


def test_stratified_parts_have_the_shares_of_all():
    y = np.repeat(["a", "b", "c", "d"], [100, 40, 10, 1])
    problem = TreeProblem(np.arange(151.0)[:, None], y, depth=1, splits="axis", loss="zero_one")
    train, valid = problem.split(0.2, np.random.default_rng(0), stratify=True)
    assert train.n_samples + valid.n_samples == 151
    for label, share in (("a", 20), ("b", 8), ("c", 2)):
        assert abs(int((valid.y == label).sum()) - share) <= 1
    assert "d" in train.y
    assert not np.intersect1d(train.X, valid.X).size
    one = TreeProblem(np.arange(2.0)[:, None], ["a", "b"], depth=1, loss="zero_one")
    assert one.split(0.5, np.random.default_rng(0), stratify=True)[1].n_samples == 1
