"""GET, its polish and its greedy start: options, ablations, quality."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from opttree import L1, GETRegressor, SplitPrice, Tree, TreeProblem, datasets
from opttree.problems import SmoothTreeProblem
from solvers import GET, LBFGS, TAO, Adam, Anneal, CartInit, Chain, GreedyInit, RandomInit, SubtreePolish, solve
from solvers.get.anneal import Annealing
from tests.conftest import classification_problem, regression_problem
from tests.statements import regression

SHORT = Anneal(epochs=60, closed_leaves=False)


def test_get_beats_its_starts_and_cart():
    problem = regression_problem(800, depth=3, penalties=())
    cart = solve(problem, CartInit()).objective
    get = solve(problem, GET(), random_state=0)
    assert get.objective < 0.5 * cart
    assert {"constant", "anneal", "polish: level 0"} <= {row.phase for row in get.trace}


def test_the_papers_preset_and_its_ablations():
    paper = GET.paper()
    assert (paper.n_starts, paper.anneal.epochs, paper.anneal.closed_leaves) == (10, 3000, False)
    assert paper.anneal.scale_ranges == ((5.0, 25.0), (50.0, 150.0))
    assert paper.polish == SubtreePolish(anneal=paper.anneal, unit_splits=False)
    problem = regression_problem(300, depth=2, penalties=())
    short = replace(paper, n_starts=2, anneal=replace(paper.anneal, epochs=200), polish=None)
    result = solve(problem, short, random_state=0)
    assert [row.phase for row in result.trace] == ["constant"] + ["anneal"] * 4  # 2 starts x 2 scale factors
    assert result.objective < 0.6
    fixed = GET.paper(2, polish=False, scale_ranges=((100.0, 100.0),))
    assert fixed.polish is None
    assert solve(problem, replace(fixed, anneal=replace(fixed.anneal, epochs=50)), random_state=0).objective < 1.0


@pytest.mark.parametrize(
    "solver",
    [
        GET(n_starts=3, race_rows=100, n_kept=2, anneal=SHORT, finish=SHORT),
        GET(n_starts=1, anneal=Anneal(epochs=40, optimizer=LBFGS(), closed_leaves=False), race_rows=None),
        GET(anneal=SHORT, portfolio=(CartInit(), RandomInit()), sweeps=2),
        GET(anneal=SHORT, polish=None, eps=1e-6, dtype="float64"),
        GET(anneal=replace(SHORT, optimizer=Adam(0.05, batch_size=64, average=2)), race_rows=None),
    ],
    ids=range(5),
)
def test_every_option_works(solver):
    problem = regression_problem(400, depth=3)
    assert solve(problem, solver, random_state=0).objective < 0.5


def test_polish_never_raises_the_objective_after_any_solver():
    for options in ({}, {"leaves": "linear"}, {"min_leaf": 20}, {"penalties": (SplitPrice(0.01), L1(1e-3))}):
        problem = regression_problem(500, depth=4, **options)
        before = solve(problem, TAO(max_iter=3), random_state=0)
        after = solve(problem, Chain(TAO(max_iter=3), SubtreePolish(passes=2)), random_state=0)
        assert after.objective < before.objective
    problem = classification_problem(500, loss="log", depth=4)
    assert solve(problem, SubtreePolish(), start=solve(problem, CartInit()).tree, random_state=0).objective < 0.6


def test_greedy_start_grows_in_blocks_of_levels():
    problem = regression_problem(600, depth=5, penalties=())
    for levels in (1, 2, 5, 7):
        result = solve(problem, GreedyInit(levels=levels), random_state=0)
        assert len(result.trace) == -(-5 // levels)
        assert result.objective < solve(problem, CartInit()).objective


def test_a_warm_start_is_kept_unless_something_better_is_found():
    problem = regression_problem(600, depth=4)
    start = solve(problem, TAO(), random_state=0)
    result = solve(problem, GET(), start=start.tree, random_state=0)
    assert result.trace.rows[0].objective == pytest.approx(start.objective)
    assert result.objective <= start.objective


def test_parts_of_a_problem_add_up():
    problem = regression_problem(500, depth=4, penalties=(L1(0.01, 0.02), SplitPrice(0.03)), leaves="linear")
    tree = solve(problem, TAO(max_iter=3), random_state=0).tree
    leaf = tree.apply(problem.X)
    left, right = tree.children[0]
    below = {node: tree.subtree(node) for node in (int(left), int(right))}
    a = tree.A[0] / np.linalg.norm(tree.A[0])
    total = 0.01 * np.abs(a).sum() + 0.03  # the root's own penalties
    goes_left = problem.X @ tree.A[0] <= tree.b[0]
    for rows, part in ((goes_left, below[int(left)]), (~goes_left, below[int(right)])):
        rows = np.flatnonzero(rows)
        sub = problem.restrict(rows, 3)
        total += np.sum(problem.w[rows]) * sub.objective(part)
    assert total == pytest.approx(problem.objective(tree), rel=1e-9)
    assert tree.graft(below) == tree
    swapped = tree.graft({int(left): below[int(right)]})
    assert np.array_equal(swapped.outputs(problem.X[goes_left]), below[int(right)].outputs(problem.X[goes_left]))
    assert tree.graft({0: below[int(left)]}) == below[int(left)]
    assert leaf.max() < tree.n_nodes


def test_leaves_are_fitted_after_small_ones_are_merged():
    problem = regression_problem(400, depth=5, min_leaf=25, penalties=())
    tree = solve(problem, GET(sweeps=0, polish=None), random_state=0).tree
    assert problem.objective(tree) == pytest.approx(problem.objective(problem.fit_leaves(tree)))


def test_polish_heeds_penalties_that_do_not_add_up(monkeypatch):
    class Squared:
        def value(self, tree):
            return 0.002 * tree.n_leaves**2

    polish, polished = SubtreePolish._polish_level, []

    def watched(self, problem, tree, depth, rng):
        polished.append(problem.objective(tree))
        return polish(self, problem, tree, depth, rng)

    monkeypatch.setattr(SubtreePolish, "_polish_level", watched)
    problem = regression_problem(400, depth=4, penalties=(Squared(),))
    start = solve(problem, CartInit(min_rows=60)).tree  # it may grow
    steps = [row.objective for row in solve(problem, SubtreePolish(passes=2), start=start, random_state=0).trace][1:]
    assert max(np.diff(steps)) > 0.0
    assert polished == np.minimum.accumulate(steps)[:-1].tolist()  # each level begins from the best tree so far
    assert min(steps) < steps[0]


def test_an_interrupted_anneal_gives_the_tree_it_stands_at():
    X, y = datasets.load("friedman1", as_arrays=True)
    problem, _scaling = GETRegressor(6).state(X, y)
    long = GET(anneal=Anneal(epochs=100_000), race_rows=None)
    solve(problem, long, time_limit=0.05, random_state=0)  # compile
    for solver in (long, Chain(long)):
        result = solve(problem, solver, time_limit=2.0, random_state=0)
        assert result.trace.rows[-1].phase.endswith("anneal")
        assert result.objective < 0.9  # not the constant tree's 1.0


def test_validation_keeps_the_step_that_is_best_on_held_out_rows(monkeypatch):
    X, y = datasets.load("diabetes", as_arrays=True)
    losses, mean_loss = [], TreeProblem.mean_loss

    def watched(self, tree):
        losses.append((self.n_samples, mean_loss(self, tree)))
        return losses[-1][1]

    monkeypatch.setattr(TreeProblem, "mean_loss", watched)
    model = GETRegressor(6, validation_fraction=0.3, random_state=0).fit(X, y)
    held_out = [loss for n, loss in losses if n == 133]
    assert len(held_out) == len(model.result_.trace) > 10
    assert model.validation_loss_ == min(held_out) < held_out[-1]
    assert model.result_.objective > min(row.objective for row in model.result_.trace)
    free = GETRegressor(6, random_state=0).fit(X, y)
    assert model.validation_loss_ < 1.0
    assert model.score(X, y) < free.score(X, y)  # less fitted to the training rows


def test_a_problem_that_cannot_be_smoothed_is_refused():
    for solver in (GET(), SubtreePolish(), GreedyInit()):
        with pytest.raises(ValueError, match="axis-aligned"):
            solve(regression_problem(splits="axis"), solver)
    assert SmoothTreeProblem.refusal(regression_problem()) is None
    assert isinstance(solve(regression_problem(depth=0), GET()).tree, Tree)


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


def test_several_warm_starts_of_a_subtree_are_no_worse(friedman):
    problem = regression(friedman, depth=2)
    printed = GET.paper(1, epochs=60).polish
    one, four = (
        solve(problem, opts, random_state=0).objective
        for opts in (printed, GET.paper(1, epochs=60, polish_starts=4).polish)
    )
    start = solve(problem, printed, random_state=0).trace.rows[0].objective
    assert one <= start
    assert four <= start


def test_the_authors_program_keeps_the_best_of_its_hard_trees_and_begins_with_cart():
    program = GET.program(epochs=80)
    assert (program.first, program.anneal.checks, program.polish.levels) == (CartInit(), 80, 4)
    assert program.polish.anneal == program.anneal
    assert program.anneal.scale_ranges == ((5.0, 25.0), (80.0, 120.0))
    problem = regression_problem(300, depth=3, penalties=())
    cart = solve(problem, CartInit(), random_state=0).objective
    short = replace(GET.program(n_starts=1, epochs=40), polish=None)
    result = solve(problem, short, random_state=0)
    assert "CartInit" in {row.phase.split(":")[0] for row in result.trace}
    assert result.objective <= cart
    once = solve(problem, replace(short, anneal=replace(short.anneal, checks=1)), random_state=0)
    assert result.objective <= once.objective
    assert solve(problem, replace(short, first=None), random_state=0).objective < 1.0


def test_the_best_hard_tree_of_a_descent_counts():
    smooth = SmoothTreeProblem(regression_problem(300, depth=3, penalties=()))
    start = smooth.random_theta(np.random.default_rng(0))
    steep = Anneal(epochs=90, scales=(5.0, 300.0), optimizer=Adam(1.0), closed_leaves=False)

    def reached(anneal):
        run = Annealing(anneal, [smooth], [start], [np.random.default_rng(0)])
        ((tree,),) = [trees for trees in run.descend() if trees]
        return smooth.problem.objective(tree)

    losses = {checks: reached(replace(steep, checks=checks)) for checks in (1, 9, 90)}
    shorter = [reached(replace(steep, checks=1, epochs=90)) for _ in range(2)]
    assert shorter == [losses[1]] * 2
    assert losses[90] <= losses[9] <= losses[1]
    assert losses[90] < losses[1]
    with pytest.raises(ValueError, match="checks must be an integer >= 1; got 0"):
        Anneal(checks=0)


def test_a_polish_of_some_levels():
    problem = regression_problem(300, depth=3, penalties=())
    start = solve(problem, CartInit(), random_state=0).tree
    result = solve(problem, SubtreePolish(anneal=SHORT, levels=1), start=start, random_state=0)
    assert {row.phase for row in result.trace} >= {"level 0"}
    assert "level 1" not in {row.phase for row in result.trace}
