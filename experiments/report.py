"""Reports: what a protocol's rows say, as Markdown, CSV, LaTeX, figures, and one HTML page that holds it all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from experiments import pictures, ranks, tables
from experiments.protocol import Collection, Protocol
from experiments.ruler import relative
from solvers.races import figures, statistics
from solvers.races.compare import Comparison
from solvers.races.page import Section, numeric, page, pretty
from solvers.races.proofs import Proofs
from solvers.races.sections import proof_sections, race_sections
from solvers.races.store import Store

LABELS = {
    "test_r2": "test R2",
    "train_r2": "training R2",
    "test_f1": "test macro F1",
    "train_f1": "training macro F1",
    "test_accuracy": "test accuracy",
    "test_log_loss": "test log loss",
    "test_rmse": "test RMSE",
    "train_rmse": "training RMSE",
    "test_mse": "test MSE",
    "fit_seconds": "seconds to fit",
    "cpu_seconds": "CPU seconds to fit",
    "predict_seconds": "seconds to predict the test rows",
    "predict_microseconds": "microseconds to predict a test row",
    "one_row_microseconds": "microseconds to predict one row, mean of up to 10,000 repetitions",
    "n_parameters": "parameters",
    "n_flops": "operations to predict a row",
    "n_nodes": "nodes",
    "train_minus_test_f1": "training less test macro F1",
    "average_entropy": "average entropy",
    "test_r2_improvement": "relative improvement of test R2",
    "seconds_reduction": "share of the seconds saved",
    "paired_t": "t of the paired test over data sets",
    "paired_t_p": "p of the paired t-test over data sets",
    "n_trees": "trees",
    "n_branches": "branch nodes",
    "n_leaves": "leaves",
    "tree_depth": "depth of the trees",
    "objective": "training objective",
}
SHOWN = (
    "dataset",
    "depth",
    "leaves",
    "method",
    "seed",
    "split",
    "status",
    "test_r2",
    "test_f1",
    "test_rmse",
    "train_r2",
    "objective",
    "termination",
    "fit_seconds",
    "n_parameters",
    "chosen",
    "code_version",
)


def write(protocol: Protocol, store: Store, folder: Path) -> list[Path]:
    """Write the report of a protocol's stored rows; returns the files.

    Raises
    ------
    ValueError
        If the store holds no row of the protocol under its budget.
    """
    every = store.rows()
    rows = tables.measured(protocol, every) if len(every) else every
    if rows.empty:
        raise ValueError(
            f"the store has no finished run of {protocol.name} under budget {protocol.budget}; "
            f"run it first: python -m experiments run {protocol.name} --budget {protocol.budget}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    if isinstance(protocol, Collection):
        sections.append(_slices(protocol, every))
    elif (
        protocol.kind == "fit" or protocol.summary or (len(protocol.leaves) == 1 and protocol.metrics != ("objective",))
    ):
        sections += _against_paper(protocol, rows, folder)
    if protocol.kind == "solve" and not protocol.summary:
        race = Comparison(protocol, rows, store.traces(), protocol.newest(every))
        sections += proof_sections(Proofs(race), folder) + race_sections(race, folder)
    sections += [_methods(protocol), _missing(protocol, every), _about(protocol, rows, store.sessions())]
    for section in sections:
        if section.table is not None and section.name:
            tables.save(section.table, folder / section.name, f"{protocol.title}: {section.title}")
    (folder / "about.json").write_text(json.dumps(_summary(protocol, rows), indent=1) + "\n")
    (folder / "report.md").write_text(markdown(protocol, sections))
    runs = _all_runs(rows)
    assert runs.table is not None
    runs.table.to_csv(folder / "runs.csv", index=False)
    (folder / "report.html").write_text(page(protocol, [*sections, runs], folder))
    return sorted(folder.iterdir())


def markdown(protocol: Protocol, sections: list[Section]) -> str:
    """The report as Markdown."""
    parts = [f"# {protocol.title}", protocol.subtitle]
    for section in sections:
        parts += [f"## {section.title}", *section.text]
        parts += [f"![{caption}]({stem}.png)" for stem, caption in section.figures]
        if section.table is not None:
            cells = section.table.map(_in_a_table).rename(columns=_in_a_table)
            alignment = ["right" if numbers else "left" for numbers in numeric(section.table)]
            parts.append(cells.to_markdown(index=False, disable_numparse=True, colalign=alignment))
    return "\n\n".join(parts) + "\n"


def _in_a_table(cell: object) -> str:
    """A text as a cell of a Markdown table holds it."""
    return str(cell).replace("|", r"\|")


def _against_paper(protocol: Protocol, rows: pd.DataFrame, folder: Path) -> list[Section]:
    lines = tables.long(protocol, rows)
    lines.to_csv(folder / "numbers.csv", index=False)
    first = protocol.metrics[0]
    sections = []
    text = [
        "Means over seeds and splits ± their deviation. Like stands beside like: what the paper printed; the paper's "
        "method as we run it (`preset=\"paper\"`, see its solver's `paper`); another library's program; and opttree's "
        "default, which is no paper's method.",
    ]
    if lines["paper"].isna().all():
        text = ["Means over seeds and splits ± their deviation."]
    if lines["dataset"].isin(list(protocol.means)).any():
        text.append(
            "Means over data sets are over those that all our methods have, ± half of their 95 % confidence interval "
            "over seeds; the paper's as printed, or over these."
        )
    metrics = [m for m in protocol.metrics if (lines["metric"] == m).any()]
    if protocol.summary and not metrics:
        text = ["Means need at least two data sets that all methods have; there are fewer."]
        sections.append(Section("Means over data sets", text))
    elif protocol.summary:
        alone = bool(lines["paper"].isna().all())
        parts = [tables.beside(protocol, lines, m, ours_alone=alone) for m in metrics]
        for metric, table in zip(metrics, parts, strict=True):
            table.insert(0, "", LABELS.get(metric, metric))
        whole = pd.concat(parts, ignore_index=True).rename(columns={"data set": "data sets"}).fillna("")
        sections.append(Section("Means over data sets", text, whole, name="means"))
    else:
        for metric in metrics:
            table = tables.beside(protocol, lines, metric)
            title = LABELS.get(metric, metric)
            title = title[0].upper() + title[1:]
            sections.append(Section(title, text if metric == first else [], table, name=metric))
    if protocol.ruler and not protocol.summary:
        sections.append(_relative(protocol, lines, first))
    pairs = lines[(lines["metric"] == first) & lines["ours"].notna() & lines["paper"].notna()]
    pairs = pairs[~pairs["dataset"].isin(list(protocol.means))]
    if len(pairs) > 2:
        figures.save(pictures.against_published(pairs, LABELS.get(first, first)), folder / "published")
        sections[0].figures.append(("published", "Our values against the published ones."))
        lower = ranks.lower_is_better(first)
        for kind, part in pairs.groupby("role"):
            better = part["ours"] <= part["paper"] if lower else part["ours"] >= part["paper"]
            sections[0].text.append(
                f"At {'most' if lower else 'least'} the paper's number in {int(better.sum())} of {len(part)} pairs of "
                f"a data set and a method: {tables.ROLES[str(kind)]}."
            )
    for option in protocol.sweeps:
        for metric in metrics:
            own = pictures.swept(option, lines[lines["metric"] == metric])
            if own.empty:
                continue
            figure = pictures.sweep(protocol, option, own, LABELS.get(metric, metric))
            figures.save(figure, folder / f"sweep_{option}_{metric}")
            caption = f"{LABELS.get(metric, metric)} against {option}."
            sections[-1].figures.append((f"sweep_{option}_{metric}", caption))
    return sections + _tests(protocol, rows, folder)


def _relative(protocol: Protocol, lines: pd.DataFrame, metric: str) -> Section:
    """The first metric by the protocol's ruler."""
    ruled = relative(lines[lines["metric"] == metric], protocol.ruler).assign(deviation=np.nan, paper_deviation=np.nan)
    what = "what it is below one" if not ranks.lower_is_better(metric) else "the error"
    text = (
        f"Of {LABELS.get(metric, metric)}, {what}, divided by that of {protocol.ruler} on the same split, ours by ours "
        "and the paper's by the paper's: splits differ, and this does not depend on them as much. Lower is better."
    )
    table = tables.beside(protocol, ruled.assign(metric="relative_mse"), "relative_mse")
    return Section(f"Relative to {protocol.ruler}", [text], table, name="relative")


