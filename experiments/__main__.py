"""``python -m experiments list | run PROTOCOL | report PROTOCOL``.

Exit codes: 0 done; 1 some runs failed (their rows say why); 2 bad input, with one sentence on standard error; 130
interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

try:
    from experiments import reading
    from experiments.protocol import FOLDER
    from solvers.races.store import Store
except ImportError as error:
    sys.exit(f"experiments needs pip install opttree[experiments]; {error.name} is missing")

CLONE = (FOLDER.parent / "setup.cfg").exists()
RUNS = FOLDER / "runs" if CLONE else Path("experiments_runs")  # not into a wheel
RESULTS = FOLDER / "results" if CLONE else RUNS / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except (ValueError, OSError) as error:
        print(f"experiments: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("experiments: interrupted; finished runs are stored", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Published tables on one command.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="the papers' tables and figures with their protocols, and all others")
    listing.set_defaults(run=_list)
    indexing = commands.add_parser("index", help="write results/INDEX.md: every table, its means, where we fall short")
    indexing.set_defaults(run=_index)

    run = commands.add_parser("run", help="do the runs of a protocol that the store does not hold")
    _common(run)
    run.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time; default %(default)s")
    run.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE]",
        help="only these runs; NAME is dataset, method, depth, leaves, seed or split; may be repeated",
    )
    run.add_argument("--backend", choices=("local", "dask"), default="local")
    run.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster")
    run.add_argument("--quiet", action="store_true", help="no progress bar")
    run.set_defaults(run=_run)

    report = commands.add_parser("report", help="tables, tests and figures of a protocol's stored rows")
    _common(report)
    report.add_argument("--out", metavar="FOLDER", help="default: experiments/results/PROTOCOL_BUDGET")
    report.set_defaults(run=_report)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("protocol", metavar="PROTOCOL", help="one that `list` names, or the path of a .toml file")
    parser.add_argument("--budget", default="full", help="quick, full (the default), or another that the file states")
    parser.add_argument("--store", default=str(RUNS), metavar="FOLDER", help="where results are kept")


def _list(_args: argparse.Namespace) -> int:
    from experiments import index

    print(index.listing(RESULTS))
    return 0


def _index(_args: argparse.Namespace) -> int:
    from experiments import index

    path = RESULTS / "INDEX.md"
    path.write_text(index.index(RESULTS))
    print(path)
    return 0


def _run(args: argparse.Namespace) -> int:
    from solvers.races import runner

    only: dict[str, list[str]] = {}
    for item in args.only:
        name, equals, values = item.partition("=")
        if not equals or not values:
            raise ValueError(f"--only must look like dataset=airfoil,yacht; got {item!r}")
        only.setdefault(name, []).append(values)
    stated = reading.read(args.protocol, args.budget)
    stated.check()
    store = Store(stated.store, Path(args.store))
    counts = runner.run(
        stated,
        store,
        jobs=args.jobs,
        only=only,
        backend=args.backend,
        scheduler=args.scheduler,
        progress=not args.quiet,
    )
    print(", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "nothing to do")
    print(f"store: {store.path('rows')}")
    return 1 if counts["failed"] else 0


def _report(args: argparse.Namespace) -> int:
    from experiments import report

    stated = reading.read(args.protocol, args.budget)
    folder = Path(args.out) if args.out else RESULTS / f"{stated.name}_{args.budget}"
    for path in report.write(stated, Store(stated.store, Path(args.store)), folder):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
