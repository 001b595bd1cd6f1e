"""Solvers as texts: ``"Chain(TAO(), LocalSearch(n_starts=5))"``, of which nothing but solvers is called."""

from __future__ import annotations

from typing import Any

import solvers
from opttree.runtime.calls import built
from opttree.runtime.options import Checked


def value(stated: Any) -> Any:
    """What a stated option stands for: a text such as ``"HingeInit()"`` for the solver, all else for itself."""
    return solver(stated) if isinstance(stated, str) and stated.endswith(")") else stated


def _callable() -> dict[str, Any]:
    """What a text may call by name: the solvers, and what they take as options, such as solvers of nodes."""
    ours = {name: getattr(solvers, name) for name in solvers.__all__}
    theirs = {f"external.{name}": getattr(solvers.external, name) for name in solvers.external.__all__}
    bases = (solvers.Solver, solvers.external.External)
    return {
        name: kind
        for name, kind in {**ours, **theirs}.items()
        if isinstance(kind, type) and issubclass(kind, Checked) and kind not in bases
    }


def solver(text: str, option: str = "use") -> solvers.Solver:
    """The solver that a text such as ``"Chain(TAO(), LocalSearch(n_starts=5))"`` states: calls of the solvers in
    `solvers`, such as ``external.STreeD()`` of its module of other libraries, of their presets, such as
    ``GET.paper()``, and of what they take as options, with constants and further such calls as arguments, and nothing
    else.
    """
    try:
        found = built(text, _callable())
    except ValueError as error:
        raise ValueError(f"{option} must state a solver; got {text[:200]!r} ({error})") from error
    if not isinstance(found, solvers.Solver):
        raise ValueError(f"{option} must state a solver; got {text!r}")
    return found
