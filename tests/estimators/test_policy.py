"""Policy trees: actions of least cost, proved by enumeration and by the values of other programs."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split

import opttree
from opttree import DRPolicyTree, PolicyTree, SplitPrice, TreeProblem, causal
from opttree.constraints import RequireSplit
from opttree.losses import ActionCost, Exponential
from solvers import GET, MIP, TAO, AxisNode, BranchAndBound, CartInit, solve
from tests.trees import random_tree


def best_cost(X, costs, w, depth, price, min_leaf):
    """The least cost of a tree, by trying all."""

    def best(rows, levels):
        value = (w[rows] @ costs[rows]).min()
        if levels == 0:
            return value
        for j in range(X.shape[1]):
            for threshold in np.unique(X[rows, j])[:-1]:
                left = X[rows, j] <= threshold
                if min(left.sum(), (~left).sum()) >= min_leaf:
                    value = min(value, price + best(rows[left], levels - 1) + best(rows[~left], levels - 1))
        return value

    return best(np.arange(len(X)), depth)


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    n, p, K, depth = rng.integers(4, 13), rng.integers(1, 4), rng.integers(2, 6), rng.integers(1, 4)
    X = rng.integers(0, 4, size=(n, p)).astype(float)
    costs = rng.integers(0, 6, size=(n, K)).astype(float) if seed % 2 else rng.exponential(size=(n, K))
    w = rng.uniform(0.1, 2.0, n) if seed % 3 else np.ones(n)
    price, min_leaf = (0.1, 2) if seed % 4 == 0 else (0.0, 1)
    problem = TreeProblem(
        X, costs, int(depth), "axis", loss="cost", sample_weight=w, penalties=SplitPrice(price), min_leaf=min_leaf
    )
    result = solve(problem, BranchAndBound(), random_state=0)
    wanted = best_cost(X, costs, w / w.sum(), depth, price, min_leaf)
    assert result.objective == pytest.approx(wanted, abs=1e-9)
    assert result.bound <= wanted + 1e-9
    for local in (CartInit(), TAO(node_solver=AxisNode())):
        assert solve(problem, local, random_state=0).objective >= wanted - 1e-9


def rewarded(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.column_stack([X[:, 0], X[:, 1], np.zeros(n)]) + 0.5 * rng.normal(size=(n, 3))


def test_the_objective_is_the_mean_regret():
    X, rewards = rewarded()
    model = PolicyTree(2).fit(X, rewards)
    value, error = model.policy_value(X, rewards)
    assert model.is_optimal_
    assert model.result_.objective == pytest.approx(rewards.max(axis=1).mean() - value)
    assert model.score(X, rewards) == value
    gained = rewards[np.arange(len(X)), model.predict(X)]
    assert error == pytest.approx(gained.std() / np.sqrt(len(X)))
    local = PolicyTree(2, solver="tao", random_state=0).fit(X, rewards)
    assert local.bound_ is None
    assert local.score(X, rewards) <= value + 1e-12
    deep = PolicyTree(8, min_samples_leaf=10, random_state=0).fit(X, rewards)  # beyond the exact search
    assert deep.score(X, rewards) > value


def test_options_restrict_the_tree():
    X, rewards = rewarded()
    free = PolicyTree(2).fit(X, rewards)
    assert free.tree_.n_leaves == 4
    assert PolicyTree(2, max_leaf_nodes=2).fit(X, rewards).tree_.n_leaves == 2
    assert PolicyTree(2, split_price=10.0).fit(X, rewards).tree_.n_leaves == 1
    leaf = PolicyTree(2, min_samples_leaf=90).fit(X, rewards).apply(X)
    assert np.bincount(leaf)[np.unique(leaf)].min() >= 90
    weight = np.where(X[:, 0] > 0.0, 1.0, 0.0)
    weighted = PolicyTree(1).fit(X, rewards, sample_weight=weight)
    kept = PolicyTree(1).fit(X[weight > 0.0], rewards[weight > 0.0])
    assert weighted.score(X, rewards, weight) == pytest.approx(kept.score(X[weight > 0.0], rewards[weight > 0.0]))


def test_problems_that_are_made_of_others_keep_the_actions():
    X, rewards = rewarded()
    priced = PolicyTree(2, split_price=0.01).fit(X, rewards)
    assert priced.is_optimal_
    assert priced.tree_.classes.tolist() == priced.classes_.tolist() == [0, 1, 2]
    assert priced.score(X, rewards) > rewards.mean(axis=0).max()
    problem = TreeProblem(X, rewards.max(axis=1, keepdims=True) - rewards, depth=2, splits="axis", loss="cost")
    tree = solve(problem, BranchAndBound()).tree
    part = problem.sample(np.arange(100))
    assert np.isfinite(part.objective(tree))
    assert np.isfinite(problem.objective(solve(part, BranchAndBound()).tree))
    assert solve(part, BranchAndBound(), start=tree).termination.name == "OPTIMAL"
    assert problem.restated(loss="squared").classes is None
    assert problem.restated(loss="squared").restated(loss="cost").classes.tolist() == [0, 1, 2]
    forced = TreeProblem(X, problem.y, 2, "axis", loss="cost", constraints=(RequireSplit(3),))
    found = solve(forced, BranchAndBound())
    assert found.termination.name == "OPTIMAL"
    assert 3 in found.tree.feature
    standard = TreeProblem.standardized(X, problem.y, depth=2, splits="axis", loss="cost")
    best = solve(standard, BranchAndBound())
    assert problem.objective(standard.original(best)) == pytest.approx(problem.objective(tree))


def test_tables_files_and_searches(tmp_path):
    X, rewards = rewarded()
    table = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(X[:, 0] > 0.0, "up", "down"))
    model = PolicyTree(2).fit(table, rewards)
    opttree.save(model, tmp_path / "policy.json")
    saved = opttree.load(tmp_path / "policy.json")
    np.testing.assert_array_equal(saved.predict(table), model.predict(table))
    assert "kind" in model.tree_.to_text() or "a" in model.tree_.to_text()
    assert cross_val_score(PolicyTree(1), X, rewards, cv=3).mean() > 0.0


@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        (np.zeros(400), "rewards must be a table"),
        (np.zeros((400, 1)), "a column for each of two or more actions"),
        (np.full((400, 2), np.nan), "rewards must be finite"),
        ([["a", "b"]] * 400, "rewards must hold numbers"),
    ],
)
def test_bad_rewards_are_refused(rewards, words):
    with pytest.raises(ValueError, match=words):
        PolicyTree().fit(rewarded()[0], rewards)


def test_costs_are_stated_and_refused_in_one_sentence():
    X, rewards = rewarded()
    with pytest.raises(ValueError, match="y must be >= 0 for loss='cost'"):
        TreeProblem(X, rewards, depth=1, loss="cost")
    with pytest.raises(ValueError, match="costs of two or more actions"):
        TreeProblem(X, np.ones(400), depth=1, loss="cost")
    problem = TreeProblem(X, rewards - rewards.min(), depth=1, splits="axis", loss="cost")
    assert "its loss is 'cost'" in str(GET().refusal(problem))
    assert MIP().refusal(problem) is None
    with pytest.raises(ValueError, match="the 3 actions of the training"):
        PolicyTree(1).fit(X, rewards).policy_value(X, rewards[:, :2])
    with pytest.raises(ValueError, match="solver must be 'auto' or 'tao'"):
        PolicyTree(9, solver="bnb").fit(X, rewards)


def test_a_tree_that_is_not_fitted_says_so():
    X, rewards = rewarded()
    for call in (lambda: PolicyTree().predict(X), lambda: PolicyTree().policy_value(X, rewards)):
        with pytest.raises(NotFittedError):
            call()


def test_losses_are_those_of_the_chosen_actions(rng):
    costs = rng.exponential(size=(50, 3))
    tree = random_tree(rng, 2, 4, 3)
    problem = TreeProblem(rng.normal(size=(50, 4)), costs, depth=2, loss="cost")
    fitted = problem.fit_leaves(tree)
    assert fitted.classes.tolist() == [0, 1, 2]
    chosen = costs[np.arange(50), fitted.predict(problem.X)]
    np.testing.assert_allclose(problem.row_losses(fitted), chosen)
    assert (ActionCost().least(costs) <= chosen).all()


# ---- other programs' values ------------------------------------------------------------------------------------------


def table_of(name):
    return np.loadtxt(Path(os.environ["OPTTREE_DATA"]) / "tasks" / name)


@pytest.mark.usefixtures("needs_data")
def test_policytrees_own_data():
    X, rewards = (
        np.loadtxt(Path(os.environ["OPTTREE_DATA"]) / "tasks" / f"policytree_{name}.csv.gz", delimiter=",", skiprows=1)
        for name in ("X", "rewards")
    )
    model = PolicyTree(2).fit(X, rewards)
    assert round(model.score(X, rewards), 6) == 2.166
    assert model.is_optimal_


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("depth", "train", "test"), [(2, 117.689410, 158.881524), (3, 64.607382, 145.398560)])
def test_costs_of_solvers_are_those_of_streed(depth, train, test):
    table = table_of("maxsat21-32f.txt.gz")
    X, costs = table[:, 9:], table[:, 1:9]
    parts = train_test_split(X, costs, test_size=0.2, random_state=42)
    model = PolicyTree(depth).fit(parts[0], -parts[2])
    assert -model.score(parts[0], -parts[2]) == pytest.approx(train, abs=5e-7)
    assert -model.score(parts[1], -parts[3]) == pytest.approx(test, abs=5e-7)


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(
    ("teacher", "method", "values"),
    [
        ("0.06", "ipw", (0.852844, 0.876530)),
        ("0.06", "dr", (0.904746, 0.919312)),
        ("random", "ipw", (0.668393, 0.682984)),
        ("random", "dr", (0.842179, 0.862296)),
    ],
)
def test_doses_of_warfarin_are_those_of_streed(teacher, method, values):
    table = table_of(f"train_rf_dt_{teacher}_0_0.csv.gz")
    arm, rows = table[:, 1].astype(int), np.arange(len(table))
    expected = table[:, 4:7]
    found = np.zeros_like(expected) if method == "ipw" else expected.copy()
    found[rows, arm] += (table[:, 2] - (expected[rows, arm] if method == "dr" else 0.0)) / table[:, 3]
    for depth, value in zip((2, 3), values, strict=True):
        model = PolicyTree(depth).fit(table[:, 11:], found)
        assert model.is_optimal_
        assert model.score(table[:, 11:], found) == pytest.approx(value, abs=5e-7)


@pytest.mark.usefixtures("needs_data")
def test_survival_starts_from_numbers_of_events():
    """Times of events and of losses from sight were 200 apart, where they are the same time, in CART's start."""
    table = table_of("colon_binary.txt.gz")
    times, event, X = table[:, 0], table[:, 1], table[:, 2:]
    order = np.sort(np.unique(times[event > 0.0]))
    at_risk = (times[None] >= order[:, None]).sum(axis=1)
    deaths = ((times[None] == order[:, None]) & (event[None] > 0.0)).sum(axis=1)
    hazard = np.cumsum(deaths / at_risk)[np.maximum(np.searchsorted(order, times, side="right") - 1, 0)]
    y = np.where(event > 0.0, hazard, -hazard)
    problem = TreeProblem(X, y, depth=4, splits="axis", loss=Exponential())
    plain = TreeProblem(X, y, depth=4, splits="axis")
    by_squares = problem.fit_leaves(solve(plain, CartInit(), random_state=0).tree)
    assert solve(problem, CartInit(), random_state=0).objective < 0.99 * problem.objective(by_squares)


