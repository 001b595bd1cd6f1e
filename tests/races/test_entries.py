"""Solvers as texts."""

import re

import pytest

import solvers
from solvers.conformance import example_solvers
from solvers.races import entries


def test_a_solver_is_stated_as_in_python():
    from solvers import TAO, Chain, LocalSearch

    assert entries.solver("Chain(TAO(max_iter=3), LocalSearch(n_starts=2))") == Chain(
        TAO(max_iter=3), LocalSearch(n_starts=2)
    )
    assert entries.solver("GET.paper(n_starts=2)").n_starts == 2
    assert entries.solver(" TAO(max_iter=3) ") == TAO(max_iter=3)


@pytest.mark.parametrize("solver", example_solvers(vars(solvers)), ids=lambda solver: type(solver).__name__)
def test_solvers_are_what_their_texts_state(solver):
    assert entries.solver(repr(solver)) == solver


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "TAO().__class__",
        "TAO(",
        "1",
        "solve()",
        "TAO(max_iter=-1)",
        "GET._steps()",
        "Adam()",
        "-" * 10_000 + "1",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="use must state a solver"):
        entries.solver(text)


@pytest.mark.parametrize(
    "text",
    ["GET(**{'n_starts': 3})", "GET(n_starts=2, **{})", "Chain(*(GET(), TAO()))", "Chain(GET(**{'n_starts': 3}))"],
)
def test_no_option_gets_lost(text):
    with pytest.raises(ValueError, match=r"\(options must be stated one by one, without \* and \*\*\)"):
        entries.solver(text)
    with pytest.raises(ValueError, match=r"\(options must be stated once; got n_starts again\)"):
        entries.solver("GET(n_starts=1, n_starts=2)")


@pytest.mark.parametrize(
    "name",
    [
        *("check_solver", "certify", "solve", "Result", "SolverError", "Step", "Termination", "Trace", "Solver"),
        *("external.External", "external.base.Process", "external.worker", "external.libraries.CART", "external.TAO"),
        *("GET.brief", "GET.refusal", "GET.steps", "GET.mro", "GET.__init_subclass__", "TAO().steps"),
    ],
)
def test_a_text_calls_nothing_but_solvers_and_their_options(name, monkeypatch):
    from solvers import TAO

    monkeypatch.setattr(TAO, "__post_init__", lambda self: pytest.fail("an argument was built"))
    with pytest.raises(ValueError, match=rf"names must be of .*TAO, .*external\.STreeD; got {re.escape(name)}\)"):
        entries.solver(f"{name}(TAO())")


@pytest.mark.parametrize("text", ["TAO", "Chain(TAO, GET())", "GET.paper", "TAO(max_iter=n)"])
def test_arguments_are_constants_or_calls(text):
    with pytest.raises(ValueError, match="arguments must be constants or calls of solvers; got "):
        entries.solver(text)
