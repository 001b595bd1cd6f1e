"""Forests, boosting, distilled trees, portfolios: their statement, their options, clusters and tables in chunks."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import load_iris, make_friedman1
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from opttree import (
    L1,
    L2,
    AutoTreeClassifier,
    AutoTreeRegressor,
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    Forest,
    GETClassifier,
    GETRegressor,
    SDTRRegressor,
    TAOForestClassifier,
    TAOForestRegressor,
    TAORegressor,
    Tree,
    TreeProblem,
    chunks,
    datasets,
)
from opttree.kernels.passes import alternation
from solvers import ORRT, TAO, Boosting, CartInit, Distilled, MultiStart, TAOForest, Termination, solve
from solvers.ensembles.boosting import working_targets
from solvers.ensembles.forest import SHRINKAGES, Tally
from solvers.ensembles.growth import Shared, grow
from tests.conftest import classification_problem, own_clock, regression_problem


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(800, n_features=6, noise=0.5, random_state=0)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def problem_of(X, y, depth=4, **options):
    return TAORegressor(depth, leaves="linear", leaf_penalty=0.0, split_penalty=1e-6, l1_ratio=0.0, **options).state(
        X, y
    )


# ---- the compiled passes --------------------------------------------------------------------------------------------


def test_root_model_is_ridge_regression_and_leaves_tend_to_it():
    problem = regression_problem(300, leaves="linear", penalties=())
    shared = Shared.of(problem, TAOForest(1, sample=1.0), (1e9, 1e-6))
    grown = grow(shared, ("oblique", np.random.default_rng(0)))
    ridge = Ridge(alpha=alternation.ROOT_RIDGE * 300).fit(problem.X, problem.y)
    tight = grown.models[0]
    assert np.bincount(grown.leaf).max() > 15
    np.testing.assert_allclose(tight[:, 0, :-1], np.tile(ridge.coef_, (len(tight), 1)), atol=1e-3)
    for number in range(grown.skeleton.n_leaves):
        rows = grown.leaf == number
        if rows.sum() > 15:
            X = np.column_stack([problem.X[rows], np.ones(rows.sum())])
            own = np.linalg.lstsq(X, problem.y[rows], rcond=None)[0]
            np.testing.assert_allclose(grown.models[1][number, 0], own, atol=2e-3)


def test_leaf_numbers_are_those_of_the_tree():
    for kind in ("oblique", "axis", "cart"):
        problem = regression_problem(500, depth=5, leaves="linear", penalties=())
        grown = grow(Shared.of(problem, TAOForest(1), (1.0,)), (kind, np.random.default_rng(1)))
        tree = grown.tree(0, None)
        same = tree.apply(problem.X) - tree.n_branches == grown.leaf
        assert same.mean() > 0.995  # but for rows within single-precision rounding of a threshold
        assert np.bincount(grown.leaf, minlength=tree.n_leaves).min() > 0


def test_passes_lower_the_loss():
    problem = regression_problem(1000, depth=4, leaves="linear", penalties=())
    losses = [
        solve(problem, TAOForest(5, kind="oblique", max_iter=passes, shrinkage=1.0), random_state=0).objective
        for passes in (0, 2, 10)
    ]
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize("min_leaf", [1, 25])
def test_min_leaf_holds(min_leaf):
    problem = regression_problem(600, depth=5, leaves="linear", penalties=(), min_leaf=min_leaf)
    shared = Shared.of(problem, TAOForest(1), (1.0,))
    for kind in ("oblique", "axis", "cart"):
        grown = grow(shared, (kind, np.random.default_rng(0)))
        inside = np.setdiff1d(np.arange(600), grown.outside)
        assert np.bincount(grown.leaf[inside]).min() >= min_leaf


# ---- forests --------------------------------------------------------------------------------------------------------


def test_expected_error_of_rows_left_out_is_that_of_new_rows(friedman):
    a, b, c, d = friedman
    model = TAOForestRegressor(60, kind="oblique", random_state=0).fit(a, c)
    assert model.oob_loss_ == pytest.approx(np.mean((model.predict(b) - d) ** 2), rel=0.25)
    assert model.score(b, d) > 0.95
    seen = ~np.isnan(model.oob_prediction_[:, 0])
    assert seen.mean() > 0.99
    assert np.corrcoef(model.oob_prediction_[seen, 0], c[seen])[0, 1] > 0.9
    bounds = model.predict_interval(b, 0.9)
    assert 0.8 < np.mean((bounds[:, 0] <= d) & (d <= bounds[:, 1])) <= 0.99
    assert model.n_parameters_ == sum(tree.n_parameters for tree in model.forest_.trees)
    assert model.flops(b) == pytest.approx(sum(tree.flops(b) for tree in model.forest_.trees))


def test_forecast_of_pairs_is_exact_for_independent_errors():
    rng = np.random.default_rng(0)
    n, noise, spread = 4000, 0.5, 2.0
    shared = Shared.of(TreeProblem(rng.normal(size=(n, 1)), rng.normal(size=n) * noise, depth=1), TAOForest(1), (1.0,))
    tally = Tally(shared)
    for _ in range(6):
        errors = (rng.normal(size=(n, 1)) * spread - shared.Y)[None]
        tally.residuals += errors
        tally.squares += np.square(errors).sum(axis=2)
        tally.counts += 1
    for trees in (1, 10, 1000):
        assert tally.errors(trees)[0] == pytest.approx(noise**2 + spread**2 / trees, rel=0.2, abs=0.03)


def test_threads_and_warm_start_do_not_change_the_forest(friedman):
    a, b, c, _d = friedman
    options = {"kind": "oblique", "shrinkage": 1.0, "leaf_lasso": 0.01, "random_state": 3}
    whole = TAOForestRegressor(12, **options, n_jobs=1).fit(a, c)
    grown = TAOForestRegressor(5, **options, n_jobs=2, warm_start=True).fit(a, c)
    grown.set_params(n_estimators=12).fit(a, c)
    np.testing.assert_array_equal(whole.predict(b), grown.predict(b))
    np.testing.assert_allclose(whole.oob_prediction_, grown.oob_prediction_)
    grown.fit(a, c)
    assert len(grown.forest_.trees) == 12
    with pytest.raises(ValueError, match="n_estimators must be at least the 12 trees"):
        grown.set_params(n_estimators=4).fit(a, c)


@pytest.mark.parametrize(
    "options",
    [
        {"bootstrap": True},
        {"max_samples": 0.5},
        {"common_start": True, "kind": "oblique"},
        {"max_features": 3, "feature_subsets": "local", "kind": "oblique"},
        {"max_features": 0.5, "feature_subsets": "global", "kind": "oblique"},
        {"leaves": "constant"},
        {"kind": "axis"},
        {"split_penalty": 1e-3, "l1_ratio": 1.0, "kind": "oblique"},
        {"max_samples": 1.0, "shrinkage": 2.0},
        {"min_samples_leaf": 10},
        {"max_depth": "oob"},
        {"max_depth": "cv", "cv": 2},
    ],
    ids=str,
)
def test_options_of_forests(friedman, options):
    a, b, c, d = friedman
    model = TAOForestRegressor(8, random_state=0, **options).fit(a, c)
    assert model.score(b, d) > 0.8
    trees = model.forest_.trees
    if "max_features" in options:
        for tree in trees:
            used = tree.A != 0.0
            counts = used.any(axis=0).sum() if options["feature_subsets"] == "global" else used.sum(axis=1).max()
            assert counts <= 3
    if options.get("kind") == "axis":
        assert all(tree.is_axis_aligned for tree in trees)
    if options.get("l1_ratio") == 1.0:
        assert any((tree.A == 0.0).any() for tree in trees)
    if options.get("leaves") == "constant":
        assert not any(tree.linear_leaves for tree in trees)
    if model.max_depth in ("oob", "cv"):
        assert len(model.cv_results_["loss"]) >= model.depth_ == model.cv_results_["loss"].argmin() + 1
    left_out = model.forest_.outside[1].mean() / len(trees)
    if "bootstrap" in options:
        assert left_out == pytest.approx(np.exp(-1.0), abs=0.03)
    if "max_samples" in options:
        assert left_out == pytest.approx(1.0 - options["max_samples"])
    if "min_samples_leaf" in options:
        assert min(np.bincount(tree.apply(a))[tree.n_branches :].min() for tree in trees) >= 10
    if options.get("max_samples") == 1.0:
        with pytest.raises(
            ValueError, match="predict_interval needs a forest, not stopped before its first trees, some of which leave"
        ):
            model.predict_interval(b)


def starts(data, already=4, **options):
    """Normals of a forest's trees before the first pass, where all but ``already`` of the four are added later."""
    options = {"max_depth": 3, "max_iter": 0, "kind": "oblique", "warm_start": True} | options
    model = TAOForestRegressor(already, **options).fit(data[0], data[2])
    model.set_params(n_estimators=4).fit(data[0], data[2])
    return [tree.A for tree in model.forest_.trees]


