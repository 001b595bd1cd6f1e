"""Units, offsets and the limits of numbers, for every regressor."""

import numpy as np
import pytest

from opttree import (
    BoostedTreesRegressor,
    GETRegressor,
    GradTreeRegressor,
    HRTRegressor,
    ORRTRegressor,
    ORTRegressor,
    SRTRegressor,
    TAOClassifier,
    TAOForestRegressor,
    TAORegressor,
    TreeProblem,
)
from opttree.problems.exact.leaves import linear_absolute_leaf
from opttree.tables.numbers import LARGEST
from solvers import MIP, BranchAndBound, CartInit, solve

REGRESSORS = [
    TAORegressor(2),
    GETRegressor(2),
    SRTRegressor(2),
    ORRTRegressor(2, max_iter=20),
    ORTRegressor(2),
    GradTreeRegressor(2, epochs=30),
    HRTRegressor(2),
    TAOForestRegressor(3),
]


SCALED = [model for model in REGRESSORS if not isinstance(model, ORTRegressor)]  # ranks suffice for this one


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


@pytest.mark.parametrize("model", SCALED, ids=repr)
def test_features_too_small_to_scale_are_refused(table, model):
    X, y = table
    with pytest.raises(
        ValueError, match=r"X column 0 must hold numbers above 1e-150 in size, or zeros alone; got at mo"
    ):
        model.fit(X * 1e-310, y)


@pytest.mark.parametrize("scale", [2.0**-495, 2.0**495])
@pytest.mark.parametrize("model", [*REGRESSORS, TAOClassifier(2)], ids=repr)
def test_numbers_within_the_limits_make_the_same_tree(table, model, scale):
    X, y = table
    y = y > 0.0 if isinstance(model, TAOClassifier) else y
    model.set_params(random_state=0)
    scaled = model.fit(X * scale, y).predict(X * scale)
    plain = model.fit(X, y).predict(X)
    np.testing.assert_allclose(scaled.astype(float), plain.astype(float), atol=1e-9)


@pytest.mark.parametrize("name", ["X", "y"])
def test_numbers_beyond_the_limit_are_refused(table, name):
    X, y = table
    X, y = (X * 1e200, y) if name == "X" else (X, y * 1e200)
    with pytest.raises(ValueError, match=rf"{name} must hold numbers of at most 1e\+150 in size; got "):
        TreeProblem(X, y, depth=2)
    with pytest.raises(ValueError, match=f"{name} must hold numbers of at most"):
        TAORegressor(2).fit(X, y)
    with pytest.raises(ValueError, match="X must hold numbers of at most"):
        TAORegressor(2).fit(table[0], table[1]).predict(table[0] * 1e200)


def test_numbers_at_the_limit_have_finite_objectives(table):
    X, y = table
    X, y = X / np.abs(X).max() * LARGEST, y / np.abs(y).max() * LARGEST
    for solver in (CartInit(), BranchAndBound()):
        assert np.isfinite(solve(TreeProblem(X, y, depth=2, splits="axis"), solver).objective)


@pytest.mark.parametrize("offset", [1e13, 1e15])
@pytest.mark.parametrize("model", SCALED, ids=repr)
def test_columns_that_vary_too_little_are_refused(table, model, offset):
    X, y = table
    with pytest.raises(ValueError, match=r"X column 0 must vary by more than 1e-12 of its size; got numbers within"):
        model.fit(X + offset, y)
    with pytest.raises(ValueError, match=r"y must vary by more than 1e-12 of its size"):
        model.fit(X, y + offset)


def test_large_offsets_that_are_allowed_do_not_move_rows(table):
    X, y = table
    model = GETRegressor(2, random_state=0).fit(X + 1e11, y)
    loss = np.mean(np.square(model.predict(X + 1e11) - y)) / y.var()
    assert loss == pytest.approx(model.result_.objective, rel=1e-6)


