"""The command ``opttree race``: solvers on CSV files or data sets, on one clock."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command to the parser of ``opttree``."""
    race = commands.add_parser("race", help="run solvers on CSV files or data sets and compare them on one clock")
    race.add_argument("problems", nargs="+", metavar="DATA", help="CSV files, folders of them, or names of data sets")
    race.add_argument("--target", metavar="COLUMN", help="column to predict of CSV files; default: the last")
    race.add_argument("--solvers", required=True, metavar="S;S", help='such as "TAO();Chain(TAO(),LocalSearch())"')
    race.add_argument("--time-limit", type=float, required=True, metavar="SECONDS", help="for each run")
    race.add_argument("--depth", type=int, default=3, metavar="D")
    race.add_argument("--splits", choices=("axis", "oblique"), default="axis")
    race.add_argument("--leaves", choices=("constant", "linear"), default="constant")
    race.add_argument("--seeds", type=int, default=1, metavar="N", help="random states: replications of each run")
    race.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time")
    race.add_argument(
        "--store", metavar="FOLDER", help="keeps the runs, so that a stopped race goes on; default: OUT/store"
    )
    race.add_argument("--out", default="out", metavar="FOLDER", help="where the page, table and pictures go")
    race.set_defaults(run=_race)


def _race(args: argparse.Namespace) -> None:
    from opttree.estimators.bridge import race
    from opttree.runtime.interrupts import in_background

    options = {"depth": args.depth, "splits": args.splits, "leaves": args.leaves, "target": args.target}
    store = args.store or Path(args.out) / "store"
    working = in_background(
        lambda: race(
            args.problems,
            args.solvers,
            args.time_limit,
            seeds=range(args.seeds),
            n_jobs=args.jobs,
            store=store,
            progress=True,
            **options,
        )
    )
    with closing(working):
        while True:
            try:
                next(working)
            except StopIteration as stop:
                found = stop.value
                break
            if args.interrupted():
                print(f"finished runs are kept in {store}: the same command goes on from there")
                raise KeyboardInterrupt
    print(found)
    print(found.references().reset_index()[["dataset", "reference", "is"]].to_string(index=False))
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    found.to_frame().to_csv(folder / "race.csv", index=False)
    found.to_html(folder / "race.html")
    found.plot(folder)
    print(f"page: {folder / 'race.html'}; runs: {folder / 'race.csv'}; four figures beside them")
