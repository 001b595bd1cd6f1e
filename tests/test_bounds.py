"""Bounds hold for every tree that the statement allows: nearly equal values, outliers, rounding, and from the start."""

import itertools

import numpy as np
import pytest

from experiments.benchmarks import bounds
from opttree import OCTClassifier, ORTRegressor, SplitPrice, TAOClassifier, TAORegressor, Tree, TreeProblem
from opttree.kernels.losses.entropy import CAP, give_up_rare, log_cost
from opttree.kernels.passes.thresholds import between
from opttree.model.convert import as_tree
from opttree.statement.constraints import Monotone, RequireSplit
from opttree.statement.numbers import in_same_order
from solvers import MIP, TAO, BlockBounds, BranchAndBound, CartInit, LocalSearch, ObliqueBranchAndBound, certify, solve
from solvers.exact import early


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_no_tree_is_below_a_bound(first):
    """The campaign outside of the suite has 20,000 of these instances."""
    assert [wrong for seed in range(first, first + 30) for wrong in bounds.check(seed)] == []


# seeds of the campaign at which a bound was false, or that crashed
@pytest.mark.parametrize(
    "seed", [54, 121, 147, 281, 106112, 1318, 1365, 1474, 2600, 3218, 3877, 3953, 4117, 10398, 11196]
)
def test_what_once_was_wrong(seed):
    assert bounds.check(seed) == []


GAPS = [(1e6, 1e-9), (1e6, 1e-7), (1e3, 1e-9), (1.0, 1e-12), (1.0, 1e-15), (1.7e9, 1e-3), (1e12, 1.0), (1e15, 1.0)]


@pytest.mark.parametrize(("offset", "gap"), GAPS)
def test_nearly_equal_values_are_told_apart(offset, gap):
    """Values within 1e-11 of their size counted as equal: objective .5 "OPTIMAL" where a feasible tree has 0."""
    X = np.arange(4.0)[:, None] * gap + offset
    y = np.array([0, 1, 0, 1])
    stated = TreeProblem(X, y, depth=2, splits="axis", loss="zero_one")
    for solver in (BranchAndBound(), MIP(), MIP("flow"), MIP("big-m"), TAO(), LocalSearch()):
        assert solve(stated, solver, random_state=0).objective == 0.0, solver
    assert certify(stated, stated.best_constant()).bound == 0.0
    scaled = TreeProblem.standardized(X, y, depth=2, splits="axis", loss="zero_one")
    tree = scaled.original(solve(scaled, BranchAndBound()).tree)
    assert stated.objective(tree) == 0.0
    assert OCTClassifier(2, random_state=0).fit(X, y).score(X, y) == 1.0


def test_one_outlier_leaves_the_others_apart():
    x = np.arange(40.0)
    x[-1] = 1e13
    y = np.arange(40) // 5 % 2
    y[-1] = 0
    for outlier in (1e13, -1e13, 1e17):
        x[-1] = outlier
        model = OCTClassifier(3, random_state=0).fit(x[:, None], y)
        tao = TAOClassifier(3, splits="axis", random_state=0).fit(x[:, None], y)
        assert model.is_optimal_
        assert model.score(x[:, None], y) >= max(tao.score(x[:, None], y), 0.95)


def test_raw_trees_route_rows_as_scaled_ones():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 40))
        X = np.column_stack([bounds.column(rng, n) for _ in range(2)])
        y = rng.integers(0, 3, n)
        for model in (OCTClassifier(2, random_state=0), TAORegressor(2, splits="axis", random_state=0)):
            model.fit(X, y)
            scaled = as_tree(model.result_.tree)
            stated = model.state(X, y if isinstance(model, OCTClassifier) else y.astype(float))[0]
            pairs = set(zip(stated.leaves_of(scaled).tolist(), model.tree_.apply(X).tolist(), strict=True))
            assert len(pairs) == scaled.n_leaves if scaled.n_leaves == model.tree_.n_leaves else len(pairs) <= n
            assert len({a for a, _b in pairs}) == len({b for _a, b in pairs}) == len(pairs)


def test_thresholds_lie_between_any_two_doubles():
    low = np.array([1.0, 1e15, -1.0, 5e-324, -1e150])
    high = np.nextafter(low, np.inf)
    cut = between(low, high)
    assert np.all((low <= cut) & (cut < high))
    assert between(1.0, 2.0) == 1.5
    X = 1e16 + np.arange(8.0)[:, None] * 2.0
    Z = (X - X.mean()) / 1e17  # whose values differ less than doubles near 1 do
    Z += 1.0
    in_same_order(X, Z)
    assert np.all(np.diff(Z[:, 0]) > 0.0)


