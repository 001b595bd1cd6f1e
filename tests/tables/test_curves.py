"""Curves to normal scores: ranks, ties, values that nearly agree or are huge, and what they tell of rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from opttree.tables.curves import FEWEST, Curves


def test_scores_are_normal_whatever_the_distribution():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.exponential(size=2000), rng.normal(size=2000) ** 3, rng.random(2000)])
    Z = Curves.normal(X).transform(X)
    ranks = X.argsort(axis=0).argsort(axis=0)
    np.testing.assert_allclose(Z, norm.ppf((ranks + 0.5) / 2000), atol=0.4)
    np.testing.assert_allclose(Z.std(axis=0), 1.0, atol=0.01)
    far = Curves.normal(X).transform([[1e9] * 3, [-1e9] * 3])
    np.testing.assert_allclose(far, [[norm.ppf(1 - 0.5 / 2000)] * 3, [norm.ppf(0.5 / 2000)] * 3])


def test_equal_values_have_the_mean_of_their_scores():
    X = np.repeat([0.0, 1.0], [30, 70])[:, None]
    Z = Curves.normal(X).transform(X)
    assert Z[0, 0] == pytest.approx(norm.ppf((np.arange(30) + 0.5) / 100).mean(), abs=0.05)
    assert Z[-1, 0] == pytest.approx(norm.ppf((np.arange(30, 100) + 0.5) / 100).mean(), abs=0.05)
    assert not Curves.normal(np.ones((9, 1))).transform([[1.0], [7.0]]).any()


@pytest.mark.parametrize("n", [1, 2, 3, 9, 10, 23, 1000])
@pytest.mark.parametrize("kind", ["few", "near", "huge", "tiny", "far"])
def test_curves_rise_and_are_finite(n, kind):
    rng = np.random.default_rng(n)
    X = {
        "few": rng.integers(0, 3, (n, 4)) * 1.0,
        "near": 5.0 + 1e-13 * rng.integers(0, 9, (n, 4)),
        "huge": rng.choice([-1.7e308, 0.0, 1.7e308], (n, 4)),
        "tiny": 1e-320 * rng.integers(0, 5, (n, 4)),
        "far": np.exp(50.0 * rng.normal(size=(n, 4))),
    }[kind]
    curves = Curves.normal(X)
    Z = curves.transform(X)
    for j in range(4):
        assert (np.diff(Z[np.argsort(X[:, j], kind="stable"), j]) >= -1e-12).all()
        if kind in ("few", "near") and n >= 23:
            assert len(np.unique(Z[:, j])) == len(np.unique(X[:, j]))
    assert np.isfinite(Z).all()
    assert curves == Curves(curves.to_list())


def test_no_knot_tells_the_value_of_a_row():
    X = np.random.default_rng(0).normal(size=(300, 1))
    at, _to = Curves.normal(X).knots[0]
    assert not np.isin(at, X).any()
    assert (np.histogram(X[:, 0], at[1:-1])[0] >= FEWEST // 2).all()


@pytest.mark.parametrize(
    ("knots", "words"),
    [
        ([([0.0, 1.0], [0.0])], "as many finite numbers"),
        ([([], [])], "at least one"),
        ([([0.0, np.inf], [0.0, 1.0])], "finite"),
        ([([1.0, 0.0], [0.0, 1.0])], "must ascend"),
        ([([0.0, 1.0], [1.0, 0.0])], "must not descend"),
    ],
)
def test_other_knots_are_refused(knots, words):
    with pytest.raises(ValueError, match=words):
        Curves(knots)


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"shape \(n, 1\)"):
        Curves([([0.0], [0.0])]).transform(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.arange(5.0), r"X must have shape \(n, p\) with n >= 1; got \(5,\)"),
        (np.empty((0, 2)), r"X must have shape \(n, p\) with n >= 1; got \(0, 2\)"),
        (np.array([[1.0], [np.inf]]), "X must be finite; got inf"),
        (np.array([[1.0], [np.nan]]), "X must be finite; got nan"),
    ],
)
def test_normal_scores_are_of_finite_tables(X, words):
    with pytest.raises(ValueError, match=words):
        Curves.normal(X)
