"""`BranchAndBound` against enumeration: optima, and bounds whenever it is stopped."""

import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from opttree import L1, L2, OCTClassifier, ORTRegressor, SplitPrice, Tree, TreeProblem, datasets
from opttree.problems import ExactTreeProblem
from opttree.problems.exact import problem as exact_problem
from solvers import MIP, BranchAndBound, CartInit, LocalSearch, Termination, solve
from solvers.conformance import regression_problem
from solvers.exact import search
from tests.conftest import ends_in_time, real_data, thinned
from tests.exact import instances, optimum

LOSSES = ("squared", "absolute", "zero_one", "log")


def random_problem(rng, depth):
    """A random instance and ``max_splits``: ties, equal rows, weights of zero, several outputs, prices, smallest
    leaves, linear leaves with and without a ridge.
    """
    n, p = int(rng.integers(2, (31, 31, 25, 15)[depth])), int(rng.integers(1, 4))
    X = rng.integers(0, rng.integers(2, 12), (n, p)).astype(float) if rng.random() < 0.6 else rng.normal(size=(n, p))
    kind = int(rng.integers(5))
    loss, leaves = (LOSSES[kind], "constant") if kind < 4 else ("squared", "linear")
    if loss in ("squared", "absolute"):
        y = rng.normal(size=(n, int(rng.integers(1, 3)))).round(int(rng.integers(0, 4)))
    else:
        y = rng.integers(0, rng.integers(2, 5), n)
    w = None if rng.random() < 0.5 else rng.uniform(0.1, 2.0, n) * (rng.random(n) > 0.15)
    if w is not None and not w.any():
        w = None
    price, min_leaf = float(rng.choice([0.0, 0.0, 0.01, 0.1])), int(rng.choice([1, 1, 2, 4]))
    penalties = (SplitPrice(price),) if price else ()
    if leaves == "linear":
        penalties += (L2(leaves=float(rng.choice([0.0, 1e-4, 0.01, 0.3]))),)
    options = {"loss": loss, "leaves": leaves, "penalties": penalties, "min_leaf": min(min_leaf, n)}
    max_splits = None if rng.random() < 0.5 else int(rng.integers(0, 2**depth))
    return TreeProblem(X, y, depth=depth, splits="axis", sample_weight=w, **options), max_splits


def enumerated(problem, max_splits=None):
    """The optimal objective by `tests.exact`."""

    def linear_leaf(rows):
        w, ridge = problem.w[rows], problem.strength(L2, "leaves")
        X, Y = (
            (table[rows] - np.average(table[rows], axis=0, weights=w)) * np.sqrt(w)[:, None]
            for table in (problem.X, problem.Y)
        )
        X = np.vstack([X, np.sqrt(ridge) * np.eye(X.shape[1])])
        Y = np.vstack([Y, np.zeros((problem.n_features, Y.shape[1]))])
        return float(np.square(X @ np.linalg.lstsq(X, Y, rcond=1e-10)[0] - Y).sum())

    linear_leaf.rows = True
    return optimum(
        problem.X,
        problem.Y,
        depth=problem.depth,
        loss=problem.loss,
        w=problem.w,
        price=problem.split_price,
        min_leaf=problem.min_leaf,
        max_splits=max_splits,
        **({"leaf": linear_leaf} if problem.leaves == "linear" else {}),
    )


@pytest.mark.parametrize("examples", [60, pytest.param(150, marks=pytest.mark.long)])
def test_it_finds_and_proves_the_optimum_of_random_instances(examples):
    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 3), threads=st.integers(1, 2))
    def holds(seed, depth, threads):
        problem, max_splits = random_problem(np.random.default_rng(seed), depth)
        start = CartInit() if seed % 3 else None
        result = solve(problem, BranchAndBound(max_splits=max_splits, n_jobs=threads, init=start))
        best = enumerated(problem, max_splits)
        assert result.termination is Termination.OPTIMAL
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert result.bound == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert result.bound <= best + 1e-12
        assert max_splits is None or result.tree.n_branches <= max_splits

    holds()


@pytest.mark.parametrize(("p", "K"), [(1, 1), (1, 2), (3, 2)])
def test_orders_have_one_layout(p, K):
    """Of one feature and two outputs it was another, for which all kernels were compiled again."""
    rng = np.random.default_rng(0)
    problem = TreeProblem(rng.normal(size=(20, p)), rng.normal(size=(20, K)), depth=2, splits="axis", loss="absolute")
    assert ExactTreeProblem(problem).order.flags.c_contiguous