def _tests(protocol: Protocol, rows: pd.DataFrame, folder: Path) -> list[Section]:
    """Statistical tests on the first metric, over data sets (and depths)."""
    metric, lower = protocol.metrics[0], ranks.lower_is_better(protocol.metrics[0])
    if metric not in rows:
        return []
    problem = ["dataset", "depth", "leaves"]
    rows = tables.at_every_depth(rows)
    rows = rows.assign(**{name: rows[name].astype(object).where(rows[name].notna(), "") for name in problem})
    wide = rows.pivot_table(index=problem, columns="method", values=metric, aggfunc="mean")
    table = tables.complete(wide.reindex(columns=[m for m in protocol.methods if m in wide]))
    if table.shape[0] < 2 or table.shape[1] < 2:
        return []
    about = (
        f"Over the {len(table)} problems (a data set{' at a depth' if protocol.depths else ''}) on which every method "
        f"has a value of {LABELS.get(metric, metric)}."
    )
    sections = []
    if "friedman" in protocol.tests:
        mean, statistic, p = ranks.friedman(table, lower=lower)
        frame = pretty(mean.rename("average rank").rename_axis("method").reset_index())
        section = Section("Friedman ranks", [about], frame, name="friedman")
        if np.isfinite(p):
            section.text.append(f"Friedman's test that all rank alike: statistic {statistic:.3g}, p = {p:.2g}.")
            figures.save(pictures.critical_difference(table, lower=lower), folder / "ranks")
            section.figures.append(
                ("ranks", "Average ranks; bars join what Nemenyi's test does not tell apart at 5 %.")
            )
        sections.append(section)
    if {"paired_t", "wilcoxon"} & set(protocol.tests) and protocol.baseline in table:
        frame = statistics.paired(table, protocol.baseline).rename_axis("method").reset_index()
        drop = [c for c in map(str, frame) if ("(t)" in c or c == "t") and "paired_t" not in protocol.tests]
        drop += [c for c in map(str, frame) if "Wilcoxon" in c and "wilcoxon" not in protocol.tests]
        text = [about, f"Method less {protocol.baseline}; Wilcoxon's p-values also with Holm's correction."]
        sections.append(
            Section(
                f"Paired tests against {protocol.baseline}",
                text,
                pretty(frame.drop(columns=drop)),
                name="paired",
            )
        )
    if {"mrr", "mrd"} & set(protocol.tests):
        both = ranks.mean_reciprocal_rank(table, lower=lower).rename(columns={"deviation": "MRR's deviation"})
        both = both.join(
            ranks.mean_relative_difference(table, lower=lower).rename(columns={"deviation": "MRD's deviation"})
        )
        text = [about, "Mean reciprocal rank, and mean relative difference to the best, |best - value| / value."]
        sections.append(Section("MRR and MRD", text, pretty(both.rename_axis("method").reset_index()), name="mrr"))
    return sections


