"""`certify`, bounds by blocks of rows, and start trees of optimal subtrees."""

import numpy as np
import pandas as pd
import pytest

from opttree import ORTRegressor, Tree, TreeProblem
from opttree.statement.constraints import MaxFeatures, Monotone, RequireSplit
from opttree.tables.chunks import Chunks
from opttree.tables.parts import Rows
from solvers import (
    MIP,
    TAO,
    BlockBounds,
    Boosting,
    BranchAndBound,
    CartInit,
    Chain,
    ExactInit,
    LocalSearch,
    Termination,
    certify,
    solve,
)
from tests import constraint_oracle
from tests.conftest import ends_in_time, real_data
from tests.solvers.mip.test_mip import small


@pytest.fixture(scope="module")
def problem():
    X, y = real_data("airfoil")
    return TreeProblem(X, (y - y.mean()) / y.std(), depth=3, splits="axis", min_leaf=5)


@pytest.fixture(scope="module")
def optimum(problem):
    result = solve(problem, BranchAndBound())
    assert result.termination is Termination.OPTIMAL
    return result


@pytest.fixture(scope="module")
def cart(problem):
    return solve(problem, CartInit(), random_state=0).tree


def test_a_certificate_is_by_branch_and_bound_where_it_fits(problem, optimum, cart):
    result = certify(problem, cart)
    assert result.solver.startswith("BranchAndBound")
    assert result.objective == problem.objective(cart) > optimum.objective
    assert result.bound == pytest.approx(optimum.objective, rel=1e-9)
    assert result.termination is Termination.LOCALLY_OPTIMAL
    best = certify(problem, optimum)
    assert best.termination is Termination.OPTIMAL
    assert best.gap < 1e-9


@pytest.mark.parametrize("blocks", [2, 5, 40])
def test_blocks_bound_the_optimum_from_below(problem, optimum, cart, blocks):
    result = certify(problem, cart, blocks=blocks, time_limit=20.0, random_state=0)
    assert 0.0 < result.bound < optimum.objective
    assert result.tree is cart
    assert result.termination is Termination.ITERATION_LIMIT
    assert result.message.startswith(f"The search for a bound has ended. The bound is that of {blocks} disjoint blocks")
    bounds = [row.bound for row in result.trace]
    assert bounds == sorted(bounds)
    assert len(bounds) == blocks + 1


def test_fewer_blocks_are_closer(problem, cart):
    few, many = (certify(problem, cart, blocks=k, random_state=0).bound for k in (2, 10))
    assert few > many


def test_the_bound_of_blocks_is_the_sum_of_their_optima(problem, cart):
    rows = np.array_split(np.random.default_rng(0).permutation(problem.n_samples), 3)
    given = np.random.default_rng(1).uniform(0.5, 2.0, problem.n_samples)
    weighted = problem.with_rows(problem.X, problem.y, given)
    chunks = [weighted.sample(part, min_leaf=1) for part in rows]
    optima = [solve(part, BranchAndBound()).objective for part in chunks]
    expected = sum(given[part].sum() * best for part, best in zip(rows, optima, strict=True)) / given.sum()
    found = certify(weighted, cart, blocks=3, random_state=np.random.default_rng(0))
    assert found.bound == pytest.approx(expected, rel=0.1)
    assert found.bound <= solve(weighted, BranchAndBound()).objective


def test_a_short_time_limit_leaves_a_valid_bound(problem, optimum, cart):
    result = ends_in_time(lambda: certify(problem, cart, blocks=3, time_limit=0.02), 2.0)
    assert 0.0 <= result.bound <= optimum.objective