@pytest.mark.parametrize("units", [1, 4, 15])
def test_a_column_of_rounding_errors_is_constant(table, units):
    X, y = table
    noise = np.where(y > 0.0, 1.0, 1.0 - units * np.finfo(float).eps)  # as a total of shares
    assert np.ptp(noise) > 0.0
    plain = TAORegressor(2, leaves="linear", random_state=0).fit(np.column_stack([X, np.zeros(40)]), y)
    noisy = TAORegressor(2, leaves="linear", random_state=0).fit(np.column_stack([X, noise]), y)
    np.testing.assert_allclose(
        noisy.predict(np.column_stack([X, noise])), plain.predict(np.column_stack([X, X[:, 0] * 0]))
    )
    assert not noisy.tree_.coefs[:, :, 3].any()


def test_a_column_that_varies_in_rows_of_hardly_any_weight_is_taken(table):
    X, y = table
    rare, weight = np.eye(40)[7], np.where(np.arange(40) == 7, 1e-25, 1.0)
    model = TAORegressor(2, random_state=0).fit(np.column_stack([X, rare]), y, sample_weight=weight)
    assert np.isfinite(model.predict(np.column_stack([X, rare]))).all()


@pytest.mark.parametrize("change", [lambda X: X * 1e-310, lambda X: X + 1e13, lambda X: X + 1e15])
def test_trees_of_axis_aligned_splits_need_no_scale(table, change):
    X, y = table
    X, model = change(X), ORTRegressor(2, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.3
    with pytest.raises(ValueError, match=r"y must vary by more than 1e-12 of its size"):
        model.fit(X, y + 1e15)


def test_an_offset_does_not_change_what_is_proved():
    X, y = (1e15 + np.arange(8.0))[:, None], np.random.default_rng(0).normal(size=8)
    for solver in (BranchAndBound(), MIP()):
        found = [solve(TreeProblem(Z, y, depth=3, splits="axis"), solver).objective for Z in (X, X - 1e15)]
        assert found[0] == pytest.approx(found[1], abs=1e-12)


def test_features_near_the_largest_double_are_refused_without_a_warning():
    """scikit-learn adds up all entries to look for what is not finite: infinity less infinity."""
    X = np.repeat([[1.5e308], [-1.5e308]], 6, axis=0)[[0, 1, 2, 3, 6, 7, 8, 9, 4, 10, 5, 11]]
    model = BoostedTreesRegressor(n_estimators=2, validation_fraction=None, random_state=0)
    with pytest.raises(ValueError, match="X must hold numbers of at most"):
        model.fit(X, np.arange(12.0))
    fitted = model.fit(np.arange(12.0)[:, None], np.arange(12.0))
    with pytest.raises(ValueError, match="X must hold numbers of at most"):
        fitted.predict(X)


@pytest.mark.parametrize(("unit", "far"), [(1.0, 0.0), (1e30, 0.0), (1e-30, 0.0), (1.0, 1e9), (1e12, 1e15)])
def test_linear_leaves_of_least_deviations_have_no_units(unit, far):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 50, size=(20, 2)).astype(float)
    y = X[:, 0] - 2.0 * X[:, 1] + rng.normal(size=20)
    usual = TreeProblem(X, y, 1, "axis", leaves="linear", loss="absolute")
    other = TreeProblem(X * unit + far, y, 1, "axis", leaves="linear", loss="absolute")
    rows = np.arange(20)
    (values, coefs, cost), (a, b, c) = (linear_absolute_leaf(problem, rows) for problem in (usual, other))
    assert c == pytest.approx(cost, rel=1e-6)
    assert other.X @ b[0] + a[0] == pytest.approx(X @ coefs[0] + values[0], abs=1e-4)


@pytest.mark.parametrize("value", [1.0 / 3.0, 1e-200])
def test_linear_leaves_of_constant_features_are_constants(value):
    """More features than rows, and nothing to learn from them: the products were 0, and were divided by."""
    X = np.full((3, 50), value)
    X[1] *= 1.0 if value > 0.1 else 2.0
    problem = TreeProblem(X, np.array([1.0, 2.0, 6.0]), 1, leaves="linear")
    assert problem.fit_leaves(problem.best_constant()).predict(X) == pytest.approx([3.0, 3.0, 3.0])
