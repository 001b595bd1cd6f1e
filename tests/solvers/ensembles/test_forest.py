"""Forests as results: their statement, their options, their leaves."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression

from opttree import L1, L2, Forest, TreeProblem
from solvers import TAO, Boosting, CartInit, Distilled, TAOForest, solve
from solvers.conformance import dense
from solvers.ensembles.forest import KINDS, SHRINKAGES, Tally
from solvers.ensembles.growth import ALL_FEATURES, Shared, grow
from tests.conftest import classification_problem, regression_problem
from tests.solvers.test_tao import lasso_of
from tests.statements import regression


def test_forecast_of_pairs_is_exact_for_independent_errors():
    rng = np.random.default_rng(0)
    n, noise, spread = 4000, 0.5, 2.0
    shared = Shared.of(TreeProblem(rng.normal(size=(n, 1)), rng.normal(size=n) * noise, depth=1), TAOForest(1), (1.0,))
    tally = Tally(shared)
    for _ in range(6):
        errors = (rng.normal(size=(n, 1)) * spread - shared.Y)[None]
        tally.residuals += errors
        tally.squares += np.square(errors).sum(axis=2)
        tally.counts += 1
    for trees in (1, 10, 1000):
        assert tally.errors(trees)[0] == pytest.approx(noise**2 + spread**2 / trees, rel=0.2, abs=0.03)


@pytest.mark.parametrize(
    "solver", [TAOForest(3), TAOForest(2, kind="axis"), Boosting(n_trees=4), Boosting(CartInit(), n_trees=3)], ids=repr
)
@pytest.mark.parametrize(
    "problem",
    [
        regression_problem(penalties=()),
        classification_problem(loss="log", penalties=()),
        regression_problem(120, p=40, density=0.1, penalties=()),
        classification_problem(60, p=1200, density=0.02, loss="log", penalties=()),
    ],
)
def test_forests_as_results(solver, problem):
    steps = []
    result = solve(problem, solver, random_state=0, callback=lambda step, _trace: steps.append(step) and None)
    forest = steps[-1].tree
    assert isinstance(forest, Forest)
    found = result.trace.rows[-1].objective
    assert found == pytest.approx(problem.mean_loss_of(forest.answers(problem.X)), rel=1e-3)
    again = solve(problem, solver, random_state=0)
    assert again.objective == result.objective
    if problem.is_sparse:
        assert dense(problem).objective(result.tree) == pytest.approx(result.objective)
    assert set(SHRINKAGES) >= {steps[-1].info.get("shrinkage", 3.0)}


def test_refusals_of_forests():
    assert "absolute" in TAOForest().refusal(regression_problem(loss="absolute"))
    assert "an l2 penalty on leaves" in TAOForest().refusal(regression_problem(penalties=(L2(leaves=0.1),)))
    assert TAOForest().refusal(regression_problem(penalties=(L1(leaves=0.1),))) is None
    assert "zero_one" in Boosting().refusal(classification_problem(penalties=()))
    assert "axis-aligned" in Distilled().refusal(regression_problem(splits="axis", penalties=()))


def test_positional_options_keep_their_order():
    forest = TAOForest(3, "oblique", 4, 0.8, 5, 1, 2, 9.0, "oob", 0.5, "local", True, 2, 1)
    named = TAOForest(
        3, kind="oblique", levels=4, sample=0.8, max_iter=5, constant_iterations=1, newton_steps=2, ridge=9.0,
        shrinkage="oob", max_features=0.5, subsets="local", common_start=True, first=2, n_jobs=1,
    )  # fmt: skip
    assert forest == named


@pytest.mark.parametrize("kind", ["auto", "oblique", "axis", "cart"])
@pytest.mark.parametrize("splits", ["oblique", "axis"])
def test_trees_of_a_forest_keep_the_limits_of_the_problem(kind, splits):
    problem = regression_problem(300, depth=2, leaves="linear", splits=splits, min_leaf=9, penalties=())
    solver = TAOForest(12, kind=kind, sample=0.5)
    if (splits, kind) == ("axis", "oblique"):
        assert "use kind='axis'" in solver.refusal(problem)
        return
    result = solve(problem, solver, random_state=0)
    assert problem.violation(result.tree) is None
    assert max(tree.depth for tree in result.tree.trees) <= 2
    assert result.objective == problem.objective(result.tree)
    left_out = 1.0 - result.tree.outside[1].mean() / 12
    assert left_out == pytest.approx(0.5, abs=0.01)  # whatever the kind


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


@pytest.mark.parametrize("relaxed", [False, True])
def test_leaves_of_a_forests_trees_are_lassos_or_relaxed_ones(relaxed, friedman):
    problem = regression(friedman, depth=1, leaves="linear")
    options = TAOForest(1, "oblique", sample=1.0, ridge=0.0, leaf_lasso=0.05, relaxed=relaxed, clip=False, max_iter=4)
    grown = grow(Shared.of(problem, options, (1e-9,)), ("oblique", np.random.default_rng(0)))
    tree = grown.tree(0, None)
    for number in range(tree.n_leaves):
        rows = grown.leaf == number
        model = lasso_of(problem.X[rows], problem.y[rows], 0.05)
        assert np.count_nonzero(model.coef_) in range(1, problem.n_features)
        np.testing.assert_array_equal(tree.coefs[number, 0] != 0.0, model.coef_ != 0.0)
        expected = model.coef_.copy()
        if relaxed:
            some = model.coef_ != 0.0
            expected[some] = LinearRegression().fit(problem.X[rows][:, some], problem.y[rows]).coef_
        np.testing.assert_allclose(tree.coefs[number, 0], expected, atol=2e-4)


def test_a_lasso_of_the_statement_makes_a_forests_leaves_sparse(friedman):
    sizes = []
    for strength in (0.0, 1e-3, 1e-2):
        penalties = (L1(leaves=strength),) if strength else ()
        problem = regression(friedman, depth=2, leaves="linear", penalties=penalties)
        options = {"kind": "oblique", "shrinkage": 1.0, "leaf_lasso": 0.0, "relaxed": False}
        forest = solve(problem, TAOForest(3, **options), random_state=0).tree
        sizes.append(sum(np.count_nonzero(tree.coefs) for tree in forest.trees))
    assert sizes[0] > sizes[1] > sizes[2]


def test_the_lasso_of_splits_makes_trees_smaller(friedman):
    problem = regression(friedman, depth=3, leaves="linear")
    sizes = [
        solve(problem, TAOForest(4, "oblique", split_lasso=strength, leaf_lasso=0.0), random_state=0).tree.n_parameters
        for strength in (0.0, 0.01, 0.1)
    ]
    assert sizes[0] > sizes[1] > sizes[2]
    weights = solve(problem, TAOForest.paper(1), random_state=0).tree.trees[0].A
    np.testing.assert_allclose(np.linalg.norm(weights, axis=1), 1.0, atol=1e-6)  # unit length, by the single precision
    small, large = (
        np.count_nonzero(solve(problem, TAO(split_lasso=strength), random_state=0).tree.A) for strength in (0.2, 0.001)
    )
    assert small < large


def keys(n_classes, n=4000, levels=500):
    """A key, a feature of two values and one of three; the key decides nearly all."""
    rng = np.random.default_rng(0)
    key, others = rng.permutation(np.arange(n) % levels), rng.integers(0, (2, 3), (n, 2))
    effect = rng.integers(0, n_classes, levels) if n_classes else rng.normal(size=levels)
    y = (effect[key] + others[:, 0]) % n_classes if n_classes else effect[key] + 0.2 * rng.normal(size=n)
    return np.column_stack([7.0 * key + 1e5, others]), y


@pytest.mark.parametrize("n_classes", [0, 3])
def test_splits_look_at_all_features_where_one_of_them_says_it_all(n_classes):
    X, y = keys(n_classes)
    problem = TreeProblem(X, y, 40, leaves="linear", **({"loss": "log"} if n_classes else {}))
    train, test = problem.sample(np.arange(2400)), problem.sample(np.arange(2400, 4000))
    chosen = solve(train, TAOForest(10, shrinkage=0.3), random_state=0)
    kind = KINDS[int(chosen.trace.rows[-1].info["kind"])]
    assert kind.startswith("cart")
    assert kind.endswith(ALL_FEATURES)
    half = solve(train, TAOForest(10, kind=kind.removesuffix(ALL_FEATURES), shrinkage=0.3), random_state=0)
    brier = [np.mean((result.tree.outputs(test.X) - indicators(test)) ** 2) for result in (chosen, half)]
    assert brier[0] < 0.8 * brier[1]
    given = solve(train, TAOForest(10, shrinkage=0.3, max_features=0.5), random_state=0)
    assert not KINDS[int(given.trace.rows[-1].info["kind"])].endswith(ALL_FEATURES)


def indicators(problem):
    return np.eye(problem.n_outputs)[problem.Y[:, 0].astype(int)] if problem.is_classification else problem.Y


def test_a_kind_that_is_chosen_has_the_trees_it_has_when_it_is_named():
    X, y = make_friedman1(300, random_state=0)
    problem = TreeProblem(X, y, 4, leaves="linear")
    chosen = solve(problem, TAOForest(3, common_start=True), random_state=0)
    kind = KINDS[int(chosen.trace.rows[-1].info["kind"])]
    named = solve(problem, TAOForest(3, kind=kind, common_start=True), random_state=0)
    assert kind == "oblique"
    assert chosen.tree.trees == named.tree.trees
