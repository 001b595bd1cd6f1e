"""Papers' presets: one name on solvers and estimators, and their printed values."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_friedman1
from sklearn.preprocessing import minmax_scale

import opttree
from opttree import L1, L2, GETClassifier, GETRegressor
from solvers import (
    GET,
    NODEC,
    ORRT,
    SDTR,
    TAO,
    ClusterInit,
    GradTree,
    LocalSearch,
    RandomInit,
    SubtreePolish,
    TAOForest,
    solve,
)
from solvers.soft import printed_ridge
from tests.estimators import solver_of
from tests.statements import regression

SOLVERS = {
    "GET": GET.paper(2, epochs=30),
    "GET-Linear": GET.paper(2, leaves="linear", epochs=30),
    "GradTree": GradTree.paper(epochs=20),
    "TAO": TAO.paper(),
    "TAOForest": TAOForest.paper(4),
    "NODEC": NODEC.paper(2),
    "ORRT": ORRT.paper(),
    "SDTR": SDTR.paper(),
    "LocalSearch": LocalSearch.paper(2),
}


ESTIMATORS = {
    "GETRegressor": {"n_starts": 1},
    "GETClassifier": {"n_starts": 1},
    "GradTreeClassifier": {"epochs": 20},
    "GradTreeRegressor": {"epochs": 400},
    "TAORegressor": {"leaves": "linear"},
    "TAOClassifier": {},
    "TAOForestRegressor": {"n_estimators": 4, "max_depth": 3},
    "TAOForestClassifier": {"n_estimators": 4, "max_depth": 3},
    "SRTRegressor": {"max_iter": 2},
    "SRTClassifier": {"max_iter": 2},
    "ORRTRegressor": {"max_iter": 5},
    "ORRTClassifier": {"max_iter": 5},
    "SDTRRegressor": {"max_batches": 2000},
    "SDTRClassifier": {"max_batches": 50},
    "ORTRegressor": {"leaves": "linear", "n_init": 2},
    "OCTClassifier": {"n_init": 2},
}


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


@pytest.mark.parametrize("name", SOLVERS)
def test_every_preset_solves(name, friedman):
    axis = name in ("GradTree", "LocalSearch")
    leaves = "linear" if name in ("GET-Linear", "TAO", "TAOForest", "NODEC", "ORRT", "LocalSearch") else "constant"
    problem = regression(friedman, depth=2, splits="axis" if axis else "oblique", leaves=leaves)
    found = solve(problem, SOLVERS[name], random_state=0)
    assert problem.objective(found.tree) < problem.objective(problem.best_constant())


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_the_preset(name, friedman):
    if name == "GradTreeClassifier":
        pytest.importorskip("imblearn")
    X, y = load_iris(return_X_y=True) if name.endswith("Classifier") else friedman
    depth = {} if "Forest" in name else {"max_depth": 2}
    kind = getattr(opttree, name)
    model = kind(preset="paper", random_state=0, **depth, **ESTIMATORS[name]).fit(X, y)
    assert model.score(X, y) > (0.6 if name.endswith("Classifier") else 0.1)
    with pytest.raises(ValueError, match="preset must be one of"):
        kind(preset="printed").fit(X, y)


def test_the_printed_values():
    get, linear = GET.paper(), GET.paper(leaves="linear")
    assert (get.n_starts, get.anneal.epochs, get.anneal.optimizer.learning_rate) == (10, 3000, 0.01)
    assert get.anneal.scale_ranges == ((5.0, 25.0), (50.0, 150.0))
    assert isinstance(get.polish, SubtreePolish)
    assert linear.polish is None
    assert (linear.anneal.clip, linear.anneal.min_linear_rows, linear.portfolio, linear.refine) == (False, 1, (), None)
    assert GET.paper(polish_starts=10).polish.n_starts == 10
    tao = TAO.paper()
    assert (tao.max_iter, tao.accept, tao.keep, tao.clip, tao.constant_iterations) == (40, "always", "last", False, 0)
    assert (tao.split_lasso, tao.leaf_lasso, tao.min_linear_rows, tao.init) == (0.01, 0.01, 1, RandomInit())
    forest = TAOForest.paper()
    assert (forest.n_trees, forest.sample, forest.max_iter, forest.kind) == (30, 0.9, 40, "oblique")
    assert (forest.split_lasso, forest.leaf_lasso, forest.relaxed, forest.clip, forest.ridge) == (
        0.01, 0.01, False, False, 0.0,
    )  # fmt: skip
    nodec = NODEC.paper()
    assert (nodec.max_iter, nodec.imbalance, nodec.decay, nodec.k0) == (9, (0.1, 0.3, 0.4), 0.8, None)
    assert (nodec.branch_solver, nodec.reassignment, nodec.clip, nodec.joint_iterations) == (
        "SLSQP",
        "printed",
        False,
        0,
    )
    assert (nodec.branch_objective, nodec.branch_iterations, nodec.steepness) == ("sum", 5, 0.5)
    letter = NODEC.paper(reading="letter")
    assert (letter.branch_objective, letter.branch_iterations, letter.steepness) == ("mean", 100, None)
    with pytest.raises(ValueError, match="reading must be 'closest' or 'letter'; got 'spirit'"):
        NODEC.paper(reading="spirit")
    assert isinstance(nodec.init, ClusterInit)
    assert nodec.init.routing == "clusters"
    orrt = ORRT.paper()
    assert (orrt.method, orrt.per_feature, orrt.max_iter, orrt.tol) == ("SLSQP", True, 100, 1e-6)
    sdtr = SDTR.paper()
    assert (sdtr.aggregation, sdtr.beta, sdtr.patience, sdtr.batch_size, sdtr.reweight) == (
        "expected", 1.5, 1000, 1024, True,
    )  # fmt: skip
    assert {sdtr.path_penalty, sdtr.l1} <= {0.1, 0.05, 0.01, 0.005, 0.001}
    assert SDTR.paper(256).aggregation == "mixture"
    gradtree = GradTree.paper()
    assert (gradtree.patience, gradtree.n_starts, gradtree.average, gradtree.validation, gradtree.stratify) == (
        200, 3, 5, 0.2, True,
    )  # fmt: skip
    assert not gradtree.refit
    local = LocalSearch.paper()
    assert (local.exact_levels, local.min_linear_rows) == (0, 1)


def test_options_of_an_estimator_win_over_the_preset(friedman):
    problem = regression(friedman, depth=2)
    free = solver_of(opttree.SDTRRegressor(preset="paper"), problem)
    assert (free.path_penalty, free.learning_rate) == (0.01, 1e-3)
    own = solver_of(opttree.SDTRRegressor(preset="paper", path_penalty=0.3, learning_rate=0.003), problem)
    assert (own.path_penalty, own.learning_rate) == (0.3, 0.003)  # the defaults of the other preset, stated
    usual = solver_of(opttree.SDTRRegressor(), problem)
    assert (usual.path_penalty, usual.l1, usual.learning_rate) == (0.3, 0.005, 0.003)
    gradtree = solver_of(opttree.GradTreeClassifier(), regression(friedman, depth=2, splits="axis"))
    assert (gradtree.learning_rates, gradtree.epochs, gradtree.batch_size) == ((0.01, 0.05, 0.05), 1000, 512)
    srt = solver_of(opttree.SRTRegressor(), problem)
    assert (srt.joint_iterations, srt.steepness, srt.clip, srt.branch_solver) == (50, 1.0, True, "L-BFGS")
    kept = solver_of(opttree.SRTRegressor(preset="paper", steepness=2.0, clip=True, joint_iterations=5), problem)
    assert (kept.joint_iterations, kept.steepness, kept.clip) == (5, 2.0, True)
    for reading in ("closest", "letter"):
        srt = solver_of(opttree.SRTRegressor(preset="paper", reading=reading), problem)
        assert srt == NODEC.paper(reading=reading)
        own = solver_of(opttree.SRTRegressor(preset="paper", reading=reading, branch_iterations=7), problem)
        assert own == replace(srt, branch_iterations=7)


@pytest.mark.parametrize("name", ["TAORegressor", "TAOForestRegressor"])
def test_alpha_stands_beside_y_in_its_unit(name, friedman):
    X, y = friedman
    options = {"max_depth": 2, "leaves": "linear", "random_state": 0} | (
        {"n_estimators": 3} if "Forest" in name else {}
    )

    def numbers(y, **more):
        model = getattr(opttree, name)(preset="paper", **options, **more).fit(X, y)
        return model, (model.forest_.trees if "Forest" in name else (model.tree_,))

    own, trees = numbers(y, y_unit=1.0)
    _problem, scaling = own.state(X, y)
    assert scaling.y_scale[0] == 1.0
    scaled, same = numbers(1e-4 * y, y_unit=1e-4)
    np.testing.assert_allclose(scaled.predict(X), 1e-4 * own.predict(X), rtol=1e-4)
    _alone, standard = numbers(y)
    assert sum(np.count_nonzero(tree.coefs) for tree in trees) >= sum(np.count_nonzero(tree.coefs) for tree in standard)
    assert [np.count_nonzero(tree.coefs) for tree in trees] == [np.count_nonzero(tree.coefs) for tree in same]
    with pytest.raises(ValueError, match=r"y_unit must be None without preset='paper'; got 1\.0"):
        getattr(opttree, name)(y_unit=1.0).fit(X, y)


def test_readings_and_units_need_the_preset_and_squared_loss(friedman):
    with pytest.raises(ValueError, match="reading must be left at its default without preset='paper'; got 'letter'"):
        opttree.SRTRegressor(1, reading="letter").fit(*friedman)
    with pytest.raises(ValueError, match="reading must be left at its default without preset='paper'; got 'program'"):
        opttree.GETRegressor(1, reading="program").fit(*friedman)
    get = solver_of(opttree.GETRegressor(preset="paper", reading="program"), regression(friedman, depth=2))
    assert get == GET.program()
    with pytest.raises(ValueError, match="y_unit must be None for a loss other than 'squared'; got loss='huber'"):
        opttree.TAORegressor(1, preset="paper", loss="huber", y_unit=1.0).fit(*friedman)


def test_a_forest_starts_from_random_thresholds(friedman):
    X, y = friedman
    options = {"n_estimators": 3, "max_depth": 2, "kind": "oblique", "max_iter": 0, "random_state": 0}
    median = opttree.TAOForestRegressor(**options).fit(X, y)
    drawn = opttree.TAOForestRegressor(**options, start_threshold="gaussian").fit(X, y)
    left = [np.mean(X @ tree.A[0] <= tree.b[0]) for tree in median.forest_.trees]
    np.testing.assert_allclose(left, 0.5, atol=0.1)
    assert [tree.b.tolist() for tree in drawn.forest_.trees] != [tree.b.tolist() for tree in median.forest_.trees]


@pytest.mark.parametrize("option", [{"split_penalty": 1e-3}, {"l1_ratio": 0.5}])
@pytest.mark.parametrize("name", ["TAORegressor", "TAOForestRegressor"])
def test_a_penalty_beside_that_of_the_preset_is_refused(name, option, friedman):
    ((given, _value),) = option.items()
    with pytest.raises(ValueError, match=f"{given} must be left at its default for preset='paper'"):
        getattr(opttree, name)(preset="paper", **option).fit(*friedman)


def test_penalties_in_place_of_the_statements(friedman):
    problem = regression(friedman, depth=2, leaves="linear", penalties=(L1(splits=0.1),))
    assert "split_lasso takes the place of" in TAO.paper().refusal(problem)
    problem = regression(friedman, depth=2, leaves="linear", penalties=(L2(leaves=0.1),))
    assert "leaf_lasso takes the place of" in TAO.paper().refusal(problem)
    axis = regression(friedman, depth=2, splits="axis", penalties=(L1(splits=0.1),))
    assert replace(TAO.paper(), node_solver=None).refusal(axis) is None  # they are for oblique splits


def test_strengths_of_soft_trees(friedman):
    X, y = friedman
    n, p = X.shape
    letter, _scaling = opttree.SRTRegressor(3, preset="paper", reading="letter").state(X, y)
    assert letter.strength(L2, "splits") == pytest.approx(p / 7)
    for l2, preset, expected in (
        ("paper", "default", printed_ridge(p, 3)),
        ("paper", "paper", printed_ridge(p, 3)),
        ("auto", "paper", (1 / (n * p * 7), 1 / (n * p * 8))),
        ("paper, sum", "default", (1 / (n * p * 7), 1 / (n * p * 8))),
        (0.0, "paper", (0.0, 0.0)),
    ):
        problem, _scaling = opttree.SRTRegressor(3, l2=l2, preset=preset).state(X, y)
        assert (problem.strength(L2, "splits"), problem.strength(L2, "leaves")) == pytest.approx(expected)
        np.testing.assert_allclose(problem.X, minmax_scale(X))
    assert printed_ridge(p, 3) == pytest.approx((p / 7, 1 / (p * 8)))
    problem, _scaling = opttree.ORRTRegressor(3, preset="paper").state(X, y)
    assert problem.penalties == (L2(),)
    np.testing.assert_allclose(problem.X, minmax_scale(X))


def test_the_tree_of_the_lowest_loss_is_kept_under_a_penalty(friedman):
    X, y = friedman
    options = {"preset": "paper", "leaves": "linear", "n_starts": 3, "split_penalty": 0.001, "random_state": 0}
    model = opttree.GETRegressor(2, **options).fit(X, y)
    problem, scaling = model.state(X, y)
    steps = []
    solve(problem, solver_of(model, problem), random_state=0, callback=lambda step, _trace: steps.append(step.tree))
    losses = [problem.mean_loss(tree) for tree in steps]
    own = problem.mean_loss(scaling.scale(model.tree_))
    assert own == pytest.approx(min(losses), rel=1e-6)
    objectives = [problem.objective(tree) for tree in steps]
    assert np.argmin(objectives) != np.argmin(losses)  # the penalty would have chosen another one


def test_the_papers_preset_of_get_has_no_extras():
    X, y = make_friedman1(60, n_features=12, noise=0.1, random_state=0)
    model = GETRegressor(2, preset="paper", leaves="linear", n_starts=1, polish=False, random_state=0)
    problem, _scaling = model.state(X, y)
    assert problem.penalties == ()
    assert problem.X.min() == 0.0
    assert problem.X.max() == pytest.approx(1.0)
    tree = model.fit(X, y).tree_
    assert tree.lower is None
    small = np.bincount(tree.apply(X), minlength=tree.n_nodes)[tree.n_branches :] < 2 * 13
    assert small.any()
    assert all(tree.leaf_arrays[1][small].any(axis=(1, 2)))
    assert GETRegressor(2).state(X, y)[0].strength(L1, "leaves") > 0.0
    assert GETClassifier(2, preset="paper", n_starts=1).state(X, y > 10.0)[0].penalties == ()