def _slices(protocol: Collection, every: pd.DataFrame) -> Section:
    """How the runs of each part ended."""
    lines = []
    for part in protocol.parts:
        ids = {one.run_id for one in part.runs("") if one.split == 0}
        own = every[every["run_id"].isin(ids)].sort_values("finished").drop_duplicates("run_id", keep="last")
        counts = own["status"].value_counts()
        ends = {status: int(counts.get(status, 0)) for status in ("ok", "skipped", "failed")}
        seconds = float(own["fit_seconds"].sum()) if "fit_seconds" in own else np.nan
        lines.append({"protocol": part.name, "source": part.source, "runs": len(ids), **ends, "seconds": seconds})
    text = ["A slice of each protocol: its methods on the first of its data sets, with few rows and one split."]
    return Section("Slices", text, pretty(pd.DataFrame(lines)), name="slices")


def _methods(protocol: Protocol) -> Section:
    """What each method is, with its options under the budget."""
    lines = []
    for label, method in protocol.methods.items():
        searched = "; ".join(f"{option} in {values}" for grid in method.grids for option, values in grid.items())
        tried = f"{searched}{f' ({method.trials} drawn)' if method.trials else ''}"
        options = [f"{option}={value!r}" for option, value in method.options.items()]
        options += [f"on {len(method.per_dataset)} data sets others"] if method.per_dataset else []
        line = {
            "method": label,
            "stands for": protocol.stands_for(label),
            "is": tables.ROLES[tables.role(protocol, label)],
            "use": method.use or f"best of {', '.join(method.peers)}",
            "options": ", ".join(options),
            "searched": tried,
        }
        lines.append(line)
    text = ["Options under this budget; of an estimator, the others are its defaults."]
    return Section("Methods", text, pd.DataFrame(lines))


