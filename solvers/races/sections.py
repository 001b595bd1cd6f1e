"""What a report of a race says: its sections, with their tables and pictures; `race_page` is all of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from solvers.races import figures, profiles
from solvers.races.compare import TOLERANCES, Comparison
from solvers.races.page import Section, page, pretty
from solvers.races.plans import Plan
from solvers.races.proofs import SCORE, Proofs


def race_page(plan: Plan, race: Comparison, references: pd.DataFrame, runs: pd.DataFrame, folder: Path) -> str:
    """The page of a race of one's own problems; its figures go to ``folder``."""
    proved = int(race.proved.sum())
    text = [
        "What gaps, profiles and integrals are to: the proved optimum, where a solver of ours that covers all trees of "
        f"the statement proved it ({proved} of {len(references)} problems), else the best objective that one found."
    ]
    known = Section("References", text, pretty(references.reset_index()))
    every = Section("All runs", [], pretty(runs))
    proofs = proof_sections(Proofs(race), folder, scored=False)
    return page(plan, [known, *race_sections(race, folder), *proofs, every], folder)


def _by_solver(table: pd.DataFrame) -> pd.DataFrame:
    """A table of numbers with a line per solver, as text."""
    return pretty(table.rename_axis("solver").reset_index())


def proof_sections(proofs: Proofs, folder: Path, *, scored: bool = True) -> list[Section]:
    """Who has proved what; nothing where no solver gives bounds. Distances from the optimum if runs are ``scored``."""
    if not proofs.bounding:
        return []
    race, end = proofs.race, proofs.race.horizon
    text = [
        "A problem is proved with a seed if the solver said so and no tree of the race is below its bound, by more "
        "than rounding (1e-9 of the objective). PAR-10: mean seconds to proof over all problems, ten times the limit "
        "where there is none, refused problems among them. Seconds to proof (shifted geometric mean, shift .1 s; the "
        f"limit where there is none), CPU seconds and gaps are over the {len(race.common)} problems that every solver "
        "ran. Medians over seeds. Refused: the solver does not state the problem; failed: it ended in an error; out "
        "of time: it ran to the limit without a proof; not run: nobody asked it.",
    ]
    pictures = _proof_pictures(proofs, folder)
    sections = [Section("Proofs", text, pretty(proofs.summary()), name="proofs", figures=pictures)]
    fallen = proofs.refutations()
    words = "Bounds above a tree of the race." if len(fallen) else "No bound is above any tree of the race."
    sections.append(Section("Bounds that fell", [words], fallen if len(fallen) else None, name="refuted"))
    integrals = pd.DataFrame(
        {
            "dual integral %": 100.0 * race.on_common(proofs.dual_integrals()).mean(),
            "primal-dual integral %": 100.0 * race.on_common(proofs.primal_dual_integrals()).mean(),
        }
    )
    text = [
        f"Integrals over {end:g} s divided by that time, mean over the problems that every solver ran: of the gap "
        "between the reference and the bound; of the gap between a solver's own tree and its bound."
    ]
    table = _by_solver(integrals.sort_values("dual integral %"))
    sections.append(Section("Dual integrals", text, table, name="dual_integrals"))
    first = str(proofs.seconds().replace(np.inf, 10.0 * end).mean().idxmin())
    if len(proofs.bounding) > 1:
        text = [f"Times to proof beside those of {first}, on problems that both have proved; geometric mean."]
        sections.append(Section("Proved by both", text, _by_solver(proofs.speedups(first)), name="speedups"))
    text = ["Seconds to the proof, or the solver's own relative gap at the limit; nodes, where it counts them."]
    sections.append(Section("Problem by problem", text, proofs.table(), name="problems"))
    return [*sections, _distances(proofs, folder)] if scored else sections


def _proof_pictures(proofs: Proofs, folder: Path) -> list[tuple[str, str]]:
    """Three profiles."""
    end, names = proofs.race.horizon, proofs.bounding
    factors, gaps = proofs.performance_profile(), proofs.gap_profile()
    gaps = gaps.rename(index=lambda gap: max(gap, 1e-6)).groupby(level=0).max()
    profile, words = figures.profile, "seconds / seconds of the fastest"
    pictures = {
        "proof_performance": (
            profile(factors, names, words, end=1e4, title="to a proof"),
            "Performance profile: share of problems proved within a factor of the fastest.",
        ),
        "proof_data": (
            profile(proofs.time_profile(), names, "seconds", start=1e-3, end=end, title="to a proof"),
            "Time to proof: share of problems proved within so many seconds.",
        ),
        "proof_gaps": (
            profile(gaps, names, f"own gap at {end:g} s", start=1e-6, end=1.0, title="gaps"),
            "Gap profile: share of problems on which a solver's own gap is at most so large.",
        ),
    }
    for name, (figure, _caption) in pictures.items():
        figures.save(figure, folder / name)
    return [(name, caption) for name, (_figure, caption) in pictures.items()]


def _distances(proofs: Proofs, folder: Path) -> Section:
    """How far solvers' trees are from the optimum, and what that is worth."""
    distances = proofs.distances()
    figures.save(figures.distances(distances, proofs.race.solvers), folder / "distances")
    text = [
        "How far each solver's training objective is above the proved optimum, relative to its own, and how far it is "
        "at most, by the best bound, over the problems of a depth that every solver ran."
    ]
    if SCORE in distances:
        text[0] += " Test scores are R2 or accuracy, in points of 100, less that of the tree with the lowest objective."
    picture = [("distances", "Mean distance from the proved optimum, by depth.")]
    return Section("How far from optimal", text, pretty(distances), name="distances", figures=picture)


