"""Explanations: Shapley values against their definition, paths in words, nearest rows with another answer."""

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import opttree
from opttree import TAOClassifier, TAORegressor, explain
from opttree.model.files import as_saved
from tests.export_models import MODELS, fitted, table
from tests.test_kernels import random_tree


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
    saved = as_saved(model)

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


@pytest.mark.parametrize("name", MODELS)
def test_paths_end_in_the_answer(name):
    model, X = fitted(name)
    row = X[5:6]
    words = explain.path(model, row)
    answer = model.predict(row)[0]
    assert words.startswith(f"target = {answer}" if isinstance(answer, str) else "target = ")
    saved = as_saved(model)
    if isinstance(saved.tree, opttree.Tree) and not saved.tree.mixture:
        depth = saved.tree.node_depth[saved.tree.apply(saved.table(row))[0]]
        assert len(words.splitlines()) == depth + 2
    assert model.explain(row) == words


def test_a_path_wants_one_row():
    model, X = fitted("TAO, oblique")
    assert explain.path(model, X[0]) == explain.path(model, X[:1])
    with pytest.raises(ValueError, match="row must be one row; got 2"):
        explain.path(model, X[:2])


def nearest_by_search(tree, x, wanted, scale, norm):
    """The nearest row of each leaf that answers otherwise, by a general optimizer."""
    best = np.inf
    for leaf in range(tree.n_leaves):
        if not wanted(leaf):
            continue
        node, limits = tree.n_branches + leaf, []
        parents = {int(kid): (t, side) for t in range(tree.n_branches) for side, kid in enumerate(tree.children[t])}
        while node in parents:
            node, side = parents[node]
            sign = 1.0 if side == 0 else -1.0
            limits.append((sign * tree.A[node], sign * tree.b[node]))
        m = x.size
        if norm == "l2":
            found = minimize(
                lambda z: np.sum(((z - x) / scale) ** 2), x, method="SLSQP", options={"maxiter": 500, "ftol": 1e-14},
                constraints=[{"type": "ineq", "fun": lambda z, a=a, c=c: c - a @ z} for a, c in limits],
            )  # fmt: skip
            slack = min([c - a @ found.x for a, c in limits], default=0.0)
            if slack > -1e-6:
                best = min(best, found.fun)
        else:
            from scipy.optimize import linprog

            rows = [np.concatenate([a, -a]) for a, _c in limits]  # x + up - down
            sides = [c - a @ x for a, c in limits]
            found = linprog(
                np.concatenate([1 / scale, 1 / scale]),
                A_ub=rows or None,
                b_ub=sides or None,
                bounds=[(0, None)] * (2 * m),
            )
            if found.status == 0:
                best = min(best, found.fun)
    return best


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("seed", range(8))
def test_counterfactuals_are_the_nearest(seed, norm):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    tree = TAOClassifier(3, splits=("axis", "oblique")[seed % 2], random_state=seed).fit(X, y).tree_
    x = X[seed]
    now = tree.predict(x[None])[0]
    found = explain.counterfactual(tree, x, norm=norm)
    assert found.answer != now
    assert tree.predict(found.features[None])[0] == found.answer
    assert tree.apply(found.features[None])[0] == found.leaf
    labels = tree.classes[np.argmax(tree.values, axis=1)]
    best = nearest_by_search(tree, x, lambda leaf: labels[leaf] != now, np.asarray(tree.spread), norm)
    assert found.distance == pytest.approx(best, rel=1e-4, abs=1e-6)


def test_counterfactuals_of_linear_leaves_reach_the_interval():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = TAORegressor(2, leaves="linear", random_state=0).fit(X, X @ [1.0, 2.0, 0.0] + (X[:, 2] > 0))
    x, now = X[0], model.predict(X[:1])[0]
    found = explain.counterfactual(model, x, (now + 1.0, now + 5.0))
    assert now + 1.0 - 1e-6 <= found.answer <= now + 5.0
    grid = rng.normal(size=(20_000, 3)) * 2.0
    inside = (model.predict(grid) >= now + 1.0) & (model.predict(grid) <= now + 5.0)
    nearest = np.min(np.sum(np.abs(grid[inside] - x) / X.std(axis=0), axis=1))
    assert found.distance <= nearest + 1e-9
    with pytest.raises(ValueError, match="target must be an interval"):
        explain.counterfactual(model, x)
    with pytest.raises(ValueError, match="no row within the bounds"):
        explain.counterfactual(model, x, (1e9, 2e9))


