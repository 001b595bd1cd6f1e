"""Shapley values against their definition."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

import opttree
from opttree import TAORegressor, explain
from opttree.model.files import as_saved
from tests.export_models import MODELS, fitted, table
from tests.trees import random_tree


def by_definition(answer, z, background):
    """Shapley values of one row, coalition by coalition."""
    p = len(z)

    def value(inside):
        rows = background.copy()
        rows[:, list(inside)] = z[list(inside)]
        return answer(rows).mean(axis=0)

    found = []
    for j in range(p):
        others = [k for k in range(p) if k != j]
        total = 0.0
        for size in range(p):
            weight = 1.0 / (p * comb(p - 1, size))
            for inside in combinations(others, size):
                total = total + weight * (value((*inside, j)) - value(inside))
        found.append(total)
    return np.array(found)


@pytest.mark.parametrize("seed", range(50))
def test_shapley_values_are_those_of_the_definition(seed):
    """50 small models: oblique and axis-aligned, constant and linear leaves, several outputs, soft trees, forests."""
    rng = np.random.default_rng(seed)
    p, depth, K = int(rng.integers(2, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    trees = [random_tree(rng, depth, p, K, linear=bool(seed % 2)) for _ in range(1 + 2 * (seed % 5 == 0))]
    if seed % 7 == 3:
        trees = [opttree.Tree(t.children, t.A, t.b, t.values, t.coefs, gate=2.0, mixture=True) for t in trees]
    model = trees[0] if len(trees) == 1 else opttree.Forest((tuple(trees),), K)
    Z, background = rng.normal(size=(3, p)), rng.normal(size=(7, p))
    found = explain.shap_values(model, Z, background)
    assert found.is_exact
    for z, values in zip(Z, found.values.reshape(3, p, K), strict=True):
        np.testing.assert_allclose(values, by_definition(model.outputs, z, background), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        found.values.reshape(3, p, K).sum(axis=1), model.outputs(Z) - model.outputs(background).mean(axis=0), atol=1e-9
    )
    sampled = explain.shap_values(model, Z, background, n_samples=400, random_state=seed)
    assert not sampled.is_exact
    off = np.abs(sampled.values - found.values) / (sampled.error + 1e-9 * (1.0 + np.abs(found.values)))
    assert np.mean(off < 3.0) > 0.9


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("table")])
def test_columns_of_tables_move_as_a_whole(name):
    model, X = fitted(name)
    rows, background = X[:3], X[100:120].reset_index(drop=True)
    found = explain.shap_values(model, rows, background)
    assert found.names == tuple(X.columns)
    saved = as_saved(model, curves=True)

    def answer(inside, row):
        mixed = background.copy()
        for column in inside:
            mixed[column] = row[column].to_numpy()[[0] * len(mixed)]
        Z = saved.table(mixed)
        out = saved.tree.outputs(Z) if saved.tree.classes is None else saved.tree.predict_proba(Z)
        return out.mean(axis=0)

    row, columns = rows[:1], list(X.columns)
    p = len(columns)
    wanted = 0.0
    for size in range(p):
        for inside in combinations(columns[1:], size):
            gain = answer((*inside, columns[0]), row) - answer(inside, row)
            wanted = wanted + gain / (p * comb(p - 1, size))
    np.testing.assert_allclose(found.values[0, 0], np.squeeze(wanted), atol=1e-9)


def test_tree_shap_takes_our_trees():
    shap = pytest.importorskip("shap")
    for name in ("TAO, axis", "TAO, axis, classes"):
        model, X = fitted(name)
        background = X[:40]
        theirs = shap.TreeExplainer(explain.to_shap(model), data=background)
        values = theirs.shap_values(X[100:120], check_additivity=False)
        ours = explain.shap_values(model, X[100:120], background)
        np.testing.assert_allclose(np.squeeze(values), ours.values, atol=1e-5)  # shap rounds to single precision
        exact = shap.TreeExplainer(explain.to_shap(model))  # by the path, without a background
        whole = np.squeeze(exact.shap_values(X[:5])).reshape(5, X.shape[1], -1).sum(axis=1)
        saved = as_saved(model).tree
        answer = saved.outputs(X[:5]) if saved.classes is None else saved.predict_proba(X[:5])
        np.testing.assert_allclose(whole + np.ravel(exact.expected_value), answer, atol=1e-5)
        assert ours.to_shap().values.shape == ours.values.shape
    with pytest.raises(ValueError, match="oblique splits"):
        explain.to_shap(fitted("TAO, oblique")[0])


def test_sampled_values_sum_and_stand_beside_their_columns():
    X, y = table(400)
    wide = X.assign(**{f"n{j}": np.random.default_rng(j).normal(size=400) for j in range(8)})
    model = TAORegressor(4, random_state=0).fit(wide, y + wide["n0"])
    for count in (30, 100, 300):
        found = explain.shap_values(model, wide[:5], wide[:count])
        assert not found.is_exact
        np.testing.assert_allclose(found.values.sum(axis=1), model.predict(wide[:5]) - found.base, atol=1e-9)
    saved = as_saved(model)
    turned = explain.shap_values(saved, wide[wide.columns[::-1]][:5], wide[:30])
    assert turned.names == tuple(wide.columns)
    assert list(turned.data[:, 0]) == list(wide["age"][:5])
