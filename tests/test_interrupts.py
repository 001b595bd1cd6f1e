"""Ctrl-C without loss, long calls that are left, and files that appear whole or not at all."""

import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numba
import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest
from sklearn.datasets import make_friedman1
from sklearn.model_selection import GridSearchCV

import opttree
import solvers
from opttree import (
    BoostedTreesRegressor,
    InterruptedFitWarning,
    TAOClassifier,
    TAOForestRegressor,
    TAORegressor,
    TreeProblem,
    io,
)
from opttree.cli.main import main
from opttree.runtime.files import whole_file
from opttree.runtime.interrupts import compilation_can_end, in_background, noted_interrupts
from solvers import TAO, solve
from tests.conftest import regression_problem


def test_what_nobody_waits_for_ends():
    ended = threading.Event()

    def work():
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    running = in_background(work)
    assert next(running) is None
    running.close()
    assert ended.wait(5.0)
    with pytest.raises(ZeroDivisionError):
        list(in_background(lambda: 1 / 0))


class Slow:
    """Spends its time being thrown away, where Python drops exceptions."""

    def __del__(self):
        for _ in range(20):
            time.sleep(0.001)


def test_what_is_left_in_a_callback_is_left_after_it_and_nothing_is_reported(monkeypatch):
    reported, ended = [], threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    def work():
        try:
            while True:
                Slow()
                time.sleep(0.002)
        finally:
            ended.set()

    for _ in range(5):
        ended.clear()
        running = in_background(work)
        next(running)
        running.close()
        assert ended.wait(20.0)
    assert not reported


def test_a_model_that_is_left_while_it_is_built_is_no_error_in_the_log(monkeypatch):
    began, records = threading.Event(), []
    handler = logging.Handler()
    handler.emit = records.append
    monkeypatch.setattr(logging.getLogger("pyomo.core"), "handlers", [handler])

    def rule(_model):
        began.set()
        while True:
            time.sleep(0.01)

    running = in_background(lambda: setattr(pyo.ConcreteModel(), "bound", pyo.Constraint(rule=rule)))
    next(running)
    assert began.wait(5.0)
    running.close()
    assert not records
    with pytest.raises(ZeroDivisionError):
        list(in_background(lambda: setattr(pyo.ConcreteModel(), "bound", pyo.Constraint(rule=lambda _m: 1 / 0))))
    assert "ZeroDivisionError" in records[0].getMessage()


def test_what_is_left_is_not_left_in_the_middle_of_a_compilation():
    done = []
    scope = {"__name__": "numba.core.compiler", "sleep": time.sleep, "done": done}
    exec("def compile():\n for _ in range(20):\n  sleep(0.01)\n done.append('compiled')", scope)

    def work():
        try:
            scope["compile"]()
            while True:
                time.sleep(0.01)
        finally:
            done.append("left")

    running = in_background(work)
    next(running)
    running.close()
    assert done == ["compiled", "left"]


def test_the_compiler_is_free_after_many_threads_were_left_beside_it():
    """A thread that was ended as it took the compiler's lock kept it for ever: the next compilation hung."""

    def work():
        while True:
            numba.njit(lambda x: x + 1)(1)
            time.sleep(0.001)

    for _ in range(30):
        running = in_background(work)
        next(running)
        running.close()
    free = threading.Event()
    threading.Thread(target=lambda: (numba.njit(lambda x: x + 2)(1), free.set()), daemon=True).start()
    assert free.wait(30.0)


class Interrupting:
    """Sends this process an interrupt where Python drops exceptions: while an object is thrown away."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_is_noted_wherever_it_arrives():
    with noted_interrupts() as interrupted:
        assert not interrupted()
        del [Interrupting()][0]
        time.sleep(0.01)
        assert interrupted()
        with noted_interrupts() as inside:  # it came before this block began
            assert inside()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(_inside_a_thread()))
        thread.start()
        thread.join()
        assert seen == [True]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with noted_interrupts() as interrupted:
        assert not interrupted()


def _inside_a_thread():
    with noted_interrupts() as interrupted:
        return interrupted()


def interrupt_after(seconds):
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.fixture
def interrupt_at(monkeypatch):
    """A function that has the process interrupted as the driver asks for a solver's ``number``-th step or pause."""

    def arrange(number):
        left = [number]

        def due_at(when):
            left[0] -= 1
            if left[0] == 0:
                signal.raise_signal(signal.SIGINT)
            return solvers.core.base.due_at(when)

        monkeypatch.setattr(solvers.core.driver, "due_at", due_at)

    return arrange