def test_counterfactuals_of_tables_change_levels_and_heed_what_is_fixed():
    X = pd.DataFrame(
        {"colour": ["red", "blue", "green"] * 40, "size": np.tile(np.arange(12.0), 10), "ok": [True, False] * 60}
    )
    y = np.where((X["colour"] == "red") | (X["size"] > 8), "yes", "no")
    model = TAOClassifier(3, splits="axis", random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    row = X[X["colour"] == "blue"][:1]
    found = explain.counterfactual(model, row)
    assert model.predict(row)[0] == "no"
    assert found.answer == "yes"
    assert found.changes == {"colour": ("blue", "red")}
    assert found.distance == pytest.approx(1.0)
    fixed = explain.counterfactual(model, row, fixed=["colour"])
    assert set(fixed.changes) == {"size"}
    assert fixed.changes["size"][1] > 8.0
    assert "gives yes" in str(fixed)
    with pytest.raises(ValueError, match="no row within the bounds"):
        explain.counterfactual(model, row, fixed=["colour"], bounds={"size": (0.0, 7.0)})
    with pytest.raises(ValueError, match="fixed and bounds must name columns"):
        explain.counterfactual(model, row, fixed=["colours"])
    with pytest.raises(ValueError, match="norm='l2' is for trees of numbers"):
        explain.counterfactual(model, row, norm="l2")
    with pytest.raises(ValueError, match="target must be a class of the model"):
        explain.counterfactual(model, row, "perhaps")
    with pytest.raises(ValueError, match="needs a hard tree"):
        explain.counterfactual(fitted("ORRT")[0], np.zeros(6), (0, 1))


def test_missing_entries_stay_missing():
    X, y = table(400)
    model = TAORegressor(3, splits="axis", random_state=0).fit(X, y)
    row = X[X["score"].isna()][:1]
    now = model.predict(row)[0]
    found = explain.counterfactual(model, row, (now + 1.0, now + 9.0))
    assert "score" not in found.changes
    assert now + 1.0 <= found.answer <= now + 9.0


def test_bad_arguments_are_named():
    model, X = fitted("TAO, axis")
    with pytest.raises(ValueError, match="background must hold at least one row"):
        explain.shap_values(model, X[:2], X[:0])
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1 or None; got 0"):
        explain.shap_values(model, X[:2], X[:5], n_samples=0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_units_do_not_matter_to_counterfactuals(scale, norm):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    shift = np.array([1.6 * scale, 0.0, 0.0])
    tree = TAOClassifier(2, random_state=0).fit(X, y).tree_
    other = tree.unscale(shift, np.array([scale, 1.0, 1.0])).with_spread(np.asarray(tree.spread) * [scale, 1.0, 1.0])
    for x in X[:5]:
        one = explain.counterfactual(tree, x, norm=norm)
        two = explain.counterfactual(other, x * [scale, 1.0, 1.0] + shift, norm=norm)
        assert two.distance == pytest.approx(one.distance, rel=1e-3, abs=1e-5)
        assert other.predict(two.features[None])[0] == two.answer == one.answer


def test_numbers_beyond_those_of_training_are_not_missing():
    rng = np.random.default_rng(1)
    v = np.where(rng.random(400) < 0.25, np.nan, rng.uniform(0.0, 10.0, 400))
    y = np.where(np.isnan(v), "C", np.where(v > 5.0, "B", "A"))
    frame = pd.DataFrame({"v": v})
    model = TAOClassifier(2, splits="axis", random_state=0).fit(frame, y)
    for value in (30.0, -20.0):
        row = pd.DataFrame({"v": [value]})
        found = explain.counterfactual(model, row)
        assert found.answer == {"A": "B", "B": "A"}[model.predict(row)[0]]
        changed = pd.DataFrame({"v": [found.changes["v"][1]]})
        assert model.predict(changed)[0] == found.answer
    with pytest.raises(ValueError, match="all of them are missing"):
        explain.counterfactual(model, pd.DataFrame({"v": [np.nan]}))


def test_dates_of_counterfactuals_can_be_written():
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(60) * 3607, unit="s")
    frame = pd.DataFrame({"d": days})
    model = TAOClassifier(1, splits="axis", random_state=0).fit(frame, np.repeat([0, 1], 30))
    found = explain.counterfactual(model, frame[:1])
    written = pd.DataFrame({"d": [pd.Timestamp(found.changes["d"][1])]})
    assert model.predict(written)[0] == found.answer == 1


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


def test_the_unit_of_a_column_with_blanks_is_its_deviation():
    rng = np.random.default_rng(0)
    Z = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400)})
    Z.loc[::4, "a"] = np.nan
    y = ((Z["a"] > 0.8) | (Z["b"] > 0.6)).astype(int)
    model = TAOClassifier(3, splits="axis", random_state=0).fit(Z, y)
    found = explain.counterfactual(model, pd.DataFrame({"a": [0.0], "b": [0.0]}))
    assert set(found.changes) == {"b"}
    other = explain.counterfactual(model, pd.DataFrame({"a": [0.0], "b": [0.0]}), fixed=["b"])
    assert other.distance == pytest.approx(other.changes["a"][1] / Z["a"].std(ddof=0), rel=1e-6)