@pytest.mark.parametrize("loss", LOSSES)
def test_depth_four_without_a_start_and_with_few_histograms(loss):
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 6, (16, 2)).astype(float), rng.integers(0, 3, 16)
    problem = TreeProblem(X, y.astype(float) if loss == "squared" else y, depth=4, splits="axis", loss=loss)
    result = solve(problem, BranchAndBound(init=None, memory=1e-6))
    assert result.objective == pytest.approx(enumerated(problem), abs=1e-12)
    assert result.termination is Termination.OPTIMAL


@pytest.mark.parametrize(("name", "depth", "best"), [("airfoil", 3, 0.468701115), ("auto_mpg", 3, 0.140126243)])
def test_optima_of_real_data(name, depth, best):
    X, y = real_data(name)
    problem = TreeProblem(X, (y - y.mean()) / y.std(), depth=depth, splits="axis")
    result = solve(problem, BranchAndBound())
    assert result.termination is Termination.OPTIMAL
    assert result.objective == pytest.approx(best, abs=1e-8)
    assert result.gap < 1e-8


def test_it_agrees_with_the_linear_program_over_sets_of_rows():
    X, y = real_data("auto_mpg")
    problem = TreeProblem(X[:120], (y[:120] - y.mean()) / y.std(), depth=2, splits="axis", min_leaf=5)
    ours, theirs = solve(problem, BranchAndBound()), solve(problem, MIP())
    assert theirs.termination is Termination.OPTIMAL
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)


def hard_problem():
    X, y = real_data("abalone")
    return TreeProblem(X, (y - y.mean()) / y.std(), depth=3, splits="axis")


ABALONE = 0.536364368747  # the optimum of `hard_problem`


@pytest.mark.parametrize("seconds", [0.1, 0.5, 1.0])
def test_bounds_and_incumbents_are_valid_at_any_time(seconds):
    result = ends_in_time(lambda: solve(hard_problem(), BranchAndBound(), time_limit=seconds), seconds + 1.0)
    for row in result.trace:
        assert row.best >= ABALONE - 1e-9
        assert row.bound <= ABALONE + 1e-9
    bounds = [row.bound for row in result.trace]
    assert bounds == sorted(bounds)
    assert result.termination in (Termination.TIME_LIMIT, Termination.OPTIMAL)


def test_where_the_queue_is_full_the_bound_stays_valid():
    X, y = real_data("abalone")
    problem = TreeProblem(X, (y - y.mean()) / y.std(), depth=3, splits="axis")
    result = solve(problem, BranchAndBound(queue_memory=0.01))
    assert result.termination is Termination.TOO_LARGE
    assert "queue_memory" in result.message
    assert 0.0 < result.bound < 0.536364368 <= result.objective + 1e-8


def test_a_callback_ends_it_with_a_valid_bound():
    result = solve(hard_problem(), BranchAndBound(), callback=lambda step, trace: len(trace) > 4)
    assert result.termination is Termination.INTERRUPTED
    assert 0.0 <= result.bound <= ABALONE + 1e-9 <= result.objective + 2e-9


def test_a_gap_ends_the_proof_earlier():
    problem = hard_problem()
    result = solve(problem, BranchAndBound(gap=0.2))
    assert result.termination is Termination.OPTIMAL
    assert result.gap <= 0.2 + 1e-9
    assert result.bound <= ABALONE + 1e-9
    cuts = [row.info["evaluations"] for row in result.trace if "evaluations" in row.info]
    assert cuts[-1] < 0.9 * solve(problem, BranchAndBound()).trace.rows[-1].info["evaluations"]


def test_a_better_start_is_kept_and_proved():
    problem = hard_problem()
    best = solve(problem, BranchAndBound()).tree
    again = solve(problem, BranchAndBound(), start=best)
    assert next(row for row in again.trace if row.phase == "start").objective == pytest.approx(ABALONE, abs=1e-9)
    assert again.objective == pytest.approx(ABALONE, abs=1e-9)
    assert again.termination is Termination.OPTIMAL


def test_cuts_that_are_worth_their_price_in_deeper_trees_alone_stay():
    """Two splits and an error were said to be the optimum: subtrees of few levels narrowed what others looked at."""
    x0 = [0.1, -0.7, -0.4, -0.9, 0.1, 0.6, 0.5, -0.9, -1.0]
    x1 = [-2.1, -0.6, 0.3, -0.1, -0.8, -0.3, -0.3, 0.6, -1.1]
    y = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    for price in (0.06, 0.08, 0.1):
        problem = TreeProblem(np.c_[x0, x1], y, 3, "axis", loss="absolute", min_leaf=2, penalties=(SplitPrice(price),))
        result = solve(problem, BranchAndBound(), random_state=0)
        assert result.objective == pytest.approx(3.0 * price)
        assert result.bound <= 3.0 * price + 1e-12


