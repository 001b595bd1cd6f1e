"""Experiments: protocols, methods, the runner's resumption, limits, failures and back ends, the store."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import ShuffleSplit, train_test_split
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

import solvers
from experiments import baselines, execute, index, methods, protocol, reading, report
from experiments.__main__ import main
from experiments.planned import Method, Splits
from experiments.protocol import FOLDER, Protocol
from experiments.sizes import flops, sizes
from opttree import SDTRRegressor, TAORegressor
from solvers.conformance import example_solvers
from solvers.races import entries, runner, runs, sandbox, store as store_module
from solvers.races.runs import ROOT
from solvers.races.store import Store

VOLATILE = ["fit_seconds", "cpu_seconds", "predict_seconds", "predict_microseconds", "session", "finished"]


def small(**options) -> Protocol:
    """CART and TAO on diabetes, one seed; options go to `Protocol`."""
    chosen = {
        "name": "small",
        "title": "small",
        "datasets": ("diabetes",),
        "depths": (2,),
        "methods": {"CART": Method("cart"), "TAO": Method("tao")},
    }
    return Protocol(**{**chosen, **options})


def run(stated: Protocol, store: Store, **options):
    return runner.run(stated, store, progress=False, **options)


@pytest.fixture(autouse=True, scope="module")
def one_sandbox():
    """A sandbox takes seconds to start: it stays for the tests that follow, see `test_a_run_ends_its_sandboxes`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "close_all", lambda: None)
        yield
    sandbox.close_all()


# ---- protocols -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", reading.names())
def test_every_protocol_can_be_read_and_names_what_there_is(name):
    for budget in reading.read(name).budgets:
        stated = reading.read(name, budget)
        ids = [one.run_id for one in stated.runs("v")]
        assert len(ids) == len(set(ids)) > 0
        for method in stated.methods.values():
            if method.use:
                (methods.entry if stated.kind == "fit" else entries.solver)(method.use)
        path = FOLDER / "published" / f"{stated.published}.csv"
        if stated.published != stated.name and stated.published:
            assert path.exists()
        if path.exists():
            numbers = pd.read_csv(path)
            assert set(stated.metrics) & set(numbers["metric"])
            assert {stated.stands_for(label) for label in stated.methods} & set(numbers["method"])
            if stated.store == stated.name:  # others show some columns of another protocol's runs
                stated_ones = {method.stands_for for method in stated.methods.values() if method.stands_for}
                assert stated_ones <= set(numbers["method"])


def test_published_tables_have_their_protocols():
    tables = {path.stem for path in (FOLDER / "published").glob("*.csv")}
    assert {"get_table7", "tao_table1"} <= tables
    assert tables - set(reading.names()) == {"gradtree_table11", "tao_table3"}  # GeneticTree, MNIST: not to be had


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": "dance"}, "kind must be one of fit, solve; got 'dance'"),
        ({"datasets": ()}, "datasets must name at least one"),
        ({"depths": (0,)}, "depths must be >= 1"),
        ({"baseline": "RF"}, "baseline must be one of the methods CART, TAO; got 'RF'"),
        ({"tests": ("guess",)}, "tests must be among"),
        ({"time_limit": 0.0}, "time_limit must be > 0"),
        ({"kind": "solve"}, "a solve protocol must state depths, leaves and a time_limit"),
        ({"leaves": ("constant",)}, "leaves is for solve protocols"),
        ({"datasets": "airfoil"}, "datasets must be a list of names; got 'airfoil'"),
        ({"seeds": 3}, "seeds must be a list of integers; got 3"),
        ({"seeds": (0, 0)}, "seeds must hold each value once"),
        ({"tests": ("wilcoxon",)}, "paired_t and wilcoxon need a baseline; got none"),
        ({"outputs": "small"}, "outputs must be one of raw, standard, unit; got 'small'"),
        ({"groups": {"few": ["nowhere"]}}, "groups must be of data sets of the protocol"),
        ({"improvement": "RF"}, "improvement must be over one of the methods; got 'RF'"),
        (
            {"kind": "solve", "leaves": ("constant",), "time_limit": 1.0, "outputs": "standard"},
            "outputs must be raw or unit in a solve protocol",
        ),
        ({"threads": 0}, "threads must be >= 1; got 0"),
        (
            {"methods": {"a": Method("tao", grid={"n_init": [1]}, warm=True)}, "preprocess": "gradtree"},
            "warm is not for protocols with preprocess",
        ),
        (
            {"methods": {"a": Method("cart"), "b": Method(best_of=["a", "c"])}},
            "best_of must be the label of another method",
        ),
    ],
)
def test_a_protocol_says_what_it_should_not_hold(options, sentence):
    with pytest.raises(ValueError, match=f"protocol small: .*{sentence}"):
        small(**options)


