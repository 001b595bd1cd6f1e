"""Statistics and profiles of races against values worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from experiments import ranks
from solvers.races import profiles, statistics

INF = np.inf


# seconds of three solvers on four problems; c fails on q2, nobody solves q4
COST = pd.DataFrame(
    {"a": [1.0, 4.0, 2.0, INF], "b": [2.0, 2.0, 8.0, INF], "c": [4.0, INF, 2.0, INF]}, index=["q1", "q2", "q3", "q4"]
)


def test_performance_profile_by_hand():
    profile = profiles.performance_profile(COST)
    assert list(profile.index) == [1.0, 2.0, 4.0]
    assert list(profile["a"]) == [0.5, 0.75, 0.75]
    assert list(profile["b"]) == [0.25, 0.5, 0.75]
    assert list(profile["c"]) == [0.25, 0.25, 0.5]


def test_data_profile_by_hand():
    profile = profiles.data_profile(COST)
    assert list(profile.index) == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert list(profile["a"]) == [0.0, 0.25, 0.5, 0.75, 0.75]
    assert list(profile["b"]) == [0.0, 0.0, 0.5, 0.5, 0.75]
    assert list(profile["c"]) == [0.0, 0.0, 0.25, 0.5, 0.5]


def test_convergence_target_leaves_the_tolerance_of_the_way():
    assert profiles.convergence_target(start=11.0, lowest=1.0, tolerance=0.1) == pytest.approx(2.0)


def test_shifted_geometric_mean_by_hand():
    assert profiles.shifted_geometric_mean([0.0, 3.0, 8.0, 1.0], shift=1.0) == pytest.approx(72**0.25 - 1)
    assert profiles.shifted_geometric_mean([5.0, 5.0], shift=10.0) == pytest.approx(5.0)


def test_primal_gap_is_its_definition():
    assert profiles.primal_gap(0.0, 0.0) == [0.0]
    assert profiles.primal_gap(4.0, 3.0) == [0.25]
    assert profiles.primal_gap(-3.0, -4.0) == [0.25]
    assert profiles.primal_gap(1.0, -1.0) == [1.0]
    assert profiles.primal_gap(INF, 2.0) == [1.0]
    assert profiles.primal_gap(1.0, 0.0) == [1.0]
    assert profiles.primal_gap(INF, 0.0) == [1.0]


def test_primal_integral_by_hand():
    # gap 1 for 1 s, then |4 - 2| / 4 = 1/2 for 2 s, |2.5 - 2| / 2.5 = 1/5 for 4 s, 0 for 3 s
    trace = pd.DataFrame({"seconds": [1.0, 3.0, 7.0], "best": [4.0, 2.5, 2.0]})
    assert profiles.primal_integral(trace, best=2.0, horizon=10.0) == pytest.approx(1.0 + 1.0 + 0.8)
    assert profiles.primal_integral(trace, best=2.0, horizon=2.0) == pytest.approx(1.0 + 0.5)
    assert profiles.primal_integral(trace.iloc[:0], best=2.0, horizon=5.0) == 5.0


def test_primal_integral_is_the_limit_of_a_sum():
    rng = np.random.default_rng(0)
    trace = pd.DataFrame({"seconds": np.sort(rng.uniform(0, 9, 40)), "best": np.sort(rng.uniform(1, 5, 40))[::-1]})
    times = (np.arange(200_000) + 0.5) * 10.0 / 200_000
    held = np.searchsorted(trace["seconds"], times, side="right") - 1
    objective = np.where(held < 0, INF, trace["best"].to_numpy()[np.maximum(held, 0)])
    mean = profiles.primal_gap(objective, 0.5).mean()
    assert profiles.primal_integral(trace, best=0.5, horizon=10.0) == pytest.approx(10.0 * mean, rel=1e-4)


def test_reads_of_a_trace():
    trace = pd.DataFrame({"seconds": [0.5, 1.0, 2.0], "best": [9.0, 5.0, 5.0]})
    assert [profiles.best_at(trace, t) for t in (0.1, 0.5, 1.5, 9.0)] == [INF, 9.0, 5.0, 5.0]
    assert [profiles.seconds_to(trace, f) for f in (9.0, 6.0, 4.0)] == [0.5, 1.0, INF]


def test_holm_by_hand():
    p = pd.Series({"a": 0.01, "b": 0.04, "c": 0.03})
    assert statistics.holm(p).to_dict() == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})


def test_tests_of_equal_or_single_values_do_not_fail():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]})
    assert statistics.paired(table, "a").loc["b", "p (t)"] == 1.0
    _mean, statistic, _p = ranks.friedman(table, lower=True)
    assert np.isnan(statistic)


def test_nemenyi_critical_difference_is_demsars():
    pytest.importorskip("scikit_posthocs")
    # Demsar (2006), section 3.2.3: four classifiers on 14 data sets, CD = 2.569 sqrt(4 * 5 / (6 * 14)) = 1.25
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(14, 4)), columns=list("abcd"))
    mean, p, critical = ranks.nemenyi(table, lower=True)
    assert critical == pytest.approx(1.25, abs=5e-3)
    assert mean.sum() == pytest.approx(10.0)
    assert p.shape == (4, 4)