def test_penalties_on_axis_aligned_splits_are_prices():
    X, y = np.random.default_rng(5).normal(size=(30, 2)), np.random.default_rng(6).normal(size=30)
    problem = TreeProblem(X, y, depth=2, splits="axis", penalties=(L1(splits=0.02, leaves=3.0), L2(splits=0.01)))
    result = solve(problem, BranchAndBound())
    assert result.objective == pytest.approx(optimum(X, y, depth=2, loss="squared", price=0.03), abs=1e-12)
    assert result.termination is Termination.OPTIMAL


def test_thresholds_lie_between_the_rows_that_reach_them():
    problem = regression_problem(60, depth=2, splits="axis", penalties=())
    tree = solve(problem, BranchAndBound()).tree
    assert isinstance(tree, Tree)
    left = problem.X[:, tree.feature[0]] <= tree.b[0]
    x = problem.X[:, tree.feature[0]]
    assert tree.b[0] == pytest.approx(0.5 * (x[left].max() + x[~left].min()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"splits": "oblique"}, "oblique"),
        ({"splits": "axis", "leaves": "linear", "loss": "absolute"}, "linear under loss 'absolute'"),
        ({"splits": "axis", "leaves": "linear", "penalties": (L1(leaves=0.1),)}, "l1 penalty"),
        ({"splits": "axis", "leaves": "linear", "p": 1000}, "products of 1000 features that its linear leaves need"),
        ({"splits": "axis", "depth": 7}, "depth is 7"),
    ],
)
def test_what_it_cannot_solve_is_refused_in_a_sentence(options, words):
    problem = regression_problem(30, **{"penalties": (), **options})
    assert words in BranchAndBound().refusal(problem)
    if "depth" not in options:
        with pytest.raises(ValueError, match="problem has no exact search"):
            ExactTreeProblem(problem)


def test_it_is_never_above_cart():
    problem = regression_problem(400, depth=3, splits="axis", penalties=())
    cart = problem.objective(CartInit().build(problem, np.random.default_rng(0)))
    assert solve(problem, BranchAndBound()).objective <= cart


def test_its_own_time_limit_and_another_solver_for_the_start():
    solver = BranchAndBound(init=LocalSearch(n_starts=1, max_passes=1), time_limit=0.2)
    result = ends_in_time(lambda: solve(hard_problem(), solver), 2.0)
    assert result.termination is Termination.TIME_LIMIT
    assert 0.0 <= result.bound <= ABALONE + 1e-9
    assert any(row.phase.startswith("LocalSearch") for row in result.trace)


def test_estimators_prove_with_it():
    X, y = real_data("airfoil")
    model = ORTRegressor(3, solver="bnb").fit(X, y)
    assert model.is_optimal_
    assert model.result_.objective == pytest.approx(0.468701115, abs=1e-8)
    X, y = datasets.load("iris", as_arrays=True)
    assert OCTClassifier(3, solver="bnb").fit(X, y).score(X, y) == pytest.approx(149 / 150)
    assert OCTClassifier(3, solver="bnb", max_splits=2).fit(X, y).tree_.n_branches == 2
    with pytest.raises(ValueError, match=r"n_thresholds must be 'all' for solver='bnb'; got 5"):
        ORTRegressor(3, solver="bnb", n_thresholds=5).fit(X, y)


def test_nothing_is_called_proved_that_rounding_hides():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2))[:20], rng.normal(size=40)[:20]
    y[np.argmin(X[:, 0])] = 1e6
    result = solve(TreeProblem(X, y, depth=3, splits="axis"), BranchAndBound())
    best = optimum(X, y, depth=3, loss="squared")
    assert result.bound <= best
    assert result.termination is Termination.STALLED or result.objective == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("part", range(4))
def test_it_equals_the_optima_of_real_instances(needs_data, part):
    """Those that "hyperflow" is checked on, too: 154 of real data, four losses."""
    for instance in instances()[part::4]:
        result = solve(instance.problem, BranchAndBound())
        assert result.objective == pytest.approx(instance.optimum, rel=1e-9, abs=1e-9), instance.name
        assert result.termination is Termination.OPTIMAL, instance.name


