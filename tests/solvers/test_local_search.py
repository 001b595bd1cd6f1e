"""Local search: never worse, never below a proved optimum, mostly at it."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from opttree import L1, L2, OCTClassifier, ORTRegressor, SplitPrice, TreeProblem
from opttree.constraints import MinPerGroup
from opttree.kernels.exact import cuts, partition
from opttree.kernels.records import Rows
from solvers import MIP, TAO, CartInit, Chain, LocalSearch, RandomInit, Termination, solve
from solvers.local_search.local_search import Costs
from solvers.local_search.search_tree import SearchTree
from tests.conftest import classification_problem, ends_in_time, regression_problem
from tests.exact import instances, leaf_loss

LOSSES = {"squared": 0, "absolute": 1, "zero_one": 2, "log": 3}


@pytest.mark.usefixtures("needs_data")
def test_constant_leaves_mostly_reach_the_proved_optimum():
    reached = 0
    some = instances()[::2]
    for name, problem, value in some:
        result = solve(problem, LocalSearch(n_starts=3), random_state=0)
        assert result.objective >= value - 1e-9 * max(1.0, value), name
        reached += result.objective <= value * (1 + 1e-6) + 1e-9
    assert reached >= 0.9 * len(some)


@pytest.mark.usefixtures("needs_data")
def test_linear_leaves_of_very_many_features_are_refused():
    problem = TreeProblem(np.zeros((3, 2001)), np.arange(3.0), depth=1, leaves="linear")
    assert "of 2001 features, more than 2000, each takes seconds" in str(LocalSearch().refusal(problem))


def test_without_exact_subtrees_it_still_does_well():
    few = instances()[::6]
    gaps = [solve(q, LocalSearch(exact_levels=0), random_state=0).objective - value for _n, q, value in few]
    assert min(gaps) >= -1e-9
    assert np.mean(np.array(gaps) <= 1e-6) > 0.7


@pytest.mark.parametrize("loss", LOSSES)
def test_prefix_costs_are_the_leaves_losses(loss):
    rng = np.random.default_rng(0)
    n, K = 40, 1 if loss in ("zero_one", "log") else 2
    Y = rng.integers(0, 3, (n, 1)).astype(float) if K == 1 else rng.normal(size=(n, K)).round(1)
    w, slot = rng.uniform(0.1, 1.0, n), rng.integers(0, 3, n)
    rows = rng.permutation(n).astype(np.int32)[:30]
    by_y = rows[np.argsort(Y[rows], axis=0, kind="stable")].T.copy()
    out = np.empty(rows.size)
    data, form = Rows(np.zeros((n, 1)), Y, w), partition.Form(LOSSES[loss], 3, False, 0.0, 0.0, 1, 1)
    partition.prefix_costs(rows, data, partition.Slots(slot, 3), form, by_y, out)
    for e in range(rows.size):
        held = rows[: e + 1]
        expected = sum(
            leaf_loss(Y[held[slot[held] == s]], w[held[slot[held] == s]], loss) for s in np.unique(slot[held])
        )
        assert out[e] == pytest.approx(expected, abs=1e-10)


def linear_cost(data, rows, slot, form):
    """Cost of the linear leaves that hold ``rows``, one after another."""
    total = 0.0
    for s in np.unique(slot[rows]):
        held = rows[slot[rows] == s]
        if held.size < form.min_leaf:
            return np.inf
        if held.size >= form.min_rows:
            total += partition.linear_leaf_cost(held, data, form)
        else:
            total += leaf_loss(data.Y[held], data.weight[held], "squared")
    return total


@pytest.mark.parametrize(
    ("l1", "l2", "min_rows", "min_leaf"),
    [(1e-3, 0.0, 1, 1), (0.0, 1e-2, 8, 1), (0.0, 0.0, 1, 4), (1e-2, 0.0, 9, 3)],
)
def test_the_best_cut_of_linear_leaves_is_the_best_of_all(l1, l2, min_rows, min_leaf):
    form = partition.Form(LOSSES["squared"], 0, True, l1, l2, min_rows, min_leaf)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n, F = 300, 5
        X, w = rng.normal(size=(n, 3)), rng.uniform(0.5, 1.0, n) / n
        Y = np.c_[np.abs(X[:, 0] - 0.2), X[:, 1] * (X[:, 2] > 0.5)] + 0.3 * rng.normal(size=(n, 2))
        data = Rows(X - X.mean(axis=0), Y - Y.mean(axis=0), w)
        sides = tuple(partition.Slots(rng.integers(0, k, n), k) for k in (2, 1 + seed % 3))
        order = np.array([rng.permutation(n) if f > 2 else X[:, f].argsort() for f in range(F)]).astype(np.int32)
        at = np.array([np.sort(rng.choice(n - 1, 60, replace=False)) for _ in range(F)])
        at[1, 50:] = -1
        cost, family, position = cuts.best_cuts(order, at, data, sides, form)
        every = np.full(at.shape, np.inf)
        for f, c in zip(*np.nonzero(at >= 0), strict=True):
            low, high = order[f, : at[f, c] + 1], order[f, at[f, c] + 1 :]
            every[f, c] = linear_cost(data, low, sides[0].of, form) + linear_cost(data, high, sides[1].of, form)
        assert cost == pytest.approx(every.min(), rel=1e-7)
        assert every[family, at[family].tolist().index(position)] == pytest.approx(cost, rel=1e-7)


@pytest.mark.parametrize("unit", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("penalties", [(), (L1(leaves=1e-3),), (L2(leaves=1e-3),)], ids=repr)
def test_values_that_stand_for_missing_ones_hide_no_split(unit, penalties):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = 3.0 * np.abs(X[:, 0]) + 0.1 * rng.normal(size=400)
    missing = rng.random(400) < 0.05
    y[missing] = 3.0

    def found(value):
        X[missing, 0] = value
        problem = TreeProblem(X.copy(), y, depth=2, splits="axis", leaves="linear", penalties=penalties)
        return solve(problem, LocalSearch(n_starts=3), random_state=0).objective

    assert found(unit) <= 1.02 * found(100.0) <= 0.03


PROBLEMS = [
    regression_problem(splits="axis", penalties=()),
    regression_problem(penalties=()),
    regression_problem(splits="axis", leaves="linear", penalties=(L1(leaves=1e-3),)),
    regression_problem(leaves="linear", penalties=(L1(leaves=1e-3),), depth=2),
    regression_problem(splits="axis", loss="absolute", penalties=(SplitPrice(0.01),), min_leaf=7),
    classification_problem(splits="axis", penalties=(SplitPrice(0.005),)),
    classification_problem(penalties=(), loss="log"),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda q: f"{q.splits}, {q.leaves}, {q.loss}")
def test_searches_never_rise_and_never_worsen_a_start(problem):
    result = solve(problem, LocalSearch(n_starts=2), random_state=0)
    assert result.termination is Termination.LOCALLY_OPTIMAL
    frame = result.trace.to_frame()
    assert frame["phase"].duplicated().any()
    for _phase, search in frame.groupby("phase"):
        # costs of linear leaves are compared without the clipping of the fitted ones
        assert (np.diff(search["objective"]) <= (1e-3 if problem.leaves == "linear" else 1e-9)).all()
    begin = RandomInit() if problem.splits == "oblique" else CartInit(splitter="random")
    start = solve(problem, begin, random_state=1)
    for tree, most in ((start.tree, 0.9 * start.objective), (result.tree, result.objective + 1e-9)):
        again = solve(problem, LocalSearch(n_starts=1), start=tree, random_state=0)
        assert again.objective <= most
        assert problem.violation(again.tree) is None


def test_what_is_settled_is_settled_there_alone():
    problem = regression_problem(40, p=2, splits="axis", depth=3)
    costs, rows = Costs(problem), np.arange(40, dtype=np.int32)
    a = np.array([1.0, 0.0])
    grown = SearchTree(problem, {0: (a, 0.0), 1: (a, 0.5)})
    costs.settle(grown, 1, rows)
    assert costs.is_settled(grown, 1, rows)
    assert costs.is_settled(SearchTree(problem, {0: (-a, 0.0), 2: (a, 0.5)}), 2, rows)
    assert not costs.is_settled(grown, 1, rows[1:])
    assert not costs.is_settled(SearchTree(problem, {0: (a, 0.5)}), 0, rows)  # one level more below
    assert not costs.is_settled(SearchTree(problem, {0: (a, 0.0), 1: (a, 0.4)}), 1, rows)
    assert not costs.is_settled(SearchTree(problem, {0: (a, 0.0), 1: (a, 0.5), 2: (a, 0.5)}), 1, rows)


def test_an_exact_start_with_small_linear_leaves_is_kept():
    problem = regression_problem(30, p=3, splits="axis", leaves="linear", penalties=(L1(leaves=1e-3),), depth=2)
    exact = solve(problem, MIP())
    assert solve(problem, LocalSearch(n_starts=1), start=exact.tree, random_state=0).objective <= exact.objective


def test_oblique_search_finds_hyperplanes():
    problem = regression_problem(400, penalties=(), depth=2)
    axis = solve(regression_problem(400, penalties=(), depth=2, splits="axis"), LocalSearch(n_starts=3), random_state=0)
    oblique = solve(problem, LocalSearch(n_starts=3), random_state=0)
    assert oblique.objective < 0.95 * axis.objective
    assert not oblique.tree.is_axis_aligned
    tao = solve(problem, TAO(max_iter=20), random_state=0)
    both = solve(problem, Chain(TAO(max_iter=20), LocalSearch(n_starts=1)), random_state=0)
    assert both.objective <= tao.objective + 1e-12


def test_the_number_of_splits_is_limited():
    problem = regression_problem(splits="axis", penalties=())
    for most in (0, 1, 3):
        assert solve(problem, LocalSearch(n_starts=3, max_splits=most), random_state=0).tree.n_branches <= most


def test_few_thresholds_are_refined_to_the_best():
    problem = regression_problem(300, splits="axis", leaves="linear", penalties=(L1(leaves=1e-3),), depth=1)
    counts = ("all", "auto", 32, 8)
    values = [solve(problem, LocalSearch(n_starts=1, n_thresholds=k), random_state=0).objective for k in counts]
    assert values[1] == values[0]
    assert max(values) <= values[0] * 1.05


def test_bad_options_are_named():
    for options, message in (
        ({"n_starts": 0}, "n_starts must be an integer >= 1; got 0"),
        ({"n_thresholds": "some"}, r"n_thresholds must be an integer >= 1 or one of \['all', 'auto'\]; got 'some'"),
        ({"exact_levels": 1}, "exact_levels must be 0 or an integer from 2 to 6; got 1"),
        ({"max_splits": -1}, "max_splits must be an integer >= 0 or None; got -1"),
    ):
        with pytest.raises(ValueError, match=message):
            LocalSearch(**options)
    with pytest.raises(ValueError, match="have no normal equations"):
        solve(regression_problem(leaves="linear", loss="absolute", penalties=()), LocalSearch())


# ---- estimators -----------------------------------------------------------------------------------------------------


@pytest.fixture
def steps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    return X, np.where(X[:, 0] > 0.3, 2.0, np.where(X[:, 1] > 0, 1.0, -1.0)) + 0.1 * rng.normal(size=120)


def test_the_regressor_says_what_it_has_proved(steps):
    X, y = steps
    proved = ORTRegressor(2, random_state=0).fit(X, y)
    assert proved.is_optimal_
    assert proved.gap_ < 1e-6
    assert proved.bound_ == pytest.approx(proved.result_.objective)
    local = ORTRegressor(2, solver="local", random_state=0).fit(X, y)
    assert not local.is_optimal_
    assert local.bound_ is None
    assert local.result_.objective >= proved.result_.objective - 1e-9
    rng = np.random.default_rng(0)  # more rows than any machine proves at depth 6 within a second
    deep = ORTRegressor(6, random_state=0, n_init=1, time_limit=1.0).fit(
        rng.normal(size=(600, 5)), rng.normal(size=600)
    )
    assert not deep.is_optimal_
    cheap = ORTRegressor(3, cp=0.05, random_state=0).fit(X, y)
    assert cheap.tree_.n_branches == 2
    one = ORTRegressor(3, max_splits=1, random_state=0).fit(X, y)
    assert one.tree_.n_branches == 1
    flow = ORTRegressor(1, solver="mip", formulation="flow", n_thresholds=3, time_limit=20, random_state=0).fit(X, y)
    assert flow.gap_ < 0.01


def test_linear_leaves_are_bounded_by_y(steps):
    X, y = steps
    for solver in ("local", "mip"):
        model = ORTRegressor(1, leaves="linear", solver=solver, n_thresholds=5, random_state=0).fit(X, y)
        far = model.predict(100.0 * X)
        assert far.min() >= y.min() - 1e-9
        assert far.max() <= y.max() + 1e-9


def test_the_classifier_is_optimal_too(steps):
    X, y = steps
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.0, 1.5])]
    model = OCTClassifier(2, random_state=0).fit(X, labels)
    assert model.is_optimal_
    assert model.score(X, labels) == pytest.approx(1.0 - model.result_.objective)
    assert model.score(X, labels) > 0.97
    assert isinstance(OCTClassifier(2, init=model.tree_, solver="local").fit(X, labels), OCTClassifier)
    with pytest.raises(ValueError, match="formulation must be one of"):
        OCTClassifier(formulation="typo").fit(X, labels)
    with pytest.raises(ValueError, match="n_thresholds must be an integer or 'all'; got 'auto'"):
        OCTClassifier(n_thresholds="auto").fit(X, labels)
    with pytest.raises(ValueError, match="init must be a tree of 2 features, those of X; got 3"):
        OCTClassifier(init=model.tree_).fit(X[:, :2], labels)
    with pytest.raises(ValueError, match=r"solver must be one of .*; got 'best'"):
        OCTClassifier(solver="best").fit(X, labels)
    with pytest.raises(ValueError, match="cp must be a finite number >= 0; got -1"):
        OCTClassifier(cp=-1.0).fit(X, labels)


def test_cart_alone_is_no_better():
    X, y = np.random.default_rng(1).normal(size=(80, 4)), np.random.default_rng(2).normal(size=80)
    problem = TreeProblem(X, y, depth=3, splits="axis")
    cart = solve(problem, CartInit(), random_state=0).objective
    assert solve(problem, LocalSearch(n_starts=1), random_state=0).objective < cart


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


def test_small_leaves_of_local_search_are_linear(friedman):
    X, y = friedman
    few = TreeProblem(X[:24], y[:24], depth=1, leaves="linear", splits="axis", penalties=(L1(leaves=1e-3),))
    assert 2 * (few.n_features + 1) == 14
    printed = solve(few, LocalSearch.paper(2), random_state=0).tree
    usual = solve(few, LocalSearch(2, exact_levels=0), random_state=0).tree
    leaves = [np.bincount(few.leaves_of(tree) - tree.n_branches).min() for tree in (printed, usual)]
    assert few.objective(printed) <= few.objective(usual) + 1e-9
    assert leaves[0] < 14
    assert np.count_nonzero(printed.coefs[np.bincount(few.leaves_of(printed) - printed.n_branches).argmin()])


@pytest.mark.parametrize("splits", ["axis", "oblique"])
def test_a_scan_of_linear_leaves_on_many_columns_looks_at_the_clock(splits):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 600))
    problem = TreeProblem(X, X[:, 0] + np.abs(X[:, 1]), depth=3, splits=splits, leaves="linear")
    ends_in_time(lambda: solve(problem, LocalSearch(), time_limit=0.3, random_state=0), 1.5)  # took 3 s and more


def test_constraints_that_one_leaf_violates_leave_no_tree():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(60, 3)), np.repeat(["a", "b"], 30)
    results = [
        solve(TreeProblem(X, X[:, 0], 2, "axis", constraints=MinPerGroup(group, k)), LocalSearch(), random_state=0)
        for k in (31, 30)
    ]
    assert [result.termination for result in results] == [Termination.INFEASIBLE, Termination.LOCALLY_OPTIMAL]
    assert results[0].tree is None
    assert results[1].tree.n_branches == 0


def test_wide_tables_of_many_classes_have_no_optimal_subtrees(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 700)), rng.integers(0, 20, 60)
    monkeypatch.setattr(Costs, "optimal_subtree", None)  # one would take minutes
    problem = TreeProblem(X, y, depth=2, splits="axis", loss="log")
    result = solve(problem, LocalSearch(n_starts=1), random_state=0)
    assert result.objective < problem.objective(problem.best_constant())


def test_weights_that_count_as_zero_end_no_search():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    weight = np.where(rng.random(100) < 0.5, 1e-320, 1e10)
    problem = TreeProblem(X, np.abs(X[:, 0]), depth=2, splits="axis", leaves="linear", sample_weight=weight)
    assert solve(problem, LocalSearch(n_starts=2), random_state=0).objective < 1e-12