def test_a_common_start_is_that_of_all_trees(friedman):
    first, *others = starts(friedman, common_start=True, random_state=0)
    assert first.shape == (7, 6)  # thresholds are medians of a tree's own rows
    for other in others:
        np.testing.assert_array_equal(other, first)
    np.testing.assert_array_equal(starts(friedman, 2, common_start=True, random_state=0), [first] * 4)
    alone, *rest = starts(friedman, random_state=0)
    assert all(np.abs(other - alone).max() > 0.1 for other in rest)


def test_a_common_start_is_another_with_another_seed(friedman):
    one, other = (starts(friedman, common_start=True, random_state=seed)[0] for seed in (0, 1))
    assert np.abs(one - other).max() > 0.1


@pytest.mark.parametrize("depth", [8, 10])
def test_deep_linear_leaves_do_not_fall_apart(needs_data, depth):
    X, y = datasets.load("puma32H", as_arrays=True)
    a, b, c, d = train_test_split(X, y, test_size=0.25, random_state=0)
    assert TAOForestRegressor(6, max_depth=depth, kind="oblique", random_state=0).fit(a, c).score(b, d) > 0.85


def test_several_outputs_and_weights(friedman):
    a, b, c, d = friedman
    Y = np.column_stack([c, -2.0 * c + a[:, 0]])
    model = TAOForestRegressor(10, random_state=0).fit(a, Y)
    assert model.predict(b).shape == (len(b), 2)
    assert model.predict_interval(b).shape == (len(b), 2, 2)
    assert model.score(b, np.column_stack([d, -2.0 * d + b[:, 0]])) > 0.9
    weight = (a[:, 0] > 0.5).astype(float)
    weighted = TAOForestRegressor(10, random_state=0).fit(a, c, sample_weight=weight)
    assert weighted.score(b, d, b[:, 0] > 0.5) > 0.9
    assert np.isnan(weighted.oob_prediction_[weight == 0.0]).all()