def test_a_budget_overrides_and_a_protocol_extends():
    quick, full = reading.read("srt_tableC4", "quick"), reading.read("srt_tableC4")
    assert (quick.seeds, len(full.seeds)) == ((0,), 5)
    assert quick.depths == full.depths == (2,)
    assert quick.datasets == reading.read("srt_table2").datasets
    alike = reading.read("gradtree_table4").methods
    assert alike["Gumbel"].per_dataset == alike["Entmax"].per_dataset != {}
    printed = {"preset": "paper", "quantile_transform": False}
    assert alike["Entmax"].options == printed
    assert alike["Gumbel"].options == printed | {"index": "gumbel"}
    ablation = reading.read("sdtr_ablation").methods
    assert ablation["no L1 x 32"].options == {"n_trees": 32, "max_depth": 5, "l1": 0.0}
    with pytest.raises(ValueError, match="budget of srt_tableC4 must be one of full, quick, evening; got 'huge'"):
        reading.read("srt_tableC4", "huge")


def test_keys_that_came_later_leave_the_identity_of_older_runs():
    one = next(small().runs("v")).identity
    assert one["statement"] == "{}"
    assert not any(key in one["options"] + one["splits"] for key in ("parts", "warm", "stratify"))
    stated = small(
        outputs="standard",
        splits=Splits(stratify=False),
        methods={"TAO": Method("tao", grid={"n_init": [1, 2]}, parts=3, warm=True)},
    )
    one = next(stated.runs("v")).identity
    assert one["statement"] == '{"outputs":"standard"}'
    assert '"parts":3' in one["options"]
    assert '"warm":true' in one["options"]
    assert '"stratify":false' in one["splits"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('title = "odd"\ncolour = 1\n[methods.a]\nuse = "cart"', "protocol odd: unknown key 'colour'"),
        ("colour = 1", "protocol odd: title must be stated; got none"),
        (
            'title = "odd"\n[methods.a]\nuse = "cart"\nsize = 2',
            "protocol odd: method a must be a table of .*; got size",
        ),
        ('title = "odd"\n[methods]\na = 1', "protocol odd: method a must be a table of .*; got 1"),
        ('title = "odd"\n[methods.a]\nuse = "cart"\nparts = 0', "protocol odd: parts must be >= 1; got 0"),
        ('title = "odd"\n[methods.a]\nuse = "tao"\nwarm = true', "protocol odd: warm is for methods with a grid"),
        ('extends = "odd"', "protocol odd: extends must not lead back to itself"),
        ('title = "odd"\n[methods.a]\nlike = "b"', "protocol odd: like must be the label of another method; got 'b'"),
        ("title = ", "protocol odd: not TOML"),
    ],
)
def test_what_a_file_should_not_hold_is_named(text, sentence, tmp_path, monkeypatch):
    (tmp_path / "protocols").mkdir()
    (tmp_path / "protocols" / "odd.toml").write_text(text)
    monkeypatch.setattr(reading, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=sentence):
        reading.read("odd")


