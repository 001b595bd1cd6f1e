"""Methods of the experiments: other libraries, parts of the rows, and what a row says of a model."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import ShuffleSplit, train_test_split
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from experiments import baselines, execute, methods
from experiments.planned import Method, Splits
from experiments.sizes import flops, sizes
from opttree import SDTRRegressor, TAORegressor
from tests.races.test_runner import small


def test_what_is_missing_is_said():
    with pytest.raises(methods.UnavailableError, match="hrt has no estimator for classification"):
        methods.estimator_class("hrt", "classification")
    with pytest.raises(ValueError, match=r"use must be one of .*get.*; got 'svm'"):
        methods.entry("svm")


def fake_library(name: str, monkeypatch) -> list[dict]:
    """A module in the place of XGBoost or LightGBM; returns what its regressors are made and fitted with."""
    seen: list[dict] = []

    class Regressor(SVR):
        def __init__(self, **options):
            super().__init__()
            seen.append(options)

        def fit(self, X, y, **options):
            seen.append({"rows": len(y), **options})
            return super().fit(X, y)

    module = SimpleNamespace(XGBRegressor=Regressor, LGBMRegressor=Regressor, early_stopping=lambda n, verbose: n)
    monkeypatch.setitem(sys.modules, name, module)
    return seen


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_boosted_trees_of_other_libraries_stop_on_held_out_rows(name, monkeypatch):
    seen = fake_library(name, monkeypatch)
    X, y, _task = execute.load("diabetes")
    options = {"n_estimators": 30, "max_depth": 3}
    model = methods.estimator(f"{name}-stopped", "regression", options, depth=None, seed=4, threads=1).fit(X, y)
    made, fitted = seen
    assert {k: made[k] for k in ("n_estimators", "n_jobs", "random_state")} == {
        "n_estimators": 30, "n_jobs": 1, "random_state": 4,
    }  # fmt: skip
    held_out = train_test_split(X, y, test_size=0.2, random_state=4)
    assert fitted["rows"] == len(held_out[0])
    ((valid_X, valid_y),) = fitted["eval_set"]
    assert np.array_equal(valid_y, held_out[3])
    assert model.validation_loss_ == pytest.approx(np.mean((model.predict(valid_X) - valid_y) ** 2))
    own = {"max_depth": 3, "early_stopping_rounds": 50} if name == "xgboost" else {"num_leaves": 7, "verbose": -1}
    assert own.items() <= made.items()
    assert name == "xgboost" or fitted["callbacks"] == [50]


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_without_its_library_a_method_that_stops_is_skipped(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    one = next(small(depths=(), methods={"boosted": Method(f"{name}-stopped")}).runs("v"))
    with pytest.raises(methods.UnavailableError, match=f"{name} needs {name}: pip install {name}"):
        execute.execute(one, 1)


def test_a_random_forest_is_tuned_on_held_out_rows(monkeypatch):
    monkeypatch.setattr(baselines, "FOREST_GRID", [{"min_samples_leaf": 200}, {"min_samples_leaf": 5}])
    one = next(small(depths=(), methods={"RF": Method("tuned-random-forest")}).runs("v"))
    row, _trace = execute.execute(one, 1)
    assert row["chosen"] == '{"min_samples_leaf": 5}'
    assert row["n_trees"] == 300
    assert row["test_r2"] > 0.2


def test_what_a_model_chose_by_itself_is_in_its_row():
    one = next(small(depths=(), methods={"f": Method("tao-forest", {"n_estimators": 2, "kind": "axis"})}).runs("v"))
    assert execute.execute(one, 1)[0]["chosen"] == '{"kind": "axis"}'
    auto = SimpleNamespace(best_member_="distilled", validation_loss_=0.5)
    assert execute.choices(auto, auto) == {"chosen": '{"best_member": "distilled"}', "validation_loss": 0.5}
    assert execute.choices(None, None) == {}


def test_the_first_of_several_targets():
    from experiments.execute import load

    _X, one, _task = load("linnerud:0")
    _X, three, _task = load("linnerud")
    assert one.shape == (20,)
    assert np.array_equal(one, three[:, 0])


def test_a_search_ends_with_a_fit_from_the_best_tree():
    from opttree import TAORegressor, Tree
    from solvers import HingeInit

    grid = {"max_depth": [1, 2], "init": ["HingeInit()", "random"]}
    method = Method("tao", {"leaves": "linear"}, grid, parts=2, warm=True, depth=False)
    one = next(small(methods={"TAO": method}).runs("v"))
    X, y, task = execute.load("diabetes")
    search = execute.search(TAORegressor(leaves="linear", random_state=0), one, y[:200], task)
    assert search.grids == [{"max_depth": [1, 2], "init": [HingeInit(), "random"]}]
    assert isinstance(search.cv, ShuffleSplit)
    best = search.fit(X[:200], y[:200]).best_estimator_
    assert isinstance(best.init, Tree)
    assert best.max_depth == search.best_params_["max_depth"]
    assert np.array_equal(search.predict(X), best.predict(X))
    row, _trace = execute.execute(one, 1)
    assert set(json.loads(row["chosen"])) == {"max_depth", "init"}


def test_outputs_are_standardised_for_methods_that_do_not_do_it_themselves(monkeypatch):
    monkeypatch.setitem(methods.METHODS, "svr", methods.Entry("sklearn.svm:SVR", seed="", threads=""))
    chosen = {"depths": (), "methods": {"SVR": Method("svr")}}
    raw, standard = (
        execute.execute(next(small(outputs=outputs, **chosen).runs("v")), 1)[0] for outputs in ("raw", "standard")
    )
    X, y, _task = execute.load("diabetes")
    X, test_X, y, test_y = train_test_split(X, y, test_size=0.25, random_state=0)
    predicted = SVR().fit(X, (y - y.mean()) / y.std()).predict(test_X) * y.std() + y.mean()
    assert standard["test_rmse"] == pytest.approx(np.sqrt(np.mean((predicted - test_y) ** 2)))
    assert standard["test_rmse"] < raw["test_rmse"] - 1.0


def test_folds_of_a_seed_hold_every_row_once(tmp_path):
    from experiments.execute import parts

    y = np.arange(50.0)
    for per_seed in (True, False):
        splits = Splits("kfold", k=4, per_seed=per_seed)
        tests = [[parts(splits, k, seed, y, "regression")[1] for k in range(4)] for seed in (0, 1)]
        assert all(np.array_equal(np.sort(np.concatenate(t)), np.arange(50)) for t in tests)
        assert np.array_equal(tests[0][0], tests[1][0]) is not per_seed


def test_classes_are_spread_over_the_parts():
    from experiments.execute import parts

    y = np.repeat([0.0, 1.0], [90, 10])
    _train, test = parts(Splits(test_size=0.2), 0, 0, y, "classification")
    assert y[test].sum() == 2
    _train, test = parts(Splits(test_size=0.2, stratify=False), 0, 0, y, "classification")
    assert np.array_equal(test, train_test_split(np.arange(100), test_size=0.2, random_state=0)[1])


def test_what_a_model_costs_is_in_its_row():
    X, y = load_diabetes(return_X_y=True)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, y)
    own = np.mean(np.diff(tree.decision_path(X.astype(np.float32)).indptr) - 1)
    assert flops(tree, X) == {"n_flops": pytest.approx(own)}
    forest = RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, y)
    assert 3 <= flops(forest, X)["n_flops"] <= 9
    model = TAORegressor(max_depth=2, random_state=0).fit(X, y)
    assert flops(model, X) == {"n_flops": pytest.approx(model.tree_.flops(X))}
    assert sizes(model)["n_nodes"] == model.tree_.n_nodes
    assert flops(LinearRegression(), X) == {}
    deep = SDTRRegressor(2, n_trees=2, n_layers=2, max_batches=5, quantile_transform=False, random_state=0).fit(X, y)
    assert flops(deep, X) == {}
    assert 0.0 < execute.one_row_microseconds(tree, X[:1], 20) < 1e6


def test_inner_parts_leave_the_test_rows_alone():
    y = np.random.default_rng(0).normal(size=200)
    for kind in ({"kind": "holdout"}, {"kind": "kfold", "k": 4}):
        train, test = execute.parts(Splits(**kind), 0, 3, y, "regression")
        inner, judged = execute.parts(Splits(**kind, inner=0.25, most=60), 0, 3, y, "regression")
        assert not set(test) & (set(inner) | set(judged))
        assert set(inner) | set(judged) < set(train)
        assert not set(inner) & set(judged)
        assert (len(inner), len(judged)) == (60, 38)
    with pytest.raises(ValueError, match=r"splits.inner must be"):
        Splits(inner=1.0)
    with pytest.raises(ValueError, match=r"splits.most must be"):
        Splits(most=-1)
