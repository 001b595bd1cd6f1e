"""Pages that come from the code and from committed results, written before Sphinx reads its sources.

Nothing in them is typed by hand: the command line's help, the table of methods, the reports of the papers' tables, the
leaderboards, what was measured, and what the cost models say of large tables.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

import solvers
from experiments import index
from opttree import estimate_cost, export
from opttree.cli.main import _parser
from opttree.methods import METHODS, estimators

RESULTS = Path(__file__).parent.parent / "experiments" / "results"
PAPERS = ("GET", "GradTree", "TAO", "SRT", "SDTR")
BOARDS = {
    "leaderboard_regression_default": "Regression, default settings",
    "leaderboard_regression_tuned": "Regression, at most 2000 training rows, methods marked * tuned",
    "leaderboard_classification_default": "Classification, default settings",
    "leaderboard_classification_tuned": "Classification, at most 2000 training rows, methods marked * tuned",
}
LEADERS = {
    "leaderboard_regression_default": {
        "forest": "forest", "boosted": "boosting", "auto": "AutoTree (a single tree)", "catboost": "CatBoost",
        "lightgbm": "LightGBM", "lightgbm-linear": "LightGBM with linear leaves", "xgboost": "XGBoost",
        "rf": "random forest", "extra-trees": "ExtraTrees", "cart": "CART",
    },
    "leaderboard_regression_tuned": {
        "forest*": "forest", "boosted*": "boosting", "catboost*": "CatBoost", "xgboost*": "XGBoost",
        "lightgbm*": "LightGBM", "rf*": "random forest", "extra-trees*": "ExtraTrees", "cart*": "CART",
    },
    "leaderboard_classification_default": {
        "boosted": "boosting", "forest": "forest", "catboost": "CatBoost", "lightgbm": "LightGBM", "xgboost": "XGBoost",
        "rf": "random forest", "extra-trees": "ExtraTrees", "cart": "CART",
    },
    "leaderboard_classification_tuned": {
        "boosted*": "boosting", "catboost*": "CatBoost", "rf*": "random forest", "forest*": "forest",
        "extra-trees*": "ExtraTrees", "lightgbm*": "LightGBM", "xgboost*": "XGBoost", "cart*": "CART",
    },
}  # fmt: skip
PROVERS_OF_ALL = {
    "BranchAndBound": "opttree", "pycontree": "pycontree", "pytrees ConTree": "pytrees", "pystreed": "pystreed",
    "gosdt": "gosdt",
}  # fmt: skip
PROVERS = (  # report, question, labels of its solvers
    (
        "exact_evening",
        "The best tree of depth 2 or 3, all thresholds, in 4 s",
        PROVERS_OF_ALL,
    ),
    (
        "exact_deep",
        "The same at depth 4 and 5, in 4 s",
        PROVERS_OF_ALL,
    ),
    (
        "proofs_full",
        "Search against mixed-integer programs (HiGHS), small tables, 5 seeds",
        {"branch and bound": "search", "MIP, hyperflow": "program of subsets", "MIP, flow": "program of flows"},
    ),
    (
        "policy_evening",
        "The best policy: which of several actions for each row, in 10 s",
        {"branch and bound": "search", "MIP, hyperflow": "program of subsets", "MIP, flow": "program of flows"},
    ),
)
METRICS = {"test_r2": "test R2", "test_accuracy": "test accuracy"}
PRINTED = (  # report, what it is, published method, depth, data set or mean, another method beside it
    ("get_table8_shallow", "GET, Table 8: training R2 at depth 2, 16 sets", "GET", 2, "mean", "CART"),
    ("get_table8_shallow", "the same at depth 4", "GET", 4, "mean", "CART"),
    ("get_table7_shallow", "GET, Table 7: test R2 of GET, 16 sets", "GET", None, "mean", "RF"),
    ("get_table7_shallow", "the same of GET-Linear", "GET-Linear", None, "mean", "RF"),
    ("srt_table2_full", "SRT, Table 2: test R2 of SRT-l2 at depth 3, 15 sets", "SRT-l2", 3, "mean", ""),
    (
        "gradtree_table1_evening",
        "GradTree, Table 1: macro F1, 22 sets of two classes",
        "GradTree",
        None,
        "mean",
        "CART",
    ),
    (
        "gradtree_table2_evening",
        "GradTree, Table 2: macro F1, 14 sets of more classes",
        "GradTree",
        None,
        "mean",
        "CART",
    ),
    ("tao_table1_full", "TAO, Table 1: test RMSE of TAO-l-30, abalone", "TAO-l-30", None, "abalone", "RF-100"),
    ("tao_table1_full", "the same on cpu_act", "TAO-l-30", None, "cpu_act", "RF-100"),
    ("sdtr_table2_full", "SDTR, Table 2: test MSE of one tree, wine_red", "SDTR-Single", None, "wine_red", "RF"),
)
SCALE = {"p": 30, "depth": 6}
ORPHAN = "---\norphan: true\n---\n\n"  # in no table of contents
FEATURES, DEPTHS = (10, 100, 300), (2, 4, 8, 10)
TREES, NETWORK = 30, 1.25e9  # trees of a forest; bytes a second, 10 Gbit/s
ROWS = (10**5, 10**6, 10**7, 10**8, 10**9)


def write(folder: Path) -> None:
    """Write every page; a page whose text has not changed is left alone, so that Sphinx need not read it again."""
    folder.mkdir(parents=True, exist_ok=True)
    pages: dict[str, Callable[[], str]] = {
        "command_line": command_line,
        "methods": methods,
        "unlisted": unlisted,
        "leaderboards": leaderboards,
        "papers": papers,
        "race": race,
        "scale": scale,
        "growth": growth,
        "short_limits": short_limits,
        "cluster": cluster,
        "sizes": sizes,
        "registers": registers,
        **{f"measured_{page}": lambda page=page: measured(page) for page in ("fast", "accurate", "exact", "reliable")},
        **{f"reproduced_{paper.lower()}": lambda paper=paper: reproduced(paper) for paper in PAPERS},
    }
    for name, text in pages.items():
        _write(folder / f"{name}.md", text())
    _reports(folder / "reports")
    _write(folder / "reports" / "scaling.md", ORPHAN + (RESULTS / "scaling" / "scaling.md").read_text(encoding="utf-8"))
    shutil.copy2(RESULTS / "scaling" / "scaling.png", folder / "reports" / "scaling.png")


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], align: str = "") -> str:
    """A table in Markdown; ``align`` holds l or r for each column."""
    marks = ["--:" if mark == "r" else ":--" for mark in align.ljust(len(head), "l")]
    lines = [head, marks, *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def command_line() -> str:
    """The help of every command."""
    parser = _parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    parts = [f"```text\n{_help(parser)}```\n"]
    parts += [f"## `opttree {name}`\n\n```text\n{_help(sub)}```\n" for name, sub in commands.choices.items()]
    return "\n".join(parts)


def _help(parser: argparse.ArgumentParser) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        parser.print_help()
    return text.getvalue()


def listed() -> set[str]:
    """The names that pages of the reference list by hand."""
    pages = (Path(__file__).parent / "reference").glob("*.md")
    lines = (line for page in pages for line in page.read_text(encoding="utf-8").splitlines())
    return {line.strip() for line in lines if re.fullmatch(r" +(opttree|solvers)\.[\w.]+", line)}


def unlisted() -> str:
    """What is found in the packages and stands on no page of the reference yet: new solvers, estimators, exports."""
    names = {f"opttree.export.{name}" for name in export.__all__ if f"opttree.{name}" not in listed()}
    names |= {f"opttree.{name}" for name in estimators()} | {f"solvers.{name}" for name in solvers.__all__}
    rest = sorted(names - listed())
    if not rest:
        return ""
    rows = "\n".join(f"   {name}" for name in rest)
    return f"## New\n\n```{{eval-rst}}\n.. autosummary::\n   :toctree: reference\n   :nosignatures:\n\n{rows}\n```\n"


def methods() -> str:
    """The table of methods, with links to their estimators."""
    rows = []
    for name, method in METHODS.items():
        if not method.family:
            continue
        classes = [method.estimator_class(task) for task in ("regression", "classification")]
        links = ", ".join(f"{{py:obj}}`~opttree.{c.__name__}`" for c in classes if c is not None)
        rows.append((f"`{name}`", method.doc, links))
    return _table(("name", "what it is", "estimators"), rows)


def leaderboards() -> str:
    """Means over data sets of each leaderboard's first metric, and mean ranks over the sets that all methods have."""
    parts = []
    for folder, title in BOARDS.items():
        numbers = pd.read_csv(RESULTS / folder / "numbers.csv")
        metric = numbers["metric"].iloc[0]
        board = numbers[(numbers["metric"] == metric) & (numbers["dataset"] != "mean")]
        board = board.pivot_table(index="dataset", columns="method", values="ours").dropna()
        ranks = board.rank(axis=1, ascending=False).mean()
        seconds = numbers[(numbers["metric"] == "cpu_seconds") & (numbers["dataset"] != "mean")]
        seconds = seconds.pivot_table(index="dataset", columns="method", values="ours").median()
        best = board.mean().sort_values(ascending=False)
        head = ("method", f"mean {metric}", f"mean rank of {board.shape[1]}", "median CPU seconds")
        rows = [
            (name, f"{mean:.3f}", f"{ranks[name]:.1f}", f"{seconds[name]:.2g}" if name in seconds else "")
            for name, mean in best.items()
        ]
        link = f"[the whole report](generated/reports/{folder}.md)"
        parts.append(
            f"## {title}\n\n{board.shape[0]} data sets that every method has; {link}.\n\n{_table(head, rows, 'lrrr')}"
        )
    return "\n".join(parts)