def test_the_code_version_ignores_comments_and_docstrings(tmp_path, monkeypatch):
    def version(text: str, name: str = "methods.py") -> str:
        runs.code_version.cache_clear()
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
        return Protocol.version()

    for name in protocol.WORKING:
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.setattr(protocol, "FOLDER", tmp_path)
    monkeypatch.setattr(runs, "ROOT", tmp_path)
    first = version('"""One."""\nx = 1\n')
    assert first == version('"""Two."""\n# a comment\nx  =  1\n') != version('"""One."""\nx = 2\n')
    assert version('x = option(1, "One.", least=0)') == version('x = option(1, doc="Two.", least=0)')
    assert version("x = option(1, least=0)") != version("x = option(1, least=1)")
    # what shows a race changes no row
    first = version("x = 1")
    assert first == version("y = 1", "solvers/races/page.py") != version("y = 1", "solvers/races/execute.py")
    assert version("x = 1") != version("y = 1", "solvers/tao/tao.py")
    assert all((ROOT / runs.RACES / name).is_file() for name in runs.WORKING)
    runs.code_version.cache_clear()


# ---- methods ---------------------------------------------------------------------------------------------------------


def test_a_solver_is_stated_as_in_python():
    from solvers import TAO, Chain, LocalSearch

    assert entries.solver("Chain(TAO(max_iter=3), LocalSearch(n_starts=2))") == Chain(
        TAO(max_iter=3), LocalSearch(n_starts=2)
    )
    assert entries.solver("GET.paper(n_starts=2)").n_starts == 2
    assert entries.solver(" TAO(max_iter=3) ") == TAO(max_iter=3)


@pytest.mark.parametrize("solver", example_solvers(vars(solvers)), ids=lambda solver: type(solver).__name__)
def test_solvers_are_what_their_texts_state(solver):
    assert entries.solver(repr(solver)) == solver


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "TAO().__class__",
        "TAO(",
        "1",
        "solve()",
        "TAO(max_iter=-1)",
        "GET._steps()",
        "Adam()",
        "-" * 10_000 + "1",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="use must state a solver"):
        entries.solver(text)


@pytest.mark.parametrize(
    "text",
    ["GET(**{'n_starts': 3})", "GET(n_starts=2, **{})", "Chain(*(GET(), TAO()))", "Chain(GET(**{'n_starts': 3}))"],
)
def test_no_option_gets_lost(text):
    with pytest.raises(ValueError, match=r"\(options must be stated one by one, without \* and \*\*\)"):
        entries.solver(text)
    with pytest.raises(ValueError, match=r"\(options must be stated once; got n_starts again\)"):
        entries.solver("GET(n_starts=1, n_starts=2)")


@pytest.mark.parametrize(
    "name",
    [
        *("check_solver", "certify", "solve", "Result", "SolverError", "Step", "Termination", "Trace", "Solver"),
        *("external.External", "external.base.Process", "external.worker", "external.libraries.CART", "external.TAO"),
        *("GET.brief", "GET.refusal", "GET.steps", "GET.mro", "GET.__init_subclass__", "TAO().steps"),
    ],
)
def test_a_text_calls_nothing_but_solvers_and_their_options(name, monkeypatch):
    from solvers import TAO

    monkeypatch.setattr(TAO, "__post_init__", lambda self: pytest.fail("an argument was built"))
    with pytest.raises(ValueError, match=rf"names must be of .*TAO, .*external\.STreeD; got {re.escape(name)}\)"):
        entries.solver(f"{name}(TAO())")


@pytest.mark.parametrize("text", ["TAO", "Chain(TAO, GET())", "GET.paper", "TAO(max_iter=n)"])
def test_arguments_are_constants_or_calls(text):
    with pytest.raises(ValueError, match="arguments must be constants or calls of solvers; got "):
        entries.solver(text)


def test_what_is_missing_is_said():
    with pytest.raises(methods.UnavailableError, match="hrt has no estimator for classification"):
        methods.estimator_class("hrt", "classification")
    with pytest.raises(ValueError, match=r"use must be one of tao, get.*; got 'svm'"):
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


