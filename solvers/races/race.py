"""`race`: solvers on problems under one clock, and `Race`, what came out of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from opttree.runtime.files import whole_file
from opttree.statement import TreeProblem
from opttree.tables import datasets
from opttree.tables.reading import read_table
from solvers.core.base import Solver
from solvers.races import benchopt, entries, figures, profiles, runner, sections
from solvers.races.compare import Comparison
from solvers.races.plans import GivenPlan
from solvers.races.proofs import Proofs
from solvers.races.store import Store

NAME = "race"
FILES = (".csv", ".parquet")


class Race(Comparison):
    """What `race` found: every run's row and trace, with the tables and pictures of a comparison.

    The reference of a problem is its proved optimum, where a solver proved one, else the best objective that any solver
    found with any seed; every table says which. Seeds are replications: tables hold medians over them, and means over
    the problems that every solver ran. `proofs` has the bounds.

    Parameters
    ----------
    plan : GivenPlan
        What was planned.
    store : Store
        Where the runs are.

    See Also
    --------
    opttree.race : runs it

    Examples
    --------
    >>> import opttree
    >>> from opttree import TreeProblem, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
    >>> race = opttree.race({"diabetes": problem}, "CartInit();BranchAndBound()", time_limit=5)
    >>> race.gaps().round(4).to_dict("records")
    [{'CartInit()': 0.0054, 'BranchAndBound()': 0.0}]
    >>> list(race.to_frame()["termination"])
    ['ITERATION_LIMIT', 'OPTIMAL']
    >>> len(race.plot())                             # convergence, two profiles, primal integrals
    4
    """

    plan: GivenPlan

    def __init__(self, plan: GivenPlan, store: Store) -> None:
        rows = store.rows()
        self.every, measured, self.sessions = plan.newest(rows), plan.measured(rows), store.sessions()
        if measured.empty:
            reasons = "; ".join(dict.fromkeys(str(reason).strip().splitlines()[-1] for reason in self.every["reason"]))
            raise ValueError(f"no run ended well: {reasons}")
        super().__init__(plan, measured, store.traces(), self.every)

    def __repr__(self) -> str:
        proved = int(self.proved.sum())
        counts = self.counts()
        failed = [str(name) for name, number in counts["failed"].items() if number] if "failed" in counts else []
        left_out = f"\nfailed, see the reasons in to_frame(): {', '.join(failed)}" if failed else ""
        return (
            f"Race of {len(self.solvers)} solvers on {len(self.problems)} problems, {self.horizon:g} s each; "
            f"{proved} optima proved\n{self.summary(self.horizon).to_string()}{left_out}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One line per run: problem, solver, seed, objective, bound, seconds on the clock and of the CPU, why it ended;
        the problem's reference, whether it is proved, and the primal gap to it. Runs that were refused or failed say
        why; "lacks" says what the solver could not be given.
        """
        names = ["dataset", "method", "seed", "objective", "bound", "fit_seconds", "cpu_seconds", "termination"]
        frame = self.every.reindex(columns=[*names, "status", "reason", "lacks"])
        frame = frame.rename(columns={"dataset": "problem", "method": "solver", "fit_seconds": "seconds"})
        known = self.references().reset_index().set_index("dataset")
        frame["reference"] = known["reference"].reindex(frame["problem"]).to_numpy()
        frame["reference_is"] = known["is"].reindex(frame["problem"]).to_numpy()
        pairs = zip(frame["objective"], frame["reference"], strict=True)
        frame["gap"] = [profiles.primal_gap(f, b)[0] if pd.notna(f) and pd.notna(b) else np.nan for f, b in pairs]
        return frame

    @property
    def proofs(self) -> Proofs:
        """Who has proved what, when: times to proof, profiles, integrals, PAR-10, bounds that fell."""
        return Proofs(self)

    def plot(self, folder: str | Path | None = None) -> list[Any]:
        """Draw four figures: mean gap against time, performance profile, data profile and primal integrals.

        Parameters
        ----------
        folder : path-like or None, default None
            Where they are saved as PNG and PDF, if anywhere.

        Returns
        -------
        list of matplotlib.figure.Figure
            The figures.
        """
        note = f"reference: {int(self.proved.sum())} of {len(self.problems)} optima proved, else best known"
        factors = self.performance_profile()
        drawn = {
            "convergence": figures.convergence(self.curves(), self.solvers, title=note),
            "performance_profile": figures.profile(
                factors, self.solvers, "seconds to 1 %, over the fastest's", end=max(float(factors.index.max()), 10.0)
            ),
            "data_profile": figures.profile(
                self.data_profile(), self.solvers, "seconds to 1 %", start=1e-3, end=self.horizon
            ),
            "primal_integrals": figures.bars(
                100.0 * self.on_common(self.integrals()).mean(), "primal integral / horizon (%)"
            ),
        }
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for stem, figure in drawn.items():
                figures.save(figure, Path(folder) / stem)
        return list(drawn.values())

    def to_html(self, path: str | Path | None = None) -> str:
        """The whole comparison as one page without a network: tables that sort and filter, and pictures.

        Parameters
        ----------
        path : path-like or None, default None
            Where the page is written, if anywhere.

        Returns
        -------
        str
            The page.
        """
        with tempfile.TemporaryDirectory() as folder:
            text = sections.race_page(self.plan, self, self.references(), self.to_frame(), Path(folder))
        if path is not None:
            with whole_file(path) as unfinished:
                unfinished.write_text(text)
        return text

    def to_benchopt(self, folder: str | Path) -> list[Path]:
        """Write a folder that ``benchopt run`` runs.

        It has the objective, these problems and solvers, and the other libraries of `solvers.external`, to which others
        may add theirs.

        Parameters
        ----------
        folder : path-like
            Name of the folder.

        Returns
        -------
        list of pathlib.Path
            The files.
        """
        return benchopt.export(self.plan.problems, self.plan.methods, Path(folder))