def leaders() -> str:
    """Means over data sets of the leaderboards' methods, for the README."""
    rows = []
    for folder, methods in LEADERS.items():
        numbers = pd.read_csv(RESULTS / folder / "numbers.csv")
        metric = numbers["metric"].iloc[0]
        board = numbers[(numbers["metric"] == metric) & (numbers["dataset"] == "mean")].set_index("method")
        best = sorted(methods, key=lambda key: -board.loc[key, "ours"])
        told = ", ".join(f"{methods[key]} {_short(board.loc[key, 'ours'])}" for key in best)
        title = BOARDS[folder].replace("methods marked * tuned", "tuned alike")
        rows.append((f"{title}: mean {METRICS[metric]} of {board['runs'].max():.0f} sets", told, folder))
    return _table(("question", "answer", "report"), _linked(rows))


def provers() -> str:
    """How many problems each solver proves, for the README."""
    rows = []
    for folder, what, solvers_named in PROVERS:
        proofs = pd.read_csv(RESULTS / folder / "proofs.csv").set_index("solver")
        told = [
            f"{label} {proofs.loc[name, 'proved, every seed']} of {proofs.loc[name, 'problems']}"
            for name, label in solvers_named.items()
        ]
        rows.append((what, ", ".join(told), folder))
    return _table(("question", "proved", "report"), _linked(rows))


