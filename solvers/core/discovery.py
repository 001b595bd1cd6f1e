"""Solvers are found: each file in a room of `solvers` that defines one adds it to the package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from solvers.core.base import Solver
from solvers.nodes.base import NodeSolver

APART = {"external", "races"}  # rooms whose classes are named with their rooms
CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
_classes: dict[str, str] = {}  # of all files, by name
SCRIPTS = {"highs_process"}  # programs of other processes


def home_of(name: str, folders: Iterable[str]) -> str | None:
    """The file that defines a public solver or node solver, "room.file", or None; no other one is imported."""
    if not _classes:
        there: dict[str, str] = {}
        for room, file, path in _files(folders):
            for found in CLASS.findall(path.read_text(encoding="utf-8")):
                there.setdefault(found, f"{room}.{file}")
        _classes.update(there)  # at once: other threads may look
    home = _classes.get(name)
    return home if home is not None and name in _public(import_module(f"solvers.{home}")) else None


def _files(folders: Iterable[str]) -> Iterator[tuple[str, str, Path]]:
    """Room, name and path of each file that may define solvers."""
    for folder in map(Path, folders):
        for path in sorted(folder.glob("*/*.py")):
            if path.parent.name not in APART and path.stem not in SCRIPTS and path.stem != "__init__":
                yield path.parent.name, path.stem, path


def _public(module: Any) -> dict[str, type]:
    """The public solvers and node solvers that a module defines: frozen dataclasses of options."""
    return {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, (Solver, NodeSolver))
        and value.__module__ == module.__name__
        and "__dataclass_params__" in vars(value)
        and not key.startswith("_")
    }


def solvers_in(folders: Iterable[str]) -> dict[str, type]:
    """The public solvers and node solvers of the package in these folders, by name: frozen dataclasses of options."""
    found: dict[str, type] = {}
    for room, name, _path in _files(folders):
        found |= _public(import_module(f"solvers.{room}.{name}"))
    return found
