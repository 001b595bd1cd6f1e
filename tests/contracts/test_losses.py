"""Losses of one's own, by the solvers that take them."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import solvers
from opttree import SplitPrice, TreeProblem, datasets
from opttree.statement.losses import Decision, Exponential, Gamma, Loss, Poisson, Quantile, check_loss
from solvers import GET, MIP, TAO, Boosting, BranchAndBound, CartInit, Chain, LocalSearch, MultiStart, solve
from solvers.conformance import example_solvers
from tests.conftest import thinned
from tests.statement.test_losses import LOSSES, outcomes
from tests.statement_oracle import MEASURES, STATEMENTS, disagreements, instance, of_measure, optimum


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
    for solver in (GET(), LocalSearch(), MIP()):
        with pytest.raises(ValueError, match=r"its loss is Quantile\(q=0\.9\), and it takes losses with"):
            solve(problem, solver)
    own = TreeProblem(X, y, depth=2, splits="axis", loss=Quartic())
    with pytest.raises(ValueError, match="it takes losses with statistics that add up"):
        solve(own, BranchAndBound())
    positive = TreeProblem(X, y, depth=2, loss=Poisson())
    assert "may leave the domain of Poisson()" in Boosting().refusal(positive)

    @dataclass(frozen=True)
    class Bare(Loss):
        def value(self, y, prediction):
            return np.abs(y - prediction)

    assert "needs a loss with a majorizer" in Boosting().refusal(TreeProblem(X, y, depth=2, loss=Quartic()))
    with pytest.raises(ValueError, match="and it takes losses with a best constant"):
        solve(TreeProblem(X, y, depth=1, loss=Bare()), TAO())
    with pytest.raises(ValueError, match="leaves must be 'constant' for loss=Quantile"):
        TreeProblem(X, y, depth=2, leaves="linear", loss=Quantile())
    with pytest.raises(ValueError, match=r"y must be > 0 for loss=Gamma\(\); got 0"):
        TreeProblem(X, y, depth=2, loss=Gamma())
    with pytest.raises(ValueError, match="loss must be one of"):
        TreeProblem(X, y, depth=2, loss="poisson")


def test_counts_on_real_data(needs_data):
    X, y = datasets.load("abalone").as_arrays()
    problem = TreeProblem(X, y, depth=3, splits="axis", loss=Poisson())
    cart = solve(problem, CartInit(), random_state=0)
    assert solve(problem, Chain(CartInit(), TAO(accept="improve")), random_state=0).objective < cart.objective


@dataclass(frozen=True)
class Quartic(Loss):
    """A loss that says its value and its constants, and nothing else."""

    def value(self, y, prediction):
        return (y - prediction) ** 4

    def constant(self, y, w):
        return float(minimize_scalar(lambda c: np.sum(w * (y - c) ** 4), bounds=(y.min(), y.max()), method="bounded").x)


@pytest.mark.parametrize("splits", ["axis", "oblique"])
@pytest.mark.parametrize("solver", example_solvers(vars(solvers)), ids=lambda solver: type(solver).__name__)
def test_a_new_loss_is_taken_rightly_or_refused(solver, splits, rng):
    X = rng.normal(size=(60, 3))
    problem = TreeProblem(X, X[:, 0] * X[:, 1], depth=2, splits=splits, loss=Quartic())
    reason = solver.refusal(problem)
    if reason is not None:
        assert solver.needs == ("code",) or splits == "axis" or "loss" in reason or "splits" in reason
        return
    result = solve(problem, solver, random_state=0)
    error = problem.y - result.tree.outputs(X)[:, 0]
    assert result.objective == pytest.approx(np.mean(error**4), rel=1e-9)
    assert result.objective <= problem.objective(problem.best_constant()) * (1.0 + 1e-9)


def summed(seed):
    """A small problem of a loss whose statistics add up, with weights, ties and a price by turns."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 20))
    y = {
        0: ("cost", rng.integers(0, 6, size=(n, 3)).astype(float)),
        1: ("cost", rng.exponential(size=(n, 2)) * 10.0 ** rng.integers(-3, 4)),
        2: (Exponential(), rng.exponential(size=n) * np.where(rng.random(n) < 0.6, 1.0, -1.0)),
        3: (Poisson(), rng.poisson(2.0, n).astype(float)),
        4: (Gamma(), rng.exponential(size=n)),
        5: (Decision(cheapest), rng.exponential(size=(n, 3))),
    }
    loss, outcome = y[seed % 6]
    options = {
        "penalties": (SplitPrice(float(rng.uniform(0.0, 0.05))),) if seed % 4 == 0 else (),
        "sample_weight": rng.integers(1, 4, size=n).astype(float) if seed % 2 else None,
        "min_leaf": int(rng.integers(1, 3)),
    }
    X = rng.integers(0, 4, size=(n, 3)).astype(float)
    return TreeProblem(X, outcome, depth=2, splits="axis", loss=loss, **options)


