"""Leaves shrunk towards the nodes above them, and the strength chosen on held-out rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1
from sklearn.metrics import log_loss

from opttree import GETClassifier, GETRegressor, TAOClassifier, TAORegressor, TreeProblem, losses
from opttree.estimators.steps import shrink as shrinking
from opttree.estimators.steps.shrink import STRENGTHS, parted
from opttree.statement import shrinkage
from opttree.statement.copies import SOME
from opttree.statement.shrinkage import NodeMoments, observations, refusal
from solvers import TAO, solve


@pytest.fixture(scope="module")
def rows():
    X, y = make_friedman1(300, n_features=6, noise=1.0, random_state=0)
    return X, (y - y.mean()) / y.std()


@pytest.mark.parametrize("strength", [0.3, 10.0, 1e9])
def test_constant_leaves_have_the_weight_of_their_rows(rows, strength):
    X, y = rows
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    problem = TreeProblem(X, y, depth=4, sample_weight=weight)
    tree = solve(problem, TAO(), random_state=0).tree
    paths = tree.decision_path(X).toarray().astype(bool)
    values = np.zeros(tree.n_nodes)
    values[0] = np.average(y, weights=weight)
    for t in range(tree.n_branches):
        for kid in tree.children[t]:
            own = paths[:, kid]
            n = weight[own].sum() * len(y) / weight.sum()
            values[kid] = values[t] + (np.average(y[own], weights=weight[own]) - values[t]) * n / (n + strength)
    shrunk = NodeMoments(problem, tree).shrunk(strength)
    np.testing.assert_allclose(shrunk.values[:, 0], values[tree.n_branches :], atol=1e-9)
    assert np.array_equal(shrunk.A, tree.A)
    assert NodeMoments(problem, tree).shrunk(0.0) is tree


def test_linear_leaves_become_the_root_s_and_stay_within_the_range_of_y(rows):
    X, y = rows
    problem = TreeProblem(X, y, depth=3, leaves="linear")
    moments = NodeMoments(problem, solve(problem, TAO(), random_state=0).tree)
    Z = np.column_stack([X, np.ones(len(y))])
    alone = Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
    shrunk = moments.shrunk(1e9)
    assert np.quantile(abs(alone - shrunk.outputs(X)[:, 0]), 0.9) < 1e-3  # a leaf's range of y may clip
    far = moments.shrunk(1.0).outputs(1e3 * X)
    assert y.min() <= far.min() <= far.max() <= y.max()
    assert problem.mean_loss(moments.shrunk(0.3)) < problem.mean_loss(moments.shrunk(30.0)) < problem.mean_loss(shrunk)


def test_linear_leaves_are_shrunk_where_that_is_asked_for():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    y = X.sum(axis=1) + 2.0 * rng.normal(size=1000)
    plain, shrunk = (
        TAORegressor(4, leaves="linear", leaf_shrinkage=s, random_state=0).fit(X[:150], y[:150]) for s in (None, 30.0)
    )
    assert plain.leaf_shrinkage_ == 0.0
    assert shrunk.score(X[150:], y[150:]) > plain.score(X[150:], y[150:])


def test_class_frequencies_stay_probabilities():
    X, y = load_iris(return_X_y=True)
    model = TAOClassifier(4, leaf_shrinkage=5.0, random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert proba.min() > 0.0
    plain = TAOClassifier(4, leaf_shrinkage=0.0, random_state=0).fit(X, y)
    assert plain.predict_proba(X).min() == 0.0
    assert model.result_.tree == plain.result_.tree


def test_what_cannot_be_shrunk_is_left_alone(rows):
    X, y = rows
    assert "medians" in refusal(TreeProblem(X, y, depth=2, loss="absolute"))
    assert TAORegressor(3, loss="absolute").fit(X, y).leaf_shrinkage_ == 0.0
    classes = (y > 0).astype(int)
    assert TAOClassifier(2, time_limit=0.5).fit(X, classes).leaf_temperature_ == 1.0
    assert "are not shrunk" in refusal(TreeProblem(X, y, depth=2, loss=losses.Huber(1.0)))
    wide = TreeProblem(np.ones((3, 3000)), np.arange(3.0), depth=8, leaves="linear")
    assert "too much memory" in refusal(wide)
    assert TAORegressor(3, leaves="linear").fit(X, y).leaf_shrinkage_ == 0.0
    assert GETRegressor(3, preset="paper", n_starts=1).fit(X, y).leaf_shrinkage_ == 0.0
    assert TAORegressor(2).fit(X[:8], y[:8]).leaf_shrinkage_ == 0.0  # too few rows to hold any out
    assert TAORegressor(2, time_limit=0.5).fit(X, y).leaf_shrinkage_ == 0.0
    with pytest.raises(ValueError, match="leaf_shrinkage must be"):
        TAORegressor(2, leaf_shrinkage=-1.0).fit(X, y)


def test_noise_is_shrunk_and_steps_are_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    assert TAORegressor(6, random_state=0).fit(X, rng.normal(size=400)).leaf_shrinkage_ == max(STRENGTHS)
    noisy = (X[:, 0] > 0.0) + rng.normal(size=400)
    assert TAORegressor(1, splits="axis", random_state=0).fit(X, noisy).leaf_shrinkage_ == 0.0  # no clear gain
    assert TAORegressor(1, random_state=0).fit(X, (X[:, 0] > 0.0) * 1.0).leaf_shrinkage_ <= 3.0


@pytest.mark.parametrize(
    "model", [TAORegressor(7, random_state=0), GETRegressor(6, n_starts=1, random_state=0)], ids=repr
)
def test_held_out_rows_are_predicted_better(rows, model):
    X, y = rows
    new_X, new_y = make_friedman1(2000, n_features=6, noise=0.0, random_state=1)
    new_y = (new_y - 14.4) / 5.0
    scores = [model.set_params(leaf_shrinkage=s).fit(X, y).score(new_X, new_y) for s in (0.0, "cv")]
    assert model.leaf_shrinkage_ > 0.0
    assert scores[1] > scores[0] + 0.02
    assert model.score(X, y) < 1.0 - model.result_.objective + 1e-6


def test_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = (X[:, 0] + X[:, 1] + rng.normal(size=900) > 0).astype(int)
    losses = []
    for strength in (0.0, "cv"):
        model = GETClassifier(4, n_starts=1, leaf_shrinkage=strength, random_state=0).fit(X[:450], y[:450])
        losses.append(log_loss(y[450:], model.predict_proba(X[450:])))
    assert losses[1] < 0.8 * losses[0]


def test_weights_and_repeated_rows_choose_alike(rows):
    X, y = rows
    X, y = X[:90], y[:90]
    times = np.random.default_rng(1).integers(0, 4, len(y))
    weighted = TAORegressor(4, random_state=0).fit(X, y, sample_weight=times)
    order = np.random.default_rng(2).permutation(np.repeat(np.arange(len(y)), times))
    repeated = TAORegressor(4, random_state=0).fit(X[order], y[order])
    assert weighted.leaf_shrinkage_ == repeated.leaf_shrinkage_
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


@pytest.mark.parametrize("discrete", [False, True])
def test_folds_know_neither_units_nor_order(discrete):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (200, 2)).astype(float) if discrete else np.repeat(rng.normal(size=(50, 2)), 4, axis=0)
    y = rng.integers(0, 2, 200) if discrete else (4.0 * X @ [1.0, 2.0]).astype(int) % 3
    parts = parted(TreeProblem(X, y, depth=1, loss="log"))
    order = rng.permutation(200)
    other = parted(TreeProblem(1e3 * X[order] + 7.0, y[order], depth=1, loss="log"))
    assert np.array_equal(other.problem.X[other.rows], 1e3 * X[parts.rows] + 7.0)
    assert np.array_equal(other.fold, parts.fold)
    # copies count once, but not where equal features have labels of their own
    assert parts.rows.size == (200 if discrete else len(np.unique(X, axis=0)))
    assert parts.weight.sum() == 200
    counts = np.array([np.bincount(parts.fold[y[parts.rows] == label], minlength=3) for label in np.unique(y)])
    assert np.ptp(counts, axis=1).max() <= 1  # class by class


def test_leaves_of_discrete_data_are_left_alone():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (4000, 4)).astype(float)
    rare = X[:, 0] * X[:, 1] == 1
    y = (rng.random(4000) < np.where(rare, 0.65, 0.2)).astype(int)
    model = TAOClassifier(4, random_state=0).fit(X, y)
    assert model.leaf_shrinkage_ < 100.0
    assert model.predict(X[rare]).mean() > 0.9
    levels = rng.integers(0, 20, 3000).astype(float)
    counts = rng.poisson(1.0 + levels / 5.0)
    scores = [
        TAORegressor(5, leaf_shrinkage=s).fit(levels[:, None], counts).score(levels[:, None], counts)
        for s in (0.0, "cv")
    ]
    assert scores[1] > scores[0] - 0.005


def test_the_smallest_leaf_of_copies_shrinks_with_them(rows):
    X, y = rows
    y = y + np.random.default_rng(0).normal(size=len(y))
    once = TAORegressor(8, splits="axis", min_samples_leaf=3, random_state=0).fit(X, y)
    often = TAORegressor(8, splits="axis", min_samples_leaf=60, random_state=0)
    often.fit(np.repeat(X, 20, axis=0), np.repeat(y, 20))
    assert often.leaf_shrinkage_ == once.leaf_shrinkage_ > 0.0


def test_one_heavy_row_is_no_evidence():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    weight = np.append(1e4, np.ones(59))
    model = TAORegressor(4, random_state=0).fit(X, y, weight)
    assert model.leaf_shrinkage_ == 0.0


def test_small_strengths_and_equal_features_have_a_solution(rows):
    X, y = rows
    X = np.column_stack([X[:, :2], X[:, 0]])
    model = TAORegressor(3, leaves="linear", leaf_shrinkage=1e-17, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_a_given_tree_is_shrunk_as_others_of_its_kind(rows):
    X, y = rows
    tree = TAORegressor(6, leaf_shrinkage=0, random_state=0).fit(X, y).tree_
    again = TAORegressor(6, init=tree, random_state=0).fit(X, y)
    assert again.leaf_shrinkage_ == TAORegressor(6, random_state=0).fit(X, y).leaf_shrinkage_


def test_what_is_asked_for_is_done(rows):
    X, y = rows
    paper = GETRegressor(2, preset="paper", n_starts=1, polish=False, leaf_shrinkage=50.0, random_state=0, time_limit=2)
    assert paper.fit(X, y).leaf_shrinkage_ == 50.0
    held = GETRegressor(3, n_starts=1, validation_fraction=0.3, random_state=0).fit(X, y)
    assert held.leaf_shrinkage_ == 0.0
    streamed = GETRegressor(3, n_starts=1, leaf_shrinkage=50.0, random_state=0).partial_fit(X, y)
    assert streamed.leaf_shrinkage_ == 50.0
    assert streamed.partial_fit(X, y).leaf_shrinkage_ == 0.0


def test_of_many_rows_some_are_enough(rows, monkeypatch):
    X, y = rows
    monkeypatch.setattr(shrinking, "MOST_ROWS", 240)
    some = parted(TreeProblem(X, y > 0, depth=1))
    assert some.rows.size == 240
    assert np.array_equal(np.bincount(some.fold), [80, 80, 80])
    assert TAORegressor(6, random_state=0).fit(X, y).leaf_shrinkage_ > 0.0


def test_the_search_for_the_depth_chooses_the_strength_too(rows):
    X, y = rows
    model = TAORegressor("cv", random_state=0).fit(X, y)
    strengths = model.cv_results_["leaf_shrinkage"]
    assert len(strengths) == len(model.cv_results_["depth"])
    assert model.leaf_shrinkage_ == strengths[model.best_depth_ - 1]
    assert set(strengths) <= set(STRENGTHS)
    assert strengths[-1] >= strengths[0]
    assert "leaf_shrinkage" not in TAORegressor("cv", leaf_shrinkage=0.0).fit(X, y).cv_results_


@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("rare", [-1, 2])  # before the other classes in their order, and after them
def test_a_search_for_the_depth_takes_classes_of_one_row(leaves, rare):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] > 0.0).astype(int)
    y[5] = rare
    model = TAOClassifier("cv", leaves=leaves, leaf_shrinkage="cv", random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (120, 3)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_single_trees_are_not_overconfident(leaves):
    """The log loss on new rows is lower than without, and no label of constant leaves is changed by the temperature."""
    X, y = make_friedman1(900, n_features=8, noise=2.0, random_state=0)
    y = np.digitize(y, [12.0, 17.0])
    train, test = slice(0, 500), slice(500, None)
    kind = TAOClassifier(6, random_state=0)
    if leaves == "linear":
        kind = GETClassifier(3, leaves="linear", n_starts=1, random_state=0)
    model, bare = (
        clone(kind).fit(X[train], y[train]),
        clone(kind).set_params(leaf_shrinkage=0.0).fit(X[train], y[train]),
    )
    assert model.leaf_shrinkage_ > 0.0
    assert log_loss(y[test], model.predict_proba(X[test])) < 0.8 * log_loss(y[test], bare.predict_proba(X[test]))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    if leaves == "constant":
        given = TAOClassifier(6, leaf_shrinkage=model.leaf_shrinkage_, random_state=0).fit(X[train], y[train])
        assert np.array_equal(given.predict(X), model.predict(X))
    else:
        assert np.array_equal(bare.predict(X), model.predict(X))


def test_the_temperature_answers_overconfidence_and_keeps_the_order(rows):
    rng = np.random.default_rng(0)
    true = rng.dirichlet([1.0, 1.0, 1.0], 2000)
    label = np.array([rng.choice(3, p=p) for p in true])
    problem = TreeProblem(rng.normal(size=(2000, 1)), label, depth=1, loss="log")
    sharp = shrinkage.softer(true, 0.5)
    assert shrinking.temperature_of(problem.Y, problem.w, sharp) == pytest.approx(2.0)
    assert shrinking.temperature_of(problem.Y, problem.w, true) == 1.0
    np.testing.assert_allclose(shrinkage.softer(sharp, 2.0), true)
    X, y = load_iris(return_X_y=True)
    tree = TAOClassifier(3, random_state=0).fit(X, y).tree_
    soft = shrinkage.tempered(tree, 3.0)
    assert np.array_equal(soft.predict(X), tree.predict(X))
    assert soft.predict_proba(X).max() < tree.predict_proba(X).max() or tree.predict_proba(X).max() == 1.0


def test_constant_leaves_of_classes_stay_probabilities_where_equations_were_asked_for():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)).round(1), rng.integers(0, 2, 40)
    problem = TreeProblem(X, y, depth=1, leaves="linear", loss="zero_one")
    tree = problem.restated(leaves="constant").fit_leaves(solve(problem, TAO(max_iter=0), random_state=0).tree)
    shrunk = NodeMoments(problem, tree).shrunk(3.0)
    assert not shrunk.linear_leaves
    assert shrunk.predict_proba(X).min() >= 0.0
    np.testing.assert_allclose(shrunk.predict_proba(X).sum(axis=1), 1.0)


def test_of_very_many_rows_some_columns_tell_them_apart():
    """The codes stop where all rows differ, whatever the order and the units; copies are found as before."""
    rng = np.random.default_rng(0)
    n = 2 * SOME + 2
    few, key, y = rng.integers(0, 3, (n, 2)), rng.permutation(n), rng.normal(size=n)
    X = np.column_stack([few, key, rng.normal(size=n)]).astype(np.float64)
    problem = TreeProblem(X, y, depth=1)
    rows = observations(problem)
    assert np.array_equal(np.sort(rows), np.arange(n))
    order = rng.permutation(n)
    other = TreeProblem(X[order] ** 3, y[order], depth=1)
    assert np.array_equal(order[observations(other)], rows)
    X[n // 2 :], y[n // 2 :] = X[: n // 2], y[: n // 2]
    assert observations(TreeProblem(X, y, depth=1)).size == n // 2
