"""The command ``opttree verify``: what a solver claims about a tree, checked against the table and known optima."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from opttree.cli.common import add_reading, table_of

FALSE = 4  # exit code of a claim that does not hold


def add_parser(commands: Any) -> None:
    """Add the command to the parser of ``opttree``."""
    verify = commands.add_parser("verify", help="check a tree, its objective and its bound against a table")
    verify.add_argument("result", metavar="RESULT", help="a JSON file, by `opttree solve --claim` or another program")
    verify.add_argument("--instance", metavar="NAME", help="of experiments/instances.toml; default: as RESULT says")
    verify.add_argument("--folder", help="where files of instances are; default: exact in the folder OPTTREE_DATA")
    verify.add_argument("--data", metavar="FILE", help="or a CSV or Parquet file of numbers, with --target")
    verify.add_argument("--target", metavar="COLUMN", help="column of FILE")
    verify.add_argument("--prove", type=float, metavar="SECONDS", help="search so long for a better tree and a bound")
    add_reading(verify)
    verify.set_defaults(run=_verify)


def _verify(args: argparse.Namespace) -> int:
    from opttree.estimators import bridge
    from opttree.statement import TreeProblem

    solvers = bridge.solvers
    if args.prove is not None and not args.prove > 0.0:
        raise ValueError(f"--prove must be > 0 seconds; got {args.prove:g}")
    try:
        stated = json.loads(Path(args.result).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{args.result!r} must be a readable JSON file; {error}") from error
    if not isinstance(stated, dict):
        raise ValueError(f"{args.result!r} must hold a claim, a mapping; got {type(stated).__name__}")
    optimum = None
    if args.data:
        if args.target is None:
            raise ValueError("--data needs --target")
        frame, target = table_of(args)
        try:
            X, y = frame.to_numpy(float), target.to_numpy()
        except (ValueError, TypeError) as error:
            raise ValueError(f"--data must be a table of numbers; {error}") from error
    else:
        name, known = args.instance or stated.get("instance"), solvers.instances()
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"RESULT or --instance must name one of {', '.join(sorted(known))}; got {name!r}")
        X, y = known[name].load(args.folder)
        if stated.get("loss") == known[name].loss and isinstance(stated.get("depth"), int):
            optimum = known[name].optima.get(stated["depth"])
    found = solvers.verify(stated, X, y, optimum)
    for sentence in found.findings:
        print(f"holds: {sentence}")
    faults = list(found.faults)
    if args.prove is not None:
        problem = TreeProblem(X, y, stated["depth"], splits="axis", loss=stated["loss"])
        result = solvers.solve(problem, solvers.BranchAndBound(), time_limit=args.prove)
        best = solvers.claim("", problem, result)
        print(f"found: {best['objective']:.8g}, bound {best['bound']:.8g}: {result.message}")
        again = solvers.verify(stated, X, y, best["objective"])
        if stated.get("bound") is not None:
            faults += [f for f in again.faults if f.startswith("the bound") and f not in faults]
    for sentence in faults:
        print(f"false: {sentence}")
    return FALSE if faults else 0
