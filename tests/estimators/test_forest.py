"""The estimators of forests."""

import signal

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_friedman1
from sklearn.model_selection import train_test_split

import opttree
from opttree import BoostedTreesClassifier, TAOForestClassifier, TAOForestRegressor, datasets
from solvers.ensembles.growth_options import GrowthOptions


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(800, n_features=6, noise=0.5, random_state=0)
    return train_test_split(X, y, test_size=0.25, random_state=0)


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
            ValueError,
            match="predict_interval needs a forest fitted in memory, not stopped before its first trees, some of",
        ):
            model.predict_interval(b)


@pytest.mark.parametrize("subsets", ["local", "global"])
def test_masks_can_be_written(subsets):
    """Kernels are compiled again for arrays that cannot."""
    masks = GrowthOptions(max_features=2, subsets=subsets).masks(7, 5, np.random.default_rng(0))
    assert masks.flags.writeable
    assert masks.shape == (7, 5)
    assert (masks.sum(axis=1) == 2).all()
    assert (masks == masks[0]).all() == (subsets == "global")


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


def test_deep_linear_leaves_do_not_fall_apart(needs_data):
    X, y = datasets.load("puma32H", as_arrays=True)
    a, b, c, d = train_test_split(X, y, test_size=0.5, random_state=0)
    assert TAOForestRegressor(4, max_depth=10, kind="oblique", random_state=0).fit(a, c).score(b, d) > 0.85


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
    for model in (TAOForestClassifier(12, random_state=0), BoostedTreesClassifier(n_estimators=20, random_state=0)):
        model.fit(a, c)
        assert model.score(b, d) > 0.96
        shares = model.predict_proba(b)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        assert np.array_equal(model.classes_[shares.argmax(axis=1)], model.predict(b))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be an integer >= 1 or 'auto'; got 0"),
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


def test_small_data_are_stacked_by_default():
    X, y = make_friedman1(400, noise=1.0, random_state=0)
    new_X, new_y = make_friedman1(2000, noise=1.0, random_state=1)
    model = TAOForestRegressor(random_state=0).fit(X, y)
    assert model.kind_ == "stacked"
    assert 30 <= len(model.forest_.trees) <= 100
    assert np.isnan(model.shrinkage_)
    assert model.oob_loss_ == pytest.approx(np.mean((model.predict(new_X) - new_y) ** 2), rel=0.25)
    inside = model.predict_interval(new_X, 0.9)
    assert 0.8 < np.mean((inside[:, 0] <= new_y) & (new_y <= inside[:, 1])) <= 0.99
    assert model.predict(new_X) == pytest.approx(TAOForestRegressor(random_state=0, n_jobs=1).fit(X, y).predict(new_X))
    assert TAOForestRegressor(5, random_state=0).fit(X, y).kind_ != "stacked"
    assert TAOForestRegressor(10, warm_start=True, random_state=0).fit(X, y).kind_ != "stacked"
    with pytest.raises(ValueError, match="warm_start adds trees of one kind; got kind='stacked'"):
        TAOForestRegressor(kind="stacked", warm_start=True).fit(X, y)
    grown = TAOForestRegressor(40, warm_start=True, random_state=0).fit(X, y)
    assert len(grown.set_params(n_estimators="auto").fit(X, y).forest_.trees) == 40  # as many as there are
    model.set_params(warm_start=True, n_estimators=40).fit(X, y)  # a forest to which trees can be added takes its place
    assert model.kind_ != "stacked"
    assert len(model.forest_.trees) == 40


def test_classes_are_stacked():
    X, y = load_iris(return_X_y=True)
    model = TAOForestClassifier(12, random_state=0).fit(X[::2], y[::2])
    assert model.kind_ == "stacked"
    assert model.score(X[1::2], y[1::2]) > 0.9
    rare = np.where(np.arange(75) == 0, 3, y[::2])  # a class of one row, which no fold can share
    assert set(TAOForestClassifier(10, random_state=0).fit(X[::2], rare).classes_) == {0, 1, 2, 3}


