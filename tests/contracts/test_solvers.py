"""What every solver must do, whatever it is. A solver that is not in the list below fails a test."""

import inspect
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest

import solvers
from opttree import Tree
from opttree.methods.table import METHODS
from solvers import (
    MIP,
    NODEC,
    ORRT,
    SDTR,
    TAO,
    AxisNode,
    BranchAndBound,
    CartInit,
    ClusterInit,
    HingeInit,
    LiblinearNode,
    LocalSearch,
    RandomInit,
    SklearnNode,
    Solver,
    Step,
    Termination,
    check_solver,
    solve,
)
from solvers.conformance import (
    check_constant_target,
    check_results,
    check_time_limit,
    dense,
    example_problems,
    example_solvers,
    refusal,
)
from tests.conftest import thinned

FORESTS = {method.solver for method in METHODS.values() if method.solver and method.is_forest}  # see test_forest.py
EXPORTED = {name: getattr(solvers, name) for name in solvers.__all__}
SOLVERS = [
    *(solver for solver in example_solvers(EXPORTED) if type(solver).__name__ not in FORESTS),
    RandomInit(threshold="gaussian"),
    TAO(max_iter=5, accept="improve", init=CartInit()),
    TAO(max_iter=3, node_solver=LiblinearNode()),
    TAO(max_iter=3, node_solver=LiblinearNode("resample")),
    TAO(max_iter=3, node_solver=SklearnNode()),
    TAO(max_iter=3, node_solver=AxisNode(), init=CartInit()),
    NODEC(max_iter=3, k0=0, working_sets="node", init=HingeInit()),
    ORRT(method="SLSQP", max_iter=5),
    LocalSearch(n_starts=2),
    BranchAndBound(init=None, gap=0.001),
    SDTR(max_batches=60, aggregation="mixture", validation=None),
    MIP("flow", n_thresholds=1, node_limit=1, max_splits=2),
]
PROBLEMS = example_problems()
TAKEN = {solver: [name for name, problem in PROBLEMS.items() if refusal(solver, problem) is None] for solver in SOLVERS}


def test_every_solver_is_in_the_list():
    kinds = {k for k in EXPORTED.values() if inspect.isclass(k) and issubclass(k, Solver) and k is not Solver}
    assert kinds == {type(s) for s in SOLVERS} | {EXPORTED[name] for name in FORESTS}
    assert {EXPORTED[method.solver] for method in METHODS.values() if method.solver} <= kinds


CASES = [(solver, name) for solver, names in TAKEN.items() for name in names]
SLOW = [case for case in CASES if isinstance(case[0], MIP) and case[1].startswith("fifty outputs")]  # half a minute
QUICK = [case for case in CASES if case not in SLOW]


@pytest.mark.parametrize(
    ("solver", "name"), [*thinned(QUICK, 2), *(pytest.param(*case, marks=pytest.mark.long) for case in SLOW)], ids=repr
)
def test_results_are_feasible_recomputable_and_the_same_on_any_number_of_threads(solver, name):
    check_results(solver, PROBLEMS[name], name)


def test_solvers_take_as_many_kinds_of_problems_as_ever():
    kinds = {}
    for solver, names in TAKEN.items():
        kinds.setdefault(type(solver).__name__, len(names))
    assert kinds == {
        "Bagging": 28, "Benders": 2, "BlockBounds": 6, "BranchAndBound": 6, "CPSAT": 2, "CartInit": 28, "Chain": 28,
        "ClusterInit": 18, "ColumnGeneration": 8, "MonotoneDP": 3,
        "DTSemNet": 11,
        "Distilled": 12, "ExactInit": 23, "GET": 11, "GradTree": 7, "GreedyInit": 11, "HRT": 1, "HingeInit": 18,
        "JointForest": 17, "Lagrangian": 6, "LocalSearch": 9, "MIP": 9, "MultiStart": 28, "NODEC": 11,
        "NeymanPearson": 0, "ORRT": 10, "ObliqueBranchAndBound": 1, "RADDT": 11,
        "RandomInit": 28, "Ratio": 0, "SDTR": 8, "SOCT": 0, "StackedForest": 12, "SubtreePolish": 11, "TAO": 28,
    } | ({} if find_spec("ortools") else {"CPSAT": 0})  # fmt: skip


