"""Export to benchopt: a benchmark folder with the objective, problems, our solvers and other libraries'."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import cloudpickle

from opttree.runtime.files import whole_file
from opttree.statement import TreeProblem
from solvers import external
from solvers.core.base import Solver
from solvers.races import entries

OBJECTIVE = '''"""The statement: one problem, one objective for every tree."""

from benchopt import BaseObjective


class Objective(BaseObjective):
    """Mean loss plus penalties of a decision tree; infinite for an infeasible one."""

    name = "Decision trees as an optimization problem"
    url = "https://pypi.org/project/opttree"
    requirements = ["pip::opttree[experiments]"]
    min_benchopt_version = "1.6"

    def set_data(self, problem):
        self.problem = problem

    def evaluate_result(self, tree):
        return {"value": self.problem.objective(tree), "parameters": tree.n_parameters}

    def get_one_result(self):
        return {"tree": self.problem.best_constant()}

    def get_objective(self):
        return {"problem": self.problem}
'''

DATASET = '''"""The problems of the race."""

from pathlib import Path

from benchopt import BaseDataset
import cloudpickle


class Dataset(BaseDataset):
    """A TreeProblem, kept in the folder ``problems`` beside this file's."""

    name = "problems"
    files = {files!r}
    parameters = {{"problem": list(files)}}
    requirements = ["pip::opttree[experiments]"]

    def get_data(self):
        path = Path(__file__).parents[1] / "problems" / self.files[self.problem]
        return {{"problem": cloudpickle.loads(path.read_bytes())}}
'''

SOLVER = '''"""A solver of the race."""

from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

from solvers import solve
from solvers.races.entries import solver


class Solver(BaseSolver):
    {about!r}

    name = {label!r}
    sampling_strategy = "callback"
    stopping_criterion = SufficientProgressCriterion(patience=10**6, strategy="callback")  # plateaus are no end
    requirements = ["pip::opttree[{extra}]"]
    parameters = {{"random_state": [0]}}

    def set_objective(self, problem):
        self.problem, self.solver = problem, solver({text!r})
        self.tree = problem.best_constant()

    def skip(self, problem):
        reason = solver({text!r}).refusal(problem)
        return reason is not None, reason

    def run(self, callback):
        def watch(step, trace):
            if trace.rows[-1].objective <= trace.rows[-1].best:
                self.tree = step.tree
            return not callback()

        result = solve(self.problem, self.solver, callback=watch, random_state=self.random_state)
        self.tree = result.tree

    def get_result(self):
        return {{"tree": self.tree}}
'''


def export(problems: Mapping[str, TreeProblem], entrants: Mapping[str, Solver], folder: Path) -> list[Path]:
    """Write the benchmark; returns its files. ValueError for a solver that no text states, such as one of the user's
    own.
    """
    peers = [getattr(external, name)() for name in external.__all__ if name != "External"]
    known = {repr(solver) for solver in entrants.values()}
    theirs = {f"external.{peer.brief()}": peer for peer in peers if repr(peer) not in known}
    files: dict[Path, str | bytes] = {Path("objective.py"): OBJECTIVE}
    for label, solver in {**entrants, **theirs}.items():
        text = f"external.{solver!r}" if isinstance(solver, external.External) else repr(solver)
        try:
            entries.solver(text)
        except ValueError as error:
            raise ValueError(f"solvers must be ones that a text states; got {label!r} ({error})") from error
        extra = "external" if isinstance(solver, external.External) else "experiments"
        stem = _stem(label)
        while (place := Path("solvers") / f"{stem}.py") in files:  # labels that differ in other signs than letters
            stem = f"{stem}_{len(files)}"
        about = f"{label}, from its first tree to its end."
        files[place] = SOLVER.format(about=about, label=label, text=text, extra=extra)
    pickles = {name: f"{number}_{_stem(name)}.pkl" for number, name in enumerate(problems)}
    files[Path("datasets") / "problems.py"] = DATASET.format(files=pickles)
    for name, problem in problems.items():
        files[Path("problems") / pickles[name]] = cloudpickle.dumps(problem)
    written = []
    for place, content in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as unfinished:
            unfinished.write_bytes(content if isinstance(content, bytes) else content.encode())
        written.append(path)
    return written


def _stem(label: str) -> str:
    return re.sub(r"\W+", "_", label).strip("_").lower()[:60] or "solver"