def papers() -> str:
    """The papers' tables: what is printed, the preset and the default."""
    rows = []
    for folder, what, method, depth, dataset, rival in PRINTED:
        numbers = pd.read_csv(RESULTS / folder / "numbers.csv")
        here = numbers[(numbers["metric"] == numbers["metric"].iloc[0]) & (numbers["dataset"] == dataset)]
        here = here[here["depth"].isna() if depth is None else here["depth"] == depth]
        part = here[here["published"] == method]
        roles = part.set_index("role")["ours"]
        preset = _short(roles["printed"]) if "printed" in roles else f"{_short(roles['reduced'])} (reduced)"
        beside = here.loc[here["method"] == rival, "ours"]
        told = "" if beside.empty else f"{rival} {_short(beside.iloc[0])}"
        link = f"[{folder}](../generated/reports/{folder}.md)"
        rows.append((what, _short(part["paper"].dropna().iloc[0]), preset, _short(roles["default"]), told, link))
    return _table(("table", "printed", "the paper's method, run here", "our default", "beside it", "report"), rows)


def _linked(rows: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Rows of the README, whose last cells are reports."""
    return [(what, told, f"[report](experiments/results/{name}/report.md)") for what, told, name in rows]


def _short(value: float) -> str:
    return f"{value:.3f}".lstrip("0") if value < 1 else f"{value:.2f}"


def sizes() -> str:
    """Single trees and sums of trees: mean test R2 beside their size and what a fit and a prediction take."""
    numbers = pd.read_csv(RESULTS / "leaderboard_regression_default" / "numbers.csv")
    wanted = {"test_r2": "mean test R2", "n_parameters": "parameters, median", "cpu_seconds": "CPU seconds, median"}
    cells = {}
    for metric in wanted:
        part = numbers[(numbers["metric"] == metric) & (numbers["dataset"] != "mean")]
        wide = part.pivot_table(index="dataset", columns="method", values="ours")
        cells[metric] = wide.mean() if metric == "test_r2" else wide.median()
    frame = pd.DataFrame(cells).dropna().sort_values("test_r2", ascending=False)
    rows = [
        (name, f"{row['test_r2']:.3f}", f"{row['n_parameters']:,.0f}", f"{row['cpu_seconds']:.2g}")
        for name, row in frame.iterrows()
    ]
    return _table(("method", *wanted.values()), rows, "lrrr")


def race() -> str:
    """The best solver of each kind of problem within each limit, and its mean gap, from the protocol `race`."""
    rows = []
    for line in pd.read_csv(RESULTS / "race_full" / "by_depth.csv").to_dict("records"):
        told = f"{line['best']}: {line[line['best']]:.3g} %"
        rows.append((line["problems of"], line["limit s"], told))
    wide = pd.DataFrame(rows, columns=["problems", "limit", "told"]).pivot(
        index="problems", columns="limit", values="told"
    )
    return _table(("problems", *(f"within {limit} s" for limit in wide)), wide.reset_index().to_numpy().tolist())


def scale() -> str:
    """What the cost models say of large tables: seconds of one thread and memory beside the data."""
    measured = pd.read_csv(RESULTS / "scaling" / "measured.csv")
    parts = []
    for quantity in ("seconds", "memory"):
        rows = []
        for name in (name for name, method in METHODS.items() if method.family and name != "auto"):
            costs = [estimate_cost(name, n=n, **SCALE) for n in ROWS]
            told = [_time(cost.seconds) if quantity == "seconds" else _bytes(cost.bytes) for cost in costs]
            most = measured.loc[measured["method"] == name, "n"].max()
            told = [text if n <= most else f"*{text}*" for n, text in zip(ROWS, told, strict=True)]
            rows.append((f"`{name}`", f"{most:,}", *told))
        title = "Seconds of one thread" if quantity == "seconds" else "Memory beside the data"
        parts.append(f"**{title}**, {SCALE['p']} features, depth {SCALE['depth']}, by rows:\n")
        parts.append(_table(("method", "measured to", *(f"{n:,}" for n in ROWS)), rows, "lr" + "r" * len(ROWS)))
    return "\n".join(parts)


def short_limits() -> str:
    """Scores of fits whose time limit is short for the table."""
    return (RESULTS / "reliability" / "short_limits.md").read_text(encoding="utf-8").split("\n\n", 1)[1]


def growth() -> str:
    """What the cost models say of features and depth: seconds of one thread at 100,000 rows."""
    head = [*(f"{p} features" for p in FEATURES), *(f"depth {depth}" for depth in DEPTHS)]
    rows = []
    for name, method in METHODS.items():
        if method.family and name != "auto":
            costs = [estimate_cost(name, n=10**5, p=p, depth=SCALE["depth"]) for p in FEATURES]
            if method.has_depth:
                costs += [estimate_cost(name, n=10**5, p=SCALE["p"], depth=depth) for depth in DEPTHS]
            told = [_time(cost.seconds) for cost in costs]
            rows.append((f"`{name}`", *told, *["its own"] * (len(head) - len(told))))
    return _table(("method", *head), rows, "l" + "r" * len(head))


def cluster() -> str:
    """A forest on a Dask cluster with a thread for each tree: what each worker holds and waits for, by the model."""
    rows = []
    for n in ROWS:
        table, cost = 8.0 * n * SCALE["p"], estimate_cost("forest", n=n, **SCALE)
        sent = table / NETWORK
        held = table + cost.bytes / TREES
        rows.append((f"{n:,}", _bytes(table), _time(sent), _bytes(held), _time(cost.seconds / TREES)))
    head = ("rows", "the table", "sent to a worker in", "a worker holds, for one tree at a time", "a tree takes")
    return _table(head, rows, "rrrrr")


def registers() -> str:
    """What the GPU kernel that walks the smooth tree takes of a thread, by kind of tree, outputs and dtype."""
    every = pd.read_csv(RESULTS / "gpu" / "registers.csv", keep_default_na=False)
    rows: dict[tuple[str, int], dict[str, str]] = {}
    for (name, outputs, dtype), own in every[every["kernel"] == "walk"].groupby(["name", "outputs", "dtype"]):
        told = str(own["registers"].max())
        if spilt := own["spills_written"].max():
            told += f", {spilt} bytes spilt"
        if default := ", ".join(sorted(set(own["default"]) - {""})):
            told += f" ({default})"
        rows.setdefault((name, outputs), {})[dtype] = told
    head = ("loss, aggregation, leaves", "outputs", "float32", "float64")
    return _table(head, [(*kind, told["float32"], told["float64"]) for kind, told in rows.items()], "lrll")


def _time(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds)} s"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{_number(count / size)} {unit}"
    return f"{_number(count / 1e3)} kB"


def _number(value: float) -> str:
    """Two digits, or all before the point."""
    return f"{value:.2g}" if value < 100 else f"{value:,.0f}"


def measured(page: str) -> str:
    """The rows of `measured.csv` for a page."""
    frame = pd.read_csv(RESULTS / "measured.csv", keep_default_na=False)
    rows = frame.loc[frame["page"] == page, ["what", "figure", "command"]].to_numpy().tolist()
    return _table(("what", "figure", "command"), rows)


def reproduced(paper: str) -> str:
    """Every table and figure of a paper with its report, and the means of printed, preset and default."""
    known = index.reports(RESULTS)
    rows, names = [], []
    for item in index.coverage():
        if item.paper != paper:
            continue
        those = known.get(item.protocol, [])
        names += [item.protocol] if those else []
        links = ", ".join(f"[{about['budget']}](../generated/reports/{about['folder']}.md)" for about in those)
        said = f"`{item.protocol}`: {index.state(those)}" if item.protocol else item.reason
        rows.append((item.name, said, links))
    means = _means(dict.fromkeys(names))
    return f"{_table(('item', 'protocol and runs', 'report'), rows)}\n{means}"


def _means(names: Iterable[str]) -> str:
    """The lines of INDEX.md's table of means that are about these protocols."""
    lines = (RESULTS / "INDEX.md").read_text(encoding="utf-8").split("## Means", 1)[1].strip().splitlines()
    wanted = [line for line in lines[2:] if line.split("|")[1].strip() in names]
    return "\n".join([*lines[:2], *wanted]) + "\n"


def _reports(folder: Path) -> None:
    """The committed reports as pages of the site, with their pictures."""
    folder.mkdir(exist_ok=True)
    for report in sorted(RESULTS.glob("*/report.md")):
        name = report.parent.name
        text = re.sub(r"\]\((\w+\.png)\)", rf"]({name}/\1)", report.read_text(encoding="utf-8"))
        _write(folder / f"{name}.md", ORPHAN + text)
        pictures = list(report.parent.glob("*.png"))
        if pictures:
            (folder / name).mkdir(exist_ok=True)
        for picture in pictures:
            shutil.copy2(picture, folder / name / picture.name)