def cheapest(costs):
    chosen = np.zeros(costs.size)
    chosen[np.argmin(costs)] = 1.0
    return chosen


@pytest.mark.parametrize("seed", range(12))
def test_programs_and_searches_agree_where_statistics_add_up(seed):
    problem = summed(seed)
    proved = solve(problem, BranchAndBound())
    slack = 1e-6 * proved.objective + 1e-9
    programs = [MIP("hyperflow")] + [MIP(form) for form in ("flow", "big-m") if problem.loss == "cost"]
    for program in programs:
        result = solve(problem, program, time_limit=60)
        assert result.termination.name == "OPTIMAL"
        assert result.objective == pytest.approx(proved.objective, abs=slack)
        assert result.bound <= proved.objective + slack
    found = solve(problem, LocalSearch(n_starts=3), random_state=0).objective
    assert proved.objective - slack <= found <= problem.objective(problem.best_constant()) + slack


def test_decisions_by_a_function_are_those_of_a_list(rng):
    """Two of four items: six decisions."""
    pairs = np.array([[k in (i, j) for k in range(4)] for i in range(4) for j in range(i)], float)

    def two(costs):
        chosen = np.zeros(costs.size)
        chosen[np.argsort(costs)[:2]] = 1.0
        return chosen

    X = rng.normal(size=(60, 3))
    costs = np.exp(X[:, [0]] * [1.0, -1.0, 0.0, 0.5]) * rng.uniform(0.5, 2.0, size=(60, 4))
    check_loss(Decision(two), costs)
    listed = solve(TreeProblem(X, costs @ pairs.T, 2, "axis", loss="cost"), BranchAndBound())
    problem = TreeProblem(X, costs, 2, "axis", loss=Decision(two))
    asked = solve(problem, BranchAndBound())
    spared = (costs @ pairs.T).min(axis=1).mean()
    assert asked.termination.name == "OPTIMAL"
    assert asked.objective == pytest.approx(listed.objective - spared, rel=1e-9)
    assert asked.bound <= asked.objective * (1.0 + 1e-9)
    assert solve(problem, TAO(), random_state=0).objective >= asked.objective

    def unknown(costs):
        import math

        return np.full(costs.size, math.floor(1.5))

    with pytest.raises(ValueError, match="must be a function that numba compiles"):
        solve(problem.restated(loss=Decision(unknown)), BranchAndBound())
    with pytest.raises(ValueError, match="decide must return a finite amount for each of 4 costs"):
        problem.restated(loss=Decision(lambda costs: costs[:2]))


@pytest.mark.parametrize("kind", STATEMENTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", thinned(range(2), 1))
def test_solvers_find_the_optimum_of_brute_force(kind, seed):
    problem = instance(kind, seed)
    checked = disagreements(problem, optimum(kind, problem), problem.objective(problem.best_constant()))
    assert len(checked) >= 3
    assert [wrong for _name, wrong in checked if wrong is not None] == []


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("measure", [*MEASURES, "recall"])
def test_measures_are_those_of_brute_force(measure, seed):
    assert of_measure(measure, seed) is None


def test_decisions_are_checked_at_any_size_of_the_costs(rng):
    """Rounding at 1e10 was taken for a wrong function, and a wrong function at 1e-8 for a right one."""

    def dearest(costs):
        chosen = np.zeros(costs.size)
        chosen[np.argmax(costs)] = 1.0
        return chosen

    near = np.tile(rng.random(4), (6, 1)) + 1e-3 * rng.random((6, 4))
    for size in (1e-8, 1.0, 1e11):
        problem = TreeProblem(rng.random((6, 2)), size * near, 1, "axis", loss=Decision(cheapest))
        assert solve(problem, BranchAndBound()).objective >= 0.0
        wrong = TreeProblem(rng.random((20, 2)), size * rng.random((20, 4)), 1, "axis", loss=Decision(dearest))
        with pytest.raises(ValueError, match=r"\.cost must be"):
            solve(wrong, BranchAndBound())
    assert pickle.loads(pickle.dumps(problem)).loss == problem.loss
