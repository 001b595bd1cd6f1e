"""Side constraints: brute force on small instances, what solvers do of them, and functions of the Pyomo model."""

from types import SimpleNamespace

import numpy as np
import pyomo.environ as pyo
import pytest
from scipy.optimize import linprog

from opttree import MIPTreeProblem, Tree, TreeProblem
from opttree.statement import joint_leaves
from opttree.statement.constraints import (
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    MaxDifference,
    MaxFeatures,
    MaxShare,
    MaxSplits,
    MinLeaf,
    MinPerGroup,
    Monotone,
    PathCost,
    RequireSplit,
    SameLeaf,
)
from solvers import GET, MIP, BranchAndBound, CartInit, Chain, LocalSearch, MultiStart, Termination, certify, solve
from tests.conftest import thinned
from tests.constraint_oracle import FLOW_ONLY, KINDS, disagreement, formulations, instance, optimum, several

SOME = (MaxSplits(2), MaxFeatures(1), FeatureCost([1.0, 2.0, 3.0], 3.0), ForbidSplit(0, 0), RequireSplit(2, 0),
        SameLeaf(0, 1), DifferentLeaf(0, 1), Monotone(1, -1), MaxDifference(np.arange(24) % 2, 0.1),
        MinPerGroup(np.arange(24) % 2, 3),
        PathCost([1.0, 2.0, 3.0], 3.0), PathCost([1.0, 2.0, 3.0], 2.0, mean=True))  # fmt: skip


def stated(*constraints, n=24, loss="absolute", **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).round(1)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    return TreeProblem(X, y, constraints=constraints, **{"depth": 2, "splits": "axis", "loss": loss} | options)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", thinned(range(2), 2))
def test_every_formulation_finds_the_optimum_of_brute_force(kind, seed):
    problem = instance(kind, seed)
    truth = optimum(problem)
    forms = [form for form in formulations(problem) if form in ("hyperflow", "flow", "big-m", "Lagrangian")]
    assert len({"hyperflow", "flow", "big-m"} & set(forms)) == (2 if kind in FLOW_ONLY else 3)
    for form in forms:
        assert disagreement(problem, form, truth) is None


@pytest.mark.parametrize("seed", thinned(range(8), 2))
def test_several_constraints_at_once(seed):
    problem = several(seed)
    truth = optimum(problem)
    assert len(problem.constraints) >= 1
    for form in formulations(problem):
        assert disagreement(problem, form, truth) is None


def test_limits_on_splits_and_features_with_a_forbidden_one():
    X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]])
    both = [MaxFeatures(1), MaxSplits(2), ForbidSplit(0)]
    problem = TreeProblem(X, np.array([0.0, 1, 5, 2, 8, 3]), depth=2, splits="axis", constraints=both)
    assert disagreement(problem, "hyperflow", optimum(problem)) is None
    X = np.array([[2.0, 2, 2], [2, 1, 2], [0, 3, 0], [0, 3, 0], [0, 3, 1], [0, 1, 0]])
    both = [MaxFeatures(2), MaxSplits(2), ForbidSplit(2)]
    problem = TreeProblem(X, np.array([5.0, 4, 0, 8, 8, 2]), depth=2, splits="axis", constraints=both)
    assert solve(problem, MIP("hyperflow")).objective == pytest.approx(7.125)


@pytest.mark.parametrize("constraint", SOME, ids=lambda c: type(c).__name__)
def test_solvers_refuse_what_they_may_violate(constraint):
    problem = stated(constraint)
    assert "solvers.MIP states side constraints" in CartInit().refusal(problem)
    for solver in (GET(), Chain(LocalSearch(), GET()), MultiStart(CartInit())):
        with pytest.raises(ValueError, match="its trees may violate"):
            solve(problem, solver)
    for solver in (LocalSearch(n_starts=3), BranchAndBound()):
        if isinstance(constraint, solver.respects) and solver.refusal(problem) is None:
            assert problem.violation(solve(problem, solver, random_state=0).tree) is None
        else:
            assert solver.refusal(problem) is not None


