"""A campaign of Ctrl-C at random times over every command that runs long: how each ends, how soon, and what it leaves.

Each command is first run undisturbed, for its duration. Times are uniform in 1.1 times that, at most --longest; they
count from the line before ``main()``. A cold run has an empty numba cache and --compiling seconds more, the others
share a cache in FOLDER. One line per run, then a table. A run ends

- with results: code 0 or 2 and "interrupted" in what it says, the mere echo of Ctrl-C apart;
- with 130, whatever it has shown before, or by the signal itself, which is a fault;
- finished: it was done before the interrupt, or within a moment of it;
- lost: it went on to its natural end, or hung and was killed.

Faults are tracebacks, ignored exceptions, other codes, unfinished or unreadable files, results without incumbent, bound
or trace, and processes left behind. FOLDER keeps ``runs.csv`` and the files of every run that was lost, at fault or
slow; where there is py-spy, also what a slow one did.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import psutil

from experiments.benchmarks.common import Row, script
from opttree import datasets, io
from opttree.cli.main import HEARD
from solvers.races.store import Store

ROOT = Path(__file__).resolve().parents[2]
START = "import sys; from {module} import main; print('up', flush=True); sys.exit(main())"
MOMENT = 2.0  # seconds in which what was nearly done may be finished
SLOW = 8.0  # seconds after which a run's files are kept and py-spy looks
HANG, COLD_HANG = 120.0, 300.0  # seconds
MARK = "OPTTREE_INTERRUPTED_RUN"  # in the environment of a run's processes


@dataclass(frozen=True)
class Case:
    """A command. ``{out}`` in it is the run's folder, ``{shared}`` the campaign's; ``done`` begins the line of stdout
    that tells of the end of its work, "" where there is none.
    """

    name: str
    command: str
    done: str = ""

    @property
    def kind(self) -> str:
        """The first word of the command."""
        return self.command.split()[0]


def _cases() -> list[Case]:
    solve = "solve auto_mpg --out {out} --formulation"
    solves = {
        "solve hyperflow": f"{solve} hyperflow --depth 3 --n-thresholds 12 --time-limit 8",
        "solve flow": f"{solve} flow --n-thresholds 6 --time-limit 8",
        "solve big-m": f"{solve} big-m --n-thresholds 6 --time-limit 8",
        "solve local": "solve auto_mpg --out {out} --method local --depth 3 --time-limit 8 --save {out}/tree.npz",
        "solve local+mip": f"{solve} flow --n-thresholds 6 --method local+mip --time-limit 8 --save {{out}}/tree.json",
        "solve write flow": f"{solve} flow --depth 3 --n-thresholds 30 --time-limit 20 --write {{out}}/program.lp",
        "solve write hyperflow": "solve housing --out {out} --time-limit 20 --reduced --write {out}/program.mps",
    }
    fit = "fit {shared}/data.csv --target target --out {out}/model.json --method"
    fits = {
        "fit tao-l": f"{fit} tao-l --depth 6",
        "fit get": f"{fit} get",
        "fit auto": f"{fit} auto --time-limit 4",
        "fit srt": f"{fit} srt --depth 3",
        "fit gradtree": f"{fit} gradtree",
        "fit sdtr": f"{fit} sdtr",
        "fit ort": f"{fit} ort",
    }
    compare = "compare --data auto_mpg --depth 3 --cv 3 --out {out} --methods"
    return [
        *(Case(name, command, "incumbent") for name, command in solves.items()),
        *(Case(name, command, "saved to") for name, command in fits.items()),
        Case("compare tao", f"{compare} cart,tao-l", "auto_mpg"),
        Case("compare forest", f"{compare} rf,boosted", "auto_mpg"),
        Case("predict", "predict {shared}/model.json {shared}/many.csv --out {out}/predicted.csv"),
        Case("show", "show {shared}/model.json --png {out}/tree.png", "drawn to"),
        Case("experiments run", "run smoke --budget quick --only method=CART,TAO,GET --store {out}", "store:"),
    ]


@dataclass
class Run:
    """One interrupt, and what came of it."""

    case: Case
    cold: bool
    wait: float | None  # seconds; None: not interrupted
    folder: Path
    cache: Path
    shared: Path
    lines: list[tuple[float, str]] = field(default_factory=list)  # of stdout, and when each came
    up: threading.Event = field(default_factory=threading.Event)
    signalled: float = 0.0
    seconds: float = 0.0  # from the signal to the end
    code: int | None = None
    heard: bool = False
    verdict: str = ""
    left: str = ""
    faults: list[str] = field(default_factory=list)

    @property
    def stdout(self) -> str:
        """All that it printed."""
        return "".join(line for _when, line in self.lines)

    @property
    def stderr(self) -> str:
        """All that it wrote to standard error."""
        return (self.folder / "stderr.txt").read_text(errors="replace")

    def row(self) -> Row:
        """For the table."""
        names = ("cold", "wait", "seconds", "code", "heard", "verdict", "left")
        row = {"folder": self.folder.name, "command": self.case.name, **{name: getattr(self, name) for name in names}}
        return row | {"faults": "; ".join(self.faults)}


# ---- a run ----------------------------------------------------------------------------------------------------------


def perform(run: Run, longest: float) -> Run:
    """Start the command, interrupt it, wait for its end and judge it; without an interrupt, up to ``longest`` s."""
    run.folder.mkdir(parents=True)
    run.cache.mkdir(parents=True, exist_ok=True)
    with _process(run) as process:
        if not run.up.wait(HANG):
            run.faults.append("did not start")
            return run
        began = time.monotonic()
        if run.wait is None:
            _wait(process, longest)
            run.seconds, run.code = time.monotonic() - began, process.poll()
            return run
        _wait(process, run.wait)
        ended = process.poll() is not None
        run.signalled = time.monotonic()
        if not ended:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _await_end(run, process)
        run.seconds, run.code = time.monotonic() - run.signalled, process.poll()
    _judge(run, ended)
    return run


@contextmanager
def _process(run: Run) -> Iterator[subprocess.Popen[str]]:
    """The command's process; whatever happens, nothing of it stays."""
    module = "experiments.__main__" if run.case.kind == "run" else "opttree.cli"
    words = [word.format(out=run.folder, shared=run.shared) for word in run.case.command.split()]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(run.cache), "PYTHONUNBUFFERED": "1", MARK: str(run.folder)}
    command = [sys.executable, "-c", START.format(module=module), *words]
    with (
        open(run.folder / "stderr.txt", "w") as errors,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as process,
    ):
        reader = threading.Thread(target=_read, args=(run, process))
        reader.start()
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            left = _left_behind(run.folder)
            _kill(left)
            if left and run.wait is not None:
                run.faults.append(f"{len(left)} processes left behind")
            reader.join()