@pytest.mark.parametrize(
    "model",
    [
        TAORegressor(6, n_init=10_000),
        TAOClassifier(6, n_init=10_000),
        TAOForestRegressor(10_000, max_depth=3, n_jobs=1),
        BoostedTreesRegressor("oblique", n_estimators=100_000, learning_rate=1e-3, validation_fraction=None),
    ],
    ids=lambda model: f"{type(model).__name__}-{getattr(model, 'max_depth', '')}",
)
def test_an_interrupted_fit_warns_raises_and_keeps_what_it_has(model, interrupt_at):
    X, y = make_friedman1(300, random_state=0)
    y = y > 14.0 if isinstance(model, TAOClassifier) else y
    model.set_params(random_state=0)
    interrupt_at(50)
    sentence = "was interrupted: its model is the best so far"
    with pytest.warns(InterruptedFitWarning, match=sentence) as told, pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert told[0].filename == __file__
    assert is_trained(model, X, y)
    interrupt_at(50)
    with pytest.warns(InterruptedFitWarning):
        model.set_params(on_interrupt="keep").fit(X, y)
    assert is_trained(model, X, y)


def is_trained(model, X, y):
    """Whether it holds trees that say something, several where it is for several."""
    several = not hasattr(model, "forest_") or len(model.forest_.trees) > 1
    return several and model.score(X, y) > (0.01 if hasattr(model, "base") else 0.5)


@pytest.mark.parametrize("calls", [2, 40])
def test_an_interrupt_while_leaves_are_judged_keeps_the_tree(interrupt_at, monkeypatch, calls):
    X, y = make_friedman1(300, random_state=0)
    model = TAORegressor(6, random_state=0, on_interrupt="keep")
    strength = type(model)._strength

    def arranged(*given):
        interrupt_at(calls)
        return strength(*given)

    monkeypatch.setattr(type(model), "_strength", arranged)
    with pytest.warns(InterruptedFitWarning):
        model.fit(X, y)
    assert model.leaf_shrinkage_ == 0.0
    assert model.result_.tree == TAORegressor(6, leaf_shrinkage=0.0, random_state=0).fit(X, y).result_.tree


def test_an_interrupt_before_any_tree_is_a_keyboard_interrupt():
    X, y = make_friedman1(100, random_state=0)
    forest = opttree.TAOForestClassifier(4, max_depth=2, random_state=0).fit(X, y > 14.0)
    for model, target in ((TAOForestRegressor(4, max_depth="oob"), y), (forest, y > 14.0), (TAORegressor("cv"), y)):
        with noted_interrupts():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, target)


def test_a_search_ends_at_an_interrupt():
    X, y = make_friedman1(300, random_state=0)
    search = GridSearchCV(TAORegressor(n_init=500, random_state=0), {"max_depth": [4, 5, 6]}, cv=3)
    interrupt_after(0.5)
    with pytest.warns(InterruptedFitWarning), pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    assert not hasattr(search, "best_estimator_")
    interrupt_after(0.5)
    with pytest.raises(KeyboardInterrupt):
        TAORegressor("cv", n_init=10_000).fit(X, y)


def test_the_solver_level_returns_the_best_so_far():
    interrupt_after(0.3)
    result = solve(regression_problem(300), solvers.MultiStart(TAO(), 100_000), random_state=0)
    assert result.termination.name == "INTERRUPTED"