def test_branch_and_bound_proves_what_mip_does_with_few_splits():
    problem = stated(MaxSplits(2), loss="squared")
    assert solve(problem, BranchAndBound()).objective == pytest.approx(solve(problem, MIP()).objective, rel=1e-9)
    assert certify(problem, solve(problem, LocalSearch(), random_state=0)).gap == pytest.approx(0.0, abs=1e-6)


def test_a_smallest_leaf_is_the_statements_own():
    problem = stated(MinLeaf(5), min_leaf=2)
    assert problem.min_leaf == 5
    assert problem.constraints == ()
    assert solve(problem, CartInit(), random_state=0).objective >= solve(problem, BranchAndBound()).objective


def test_an_infeasible_tree_is_never_reported_as_best():
    problem = stated(ForbidSplit(0))
    tree = Tree.complete(np.array([[1.0, 0.0, 0.0]]), np.array([0.0]), 1)
    assert "forbidden" in problem.violation(tree)
    assert problem.objective(tree) == np.inf
    with pytest.raises(ValueError, match="start must be feasible"):
        solve(problem, MIP(), start=tree)
    contradiction = stated(RequireSplit(0), ForbidSplit(0))
    for form in ("hyperflow", "flow", "big-m"):
        result = solve(contradiction, MIP(form), time_limit=60)
        assert result.termination is Termination.INFEASIBLE
        assert result.tree is None
        assert result.objective == result.bound == np.inf
        assert result.gap is None
        assert "No tree satisfies the constraints." in str(result)
        assert result.summary()["parameters"] is None
        assert "No tree" in result._repr_html_()
    few = solve(stated(RequireSplit(0), ForbidSplit(0)), MIP(n_thresholds=2), time_limit=60)  # of some trees alone
    assert few.termination is Termination.INFEASIBLE
    assert few.bound is None
    assert "other trees may" in few.message


def test_a_split_that_sends_all_rows_one_way_does_not_count():
    problem = stated(RequireSplit(2))
    A = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    dead = problem.fit_leaves(Tree.complete(A, np.array([1e3, 0.0, 0.0]), 1))
    assert "no split on feature 2" in problem.violation(dead)
    shifted = stated(ForbidSplit(0, where=0))  # without the dead root, feature 0 is at the root
    assert "forbidden" in shifted.violation(dead)


def test_leaves_are_fitted_together_under_an_order():
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(1)
    X, y = np.arange(40.0)[:, None], rng.normal(size=40)
    problem = TreeProblem(X, y, depth=2, splits="axis", constraints=[Monotone(0)])
    tree = Tree.complete(np.ones((3, 1)), np.array([19.5, 9.5, 29.5]), 1)
    fitted = problem.fit_leaves(tree)
    means = y.reshape(4, 10).mean(axis=1)
    assert not np.all(np.diff(means) >= 0.0)
    assert fitted.predict(X[[0, 10, 20, 30]]) == pytest.approx(
        IsotonicRegression().fit(range(4), means).predict(range(4))
    )
    labels = TreeProblem(X, (y > 0).astype(int), depth=2, splits="axis", loss="log", constraints=[Monotone(0, -1)])
    shares = labels.fit_leaves(Tree.complete(np.ones((3, 1)), tree.b, 2, labels.classes)).values[:, 1]
    truth = IsotonicRegression(increasing=False).fit_transform(range(4), (y > 0).reshape(4, 10).mean(axis=1))
    assert np.sort(shares)[::-1] == pytest.approx(truth)


def test_constraints_follow_the_rows():
    weight = np.ones(24)
    weight[3] = 0.0
    problem = stated(SameLeaf(3, 5), DifferentLeaf(4, 6), MaxDifference(np.arange(24) % 2, 0.5), sample_weight=weight)
    different, parity = problem.constraints  # row 3 is left out, and with it what is said of it
    assert (different.i, different.j) == (3, 5)
    assert len(parity.group) == 23
    part = problem.sample(np.arange(5))
    assert [type(c) for c in part.constraints] == [MaxDifference]
    assert problem.with_rows(problem.X[:4], problem.y[:4]).constraints == ()


