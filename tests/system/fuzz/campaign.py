"""The parts of a campaign: what is drawn, and the property that is held against it."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import time
import traceback
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

from tests.system.fuzz import files as damaged_files, properties, strategies

BATCH = 50  # cases of one seed
HANGS = (
    300  # seconds after which a case counts as hanging: two runs of a solver on a thousand columns take a minute each
)
SEEDS = st.integers(0, 2**32 - 1)
HOW = st.sampled_from(("threads", "layout", "again", "saved", "saved"))


FOLDER = tempfile.TemporaryDirectory()  # removed with the process
saved_models = cache(damaged_files.saved_models)


def estimators(data: st.DataObject) -> Any:
    """A fit of an estimator."""
    table = data.draw(strategies.tables())
    model, how = data.draw(strategies.estimators(table.task)), data.draw(HOW)
    yield f"{model!r}, {how}"
    properties.check_estimator(model, table, how)


def limits(data: st.DataObject) -> Any:
    """A fit under a time limit, with options that would take long."""
    table = data.draw(strategies.tables(most=300, shapes=("usual", "wide", "fifty outputs", "few values", "sparse")))
    model = data.draw(strategies.estimators(table.task))
    longer = {"max_iter": 500, "epochs": 10_000, "max_batches": 100_000, "n_estimators": 500, "n_starts": 50}
    model.set_params(
        **{k: v for k, v in longer.items() if k in model.get_params() and k in strategies.options_of(model)}
    )
    yield f"{model!r}, time_limit"
    properties.check_limit(model, table, 0.2)


def solvers(data: st.DataObject) -> Any:
    """A solver on a statement of any kind."""
    solver = data.draw(st.sampled_from((*strategies.HEURISTICS, *strategies.EXACT[:2])))
    try:
        problem = data.draw(strategies.statements())
    except ValueError as error:
        yield "statement"
        properties.said_in_one_sentence(error)
        return
    yield f"{solver!r}, {problem!r}"
    properties.check_solver(problem, solver, data.draw(st.integers(0, 3)))


def oracle(data: st.DataObject) -> Any:
    """A solver against enumeration."""
    solver = data.draw(st.sampled_from((*strategies.EXACT, *strategies.EXACT, *strategies.HEURISTICS)))
    problem = data.draw(strategies.problems())
    yield f"{solver!r}, {problem!r}"
    properties.check_oracle(problem, solver)


def files(data: st.DataObject) -> Any:
    """A damaged model file."""
    suffix, content = data.draw(st.sampled_from(saved_models()))
    rng = np.random.default_rng(data.draw(SEEDS))
    yield suffix
    damaged_files.check_file(damaged_files.mutated(content, suffix, rng), suffix, Path(FOLDER.name))


def tables_as_text(data: st.DataObject) -> Any:
    """A CSV through the command line."""
    text = properties.csv_text(np.random.default_rng(data.draw(SEEDS)))
    method = data.draw(st.sampled_from(("tao-c", "tao-l", "ort", "get", "srt")))
    yield f"{method}, {text!r}"
    properties.check_csv(text, Path(FOLDER.name), method)


PARTS = {
    "estimators": estimators,
    "limits": limits,
    "solvers": solvers,
    "oracle": oracle,
    "files": files,
    "tables as text": tables_as_text,
}


def run(part: str, data: st.DataObject) -> str:
    """One case of a part; returns what it was, in words. Failures carry them as a note."""
    case = PARTS[part](data)
    words = str(next(case))
    try:
        next(case, None)
    except Exception as error:
        error.add_note(f"{part}: {words}")
        raise
    return words


def batch(part: str, number: int) -> tuple[int, dict[str, str]]:
    """``BATCH`` cases of a part from one seed: how many, and the failures, by where they failed."""
    failures: dict[str, str] = {}
    count = 0

    @seed(number)
    @settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def cases(data: st.DataObject) -> None:
        nonlocal count
        count += 1
        signal.alarm(HANGS)
        try:
            run(part, data)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}"
            note = " ".join([" ".join(str(error).split())[:200], *getattr(error, "__notes__", [])])
            failures.setdefault(key, f"seed {number}: {note}"[:600])
        finally:
            signal.alarm(0)

    cases()
    return count, failures


def work(part: str, first: int, step: int, until: float, found: multiprocessing.Queue) -> None:
    """Batches of a part, from seed ``first`` in steps, until a time; one at least, if the part before took longer."""

    def hanging(_signal: int, _frame: Any) -> None:
        raise TimeoutError(f"it takes longer than {HANGS} s")

    signal.signal(signal.SIGALRM, hanging)
    number, done = first, False
    while not done:
        found.put((part, number, *batch(part, number)))
        number, done = number + step, time.time() >= until
