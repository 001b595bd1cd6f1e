"""Ensembles on fewer rows, where a time limit is short."""

import time

import numpy as np
import pytest

from opttree import TreeProblem
from opttree.runtime.clock import due_at, now
from solvers import Boosting, CartInit, TAOForest, Termination, solve
from solvers.ensembles import forest, in_time
from solvers.ensembles.growth import ALL_FEATURES
from solvers.ensembles.in_time import rows_in_time


@pytest.fixture
def problem():
    X = np.random.default_rng(0).normal(size=(60_000, 5))
    return TreeProblem(X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2], depth=6, leaves="linear")


def grow_slowly(part, _rng):
    time.sleep(0.02)
    yield part.best_constant()


def rows_of(problem, seconds, rng=None):
    with due_at(now() + seconds):
        work = rows_in_time(problem, 100, rng or np.random.default_rng(0), grow_slowly)
        while True:
            try:
                next(work)
            except StopIteration as stop:
                return stop.value


@pytest.mark.usefixtures("by_hand")
def test_rows_are_those_for_which_the_time_is_enough(problem, monkeypatch):
    monkeypatch.setattr(in_time, "PILOT_ROWS", 1000)
    monkeypatch.setattr(in_time, "FEWEST_ROWS", 1000)
    some = rows_of(problem, 10.0)  # 100 trees of 1000 rows take two seconds
    assert 2000 < some.size < 3100
    assert np.all(np.diff(some) > 0)
    assert rows_of(problem, 0.1).size == 1000
    assert rows_of(problem, np.inf) is None
    assert rows_of(problem, 1e6) is None
    assert rows_of(problem.sample(np.arange(1500)), 0.1) is None
    used, unused = np.random.default_rng(3), np.random.default_rng(3)
    rows_of(problem, 10.0, used)
    assert used.random() == unused.random()
    assert used.spawn(1)[0].random() == unused.spawn(1)[0].random()


@pytest.mark.parametrize(
    "solver",
    [TAOForest(n_trees=300), TAOForest(n_trees=300, kind="cart"), Boosting(), Boosting(CartInit(), n_trees=50)],
    ids=repr,
)
def test_short_runs_are_on_fewer_rows(problem, solver):
    solve(problem.sample(np.arange(2000)), solver, time_limit=1.0, random_state=0)  # compiles
    result = solve(problem, solver, time_limit=3.0, random_state=0)
    assert result.objective < 0.9  # the constant has 1.4
    assert result.objective == pytest.approx(problem.objective(result.tree))
    if isinstance(solver, TAOForest):
        means, counts = result.tree.outside
        assert means.shape == (60_000, 1)
        assert 1_000 <= np.count_nonzero(counts) <= 60_000  # all, where the machine is quick
        seen = counts > 0
        assert np.mean((means[seen, 0] - problem.y[seen]) ** 2) < 1.0


def test_time_without_end_changes_no_forest(problem):
    stated = problem.sample(np.arange(45_000), leaves="constant")
    forests = [solve(stated, TAOForest(2, kind="cart"), time_limit=limit, random_state=0) for limit in (None, 1e4)]
    assert forests[0].objective == forests[1].objective


@pytest.mark.usefixtures("by_hand")
def test_where_there_is_hardly_any_time_growth_is_measured_on_few_rows(problem):
    """Trees on 20,000 rows took up a limit of .2 s from 40,000 rows on, and what was left was a constant."""
    sizes = []

    def grow(part, _rng):
        sizes.append(part.n_samples)
        time.sleep(1e-5 * part.n_samples)
        yield part.best_constant()

    for seconds in (0.1, 60.0):
        with due_at(now() + seconds):
            for _pause in rows_in_time(problem, 10, np.random.default_rng(0), grow):
                pass
    assert sizes == [in_time.FEWEST_ROWS, in_time.FEWEST_ROWS, in_time.PILOT_ROWS]


@pytest.fixture
def slow_trees(monkeypatch):
    """Seconds of a tree of each kind on 8,000 rows, which a test sets, and the kinds that were grown."""
    seconds, kinds = {}, []

    def slowly(shared, task, ended=None):
        time.sleep(seconds[task[0].removesuffix(ALL_FEATURES)] * shared.w.size / 8000)
        kinds.append(task[0])
        return grow(shared, task, ended)

    grow = forest.grow
    monkeypatch.setattr(forest, "grow", slowly)
    return seconds, kinds


@pytest.mark.usefixtures("by_hand")
def test_kinds_are_compared_by_the_trees_that_there_are_in_time(slow_trees, rng):
    """The comparison of all kinds took the whole limit, and the forest was one tree."""
    seconds, kinds = slow_trees
    seconds |= {"cart": 0.1, "oblique": 10.0}
    X = rng.normal(size=(16_000, 6))
    problem = TreeProblem(X, X.sum(axis=1) + 0.1 * rng.normal(size=16_000), depth=8)
    solver = TAOForest(20, rows_in_time=False, n_jobs=1)
    result = solve(problem, solver, time_limit=20.0, random_state=0)
    assert kinds.count("oblique") == 1
    assert len(result.tree.trees) == 20
    seconds["oblique"] = 0.1
    assert solve(problem, solver, time_limit=20.0, random_state=0).trace.rows[-1].info["kind"] == 1


@pytest.mark.usefixtures("by_hand")
def test_no_tree_begins_that_would_end_late(slow_trees, problem):
    slow_trees[0]["cart"] = 1.5
    began = now()
    solver = TAOForest(20, kind="cart", rows_in_time=False, n_jobs=1)
    result = solve(problem.sample(np.arange(16_000)), solver, time_limit=10.0, random_state=0)
    assert len(result.tree.trees) == 3
    assert now() - began < 10.0  # twelve before
    assert result.termination is Termination.TIME_LIMIT