def test_classes(needs_data):
    X, y = datasets.load("segment", as_arrays=True)
    a, b, c, d = train_test_split(X, y, test_size=0.3, random_state=0)
    for model in (TAOForestClassifier(15, random_state=0), BoostedTreesClassifier(n_estimators=40, random_state=0)):
        model.fit(a, c)
        assert model.score(b, d) > 0.96
        shares = model.predict_proba(b)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        assert np.array_equal(model.classes_[shares.argmax(axis=1)], model.predict(b))


def test_stacked_predictions_are_those_of_the_trees(friedman):
    a, b, c, _d = friedman
    for model in (TAOForestRegressor(6, kind="axis"), BoostedTreesRegressor("oblique", n_estimators=10)):
        forest = model.fit(a, c).forest_
        one_by_one = np.mean([tree.outputs(b) for tree in forest.trees], axis=0)
        np.testing.assert_allclose(forest.outputs(b), one_by_one, rtol=1e-9)
        np.testing.assert_allclose(forest.outputs(b[:1]), one_by_one[:1], rtol=1e-9)


def test_a_time_limit_leaves_the_trees_that_are_done(friedman):
    a, _b, c, _d = friedman
    TAOForestRegressor(2).fit(a, c)
    model = TAOForestRegressor(5000, time_limit=3.0, kind="oblique").fit(a, c)
    assert model.result_.termination.name == "TIME_LIMIT"
    assert 1 < len(model.forest_.trees) < 5000
    assert model.score(a, c) > 0.8
    assert model.depth_ > 1
    boosted = BoostedTreesRegressor("oblique", n_estimators=100_000, learning_rate=0.01, validation_fraction=None)
    boosted.set_params(time_limit=1.0).fit(a, c)
    assert 1 < len(boosted.forest_.trees) < 100_000
    assert boosted.score(a, c) > 0.1
    assert TAOForestRegressor(50, time_limit=1e-9).fit(a, c).predict(a).shape == (len(a),)


