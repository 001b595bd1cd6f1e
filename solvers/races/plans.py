"""Plans: the runs of a race, and what the runner, the store's readers and the reports ask of them."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd

from opttree.statement import TreeProblem
from solvers.races.execute import execute
from solvers.races.runs import GivenRun, Outcome, Run, code_version


@dataclass(frozen=True)
class Plan(ABC):
    """Runs under one name.

    title, source, note, budget : of the report.
    methods : what is compared, by label.
    seeds : random states.
    time_limit, memory_limit : of a run, in seconds and megabytes.
    limits : times at which traces are read; by default ``time_limit`` alone.
    threads : of a run; by default as many as the machine has for each.
    """

    name: str
    title: str
    source: str = ""
    note: str = ""
    budget: str = "full"
    methods: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    time_limit: float | None = None
    memory_limit: float | None = None
    limits: tuple[float, ...] = ()
    threads: int | None = None

    @abstractmethod
    def runs(self, version: str) -> Iterator[Run]:
        """Every run, under a version of the code; "" where it is not to be done, but to be found in a store."""

    @staticmethod
    @abstractmethod
    def execute(run: Any, threads: int, started: Callable[[], None]) -> Outcome:
        """Do a run, calling ``started`` when its clock starts; `UnavailableError` where it cannot be done."""

    @staticmethod
    @abstractmethod
    def version() -> str:
        """The version of the code that does the runs."""

    def rows_of(self, seed: int) -> int:
        """The seed, if it draws the rows of a problem; else 0."""
        return 0

    @property
    def subtitle(self) -> str:
        """Where the report comes from, and what there is to say of all of it."""
        source = f"{self.source}. " if self.source else ""
        budget = "" if self.budget == "full" else f" Budget: {self.budget}."
        return f"{source}{' '.join(self.note.split())}{budget}"

    @property
    def ids(self) -> set[str]:
        """The ``run_id`` of every run."""
        return {run.run_id for run in self.runs("")}

    def newest(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The newest row of every run, however it ended, whatever the version of its code."""
        rows = rows[rows["run_id"].isin(self.ids)].sort_values("finished", kind="stable")
        return rows.drop_duplicates("run_id", keep="last", ignore_index=True)

    def measured(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The newest row of every run that ended well."""
        return self.newest(rows[rows["status"] == "ok"])


@dataclass(frozen=True)
class GivenPlan(Plan):
    """Every solver, its methods, on every problem with every seed, all given as objects."""

    problems: Mapping[str, TreeProblem] = field(default_factory=dict)
    execute = staticmethod(execute)
    version = staticmethod(code_version)

    @cached_property
    def _fingerprints(self) -> dict[str, str]:
        return {name: fingerprint(problem) for name, problem in self.problems.items()}

    def runs(self, version: str) -> Iterator[GivenRun]:
        """Problem by problem; they are pickled if they are to be done."""
        solvers = {label: cloudpickle.dumps(solver) if version else b"" for label, solver in self.methods.items()}
        for name, problem in self.problems.items():
            pickled = cloudpickle.dumps(problem) if version else b""
            for seed in self.seeds:
                for label, solver in self.methods.items():
                    yield GivenRun(
                        name,
                        0,
                        seed,
                        label,
                        problem.depth,
                        problem.leaves,
                        self.time_limit,
                        self.memory_limit,
                        version,
                        repr(solver),
                        self._fingerprints[name],
                        (pickled, solvers[label]),
                    )


def fingerprint(problem: TreeProblem) -> str:
    """A hash of the statement and its data."""
    digest = hashlib.sha1()
    for array in (problem.X, problem.Y, problem.w):
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    options = (problem.depth, problem.splits, problem.leaves, repr(problem.loss), problem.min_leaf)
    stated = (*options, problem.penalties, problem.constraints, problem.classes)
    digest.update(cloudpickle.dumps(stated) if any(hasattr(c, "group") for c in problem.constraints) else b"")
    digest.update(repr(stated).encode())
    return digest.hexdigest()[:16]
