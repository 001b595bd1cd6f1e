"""How seconds and memory of every method grow with rows, features and depth, on one thread.

Each method is fitted, with default options, to generated rows (Friedman #1 with further, irrelevant features): along
the axes n, p and depth through one base point, and at a few points off the axes. A fit runs in a process forked from
one in which the method's kernels are compiled and have run; seconds are the processor's, so that other processes count
little; memory is the growth of the largest resident set beyond the data. A point is left out where its axis, or the
product of the axes, says that it takes more than the limit, and counts as too long or too large where it does.
Measurements are appended to measured.csv in the folder; those that are there are not repeated. --fit-costs writes
opttree/methods/costs.json, the models of `opttree.estimate_cost`, from the measurements.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from experiments.benchmarks.common import markdown, peak, script
from opttree.methods.costs import FLOOR, TERMS, seconds_of, total
from opttree.methods.table import METHODS, make_estimator
from opttree.methods.warming import names
from opttree.runtime.files import whole_file
from solvers.races import system

Rows = Callable[[], tuple[np.ndarray, np.ndarray]]  # makes a table in the process that is measured

NAMES = [name for name in names() if name != "auto"]  # whose seconds are its time limit
FOLDER = Path(__file__).resolve().parents[1] / "results" / "scaling"
REAL = "real.csv"  # fits of real tables, by `experiments.benchmarks.fresh_costs`
COLUMNS_OF_REAL = ["method", "table", "seed", "n", "p", "depth", "seconds", "megabytes", "steps", "ended"]
COSTS = Path(__file__).resolve().parents[2] / "opttree" / "methods" / "costs.json"
KILLED = {-signal.SIGXCPU: "too long", -signal.SIGKILL: "too large"}  # at the limit; by the system, out of memory
NOTHING = ("", "", "", "")  # measured of such a fit
COLUMNS = ["method", "n", "p", "depth", "seconds", "wall", "megabytes", "steps", "ended", "limit"]

BASE = {"n": 10_000, "p": 20, "depth": 4}
AXES = {
    "n": (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "p": (5, 20, 50, 100, 200, 500),
    "depth": (2, 4, 6, 8, 10, 12),
}
OFF_AXES = [(1000, 100, 6), (3000, 5, 8), (1000, 500, 2), (30_000, 100, 2), (100_000, 50, 6), (100_000, 5, 10)]
SEARCHES = ("ort", "ort-l")  # take far longer, so that their axes go through a smaller point
BASE_OF_SEARCHES = {"n": 1000, "p": 10, "depth": 3}
AXES_OF_SEARCHES = {"n": (300, *AXES["n"]), "p": (5, 10, *AXES["p"][1:]), "depth": (2, 3, *AXES["depth"][1:])}
OFF_AXES_OF_SEARCHES = [(300, 50, 2), (3000, 5, 2), (300, 5, 6), (300, 50, 4), (10_000, 5, 2), (10_000, 50, 2),
    (300, 10, 5), (3000, 5, 4), (3000, 10, 5), (1000, 5, 8), (300, 5, 8)]  # fmt: skip
DEEP = {"ort": (4, 10.0)}  # a proof of at most ten seconds; from depth 4 on it starts from local search
ENDED, LEAST_REST = 0.9, 0.2  # shares: of a limit that counts as reached, of a fit that the other search takes at least
QUICK = {"n": 30_000, "p": 50, "depth": 6}  # largest values

# every term grows with what it names; complete trees are kept and run as a whole, routed ones hold rows in their leaves
COMMON = ("1", "n", "p", "n p", "p^2")
SEPARATE = {
    "seconds": {
        "complete": ("n p^2", "2^D", "n 2^D", "p 2^D", "n p 2^D", "n p 4^D"),
        "routed": ("n log n", "n p log n", "p^3", "n p^2", "n D", "n p D", "n p^2 D", "leaves", "p leaves"),
        "own depth": ("n log n", "n p log n", "p^3", "n p^2"),
    },
    "bytes": {
        "complete": ("2^D", "n 2^D", "p 2^D"),
        "routed": ("n D", "leaves", "p leaves"),
        "own depth": (),
    },
}
ROUNDS = 30  # of reweighted least squares
SIZE = 0.5  # a fit that takes k times as much counts k^SIZE times: what is small has terms of its own, and hurts less
COMPLETE = ("get", "srt", "gradtree", "orrt", "sdtr")  # families of trees of 2^D leaves


def base_of(name: str) -> dict[str, int]:
    """The point through which the axes of a method go."""
    return BASE_OF_SEARCHES if name in SEARCHES else BASE


def points(name: str, quick: bool) -> list[tuple[int, int, int]]:
    """The base, then each axis from there downwards and upwards, then points off the axes: (n, p, depth)."""
    base, method = base_of(name), METHODS[name]
    found = [base]
    for axis, values in (AXES_OF_SEARCHES if name in SEARCHES else AXES).items():
        if axis == "depth" and not method.has_depth:
            continue
        lower = [value for value in values if value < base[axis]][::-1]
        found += [base | {axis: value} for value in (*lower, *(v for v in values if v > base[axis]))]
    off = OFF_AXES_OF_SEARCHES if name in SEARCHES else OFF_AXES
    found += [dict(zip(base, point, strict=True)) for point in off]
    return [tuple(point.values()) for point in found if not quick or all(point[a] <= QUICK[a] for a in base)]


def data(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Friedman #1 with further features, made in blocks, so that it takes no more memory than it holds."""
    rng = np.random.default_rng(0)
    X, y = np.empty((n, p)), np.empty(n)
    for first in range(0, n, 10_000):
        rows = X[first : first + 10_000]
        rows[:] = rng.uniform(size=rows.shape)
        y[first : first + 10_000] = 10.0 * np.sin(np.pi * rows[:, 0] * rows[:, 1]) + 20.0 * (rows[:, 2] - 0.5) ** 2
        y[first : first + 10_000] += 10.0 * rows[:, 3] + 5.0 * rows[:, 4] + rng.normal(size=len(rows))
    return X, y


