"""Solvers are found: each file in a room of `solvers` that defines one adds it to the package."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from solvers.core.base import Solver
from solvers.nodes.base import NodeSolver

APART = {"external", "races"}  # rooms whose classes are named with their rooms
SCRIPTS = {"highs_process"}  # programs of other processes


def solvers_in(folders: Iterable[str]) -> dict[str, type]:
    """The public solvers and node solvers of the package in these folders, by name: frozen dataclasses of options."""
    found: dict[str, type] = {}
    for folder in map(Path, folders):
        for path in sorted(folder.glob("*/*.py")):
            room, name = path.parent.name, path.stem
            if room in APART or name in SCRIPTS or name == "__init__":
                continue
            module = import_module(f"solvers.{room}.{name}")
            found |= {
                key: value
                for key, value in vars(module).items()
                if isinstance(value, type)
                and issubclass(value, (Solver, NodeSolver))
                and value.__module__ == module.__name__
                and "__dataclass_params__" in vars(value)
                and not key.startswith("_")
            }
    return found