@pytest.mark.parametrize("unit", [1.0, 1e20, 1e-300])
def test_survival_starts_where_rows_have_no_events(unit):
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(400, 3)), rng.exponential(size=400) + 0.01
    y = np.where(X[:, 0] > 0.0, t, -t)
    Y = np.column_stack([np.where(rng.random(400) < 0.6, t, -t) * np.where(X[:, 1] > 0.0, 5.0, 1.0), -t])
    for outcome in (y, Y):
        problem = TreeProblem(X, unit * outcome, depth=1, splits="axis", loss=Exponential())
        best = solve(problem, BranchAndBound())
        assert solve(problem, CartInit(), random_state=0).objective == pytest.approx(best.objective, rel=0.05)


# ---- scores ----------------------------------------------------------------------------------------------------------


def observed(n=800, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    chance = 1.0 / (1.0 + np.exp(-X[:, 1]))
    treated = rng.random(n) < chance
    return X, treated, X[:, 1] + treated * X[:, 0] + 0.3 * rng.normal(size=n), chance


@pytest.mark.parametrize("method", ["dr", "ipw", "dm"])
def test_scores_are_right_on_average(method):
    X, treated, y, chance = observed(6000)
    found = causal.scores(
        X, treated, y, np.column_stack([1.0 - chance, chance]), method=method, outcome_model=LinearRegression()
    )
    right = np.column_stack([X[:, 1], X[:, 1] + X[:, 0]])
    for side in (X[:, 0] > 0.0, X[:, 0] <= 0.0):
        np.testing.assert_allclose(found[side].mean(axis=0), right[side].mean(axis=0), atol=0.15)


def test_a_policy_is_learnt_from_treatments():
    X, treated, y, _chance = observed()
    model = DRPolicyTree(1, outcome_model=LinearRegression(), propensity_model=LogisticRegression())
    model.fit(y, np.where(treated, "drug", "none"), X=X[:, :1], W=X[:, 1:])
    assert model.predict([[1.0], [-1.0]]).tolist() == ["drug", "none"]
    assert model.scores_.shape == (800, 2)
    assert model.policy_value(X[:, :1], model.scores_)[0] > model.scores_.mean(axis=0).max()


def test_treatments_need_rows_of_their_own():
    X, treated, y, _chance = observed()
    for bad in ({"Y": None}, {"X": X[:3]}, {"W": X[:3]}):
        name = "W" if "W" in bad else "X"
        with pytest.raises(ValueError, match=rf"{name} must be \(n, p\), treatment and outcome \(n,\); got shapes"):
            DRPolicyTree(1).fit(**({"Y": y, "T": treated, "X": X} | bad))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "other"}, "method must be"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"propensity": [0.5, 0.0]}, "propensity must be > 0"),
        ({"propensity": [1.0]}, "propensity must have shape"),
        ({"treatment": np.zeros(800)}, "treatment must have two or more labels"),
        ({"outcome": np.full(800, np.inf)}, "outcome must be finite"),
        ({"outcome": np.zeros(3)}, "treatment and outcome"),
    ],
)
def test_bad_scores_are_refused(change, words):
    X, treated, y, _chance = observed()
    with pytest.raises(ValueError, match=words):
        causal.scores(**({"X": X, "treatment": treated, "outcome": y} | change))


def test_rows_of_weight_zero_do_not_move_the_scores():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    T, weight = rng.random(400) < 0.5, (np.arange(400) >= 50).astype(float)
    Y = X[:, 1] + T * X[:, 0]
    wild = np.where(weight > 0, Y, np.nan)
    models = {"outcome_model": LinearRegression(), "propensity_model": LogisticRegression(), "random_state": 0}
    one, two = (DRPolicyTree(1, **models).fit(y, T, X=X, sample_weight=weight) for y in (Y, wild))
    np.testing.assert_array_equal(one.scores_, two.scores_)
    assert not one.scores_[:50].any()


def test_one_row_tells_no_standard_error():
    X, rewards = np.arange(40.0)[:, None], np.eye(2)[np.arange(40) // 20]
    model = PolicyTree(1, random_state=0).fit(X, rewards)
    assert np.isnan(model.policy_value(X[:1], rewards[:1])[1])
    assert np.isfinite(model.policy_value(X, rewards)[1])
