"""Losses of one's own: their constants and majorizers, and the solvers that take them."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from opttree import TreeProblem, datasets
from opttree.statement.constraints import MaxDifference
from opttree.statement.losses import Exponential, Gamma, Huber, Loss, Poisson, Quantile
from solvers import GET, MIP, TAO, Boosting, BranchAndBound, CartInit, Chain, LocalSearch, MultiStart, solve

LOSSES = (Quantile(0.8), Quantile(0.1), Huber(0.7), Poisson(), Gamma(), Exponential())


def outcomes(loss, rng, n=200):
    if isinstance(loss, Poisson):
        return rng.poisson(2.0, n).astype(float)
    y = rng.gamma(2.0, size=n)
    return y * np.where(rng.random(n) < 0.7, 1.0, -1.0) if isinstance(loss, Exponential) else y


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_constant_is_the_best(loss, rng):
    y, w = outcomes(loss, rng), rng.uniform(0.5, 2.0, 200)
    found = minimize_scalar(lambda f: np.sum(w * loss.value(y, f)), bounds=(1e-3, 20.0), method="bounded",
                            options={"xatol": 1e-9})  # fmt: skip
    assert np.sum(w * loss.value(y, loss.constant(y, w))) <= found.fun * (1.0 + 1e-9)
    assert loss.value(y, np.full(y.size, loss.constant(y, w))).min() >= 0.0


@pytest.mark.parametrize("loss", [Quantile(0.8), Huber(0.7)], ids=str)
def test_majorizers_touch_and_are_nowhere_below(loss, rng):
    y, here = outcomes(loss, rng), rng.normal(size=200)
    w, t = loss.majorizer(y, here)
    far = np.abs(y - here) > 0.01
    base = loss.value(y, here) - w * t * t
    for step in rng.normal(size=(50, 1)):
        there = here + step
        assert np.all((w * (there - here - t) ** 2 + base - loss.value(y, there))[far] >= -1e-9)


def test_a_gradient_and_a_curvature_are_a_majorizer(rng):
    @dataclass(frozen=True)
    class Squares(Loss):
        def value(self, y, prediction):
            return (y - prediction) ** 2

        def constant(self, y, w):
            return float(np.average(y, weights=w))

        def gradient(self, y, prediction):
            return 2.0 * (prediction - y)

        def curvature(self, y, prediction):
            return np.full(np.broadcast(y, prediction).shape, 2.0)

    X = rng.normal(size=(300, 3))
    y = X[:, 0] * X[:, 1]
    own, named = (TreeProblem(X, y, depth=3, loss=loss) for loss in (Squares(), "squared"))
    for solver in (MultiStart(TAO(), 2), Boosting(n_trees=20)):
        ours, theirs = (solve(p, solver, random_state=0) for p in (own, named))
        assert ours.objective == pytest.approx(theirs.objective, rel=1e-9)
    two = TreeProblem(X, np.column_stack([y, X[:, 2]]), depth=3, loss=Squares())
    both = solve(two.restated(loss="squared"), TAO(), random_state=0)
    assert solve(two, TAO(), random_state=0).objective == pytest.approx(both.objective, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_trees_of_a_loss_descend(loss, rng):
    X = rng.normal(size=(400, 4))
    y = outcomes(loss, rng, 400) * np.exp(0.5 * (X[:, 0] > 0))
    y = np.round(np.abs(y)) if isinstance(loss, Poisson) else y
    problem = TreeProblem(X, y, depth=3, splits="axis", loss=loss, sample_weight=rng.uniform(0.5, 1.0, 400))
    cart = solve(problem, CartInit(), random_state=0)
    better = solve(problem, Chain(CartInit(), TAO(accept="improve")), random_state=0)
    assert better.objective <= cart.objective < problem.objective(problem.best_constant())


def test_a_leaf_that_is_kept_keeps_its_losses(rng):
    """Under accept="improve" a leaf may keep its old value: the next pass must not take the losses of the new one."""
    X = rng.normal(size=(300, 4))
    y = X[:, 0] * X[:, 1] + rng.normal(size=300)
    problem = TreeProblem(X, y, depth=4, loss=Quantile(0.9), min_leaf=5)
    for seed in range(10):
        result = solve(problem, Chain(MultiStart(TAO(), 3), TAO(accept="improve")), random_state=seed)
        assert problem.objective(result.tree) == pytest.approx(result.objective, rel=1e-12)
        assert (np.diff(result.trace.to_frame()["best"]) <= 1e-12).all()


def test_solvers_say_what_they_need():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0)
    problem = TreeProblem(X, y, depth=2, splits="axis", loss=Quantile(0.9))
    for solver in (GET(), LocalSearch(), BranchAndBound(), MIP()):
        with pytest.raises(ValueError, match=r"and not Quantile\(q=0\.9\)"):
            solve(problem, solver)
    positive = TreeProblem(X, y, depth=2, loss=Poisson())
    assert "may leave the domain of Poisson()" in Boosting().refusal(positive)

    @dataclass(frozen=True)
    class Bare(Loss):
        def value(self, y, prediction):
            return np.abs(y - prediction)

    assert "needs a loss with a majorizer" in Boosting().refusal(TreeProblem(X, y, depth=2, loss=Bare()))
    with pytest.raises(NotImplementedError, match="Bare must define constant"):
        solve(TreeProblem(X, y, depth=1, loss=Bare()), TAO())
    with pytest.raises(ValueError, match="leaves must be 'constant' for loss=Quantile"):
        TreeProblem(X, y, depth=2, leaves="linear", loss=Quantile())
    with pytest.raises(ValueError, match=r"y must be > 0 for loss=Gamma\(\); got 0"):
        TreeProblem(X, y, depth=2, loss=Gamma())
    with pytest.raises(ValueError, match="loss must be one of"):
        TreeProblem(X, y, depth=2, loss="poisson")


# ---- units and names ------------------------------------------------------------------------------------------------


def test_a_standardized_problem_knows_the_way_back(rng):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rng.normal(50.0, 9.0, size=(120, 3)), columns=["age", "size", "height"])
    y = 100.0 + 20.0 * (X["age"] > 50) + rng.normal(size=120)
    weight = rng.uniform(0.5, 2.0, 120)
    problem = TreeProblem.standardized(X, y, depth=2, sample_weight=weight)
    mean, deviation = problem.moments
    assert mean == pytest.approx(0.0, abs=1e-12)
    assert deviation == pytest.approx(1.0)
    result = solve(problem, TAO(), random_state=0)
    raw = problem.original(result)
    error = np.average((raw.predict(X) - y) ** 2, weights=weight) / np.average(
        (y - np.average(y, weights=weight)) ** 2, weights=weight
    )
    assert error == pytest.approx(result.objective)
    assert "age" in raw.to_text()
    assert raw.feature_names == result.tree.feature_names == ("age", "size", "height")
    assert type(raw).from_dict(raw.to_dict()).feature_names == raw.feature_names
    assert problem.restated(depth=2, min_leaf=2).original(result) == raw
    group = np.arange(120) % 2
    parity = {"depth": 1, "splits": "axis", "constraints": [MaxDifference(group, 3.0)]}
    fair = TreeProblem.standardized(X, y + 10.0 * group, **parity)
    back = fair.original(solve(fair, MIP("flow", n_thresholds=3), time_limit=30))
    assert TreeProblem(X, y + 10.0 * group, **parity).violation(back) is None
    with pytest.raises(ValueError, match="has its own units"):
        TreeProblem(X, y, depth=1).original(result)
    with pytest.raises(ValueError, match="feature_names must have 3 entries; got 1"):
        TreeProblem(X, y, depth=1, feature_names=["a"])
    counts = TreeProblem.standardized(X, np.arange(120.0), depth=1, loss=Poisson())
    assert np.array_equal(counts.y, np.arange(120.0))


def test_counts_on_real_data(needs_data):
    X, y = datasets.load("abalone").as_arrays()
    problem = TreeProblem(X, y, depth=3, splits="axis", loss=Poisson())
    cart = solve(problem, CartInit(), random_state=0)
    assert solve(problem, Chain(CartInit(), TAO(accept="improve")), random_state=0).objective < cart.objective


def test_rows_of_weight_zero_are_not_checked():
    X, y, w = np.arange(6.0)[:, None], np.array([1.0, 2.0, 0.0, 3.0, -3.0, 1.0]), np.array([1.0, 1, 1, 1, 0, 1])
    problem = TreeProblem(X, y, depth=1, loss=Poisson(), sample_weight=w)
    assert problem.sample(np.array([2])).objective(problem.sample(np.array([2])).best_constant()) == pytest.approx(0.0)
    with pytest.raises(ValueError, match=r"y must be >= 0 for loss=Poisson\(\); got -3"):
        TreeProblem(X, y, depth=1, loss=Poisson())
