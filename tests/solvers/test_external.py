"""Other libraries as solvers: judged by our objective, in a process of their own that can be ended."""

import time
from dataclasses import dataclass

import numpy as np
import pytest

from opttree import SplitPrice, TreeProblem
from solvers import BranchAndBound, SolverError, Termination, external, solve


def problem(loss="zero_one", n=80, **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).round(1)
    y = X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=n)
    return TreeProblem(
        X,
        (y > 0).astype(int) if loss in ("zero_one", "log") else y,
        **{"depth": 2, "splits": "axis", "loss": loss} | options,
    )


@pytest.mark.parametrize(
    ("solver", "loss"),
    [
        (external.STreeD(), "zero_one"),
        (external.STreeD(), "squared"),
        (external.ConTree(), "zero_one"),
        (external.PyTrees(), "zero_one"),
        (external.PyTrees("dl85"), "zero_one"),
        (external.GOSDT(), "zero_one"),
    ],
    ids=str,
)
def test_proofs_of_other_libraries_are_those_of_ours(solver, loss):
    pytest.importorskip(solver.library)
    stated = problem(loss)
    theirs, ours = solve(stated, solver, time_limit=60), solve(stated, BranchAndBound())
    assert theirs.termination is ours.termination is Termination.OPTIMAL
    assert theirs.objective == pytest.approx(ours.objective, rel=1e-6)


@pytest.mark.parametrize("solver", [external.PyTrees("lgdt"), external.CART(), external.OSRT()], ids=str)
def test_heuristics_of_other_libraries_claim_nothing(solver):
    pytest.importorskip(solver.library)
    stated = problem("squared" if solver.library == "osrt" else "zero_one", n=30)
    result = solve(stated, solver, time_limit=60, random_state=0)
    assert result.bound is None
    assert result.termination is not Termination.OPTIMAL
    assert solve(stated, BranchAndBound()).objective - 1e-9 <= result.objective
    assert result.objective < stated.objective(stated.best_constant())


def test_cart_takes_every_loss_and_weights():
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 80)
    for loss in ("squared", "absolute", "zero_one", "log"):
        stated = problem(loss, sample_weight=weight)
        assert solve(stated, external.CART(), random_state=0).objective < stated.objective(stated.best_constant())


def test_what_a_library_cannot_state_is_refused():
    assert "osrt takes axis-aligned splits, constant leaves and loss squared" in external.OSRT().refusal(problem())
    priced = problem(penalties=[SplitPrice(0.1)])
    assert external.ConTree().refusal(priced) == "pycontree takes no penalties"
    assert "its trees may violate" in external.CART().refusal(problem(constraints=[_max_splits()]))


def _max_splits():
    from opttree.statement.constraints import MaxSplits

    return MaxSplits(1)


@dataclass(frozen=True)
class Slow(external.External):
    library = "numpy"

    def search(self, problem, X, seconds, seed):
        time.sleep(60.0)


@dataclass(frozen=True)
class Broken(external.External):
    library = "numpy"

    def search(self, problem, X, seconds, seed):
        raise ValueError("of its own")


def test_a_library_that_does_not_end_is_ended():
    began = time.perf_counter()
    result = solve(problem(), Slow(), time_limit=1.0)
    assert time.perf_counter() - began < 15.0
    assert result.termination is Termination.TIME_LIMIT
    assert result.tree.n_branches == 0


def test_an_error_of_a_library_is_passed_on():
    with pytest.raises(RuntimeError, match="numpy: ValueError: of its own"):
        solve(problem(), Broken())
    assert issubclass(SolverError, RuntimeError)


@pytest.mark.parametrize(
    "solver", [external.STreeD(), external.PyTrees("lgdt"), external.GOSDT(), external.OSRT(), external.CART()], ids=str
)
def test_nothing_is_asked_where_no_split_helps(solver):
    pytest.importorskip(solver.library)
    loss = "squared" if solver.library == "osrt" else "zero_one"
    same, flat, shallow = problem(loss), problem(loss), problem(loss, depth=0)
    same = same.with_rows(np.ones_like(same.X), same.y)
    flat = flat.with_rows(flat.X, np.full(flat.n_samples, flat.y[0]))
    for stated in (same, flat, shallow):
        result = solve(stated, solver, time_limit=30)
        assert result.tree.n_branches == 0
        assert result.termination is Termination.OPTIMAL
