"""What an optimizer of mixed-integer programs is given beside the model, and which optimizers there are."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

DIRECT = {"scip": "pyscipopt", "gurobi": "gurobipy"}  # what is given arrays: its package
SQUARES = ("scip", "gurobi", "cplex", "xpress", "mosek")  # take convex quadratic objectives with integer variables


class Limits(NamedTuple):
    """Relative gap, seconds (infinite: none), nodes, threads and seed of a run, whether it prints its log, and whether
    its tolerances are tight.
    """

    gap: float
    seconds: float
    nodes: int | None
    threads: int | None
    seed: int
    verbose: bool
    tight: bool


def takes_squares(optimizer: str) -> bool:
    """Whether an optimizer takes quadratic objectives; others are given tangents."""
    return optimizer.partition("_")[0] in SQUARES


@cache
def unavailable(optimizer: str) -> str | None:
    """Why an optimizer cannot be used here, in one sentence, or None."""
    if optimizer == "highs":
        return None
    if optimizer in DIRECT:
        package = DIRECT[optimizer]
        there = find_spec(package) is not None
        return None if there else f"optimizer={optimizer!r} needs {package}: pip install {package}"
    import pyomo.environ as pyo

    if optimizer in pyo.SolverFactory and pyo.SolverFactory(optimizer).available(exception_flag=False):
        return None
    known = "'highs', 'scip', 'gurobi' or a solver that Pyomo finds"
    return f"optimizer must be {known}; got {optimizer!r}, which it does not"
