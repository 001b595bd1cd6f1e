"""The commands ``opttree export`` and ``opttree explain``: saved models for other programs, and for people."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opttree.cli.common import check_place, go_on

ENDINGS = {
    ".onnx": "onnx", ".c": "c", ".sql": "sql", ".dot": "dot", ".gv": "dot", ".csv": "rules", ".html": "html",
    ".json": "json", ".tl": "treelite",
}  # fmt: skip


def add_parsers(commands: Any) -> None:
    """Add the commands to the parser of ``opttree``."""
    export = commands.add_parser("export", help="write a saved model for other programs")
    export.add_argument("model", metavar="MODEL")
    export.add_argument("--to", choices=sorted(set(ENDINGS.values())), help="default: by the ending of --out")
    export.add_argument(
        "--out", required=True, metavar="FILE", help="the file; of C, the source, with header and Makefile beside it"
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
    explain.set_defaults(run=_explain)


def _export(args: argparse.Namespace) -> None:
    from opttree import export
    from opttree.model import files as io
    from opttree.runtime.files import whole_file

    path = Path(args.out)
    kind = args.to or ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(
            f"--out must end in one of {', '.join(ENDINGS)}, or --to must say the format; got {args.out!r}"
        )
    check_place("--out", args.out)
    model = io.load(args.model)
    if kind == "c":
        header, source = export.to_c(model, path.resolve().parent, name=path.stem, dtype=args.dtype)
        print(f"written to {source.name}, {header.name} and Makefile in {source.parent}")
        return
    keep = [column.strip() for column in args.keep.split(",") if column.strip()]
    write: dict[str, Callable[[Path], Any]] = {
        "onnx": lambda file: export.to_onnx(model, file, dtype=args.dtype),
        "sql": lambda file: _write(file, export.to_sql(model, args.table, keep=keep) + ";\n"),
        "dot": lambda file: _write(file, export.to_dot(model)),
        "rules": lambda file: export.to_rules(model).to_csv(file, index=False),
        "html": lambda file: _write(file, export.to_html(model)),
        "json": lambda file: io.save(model, file),
        "treelite": lambda file: export.to_treelite(model).serialize(str(file)),
    }
    with whole_file(path) as file:
        try:
            write[kind](file)
        except ImportError as error:
            raise ValueError(str(error)) from error
    print(f"{kind}: {args.out}")


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def _explain(args: argparse.Namespace) -> None:
    from opttree import explain
    from opttree.model import files as io
    from opttree.model.forest import Forest
    from opttree.tables import datasets

    model = io.load(args.model)
    frame = datasets.read_table(args.data)
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
