"""Time limits are kept, and leave a model."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.datasets import make_friedman1

import opttree
from opttree import (
    DTSemNetRegressor,
    GETRegressor,
    GradTreeRegressor,
    ORRTRegressor,
    RADDTRegressor,
    SDTRRegressor,
    SRTRegressor,
    TAOForestRegressor,
    TreeProblem,
)
from opttree.methods.table import estimators
from solvers import MIP, Termination, solve
from tests.conftest import ends_in_time, own_clock

LIMIT, LATE = 0.2, 3.0  # seconds, and how much later a fit may end where the machine is busy
ENDLESS = {"n_init": 10_000, "n_starts": 20, "epochs": 10**6, "max_batches": 10**8, "n_estimators": 10**5}
ENDLESS |= {"patience": 10**8, "max_depth": 8}
SHORT = {"HRTRegressor", "AutoTreeRegressor", "AutoTreeClassifier"}  # end by themselves, or have a limit of their own


def fitted_in_time(model, X, y):
    """The model under the limit: a late fit is repeated, since the first loads kernels."""
    model.set_params(time_limit=LIMIT, random_state=0)
    for _ in range(3):
        began = own_clock()
        model.fit(X, y)
        if own_clock() - began < LIMIT + LATE:
            return model
    raise AssertionError(f"a time limit of {LIMIT} s must end the fit; it took {own_clock() - began:.1f} s")


@pytest.mark.parametrize("name", [*estimators(), "kind='stacked'", "kind='oblique'"])
def test_every_estimator_keeps_its_limit(name):
    X, y = make_friedman1(1500, noise=1.0, random_state=0)
    model = TAOForestRegressor(kind=name.split("'")[1]) if "kind" in name else getattr(opttree, name)()
    model.set_params(**{option: ENDLESS[option] for option in ENDLESS.keys() & model.get_params().keys()})
    if name.startswith("Boosted"):
        model.set_params(base="oblique", learning_rate=1e-3, validation_fraction=None)
    fitted_in_time(model, X, np.digitize(y, [12.0, 17.0]) if is_classifier(model) else y)
    assert model.predict(X).shape == (1500,)
    assert np.isfinite(model.predict(X)).all()
    assert len(model.result_.trace) > 0
    if name not in SHORT:
        assert model.result_.termination is Termination.TIME_LIMIT
    if "n_estimators" in model.get_params():
        assert 1 <= len(model.forest_.trees) < 10**5
        assert model.oob_prediction_.shape == (1500, 1) if "kind" in name else True


def test_next_to_no_time_leaves_a_forest():
    X, y = make_friedman1(600, n_features=6, random_state=0)
    assert TAOForestRegressor(50, time_limit=1e-9).fit(X, y).predict(X).shape == (600,)


@pytest.mark.parametrize(
    "kind",
    [SRTRegressor, ORRTRegressor, SDTRRegressor, GETRegressor, GradTreeRegressor, RADDTRegressor, DTSemNetRegressor],
)
def test_deep_complete_trees_of_few_rows_keep_their_time(kind):
    rng = np.random.default_rng(0)
    model = fitted_in_time(kind(20), rng.normal(size=(50, 3)), rng.normal(size=50))
    assert model._model.trees[0].depth <= 10 if hasattr(model, "forest_") else model.tree_.depth <= 10


@pytest.mark.parametrize(
    "model", [TAOForestRegressor(2, max_depth="oob"), TAOForestRegressor(2, max_depth="cv"), GETRegressor("cv", cv=3)],
    ids=repr,
)  # fmt: skip
def test_a_search_for_the_depth_knows_the_limit(model):
    X, y = make_friedman1(12_000, n_features=6, noise=0.5, random_state=0)
    fitted_in_time(model, X, y)
    assert len(model.cv_results_["depth"]) < 12


@pytest.mark.parametrize("formulation", ["hyperflow", "flow", "big-m"])
def test_programs_keep_their_limit(formulation):
    rng = np.random.default_rng(0)
    problem = TreeProblem(rng.normal(size=(60, 2)), rng.normal(size=60), depth=2, splits="axis")
    linear = problem.restated(leaves="linear")
    # all lines through pairs of rows; linear leaves of all cuts of all sets: what is enumerated can be stopped
    lines = TreeProblem(rng.normal(size=(250, 2)), rng.normal(size=250), depth=2)
    many = TreeProblem(rng.normal(size=(350, 3)), rng.normal(size=350), depth=2, splits="axis", leaves="linear")
    of_solve_alone = [(stated, None, 0.5) for stated in (problem, linear, lines, many)]
    for stated, own, of_solve in ((problem, 0.5, None), *of_solve_alone):
        if MIP(formulation).refusal(stated) is None:
            run = partial(solve, stated, MIP(formulation, time_limit=own), time_limit=of_solve)
            result = ends_in_time(run, 2.5)  # building a model of the textbook is one piece
            assert result.termination in (Termination.TIME_LIMIT, Termination.OPTIMAL)
            assert result.bound is not None
            assert "Candidate splits" in result.message
