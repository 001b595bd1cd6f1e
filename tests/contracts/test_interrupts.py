"""Ctrl-C: what was found is kept, by estimators and solvers alike."""

import signal

import pytest
from sklearn.datasets import make_friedman1
from sklearn.model_selection import GridSearchCV

import opttree
import solvers
from opttree import (
    BoostedTreesRegressor,
    InterruptedFitWarning,
    ORRTRegressor,
    SRTRegressor,
    TAOClassifier,
    TAOForestRegressor,
    TAORegressor,
)
from opttree.estimators.steps import shrink
from opttree.runtime import clock
from opttree.runtime.interrupts import noted_interrupts
from solvers import TAO, solve
from tests.conftest import regression_problem


@pytest.fixture
def interrupt_at(monkeypatch):
    """A function that has the process interrupted as the driver asks for a solver's ``number``-th step or pause."""

    def arrange(number):
        left = [number]

        def due_at(when):
            left[0] -= 1
            if left[0] == 0:
                signal.raise_signal(signal.SIGINT)
            return clock.due_at(when)

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


@pytest.mark.parametrize("calls", [2, 15])
def test_an_interrupt_while_leaves_are_judged_keeps_the_tree(interrupt_at, monkeypatch, calls):
    X, y = make_friedman1(300, random_state=0)
    model = TAORegressor(6, random_state=0, on_interrupt="keep", n_jobs=1)  # the strength after the tree
    strength = shrink.choose_strength

    def arranged(*given):
        interrupt_at(calls)
        return strength(*given)

    monkeypatch.setattr(shrink, "choose_strength", arranged)
    with pytest.warns(InterruptedFitWarning):
        model.fit(X, y)
    assert model.leaf_shrinkage_ == 0.0
    assert model.result_.tree == TAORegressor(6, leaf_shrinkage=0.0, random_state=0).fit(X, y).result_.tree


@pytest.mark.parametrize("model", [TAORegressor(), ORRTRegressor(), TAOClassifier(), SRTRegressor()], ids=repr)
def test_an_interrupt_while_a_depth_is_chosen_keeps_a_tree(model):
    X, y = make_friedman1(300, random_state=0)
    model.set_params(random_state=0, on_interrupt="keep")
    with noted_interrupts():
        signal.raise_signal(signal.SIGINT)
        with pytest.warns(InterruptedFitWarning):
            model.fit(X, y > 14.0 if isinstance(model, TAOClassifier) else y)
    assert model.fallback_ in ("cart", "linear")
    assert is_trained(model, X, y > 14.0 if isinstance(model, TAOClassifier) else y)


def test_an_interrupt_before_any_tree_is_a_keyboard_interrupt():
    X, y = make_friedman1(100, random_state=0)
    forest = opttree.TAOForestClassifier(4, max_depth=2, random_state=0).fit(X, y > 14.0)
    for model, target in ((TAOForestRegressor(4, max_depth="oob"), y), (forest, y > 14.0), (TAORegressor("cv"), y)):
        with noted_interrupts():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, target)


def test_a_search_ends_at_an_interrupt(interrupt_at):
    X, y = make_friedman1(300, random_state=0)
    search = GridSearchCV(TAORegressor(n_init=500, random_state=0), {"max_depth": [4, 5, 6]}, cv=3)
    interrupt_at(50)
    with pytest.warns(InterruptedFitWarning), pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    assert not hasattr(search, "best_estimator_")
    interrupt_at(50)
    with pytest.raises(KeyboardInterrupt):
        TAORegressor("cv", n_init=10_000).fit(X, y)


def test_the_solver_level_returns_the_best_so_far(interrupt_at):
    interrupt_at(50)
    result = solve(regression_problem(300), solvers.MultiStart(TAO(), 100_000), random_state=0)
    assert result.termination.name == "INTERRUPTED"
