"""The nearest row with another answer."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from opttree import TAOClassifier, TAORegressor, explain
from tests.export_models import fitted, table


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


def test_the_values_that_are_printed_flip_the_answer():
    X = pd.DataFrame({"b": np.arange(0.0, 100.0, 2.0)})
    model = TAOClassifier(1, splits="axis", random_state=0).fit(X, np.where(X.b < 51, "u", "v"))
    for row, ended in (([10.0], "v"), ([90.0], "u")):
        start = pd.DataFrame({"b": row})
        words = str(explain.counterfactual(model, start))
        value = float(words.split(" to ")[1].split(" ")[0])
        assert model.predict(pd.DataFrame({"b": [value]}))[0] == ended
