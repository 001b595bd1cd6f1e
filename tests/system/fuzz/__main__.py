"""A campaign: ``python -m tests.system.fuzz --minutes 60``.

Each part has its share of the time; failures do not end it. The table goes to ``experiments/results/reliability/``:
cases, failures, seeds and the version of the code, and each different failure with the seed that shows it.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import time
from pathlib import Path

from solvers.races.runs import code_version
from tests.system.fuzz.campaign import PARTS, work

SHARES = {"estimators": 0.42, "limits": 0.1, "solvers": 0.18, "oracle": 0.15, "files": 0.07, "tables as text": 0.08}
REPORT = Path(__file__).parents[3] / "experiments" / "results" / "reliability" / "fuzz.md"


def main() -> None:
    """The campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=REPORT)
    args = parser.parse_args()
    began = time.time()
    cases: collections.Counter[str] = collections.Counter()
    seeds: dict[str, list[int]] = collections.defaultdict(list)
    failed: dict[str, dict[str, str]] = collections.defaultdict(dict)
    whole = sum(SHARES[part] for part in args.parts)
    context = multiprocessing.get_context("spawn")
    until = began
    for part in args.parts:
        until += 60.0 * args.minutes * SHARES[part] / whole
        found: multiprocessing.Queue = context.Queue()
        workers = [
            context.Process(target=work, args=(part, args.first_seed + k, args.jobs, until, found))
            for k in range(args.jobs)
        ]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers) or not found.empty():
            if found.empty():
                time.sleep(0.2)
                continue
            name, number, count, failures = found.get()
            cases[name] += count
            seeds[name].append(number)
            for key, note in failures.items():
                failed[name].setdefault(key, note)
        if any(worker.exitcode for worker in workers):
            failed[part]["a process died"] = str([worker.exitcode for worker in workers])
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(table(cases, seeds, failed, time.time() - began))
    print(args.out.read_text())


def table(
    cases: collections.Counter[str], seeds: dict[str, list[int]], failed: dict[str, dict[str, str]], seconds: float
) -> str:
    """The report, as Markdown."""
    lines = [
        "# Fuzzing",
        "",
        f"`python -m tests.system.fuzz`, {seconds / 60.0:.0f} minutes, version {code_version()}.",
        "",
        "| part | cases | different failures | seeds |",
        "|:--|--:|--:|:--|",
    ]
    for part, count in cases.items():
        lines.append(f"| {part} | {count} | {len(failed[part])} | {min(seeds[part])} to {max(seeds[part])} |")
    lines += [f"| all | {sum(cases.values())} | {sum(map(len, failed.values()))} | |", ""]
    for part, notes in failed.items():
        lines += [f"- {part}: {key}: {note}" for key, note in notes.items()]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    main()
