"""Solvers as texts: ``"Chain(TAO(), LocalSearch(n_starts=5))"``, of which nothing but solvers is called."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import solvers
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


def solver(text: str) -> solvers.Solver:
    """The solver that a text such as ``"Chain(TAO(), LocalSearch(n_starts=5))"`` states: calls of the solvers in
    `solvers`, such as ``external.STreeD()`` of its module of other libraries, of their presets, such as
    ``GET.paper()``, and of what they take as options, with constants and further such calls as arguments, and nothing
    else.
    """
    known = _callable()

    def build(node: ast.expr) -> Any:
        if isinstance(node, ast.Call):
            stated = [word.arg for word in node.keywords]
            if None in stated or any(isinstance(value, ast.Starred) for value in node.args):
                raise ValueError("options must be stated one by one, without * and **")
            if len(set(stated)) < len(stated):
                raise ValueError(f"options must be stated once; got {max(stated, key=stated.count)} again")
            keywords = {str(word.arg): build(word.value) for word in node.keywords}
            return named(ast.unparse(node.func))(*map(build, node.args), **keywords)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(build(value) for value in node.elts)
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise ValueError(f"arguments must be constants or calls of solvers; got {ast.unparse(node)}") from None

    def named(name: str) -> Any:
        if name in known:
            return known[name]
        kind, _dot, preset = name.rpartition(".")
        method = inspect.getattr_static(known[kind], preset, None) if kind in known else None
        if not isinstance(method, (classmethod, staticmethod)) or preset.startswith("_"):
            raise ValueError(f"names must be of {', '.join(known)}; got {name}")
        return getattr(known[kind], preset)  # GET.paper(...)

    try:
        built = build(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, TypeError, SyntaxError, AttributeError) as error:
        raise ValueError(f"use must state a solver; got {text!r} ({error})") from error
    except (RecursionError, MemoryError) as error:
        raise ValueError(f"use must state a solver; got {text[:50]!r}..., which is nested too deeply") from error
    if not isinstance(built, solvers.Solver):
        raise ValueError(f"use must state a solver; got {text!r}")
    return built
