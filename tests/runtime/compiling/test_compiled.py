"""Compiled functions and their cache."""

import logging
import os
import sys

import numba
import numpy as np
import pytest
from numba.core import caching
from numba.core.dispatcher import Dispatcher

from opttree import ORTRegressor, SDTRRegressor, SmoothTreeProblem, TAORegressor
from opttree.kernels.smooth import walk
from opttree.runtime.compiling.compiled import kernel
from tests.conftest import regression_problem


def test_functions_without_a_module_are_compiled():
    scope = {}
    exec("def twice(x):\n    return 2 * x", scope)
    assert scope["twice"].__module__ is None or scope["twice"].__module__ == "builtins"
    assert numba.njit(scope["twice"])(2) == 4


def test_without_a_folder_for_the_cache_each_process_compiles_for_itself(monkeypatch, caplog):
    locator = (
        getattr(caching, "UserProvidedCacheLocator", None) or caching._UserProvidedCacheLocator
    )  # Numba before 0.62
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [locator])
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    with caplog.at_level(logging.WARNING, "opttree"):
        assert kernel()(lambda x: x + 1)(1) == 2
    assert "set NUMBA_CACHE_DIR to a folder of your own" in caplog.text
    assert os.path.isdir(numba.config.CACHE_DIR)
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="cannot cache function"):
        kernel()(lambda x: x + 2)


def of_tables_to_read():
    """Versions of kernels for tables that may only be read."""
    modules = [module for name, module in sys.modules.items() if name.startswith("opttree.kernels.")]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)}
    versions = {f"{one.py_func.__qualname__}{kinds}" for one in found for kinds in one.signatures}
    return {version for version in versions if "readonly array(float64, 2d, C)" in version}


@pytest.mark.parametrize("estimator", [TAORegressor(2, splits="axis"), ORTRegressor(2), SDTRRegressor(2)])
def test_a_table_that_may_only_be_read_needs_no_kernels_of_its_own(estimator):
    """As joblib gives tables to the processes of a search."""
    problem = regression_problem(80)
    X = np.array(problem.X)
    X.flags.writeable = False
    before = of_tables_to_read()
    estimator.set_params(random_state=0).fit(X, problem.y).predict(X)
    assert of_tables_to_read() <= before
    assert not X.flags.writeable


def test_kernels_of_different_versions_are_an_error_and_no_crash():
    smooth = SmoothTreeProblem(regression_problem(100), dtype="float32")
    theta = smooth.random_theta(np.random.default_rng(0))
    smooth.value(theta)
    address, number = walk.alone(theta, np.array([0, 1]), smooth.objective)
    rest = 1.0, np.array([0, 1]), smooth.objective, theta.copy(), np.empty(8, np.float32)
    assert walk.evaluate_alone((address, number), theta, *rest) > 0.0
    with pytest.raises(RuntimeError, match="compiled kernels are of different versions"):
        walk.evaluate_alone((address, number + 1), theta, *rest)
