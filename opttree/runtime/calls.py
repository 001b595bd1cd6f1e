"""Objects that a text states: calls of known functions with constants and further such calls, and nothing else."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any


def built(text: str, known: Mapping[str, Any], what: str = "solvers") -> Any:
    """What a text such as ``"Chain(TAO(), LocalSearch(n_starts=5))"`` or ``"GET.paper()"`` states.

    Parameters
    ----------
    text : str
        Calls of what is ``known``, and of its static methods; arguments are constants, lists and further such calls.
    known : mapping of str to callable
        What may be called, by name.
    what : str, default "solvers"
        What these are called in messages.

    Returns
    -------
    object
        The result of the outermost call.

    Raises
    ------
    ValueError
        For another text; the message says what is wrong with it.

    Examples
    --------
    >>> from opttree.runtime.calls import built
    >>> built("complex(1, imag=2)", {"complex": complex}, "numbers")
    (1+2j)
    """

    def of(node: ast.expr) -> Any:
        if isinstance(node, ast.Call):
            stated = [word.arg for word in node.keywords]
            if None in stated or any(isinstance(value, ast.Starred) for value in node.args):
                raise ValueError("options must be stated one by one, without * and **")
            if len(set(stated)) < len(stated):
                raise ValueError(f"options must be stated once; got {max(stated, key=stated.count)} again")
            keywords = {str(word.arg): of(word.value) for word in node.keywords}
            return named(ast.unparse(node.func))(*map(of, node.args), **keywords)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(of(value) for value in node.elts)
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise ValueError(f"arguments must be constants or calls of {what}; got {ast.unparse(node)}") from None

    def named(name: str) -> Any:
        if name in known:
            return known[name]
        kind, _dot, preset = name.rpartition(".")
        method = inspect.getattr_static(known[kind], preset, None) if kind in known else None
        if not isinstance(method, (classmethod, staticmethod)) or preset.startswith("_"):
            raise ValueError(f"names must be of {', '.join(known)}; got {name}")
        return getattr(known[kind], preset)  # GET.paper(...)

    try:
        return of(ast.parse(text.strip(), mode="eval").body)
    except (RecursionError, MemoryError) as error:
        raise ValueError(f"{text[:50]!r}... is nested too deeply") from error
    except (TypeError, SyntaxError, AttributeError) as error:
        raise ValueError(str(error)) from error