def test_auto_takes_as_few_blocks_as_time_allows(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.random((24_000, 3))
    y = np.where(X[:, 0] > 0.4, 1.0, 0.0) + np.where(X[:, 1] > 0.7, 0.5, 0.0) + 0.3 * rng.normal(size=len(X))
    problem = TreeProblem(X, y, depth=3, splits="axis")
    cart = solve(problem, CartInit(), random_state=0).tree
    result = certify(problem, cart, time_limit=3.0, random_state=0)
    assert result.solver.startswith("BlockBounds")
    assert 0.0 < result.bound < result.objective
    assert certify(problem, cart, blocks=8, random_state=0).gap < 0.3
    assert "BranchAndBound" in certify(problem, cart, time_limit=0.5, blocks=1).solver


def test_chunks_are_blocks(problem, optimum, cart):
    chunks = Chunks((problem.X, problem.y), rows=500)
    few = problem.sample(np.arange(10))
    result = certify(few, cart, chunks=chunks)
    assert result.objective == pytest.approx(problem.objective(cart))
    assert 0.0 < result.bound <= optimum.objective
    parts = [problem.sample(np.arange(a, min(a + 500, problem.n_samples)), min_leaf=1) for a in (0, 500, 1000, 1500)]
    expected = sum(part.n_samples * solve(part, BranchAndBound()).objective for part in parts) / problem.n_samples
    assert result.bound == pytest.approx(expected, rel=5e-3)
    assert result.bound <= expected * (1.0 + 1e-9)
    with pytest.raises(ValueError, match="tree must be feasible; it has a leaf with"):
        certify(few.restated(min_leaf=1500), cart, chunks=chunks)


def test_bounds_of_axis_aligned_trees_are_not_claimed_for_oblique_ones(problem, optimum):
    oblique = problem.restated(splits="oblique", min_leaf=1)
    tree = solve(oblique, TAO(), random_state=0).tree
    result = certify(problem.restated(min_leaf=1), tree, time_limit=20.0)
    assert result.objective == oblique.objective(tree)
    assert result.bound is None
    assert result.gap is None
    assert result.termination is Termination.LOCALLY_OPTIMAL
    assert "does not hold for this tree" in result.message


def test_oblique_trees_of_three_levels_have_a_bound():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    problem = TreeProblem(X, X[:, 0] + rng.normal(size=40), depth=3)
    result = certify(problem, solve(problem, TAO(), random_state=0).tree, time_limit=2.0)
    assert result.bound is not None
    assert 0.0 <= result.bound <= result.objective


def test_options_that_no_solver_has_are_refused(problem, cart):
    for options, words in (
        ({"foo": 1}, "options must be those of BranchAndBound, gap, .*; got foo=1"),
        ({"gap": 0.1, "blocks": 2}, "options must be those of BlockBounds, max_splits, n_jobs; got gap=0.1"),
        ({"formulation": "flow", "foo": 1}, "options must be those of MIP, .*; got foo=1"),
        ({"max_splits": 2}, "tree must be feasible; the tree has 7 splits; max_splits allows 2"),
        ({"chunks": (problem.X, problem.y)}, "chunks must be opttree.chunks.Chunks, opttree.Rows or None; got tuple"),
        ({"chunks": Chunks((problem.X, problem.y)), "time_limit": 0}, "time_limit must be > 0 seconds or None; got 0"),
        ({"chunks": Chunks(lambda: iter([]))}, "chunks must hold at least one row; got none"),
        ({"time_limit": -1}, "time_limit must be > 0 seconds or None; got -1"),
    ):
        with pytest.raises(ValueError, match=words):
            certify(problem, cart, **options)
    with pytest.raises(ValueError, match="tree must be feasible; the tree has depth 3; the problem allows 2"):
        certify(problem.restated(depth=2), cart)
    with pytest.raises(ValueError, match="blocks must be 'auto' or an integer >= 1; got 0"):
        certify(problem, cart, blocks=0)
    with pytest.raises(ValueError, match="blocks must be 1 where branch and bound does not apply"):
        certify(problem, cart, blocks=2, formulation="flow")
    with pytest.raises(ValueError, match="blocks must be"):
        solve(problem, BlockBounds(blocks=0))
    with pytest.raises(ValueError, match="chunks need a statement for branch and bound; its splits are oblique"):
        certify(problem.restated(splits="oblique"), cart, chunks=Chunks((problem.X, problem.y)))


@pytest.mark.parametrize("splits", ["axis", "oblique"])
@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_exact_start_trees_are_feasible_and_better_than_cart(problem, splits, leaves):
    stated = problem.restated(depth=4, splits=splits, leaves=leaves)
    tree = solve(stated, ExactInit(levels=2), random_state=0).tree
    assert stated.violation(tree) is None
    assert stated.objective(tree) < solve(stated, CartInit(), random_state=0).objective


def test_exact_start_trees_are_optimal_to_their_levels(problem, optimum):
    assert solve(problem, ExactInit(levels=3)).objective == pytest.approx(optimum.objective, rel=1e-12)
    greedy = [solve(problem.restated(depth=d), ExactInit(levels=1)).objective for d in (1, 3)]
    assert greedy[0] == pytest.approx(solve(problem.restated(depth=1), BranchAndBound()).objective, rel=1e-12)
    assert greedy[1] == pytest.approx(solve(problem, CartInit()).objective, rel=1e-9)
    with pytest.raises(ValueError, match="levels must be an integer between 1 and 6; got 7"):
        ExactInit(levels=7)


def test_boosting_takes_exact_trees():
    X, y = real_data("auto_mpg")
    problem = TreeProblem(X, (y - y.mean()) / y.std(), depth=2, splits="axis")
    exact = solve(problem, Boosting(base=BranchAndBound(), n_trees=40, validation=None), random_state=0)
    cart = solve(problem, Boosting(base=CartInit(), n_trees=40, validation=None), random_state=0)
    assert exact.objective < cart.objective


def test_local_search_has_exact_subtrees_within_a_budget_of_splits(problem):
    free = problem.restated(min_leaf=1)
    for most in (2, 3, 5):
        exact = solve(free.restated(depth=2), BranchAndBound(max_splits=most))
        found = solve(free.restated(depth=2), LocalSearch(n_starts=1, max_splits=most), random_state=0)
        assert found.objective == pytest.approx(exact.objective, rel=1e-9)


def test_the_estimator_proves_by_default_and_keeps_the_gap_at_its_limit():
    X, y = real_data("airfoil")
    model = ORTRegressor(3, min_samples_leaf=5, random_state=0).fit(X, y)
    assert model.is_optimal_
    assert model.gap_ < 1e-9
    model = ORTRegressor(4, time_limit=0.2, random_state=0).fit(X, y)
    assert not model.is_optimal_
    assert model.result_.gap == model.gap_ > 0.0
    assert model.result_.bound <= 0.32697


def test_a_certificate_bounds_any_tree():
    problem = small(60, 3)
    best = certify(problem, solve(problem, MIP()).tree)
    assert best.termination is Termination.OPTIMAL
    assert best.gap < 1e-6
    cart = solve(problem, CartInit(), random_state=0).tree
    result = certify(problem, cart)
    assert result.tree is cart
    assert result.objective == problem.objective(cart)
    assert result.bound == pytest.approx(best.bound)
    assert result.termination is not Termination.OPTIMAL
    assert result.message.startswith("Not optimal: a better tree has the objective")
    assert "all thresholds" in result.message
    outside = certify(problem, best.tree, n_thresholds=1)
    assert outside.bound is None
    assert "better than any of the candidates" in outside.message


def test_a_proof_over_few_candidates_proves_nothing_of_others():
    problem = small(60, 3)
    result = solve(problem, Chain(LocalSearch(), MIP(n_thresholds=1)), random_state=0)
    assert result.termination is not Termination.OPTIMAL
    assert result.bound is None


def test_a_clipped_tree_is_not_said_to_be_optimal_by_a_bound_for_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    stated = TreeProblem(X, np.clip(X[:, 0], -0.5, 0.5), depth=1, splits="axis", leaves="linear")
    assert not BranchAndBound().covers(stated)
    verdict = certify(stated, stated.fit_leaves(stated.best_constant()))
    assert "not clipped" in verdict.message


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


@pytest.mark.usefixtures("needs_data")
def test_side_constraints_do_not_cost_the_bound_without_them():
    """ "Proved: nothing" it was, after any time: the programs are too large for all thresholds of 442 rows."""
    free = TreeProblem.standardized(*real_data("diabetes"), depth=2, splits="axis")
    stated = free.restated(constraints=[Monotone(2, -1)])
    verdict = certify(stated, stated.best_constant(), time_limit=3.0)
    assert verdict.bound >= solve(free, BranchAndBound()).objective - 1e-9
    assert verdict.bound <= verdict.objective
    assert "without its side constraints" in verdict.message
    bounds = [row.bound for row in verdict.trace]
    assert bounds == sorted(bounds)


@pytest.mark.usefixtures("needs_data")
def test_an_optimum_that_satisfies_the_constraints_is_proved_without_them():
    free = TreeProblem.standardized(*real_data("diabetes"), depth=2, splits="axis")
    best = solve(free, BranchAndBound())
    stated = free.restated(constraints=[MaxFeatures(3)])
    assert certify(stated, best).termination.name == "OPTIMAL"


@pytest.mark.parametrize("kind", constraint_oracle.KINDS, ids=lambda kind: kind.__name__)
def test_no_tree_that_satisfies_the_constraints_is_below_a_certificate(kind):
    stated = constraint_oracle.instance(kind, 1)
    best = solve(stated, MIP(), random_state=0)
    truth = constraint_oracle.optimum(stated)
    if best.tree is None:
        assert np.isinf(truth)
        return
    verdict = certify(stated, best)
    assert verdict.bound is None or verdict.bound <= truth + 1e-9
    assert verdict.objective >= truth - 1e-9


def test_parts_are_blocks(problem, cart):
    weight = np.random.default_rng(0).integers(0, 3, problem.n_samples).astype(float)
    weight[500:1000] = 0.0  # a part without weight
    weighted = problem.with_rows(problem.X, problem.y, weight)
    few = problem.sample(np.arange(10))
    result = certify(few, cart, chunks=Rows((problem.X, problem.y, weight), rows=500, n_jobs=2))
    assert result.objective == pytest.approx(weighted.objective(cart), rel=1e-12)
    cuts = [slice(a, a + 500) for a in (0, 1000, 1500)]
    parts = [problem.with_rows(problem.X[cut], problem.y[cut], weight[cut], min_leaf=1) for cut in cuts]
    optima = [part.sample_weight.sum() * solve(part, BranchAndBound()).objective for part in parts]
    expected = sum(optima) / weight.sum()
    assert expected * (1.0 - 5e-3) <= result.bound <= expected * (1.0 + 1e-9)
    assert "3 disjoint blocks of rows" in result.message
    assert "3 of their searches ended" in result.message
    short = certify(few, cart, chunks=Rows((problem.X, problem.y, weight), rows=500), time_limit=1e-3)
    assert 0.0 <= short.bound <= result.bound * (1.0 + 1e-9)
    with pytest.raises(ValueError, match=r"n_jobs must be None beside opttree\.Rows"):
        certify(few, cart, chunks=Rows((problem.X, problem.y)), n_jobs=2)
    with pytest.raises(ValueError, match="tree must be feasible; it has a leaf with"):
        certify(few.restated(min_leaf=1500), cart, chunks=Rows((problem.X, problem.y), rows=500))


def test_parts_that_lack_a_class(problem):
    labels = np.repeat(["a", "b", "c"], 200)
    X = np.random.default_rng(1).normal(size=(600, 3)) + (labels == "b")[:, None]
    stated = TreeProblem(X, labels, depth=2, splits="axis", loss="zero_one")
    tree = solve(stated, CartInit(), random_state=0).tree
    result = certify(stated, tree, chunks=Rows((X, labels), rows=200))  # each part has one class
    assert result.objective == pytest.approx(stated.objective(tree))
    assert result.bound == pytest.approx(0.0, abs=1e-12)
    mixed = np.random.default_rng(2).permutation(600)
    result = certify(stated, tree, chunks=Rows((X[mixed], labels[mixed]), rows=300))
    assert 0.0 < result.bound <= solve(stated, BranchAndBound()).objective * (1.0 + 1e-9)


def test_parts_have_the_problem_s_columns_and_classes(problem):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    y = (frame["a"] * frame["b"] + rng.normal(size=300)).to_numpy()
    stated = TreeProblem(frame, y, depth=2, splits="axis")
    best = solve(stated, BranchAndBound())
    turned = certify(stated, best.tree, chunks=Rows((frame[list("dcba")], y), rows=100))
    assert turned.objective == pytest.approx(best.objective)
    with pytest.raises(ValueError, match="chunks must have the problem's columns, a, b, c, d; 'a' is not there"):
        certify(stated, best.tree, chunks=Rows((frame[list("bcd")], y), rows=100))
    labels = np.where(y > 0, "u", "v")
    classes = TreeProblem(frame.to_numpy(), labels, depth=2, splits="axis", loss="zero_one")
    tree = solve(classes, CartInit(), random_state=0).tree
    for other in ("a", "zz"):
        odd = labels.copy()
        odd[250] = other
        for chunks in (Rows((frame.to_numpy(), odd), rows=100), Chunks((frame.to_numpy(), odd), rows=100)):
            with pytest.raises(ValueError, match="y must hold classes of the problem"):
                certify(classes, tree, chunks=chunks)
    with pytest.raises(ValueError, match="blocks must be 'auto' beside chunks"):
        certify(stated, best.tree, chunks=Rows((frame, y)), blocks=5)
    hard = TreeProblem(rng.normal(size=(6000, 8)), rng.normal(size=6000), depth=4, splits="axis")
    cart = solve(hard, CartInit(), random_state=0).tree
    parts = Rows((hard.X, hard.y), rows=2000, n_jobs=2)  # three, two threads
    ends_in_time(lambda: certify(hard, cart, chunks=parts, time_limit=2.0), 3.5)