@pytest.mark.parametrize("rare", [12, 30])
def test_a_rare_class_has_no_probability_of_zero(rare):
    losses = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(6000, 10))
        score = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=6000)
        y = np.concatenate([np.argsort(np.argsort(-part)) < rare for part in (score[:3000], score[3000:])])
        model = TAOForestClassifier(random_state=seed).fit(X[:3000], y[:3000])
        found = model.predict_proba(X[3000:])[:, 1]
        assert found.min() >= rare / 3000 / 3001
        share = rare / 3000
        constant = -share * np.log(share) - (1 - share) * np.log(1 - share)
        losses.append(-np.mean(np.log(np.where(y[3000:], found, 1 - found))) / constant)
    # 1.67 and 1.68 where no leaf has the frequencies of the classes; of twelve rows it differs between machines, by .04
    assert np.mean(losses) < 1.2


@pytest.mark.parametrize("depth", ["cv", "oob"])
def test_ctrl_c_in_the_search_for_the_depth_keeps_a_forest(friedman, monkeypatch, depth):
    from opttree.estimators import forest
    from opttree.runtime.interrupts import InterruptedFitWarning

    keep_last, fits = forest.keep_last, []

    def interrupting(solve):
        fits.append(keep_last(solve))
        if len(fits) == 2:
            signal.raise_signal(signal.SIGINT)
            fits[-1] = keep_last(solve)
        return fits[-1]

    monkeypatch.setattr(forest, "keep_last", interrupting)
    X, new, y, wanted = friedman
    model = TAOForestRegressor(random_state=0, max_depth=depth, on_interrupt="keep")
    with pytest.warns(InterruptedFitWarning):
        model.fit(X, y)
    assert model.score(new, wanted) > 0.6  # a constant before
    assert model.result_.termination.name == "INTERRUPTED"
    assert np.isnan(model.oob_prediction_).all() == (depth == "cv")


def test_the_frequencies_of_classes_are_in_no_leaf_where_they_do_not_help(friedman):
    X, _X, y, _y = friedman
    apart = TAOForestClassifier(12, random_state=0).fit(X, X[:, 0] > 0.5)
    assert apart.predict_proba(X).min() < 1e-6
    printed = TAOForestClassifier(12, preset="paper", max_depth=5, random_state=0).fit(X, y > 20)
    assert printed.predict_proba(X).min() < 1e-6


def test_a_forest_says_what_its_trees_are(needs_data):
    X, y = datasets.load("airfoil", as_arrays=True)
    for kind in ("auto", "oblique", "axis", "cart", "extra"):
        model = TAOForestRegressor(12, warm_start=kind == "auto", max_depth=2, kind=kind, random_state=0).fit(X, y)
        assert model.get_depth() <= 2
        assert model.depth_ == model.get_depth()
        assert model.kind_ == kind or (kind == "auto" and model.kind_ in ("oblique", "cart"))
        assert model.kind_ == "oblique" or all(tree.is_axis_aligned for tree in model.forest_.trees)
    mixed = TAOForestRegressor(12, max_depth=2, random_state=0).fit(X, y)
    assert (mixed.kind_, mixed.depth_) == ("stacked", 2)
    grown = TAOForestRegressor(4, kind="cart", random_state=0).fit(X, y)
    assert grown.depth_ == grown.get_depth() > 10
    tao, cart = (TAOForestRegressor(4, kind=kind, max_depth=4, random_state=0).fit(X, y) for kind in ("axis", "cart"))
    assert [tree.A.tolist() for tree in tao.forest_.trees] != [tree.A.tolist() for tree in cart.forest_.trees]


@pytest.fixture(scope="module")
def few_rows():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


def test_sparse_leaves_are_chosen_where_they_cost_nothing(few_rows):
    X, y = few_rows
    model = opttree.TAOForestRegressor(20, max_depth=2, kind="oblique", random_state=0).fit(X, y)
    dense = opttree.TAOForestRegressor(20, max_depth=2, kind="oblique", leaf_lasso=0.0, random_state=0).fit(X, y)
    assert model.leaf_lasso_ in (0.0, 0.003, 0.01, 0.03)
    assert model.oob_loss_ <= 1.005 * dense.oob_loss_ * (1 + 1e-9)
    assert model.n_parameters_ <= dense.n_parameters_
    flat = opttree.TAOForestRegressor(8, kind="cart", random_state=0).fit(X, y)
    assert flat.leaf_lasso_ == 0.0