def race(
    problems: Any,
    solvers: Any,
    time_limit: float,
    *,
    seeds: Iterable[int] = (0,),
    n_jobs: int = 1,
    store: str | Path | None = None,
    target: str | None = None,
    memory_limit: float | None = None,
    progress: bool = False,
    **statement: Any,
) -> Race:
    """What `opttree.race` calls; its parameters and what it raises stand there."""
    stated, entrants = problems_of(problems, target, statement), solvers_of(solvers)
    if not (isinstance(time_limit, (int, float, np.number)) and time_limit > 0):
        raise ValueError(f"time_limit must be > 0 seconds; got {time_limit!r}")
    if isinstance(seeds, (int, np.integer)):
        raise ValueError(f"seeds must be a sequence of integers, such as range(3); got {seeds!r}")
    chosen = tuple(int(seed) for seed in seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must hold at least one integer, and each once; got {list(chosen)}")
    if memory_limit is not None and not memory_limit > 0:
        raise ValueError(f"memory_limit must be > 0 MB; got {memory_limit!r}")
    plan = GivenPlan(
        name=NAME,
        title="Race",
        note="Every solver on every problem, one clock, one objective.",
        seeds=chosen,
        time_limit=float(time_limit),
        memory_limit=None if memory_limit is None else float(memory_limit),
        methods=entrants,
        problems=stated,
    )
    with ExitStack() as stack:
        folder = store if store is not None else stack.enter_context(tempfile.TemporaryDirectory())
        kept = Store(NAME, Path(folder))
        try:
            runner.run(plan, kept, jobs=n_jobs, progress=progress)
        except KeyboardInterrupt:
            if store is not None or kept.rows().empty:
                raise
        return Race(plan, kept)


def problems_of(problems: Any, target: str | None, statement: Mapping[str, Any]) -> dict[str, TreeProblem]:
    """The problems by name; ValueError for what is none, and for unknown options."""
    known = [field.name for field in fields(TreeProblem) if field.init and field.name not in ("X", "y")]
    if unknown := sorted(set(statement) - set(known)):
        raise ValueError(f"options must be those of race or of TreeProblem, {', '.join(known)}; got {unknown[0]!r}")
    if isinstance(problems, Mapping):
        for name, problem in problems.items():
            if not isinstance(problem, TreeProblem):
                raise ValueError(f"problems must be of TreeProblem; got {problem!r} for {name!r}")
        if statement:
            raise ValueError(f"{min(statement)} is for data sets and files; TreeProblems state theirs")
        stated = {str(name): problem for name, problem in problems.items()}
    else:
        places = [problems] if isinstance(problems, (str, Path)) else list(problems)
        files = [file for place in places for file in _files(place)]
        stated = {}
        for file in files:
            name = Path(file).stem if _is_file(file) else str(file)
            if name in stated:
                raise ValueError(f"problems must have different names; got {name!r} twice")
            stated[name] = state(file, target, statement)
    if not stated:
        raise ValueError(f"problems must hold at least one problem; got {problems!r}")
    return stated


def _files(place: str | Path) -> list[Any]:
    """The CSV and Parquet files of a folder; else the place itself."""
    if not Path(place).is_dir():
        return [place]
    found = sorted(path for path in Path(place).iterdir() if path.suffix in FILES)
    if not found:
        raise ValueError(f"problems must be folders of CSV or Parquet files; got {str(place)!r}, which has none")
    return found


def _is_file(place: str | Path) -> bool:
    return Path(place).suffix in FILES


def state(place: str | Path, target: str | None, statement: Mapping[str, Any]) -> TreeProblem:
    """The problem of a data set or a CSV or Parquet file, features and target in units of their deviation."""
    if _is_file(place):
        table = read_table(place)
        column = target if target is not None else str(table.columns[-1])
        if column not in table:
            raise ValueError(f"target must be a column of {place}; got {column!r}")
        outcome = table[column]
        task = datasets.guess_task(outcome)
        data = datasets.Dataset(table.drop(columns=[column]), outcome, task, Path(place).stem, str(place))
    else:
        data = datasets.load(str(place))
    X, y = data.as_arrays()
    options = {"depth": 3, "splits": "axis", **statement}
    if data.task == "classification":
        options.setdefault("loss", "zero_one")
    return TreeProblem.standardized(X, y, **options)


def solvers_of(solvers: Any) -> dict[str, Solver]:
    """The solvers by label; ValueError for what is none."""
    if isinstance(solvers, str):
        solvers = [entries.solver(text) for text in solvers.split(";") if text.strip()]
    if isinstance(solvers, Solver):
        solvers = [solvers]
    if not isinstance(solvers, Mapping):
        labels = [solver.brief() if isinstance(solver, Solver) else "" for solver in solvers]
        if len(set(labels)) < len(labels) and "" not in labels:
            raise ValueError(f"solvers must be different; got {max(labels, key=labels.count)!r} twice")
        solvers = dict(zip(labels, solvers, strict=True))
    for label, solver in solvers.items():
        if not isinstance(solver, Solver):
            raise ValueError(f"solvers must be instances of solvers, such as TAO(); got {solver!r} for {label!r}")
    if not solvers:
        raise ValueError("solvers must hold at least one solver; got none")
    return {str(label): solver for label, solver in solvers.items()}