def test_ctrl_c_leaves_a_valid_bound():
    sent = []

    def interrupt(step, trace):
        if len(trace) == 3 and not sent:
            sent.append(signal.raise_signal(signal.SIGINT))

    result = solve(hard_problem(), BranchAndBound(), callback=interrupt)
    assert sent
    assert result.termination is Termination.INTERRUPTED
    assert 0.0 <= result.bound <= ABALONE + 1e-9 <= result.objective + 2e-9


def test_log_loss_of_rows_of_very_different_weight_is_proved():
    X, y, w = np.arange(6.0)[:, None], np.array([0, 1, 0, 0, 0, 1]), np.array([1.0, 1e-7, 1.0, 1.0, 1.0, 1e-8])
    stated = TreeProblem(X, y, depth=1, splits="axis", loss="log", sample_weight=w)
    result = solve(stated, BranchAndBound())
    assert result.termination.name == "OPTIMAL"
    sure = Tree.constant(np.array([1.0, 0.0]), 1, np.array([0, 1]))
    assert result.bound <= stated.objective(sure)


def test_a_search_may_be_left_while_it_is_set_up():
    """An exception raised in the thread while a compiled function made its tuples ended the process."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1000))
    problem = TreeProblem(X, X[:, 0] + rng.normal(size=300), 3, splits="axis", min_leaf=7)
    for seconds in rng.uniform(0.01, 0.4, 12):
        assert solve(problem, BranchAndBound(), time_limit=float(seconds)).bound >= 0.0


def drawn_classes(rng):
    """Up to 260 rows of features of two values, of few, of many with ties, and of values that all differ."""
    n, p, K = int(rng.choice([20, 63, 64, 65, 129, 260])), int(rng.integers(1, 6)), int(rng.choice([2, 2, 3, 8]))
    X = rng.normal(size=(n, p))
    for j in range(p):
        values = rng.choice([0, 2, 4, 30])
        X[:, j] = rng.integers(0, values, n) if values else X[:, j]
    y = np.where(rng.random(n) < rng.uniform(0.1, 1), rng.integers(0, K, n), (X[:, 0] > 0) + (X[:, -1] > X[:, 0]) % K)
    price = float(rng.choice([0.0, 0.5, 1.3])) / n
    options = {"penalties": (SplitPrice(price),) if price else (), "min_leaf": int(rng.choice([1, 1, 2, 5]))}
    return X, y, options


@pytest.mark.parametrize("seed", range(40))
def test_words_of_rows_find_what_histograms_find(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, y, options = drawn_classes(rng)
    problem = TreeProblem(X, y, depth=2 + seed % 2, splits="axis", loss="zero_one", **options)
    solver = BranchAndBound(max_splits=None if rng.random() < 0.6 else int(rng.integers(2, 5)), n_jobs=1 + seed % 2)
    by_words = solve(problem, solver)
    assert by_words.termination is Termination.OPTIMAL
    assert by_words.bound <= by_words.objective + 1e-9
    monkeypatch.setattr(exact_problem, "MOST_WORDS", 0)
    assert solve(problem, solver).objective == pytest.approx(by_words.objective, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_words_of_rows_find_what_histograms_find_for_weighted_classes_and_log_loss(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, y, options = drawn_classes(rng)
    X[:, 0] += 1e-3 * rng.normal(size=len(X))  # rows that differ
    weights = rng.choice([1e-3, 0.3, 1.0, 7.0], 10)[y.astype(int)]
    loss, w = ("zero_one", weights) if seed % 4 < 2 else ("log", None)
    problem = TreeProblem(X, y, depth=2 + seed % 2, splits="axis", loss=loss, sample_weight=w, **options)
    solver = BranchAndBound(max_splits=None if rng.random() < 0.6 else int(rng.integers(2, 5)), n_jobs=1 + seed % 2)
    assert ExactTreeProblem(problem).by_words
    by_words = solve(problem, solver)
    assert by_words.termination is Termination.OPTIMAL
    monkeypatch.setattr(exact_problem, "MOST_WORDS", 0)
    by_histograms = solve(problem, solver)
    assert by_histograms.objective == pytest.approx(by_words.objective, rel=1e-9, abs=1e-12)
    assert by_words.bound <= by_histograms.objective + 1e-9


def test_rows_of_a_very_heavy_class_leave_the_bounds_as_they_are(monkeypatch):
    """So many light rows times the largest weight are beyond 64 bits, in units of the costs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    heavy = (rng.random(3000) < 0.01) | (X[:, 0] > 1.5)
    problem = TreeProblem(X, heavy, depth=2, splits="axis", loss="zero_one", sample_weight=np.where(heavy, 1e9, 1.0))
    result = solve(problem, BranchAndBound())
    assert result.termination is Termination.OPTIMAL
    assert result.objective > 0.0
    monkeypatch.setattr(exact_problem, "MOST_WORDS", 0)
    assert solve(problem, BranchAndBound()).objective == pytest.approx(result.objective, rel=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_columns_of_few_values_find_what_histograms_find(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n, K, depth = int(rng.choice([2, 20, 64, 65, 150])), int(rng.choice([2, 2, 3, 8])), int(rng.choice([2, 3, 3, 4]))
    p = int(rng.integers(1, 8 if depth < 4 else 4))
    X = np.column_stack([rng.integers(0, rng.choice([2, 2, 3, 5]), n) for _ in range(p)]).astype(float)
    y = np.where(rng.random(n) < rng.uniform(0.1, 1), rng.integers(0, K, n), X[:, 0] > X[:, -1])
    price = float(rng.choice([0.0, 0.5, 1.3])) / n
    options = {"penalties": (SplitPrice(price),) if price else (), "min_leaf": min(int(rng.choice([1, 1, 2, 5])), n)}
    problem = TreeProblem(X, y, depth=depth, splits="axis", loss="zero_one", **options)
    found = [solve(problem, BranchAndBound(memory=memory)) for memory in (256.0, 1e-5)]
    assert all(result.termination is Termination.OPTIMAL for result in found)
    assert found[0].bound <= found[0].objective + 1e-9
    monkeypatch.setattr(exact_problem, "MOST_WORDS", 0)
    by_sums = solve(problem, BranchAndBound()).objective
    monkeypatch.setattr(search, "columns_of", lambda exact: None)
    best = solve(problem, BranchAndBound()).objective
    assert [by_sums, *(result.objective for result in found)] == pytest.approx([best] * 3, abs=1e-12)


@pytest.mark.parametrize("seed", thinned(range(60), 3))
def test_columns_of_few_values_are_searched_by_sums(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n, p = int(rng.choice([8, 20, 65, 150])), int(rng.integers(1, 6))
    depth = int(rng.choice([2, 3, 4])) if n < 65 else 3
    X = np.column_stack([rng.integers(0, rng.choice([2, 3, 4]), n) for _ in range(p)]).astype(float)
    loss = ["squared", "squared", "zero_one"][seed % 3]
    y = rng.integers(0, 3, n) if loss == "zero_one" else 1e3 + X[:, [0]] + rng.normal(size=(n, 1 + seed % 2))
    weight = 10.0 ** rng.uniform(-3, 3, n) if seed % 3 else None
    price = (SplitPrice(0.01),) if rng.random() < 0.3 else ()
    options = {"penalties": price, "min_leaf": int(rng.choice([1, 1, 2, 4])), "sample_weight": weight}
    problem = TreeProblem(X, y, depth, splits="axis", loss=loss, **options)
    assert search.columns_of(ExactTreeProblem(problem)) is not None
    result = solve(problem, BranchAndBound())
    assert result.termination is Termination.OPTIMAL
    monkeypatch.setattr(search, "columns_of", lambda exact: None)
    best = solve(problem, BranchAndBound())
    assert result.objective == pytest.approx(best.objective, rel=1e-7, abs=1e-9)
    assert result.bound <= best.objective + 1e-9


@pytest.mark.parametrize("loss", ["zero_one", "squared"])
def test_features_of_many_values_are_not_searched_by_columns(loss):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(200, 5)), rng.integers(0, 2, (200, 2))])
    y = (X[:, 0] > 0) ^ (X[:, 1] > 0.3) if loss == "zero_one" else X[:, 0] * X[:, 1]
    problem = TreeProblem(X, y, depth=3, splits="axis", loss=loss)
    assert search.columns_of(ExactTreeProblem(problem)) is None
    assert solve(problem, BranchAndBound()).seconds < 5.0


def test_a_search_of_columns_that_is_stopped_has_valid_bounds():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (3000, 90)).astype(float), rng.integers(0, 2, 3000)
    problem = TreeProblem(X, y, depth=5, splits="axis", loss="zero_one")
    result = ends_in_time(lambda: solve(problem, BranchAndBound(), time_limit=0.5), 3.0)
    assert result.termination is Termination.TIME_LIMIT
    assert 0.0 <= result.bound < result.objective


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
def test_a_perfect_fit_far_from_zero_is_proved(far):
    X = np.arange(40.0)[:, None]
    result = solve(TreeProblem(X, far + np.repeat(np.arange(4.0), 10), depth=2, splits="axis"), BranchAndBound())
    assert result.termination is Termination.OPTIMAL
    assert result.objective < 1e-12