@pytest.mark.parametrize("max_depth", ["oob", "cv"])
def test_the_search_for_a_depth_knows_the_time_limit(friedman, max_depth):
    a, _b, c, _d = friedman
    model = TAOForestRegressor(2, max_depth=max_depth, time_limit=0.5, random_state=0).fit(a, c)
    began = own_clock()
    model.fit(np.tile(a, (20, 1)), np.tile(c, 20))
    assert own_clock() - began < 4.0
    assert len(model.cv_results_["depth"]) < 14


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be an integer >= 1; got 0"),
        ({"max_depth": "deep"}, "max_depth must be an integer >= 1, None, 'oob' or 'cv'; got 'deep'"),
        ({"max_samples": 1.5}, r"max_samples must be a finite number in \(0, 1\]; got 1\.5"),
        ({"kind": "round"}, "kind must be one of"),
        ({"shrinkage": -1.0}, r"shrinkage must be a finite number > 0, .oob. or None; got -1\.0"),
        ({"max_features": 0}, "max_features must be an integer >= 1"),
        ({"feature_subsets": "some"}, "subsets must be one of"),
    ],
)
def test_bad_options_of_forests(friedman, options, message):
    with pytest.raises(ValueError, match=message):
        TAOForestRegressor(**options).fit(friedman[0], friedman[2])


# ---- boosting -------------------------------------------------------------------------------------------------------


def test_boosting_beats_its_trees_and_knows_when_to_stop(friedman):
    a, b, c, d = friedman
    for base in ("oblique", "axis", TAO(max_iter=3)):
        model = BoostedTreesRegressor(base, n_estimators=60, random_state=0).fit(a, c)
        assert model.score(b, d) > 0.93
        assert model.n_estimators_ == len(model.forest_.trees) <= 4 * 60  # four ensembles
        assert model.score(b, d) > TAORegressor(6, random_state=0).fit(a, c).score(b, d)
    noise = np.random.default_rng(0).normal(size=len(a))
    assert BoostedTreesRegressor("axis", n_estimators=60, random_state=0).fit(a, noise).n_estimators_ < 4 * 30
    both = BoostedTreesRegressor(n_estimators=60, random_state=0).fit(a, c)
    singles = [BoostedTreesRegressor(k, n_estimators=60, random_state=0).fit(a, c) for k in ("oblique", "axis", "cart")]
    assert both.validation_loss_ == pytest.approx(min(model.validation_loss_ for model in singles))


def test_absolute_loss_does_not_mind_outliers(friedman):
    a, b, c, d = friedman
    spoilt = c.copy()
    spoilt[::20] += 100.0
    squared, absolute = (
        BoostedTreesRegressor("oblique", loss=loss, n_estimators=80, random_state=0).fit(a, spoilt)
        for loss in ("squared", "absolute")
    )
    assert np.mean(abs(absolute.predict(b) - d)) < 0.5 * np.mean(abs(squared.predict(b) - d))


