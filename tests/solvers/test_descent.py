"""First-order drivers: schedules, batches, averaging, early stopping; slices and threads change no number."""

import numpy as np
import pytest

from opttree import SmoothTreeProblem
from opttree.runtime.threads import limited
from solvers import LBFGS, Adam, QHAdam
from solvers.descent import geometric, run_all
from tests.conftest import classification_problem, regression_problem


def minimised(optimizer, smooth, epochs=60, seed=0, **options):
    rng = np.random.default_rng(seed)
    (descent,) = optimizer.start([smooth], [smooth.random_theta(rng)], [geometric(1.0, 5.0, epochs)], [rng], **options)
    for _ in run_all([descent]):
        pass
    return descent


OPTIMIZERS = [
    Adam(0.05),
    Adam(0.05, period=20, factor=2),
    Adam(0.05, batch_size=64),
    Adam(0.05, average=3),
    QHAdam(0.05),
    LBFGS(),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_every_driver_lowers_the_objective(optimizer, dtype, eps):
    smooth = SmoothTreeProblem(regression_problem(600), alpha=5.0, dtype=dtype, eps=eps)
    start = smooth.random_theta(np.random.default_rng(0))
    (found,) = minimised(optimizer, smooth).thetas
    assert smooth.value(found) < 0.7 * smooth.value(start)


def test_adam_is_adam():
    """Ten steps against the textbook's formulas in NumPy."""
    smooth = SmoothTreeProblem(regression_problem(100), alpha=2.0)
    theta = smooth.random_theta(np.random.default_rng(0))
    for optimizer in (Adam(0.1), QHAdam(0.1), Adam(0.1, period=4)):
        expected, m, v = theta.copy(), np.zeros_like(theta), np.zeros_like(theta)
        o = optimizer
        for k in range(10):
            g = smooth.value_and_grad(expected)[1]
            m, v = o.beta1 * m + (1 - o.beta1) * g, o.beta2 * v + (1 - o.beta2) * g * g
            mean = (1 - o.nu1) * g + o.nu1 * m / (1 - o.beta1 ** (k + 1))
            square = (1 - o.nu2) * g * g + o.nu2 * v / (1 - o.beta2 ** (k + 1))
            period = o.period or 10
            rate = 0.05 * (1 + np.cos(np.pi * (k % period) / period))
            expected = expected - rate * mean / (np.sqrt(square) + o.epsilon)
        (descent,) = optimizer.start([smooth], [theta], [np.full(10, 2.0)], [np.random.default_rng(0)])
        descent.advance(10)
        np.testing.assert_allclose(descent.thetas[0], expected, rtol=1e-9)


def test_warm_restarts_lengthen_by_the_factor():
    rates = Adam(1.0, period=3, factor=2).rates(9)
    np.testing.assert_allclose(rates[[0, 3]], 1.0)
    np.testing.assert_allclose(rates[:3], 0.5 + 0.5 * np.cos(np.pi * np.arange(3) / 3))
    np.testing.assert_allclose(rates[3:], 0.5 + 0.5 * np.cos(np.pi * np.arange(6) / 6))


@pytest.mark.parametrize("optimizer", [Adam(0.05), Adam(0.05, batch_size=50), Adam(0.05, average=2)], ids=repr)
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_slices_and_threads_change_no_number(optimizer, eps):
    smooth = SmoothTreeProblem(regression_problem(700), dtype="float32", eps=eps)
    found = []
    for steps, n_threads in ((1, 1), (7, 2), (1000, 1), (13, 3)):
        with limited(n_threads, worth=1.0):
            rng = np.random.default_rng(5)
            (descent,) = optimizer.start([smooth], [smooth.random_theta(rng)], [geometric(1.0, 20.0, 60)], [rng])
            while descent.remaining:
                descent.advance(steps)
        found.append(descent.thetas[0])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_closed_leaves_stay_the_best_for_the_gates():
    for problem in (regression_problem(400), classification_problem(400, loss="log")):
        smooth = SmoothTreeProblem(problem, alpha=5.0)
        descent = minimised(Adam(0.01), smooth, epochs=200, closed_leaves=True)
        (theta,) = descent.thetas
        gap = smooth.value(theta) - smooth.value(smooth.best_leaves(theta))
        assert 0.0 <= gap < 1e-4
    with pytest.raises(ValueError, match="closed_leaves needs aggregation='expected'"):
        minimised(Adam(), SmoothTreeProblem(regression_problem(), aggregation="mixture"), closed_leaves=True)


def test_early_stopping_returns_the_best_checkpoint():
    parts = regression_problem(150, p=8).split(0.3, np.random.default_rng(0))
    train, valid = (SmoothTreeProblem(part, alpha=5.0) for part in parts)
    assert train.problem.n_samples == 105
    assert valid.problem.n_samples == 45
    rng = np.random.default_rng(0)
    scales, judged = geometric(1.0, 5.0, 2000), {}
    adam = Adam(0.2, check=5, patience=3)
    (descent,) = adam.start([train], [train.random_theta(rng)], [scales], [rng], validation=valid)
    while descent.remaining:
        descent.advance(5)
        judged[descent.done] = valid.with_alpha(scales[descent.done - 1]).value(descent.thetas[0])
    assert descent.done < 2000  # it overfits these few rows long before
    del judged[descent.done]  # by now theta is the best one's
    best = descent.done - 3 * 5
    assert min(judged, key=judged.get) == best
    assert judged[best] < 1.0
    assert valid.with_alpha(scales[best - 1]).value(descent.thetas[0]) == judged[best]
    with pytest.raises(ValueError, match=r"fraction must be between 0 and 1; got 1\.5"):
        train.problem.split(1.5, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be a finite number > 0; got 0"),
        ({"beta1": 1.0}, r"beta1 must be a finite number in \[0, 1\); got 1"),
        ({"nu2": 1.5}, r"nu2 must be a finite number between 0 and 1; got 1.5"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1 or None; got 0"),
        ({"patience": 0}, "patience must be an integer >= 1; got 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Adam(**options)