def test_rare_classes_are_given_up_where_that_pays():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = 10.0 ** rng.uniform(-9, 0, rng.integers(2, 5))
        options = []
        for size in range(counts.size):
            for given in itertools.combinations(range(counts.size), size):
                kept = np.delete(counts, given)
                options.append(CAP * counts[list(given)].sum() - np.sum(kept * np.log(kept / kept.sum())))
        assert log_cost(np.concatenate([[9.0], counts]), 1) == pytest.approx(min(options), rel=1e-9)
        shares = (counts / counts.sum())[None]
        give_up_rare(shares)
        loss = np.sum(counts * np.minimum(-np.log(np.maximum(shares[0], 1e-300)), CAP))
        assert loss == pytest.approx(min(options), rel=1e-9)


def test_log_loss_of_rows_of_very_different_weight_is_proved():
    X, y, w = np.arange(6.0)[:, None], np.array([0, 1, 0, 0, 0, 1]), np.array([1.0, 1e-7, 1.0, 1.0, 1.0, 1e-8])
    stated = TreeProblem(X, y, depth=1, splits="axis", loss="log", sample_weight=w)
    result = solve(stated, BranchAndBound())
    assert result.termination.name == "OPTIMAL"
    sure = Tree.constant(np.array([1.0, 0.0]), 1, np.array([0, 1]))
    assert result.bound <= stated.objective(sure)


@pytest.mark.parametrize("squared", [True, False])
def test_the_bound_by_outputs_is_that_of_clusters(squared, monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(40):
        n, most = int(rng.integers(2, 30)), int(rng.integers(1, 7))
        y, w = rng.choice([rng.normal(size=n), rng.integers(0, 5, n) * 1.0]), rng.uniform(0.1, 1.0, n)
        w /= w.sum()
        truth = clusters(y, w, most, squared)
        np.testing.assert_allclose(early._least_losses(y, w, most, squared), truth, atol=1e-10)
        monkeypatch.setattr(early, "GROUPS", int(rng.integers(2, 12)))
        assert np.all(early._least_losses(y, w, most, squared) <= truth + 1e-12)
        monkeypatch.undo()


def clusters(y, w, most, squared):
    """The least loss of 1, ..., ``most`` constants, by dynamic programming over all rows."""
    order = np.argsort(y)
    y, w, n = y[order], w[order], len(y)

    def cost(a, b):
        if squared:
            return np.sum(w[a:b] * (y[a:b] - np.average(y[a:b], weights=w[a:b])) ** 2)
        return min(np.sum(w[a:b] * np.abs(y[a:b] - c)) for c in y[a:b])

    costs = {(a, b): cost(a, b) for a in range(n) for b in range(a + 1, n + 1)}
    best = [0.0] + [costs[0, b] for b in range(1, n + 1)]
    found = [best[n]]
    for _ in range(most - 1):
        best = [0.0] + [min([best[b], *(best[a] + costs[a, b] for a in range(1, b))]) for b in range(1, n + 1)]
        found.append(best[n])
    return np.array(found)


@pytest.mark.parametrize("loss", ["squared", "absolute", "zero_one"])
def test_early_bounds_hold(loss):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(300, 3)).astype(float)
    y = X[:, 0] * X[:, 1] + rng.normal(size=300) if loss != "zero_one" else rng.integers(0, 2, 300)
    stated = TreeProblem(X, y, depth=2, splits="axis", loss=loss, penalties=SplitPrice(0.01))
    exact = solve(stated, BranchAndBound())
    search = bounds_of(stated)
    assert 0.0 < max(search) <= exact.objective + 1e-12
    monkey = list(early.blocks_bounds(stated, None, 1.0, rng))
    assert np.all(np.diff(monkey) >= 0.0)
    assert monkey[-1] <= exact.objective + 1e-12


def bounds_of(stated):
    from opttree import ExactTreeProblem

    return early.outputs_bound(stated, 3), early.equal_rows_bound(ExactTreeProblem(stated))


def test_a_bound_is_there_from_the_first_second_and_the_limit_is_kept():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400_000, 4))
    stated = TreeProblem(X, X[:, 0] + 20.0 * rng.normal(size=400_000), depth=3, splits="axis")
    result = solve(stated, BranchAndBound(), time_limit=1.0, random_state=0)
    assert result.bound > 0.0
    assert result.seconds < 4.0
    assert certify(stated, stated.best_constant(), time_limit=1.0, random_state=0).bound > 0.0


def test_a_clipped_tree_is_not_said_to_be_optimal_by_a_bound_for_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    stated = TreeProblem(X, np.clip(X[:, 0], -0.5, 0.5), depth=1, splits="axis", leaves="linear")
    assert not BranchAndBound().covers(stated)
    verdict = certify(stated, stated.fit_leaves(stated.best_constant()))
    assert "not clipped" in verdict.message


def test_leaves_without_limits_and_empty_leaves_under_constraints():
    """The first ended the process, in a library; the second was a TypeError."""
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), np.array([1.0, 2.0, 3.0, 4.0])
    stated = TreeProblem(X, y, depth=1, splits="axis", constraints=[Monotone(0)])
    tree = stated.fit_leaves(Tree.complete(np.array([[1.0, 0.0]]), np.array([0.5]), 1))
    assert np.isfinite(stated.objective(tree))
    falling = TreeProblem(np.arange(4.0)[:, None], -y, depth=2, splits="axis", constraints=[Monotone(0)])
    tree = Tree.complete(np.array([[1.0], [1.0], [1.0]]), np.array([1.5, 0.5, 9.0]), 1)
    assert np.isfinite(falling.objective(falling.fit_leaves(tree)))