def test_quantiles_pool_the_errors_of_rows_in_the_same_leaves(rng):
    from opttree.estimators.quantiles import Pool, pooled

    leaf, errors = np.array([[0, 2], [0, 3], [1, 3]], np.int32), np.array([[1.0], [2.0], [4.0]])
    weight = np.array([1.0, 1.0, 2.0])
    # a new row in leaves 0 and 3: shares 1/2 + 0, 1/2 + 1/3, 0 + 2/3 of the three rows
    found = pooled(Pool(leaf, errors, weight), np.array([[0, 3]], np.int32), np.array([0.2, 0.5, 0.66, 0.7]))
    assert found[0, 0].tolist() == [1.0, 2.0, 2.0, 4.0]
    X = rng.uniform(-1, 1, size=(1500, 3))
    y = X[:, 0] + np.where(X[:, 1] > 0, 0.1, 1.0) * rng.normal(size=1500)
    model = TAOForestRegressor(kind="extra", min_samples_leaf=10, keep_errors=True, random_state=0)
    model.fit(X[:1000], y[:1000])
    low, middle, high = model.predict_quantile(X[1000:], (0.05, 0.5, 0.95)).T
    assert np.all(low <= middle)
    assert np.all(middle <= high)
    assert 0.82 < ((low <= y[1000:]) & (y[1000:] <= high)).mean() < 0.98
    wide = high - low
    assert wide[X[1000:, 1] < 0].mean() > 1.3 * wide[X[1000:, 1] > 0].mean()
    assert model.predict_quantile(X[:5], (0.9, 0.1))[:, 0] == pytest.approx(model.predict_quantile(X[:5], [0.9])[:, 0])
    two = TAOForestRegressor(5, keep_errors=True, random_state=0).fit(X[:300], np.column_stack([y, -y])[:300])
    assert two.predict_quantile(X[:4], (0.25, 0.75)).shape == (4, 2, 2)
    with pytest.raises(ValueError, match="quantiles must be probabilities between 0 and 1"):
        model.predict_quantile(X, [1.0])
    plain = model.set_params(keep_errors=False).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="predict_quantile needs a fit in memory with keep_errors=True"):
        plain.predict_quantile(X)


@pytest.mark.parametrize("classes", [False, True])
def test_keys_of_more_than_256_levels_are_told_apart(rng, classes):
    """Trees in 256 bins had 256 leaves: R2 .17 of 1,500 keys."""
    level = rng.normal(size=700)
    key = rng.integers(0, 700, size=8000)
    X = np.column_stack([key, rng.integers(0, 2, size=8000)]).astype(float)
    y = (level > 0)[key] if classes else level[key] + X[:, 1] + 0.1 * rng.normal(size=8000)
    kind = TAOForestClassifier if classes else TAOForestRegressor
    model = kind(10, kind="cart", random_state=0).fit(X[:4000], y[:4000])
    assert model.score(X[4000:], y[4000:]) > (0.97 if classes else 0.88)
    assert max(tree.n_leaves for tree in model.forest_.trees) > 300
    assert max(tree.depth for tree in kind(10, kind="cart", max_depth=6).fit(X[:4000], y[:4000]).forest_.trees) <= 6


def test_leaves_of_many_rows_end_where_bins_cannot_be_cut(rng):
    """Most rows in one of many values: what is left of a leaf has too few rows on one side, in finer bins, too."""
    X = np.where(rng.random((4000, 2)) < 0.9, 0.5, rng.random((4000, 2)))
    y = X[:, 0] + rng.normal(size=4000)
    model = TAOForestRegressor(3, kind="cart", min_samples_leaf=150, random_state=0).fit(X, y)
    assert all(np.bincount(tree.apply(X))[tree.n_branches :].min() >= 50 for tree in model.forest_.trees)


def test_a_single_tree_of_many_rows_is_of_the_best_kind(rng):
    X = rng.normal(size=(9000, 6))
    model = TAOForestRegressor(1, random_state=0).fit(X, X.sum(axis=1) + 0.1 * rng.normal(size=9000))
    assert model.kind_ == "oblique"
