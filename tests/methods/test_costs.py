"""What a fit will take: the models, and the refusal of what memory does not hold."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

import opttree
from opttree import AutoTreeRegressor, GETRegressor, SDTRRegressor, TAOClassifier, TAOForestRegressor, TAORegressor
from opttree.estimators.steps import fit
from opttree.methods import costs
from opttree.methods.table import METHODS, make_estimator
from opttree.methods.warming import names
from opttree.runtime import memory


def test_every_method_has_a_model():
    table = json.loads(Path(costs.__file__).with_name("costs.json").read_text())
    assert sorted(table["methods"]) == sorted(names())
    for method, model in table["methods"].items():
        for what in ("seconds", "bytes"):
            assert model[what]["terms"], f"{method} takes no {what}"
            assert set(model[what]["terms"]) <= set(costs.TERMS)
            assert all(weight > 0.0 for weight in model[what]["terms"].values())
            assert model[what]["factor"] >= model[what]["median"] >= 1.0


@pytest.mark.parametrize("method", names())
def test_more_of_anything_costs_no_less(method):
    numbers = (1000, 10_000, 100_000), (5, 50, 500), (2, 4, 12)
    grid = [[[opttree.estimate_cost(method, n, p, d) for d in numbers[2]] for p in numbers[1]] for n in numbers[0]]
    for what in ("seconds", "bytes"):
        values = np.array([[[getattr(cost, what) for cost in row] for row in plane] for plane in grid])
        assert (values >= 0.0).all()
        for axis in range(3):
            assert (np.diff(values, axis=axis) >= 0.0).all()
    if method != "auto":
        assert grid[2][2][0].seconds > grid[0][0][0].seconds
    assert grid[2][2][0].bytes > grid[0][0][0].bytes


def test_numbers_of_any_size_have_a_cost():
    for method in names():
        cost = opttree.estimate_cost(method, 10**12, np.int64(10**6), 10**6)
        assert np.isfinite([cost.seconds, cost.bytes]).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("tree", 100, 5, 3), "method must be one of .*tao-c.*; got 'tree'"),
        (("cart", 100, 5, 3), "method must be one of .*; got 'cart'"),
        (("get", 0, 5, 3), "n must be an integer >= 1; got 0"),
        (("get", 1e6, 5, 3), "n must be an integer >= 1; got 1000000.0"),
        (("get", 100, -1, 3), "p must be an integer >= 1; got -1"),
        (("get", 100, 5, True), "depth must be an integer >= 1; got True"),
        (("get", 100, 5, "cv"), "depth must be an integer >= 1; got 'cv'"),
    ],
)
def test_bad_input_is_named_in_one_sentence(given, words):
    with pytest.raises(ValueError, match=words):
        opttree.estimate_cost(*given)


@pytest.mark.parametrize("name", names())
def test_an_estimator_is_found_in_the_table(name):
    for task in ("regression", "classification"):
        if METHODS[name].estimator_class(task) is not None:
            assert costs.method_of(make_estimator(name, task, 2, 0)) == name


def test_estimators_with_options_of_their_own_are_found():
    class Mine(TAORegressor):
        pass

    assert costs.method_of(SDTRRegressor()) == "sdtr"  # with a quantile transform, which the table's has not
    assert costs.method_of(Mine(leaves="linear")) == "tao-l"


@pytest.fixture
def no_memory(monkeypatch):
    """A machine with a megabyte to give, and fits that all need more."""
    monkeypatch.setattr(costs, "available_memory", lambda: 1e6)
    monkeypatch.setattr(costs, "FLOOR", 0.0)


@pytest.mark.parametrize("name", names())
def test_what_memory_does_not_hold_is_refused_before_any_work(name, no_memory, monkeypatch):
    model = make_estimator(name, "regression", 4, seed=0, jobs=1)
    for step in ("choose_depth", "state", "solve_once"):
        monkeypatch.setattr(fit, step, lambda *_args, **_options: pytest.fail("work was begun"))
    X = np.zeros((500_000, 5))
    with pytest.raises(MemoryError) as refused:
        model.fit(X, X[:, 0])
    said = str(refused.value)
    assert re.fullmatch(
        r"memory must be at least [\d.e+]+ GB, and probably [\d.e+]+ GB, beside the data for "
        rf"{type(model).__name__} on n = 500000 rows and p = 5 features( at depth \d+)?: take fewer .*; got 0.001 GB",
        said,
    )
    assert not hasattr(model, "result_")


def test_only_what_is_sure_to_take_more_is_refused(monkeypatch):
    n, p, depth = 1_000_000, 50, 6
    cost = opttree.estimate_cost("get", n, p, depth)
    sure = cost.bytes / cost.bytes_factor
    cases = [({}, sure), ({"polish": False}, sure / costs.OTHERS), ({"time_limit": 5.0}, 8.0 * n * p)]
    for options, needed in cases:
        for free, refused in ((1.01 * needed, False), (0.99 * needed, True), (None, False)):
            monkeypatch.setattr(costs, "available_memory", lambda free=free: free)
            for neutral in ({}, {"n_jobs": 1, "random_state": 3, "verbose": 1}):
                lack = costs.lack_of_memory(GETRegressor(**options, **neutral), n, p, depth)
                assert (lack is not None) == refused


def test_a_search_for_the_depth_ends_where_memory_does(monkeypatch):
    X, y = make_friedman1(300, random_state=0)
    monkeypatch.setattr(
        "opttree.estimators.steps.depth.costs.lack_of_memory",
        lambda estimator, n, p, depth, *sizes: "too much" if depth > 2 else None,
    )
    model = TAOClassifier("cv", cv=2, max_iter=1, random_state=0).fit(X, y > y.mean())
    assert list(model.cv_results_["depth"]) == [1, 2]


def test_chunks_need_memory_for_their_sample_only(monkeypatch):
    X, y = make_friedman1(3000, random_state=0)
    asked = []
    monkeypatch.setattr(costs, "lack_of_memory", lambda estimator, n, p, depth, *sizes: asked.append((n, p, depth)))
    GETRegressor(2, n_starts=1, random_state=0).fit_chunks((X, y), sample_rows=500, chunk_rows=1000)
    assert asked == [(500, 10, 2)]


def test_a_gpu_has_rules_of_its_own(no_memory, monkeypatch):
    assert costs.lack_of_memory(GETRegressor(device="cpu"), 10**6, 10, 4)
    assert costs.lack_of_memory(GETRegressor(device="gpu"), 10**6, 10, 4) is None


def test_forests_have_depths_of_their_own(no_memory):
    for model in (TAOForestRegressor(), AutoTreeRegressor()):
        assert "depth" not in costs.lack_of_memory(model, 10**6, 10, 10**6)
    assert "at depth 8: take fewer rows, features or levels" in costs.lack_of_memory(TAORegressor(8), 10**6, 10, 8)


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"memory.max": "max", "memory.current": "5"}, None),
        ({"memory.max": "100", "memory.current": "30", "memory.stat": "anon 10\ninactive_file 4\nactive_file 6"}, 80.0),
    ],
)
def test_control_groups_count(files, free, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert memory._of_a_group((str(tmp_path), "memory.max", "memory.current", "")) == free


def test_the_system_says_what_is_free():
    assert memory.available_memory() > 1e6


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_limit_of_the_process_counts():
    words = (
        "import resource; from opttree.runtime import memory; resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34)); "
        "print(memory._of_the_process(), memory.available_memory())"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    own, free = map(float, done.stdout.split())
    assert free <= own < 2**34


def test_costs_know_outputs_and_density():
    one = costs.estimate_cost("tao-l", 10_000, 500, 6)
    many = costs.estimate_cost("tao-l", 10_000, 500, 6, outputs=100)
    assert many.bytes > one.bytes + 8.0 * 64 * 99 * 500
    assert (
        costs.estimate_cost("get", 10_000, 20, 4, outputs=10).seconds
        > costs.estimate_cost("get", 10_000, 20, 4).seconds
    )
    sparse = costs.estimate_cost("tao-c", 10_000, 50_000, 6, density=1e-3)
    assert sparse.bytes < 1e9 < costs.estimate_cost("tao-c", 10_000, 50_000, 6).bytes
    with pytest.raises(ValueError, match=r"density must be 1 for 'get', which takes dense tables alone; got 0.1"):
        costs.estimate_cost("get", 100, 10, 2, density=0.1)
    with pytest.raises(ValueError, match=r"density must be above 0 and at most 1; got 0.0"):
        costs.estimate_cost("tao-c", 100, 10, 2, density=0.0)


def test_refusals_name_outputs_and_density(monkeypatch):
    monkeypatch.setattr(costs, "available_memory", lambda: 1e8)
    linear = opttree.TAORegressor(8, leaves="linear")
    assert "for 300 outputs" in costs.lack_of_memory(linear, 50_000, 1_000, 8, 300)
    assert "of density 0.001" in costs.lack_of_memory(opttree.TAORegressor(10), 10_000, 100_000, 10, 1, 1e-3)
    assert costs.lack_of_memory(opttree.TAORegressor(2), 10_000, 100_000, 2, 1, 1e-4) is None