def test_blocks_start_from_a_tree_that_the_constraints_allow():
    from opttree.statement.constraints import MaxSplits

    X = np.arange(30.0)[:, None]
    stated = TreeProblem(X, np.arange(30) % 3, depth=2, splits="axis", loss="zero_one", constraints=[MaxSplits(0)])
    result = solve(stated, BlockBounds(blocks=2), random_state=0)
    assert result.bound <= result.objective


def test_oblique_rows_that_nearly_coincide_leave_no_false_proof():
    X = np.array([[0.0, -1e17], [0.3, 1.0], [-0.4, 2.0], [0.1, 3.0], [-2.0, 0.5], [0.7, -1.0]])
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    for columns in (X, X[:, 1:], X[:, :1] * 1e-15 + 1.0):
        stated = TreeProblem(columns, y, depth=1)
        result = solve(stated, ObliqueBranchAndBound(init=None), random_state=0)
        axis = solve(stated.restated(splits="axis"), BranchAndBound())
        assert result.bound <= axis.objective + 1e-12


def test_a_class_whose_rows_weigh_nothing_stays():
    X, y, w = np.arange(12.0)[:, None], np.arange(12) % 3, (np.arange(12) % 3 < 2).astype(float)
    for cp in (0.0, 0.01):
        assert OCTClassifier(2, cp=cp, random_state=0).fit(X, y, w).classes_.tolist() == [0, 1, 2]
    stated = TreeProblem(X, y, depth=1, splits="axis", loss="zero_one", sample_weight=w)
    assert stated.restated(min_leaf=2).classes.tolist() == [0, 1, 2]
    assert stated.with_rows(X, X[:, 0], loss="squared").classes is None


def test_seeds_reach_the_optimizer():
    from solvers.mip.mip import _Search

    seen = []
    take = _Search.__init__

    def noted(self, options, stated, began):
        seen.append(options.seed)
        take(self, options, stated, began)

    stated = TreeProblem(np.arange(8.0)[:, None], np.arange(8.0) % 3, depth=1, splits="axis")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Search, "__init__", noted)
        for seed in (0, 0, 1):
            solve(stated, MIP(), random_state=seed)
        solve(stated, MIP(seed=7), random_state=1)
    assert seen[0] == seen[1] != seen[2]
    assert seen[3] == 7


def test_cart_tells_values_apart_that_single_precision_does_not():
    X = 1.7e9 + np.arange(16.0)[:, None]  # seconds: single precision has one number for 128 of them
    y = np.arange(16) // 4 % 2
    stated = TreeProblem(X, y, depth=3, splits="axis", loss="zero_one")
    assert solve(stated, CartInit()).objective == 0.0
    near = TreeProblem(X * 1e-16, y, depth=3, splits="axis", loss="zero_one")
    assert solve(near, CartInit()).objective == 0.0


def test_requirements_that_no_tree_meets_are_infeasible_for_regressors_too():
    stated = TreeProblem(np.ones((4, 1)), np.arange(4.0), depth=1, splits="axis", constraints=[RequireSplit(0)])
    result = solve(stated, MIP(), random_state=0)
    assert result.termination.name == "INFEASIBLE"
    assert ORTRegressor(1, random_state=0).fit(np.ones((4, 1)), np.arange(4.0)).tree_.n_branches == 0


def test_a_constant_that_violates_a_constraint_is_no_excuse():
    """Its infinite objective was the scale of rounding: a tree 85 times worse than the best was "Proved optimal"."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = (X[:, 0] > 0) * 2.0 + 0.1 * rng.normal(size=30)
    stated = TreeProblem(X, y, depth=1, splits="axis", constraints=[RequireSplit(0)])
    cut = np.sort(X[:, 0])[2]
    bad = stated.fit_leaves(Tree(np.array([[1, 2]]), np.array([[1.0, 0.0]]), np.array([cut]), np.zeros((2, 1))))
    verdict = certify(stated, bad)
    assert verdict.termination.name == "LOCALLY_OPTIMAL"
    assert "Not optimal" in verdict.message


def test_copies_of_a_scaled_problem_know_the_way_back():
    import pickle

    X, y = (1.0 + np.arange(12) * 2.0**-52)[:, None], np.arange(12) // 3 % 2
    stated = TreeProblem.standardized(X, y, depth=3, splits="axis", loss="zero_one")
    result = solve(stated, BranchAndBound())
    for own in (stated, pickle.loads(pickle.dumps(stated)), stated.sample(np.arange(12)), stated.restated(min_leaf=1)):
        assert np.array_equal(own.original(result).predict(X), y)
