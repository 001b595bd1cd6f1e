"""Trees that learn from a forest."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from opttree import TAOForestRegressor, TAORegressor, Tree, TreeProblem
from solvers import ORRT, Distilled, TAOForest, Termination, solve
from tests.conftest import ends_in_time, regression_problem


def problem_of(X, y, depth=4, **options):
    return TAORegressor(depth, leaves="linear", leaf_penalty=0.0, split_penalty=1e-6, l1_ratio=0.0, **options).state(
        X, y
    )


def test_a_distilled_tree_is_better_than_one_fitted_to_y():
    X, y = make_friedman1(1500, n_features=6, noise=1.0, random_state=1)
    a, b, c, d = train_test_split(X, y, test_size=0.5, random_state=0)
    problem, scaling = problem_of(a, c, 5)
    result = solve(problem, Distilled(TAOForest(10)), random_state=0)
    assert isinstance(result.tree, Tree)
    assert result.objective == pytest.approx(problem.objective(result.tree))
    direct = TAOForestRegressor(1, max_samples=1.0, max_depth=5, kind="oblique", shrinkage=3.0, random_state=0).fit(
        a, c
    )
    distilled = np.mean((result.tree.unscale(*scaling).predict(b) - d) ** 2)
    assert distilled < np.mean((direct.predict(b) - d) ** 2)


@pytest.mark.parametrize("soft", [False, True])
def test_a_distilled_tree_of_classes_knows_all_of_them(soft):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] > 0.0, "oak", "ash")
    problem = TreeProblem(X, y, depth=2, loss="log")
    rare = TreeProblem(np.r_[X, X[:1]], np.r_[y, ["elm"]], depth=2, loss="log").sample(np.arange(200))  # of no row left
    for stated in (problem, rare):
        student = ORRT(max_iter=50) if soft else None
        result = solve(stated, Distilled(TAOForest(5), student=student), random_state=0)
        assert result.trace.rows[-1].phase == "student"
        assert result.tree.classes.tolist() == stated.classes.tolist()
        assert np.mean(result.tree.predict(X) == y) > 0.95


def test_a_time_limit_ends_a_distilled_student_after_a_pass():
    problem = regression_problem(2000, depth=6, penalties=())
    teacher = TAOForest(1, kind="oblique", max_iter=1)
    long = Distilled(teacher, max_iter=100_000, n_starts=1)
    result = ends_in_time(lambda: solve(problem, long, time_limit=2.0, random_state=0), 4.0)
    assert result.termination is Termination.TIME_LIMIT
    assert result.trace.rows[-1].phase == "student"


def test_a_student_of_fewer_rows_than_columns_is_near_its_teacher():
    """The distance was taken in coordinates that the student's leaves are not in: .13."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 800))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=40)
    problem = TreeProblem.standardized(X, y, depth=4, leaves="linear")
    result = solve(problem, Distilled(TAOForest(3, levels=4), factor=3, n_starts=1), random_state=0)
    assert result.trace.rows[-1].info["unlike_teacher"] < 0.03
