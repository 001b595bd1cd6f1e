"""What models say of single rows."""

import numpy as np
import pytest

from opttree import ORTRegressor, TAORegressor, privacy_report, save


@pytest.mark.parametrize(
    ("model", "held"),
    [
        (TAORegressor(1, loss="quantile", quantile=0.99, random_state=0), True),
        (TAORegressor(2, loss="absolute", splits="axis", random_state=0), True),
        (ORTRegressor(1, leaves="linear", time_limit=10), True),
        (TAORegressor(2, splits="axis", random_state=0), False),
    ],
)
def test_outcomes_that_leaves_hold_are_named(tmp_path, model, held):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=300)
    save(model.fit(X, y), tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text()
    inside = sorted(value for value in y.tolist() if repr(value) in text)
    report = privacy_report(model, X, y)
    assert bool(inside) == held
    assert list(report.outcomes) == inside
    assert set(inside) <= set(privacy_report(model).outcomes)
    assert ("may be outcomes of single rows" in str(report)) == held