# ---- the runner ------------------------------------------------------------------------------------------------------


def test_rows_traces_and_sessions_are_stored(tmp_path):
    store = Store("small", tmp_path)
    assert run(small(), store) == {"kept": 0, "ok": 2}
    rows = store.rows().set_index("method")
    assert rows.loc["CART", "n_parameters"] == 3 * 2 + 4
    assert rows.loc["TAO", "termination"] == "LOCALLY_OPTIMAL"
    assert rows["test_r2"].between(-1, 1).all()
    traces = store.traces()
    assert set(traces["key"]) == {rows.loc["TAO", "key"]}
    assert traces["best"].is_monotonic_decreasing
    session = store.sessions().iloc[0]
    assert session["jobs"] == 1
    assert "numpy" in session["libraries"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "small.parquet",
        "small.parts",
        "small.sessions.parquet",
        "small.traces.parquet",
    ]


def test_a_run_ends_its_sandboxes(tmp_path, monkeypatch):
    left = []
    monkeypatch.setattr(sandbox, "close_all", lambda: left.extend(sandbox._ALIVE))
    assert run(small(methods={"CART": Method("cart")}), Store("small", tmp_path)) == {"kept": 0, "ok": 1}
    assert sandbox._HERE.sandbox in left


def test_a_second_run_keeps_what_is_there_and_adds_the_rest(tmp_path):
    store = Store("small", tmp_path)
    run(small(), store)
    before = store.rows()
    assert run(small(seeds=(0, 1)), store) == {"kept": 2, "ok": 2}
    assert run(small(seeds=(0, 1)), store) == {"kept": 4}
    after = store.rows()
    pd.testing.assert_frame_equal(after[after["key"].isin(before["key"])].reset_index(drop=True), before)


def test_rows_of_another_version_of_the_code_do_not_count(tmp_path, monkeypatch):
    store = Store("small", tmp_path)
    for one in small().runs("other"):
        store.add(one, {"status": "ok", "reason": "", "row": {"test_r2": 0.5}}, "s")
    assert run(small(), store) == {"kept": 0, "ok": 2}
    assert len(store.rows()) == 4
    monkeypatch.setattr(Protocol, "version", staticmethod(lambda: "third"))  # files that change while a run goes on
    assert run(small(), store) == {"kept": 0, "failed": 2}
    assert "the code has changed" in store.rows()["reason"].iloc[-1]


def test_only_some_of_the_runs(tmp_path):
    store = Store("small", tmp_path)
    assert run(small(seeds=(0, 1)), store, only={"method": ["CART"], "seed": ["1"]}) == {"kept": 0, "ok": 1}
    both = {"method": ["CART,TAO"], "seed": ["0"]}
    assert run(small(seeds=(0, 1)), store, only=both) == {"kept": 0, "ok": 2}
    with pytest.raises(ValueError, match="--only method must be among CART, TAO; got 'GET'"):
        run(small(), store, only={"method": ["GET"]})


def test_failures_are_stored_and_tried_again(tmp_path):
    store = Store("small", tmp_path)
    broken = small(methods={"CART": Method("cart", {"min_samples_leaf": -1}), "TAO": Method("tao")})
    assert run(broken, store) == {"kept": 0, "failed": 1, "ok": 1}
    row = store.rows().set_index("method").loc["CART"]
    assert "min_samples_leaf" in row["reason"]
    assert "Traceback" in row["reason"]
    assert run(broken, store) == {"kept": 1, "failed": 1}


def test_a_failure_does_not_take_the_place_of_a_row(tmp_path, monkeypatch):
    store = Store("small", tmp_path)
    ended = {"status": "ok", "reason": "", "row": {"test_r2": 0.5, "termination": "TIME_LIMIT"}}
    for one in small(time_limit=5.0).runs(Protocol.version()):
        store.add(one, ended, "s")
    assert run(small(time_limit=5.0), store) == {"kept": 2}
    monkeypatch.setattr(sandbox.Sandbox, "run", lambda *_: {"status": "failed", "reason": "no"})
    assert run(small(time_limit=9.0), store) == {"kept": 0, "failed": 2}  # a higher limit: tried again
    assert list(store.rows()["status"]) == ["ok", "ok"]