@pytest.mark.parametrize(
    ("constraint", "options", "words"),
    [
        (ForbidSplit(7), {}, "feature must be below the number of features, 3; got 7"),
        (FeatureCost([1.0], 1.0), {}, "costs must have one entry per feature, 3; got 1"),
        (Monotone(0), {"leaves": "linear", "loss": "squared"}, "Monotone is for constant leaves"),
        (Monotone(0), {"splits": "oblique"}, "Monotone is for axis-aligned splits"),
        (MaxShare(1, 0.5), {}, "MaxShare is for costs of actions and 0/1 loss; got loss='absolute'"),
        (PathCost([1.0, 1.0, 1.0], 1.0), {"splits": "oblique"}, "PathCost is for axis-aligned splits"),
        (MinPerGroup([0, 1], 1), {}, "group must have one entry per row, 24; got 2"),
        (MaxDifference([0, 1], 0.1), {}, "group must have one entry per row, 24; got 2"),
        (SameLeaf(0, 99), {}, "must name rows below 24; got 99"),
        (RequireSplit(0, 5), {}, "must name a level above the depth, 2; got 5"),
        ("x", {}, "must be a sequence of constraints, such as MaxSplits"),
    ],
)
def test_what_does_not_fit_is_said(constraint, options, words):
    with pytest.raises(ValueError, match=words):
        stated(constraint, **options)


def test_options_of_constraints_are_checked():
    for make, words in (
        (lambda: MaxSplits(-1), "k must be an integer >= 0"),
        (lambda: Monotone(0, 2), "sign must be one of"),
        (lambda: SameLeaf(1, 1), "i and j must be two rows"),
        (lambda: FeatureCost([-1.0], 1.0), "costs must be a list of finite numbers"),
        (lambda: MaxDifference(0, -0.1), "tolerance must be"),
    ):
        with pytest.raises(ValueError, match=words):
            make()


# ---- hyperplanes ----------------------------------------------------------------------------------------------------


def test_hyperplanes_obey_limits_on_features():
    problem = stated(MaxFeatures(1), splits="oblique", n=12, depth=1)
    tree = solve(problem, MIP("big-m"), time_limit=60).tree
    assert np.count_nonzero(np.any(tree.A != 0.0, axis=0)) <= 1
    axis = solve(stated(n=12, depth=1), BranchAndBound())
    assert problem.objective(tree) == pytest.approx(axis.objective, abs=1e-6)


# ---- functions of the model -----------------------------------------------------------------------------------------


def test_a_function_of_the_model_restricts_the_splits():
    def no_high_thresholds(model):
        for t, j, threshold in model.split:
            if j == 0 and threshold > 0.0:
                model.split[t, j, threshold].fix(0)

    problem = stated()
    result = solve(problem, MIP(constraints=[no_high_thresholds], n_thresholds=4), time_limit=60)
    on_first = result.tree.feature == 0
    assert result.termination.name == "OPTIMAL"
    assert np.all(result.tree.b[on_first] <= 0.0)
    start = solve(problem, MIP(n_thresholds=4))
    assert result.objective > start.objective
    message = solve(problem, MIP(constraints=[no_high_thresholds], n_thresholds=4), start=start, time_limit=60).message
    assert "the start was not used: it violates a constraint of the model" in message


def test_a_function_of_the_model_restricts_the_leaves():
    def at_most(model):
        model.own = pyo.ConstraintList()
        for leaf in range(4):
            model.own.add(model.value[leaf, 0] <= 0.5)  # of the range of y

    problem = stated(n=16)
    result = solve(problem, MIP(constraints=[at_most], n_thresholds=4), time_limit=60)
    middle = 0.5 * (problem.Y.max() + problem.Y.min())
    assert result.tree.values.max() <= middle + 1e-6
    assert result.bound <= result.objective < problem.objective(problem.best_constant())