SPARSE = [(solver, name) for solver, names in TAKEN.items() for name in names if PROBLEMS[name].is_sparse]


def test_solvers_take_sparse_tables_or_say_that_they_do_not():
    assert {type(solver).__name__ for solver, _name in SPARSE} == {
        "Bagging", "CartInit", "Chain", "ClusterInit", "HingeInit", "MultiStart", "RandomInit", "TAO",
    }  # fmt: skip
    for solver in SOLVERS:
        for problem in PROBLEMS.values():
            if problem.is_sparse and refusal(solver, dense(problem)) is None and refusal(solver, problem) is not None:
                with pytest.raises(ValueError, match="its X is sparse, and this solver needs it dense"):
                    solve(problem, solver)


@pytest.mark.parametrize(("solver", "name"), thinned(SPARSE, 5), ids=repr)
def test_what_is_found_in_a_sparse_table_is_about_what_is_found_in_its_dense_copy(solver, name):
    problem = PROBLEMS[name]
    found, wanted = (solve(stated, solver, random_state=1).objective for stated in (problem, dense(problem)))
    if isinstance(solver, CartInit):  # no other solver says that it does the same
        assert found == pytest.approx(wanted)
    assert found <= 1.1 * wanted + 1e-2


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_constant_y_gives_one_leaf(solver):
    check_constant_target(solver)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_the_time_limit_is_kept(solver):
    check_time_limit(solver)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solvers_are_frozen_and_readable(solver):
    with pytest.raises(AttributeError):
        solver.max_iter = 3
    assert repr(solver).startswith(type(solver).__name__)
    assert solver == eval(repr(solver), vars(solvers))


# ---- a user's solver ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stump(Solver):
    """The best constant tree, or what a test makes of it."""

    takes_sparse = True
    fault: str = ""

    def _refusal(self, problem):
        if self.fault == "vague refusal" and problem.is_sparse:
            return "it does not take this table"
        return {"short refusal": "no", "long refusal": "it is not to be.\nNot at all."}.get(self.fault)

    def steps(self, problem, start, rng):
        tree = problem.fit_leaves(Tree.constant(np.zeros(problem.n_outputs), problem.n_features, problem.classes))
        if self.fault == "random":
            tree = Tree.constant(tree.values[0] + np.random.default_rng().random(), problem.n_features, problem.classes)
        if self.fault == "no bound":
            yield Step(tree)
            return Termination.OPTIMAL
        yield Step(tree, objective=0.0 if self.fault == "false claim" else None)


def test_a_solver_of_ones_own_is_checked():
    assert check_solver(Stump()) == {}
    refused = check_solver(ClusterInit(n_init=2), {name: PROBLEMS[name] for name in ("two rows", "squared, axis")})
    assert list(refused) == ["squared, axis"]
    assert "oblique" in refused["squared, axis"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("false claim", "a step said 0.0; its tree has the objective"),
        ("random", "one seed must give one tree"),
        ("short refusal", "refusal must return None or a sentence; got 'no'"),
        ("long refusal", "refusal must return None or a sentence; got 'it is not to be"),
        ("vague refusal", "it takes the dense copy of a sparse X, and its refusal must say so"),
        ("no bound", "OPTIMAL needs a bound"),
    ],
)
def test_what_a_solver_must_not_do_is_found(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_solver(Stump(fault))


def test_supports_is_the_deprecated_name_of_a_refusal():
    with pytest.warns(DeprecationWarning, match="Older defines supports, which is deprecated; it is called _refusal"):

        class Older(Solver):
            def supports(self, problem):
                with pytest.warns(DeprecationWarning, match="it is called refusal"):
                    return super().supports(problem) or f"it is no solver of depth {problem.depth}"

    assert Older().refusal(PROBLEMS["depth 0"]) == "it is no solver of depth 0"
    with pytest.warns(DeprecationWarning, match="it is called refusal"):
        assert ClusterInit().supports(PROBLEMS["squared, axis"]) == ClusterInit().refusal(PROBLEMS["squared, axis"])


def test_what_is_no_frozen_solver_is_told_so():
    class Loose(Solver):
        pass

    with pytest.raises(AssertionError, match="Loose must be a frozen dataclass"):
        check_solver(Loose())
    with pytest.raises(AssertionError, match=r"must be an instance of a subclass of solvers\.Solver"):
        check_solver(Stump)
