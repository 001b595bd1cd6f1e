"""GradTree: training, starts, held-out rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from opttree import GradTreeClassifier, GradTreeRegressor, TreeProblem
from solvers import TAO, AxisNode, CartInit, Chain, GradTree, LocalSearch, solve
from solvers.core.base import LastCall
from tests.conftest import classification_problem, ends_in_time, regression_problem

FAST = GradTree(epochs=60, n_starts=2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learning_rates": (0.1, 0.1)}, "learning_rates must be three finite numbers > 1e-12"),
        ({"learning_rates": 0.1}, r"learning_rates must be three finite numbers > 1e-12; got 0\.1"),
        ({"epochs": 0}, "epochs must be an integer >= 1; got 0"),
        ({"validation": 1.0}, r"validation must be a finite number between 0 and 1, a TreeProblem or None; got 1\.0"),
        ({"index": "argmax"}, "index must be one of"),
        ({"gamma": -1.0}, "gamma must be a finite number >= 0; got -1.0"),
        ({"epsilon": None}, "epsilon must be a finite number >= 0; got None"),
        ({"temperatures": (1.0, 0.0)}, "temperatures must be two finite numbers > 1e-12"),
    ],
)
def test_bad_options_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        GradTree(**options)


def test_it_finds_a_tree_where_greedy_splits_fail():
    """XOR of two features among six: no first split tells anything."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    problem = TreeProblem(X, (X[:, 2] > 0) ^ (X[:, 4] > 0), depth=2, splits="axis", loss="zero_one")
    greedy = solve(problem, CartInit()).objective
    found = solve(problem, GradTree(epochs=400, learning_rates=(0.02, 0.05, 0.05), n_starts=6), random_state=0)
    assert found.objective < 0.1 < greedy


def test_a_start_is_improved():
    problem = classification_problem(400, splits="axis", depth=4, penalties=())
    start = solve(problem, CartInit(min_rows=60)).tree
    result = solve(problem, GradTree(epochs=150, n_starts=1, validation=None), start=start, random_state=0)
    assert result.trace.rows[0].objective == problem.objective(start)
    assert result.objective < 0.95 * problem.objective(start)
    at_once = solve(problem, FAST, start=start, time_limit=1e-6, random_state=0)
    assert at_once.objective <= problem.objective(start)


def test_tao_and_local_search_go_on_from_its_tree():
    problem = classification_problem(400, splits="axis", depth=4, penalties=())
    alone = solve(problem, FAST, random_state=0).objective
    for link in (TAO(node_solver=AxisNode(), accept="improve"), LocalSearch(n_starts=1)):
        assert solve(problem, Chain(FAST, link), random_state=0).objective < 0.95 * alone


@pytest.mark.parametrize("solver", [replace(FAST, index="gumbel"), GradTree.annealed(epochs=60, n_starts=1)])
def test_the_rivals_of_the_ablation_run(solver):
    problem = classification_problem(300, splits="axis")
    result = solve(problem, solver, random_state=0)
    assert result.objective < 0.9 * result.trace.rows[0].objective


def test_starts_and_epochs_are_chosen_on_held_out_rows():
    X, y = load_breast_cancer(return_X_y=True)
    model = GradTreeClassifier(4, epochs=100, n_starts=2, random_state=0).fit(X, y)
    losses = [row.info["validation"] for row in model.result_.trace if "validation" in row.info]
    assert model.validation_loss_ == min(losses)
    assert model.result_.objective == pytest.approx(1 - model.score(X, y))
    assert model.tree_.is_axis_aligned
    assert not model.tree_.linear_leaves


def test_it_learns_on_held_out_rows():
    X, y = make_classification(2000, 12, n_informative=6, random_state=0)
    train, test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = GradTreeClassifier(6, epochs=300, n_starts=2, random_state=0).fit(train, y_train)
    assert f1_score(y_test, model.predict(test), average="macro") > 0.8
    rng = np.random.default_rng(0)
    y = np.where(X[:, 0] > 0, 2.0, -1.0) + np.where(X[:, 1] > 0.5, 1.0, 0.0) + 0.1 * rng.normal(size=len(y))
    assert GradTreeRegressor(3, epochs=300, n_starts=2, random_state=0).fit(X, y).score(X, y) > 0.9