@pytest.mark.parametrize("form", ["flow", "big-m"])
def test_rows_are_at_leaf(form):
    def apart(model):
        model.own = pyo.Constraint(range(4), rule=lambda m, leaf: m.leaf[0, leaf] + m.leaf[1, leaf] <= 1)

    free = stated(n=14)
    own = solve(free, MIP(form, constraints=[apart]), time_limit=60)
    same = solve(stated(DifferentLeaf(0, 1), n=14), MIP("hyperflow"))
    assert own.objective == pytest.approx(same.objective, abs=1e-6)
    program = MIPTreeProblem(free, form, constraints=(apart,))
    model = program.encode(own.tree)
    assert free.objective(program.decode(model)) == pytest.approx(own.objective, abs=1e-6)


def test_what_a_function_has_fixed_stays_fixed(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(16, 2)).round(1)
    y = X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=16)
    problem = TreeProblem(X, y, depth=1, splits="axis")

    def high(model):
        model.value[0, 0].fix(0.9)  # of the range of y

    result = solve(problem, MIP("flow", constraints=[high]), time_limit=60)
    at = y.min() + 0.9 * np.ptp(y)
    best = min(
        float(np.sum((y[left] - at) ** 2) + np.sum((y[~left] - y[~left].mean()) ** 2)) / 16
        for j in range(2)
        for left in (X[:, j] <= t for t in np.unique(X[:, j])[:-1])
    )
    assert result.tree.values.min() == pytest.approx(at) or result.tree.values.max() == pytest.approx(at)
    assert result.objective == pytest.approx(min(best, np.mean((y - at) ** 2)), rel=2e-4)

    def root(model):
        (first,) = [key for key in model.split if key[:2] == (0, 1)][:1]
        model.split[first].fix(1)

    stated = MIPTreeProblem(problem.restated(loss="absolute"), "flow", constraints=(root,))
    model = stated.build()
    pyo.SolverFactory("appsi_highs").solve(model)
    from opttree.problems.mip.files import write_start

    write_start(model, tmp_path / "found.sol")
    kept = [line for line in (tmp_path / "found.sol").read_text().splitlines() if not line.startswith("split(0_1")]
    (tmp_path / "found.sol").write_text("\n".join(kept))
    assert stated.read_solution(tmp_path / "found.sol").feature.tolist() == [1]


def test_what_init_cannot_do_is_said_before():
    problem = stated(loss="squared")
    for solver in (MIP("flow", init=Chain(GET(), GET())), BranchAndBound(init=MultiStart(GET()))):
        assert "gates are hyperplanes" in solver.refusal(problem)


def test_many_rows_are_certified_under_a_limit_on_splits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    problem = TreeProblem(X, X[:, 0] * X[:, 1], depth=3, splits="axis", constraints=[MaxSplits(3)])
    verdict = certify(problem, problem.best_constant(), blocks=4, random_state=0)
    assert verdict.bound <= solve(problem, BranchAndBound()).objective


def test_a_relaxed_bound_says_so():
    problem = stated(Monotone(0, -1), loss="squared")
    verdict = certify(problem, problem.best_constant(), relax=True)
    assert verdict.bound == pytest.approx(solve(problem.restated(constraints=()), BranchAndBound()).objective, rel=1e-6)
    assert "without its side constraints" in verdict.message


def test_leaves_without_limits_and_empty_leaves_under_constraints():
    """The first ended the process, in a library; the second was a TypeError."""
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), np.array([1.0, 2.0, 3.0, 4.0])
    stated = TreeProblem(X, y, depth=1, splits="axis", constraints=[Monotone(0)])
    tree = stated.fit_leaves(Tree.complete(np.array([[1.0, 0.0]]), np.array([0.5]), 1))
    assert np.isfinite(stated.objective(tree))
    falling = TreeProblem(np.arange(4.0)[:, None], -y, depth=2, splits="axis", constraints=[Monotone(0)])
    tree = Tree.complete(np.array([[1.0], [1.0], [1.0]]), np.array([1.5, 0.5, 9.0]), 1)
    assert np.isfinite(falling.objective(falling.fit_leaves(tree)))