@pytest.mark.parametrize("loss", ["squared", "absolute", "log"])
def test_working_targets_lie_above_the_loss(loss):
    rng = np.random.default_rng(0)
    if loss == "log":
        problem = classification_problem(loss="log", penalties=())
        scores = rng.normal(size=(200, 3))
    else:
        problem = regression_problem(loss=loss, penalties=())
        scores = rng.normal(size=(200, 1))
    weights, targets = working_targets(problem, scores)
    assert weights.shape == (200,)
    h = 1e-5
    for k in range(scores.shape[1]):  # the quadratic touches the loss: slopes agree
        moved = scores.copy()
        moved[:, k] += h
        if loss == "log":
            code = problem.Y[:, 0].astype(int)
            log_sum = [np.log(np.exp(s).sum(axis=1)) - s[np.arange(200), code] for s in (moved, scores)]
            slope = (log_sum[0] - log_sum[1]) / h
            np.testing.assert_allclose(-weights * targets[:, k], slope, atol=1e-3)
        elif loss == "squared":
            np.testing.assert_allclose(targets, problem.Y - scores)
        else:
            error = problem.Y - scores
            far = np.abs(error[:, 0]) > np.abs(error).mean()
            assert np.ptp((weights * np.abs(error[:, 0]))[far]) == pytest.approx(0.0, abs=1e-9)


# ---- distilled trees and portfolios ---------------------------------------------------------------------------------


def test_a_distilled_tree_is_better_than_one_fitted_to_y():
    X, y = make_friedman1(1500, n_features=6, noise=1.0, random_state=1)
    a, b, c, d = train_test_split(X, y, test_size=0.5, random_state=0)
    problem, scaling = problem_of(a, c, 5)
    result = solve(problem, Distilled(TAOForest(10)), random_state=0)
    assert isinstance(result.tree, Tree)
    assert result.objective == pytest.approx(problem.objective(result.tree))
    direct = TAOForestRegressor(1, max_samples=1.0, max_depth=5, kind="oblique", shrinkage=3.0, random_state=0).fit(
        a, c
    )
    distilled = np.mean((result.tree.unscale(*scaling).predict(b) - d) ** 2)
    assert distilled < np.mean((direct.predict(b) - d) ** 2)


@pytest.mark.parametrize("soft", [False, True])
def test_a_distilled_tree_of_classes_knows_all_of_them(soft):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] > 0.0, "oak", "ash")
    problem = TreeProblem(X, y, depth=2, loss="log")
    rare = TreeProblem(np.r_[X, X[:1]], np.r_[y, ["elm"]], depth=2, loss="log").sample(np.arange(200))  # of no row left
    for stated in (problem, rare):
        student = ORRT(max_iter=50) if soft else None
        result = solve(stated, Distilled(TAOForest(5), student=student), random_state=0)
        assert result.trace.rows[-1].phase == "student"
        assert result.tree.classes.tolist() == stated.classes.tolist()
        assert np.mean(result.tree.predict(X) == y) > 0.95


@pytest.mark.parametrize("soft", [True, False])
def test_a_portfolio_may_choose_a_soft_tree(soft):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(300, 4))
    y = np.sin(X[:, 0] + X[:, 1]) * X[:, 2]
    model = AutoTreeRegressor(8.0, soft=soft, random_state=0).fit(X[:200], y[:200])
    assert model.tree_.mixture is (soft and "soft" in model.best_member_)
    assert any("soft" in row["name"] for row in model.members_) is soft
    if soft:
        assert model.tree_.mixture
        assert model.score(X[200:], y[200:]) > 0.9


def test_bounded_soft_trees_answer_within_the_range_of_y():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    problem = TreeProblem(X, y, depth=4, penalties=L2(splits=1e-4))
    free, bounded = (solve(problem, ORRT(bounded=b), random_state=0).tree for b in (False, True))
    assert bounded.values.min() >= y.min()
    assert bounded.values.max() <= y.max()
    assert np.ptp(free.values) > np.ptp(y)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tree", "forest"])
def test_portfolios(friedman, kind):
    a, b, c, d = friedman
    model = AutoTreeRegressor(25.0, kind=kind, random_state=0).fit(a, c)
    assert model.score(b, d) > (0.88 if kind == "tree" else 0.95)
    assert model.validation_loss_ in [row["loss"] for row in model.members_ if row["name"] == model.best_member_]
    assert model.members_[0]["folds"] == 5
    assert not model.validation_loss_ > model.members_[0]["loss"]
    assert "best: " + model.best_member_ in model.report()
    assert len(model.forest_.trees) == 1 or kind == "forest"
    X, y = load_iris(return_X_y=True)
    classifier = AutoTreeClassifier(15.0, kind=kind, random_state=0).fit(X, y)
    assert classifier.score(X, y) > 0.9