# ---- measuring -------------------------------------------------------------------------------------------------------


def measured_fit(name: str, rows: Rows, depth: int, limit: float, memory: float) -> list[Any]:
    """Seconds (processor, wall), megabytes, steps, and how it ended: one fit, in a process forked from this one."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=fit, args=(name, rows, depth, limit, memory, sender))
    child.start()
    sender.close()
    try:
        found = list(receiver.recv())
    except EOFError:
        child.join()
        if child.exitcode not in KILLED:
            raise RuntimeError(f"{name} failed; its process says why") from None
        found = [*NOTHING, KILLED[child.exitcode]]
    child.join()
    return found


def fit(name: str, rows: Rows, depth: int, limit: float, memory: float, answer: Any) -> None:
    """One fit in this process, which sends what `measured_fit` returns."""
    X, y = rows()
    held = resident()
    most = int(memory * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    spent = int(time.process_time() + limit) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (spent, spent + 5))
    began, cpu = time.perf_counter(), time.process_time()
    try:
        model = make_estimator(name, "regression", depth, seed=0, jobs=1).fit(X, y)
    except MemoryError:
        answer.send((*NOTHING, "too large"))
        return
    cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    megabytes = max(2**20 * peak() - held, 0.0) / 1e6
    answer.send((round(cpu, 4), round(wall, 4), round(megabytes, 2), model.result_.n_steps, "done"))


def resident() -> int:
    """Bytes that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def warm(name: str) -> None:
    """Compile what a method needs."""
    for depth in (2, 3):  # at depth 2, "ort" loads its exact solver
        make_estimator(name, "regression", depth, seed=0, jobs=1).fit(*data(300, 5))


def measure(name: str, limit: float, memory: float, out: Path, quick: bool) -> None:
    """All points of a method, in a process of its own."""
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        warm(name)
        for point in points(name, quick):
            table = measured(out)
            mine = table[table["method"] == name]
            there = mine[(mine[["n", "p", "depth"]] == point).all(axis=1)]
            if ((there["ended"] == "done") | (there["limit"] >= limit)).any():
                continue
            other = name in DEEP and point[2] >= DEEP[name][0]  # a search of its own, which the axes do not foresee
            if ended(mine, point) or (not other and expected(name, mine[mine["ended"] == "done"], point) > limit):
                continue
            row = [name, *point, *measured_fit(name, partial(data, *point[:2]), point[2], limit, memory), limit]
            with (out / "measured.csv").open("a", newline="") as file:
                csv.writer(file).writerow(row)
            print(*row, flush=True)


def begin(file: Path, columns: list[str]) -> None:
    """A table without rows, where there is none."""
    if not file.exists():
        file.write_text(",".join(columns) + "\n")


