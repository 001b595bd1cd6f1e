"""SDTR: training."""

from dataclasses import replace

import numpy as np
import pytest

import solvers.sdtr.sdtr
from opttree import Forest, SDTRRegressor, SoftForestProblem, Tree, TreeProblem
from opttree.explain.importance import average_entropy, feature_importance
from solvers import SDTR, Chain, Termination, solve
from solvers.sdtr.descent import descent as forest_descent
from tests.conftest import classification_problem, regression_problem
from tests.problems.test_soft_forest import FAST, forest_problem


@pytest.mark.parametrize("validation", [0.2, None])
@pytest.mark.parametrize("options", [{}, {"n_trees": 4}, {"n_trees": 3, "n_layers": 2, "tree_output_dim": 2}])
def test_training_beats_a_constant_by_far(options, validation):
    problem = regression_problem(n=400, penalties=())
    result = solve(problem, replace(SDTR(max_batches=1500, validation=validation), **options), random_state=0)
    assert result.objective < 0.2
    again = solve(problem, replace(SDTR(max_batches=1500, validation=validation), **options), random_state=0)
    assert again.objective == result.objective


def test_early_stopping_is_counted_in_batches():
    problem = regression_problem(n=400)
    options = SDTR(patience=70, check=20, batch_size=100)
    assert solve(problem, options, random_state=0).termination is Termination.STALLED
    train, judge = (SoftForestProblem(part) for part in problem.split(0.2, np.random.default_rng(0)))
    ends = set()
    for cut in (1, 7, 20, 1000):
        rng = np.random.default_rng(1)
        descent = forest_descent(options, train, judge, train.random_theta(rng), rng)
        while descent.remaining:
            descent.advance(cut)
        assert descent.done == descent.best[0].step + 80
        ends.add((descent.done, descent.best[0].loss))
    assert len(ends) == 1


def test_a_run_that_diverges_leaves_what_was_found():
    result = solve(regression_problem(), SDTR(learning_rate=1e30, max_batches=40), random_state=0)
    assert result.termination is Termination.NUMERICAL_ERROR
    assert np.isfinite(result.objective)


def test_a_starved_leaf_does_not_spoil_the_gradient():
    forest = forest_problem(path_penalty=0.3)
    theta = forest.random_theta(np.random.default_rng(0))
    for threshold in (8.0, 12.0, 16.0, 20.0):
        forest.unpack(theta)[1][0, 3] = threshold
        value, gradient = forest.value_and_grad(theta)
        value32, gradient32 = replace(forest, dtype="float32").value_and_grad(theta)
        assert value32 == pytest.approx(value, rel=1e-3)
        np.testing.assert_allclose(gradient32, gradient, atol=2e-3 * np.abs(gradient).max())


def test_l1_makes_sparse_and_the_path_penalty_even():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 12))
    problem = TreeProblem(X, X[:, 0] + 0.2 * rng.normal(size=800) + 3.0 * (X[:, 1] > 1.5), depth=3)
    base = SDTR(max_batches=1500, patience=1500, path_penalty=0.0, l1=0.0, validation=None)
    plain, sparse, even = (
        solve(problem, replace(base, **kw), random_state=0).tree for kw in ({}, {"l1": 0.02}, {"path_penalty": 1.0})
    )
    assert average_entropy(sparse) < 0.8 * average_entropy(plain)
    assert np.argmax(feature_importance(sparse)) in (0, 1)

    def evenness(tree):
        share = tree.leaf_proba(X).mean(axis=0)
        return -np.log(np.maximum(share, 1e-12)).mean()

    assert evenness(even) < evenness(plain)
    assert evenness(even) == pytest.approx(np.log(8), abs=0.02)


def test_reweighting_moves_leaves_faster():
    problem = regression_problem(n=400)
    forest = SoftForestProblem(problem)
    theta = forest.random_theta(np.random.default_rng(0))
    slow, fast = (
        forest_descent(SDTR(max_batches=1, reweight=flag), forest, forest, theta, np.random.default_rng(0))
        for flag in (False, True)
    )
    for descent in (slow, fast):
        descent.advance(1)
    moved = [np.abs(forest.unpack(d.steps.thetas[0])[3] - forest.unpack(theta)[3]).mean() for d in (slow, fast)]
    assert moved[1] == pytest.approx(8 * moved[0], rel=1e-3)
    np.testing.assert_array_equal(*(forest.unpack(d.steps.thetas[0])[0] for d in (slow, fast)))