def test_leaves_of_many_rows():
    problem = classification_problem(300, splits="axis", depth=4, min_leaf=20, penalties=())
    start = solve(problem, CartInit()).tree
    assert problem.violation(solve(problem, FAST, start=start, random_state=0).tree) is None
    X, y = load_breast_cancer(return_X_y=True)
    fast = {"epochs": 5, "n_starts": 1, "random_state": 0, "min_samples_leaf": 15}
    model = GradTreeClassifier("cv", cv=0.3, **fast).fit(X, y)
    assert model.tree_.n_leaves > 1
    assert np.bincount(model.apply(X))[model.tree_.n_branches :].min() >= 15
    again = GradTreeClassifier(model.get_depth(), init=model.tree_, **fast).fit(X, y)
    assert again.score(X, y) > 0.8
    assert np.bincount(again.apply(X))[again.tree_.n_branches :].min() >= 15


@pytest.mark.parametrize("weights", ["falling", "one rules"])
def test_weights_that_differ_by_more_than_float32_holds(weights):
    problem = classification_problem(300, splits="axis", penalties=())
    w = 0.8 ** np.arange(300) if weights == "falling" else np.where(np.arange(300) == 7, 1e50, 1.0)
    weighted = TreeProblem(problem.X, problem.y, depth=3, splits="axis", loss="zero_one", sample_weight=w)
    result = solve(weighted, GradTree(epochs=20, n_starts=2, batch_size=16), random_state=0)
    assert result.termination.name == "ITERATION_LIMIT"
    assert {row.phase for row in result.trace} == {"constant", "start 1", "start 2"}
    assert result.objective < result.trace.rows[0].objective <= 0.5


def test_numbers_too_large_for_the_type_are_refused_or_end_the_run():
    problem = classification_problem(100, splits="axis", penalties=())
    large = TreeProblem(problem.X * 1e39, problem.y, depth=2, splits="axis", loss="zero_one")
    with pytest.raises(ValueError, match=r"its X holds numbers of up to .*e\+39 in size, and this solver takes"):
        solve(large, FAST, random_state=0)
    wild = solve(problem, GradTree(epochs=20, learning_rates=(1e38, 1e38, 1e38)), random_state=0)
    assert wild.termination.name == "NUMERICAL_ERROR"
    assert "lower learning rates" in wild.message


def test_passes_of_tao_lower_the_objective():
    X, y = load_iris(return_X_y=True)
    options = {"epochs": 30, "n_starts": 1, "random_state": 0}
    plain = GradTreeClassifier(3, **options).fit(X, y)
    better = GradTreeClassifier(3, improve=10, **options).fit(X, y)
    assert better.result_.objective < plain.result_.objective
    assert better.tree_.is_axis_aligned


def test_a_time_limit_is_kept_with_few_rows_and_many_parameters():
    rng = np.random.default_rng(0)
    problem = TreeProblem(rng.normal(size=(40, 300)), rng.integers(0, 2, 40), depth=10, splits="axis", loss="zero_one")
    solve(problem, GradTree(epochs=1), random_state=0)  # compile
    ends_in_time(lambda: solve(problem, GradTree(), time_limit=0.2, random_state=0), 1.5)


def test_a_limit_is_heard_where_steps_are_many_and_nearly_empty():
    """10,000 epochs of 50 starts on two rows were one round, of half a minute."""
    problem = TreeProblem(np.array([[0.4], [-0.5]]), np.array([0, 1]), depth=1, splits="axis", loss="log")
    solve(problem, GradTree(epochs=5), random_state=0)
    rounds = 0
    for step in GradTree(epochs=10_000, n_starts=50).steps(problem, None, np.random.default_rng(0)):
        rounds += step is None
        if rounds == 20:
            break
    assert rounds == 20  # of a few epochs each
    many = GradTree(epochs=10_000, n_starts=50)
    ends_in_time(lambda: solve(problem, many, time_limit=0.2, random_state=0), 2.0)


def test_where_there_is_no_time_for_an_epoch_the_start_is_there():
    problem = regression_problem(200, depth=3, splits="axis")
    steps = GradTree(init=CartInit()).steps(problem, None, np.random.default_rng(0))
    while next(steps) is not None:
        pass
    step = steps.throw(LastCall)
    assert step.phase == "start"
    assert problem.objective(step.tree) < 0.8 * problem.objective(problem.best_constant())