def test_an_interrupt_ends_a_compilation_in_any_thread_of_a_search():
    @numba.njit
    def doubled(x):
        return 2.0 * x

    with noted_interrupts():
        signal.raise_signal(signal.SIGINT)
        with compilation_can_end():
            with pytest.raises(KeyboardInterrupt):
                doubled(1.0)
            with pytest.raises(KeyboardInterrupt):
                list(in_background(lambda: doubled(1.0)))
        assert not doubled.signatures
        assert doubled(1.0) == 2.0  # what comes after a search is compiled
    assert doubled(1) == 2


class Compiling(solvers.Solver):
    """Yields a tree, then compiles; what it hands over at the end needs a compilation, too."""

    def __init__(self, hand_over):
        self.hand_over = hand_over

    def steps(self, problem, start, rng):
        tree = problem.best_constant()
        yield solvers.Step(tree, phase="first")
        signal.raise_signal(signal.SIGINT)
        try:
            if self.hand_over:
                yield None
            numba.njit(lambda x: 3.0 * x)(1.0)
        except solvers.core.base.LastCall:
            assert numba.njit(lambda x: 4.0 * x)(1.0) == 4.0
            yield solvers.Step(tree, phase="last")
        raise AssertionError("the compilation should have ended")


@pytest.mark.parametrize("hand_over", [False, True])
def test_what_was_found_before_an_interrupted_compilation_is_kept(hand_over):
    result = solve(regression_problem(50), Compiling(hand_over))
    assert result.termination.name == "INTERRUPTED"
    assert result.trace.rows[-1].phase == ("last" if hand_over else "first")


def test_what_a_first_tree_costs_is_compiled_after_an_interrupt(monkeypatch):
    class Interrupted(solvers.Solver):
        def steps(self, problem, start, rng):
            signal.raise_signal(signal.SIGINT)
            yield solvers.Step(problem.best_constant())

    objective = TreeProblem.objective
    added = numba.njit(lambda x: x + 1.0)
    monkeypatch.setattr(TreeProblem, "objective", lambda self, tree: objective(self, tree) + added(-1.0))
    result = solve(regression_problem(50), Interrupted())
    assert result.termination.name == "INTERRUPTED"


def test_predictions_and_pictures_are_left_at_an_interrupt(tmp_path, monkeypatch, capsys):
    X, y = make_friedman1(100, random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model, rows, out = (str(tmp_path / name) for name in ("model.json", "rows.csv", "out.png"))
    io.save(TAORegressor(2, random_state=0).fit(frame, y), model)
    ended = threading.Event()

    def forever(*_args, **_options):
        os.kill(os.getpid(), signal.SIGINT)
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(io.Model, "predict", forever)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", forever)
    for command in (["predict", model, rows, "--out", out], ["show", model, "--png", out]):
        ended.clear()
        assert main(command) == 130
        assert ended.wait(5.0)
        assert "interrupted" in capsys.readouterr().err
        assert sorted(file.name for file in tmp_path.iterdir()) == ["model.json", "rows.csv"]


def test_a_file_takes_the_place_of_a_file_alone(tmp_path):
    (tmp_path / "there.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("there.txt")
    with suppress(ZeroDivisionError), whole_file(tmp_path / "there.txt") as file:
        file.write_text("half")
        _ = 1 / 0
    assert (tmp_path / "there.txt").read_text() == "old"
    with whole_file(tmp_path / "link.txt") as file:
        assert file.suffix == ".txt"
        file.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "there.txt").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / "model.npz").symlink_to("there.txt")
    (tmp_path / "there.txt").chmod(0o600)
    with whole_file(tmp_path / "model.npz") as file:
        np.savez(file, x=1.0)  # adds the suffix where it lacks
    with np.load(tmp_path / "there.txt") as saved:
        assert saved["x"] == 1.0
    assert (tmp_path / "there.txt").stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 3
    os.mkfifo(tmp_path / "pipe")
    reader, writer = os.pipe()
    for path in (tmp_path / "pipe", Path(f"/dev/fd/{writer}")):
        with whole_file(path) as file:
            assert file == path
    os.close(reader)
    os.close(writer)