def race_sections(race: Comparison, folder: Path) -> list[Section]:
    """Who reaches the reference, how fast, and what of it is chance."""
    sections = []
    common = f"the {len(race.common)} of {len(race.problems)} problems that every solver ran"
    known = (
        "The reference of a problem is the lowest objective that any solver has found within the longest limit, with "
        f"any seed. Seeds ({race.n_seeds}) are replications: each number is the median over them. Solvers count as "
        f"having the reference within a relative gap of 1e-4. All columns but the first are over {common}. Seconds to "
        "1 %: shifted geometric mean (shift 1 s) of the time until 1 % of the way from the constant tree to the "
        "reference is left; the limit where that is not reached."
    )
    for limit in race.limits:
        text = [known] if limit == race.limits[0] else []
        table = _by_solver(race.summary(limit))
        sections.append(Section(f"Within {limit:g} s", text, table, name=f"within_{limit:g}s"))
    counts = race.counts()
    if counts.drop(columns="ran").to_numpy().any() or race.n_seeds > 1:
        text = ["Runs (problems times seeds), by how they ended."]
        sections.append(Section("Runs", text, counts.rename_axis("solver").reset_index(), name="counts"))
    if len(race.solvers) > 1 and len(race.common) > 1:
        compared = race.compare()
        text = [
            f"Gaps {compared.index.name}, over {common}; Wilcoxon's signed-rank test over problems, each counting "
            "once; Holm's step-down. More, equal, less: on how many problems the gap is."
        ]
        sections.append(Section("Tests", text, _by_solver(compared), name="tests"))
    cpu = race.on_common(race.cpu_seconds())
    if cpu.notna().to_numpy().any():
        wall = race.rows.groupby(["problem", "method"])["fit_seconds"].median().unstack()
        wall = wall.reindex(index=list(race.common), columns=race.solvers)
        used = pd.DataFrame({"wall seconds": wall.mean(), "CPU seconds": cpu.mean()})
        used[["PAR-2", "PAR-10"]] = np.column_stack([race.par(2.0), race.par(10.0)])
        text = [
            f"Mean seconds of a run on the clock and of the CPU, over {common}; penalised mean seconds to 1 % of the "
            "reference over all problems."
        ]
        sections.append(Section("Seconds", text, _by_solver(used), name="seconds"))
    curves = []
    for title, part in race.by_leaves():
        stem = title.replace(" ", "_")
        figures.save(figures.convergence(part.curves(), part.solvers, title=title), folder / f"gap_{stem}")
        curves.append((f"gap_{stem}", f"Mean gap to the reference against seconds, {title}."))
    sections.append(
        Section("Objective against time", [f"Mean primal gap over {common}, on one clock."], figures=curves)
    )
    text = [
        "Solved to x %: x % of the way from the constant tree to the reference are left (Moré and Wild). Shares are "
        "of all problems; those that a solver was refused, or did not run, count as not solved."
    ]
    sections.append(Section("Profiles", text, figures=_profiles(race, folder)))
    integrals = race.on_common(race.integrals())
    frame = pd.DataFrame(
        {"mean": 100 * integrals.mean(), "median": 100 * integrals.median(), "worst": 100 * integrals.max()}
    )
    text = [
        f"Berthold's primal integral over {race.horizon:g} s divided by that time: an average gap in %; 0 is best. "
        f"Over {common}."
    ]
    sections.append(Section("Primal integral", text, _by_solver(frame.sort_values("mean")), name="primal_integral"))
    for limit in race.limits:
        text = ["Two solvers share the time, and the better tree counts."] if limit == race.limits[0] else []
        table = pretty(race.portfolios(limit).head(8))
        sections.append(Section(f"Portfolios within {limit:g} s", text, table, name=f"portfolios_{limit:g}s"))
    return [*sections, _by_depth(race)]


def _profiles(race: Comparison, folder: Path) -> list[tuple[str, str]]:
    """A performance and a data profile for each of the smaller tolerances."""
    pictures = []
    for tolerance in TOLERANCES[1:]:
        cost = race.seconds_to(tolerance)
        percent, name = f"{100 * tolerance:g} %", f"{1000 * tolerance:g}_per_mille"
        factors, shares = profiles.performance_profile(cost), profiles.data_profile(cost)
        words, title = "seconds / seconds of the fastest", f"to {percent}"
        figure = figures.profile(factors, race.solvers, words, end=1e4, title=title)
        figures.save(figure, folder / f"performance_{name}")
        figure = figures.profile(shares, race.solvers, "seconds", start=1e-3, end=race.horizon, title=title)
        figures.save(figure, folder / f"data_{name}")
        caption = f"Performance profile: share of problems solved to {percent} within a factor of the fastest."
        pictures.append((f"performance_{name}", caption))
        pictures.append((f"data_{name}", f"Data profile: share of problems solved to {percent} within a time."))
    return pictures


def _by_depth(race: Comparison) -> Section:
    """The mean gaps on the problems of each depth and kind of leaves."""
    lines = []
    for title, part in race.groups():
        for limit in race.limits:
            summary = part.summary(limit)
            leader, gaps = summary.index[0], summary["mean gap %"]
            lines.append({"problems of": title, "limit s": limit, "best": leader, **gaps.reindex(race.solvers)})
    text = ["Mean gap in % to the reference over the problems that every solver of the group ran; best: the smallest."]
    return Section("By depth and leaves", text, pretty(pd.DataFrame(lines)), name="by_depth")
