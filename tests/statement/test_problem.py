"""`TreeProblem`: the objective, violations, samples, units, and its input checks."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from opttree import L1, L2, OCTClassifier, SplitPrice, Tree, TreeProblem
from opttree.statement.constraints import MaxDifference
from opttree.statement.losses import Poisson
from solvers import MIP, TAO, BranchAndBound, CartInit, solve
from tests.conftest import classification_problem, regression_problem
from tests.trees import random_tree


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("weighted", [False, True])
def test_objective_is_the_weighted_mean_loss_plus_penalties(rng, loss, weighted):
    X, y = rng.normal(size=(80, 3)), rng.normal(size=(80, 2))
    w = rng.uniform(size=80) if weighted else None
    penalties = (L1(splits=0.1, leaves=0.2), L2(splits=0.3, leaves=0.4), SplitPrice(0.5))
    problem = TreeProblem(X, y, depth=3, leaves="linear", loss=loss, sample_weight=w, penalties=penalties)
    tree = random_tree(rng, 2, 3, 2, linear=True)
    error = np.abs(y - tree.outputs(X)) if loss == "absolute" else np.square(y - tree.outputs(X))
    expected = np.average(error.sum(axis=1), weights=w)
    unit = tree.A / np.linalg.norm(tree.A, axis=1, keepdims=True)  # a hyperplane times a constant routes alike
    expected += 0.1 * np.abs(unit).sum() + 0.2 * np.abs(tree.coefs).sum()
    expected += 0.3 * np.square(unit).sum() + 0.4 * np.square(tree.coefs).sum() + 0.5 * 3
    assert problem.objective(tree) == pytest.approx(expected, rel=1e-12)


def test_zero_one_objective_is_the_error_rate(rng):
    problem = classification_problem(penalties=())
    tree = problem.fit_leaves(random_tree(rng, 2, 4, 3))
    assert problem.objective(tree) == pytest.approx(np.mean(tree.predict(problem.X) != problem.y))


def test_integer_weights_are_repetitions_and_zero_weights_are_absent(rng):
    X, y, w = rng.normal(size=(50, 3)), rng.normal(size=50), rng.integers(0, 4, 50)
    tree = random_tree(rng, 2, 3, 1)
    weighted = TreeProblem(X, y, depth=2, sample_weight=w)
    repeated = TreeProblem(np.repeat(X, w, axis=0), np.repeat(y, w), depth=2)
    assert weighted.objective(tree) == pytest.approx(repeated.objective(tree), rel=1e-12)
    assert weighted.fit_leaves(tree) == repeated.fit_leaves(tree)
    assert weighted.n_samples == np.count_nonzero(w)


def test_infeasible_trees_cost_infinity_and_say_why(rng):
    deep, oblique, linear = random_tree(rng, 3, 4, 1), random_tree(rng, 1, 4, 1), random_tree(rng, 1, 4, 1, linear=True)
    assert "depth 3" in regression_problem(depth=2).violation(deep)
    assert "oblique" in regression_problem(splits="axis").violation(oblique)
    assert "linear leaves" in regression_problem().violation(linear)
    assert "2 outputs" in regression_problem().violation(random_tree(rng, 1, 4, 2))
    small = regression_problem(min_leaf=90)
    assert "asks for 90" in small.violation(deep)
    assert small.objective(deep) == np.inf
    assert regression_problem(leaves="linear").violation(linear) is None


@pytest.mark.parametrize("depth", [1, 3, 4])
def test_enforcing_min_leaf_gives_a_feasible_tree(rng, depth):
    problem = regression_problem(min_leaf=30, depth=4)
    given = random_tree(rng, depth, 4, 1)
    assert (problem.violation(given) is None) == (depth == 1)
    tree = problem.enforce_min_leaf(given)
    assert problem.violation(tree) is None
    assert tree.n_leaves > 1
    assert regression_problem(n=20, min_leaf=15, depth=4).enforce_min_leaf(random_tree(rng, 4, 4, 1)).n_leaves == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": -1}, "depth must be an integer >= 0; got -1"),
        ({"depth": 1.5}, "depth must be an integer >= 0; got 1.5"),
        ({"splits": "curved"}, "splits must be one of .*; got 'curved'"),
        ({"leaves": "x"}, "leaves must be one of"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"min_leaf": 0}, "min_leaf must be an integer >= 1; got 0"),
        ({"X": np.zeros((0, 2)), "y": np.zeros(0)}, "X must be a table with at least one row"),
        ({"X": np.zeros(3)}, "X must be a table"),
        ({"y": np.zeros(3)}, "y must have one entry per row of X, 4"),
        ({"X": np.array([[np.nan, 1.0]] * 4)}, "X must be finite; got nan"),
        ({"y": np.array([0, 1, 2, np.inf])}, "y must be finite; got inf"),
        ({"sample_weight": np.array([1.0, -2.0, 1.0, 1.0])}, "sample_weight must be finite, >= 0 .*; got -2"),
        ({"sample_weight": np.zeros(4)}, "not all zero; got 0"),
        ({"sample_weight": np.ones(3)}, "sample_weight must have shape"),
        ({"loss": "log", "y": np.zeros((4, 2))}, "y must be one column of labels"),
    ],
)
def test_bad_input_is_named(changes, message):
    parts = {"X": np.arange(8.0).reshape(4, 2), "y": np.arange(4.0), "depth": 1}
    with pytest.raises(ValueError, match=message):
        TreeProblem(**{**parts, **changes})


def stump(left, right, **parts):
    """Split of the first of two features at 0."""
    return Tree(**{"children": [[1, 2]], "A": [[1.0, 0.0]], "b": [0.0], "values": [left, right], **parts})


ROWS = np.array([[-2.0, 1.0], [-1.0, 0.0], [1.0, 0.0], [2.0, 5.0], [3.0, 1.0]])


def test_losses_by_hand():
    w = np.array([1.0, 1.0, 2.0, 0.0, 4.0])
    y = np.array([0.0, 4.0, 1.0, 9.0, 3.0])
    tree = stump([1.0], [2.0])
    for loss, sum_ in (("squared", 1.0 + 9.0 + 2 * 1.0 + 4 * 1.0), ("absolute", 1.0 + 3.0 + 2 * 1.0 + 4 * 1.0)):
        problem = TreeProblem(ROWS, y, depth=1, loss=loss, sample_weight=w)
        assert problem.mean_loss(tree) == pytest.approx(sum_ / 8.0, rel=1e-14)
        assert problem.mean_loss_of(tree.outputs(problem.X)) == pytest.approx(sum_ / 8.0, rel=1e-14)
        assert problem.objective(tree) == problem.mean_loss(tree)
    labels = np.array(["u", "v", "v", "w", "u"])
    sure = stump([0.25, 0.5, 0.25], [1.0, 0.0, 0.0], classes=["u", "v", "w"])
    zero_one = TreeProblem(ROWS, labels, depth=1, loss="zero_one", sample_weight=w)
    log = zero_one.restated(loss="log")
    assert zero_one.classes.tolist() == ["u", "v", "w"]  # that of weight zero included
    assert (zero_one.n_samples, zero_one.n_outputs, zero_one.n_features) == (4, 3, 2)
    assert zero_one.Y.tolist() == [[0.0], [1.0], [1.0], [0.0]]
    expected = (-np.log(0.25) - np.log(0.5) - 2.0 * np.log(1e-6) + 0.0) / 8.0
    for proba in (sure.outputs(log.X), sure.predict_proba(log.X)):
        assert zero_one.mean_loss_of(proba) == (1.0 + 0.0 + 2.0 + 0.0) / 8.0
        assert log.mean_loss_of(proba) == pytest.approx(expected, rel=1e-14)
    assert zero_one.mean_loss(sure) == 3.0 / 8.0
    assert log.mean_loss(sure) == pytest.approx(expected, rel=1e-14)


def test_a_mixture_is_compared_by_its_own_answers(rng):
    problem = regression_problem(50, penalties=(L2(splits=0.1),))
    tree = random_tree(rng, 2, 4, 1)
    soft = Tree(tree.children, tree.A, tree.b, tree.values, gate=2.0)
    assert problem.mean_loss(soft) == problem.mean_loss(tree)
    error = np.square(problem.y - soft.as_mixture.predict(problem.X)).mean()
    assert problem.objective(soft.as_mixture) == pytest.approx(error + problem.penalty(soft), rel=1e-12)
    assert not problem.fit_leaves(soft.as_mixture).mixture


def test_weights_sum_to_one_and_rows_are_presorted(rng):
    X = np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 0.0], [9.0, 9.0]])
    problem = TreeProblem(X, np.arange(4.0), depth=1, sample_weight=[1.0, 2.0, 1.0, 0.0])
    assert problem.w.tolist() == [0.25, 0.5, 0.25]
    assert problem.presorted.tolist() == [[1, 2, 0], [2, 0, 1]]
    assert problem.sorted_values.tolist() == np.sort(problem.X, axis=0).T.tolist()
    assert problem.presorted.dtype == np.int32
    assert problem.Y.tolist() == [[0.0], [1.0], [2.0]]
    assert problem.X.flags.c_contiguous
    assert TreeProblem(np.asfortranarray(X), np.arange(4), depth=np.int64(1)).X.flags.c_contiguous


def test_every_violation_is_named(rng):
    problem = classification_problem(min_leaf=3)
    labels = ["a", "b", "c"]
    fits = Tree.constant([1.0, 0.0, 0.0], 4, labels)
    assert problem.violation(fits) is None
    assert "maps 3 features to 3 outputs; the problem has 4 and 3" in problem.violation(
        Tree.constant([1.0, 0.0, 0.0], 3, labels)
    )
    assert "maps 4 features to 2 outputs" in problem.violation(Tree.constant([1.0, 0.0], 4, labels[:2]))
    assert "has the classes None" in problem.violation(Tree.constant([1.0, 0.0, 0.0], 4))
    assert "the problem has ['a' 'b' 'c']" in problem.violation(Tree.constant([1.0, 0.0, 0.0], 4, ["a", "b", "d"]))
    assert "has the classes ['a']" in regression_problem().violation(Tree.constant([1.0], 4, ["a"]))
    deep = random_tree(rng, 2, 4, 1)
    assert regression_problem(depth=2).violation(deep) is None
    assert "has depth 2; the problem allows 1" in regression_problem(depth=1).violation(deep)
    assert regression_problem(splits="axis").violation(random_tree(rng, 2, 4, 1, axis=True)) is None


def test_small_leaves_are_a_violation_and_empty_ones_are_not():
    y = np.arange(5.0)
    tree = stump([0.0], [1.0])  # two rows and three
    assert TreeProblem(ROWS, y, depth=1, min_leaf=2).violation(tree) is None
    three = TreeProblem(ROWS, y, depth=1, min_leaf=3)
    assert three.violation(tree) == "the tree has a leaf with 2 rows; the problem asks for 3"
    assert three.violation(stump([0.0], [1.0], b=[9.0])) is None
    assert TreeProblem(ROWS, y, depth=1, min_leaf=6).violation(Tree.constant([0.0], 2)) is None


def test_of_small_siblings_the_larger_takes_over():
    X = np.arange(9.0)[:, None]
    # below 4: leaves of one row, {0}, and three, {1, 2, 3}; above: two, {4, 5}, and three, {6, 7, 8}
    tree = Tree([[1, 2], [3, 4], [5, 6]], [[1.0]] * 3, [3.5, 0.5, 5.5], [[1.0], [2.0], [3.0], [4.0]], share=np.ones(7))
    leaves = {
        min_leaf: TreeProblem(X, X[:, 0], depth=2, min_leaf=min_leaf).enforce_min_leaf(tree).values.ravel().tolist()
        for min_leaf in (1, 2, 3, 4, 5, 10)
    }
    assert leaves == {
        1: [1.0, 2.0, 3.0, 4.0],
        2: [2.0, 3.0, 4.0],
        3: [2.0, 4.0],
        4: [2.0, 4.0],
        5: [4.0],
        10: [4.0],
    }
    even = stump([1.0], [2.0])
    assert TreeProblem(ROWS[:4], np.zeros(4), depth=1, min_leaf=3).enforce_min_leaf(even).values.tolist() == [[1.0]]


def test_trimming_fits_leaves_only_where_rows_moved(rng):
    problem = regression_problem(200, leaves="linear", min_leaf=30, penalties=())
    wide = random_tree(rng, 2, 4, 1, linear=True)
    wide = Tree(wide.children, wide.A, [0.0, 99.0, 99.0], wide.values, wide.coefs)  # two leaves are dead
    assert problem.trim(wide) == wide.prune_dead(problem.X)
    tenth = np.sort(problem.X[wide.apply(problem.X) == 3] @ wide.A[1])[10]
    small = Tree(wide.children, wide.A, [0.0, tenth, 99.0], wide.values, wide.coefs)
    cut = problem.enforce_min_leaf(small.prune_dead(problem.X))
    assert cut.n_leaves < small.prune_dead(problem.X).n_leaves
    assert problem.trim(small) == problem.fit_leaves(cut)
    kept = problem.trim(small, refit=False)
    assert np.array_equal(kept.coefs, cut.coefs)
    assert kept == problem.bound_leaves(cut)
    assert kept.lower is not None


def test_bounds_are_the_common_range_of_y_and_the_fit(rng):
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    problem = TreeProblem(X, np.array([0.0, 3.0, 1.0, 2.0]), depth=1, leaves="linear")
    tree = Tree([[1, 2]], [[1.0]], [1.5], [[0.5], [-4.0]], [[[1.0]], [[2.0]]])
    bounded = problem.bound_leaves(tree)
    assert bounded.lower.ravel().tolist() == [0.5, 1.0]  # fits .5, 1.5 of y = 0, 3 and 0, 2 of y = 1, 2
    assert bounded.upper.ravel().tolist() == [1.5, 2.0]
    assert np.array_equal(bounded.coefs, tree.coefs)
    constant = Tree.constant([0.0], 1)
    assert problem.bound_leaves(constant) is constant
    labels = TreeProblem(X, np.array(["a", "b", "a", "b"]), depth=1, leaves="linear", loss="log")
    scores = labels.fit_leaves(Tree.constant([0.5, 0.5], 1, ["a", "b"]))
    assert scores.lower is None
    assert labels.bound_leaves(scores) is scores


def test_leaves_that_no_row_reaches_keep_theirs():
    problem = TreeProblem(ROWS, np.arange(5.0), depth=1, leaves="linear")
    empty = stump([7.0], [8.0], b=[9.0])
    constant = problem.fit_leaves(empty, leaves="constant")
    assert constant.values.ravel().tolist() == [2.0, 8.0]
    assert not constant.linear_leaves
    linear = problem.fit_leaves(stump([7.0], [8.0], b=[9.0], coefs=[[[1.0, 1.0]], [[2.0, 3.0]]]), min_rows=1)
    assert linear.coefs[1].tolist() == [[2.0, 3.0]]
    assert linear.values[1].tolist() == [8.0]
    labels = TreeProblem(ROWS, np.array(["a", "b", "b", "b", "b"]), depth=1, loss="log")
    fitted = labels.fit_leaves(stump([0.0], [0.0], b=[9.0]))  # of another form: nothing to keep
    assert fitted.values.tolist() == [[0.2, 0.8], [0.0, 0.0]]
    assert fitted.classes.tolist() == ["a", "b"]


def test_samples_keep_statement_classes_and_weights(rng):
    problem = classification_problem(60, sample_weight=np.arange(1.0, 61.0), min_leaf=2)
    rows = np.flatnonzero(problem.y != "b")[::2]
    part = problem.sample(rows, depth=1)
    assert np.array_equal(part.X, problem.X[rows])
    assert np.array_equal(part.y, problem.y[rows])
    assert np.array_equal(part.sample_weight, rows + 1.0)
    assert part.classes.tolist() == ["a", "b", "c"]
    assert (part.depth, part.min_leaf, part.penalties) == (1, 2, problem.penalties)
    assert "array" not in repr(part).replace("classes=array", "")  # the data are not shown
    other = problem.restated(loss="log", min_leaf=1)
    assert (other.loss, other.min_leaf, other.n_samples) == ("log", 1, 60)
    assert np.array_equal(other.sample_weight, problem.sample_weight)
    fresh = problem.with_rows(problem.X[:2], problem.y[:2])
    assert fresh.sample_weight.tolist() == [1.0, 1.0]
    assert fresh.classes.tolist() == ["a", "b", "c"]


def test_a_split_is_disjoint_complete_and_sorted():
    n = 11
    problem = TreeProblem(np.arange(float(n))[:, None], np.arange(float(n)), depth=1)
    for fraction, size in ((0.3, 3), (0.5, 6), (1e-6, 1), (1 - 1e-6, 10)):
        one, two = problem.split(fraction, np.random.default_rng(0))
        assert (one.n_samples, two.n_samples) == (n - size, size)
        assert sorted([*one.y, *two.y]) == list(range(n))
        for part in (one, two):
            assert np.all(np.diff(part.y) > 0)
    assert two.y.tolist() != list(range(10))  # random rows
    for fraction in (0.0, 1.0, -0.5, 1.5):
        with pytest.raises(ValueError, match="fraction must be between 0 and 1"):
            problem.split(fraction, np.random.default_rng(0))
    with pytest.raises(ValueError, match="needs two rows of positive weight; got 1"):
        problem.sample(np.arange(1)).split(0.5, np.random.default_rng(0))
    assert [part.n_samples for part in problem.sample(np.arange(2)).split(0.9, np.random.default_rng(0))] == [1, 1]


def test_parts_of_the_objective_add_up(rng):
    penalties = (L1(splits=0.1), L2(splits=0.2), SplitPrice(0.3))
    problem = regression_problem(100, sample_weight=rng.uniform(size=100), penalties=penalties)
    tree = random_tree(rng, 3, 4, 1)
    total = problem.penalty(tree.keep(np.isin(np.arange(8), (0, 4))))  # the root's
    for node in (1, 2):
        rows = np.flatnonzero(tree.decision_path(problem.X)[:, [node]].toarray()[:, 0])
        part = problem.restrict(rows, 2, min_leaf=1)
        assert part.depth == 2
        total += problem.w[rows].sum() * part.objective(tree.subtree(node))
    assert problem.objective(tree) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": "1"}, "depth must be an integer >= 0; got '1'"),
        ({"min_leaf": 2.0}, "min_leaf must be an integer >= 1; got 2.0"),
        ({"y": np.float64(3.0)}, "y must have one entry per row of X, 4"),
        ({"y": np.zeros((4, 1, 1))}, "y must have one entry per row of X, 4"),
        ({"y": np.zeros(5)}, "y must have one entry per row of X, 4"),
        ({"X": np.zeros((4, 2, 1))}, "X must be a table"),
        ({"X": np.zeros((4, 0))}, "X must be a table with at least one row and one column"),
        ({"X": np.array([[1.0, np.inf]] * 4)}, "X must be finite; got inf"),
        ({"y": np.array([[0.0, np.nan]] * 4)}, "y must be finite; got nan"),
        ({"sample_weight": np.array([1.0, np.inf, 1.0, 1.0])}, "sample_weight must be finite, .*; got inf"),
        ({"sample_weight": np.array([1.0, np.nan, 1.0, 1.0])}, "sample_weight must be finite, .*; got nan"),
        ({"sample_weight": np.array([0.0, -2.0, 1.0, 1.0])}, "sample_weight must be finite, .*; got -2"),
        ({"sample_weight": np.ones((4, 1))}, r"sample_weight must have shape \(4,\); got \(4, 1\)"),
        ({"loss": "zero_one", "y": np.zeros((4, 1))}, "y must be one column of labels"),
    ],
)
def test_more_bad_input_is_named(changes, message):
    parts = {"X": np.arange(8.0).reshape(4, 2), "y": np.arange(4.0), "depth": 1}
    with pytest.raises(ValueError, match=message):
        TreeProblem(**{**parts, **changes})


def test_rows_are_routed_once_for_a_tree_and_never_for_another(monkeypatch):
    problem = regression_problem(200)
    tree = problem.trim(CartInit().build(problem, np.random.default_rng(0)))
    calls = []
    apply = Tree.apply
    monkeypatch.setattr(Tree, "apply", lambda self, X: calls.append(self) or apply(self, X))
    fitted = problem.fit_leaves(tree)
    assert problem.live(fitted) == fitted
    assert problem.objective(fitted) <= problem.objective(tree)
    assert len(calls) <= 1
    moved = replace(tree, b=tree.b + 0.1)
    np.testing.assert_array_equal(problem.leaves_of(moved), apply(moved, problem.X))
    np.testing.assert_array_equal(problem.leaves_of(tree), apply(tree, problem.X))
    other = problem.sample(np.arange(50))
    np.testing.assert_array_equal(other.leaves_of(tree), apply(tree, other.X))
    assert not {"_routed", "_packed"} & set(pickle.loads(pickle.dumps(problem)).__dict__)


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


def test_a_class_whose_rows_weigh_nothing_stays():
    X, y, w = np.arange(12.0)[:, None], np.arange(12) % 3, (np.arange(12) % 3 < 2).astype(float)
    for cp in (0.0, 0.01):
        assert OCTClassifier(2, cp=cp, random_state=0).fit(X, y, w).classes_.tolist() == [0, 1, 2]
    stated = TreeProblem(X, y, depth=1, splits="axis", loss="zero_one", sample_weight=w)
    assert stated.restated(min_leaf=2).classes.tolist() == [0, 1, 2]
    assert stated.with_rows(X, X[:, 0], loss="squared").classes is None


def test_copies_of_a_scaled_problem_know_the_way_back():
    import pickle

    X, y = (1.0 + np.arange(12) * 2.0**-52)[:, None], np.arange(12) // 3 % 2
    stated = TreeProblem.standardized(X, y, depth=3, splits="axis", loss="zero_one")
    result = solve(stated, BranchAndBound())
    for own in (stated, pickle.loads(pickle.dumps(stated)), stated.sample(np.arange(12)), stated.restated(min_leaf=1)):
        assert np.array_equal(own.original(result).predict(X), y)