def test_bad_options_of_portfolios(friedman):
    with pytest.raises(ValueError, match="kind must be one of"):
        AutoTreeRegressor(kind="bush").fit(friedman[0], friedman[2])
    with pytest.raises(ValueError, match=r"validation_fraction must be .*between 0 and 1"):
        AutoTreeRegressor(validation_fraction=2).fit(friedman[0], friedman[2])


# ---- clusters -------------------------------------------------------------------------------------------------------


def test_runs_side_by_side_find_what_runs_in_turn_find():
    problem = regression_problem()
    in_turn, side_by_side = (
        solve(problem, MultiStart(TAO(max_iter=3), 4, n_jobs=n_jobs), random_state=0) for n_jobs in (None, 2)
    )
    assert in_turn.tree == side_by_side.tree
    assert len(side_by_side.trace) == 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_grows_the_same_forest_and_survives_the_loss_of_a_worker(needs_data):
    distributed = pytest.importorskip("distributed")
    Client, LocalCluster = distributed.Client, distributed.LocalCluster

    X, y = datasets.load("elevators", as_arrays=True)
    X, y = X[:6000], y[:6000]
    here = TAOForestRegressor(24, random_state=0).fit(X, y)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
        parallel_config(backend="dask"),
    ):
        there = TAOForestRegressor(24, random_state=0).fit(X, y)
        victim = next(iter(client.run(os.getpid).values()))
        began = time.time()
        killer = threading.Timer(0.7, os.kill, (victim, signal.SIGKILL))
        killer.start()
        try:
            survivor = TAOForestRegressor(24, random_state=0).fit(X, y)
        finally:
            killer.join()
        assert time.time() - began > 0.7
        starts = solve(regression_problem(), MultiStart(TAO(max_iter=3), 3, n_jobs=1), random_state=0)
    np.testing.assert_array_equal(here.predict(X), there.predict(X))
    np.testing.assert_array_equal(here.predict(X), survivor.predict(X))
    assert starts.tree == solve(regression_problem(), MultiStart(TAO(max_iter=3), 3), random_state=0).tree


