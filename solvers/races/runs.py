"""A run: one method on one problem with one seed, a row of the store; and the version of the code that does it."""

from __future__ import annotations

import ast
import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import CodeType
from typing import Any

import pandas as pd

from opttree.runtime.versions import __version__

ROOT = Path(__file__).resolve().parents[2]
RACES = "solvers/races"
WORKING = ("entries.py", "execute.py")  # the files of this room whose change can change a row
NO_SPLITS = {"kind": "holdout", "test_size": 0.25, "k": 4, "per_seed": True}  # what stores have said of whole problems

Outcome = tuple[dict[str, Any], pd.DataFrame | None]  # the numbers of a run, and its trace where there is one


class UnavailableError(Exception):
    """Why a method cannot run here, or not on this problem, in one sentence."""


@dataclass(frozen=True)
class Run(ABC):
    """One run: a row of the store.

    ``dataset`` is the name of the problem, ``label`` that of the method; ``depth`` and ``leaves`` are None where they
    are the method's own.
    """

    dataset: str
    split: int
    seed: int
    label: str
    depth: int | None
    leaves: str | None
    time_limit: float | None
    memory_limit: float | None
    code_version: str

    @property
    @abstractmethod
    def stated(self) -> dict[str, Any]:
        """What is done, and on what: ``options`` of the method, ``splits`` of the rows, ``statement``."""

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What tells one run from another; limits do not, but for the time that solvers are given."""
        return {
            "dataset": self.dataset,
            "depth": self.depth,
            "leaves": self.leaves,
            "split": self.split,
            "seed": self.seed,
            "method": self.label,
            **{name: _canonical(value) for name, value in self.stated.items()},
        }

    @cached_property
    def run_id(self) -> str:
        """A hash of the identity."""
        return hashlib.sha1(_canonical(self.identity).encode()).hexdigest()[:16]

    @property
    def limit(self) -> float | None:
        """Seconds that the run is given."""
        return self.time_limit

    @property
    def random_state(self) -> int:
        """The seed of the method."""
        return self.seed

    @property
    def key(self) -> str:
        """The key of the row: the run under this version of the code."""
        return f"{self.run_id}-{self.code_version}"

    def __str__(self) -> str:
        where = "".join(f" {name}={value}" for name, value in (("depth", self.depth), ("leaves", self.leaves)) if value)
        return f"{self.label} on {self.dataset}{where}, seed {self.seed}, split {self.split}"


@dataclass(frozen=True)
class GivenRun(Run):
    """A run of a problem and a solver that are given as objects, both pickled: the solver's repr, a hash of the
    problem.
    """

    solver: str
    fingerprint: str
    pickled: tuple[bytes, bytes] = field(repr=False)

    @property
    def stated(self) -> dict[str, Any]:
        """The solver and the hash of the problem."""
        statement = {"problem": self.fingerprint, "seconds": self.time_limit}
        return {"options": {"solver": self.solver}, "splits": NO_SPLITS, "statement": statement}


@cache
def code_version(*more: Path) -> str:
    """The version of the packages, and a hash of the code whose change can change a row: opttree, the solvers, what of
    this room does runs, and ``more`` files. Comments, docstrings and assertions are left out of it. Each minor version
    of Python has its own.
    """
    digest = hashlib.sha1()
    ours = [path for name in ("opttree", "solvers") for path in ROOT.glob(f"{name}/**/*.py")]
    sources = [path for path in ours if path.parent != ROOT / RACES or path.name in WORKING]
    for path in sorted([*sources, *more]):
        tree = ast.parse(text := path.read_text())
        for node in ast.walk(tree) if "option(" in text or "changed(" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("option", "changed"):
                node.args = node.args[:1]  # the second is documentation
                node.keywords = [keyword for keyword in node.keywords if keyword.arg != "doc"]
        _add(digest, compile(tree, "", "exec", dont_inherit=True, optimize=2))  # without docstrings
    return f"{__version__}+{digest.hexdigest()[:8]}"


def _add(digest: Any, code: CodeType) -> None:
    """What compiled code does, but not where its lines are."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = code.co_names, code.co_varnames, code.co_freevars
    digest.update(repr((code.co_code, code.co_exceptiontable, names, counts)).encode())
    for value in code.co_consts:
        if isinstance(value, CodeType):
            _add(digest, value)
        else:
            digest.update(repr([sorted(map(repr, value)) if isinstance(value, frozenset) else value]).encode())


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict)