def _summary(protocol: Protocol, rows: pd.DataFrame) -> dict[str, object]:
    """What the index of all results says of a report."""
    wanted = len(protocol.ids)
    return {
        "protocol": protocol.name,
        "budget": protocol.budget,
        "runs": int(rows["run_id"].nunique()),
        "wanted": wanted,
        "hours": round(float(rows.drop_duplicates("run_id")["fit_seconds"].sum()) / 3600.0, 3),
        "seeds": len(protocol.seeds),
        "code": sorted(rows["code_version"].unique()),
    }


def _missing(protocol: Protocol, every: pd.DataFrame) -> Section:
    """Runs that gave no row, by reason."""
    wanted, rows = protocol.ids, protocol.newest(every)
    absent = len(wanted) - len(rows)
    rows = rows[rows["status"] != "ok"]
    text = [] if not absent else [f"{absent} of {len(wanted)} runs have not been done yet."]
    if rows.empty:
        return Section("Runs without a row", text or ["None: every run ended well."])
    reason = rows["reason"].str.strip().str.split("\n").str[-1]
    table = (
        rows.assign(reason=reason)
        .groupby(["method", "status", "reason"], sort=False)
        .size()
        .rename("runs")
        .reset_index()
    )
    text.append("Skipped: the method is not there, or cannot treat the problem. Failed: the store holds the traceback.")
    return Section("Runs without a row", text, table.astype(str), name="missing")


def _about(protocol: Protocol, rows: pd.DataFrame, sessions: pd.DataFrame) -> Section:
    """Where the numbers come from."""
    used = sessions[sessions["session"].isin(set(rows["session"]))]
    versions = ", ".join(f"{name} ({count} runs)" for name, count in rows["code_version"].value_counts().items())
    text = [
        f"Budget {protocol.budget}: {len(rows)} runs, {rows['fit_seconds'].sum() / 60:.0f} minutes of fits in all; "
        f"seeds {', '.join(map(str, protocol.seeds))}; splits {_splits(protocol)}.",
        f"Code version: {versions}.",
    ]
    for row in used.drop_duplicates(["cpu", "threads", "libraries"]).to_dict("records"):
        libraries = ", ".join(f"{name} {version}" for name, version in json.loads(row["libraries"]).items())
        text.append(
            f"{row['cpu']}, {row['cores']} cores, {row['memory_gb']:g} GB, {row['system']}, Python {row['python']}; "
            f"{row['jobs']} runs at a time with {row['threads']} threads each; {libraries}."
        )
    return Section("About these numbers", text)


def _splits(protocol: Protocol) -> str:
    splits = protocol.splits
    if splits.kind == "holdout":
        return f"random, {100 * (1 - splits.test_size):g} % of the rows for training"
    return f"{splits.k}-fold, {'new folds for every seed' if splits.per_seed else 'the same folds for all seeds'}"


def _all_runs(rows: pd.DataFrame) -> Section:
    shown = [name for name in SHOWN if name in rows and rows[name].notna().any()]
    table = rows[shown].copy()
    if "depth" in table:
        table["depth"] = table["depth"].map(lambda d: "" if pd.isna(d) else str(int(d)))
    return Section("All runs", ["One line per run."], pretty(table))
