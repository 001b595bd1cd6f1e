"""The table of methods, and that everything follows from it."""

from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import opttree
import solvers
from experiments import methods as experiments_methods
from opttree import cli
from opttree.estimators import option_groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.recipe import Recipe
from opttree.estimators.tasks import RegressionTree
from opttree.methods.table import METHODS, Method, estimators, families, make_estimator
from opttree.runtime.options import option
from solvers import Solver, Step, Termination
from solvers.conformance import check_solver, example_solvers


@pytest.mark.parametrize("name", METHODS)
def test_every_row_of_the_table_can_be_made(name):
    method = METHODS[name]
    if name in ("lightgbm", "xgboost", "catboost"):
        pytest.importorskip(name)
    for task in ("regression", "classification"):
        kind = method.estimator_class(task)
        if kind is None:
            with pytest.raises(ValueError, match=f"method {name} is for regression; got a classification task"):
                make_estimator(name, task, 2, 0)
            continue
        model = make_estimator(name, task, 2, 0, 1, device="cpu")
        options = model.get_params()
        assert options.get("max_depth") == (2 if method.has_depth else kind().get_params().get("max_depth"))
        assert name == "linear" or options["random_state"] == 0
        assert ("device" in options) == method.has_device or not method.family
        assert hasattr(solvers, method.solver) == bool(method.family)


def test_exports_follow_from_the_table():
    named = {n for n in opttree.__all__ if n.endswith(("Regressor", "Classifier"))}
    assert set(estimators()) == named - {"CostClassifier"}  # whose statement is of costs, as that of `PolicyTree`
    for name in families():
        assert experiments_methods.entry(name).compiled


@pytest.mark.parametrize(("name", "module"), estimators().items())
def test_every_estimator_is_behind_every_door(name, module):
    home, package = import_module(module), import_module("opttree.estimators")
    assert getattr(opttree, name) is getattr(package, name) is getattr(home, name)
    assert name in home.__all__


# ---- the steps of CONTRIBUTING.md, "To add a solver" -----------------------------------------------------------------


@dataclass(frozen=True)
class Median(Solver):
    """The best split of one feature at its median."""

    feature: int = option(0, "Which.", least=0)

    def _refusal(self, problem):
        """Trees of one level or more, and features that there are."""
        if problem.depth < 1 or problem.min_leaf > 1:
            return "it makes one split, of leaves as small as they come"
        return None if self.feature < problem.n_features else f"there is no feature {self.feature}"

    def steps(self, problem, start, rng):
        """One tree."""
        A = np.eye(problem.n_features)[[self.feature]]
        tree = opttree.Tree.complete(A, np.median(problem.X[:, self.feature])[None], problem.n_outputs, problem.classes)
        one_leaf = np.ptp(problem.Y, axis=0).max() == 0.0
        yield Step(problem.best_constant() if one_leaf else problem.fit_leaves(tree.prune_dead(problem.X)))
        return Termination.LOCALLY_OPTIMAL


@dataclass(eq=False, repr=False, kw_only=True)
class MedianRegressor(RegressionTree, TreeEstimator):
    """A tree of one split."""

    recipe = Recipe(solver=lambda options, problem, valid: build_solver(options, Median))
    splits, leaves, loss = "axis", "constant", "squared"
    max_depth: int = option_groups.max_depth()
    feature: int = option(0, "On which to split.")


def test_a_solver_with_a_row_in_the_table_is_found_everywhere(monkeypatch, tmp_path, capsys):
    row = Method("one split at the median", f"{__name__}:MedianRegressor", solver="Median", family="median")
    monkeypatch.setitem(METHODS, "median", row)
    # the command line
    x = np.arange(40.0)
    data, model = tmp_path / "data.csv", tmp_path / "model.json"
    pd.DataFrame({"x": x, "y": np.where(x > 19.5, 3.0, 1.0)}).to_csv(data, index=False)
    assert cli.main(["fit", str(data), "--target", "y", "--method", "median", "--depth", "1", "--out", str(model)]) == 0
    assert "median, regression: training R2 1.0000" in capsys.readouterr().out
    # the experiments
    made = experiments_methods.estimator("median", "regression", {"feature": 0}, depth=1, seed=0, threads=1)
    assert isinstance(made, MedianRegressor)
    with pytest.raises(experiments_methods.UnavailableError, match="median has no estimator for classification"):
        experiments_methods.estimator_class("median", "classification")
    # the exports, and the conformance tests
    assert estimators()["MedianRegressor"] == __name__
    (example,) = (s for s in example_solvers({"Median": Median}) if isinstance(s, Median))
    assert len(check_solver(example)) > 0