def test_groups_and_costs_that_are_none_are_refused_in_a_sentence():
    for make, words in (
        (lambda: MaxDifference([None, "a", "b"], 0.1), "group must have no missing values; got 1"),
        (lambda: MinPerGroup(["a", 1.0, ()], 2), "group|inhomogeneous"),
        (lambda: FeatureCost(["a", "b"], 1.0), "costs must be numbers, or a mapping to them"),
        (lambda: PathCost({0: "a"}, 1.0), "costs must be numbers, or a mapping to them"),
    ):
        with pytest.raises(ValueError, match=words):
            make()
    X = np.arange(2000.0).reshape(-1, 2)
    with pytest.raises(ValueError, match="group must have at most 500 different values; got 1000"):
        TreeProblem(X, X[:, 0], 1, constraints=MaxDifference(0, 0.1))


def test_a_budget_is_in_units_of_the_costs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    stated = TreeProblem(X, X[:, 0] * X[:, 1], 2, "axis", constraints=FeatureCost([1e-10, 1e-10], 1e-10))
    for solver in (MIP(), BranchAndBound()):
        tree = solve(stated, solver, time_limit=20).tree
        assert np.count_nonzero(np.any(tree.A != 0.0, axis=0)) == 1
        assert stated.violation(tree) is None


@pytest.mark.parametrize("seed", range(6))
def test_many_groups_are_compared_leaf_by_leaf(seed):
    """Limits of pairs of groups on the leaves are those on the rows."""
    rng = np.random.default_rng(seed)
    X, group = rng.normal(size=(60, 2)), rng.integers(0, 4, 60)
    y = rng.integers(0, 2, 60) if seed % 2 else rng.normal(size=60)
    loss = "zero_one" if seed % 2 else "squared"
    constraint = MaxDifference(group, 0.3)
    stated = TreeProblem(X, y, 2, "axis", loss=loss, sample_weight=rng.random(60), constraints=constraint)
    tree = solve(stated.restated(constraints=()), BranchAndBound()).tree
    over_rows = constraint.terms(stated)
    of_leaves = constraint.limits(stated, tree)
    leaf = stated.leaves_of(tree) - tree.n_branches
    summed = np.array([[part[leaf == k].sum(axis=0) for k in range(tree.n_leaves)] for part in over_rows.G])
    np.testing.assert_allclose(of_leaves.G[: len(summed)], summed, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_least_absolute_deviations_within_limits(seed):
    """Cutting planes end where one linear program with a variable for each row does."""
    rng = np.random.default_rng(seed)
    n, L, K = int(rng.integers(8, 150)), int(rng.integers(1, 6)), int(rng.integers(1, 3))
    Y = rng.normal(size=(n, K)).round(0 if seed % 3 == 0 else 8)
    leaf = np.concatenate([np.arange(L), rng.integers(0, L, n - L)])
    w, G = rng.random(n), rng.normal(size=(3, L * K))
    h = G @ rng.normal(size=L * K) + 0.1 * rng.random(3)
    found = joint_leaves._medians(SimpleNamespace(Y=Y, w=w), leaf, G, h, (L, K))
    assert (G @ found.ravel() <= h + 1e-7).all()
    pick = np.kron(np.eye(L)[leaf], np.eye(K))
    far = np.eye(n * K)
    sides = np.block([[pick, -far], [-pick, -far], [G, np.zeros((3, n * K))]])
    cost = np.concatenate([np.zeros(L * K), np.repeat(w, K)])
    bounds = [(None, None)] * (L * K) + [(0, None)] * (n * K)
    least = linprog(cost, A_ub=sides, b_ub=np.concatenate([Y.ravel(), -Y.ravel(), h]), bounds=bounds).fun
    assert w @ np.abs(Y - found[leaf]).sum(axis=1) == pytest.approx(least, rel=1e-7)