def test_the_first_of_several_targets():
    from experiments.execute import load

    _X, one, _task = load("linnerud:0")
    _X, three, _task = load("linnerud")
    assert one.shape == (20,)
    assert np.array_equal(one, three[:, 0])


def test_a_method_that_is_not_there_is_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setitem(methods.METHODS, "nowhere", methods.Entry("no_such_library:Tree", needs="no-such-library"))
    stated = small(datasets=("iris",), methods={"HRT": Method("hrt"), "CART": Method("cart")})
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "skipped": 1, "ok": 1}
    assert store.rows().set_index("method").loc["HRT", "reason"] == "hrt has no estimator for classification"
    with pytest.raises(methods.UnavailableError, match="nowhere needs no-such-library: pip install no-such-library"):
        methods.estimator_class("nowhere", "regression")


def test_a_run_that_takes_too_long_is_ended_and_stays_ended_under_the_same_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "GRACE", (1.0, 0.0))
    slow = Method("random-forest", {"n_estimators": 100_000}, depth=False)
    stated = small(methods={"slow": slow, "CART": Method("cart")}, time_limit=0.5)
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "time_limit": 1, "ok": 1}
    assert "0.5 s" in store.rows().set_index("method").loc["slow", "reason"]
    assert run(stated, store) == {"kept": 2}
    assert run(small(methods=stated.methods, time_limit=0.6), store) == {"kept": 1, "time_limit": 1}


def test_a_run_that_takes_too_much_memory_is_ended(tmp_path):
    stated = small(methods={"CART": Method("cart")}, memory_limit=50.0)  # the libraries alone take more
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "memory_limit": 1}
    assert "of the 50 MB allowed" in store.rows()["reason"].iloc[0]
    assert run(stated, store) == {"kept": 1}


def test_a_sandbox_that_dies_is_a_failure_and_a_new_one_takes_over(tmp_path):
    one, threads = next(small().runs(Protocol.version())), os.cpu_count()
    sandbox.supervise(Protocol, one, threads)
    os.kill(sandbox._HERE.sandbox.process.pid, signal.SIGKILL)
    sandbox._HERE.sandbox.process.wait()
    _run, outcome = sandbox.supervise(Protocol, one, threads)
    assert outcome["status"] == "ok"


def test_a_search_grid_chooses_on_held_out_rows(tmp_path):
    tuned = Method("cart", grid={"max_depth": [1, 2, 20]}, depth=False)
    store = Store("small", tmp_path)
    run(small(methods={"CART": tuned}), store)
    assert store.rows()["chosen"].iloc[0] in ('{"max_depth": 1}', '{"max_depth": 2}')


def test_several_grids_and_parts(tmp_path):
    grids = [{"max_depth": [20]}, {"max_depth": [1, 2], "min_samples_leaf": [5]}]
    stated = small(methods={"CART": Method("cart", grid=grids, parts=2, depth=False)}, threads=3)
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "ok": 1}
    assert '"min_samples_leaf": 5' in store.rows()["chosen"].iloc[0]
    assert store.sessions()["threads"].iloc[0] == 3


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


def test_preprocessing_and_options_of_one_data_set(tmp_path):
    pytest.importorskip("category_encoders")
    pytest.importorskip("imblearn")
    tuned = Method("cart", grid={"max_depth": [1, 4]}, depth=False, per_dataset={"iris": {"min_samples_leaf": 40}})
    stated = small(datasets=("iris", "wine"), methods={"CART": tuned}, preprocess="gradtree")
    assert len({one.identity["options"] for one in stated.runs("v")}) == 2
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "ok": 2}
    rows = store.rows().set_index("dataset")
    assert rows.loc["iris", "n_leaves"] <= 3
    assert rows["test_f1"].min() > 0.5
    assert "model__max_depth" in rows.loc["wine", "chosen"]


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