def _read(run: Run, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line == "up\n":
            run.up.set()
        else:
            run.lines.append((time.monotonic(), line))


def _wait(process: subprocess.Popen[str], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _await_end(run: Run, process: subprocess.Popen[str]) -> None:
    """Wait for the end, look at the process while it is slow, and tell of a hang."""
    most, looks = COLD_HANG if run.cold else HANG, (SLOW, 3 * SLOW, 9 * SLOW)
    for until in (*looks, most):
        _wait(process, run.signalled + until - time.monotonic())
        if process.poll() is not None:
            return
        _look(run, process.pid, until)
    run.faults.append(f"hung for {most:g} s")


def _look(run: Run, pid: int, after: float) -> None:
    """What all threads do, by py-spy, where it is installed."""
    if spy := shutil.which("py-spy"):
        text = subprocess.run([spy, "dump", "--pid", str(pid)], capture_output=True, text=True, check=False).stdout
        (run.folder / f"after_{after:g}_s.txt").write_text(text)


def _left_behind(folder: Path) -> list[psutil.Process]:
    """Processes of a run that are there 5 seconds after its end."""
    until = time.monotonic() + 5.0
    while (found := _processes(folder)) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def _processes(folder: Path) -> list[psutil.Process]:
    """Those of the runs whose files lie in ``folder``."""
    found = []
    for other in psutil.process_iter():
        with suppress(psutil.Error):
            mark = other.environ().get(MARK, "") if other.pid != os.getpid() else ""
            if other.status() != psutil.STATUS_ZOMBIE and mark and Path(mark).is_relative_to(folder):
                found.append(other)
    return found


def _kill(processes: list[psutil.Process]) -> None:
    for other in processes:
        with suppress(psutil.NoSuchProcess):
            other.kill()


# ---- the judgement --------------------------------------------------------------------------------------------------


def _judge(run: Run, ended: bool) -> None:
    """Fill in verdict, faults and what is left."""
    errors = run.stderr
    run.heard = HEARD in errors
    done = min((when for when, line in run.lines if run.case.done and line.startswith(run.case.done)), default=np.inf)
    said = "nterrupted" in run.stdout + errors.replace(HEARD, "")
    if run.code in (130, -signal.SIGINT):
        run.verdict = "130"
    elif ended or done <= run.signalled or (run.seconds <= MOMENT and not said):
        run.verdict = "finished"
    else:
        run.verdict = "results" if said and run.code in (0, 2) else "lost"
    if "Traceback" in errors:
        run.faults.append("traceback")
    if "Exception ignored" in errors:
        run.faults.append("ignored exception")
    if run.code not in (0, 2, 130):
        run.faults.append(f"code {run.code}")
    for file in sorted(run.folder.rglob("*")):
        if wrong := _unreadable(file):
            run.faults.append(f"{file.name}: {wrong}")
    run.left = _left(run)


def _unreadable(file: Path) -> str:
    """What is wrong with a file, "" if nothing."""
    try:
        if ".part" in file.name.removesuffix(".parts") or file.suffix == ".unfinished":
            return "unfinished"
        if file.suffix == ".json":
            json.loads(file.read_text())
        elif file.suffix == ".csv":
            pd.read_csv(file)
        elif file.suffix == ".parquet":
            pd.read_parquet(file)
        elif file.suffix == ".png":
            return "" if file.read_bytes().endswith(b"IEND\xaeB`\x82") else "cut off"
        elif file.suffix in (".lp", ".mps"):
            last = file.read_text().rstrip().splitlines()[-1].lower()
            return "" if last in ("end", "endata") else "cut off"
    except (ValueError, IndexError, OSError) as error:
        return f"unreadable ({error})"
    return ""


def _left(run: Run) -> str:
    """What a user has of it, in words; results that lack a part are a fault."""
    what, of_kind = LEFT.get(run.case.kind, LEFT["predict"])
    try:
        told = of_kind(run)
    except Exception as error:
        run.faults.append(f"what is left is unreadable: {error!r}")
        return ""
    if not told and run.code != 130:
        run.faults.append(f"no {what}")
    return told or f"no {what}"


def _left_of_solve(run: Run) -> str:
    line = next((line for _when, line in run.lines if line.startswith("incumbent")), "")
    traces = [pd.read_csv(file) for file in run.folder.glob("solve_*.csv")]
    proves = "--method local " not in run.case.command
    lacks = {
        "incumbent": not line,
        "bound": proves and (not line or "bound none" in line),
        "trace": len(traces) != 1 or (proves and not traces[0]["bound"].notna().all()),
        "tree": "--save" in run.case.command and not list(run.folder.glob("tree.*")),
    }
    missing = [name for name, is_missing in lacks.items() if is_missing]
    program = " and the program" if list(run.folder.glob("program.*")) else ""
    if run.code in (0, 2) and missing:
        run.faults.append(f"no {', '.join(missing)}")
    return f"lacks {', '.join(missing)}{program}" if missing else f"all{program}"


def _left_of_fit(run: Run) -> str:
    file = run.folder / "model.json"
    return f"a model of {io.load(file).tree.n_leaves} leaves" if file.exists() else ""


def _left_of_compare(run: Run) -> str:
    return "".join(f"{len(pd.read_csv(file))} methods" for file in run.folder.glob("compare_*.csv"))


def _left_of_runs(run: Run) -> str:
    return f"{len(Store('smoke', run.folder).rows())} runs"


def _left_of_other(run: Run) -> str:
    return ", ".join(file.name for file in run.folder.iterdir() if file.suffix in (".csv", ".png"))


LEFT = {
    "solve": ("answer", _left_of_solve),
    "fit": ("model", _left_of_fit),
    "compare": ("table", _left_of_compare),
    "run": ("runs", _left_of_runs),
    "predict": ("file", _left_of_other),
}


# ---- the campaign ---------------------------------------------------------------------------------------------------


def prepare(shared: Path) -> None:
    """Data and a model for the commands that read files."""
    shared.mkdir(parents=True, exist_ok=True)
    data = datasets.load("airfoil")
    frame = data.encoded().assign(target=np.asarray(data.y).ravel())
    frame.to_csv(shared / "data.csv", index=False)
    pd.concat([frame] * 100).to_csv(shared / "many.csv", index=False)
    words = ["fit", str(shared / "data.csv"), "--target", "target", "--out", str(shared / "model.json"), "--depth", "5"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(shared / "warm")}
    subprocess.run([sys.executable, "-m", "opttree.cli", *words], check=True, env=environment, capture_output=True)


@contextmanager
def _pool(jobs: int, shared: Path) -> Iterator[ThreadPoolExecutor]:
    """Threads for runs side by side; when the campaign itself is interrupted, all its processes end."""
    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _kill(_processes(shared))
            raise


def durations(cases: list[Case], shared: Path, longest: float, jobs: int) -> dict[str, float]:
    """Seconds of each command, undisturbed, with a warm cache; kept in a file."""
    file = shared / "durations.json"
    known: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}

    def measure(case: Case) -> None:
        if case.name in known:
            return
        for what, most in (("first", COLD_HANG / 3), ("warm", longest)):  # the first fills the cache
            with tempfile.TemporaryDirectory(dir=shared) as place:
                folder = Path(place) / f"{case.name.replace(' ', '_')}_{what}"
                done = perform(Run(case, False, None, folder, shared / "warm", shared), most)
            known[case.name] = done.seconds
            print(f"undisturbed, {what}: {case.name} {done.seconds:.1f} s, code {done.code}", flush=True)
            file.write_text(json.dumps(known, indent=1))

    with _pool(jobs, shared) as pool:
        list(pool.map(measure, cases))
    return known


def interrupted(run: Run) -> Run:
    """Perform a run, and keep its files only if there is something to see in them."""
    perform(run, np.inf)
    if run.cold:
        shutil.rmtree(run.cache, ignore_errors=True)
    if run.verdict != "lost" and not run.faults and run.seconds < SLOW:
        shutil.rmtree(run.folder)
    else:
        (run.folder / "stdout.txt").write_text(run.stdout)
    return run


def summary(rows: pd.DataFrame) -> Iterator[Row]:
    """A row per command, and one for all."""
    groups = {str(name): part for name, part in rows.groupby("command")}
    groups |= {"all warm": rows[~rows["cold"]], "all cold": rows[rows["cold"]], "all": rows}
    for name, part in groups.items():
        ends = {v: int((part["verdict"] == v).sum()) for v in ("results", "130", "finished", "lost")}
        live = part["seconds"][part["verdict"] != "finished"]
        row = {"command": name, "runs": len(part), **ends, "faults": int((part["faults"] != "").sum())}
        if len(part):
            yield row | {"median s": live.median(), "largest s": live.max()}


@script
def main(
    runs: int = 500,
    seed: int = 0,
    cold_share: float = 0.1,
    jobs: Annotated[int, "runs at a time"] = 1,
    only: Annotated[tuple[str, ...], "these commands, or those that begin so"] = (),
    longest: Annotated[float, "seconds, of interrupts with a warm cache"] = 20.0,
    compiling: Annotated[float, "seconds more, of interrupts with a cold one"] = 30.0,
    out: Annotated[Path | None, "folder; None: a temporary one"] = None,
) -> Iterator[Row | str]:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start what runs in the background deaf to it
    shared = Path(out or tempfile.mkdtemp(prefix="interrupts_")).resolve()
    prepare(shared)
    cases = [case for case in _cases() if case.name.startswith(only or ("",))]
    known = durations(cases, shared, longest, jobs)
    rng = np.random.default_rng(seed)
    drawn = []
    for k in range(runs):  # commands in turn, times and caches by chance
        case, cold = cases[k % len(cases)], bool(rng.random() < cold_share)
        most = min(known[case.name], longest) + cold * compiling
        folder = shared / "runs" / f"{seed}_{k:04d}"
        cache = shared / "cold" / folder.name if cold else shared / "warm"
        drawn.append(Run(case, cold, rng.uniform(0.0, 1.1 * most), folder, cache, shared))
    rows: list[Row] = []
    try:
        with _pool(jobs, shared) as pool:
            for run in pool.map(interrupted, drawn):
                rows.append(run.row())
                yield rows[-1]
    except KeyboardInterrupt:
        yield f"ended after {len(rows)} runs"
    if rows:
        pd.DataFrame(rows).to_csv(shared / "runs.csv", index=False)
        yield from summary(pd.DataFrame(rows))
        yield f"runs: {shared / 'runs.csv'}"
