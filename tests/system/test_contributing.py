"""The steps of CONTRIBUTING.md, taken in a copy of the packages: a solver with an estimator, a loss, an export."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOLVER = '''
"""The best split of one feature at its median."""

from dataclasses import dataclass

import numpy as np

from opttree.model.tree import Tree
from opttree.runtime.options import option
from solvers.core.base import Solver, Step
from solvers.core.result import Termination


@dataclass(frozen=True)
class Median(Solver):
    """One split."""

    column: int = option(0, "Which.", least=0)

    def _refusal(self, problem):
        return None if problem.depth else "it makes one split"

    def steps(self, problem, start, rng):
        A = np.eye(problem.n_features)[[self.column]]
        tree = Tree.complete(A, np.median(problem.X[:, self.column])[None], problem.n_outputs, problem.classes)
        yield Step(problem.fit_leaves(tree))
        return Termination.LOCALLY_OPTIMAL
'''
ESTIMATOR = '''
"""A tree of one split."""

from dataclasses import KW_ONLY, dataclass

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.recipe import Recipe
from opttree.estimators.tasks import RegressionTree
from opttree.methods.table import estimator
from opttree.runtime.options import option


@estimator("median", solver="Median", methods={"median": ("one split at the median", {})})
@dataclass(eq=False, repr=False)
class MedianRegressor(RegressionTree, TreeEstimator):
    """A tree of one split."""

    recipe = Recipe(solver=lambda options, problem, valid: build_solver(options, bridge.solvers.Median))
    splits, leaves, loss = "axis", "constant", "squared"
    max_depth: int = groups.max_depth(1)
    _: KW_ONLY
    column: int = option(0, "On which to split.")
'''
LOSS = '''
"""The fourth power of the error."""

from dataclasses import dataclass

from scipy.optimize import minimize_scalar

from opttree.statement.losses.base import Loss


@dataclass(frozen=True)
class Quartic(Loss):
    """The fourth power of the error."""

    name = "quartic"

    def value(self, y, prediction):
        return (y - prediction) ** 4

    def constant(self, y, w):
        return float(minimize_scalar(lambda c: (w * (y - c) ** 4).sum(), bounds=(y.min(), y.max()), method="bounded").x)
'''
EXPORT = '''
"""The number of leaves."""

from opttree.export.record import Exporter, text_file
from opttree.model.files import as_saved


def to_leaves(model):
    """The number of leaves as text."""
    return str(as_saved(model).tree.n_leaves)


EXPORTER = Exporter("leaves", (".leaves",), text_file(lambda model, options: to_leaves(model)))
'''
USE = """
import pathlib, sys
import numpy as np
import opttree, solvers
from opttree.cli.main import main
from opttree.methods.table import METHODS
from solvers.conformance import check_solver

if __name__ == "__main__":
    X, y = np.arange(40.0)[:, None], (np.arange(40.0) > 19.5) * 2.0
    # the solver, its estimator, the command line
    assert "Median" in solvers.__all__ and "MedianRegressor" in opttree.__all__ and "median" in METHODS
    model = opttree.MedianRegressor(column=0).fit(X, y)
    assert model.score(X, y) == 1.0, model.score(X, y)
    assert "column : int" in opttree.MedianRegressor.__doc__
    # the loss, by its name: taken where values and constants are enough, and refused where they are not
    problem = opttree.TreeProblem(X, y, depth=1, splits="axis", loss="quartic")
    assert solvers.solve(problem, solvers.CartInit()).objective < 1e-8
    for kind in (solvers.BranchAndBound, solvers.LocalSearch, solvers.GradTree, solvers.MIP, solvers.Median):
        assert "its loss is 'quartic', and it takes losses with" in str(kind().refusal(problem)), kind
    assert solvers.TAO().refusal(problem) is solvers.RandomInit().refusal(problem) is None
    # the export
    assert opttree.export.to_leaves(model) == "2"
    opttree.save(model, "model.json")
    assert main(["export", "model.json", "--out", "model.leaves"]) == 0
    assert pathlib.Path("model.leaves").read_text() == "2"
"""
FILES = {
    "solvers/initial/median.py": SOLVER,
    "opttree/estimators/median.py": ESTIMATOR,
    "opttree/statement/losses/quartic.py": LOSS,
    "opttree/export/leaves.py": EXPORT,
}


@pytest.mark.slow
def test_a_file_each_adds_a_solver_an_estimator_a_loss_and_an_export(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__", "*.nb?")
    for package in ("opttree", "solvers"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    for place, text in FILES.items():
        (tmp_path / place).write_text(text.lstrip())
    script = tmp_path / "use.py"
    script.write_text(USE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OPTTREE_COMPILES_ALONE": "1"}
    command = [sys.executable, "-W", "ignore", str(script)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