def test_solvers_are_run_on_one_statement(tmp_path):
    stated = small(
        kind="solve",
        leaves=("constant", "linear"),
        time_limit=5.0,
        methods={"TAO": Method("TAO()"), "MIP": Method("MIP()"), "chain": Method("Chain(CartInit(), TAO())")},
    )
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "ok": 4, "skipped": 2}
    rows = store.rows()
    constant = rows[(rows["method"] == "TAO") & (rows["leaves"] == "constant")].iloc[0]
    assert constant["objective"] == pytest.approx(1.0 - constant["train_r2"])
    assert "formulation" in rows.set_index("method").loc["MIP", "reason"].iloc[0]


def test_the_dask_back_end_gives_the_same_rows(tmp_path):
    from distributed import LocalCluster

    stated = small(seeds=(0, 1))
    local, dask = Store("local", tmp_path), Store("dask", tmp_path)
    run(stated, local)
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster:
        counts = run(stated, dask, backend="dask", scheduler=cluster.scheduler_address)
    assert counts == {"kept": 0, "ok": 4}
    assert_same(local.rows(), dask.rows())
    assert set(local.traces()["key"]) == set(dask.traces()["key"])


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """The same rows, but for what no two runs share."""
    frames = [f.drop(columns=VOLATILE).sort_values("key", ignore_index=True).sort_index(axis=1) for f in (one, other)]
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.slow
def test_a_run_killed_ten_times_ends_in_the_same_store(tmp_path):
    rng = np.random.default_rng(0)
    command = [sys.executable, "-m", "experiments", "run", "smoke", "--jobs", "2", "--quiet"]
    command += ["--only", "method=CART,RF,TAO,XGBoost", "--store"]  # a fresh process loads the others for seconds
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*command, str(whole)], cwd=ROOT, check=True, capture_output=True)
    seen: list[str] = []
    between = 0
    for kill in range(10):
        with subprocess.Popen([*command, str(killed)], cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            try:
                if kill % 2:  # at any time; or some time after the next row
                    time.sleep(rng.uniform(0.5, 4.0))
                else:
                    begun = time.monotonic()
                    while len(Store("smoke", killed).rows()) == len(seen) and time.monotonic() < begun + 30.0:
                        if process.poll() is not None:  # all is done
                            break
                        time.sleep(0.1)
                    time.sleep(rng.uniform(0.0, 0.5))
            finally:
                process.kill()
        rows = Store("smoke", killed).rows()
        assert rows["key"].is_unique
        assert set(seen) <= set(rows["key"])
        seen = list(rows["key"])
        between += 0 < len(seen) < len(Store("smoke", whole).rows())
    assert between >= 2  # kills between the first and the last row
    subprocess.run([*command, str(killed)], cwd=ROOT, check=True, capture_output=True)
    assert_same(Store("smoke", whole).rows(), Store("smoke", killed).rows())
    assert not list(killed.rglob("*.unfinished"))
    assert main(["report", "smoke", "--store", str(killed), "--out", str(tmp_path / "report")]) == 0
    columns = ["key", "step", "objective"]
    traces = [Store("smoke", f).traces()[columns].sort_values(columns, ignore_index=True) for f in (whole, killed)]
    pd.testing.assert_frame_equal(*traces)


# ---- the store -------------------------------------------------------------------------------------------------------


def test_a_table_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path, monkeypatch):
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pd.DataFrame({"x": np.arange(1000)}).to_parquet(path)
    pd.DataFrame({"y": ["text"] * 3}).to_parquet(other)
    read = pq.ParquetDataset.read

    def replaced(self, *args, **kwargs):  # the schema has been read, the values have not
        if other.exists():
            os.replace(other, path)
        return read(self, *args, **kwargs)

    monkeypatch.setattr(pq.ParquetDataset, "read", replaced)
    assert list(store_module.read_table(path).columns) == ["x"]
    assert not other.exists()