# ---- chunks ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    import pandas as pd

    X, y = make_friedman1(6000, n_features=6, noise=0.5, random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    np.save(tmp_path / "X.npy", X)
    return X, y, frame, tmp_path


def test_chunks_of_every_source_hold_the_same_rows(table):
    X, y, frame, folder = table
    mapped = np.load(folder / "X.npy", mmap_mode="r")
    sources = [
        (folder / "rows.parquet", "y"),
        (str(folder), "y"),
        ((mapped, y), None),
        (lambda: ((X[i : i + 700], y[i : i + 700]) for i in range(0, 6000, 700)), None),
    ]
    try:
        import dask.dataframe as dd

        sources.append((dd.from_pandas(frame, npartitions=3), "y"))
    except ImportError:
        pass
    for source, target in sources:
        parts = list(chunks.Chunks(source, target, 512))
        assert max(len(part) for part, _y in parts) <= 512
        np.testing.assert_allclose(np.concatenate([part for part, _y in parts]), X)
        np.testing.assert_allclose(np.concatenate([own for _x, own in parts]), y)
    sample_X, sample_y, n = chunks.Chunks((X, y), None, 512).sample(300, np.random.default_rng(0))
    assert (len(sample_X), len(sample_y), n) == (300, 300, 6000)
    assert len(np.unique(sample_y)) == 300
    assert np.isin(sample_y, y).all()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("nowhere.parquet", "y", "source must be a Parquet file or folder; 'nowhere.parquet' does not exist"),
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
    X, _y, _frame, folder = table
    new_X, new_y = make_friedman1(3000, n_features=6, noise=0.5, random_state=1)
    path = folder / "rows.parquet"
    model.fit_chunks(path, target="y", sample_rows=600, chunk_rows=2000, epochs=8)
    alone = type(model)(**model.get_params())
    if isinstance(model, SDTRRegressor):
        alone.set_params(max_batches=10)
    else:
        alone.set_params(leaf_shrinkage=0.0)  # like the leaves that are fitted to all rows
    seed = np.random.RandomState(0).randint(2**31 - 1)
    rows_X, rows_y, _n = chunks.Chunks(path, "y").sample(600, np.random.default_rng(seed))
    assert model.score(new_X, new_y) > alone.fit(rows_X, rows_y).score(new_X, new_y)
    parts = list(chunks.predict_chunks(model, path, target="y", rows=900))
    np.testing.assert_allclose(np.concatenate(parts), model.predict(X))


def test_leaves_are_fitted_to_all_rows_exactly(table):
    X, y, _frame, folder = table
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


# ---- the parts together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "solver", [TAOForest(3), TAOForest(2, kind="axis"), Boosting(n_trees=4), Boosting(CartInit(), n_trees=3)], ids=repr
)
@pytest.mark.parametrize(
    "problem", [regression_problem(penalties=()), classification_problem(loss="log", penalties=())]
)
def test_forests_as_results(solver, problem):
    steps = []
    result = solve(problem, solver, random_state=0, callback=lambda step, _trace: steps.append(step) and None)
    forest = steps[-1].tree
    assert isinstance(forest, Forest)
    assert steps[-1].objective == pytest.approx(problem.mean_loss_of(forest.answers(problem.X)), rel=1e-3)
    again = solve(problem, solver, random_state=0)
    assert again.objective == result.objective
    assert set(SHRINKAGES) >= {steps[-1].info.get("shrinkage", 3.0)}


def test_a_time_limit_ends_a_distilled_student_after_a_pass():
    problem = regression_problem(2000, depth=6, penalties=())
    teacher = TAOForest(1, kind="oblique", max_iter=1)
    long = Distilled(teacher, max_iter=100_000, n_starts=1)
    result = solve(problem, long, time_limit=1.0, random_state=0)
    assert result.termination is Termination.TIME_LIMIT
    assert result.seconds < 3.0
    assert result.trace.rows[-1].phase == "student"


@pytest.mark.parametrize("sample", ["bootstrap", 0.5])
def test_a_tree_grown_pass_by_pass_is_the_tree_grown_at_once(sample):
    problem = regression_problem(400, depth=4, penalties=(), leaves="linear")
    shared = Shared.of(problem, TAOForest(1, kind="oblique", sample=sample, max_iter=6), (3.0,))
    once = grow(shared, ("oblique", np.random.default_rng(0)))
    asked = []
    parts = grow(shared, ("oblique", np.random.default_rng(0)), lambda: asked.append(1) or False)
    assert len(asked) == 6
    assert parts.skeleton == once.skeleton
    np.testing.assert_array_equal(parts.models, once.models)
    first = grow(shared, ("oblique", np.random.default_rng(0)), lambda: True)
    assert first.skeleton != once.skeleton


def test_refusals_of_forests():
    assert "absolute" in TAOForest().refusal(regression_problem(loss="absolute"))
    assert "an l2 penalty on leaves" in TAOForest().refusal(regression_problem(penalties=(L2(leaves=0.1),)))
    assert TAOForest().refusal(regression_problem(penalties=(L1(leaves=0.1),))) is None
    assert "zero_one" in Boosting().refusal(classification_problem(penalties=()))
    assert "axis-aligned" in Distilled().refusal(regression_problem(splits="axis", penalties=()))


def test_positional_options_keep_their_order():
    forest = TAOForest(3, "oblique", 4, 0.8, 5, 1, 2, 9.0, "oob", 0.5, "local", True, 2, 1)
    named = TAOForest(
        3, kind="oblique", levels=4, sample=0.8, max_iter=5, constant_iterations=1, newton_steps=2, ridge=9.0,
        shrinkage="oob", max_features=0.5, subsets="local", common_start=True, first=2, n_jobs=1,
    )  # fmt: skip
    assert forest == named