def measured(folder: Path, file: str = "measured.csv") -> pd.DataFrame:
    """The measurements so far; of a point measured more than once, the last."""
    table = pd.read_csv(folder / file)
    return table.drop_duplicates(["method", "n", "p", "depth"], keep="last")


def ended(mine: pd.DataFrame, point: tuple[int, int, int]) -> bool:
    """Whether a point no larger than this one took too long or too much."""
    lost = mine[mine["ended"] != "done"]
    return bool((lost[["n", "p", "depth"]] <= point).all(axis=1).any())


def expected(name: str, done: pd.DataFrame, point: tuple[int, int, int]) -> float:
    """Seconds by what was measured, as if the axes multiplied; 0 where too little was measured."""
    base = base_of(name)
    at_base = along(name, done, "n", base["n"])
    if not at_base:
        return 0.0
    moved = [(axis, value) for axis, value in zip(base, point, strict=True) if value != base[axis]]
    return at_base * float(np.prod([along(name, done, axis, value) / at_base for axis, value in moved]))


def axis_of(name: str, done: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The points of an axis, in order."""
    others = {other: value for other, value in base_of(name).items() if other != axis}
    return done[(done[list(others)] == list(others.values())).all(axis=1)].sort_values(axis)


def along(name: str, done: pd.DataFrame, axis: str, value: int) -> float:
    """Seconds at a value of an axis, by its two nearest points; 0 where there are fewer."""
    line = axis_of(name, done, axis)
    if len(line) < 2:
        return 0.0
    x, t = scale(axis, line[axis].to_numpy()), np.log(line["seconds"].to_numpy())
    at = float(scale(axis, np.array([value]))[0])
    k = int(np.clip(np.searchsorted(x, at), 1, len(x) - 1))
    return float(np.exp(t[k - 1] + (t[k] - t[k - 1]) * (at - x[k - 1]) / (x[k] - x[k - 1])))


def scale(axis: str, values: np.ndarray) -> np.ndarray:
    """Logarithms, but of depths."""
    return values.astype(float) if axis == "depth" else np.log(values)


# ---- models ----------------------------------------------------------------------------------------------------------


def terms(name: str, what: str) -> list[str]:
    method = METHODS[name]
    kind = "own depth" if not method.has_depth else "complete" if method.family in COMPLETE else "routed"
    return [*COMMON, *SEPARATE[what][kind]]


def fitted(name: str, what: str, points: pd.DataFrame, values: np.ndarray) -> dict[str, float]:
    """Weights of the terms: the non-negative combination with the least squares of the logarithms of its ratios to the
    measurements, the larger of which count more.
    """
    chosen = terms(name, what)
    features = np.array([[TERMS[term](*row) for term in chosen] for row in points[["n", "p", "depth"]].to_numpy()])
    units = features.max(axis=0)
    relative = features / units / values[:, None]
    importance = np.ones(len(relative))
    for _ in range(ROUNDS):  # importance^2 (r - 1)^2 is (log r)^2, times the weight of larger fits
        weights = nnls(importance[:, None] * relative, importance)[0]
        ratio = np.maximum(relative @ weights, 1e-3)
        away = np.where(abs(ratio - 1.0) < 1e-6, 1e-6, ratio - 1.0)
        importance = np.log1p(away) / away * values ** (SIZE / 2.0)
    return {term: float(f"{w:.4g}") for term, w in zip(chosen, weights / units, strict=True) if w > 0.0}


def pieces(name: str, what: str, done: pd.DataFrame) -> dict[str, Any]:
    """The model of a method: terms; of a search under a time limit of its own (`DEEP`) those of fits that ended before,
    the limit, and the terms of the search that is beside it in deep trees.
    """
    values = measured_of(what, done)
    if what == "bytes" or name not in DEEP:
        return {"terms": fitted(name, what, done, values)}
    level, most = DEEP[name]
    deep, cut = (done["depth"] >= level).to_numpy(), values > ENDED * most
    first = {"terms": fitted(name, what, done[~deep & ~cut], values[~deep & ~cut]), "most": most}
    if not deep.any():
        return first
    told = np.array([seconds_of(first, *row) for row in done[["n", "p", "depth"]].to_numpy()[deep]])
    rest = np.maximum(values[deep] - told, LEAST_REST * values[deep])
    return first | {"deep": {"from": level, "terms": fitted(name, what, done[deep], rest)}}


def measured_of(what: str, done: pd.DataFrame) -> np.ndarray:
    """Seconds, or bytes of which less than `FLOOR` count as that many."""
    return (done["seconds"] if what == "seconds" else np.maximum(1e6 * done["megabytes"], FLOOR)).to_numpy()


def errors(what: str, told: dict[str, Any], done: pd.DataFrame) -> list[float]:
    """The factors by which a model is off, above or below."""
    found = []
    for value, row in zip(measured_of(what, done), done[["n", "p", "depth"]].to_numpy(), strict=True):
        said = seconds_of(told, *row) if what == "seconds" else max(total(told["terms"], *row), FLOOR)
        found.append(max(said / value, value / max(said, 1e-9)))
    return found


def model(name: str, what: str, done: pd.DataFrame) -> dict[str, Any]:
    """The model of a method, and how far it is off at fits left out one by one.

    ``factor``: of ten fits, nine are within it; ``median``: half of them are.
    """
    left_out = []
    for k in range(len(done)):
        others = np.arange(len(done)) != k
        left_out += errors(what, pieces(name, what, done[others]), done[~others])
    half, most = np.quantile(left_out, [0.5, 0.9])
    return pieces(name, what, done) | {"median": round(float(half), 2), "factor": round(float(most), 2)}


def models(table: pd.DataFrame, real: pd.DataFrame) -> dict[str, Any]:
    """The table of `opttree.estimate_cost`, by fits of generated rows and of real tables."""
    found: dict[str, Any] = {}
    for name in NAMES:
        done = done_of(name, table)
        both = pd.concat([done, done_of(name, real)], ignore_index=True)
        found[name] = {what: model(name, what, both) for what in ("seconds", "bytes")}
        found[name]["measured"] = {axis: [int(done[axis].min()), int(done[axis].max())] for axis in BASE}
    found["auto"] = found["forest"] | {"seconds": time_limit("auto")}
    return {"machine": system.info()["cpu"] + ", one thread", "methods": found}


def time_limit(name: str) -> dict[str, Any]:
    """The model of a method that takes the time it is given."""
    limit = make_estimator(name, "regression", 1, seed=0).time_limit
    return {"terms": {"1": limit}, "median": 1.0, "factor": 1.0}


# ---- what came out ---------------------------------------------------------------------------------------------------

EXAMPLES = [(10_000, 20, 4), (100_000, 50, 6), (1_000_000, 50, 8)]
LAST = 3  # points of an axis from which its exponent is taken
UNITS = {"seconds": "seconds", "megabytes": "memory, MB"}


def done_of(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The finished fits of a method, and their seconds per step."""
    done = table[(table["method"] == name) & (table["ended"] == "done")]
    return done.assign(step=done["seconds"] / done["steps"])


def growth(name: str, done: pd.DataFrame, axis: str, column: str = "seconds") -> float:
    """Exponent of an axis by its last points; for the depth, the factor of one more level. NaN for fewer than two."""
    line = axis_of(name, done, axis).tail(LAST)
    if len(line) < 2:
        return float("nan")
    slope = np.polyfit(scale(axis, line[axis].to_numpy()), np.log(line[column].to_numpy()), 1)[0]
    return float(np.exp(slope) if axis == "depth" else slope)


def draw(table: pd.DataFrame, file: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, 3, figsize=(13, 8), sharey="row", layout="constrained")
    colours = plt.get_cmap("tab20").colors
    for (column, label), row in zip(UNITS.items(), grid, strict=True):
        for axis, axes in zip(BASE, row, strict=True):
            for name, colour in zip(NAMES, colours, strict=False):
                if axis == "depth" and not METHODS[name].has_depth:
                    continue
                line = axis_of(name, done_of(name, table), axis)
                axes.plot(line[axis], line[column], ".-", color=colour, label=name)
            axes.set(xlabel=axis, yscale="log", xscale="linear" if axis == "depth" else "log")
            axes.grid(alpha=0.3)
        row[0].set_ylabel(label)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    with whole_file(file) as unfinished:
        figure.savefig(unfinished, dpi=110)
    plt.close(figure)


def words(one: dict[str, Any]) -> str:
    """A model as a formula."""

    def formula(terms: dict[str, float]) -> str:
        return " + ".join(f"{w:.2g}" if t == "1" else f"{w:.2g} {t}" for t, w in terms.items())

    found = formula(one["terms"])
    if "most" in one:
        level, beside = one["deep"]["from"], formula(one["deep"]["terms"])
        found = f"min({one['most']:g}, {found}); from depth {level} on beside it {beside}"
    return found


def page(table: pd.DataFrame, costs: dict[str, Any]) -> str:
    """How each method grows, its model, and what the model says at a few points."""
    grows, fitted, says = [], [], []
    for name in NAMES:
        done = done_of(name, table)
        row = {"method": f"`{name}`", "there, s": f"{along(name, done, 'n', base_of(name)['n']):.2g}"}
        for axis, head in (("n", "n^"), ("p", "p^"), ("depth", "x per level")):
            both = f"{growth(name, done, axis):.2f} ({growth(name, done, axis, 'step'):.2f})"
            own = axis == "depth" and not METHODS[name].has_depth
            largest = "" if own else f"{axis_of(name, done, axis)[axis].max()}"
            row |= {head: "own" if own else both, f"up to {axis}": largest}
        for axis, head in (("n", "memory ~ n^"), ("p", "memory ~ p^")):
            row[head] = f"{growth(name, done, axis, 'megabytes'):.2f}"
        grows.append(row)
        one = costs["methods"][name]
        row, told = {"method": f"`{name}`"}, {"method": f"`{name}`"}
        for what in ("seconds", "bytes"):
            row[what] = words(one[what])
            row[f"{what}: half, 9/10 within x"] = f"{one[what]['median']:.2f}, {one[what]['factor']:.2f}"
        for n, p, depth in EXAMPLES:
            seconds, size = seconds_of(one["seconds"], n, p, depth), total(one["bytes"]["terms"], n, p, depth)
            told[f"{n} x {p}, depth {depth}"] = f"{seconds:,.2g} s, {size / 1e6:,.0f} MB"
        fitted.append(row)
        says.append(told)
    return f"""# How cost grows

Seconds of one thread and peak memory beyond the data, default options, {costs["machine"]}; written by
`python -m experiments.benchmarks.scaling` from `measured.csv`. Fits that were too long are left out.

![seconds and memory](scaling.png)

Growth by the last {LAST} points of each axis: exponents of n and p, the factor of one more level; in
parentheses those of the seconds of a step (a pass, a start, a tree), whatever number of steps it took.
The axes go through n = {BASE["n"]}, p = {BASE["p"]}, depth {BASE["depth"]}; for {" and ".join(SEARCHES)}, through \
{", ".join(map(str, BASE_OF_SEARCHES.values()))}.

{markdown(grows)}

What `opttree.estimate_cost` adds up, D the depth, `leaves` the smaller of n and 2^D, log to base 2; and the
factors within which half and nine tenths of the measured fits are of the model fitted without them. Fits of ten
real tables are among them (`real.csv`, seed 0, by `experiments.benchmarks.fresh_costs`), which take more iterations:

{markdown(fitted)}

What it says, seconds and MB:

{markdown(says)}
"""


@script
def main(
    methods: Annotated[tuple[str, ...], NAMES] = tuple(NAMES),
    limit: Annotated[float, "seconds of a fit"] = 60.0,
    memory: Annotated[float, "GB of data that a fit may hold"] = 8.0,
    out: Annotated[Path, "folder"] = FOLDER,
    quick: Annotated[bool, "a few small points"] = False,
    fit_costs: Annotated[bool, "write the models to opttree/methods/costs.json, too"] = False,
) -> Iterator[str]:
    out.mkdir(parents=True, exist_ok=True)
    begin(out / "measured.csv", COLUMNS)
    for name in methods:
        one = multiprocessing.get_context("fork").Process(target=measure, args=(name, limit, memory, out, quick))
        one.start()
        one.join()
        if one.exitcode:
            raise SystemExit(one.exitcode)
    table = measured(out)
    missing = [name for name in NAMES if (table.loc[table["method"] == name, "ended"] == "done").sum() < len(COMMON)]
    if missing:
        yield f"no models, no page: too few measurements of {', '.join(missing)}"
        return
    begin(out / REAL, COLUMNS_OF_REAL)
    real = measured(out, REAL)
    costs = models(table, real[real["seed"] == 0])
    (out / "scaling.md").write_text(page(table, costs))
    draw(table, out / "scaling.png")
    if fit_costs:
        with whole_file(COSTS) as unfinished:
            unfinished.write_text(json.dumps(costs, indent=1) + "\n")
