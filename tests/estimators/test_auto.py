"""AutoTree: members, and the choice among them by folds."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_friedman1
from sklearn.model_selection import train_test_split

from opttree import AutoTreeClassifier, AutoTreeRegressor, TreeProblem
from opttree.estimators.auto import Member, Trial, _folds, chosen


def trial(*folds, variant=None):
    """Losses of the held-out rows of each fold."""
    found = Trial(Member("", None, 1), None)
    found.losses = [{variant: np.asarray(rows, float)} for rows in folds]
    found.weights = [np.full(len(rows), 1.0 / len(rows)) for rows in folds]
    return found


def test_members_are_compared_on_the_folds_that_both_have():
    rng = np.random.default_rng(0)
    rows = [rng.uniform(0.5, 1.5, 50) for _ in range(5)]
    first = trial(*rows)
    assert chosen([first, better := trial(*(own - 0.1 for own in rows))]) is better
    assert chosen([first, trial(*(own + 0.1 for own in rows))]) is first
    assert chosen([first, much := trial(rows[0] - 0.3)]) is much  # one fold of five, whose rows leave no doubt
    doubtful = rows[0] + rng.normal(0.0, 1.0, 50)
    doubtful -= doubtful.mean() - rows[0].mean() + 0.05  # a little better, within the noise of its rows
    assert chosen([first, trial(doubtful)]) is first
    assert chosen([trial(rows[0]), one := trial(doubtful)]) is one  # a single part that is held out
    late = trial(*(own - 0.2 for own in rows[:2]))
    assert late.lead(first) > 1e6
    assert late.lead(better) > 1e6  # on the two folds that they share
    assert chosen([]) is None
    several = Trial(
        Member("", None, 1),
        None,
        losses=[{1.0: np.array([3.0]), 2.0: np.array([1.0])}, {1.0: np.zeros(1), 2.0: np.array([1.5])}],
        weights=[np.ones(1)] * 2,
    )
    assert several.variant == 2.0
    assert several.loss == pytest.approx(1.25)


def test_few_rows_are_held_out_fold_by_fold():
    X, y = make_friedman1(150, noise=1.0, random_state=0)
    model = AutoTreeRegressor(6.0, random_state=0).fit(X, y)
    assert model.members_[0] == model.members_[0] | {"name": "CART, depth 3", "folds": 15}
    assert any(row["name"].startswith("CART") for row in model.members_)
    once = AutoTreeRegressor(2.0, validation_fraction=0.25, random_state=0).fit(X, y)
    assert {row["folds"] for row in once.members_} == {1}


def test_steps_are_left_to_cart():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (250, 6)).astype(float)
    y = 3.0 * (X[:, 0] > 1) * (X[:, 1] > 2) + (X[:, 2] > 0) * (X[:, 3] == 0) + 0.1 * rng.normal(size=250)
    model = AutoTreeRegressor(6.0, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.97
    fresh = rng.integers(0, 4, (500, 6)).astype(float)
    truth = 3.0 * (fresh[:, 0] > 1) * (fresh[:, 1] > 2) + (fresh[:, 2] > 0) * (fresh[:, 3] == 0)
    assert model.score(fresh, truth) > 0.97


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(800, n_features=6, noise=0.5, random_state=0)
    return train_test_split(X, y, test_size=0.25, random_state=0)


@pytest.mark.parametrize("soft", [True, False])
def test_a_portfolio_may_choose_a_soft_tree(soft):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(300, 4))
    y = np.sin(X[:, 0] + X[:, 1]) * X[:, 2]
    model = AutoTreeRegressor(30.0 if soft else 3.0, soft=soft, random_state=0).fit(X[:200], y[:200])
    assert model.tree_.mixture is (soft and "soft" in model.best_member_)
    assert any("soft" in row["name"] for row in model.members_) is soft
    if soft:
        assert model.tree_.mixture
        assert model.score(X[200:], y[200:]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tree", "forest"])
def test_portfolios(friedman, kind):
    a, b, c, d = friedman
    model = AutoTreeRegressor(6.0, kind=kind, random_state=0).fit(a, c)
    assert model.score(b, d) > (0.88 if kind == "tree" else 0.92)
    assert model.validation_loss_ in [row["loss"] for row in model.members_ if row["name"] == model.best_member_]
    assert model.members_[0]["folds"] == 5
    assert not model.validation_loss_ > model.members_[0]["loss"]
    assert "best: " + model.best_member_ in model.report()
    assert len(model.forest_.trees) == 1 or kind == "forest"
    X, y = load_iris(return_X_y=True)
    classifier = AutoTreeClassifier(3.0, kind=kind, random_state=0).fit(X, y)
    assert classifier.score(X, y) > 0.9


def test_bad_options_of_portfolios(friedman):
    with pytest.raises(ValueError, match="kind must be one of"):
        AutoTreeRegressor(kind="bush").fit(friedman[0], friedman[2])
    with pytest.raises(ValueError, match=r"validation_fraction must be .*between 0 and 1"):
        AutoTreeRegressor(validation_fraction=2).fit(friedman[0], friedman[2])


def test_a_search_sees_as_many_rows_as_its_time_allows(monkeypatch):
    X, y = make_friedman1(6000, noise=1.0, random_state=0)
    monkeypatch.setattr("opttree.estimators.auto.CELLS", 1000.0)
    monkeypatch.setattr("opttree.estimators.auto.SEARCH_ROWS", 500)
    model = AutoTreeRegressor(6.0, random_state=0)
    ((train, valid),) = _folds(model, TreeProblem(X, y, depth=1), 0)
    assert (train.n_samples, valid.n_samples) == (600, 600)
    assert _folds(AutoTreeRegressor(None), TreeProblem(X, y, depth=1), 0)[0][0].n_samples == 4800
    assert model.fit(X, y).score(X, y) > 0.7
    assert {row["folds"] for row in model.members_} == {1}
