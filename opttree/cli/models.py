"""The commands ``opttree export`` and ``opttree explain``: saved models for other programs, and for people."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from opttree.cli.common import add_reading, check_place, go_on, table_for


def add_parsers(commands: Any) -> None:
    """Add the commands to the parser of ``opttree``."""
    export = commands.add_parser("export", help="write a saved model for other programs")
    export.add_argument("model", metavar="MODEL")
    export.add_argument("--to", metavar="FORMAT", help="onnx, c, sql and others; default: by the ending of --out")
    export.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="the file; of C, the source, with header and Makefile (or NAME.mk) beside it",
    )
    export.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="of onnx and c")
    export.add_argument("--table", default="rows", metavar="NAME", help="of sql; default %(default)s")
    export.add_argument("--keep", default="", metavar="COL,COL", help="of sql: columns to pass on, such as a key")
    export.set_defaults(run=_export)

    explain = commands.add_parser("explain", help="say how a saved model comes to its answers for rows of a file")
    explain.add_argument("model", metavar="MODEL")
    explain.add_argument("data", metavar="DATA", help="a CSV or Parquet file of rows")
    explain.add_argument("--rows", type=int, default=3, metavar="N", help="explain the first N; default %(default)s")
    explain.add_argument(
        "--counterfactual", action="store_true", help="add the nearest row with another answer, of a tree"
    )
    add_reading(explain)
    explain.set_defaults(run=_explain)


def _export(args: argparse.Namespace) -> None:
    from opttree.export.record import exporters
    from opttree.model import files as io
    from opttree.runtime.files import whole_file

    path, known = Path(args.out), exporters()
    if args.to is not None and args.to not in known:
        raise ValueError(f"--to must be one of {', '.join(sorted(known))}; got {args.to!r}")
    endings = {ending: exporter for exporter in known.values() for ending in exporter.endings}
    exporter = known[args.to] if args.to else endings.get(path.suffix.lower())
    if exporter is None:
        raise ValueError(
            f"--out must end in one of {', '.join(endings)}, or --to must say the format; got {args.out!r}"
        )
    check_place("--out", args.out)
    model = io.load(args.model)
    if exporter.beside:
        exporter.write(model, path, args)
        return
    with whole_file(path) as file:
        try:
            exporter.write(model, file, args)
        except ImportError as error:
            raise ValueError(str(error)) from error
    print(f"{exporter.kind}: {args.out}")


def _explain(args: argparse.Namespace) -> None:
    from opttree import explain
    from opttree.model import files as io
    from opttree.model.forest import Forest

    model = io.load(args.model)
    frame = table_for(args, model)
    if args.rows < 1:
        raise ValueError(f"--rows must be >= 1; got {args.rows}")
    if args.counterfactual and isinstance(model.tree, Forest):
        raise ValueError("--counterfactual is for a single tree; got a forest")
    for i in range(min(args.rows, len(frame))):
        go_on(args)
        row = frame[i : i + 1]
        print(f"row {i}: {explain.path(model, row)}")
        if args.counterfactual:
            print(f"nearest row with another answer: {explain.counterfactual(model, row)}")
        print()
