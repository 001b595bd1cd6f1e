"""Time limits that are short for the table."""

import numpy as np
import pytest

from opttree import GETRegressor, ORRTRegressor, RADDTRegressor, SRTRegressor, TAORegressor
from opttree.estimators.steps import solve as steps


@pytest.mark.parametrize(
    "model",
    [
        TAORegressor(4, leaves="linear", floor=False, time_limit=3.0, random_state=0),
        SRTRegressor(3, time_limit=3.0, random_state=0),
        ORRTRegressor(3, time_limit=3.0, random_state=0),
        GETRegressor(4, time_limit=3.0, random_state=0),
        RADDTRegressor(4, time_limit=3.0, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_on_some_rows_comes_first(model, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 4))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    monkeypatch.setattr(steps, "PART_CELLS", 100.0)
    monkeypatch.setattr(steps, "PART_ROWS", 1000)
    sizes, run = [], steps.run

    def watched(options, solver, problem, start, *more):
        sizes.append((problem.n_samples, start is not None))
        return run(options, solver, problem, start, *more)

    monkeypatch.setattr(steps, "run", watched)
    model.fit(X, y)
    assert sizes[:2] == [(1000, False), (8000, True)]
    assert model.score(X, y) > 0.3
    sizes.clear()
    monkeypatch.setattr(steps, "PART_ROWS", 5000)  # half of the rows, or more, are as good as all
    model.fit(X, y)
    assert sizes[0] == (8000, False)