def test_what_it_refuses():
    assert "linear" in SDTR().refusal(regression_problem(leaves="linear"))
    assert "loss" in SDTR().refusal(classification_problem(loss="zero_one"))
    assert "number of its classes" in SDTR(tree_output_dim=9).refusal(classification_problem(loss="log"))
    assert "min_leaf" in SDTR().refusal(regression_problem(min_leaf=5))
    assert "axis" in SDTR().refusal(regression_problem(splits="axis"))
    two = TreeProblem(np.zeros((4, 1)), np.arange(8.0).reshape(4, 2), depth=1)
    assert "tree_output_dim = 1 is less than its 2 outputs" in SDTR(tree_output_dim=1).refusal(two)
    assert "penalties are for one tree" in SDTR(n_trees=3).refusal(regression_problem())
    with pytest.raises(ValueError, match="SDTR makes a forest, from which the next solver"):
        solve(regression_problem(penalties=()), Chain(replace(FAST, n_trees=2), FAST))
    with pytest.raises(
        ValueError, match="validation_fraction must be a finite number between 0 and 1 or None; got 'a'"
    ):
        SDTRRegressor(validation_fraction="a").fit(np.zeros((4, 1)), np.arange(4.0))
    for options, match in (
        ({"n_trees": 0}, "n_trees must be an integer >= 1; got 0"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"l1": -1.0}, "l1 must be a finite number >= 0; got -1.0"),
        ({"aggregation": "sum"}, "aggregation"),
        ({"aggregation": "expected", "n_layers": 2}, "n_layers > 1 needs 'mixture'"),
        ({"validation": 1.0}, "validation must be a finite number between 0 and 1, a TreeProblem or None; got 1.0"),
        ({"beta": None}, "beta must be a finite number > 0; got None"),
    ):
        with pytest.raises(ValueError, match=match):
            SDTR(**options)
    with pytest.raises(ValueError, match="layers and further outputs need 'mixture'"):
        forest_problem(n_layers=2)
    with pytest.raises(ValueError, match="must hold trees of 3 features"):
        Forest(((Tree.constant([0.0], 2),), (Tree.constant([0.0], 2),)), 1)


def test_average_entropy_by_hand():
    tree = Tree.complete(np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), np.zeros(3), 1)
    e = 1e-3
    share = (1 + e) / (1 + 2 * e)
    root = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert average_entropy(tree) == pytest.approx(root + 2 * 0.5 * np.log(2))
    np.testing.assert_allclose(feature_importance(tree), [(share + 0.5) / 2, (1 - share + 0.5) / 2])


def test_of_two_objectives_the_one_behind_stops_early(monkeypatch):
    runs, start = [], solvers.sdtr.sdtr.descent
    monkeypatch.setattr(solvers.sdtr.sdtr, "descent", lambda *how: runs.append(start(*how)) or runs[-1])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    problem = TreeProblem(X, X[:, 0] + rng.normal(size=300), depth=3)
    steps = []
    solver = SDTR(n_trees=4, patience=400, max_batches=3000)
    solve(problem, solver, random_state=0, callback=lambda step, trace: steps.append(step))
    ahead, behind = sorted(runs, key=lambda run: run.best[0].loss)
    assert ahead.done - ahead.best[0].step == 400
    assert behind.done - behind.best[0].step == 100
    assert behind.remaining > 0
    for phase in ("mixture", "expected"):
        losses = [step.info["validation"] for step in steps if step.phase == phase]
        assert losses == sorted(losses, reverse=True)
        assert len(losses) > 1


def test_steps_of_a_short_run_are_few_and_the_last_is_the_best():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 6))
    problem = TreeProblem(X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2], depth=6)
    free = solve(problem, SDTR(max_batches=400), random_state=0)
    steps = []
    short = solve(
        problem, SDTR(max_batches=400), time_limit=1e3, random_state=0, callback=lambda step, _trace: steps.append(step)
    )
    assert len(short.trace) < len(free.trace)
    losses = [step.info["validation"] for step in steps if "validation" in step.info]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == min(row.info["validation"] for row in free.trace.rows if "validation" in row.info)
