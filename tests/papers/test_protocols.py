"""Protocols: what they state, what they should not hold, and their commands."""

import re

import numpy as np
import pandas as pd
import pytest

from experiments import execute, index, methods, protocol, reading
from experiments.__main__ import main
from experiments.planned import Method, Splits
from experiments.protocol import FOLDER
from solvers.races import entries
from tests.races.test_runner import small


@pytest.mark.parametrize("name", reading.names())
def test_every_protocol_can_be_read_and_names_what_there_is(name):
    shown = set()  # of the methods in print, by some budget
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
            shown |= {stated.stands_for(label) for label in stated.methods} & set(numbers["method"])
            if stated.store == stated.name:  # others show some columns of another protocol's runs
                stated_ones = {method.stands_for for method in stated.methods.values() if method.stands_for}
                assert stated_ones <= set(numbers["method"])
    assert shown or not path.exists()


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
    assert "no protocol: experiments/benchmarks/digits.py" in out
    line = next(line for line in out.splitlines() if " ablation_get " in line)
    assert re.search(r"\[run, .*\d\.\d+ h", line)


def test_every_table_and_figure_is_covered():
    items = {(item.paper, item.name): item for item in index.coverage()}
    tables = {"GET": range(1, 12), "GradTree": range(1, 17), "TAO": range(1, 6), "SRT": (1, 2, 3), "SDTR": range(1, 5)}
    for paper, numbers in tables.items():
        for number in numbers:
            item = items[paper, f"Table {number}"]
            assert item.protocol or item.reason.startswith(("no experiment: ", "no protocol: ", "not to be had: "))
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