def test_a_crash_within_compaction_loses_and_doubles_nothing(tmp_path, monkeypatch):
    store = Store("small", tmp_path)
    run(small(seeds=(0, 1)), store)
    rows, traces = store.rows(), store.traces()
    for one in small(seeds=(0, 1)).runs(Protocol.version()):
        row = rows.set_index("key").loc[one.key].dropna().to_dict()
        numbers = {k: v for k, v in row.items() if k not in {"status", "reason", *one.identity}}
        trace = traces[traces["key"] == one.key].drop(columns="key")
        store.add(one, {"status": "ok", "reason": "", "row": numbers, "trace": trace}, row["session"])
    assert len(store.rows()) == 4  # in the table and in the single files: read once
    assert len(store.traces()) == len(traces)
    monkeypatch.setattr(type(next(tmp_path.iterdir())), "unlink", lambda _path: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        store.compact()
    monkeypatch.undo()
    assert len(store.rows()) == 4
    store.compact()
    assert len(store.rows()) == 4
    assert len(store.traces()) == len(traces)


def test_one_writer_at_a_time(tmp_path):
    store = Store("small", tmp_path)
    with (
        store.lock(),
        pytest.raises(ValueError, match=r"another run writes to small\.parquet"),
        Store("small", tmp_path).lock(),
    ):
        pass


# ---- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "nothing"], "protocol must be one of"),
        (["run", "smoke", "--budget", "huge"], "budget of smoke must be one of"),
        (["run", "smoke", "--jobs", "0"], "jobs must be >= 1; got 0"),
        (["run", "smoke", "--only", "airfoil"], "--only must look like dataset=airfoil,yacht; got 'airfoil'"),
        (["run", "smoke", "--only", "colour=red"], "--only must be among dataset"),
        (["run", "smoke", "--backend", "dask"], "--backend dask and --scheduler ADDRESS go together"),
        (["report", "smoke"], "the store has no finished run of smoke"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, tmp_path, capsys):
    assert main([*arguments, "--store", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("experiments: ")
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_list_names_every_protocol_and_what_was_run(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in reading.names())
    assert "not to be had: MNIST" in out
    line = next(line for line in out.splitlines() if " ablation_get " in line)
    assert re.search(r"\[run, .*\d\.\d+ h", line)


def test_every_table_and_figure_is_covered():
    items = {(item.paper, item.name): item for item in index.coverage()}
    tables = {"GET": range(1, 12), "GradTree": range(1, 17), "TAO": range(1, 6), "SRT": (1, 2, 3), "SDTR": range(1, 5)}
    for paper, numbers in tables.items():
        for number in numbers:
            item = items[paper, f"Table {number}"]
            assert item.protocol or item.reason.startswith(("no experiment: ", "not to be had: "))
    for name in ("C.4", "D.5", "D.6", "E.7", "F.8", "G.9"):
        assert items["SRT", f"Table {name}"].protocol
    for paper, numbers in {"GET": (2, 3, 6, 7), "TAO": (2, 3, 4), "SDTR": (2, 3, 4, 5, 6)}.items():
        assert all(items[paper, f"Figure {number}"].protocol for number in numbers)
    assert all((item.protocol == "") != (item.reason == "") for item in items.values())


def test_a_sweep_states_a_method_for_each_value(tmp_path):
    stated = reading.read("get_table5")
    assert stated.methods["GET, alpha=50"].use == "GET.paper(polish=False, scale_ranges=((50.0, 50.0),))"
    assert stated.stands_for("GET, alpha=50") == "alpha=50"
    forests = reading.read("tao_figure4").methods
    assert forests["RF, n_estimators=30"].options == {"n_estimators": 30}
    path = tmp_path / "bad.toml"
    path.write_text("title = 't'\ndatasets = ['airfoil']\n[methods.a]\nuse = 'cart'\nsweep = { x = 3 }\n")
    with pytest.raises(ValueError, match="method a: sweep must be one option with a list of values"):
        reading.read(str(path))


def test_some_of_a_grid_is_drawn_by_chance():
    grid = {"max_depth": [1, 2, 3, 4], "min_samples_leaf": [1, 5]}
    stated = small(methods={"a": Method("cart", grid=grid, trials=3), "b": Method("cart", grid=grid)})
    runs = {one.label: one for one in stated.runs("v")}
    assert "trials" in runs["a"].identity["options"]
    assert "trials" not in runs["b"].identity["options"]
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60.0)
    model = methods.estimator("cart", "regression", {}, depth=None, seed=0, threads=1)
    tried = execute.search(model, runs["a"], y, "regression").fit(X, y).cv_results_["params"]
    assert len({tuple(sorted(one.items())) for one in tried}) == 3
    assert len(execute.search(model, runs["b"], y, "regression").fit(X, y).cv_results_["params"]) == 8


def test_columns_are_left_out_for_a_papers_version_of_a_set():
    X, _y, _task = execute.load("diabetes")
    fewer, _y, _task = execute.load("diabetes", ("age", "sex"))
    assert (X.shape[1], fewer.shape[1]) == (10, 8)
    stated = reading.read("gradtree_table1")
    one = next(run for run in stated.runs("v") if run.dataset == "bank_marketing")
    assert one.without == ("balance", "duration")
    assert "balance" in one.identity["statement"]
    assert len(stated.without["breast_cancer_wisconsin"]) == 20


def test_a_budget_names_what_its_protocol_has():
    assert "search" not in reading.read("gradtree_table2").budgets  # of other data sets
    evening = reading.read("gradtree_table7", "evening")
    assert set().union(*evening.groups.values(), {"iris"}) <= set(evening.datasets)
    quick = reading.read("get_table3", "quick")
    assert "GET" not in quick.methods
    quick = reading.read("get_table2", "quick")
    assert (quick.baseline, quick.tests) == ("", ("friedman",))


def test_outputs_of_a_solve_protocol_may_be_in_units_of_their_range():
    y = np.array([2.0, 4.0, 10.0])
    np.testing.assert_allclose(execute.outputs(y, np.arange(3), "regression", True), [0.0, 0.25, 1.0])
    one = next(reading.read("get_table9").runs("v"))
    assert (one.features, one.outputs) == ("unit", "unit")


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


def test_a_slice_of_every_protocol_of_the_papers():
    """A minute of `smoke_papers`: here that its runs are stated; `test_a_slice_of_each_runs` does some."""
    whole = reading.read("smoke_papers", "quick")
    papers = {item.protocol for item in index.coverage() if item.protocol}
    assert papers <= {part.name for part in whole.parts}
    ids = [one.run_id for one in whole.runs("v")]
    assert len(ids) == len(set(ids)) > 200
    minute = reading.read("smoke_papers", "minute")
    assert {one.split for one in minute.runs("v")} == {0}
    assert all(len(part.methods) == 1 and part.splits.most == 120 for part in minute.parts)
    printed = [part for part in minute.parts if any(m.is_printed for m in reading.read(part.name).methods.values())]
    assert all(method.is_printed for part in printed for method in part.methods.values())
    assert len(printed) > 35
    with pytest.raises(ValueError, match="slices must name at least one protocol"):
        protocol.Collection(name="none", title="t")


def test_a_slice_of_each_runs(tmp_path, needs_data):
    stated = reading.read("smoke_papers", "minute")
    store = Store("smoke_papers", tmp_path / "store")
    counts = runner.run(stated, store, jobs=2, progress=False)
    rows = store.rows()
    assert counts["failed"] == 0, rows[rows["status"] == "failed"]["reason"].iloc[0]
    assert counts["ok"] == len(list(stated.runs("v")))
    for path in report.write(stated, store, tmp_path / "out"):
        assert path.stat().st_size > 0
    text = (tmp_path / "out" / "report.md").read_text()
    assert all(part.name in text for part in stated.parts)


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
