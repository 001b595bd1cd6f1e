"""What commands share: tables and their targets, places of files, figures, Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opttree.runtime.escape import plain
from opttree.runtime.words import shown

if TYPE_CHECKING:
    import pandas as pd

    from opttree.tables.reading import Reading

DATE_ORDERS = ("auto", "day-first", "month-first", "none")


def task_of(args: argparse.Namespace, y: pd.Series) -> str:
    """The task asked for, or the task that the target suggests, which is said where it is a guess."""
    from opttree.tables import datasets

    task = str(args.task) if args.task else datasets.guess_task(y)
    if task == "regression" and y.dtype.kind not in "iufb":
        text = f"column {y.name!r} holds text such as {shown(y.iloc[0])}"
        raise ValueError(f"--task regression needs a target of numbers, and {text}: use --task classification")
    if task == "classification" and y.dtype.kind not in "iub" and y.nunique() > max(0.5 * len(y), 2):
        words = f"target column {y.name!r} must have labels with some rows each"
        raise ValueError(f"{words}; got {y.nunique()} different ones in {len(y)} rows, such as {shown(y.iloc[0])}")
    if args.task:
        return task
    if task == "classification" and y.dtype.kind in "iuf":
        values = sorted(y.unique())
        print(f"{plain(args.target)} is {values[0]:g} or {values[1]:g}: classification (--task regression for numbers)")
    return task


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Options that say how a table is written."""
    group = parser.add_argument_group("how the table is written; by default, the file tells")
    group.add_argument("--sep", metavar="CHAR", help="the character between columns; the word tab is accepted")
    group.add_argument("--decimal", choices=(".", ","), help="what stands before decimals")
    group.add_argument("--thousands", metavar="CHAR", help="what stands between thousands")
    group.add_argument("--encoding", metavar="NAME", help="such as latin-1")
    group.add_argument("--na", action="append", default=[], metavar="TEXT", help="a text that marks blanks; repeatable")
    group.add_argument("--drop", default="", metavar="COL,COL", help="columns to leave out")
    group.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="whether the first line has names, else x0, x1, ..."
    )
    group.add_argument("--dates", choices=DATE_ORDERS, default="auto", help="how 01/02/2024 is meant; none: stays text")


def names_in(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def add_skipping(parser: argparse.ArgumentParser) -> None:
    """Add the option that leaves out rows without a target."""
    parser.add_argument("--skip-blank-targets", action="store_true", help="leave out rows without a target")


def reading_of(args: argparse.Namespace, path: str, text: Any = (), like: Any = None, known: Any = None) -> Reading:
    """The table of a file, by the options that say how it is written."""
    from opttree.tables.reading import read

    sep = "\t" if args.sep in ("tab", "\\t") else args.sep
    options = {name: getattr(args, name) for name in ("decimal", "thousands", "encoding", "na", "header", "dates")}
    drop = names_in(args.drop)
    try:
        return read(path, sep=sep, drop=drop, text=text, like=like, known=known, **options)
    except ValueError as error:
        name = str(error).partition(" ")[0]
        raise ValueError(f"--{error}" if name in ("sep", "drop", *options) else str(error)) from error


def table_for(args: argparse.Namespace, model: Any) -> pd.DataFrame:
    """The rows of a file for a saved model: texts where it was trained on texts, the others as they were read then."""
    from opttree.tables.form import Form

    columns = () if model.encoding is None else model.encoding.columns
    text = {column.name for column in columns if column.is_category}
    known = {column.name: column.kind for column in columns} or dict.fromkeys(model.feature_names, "number")
    like = model.form or Form(separator="", decimal="")  # of a model that Python has saved, the file tells
    reading = reading_of(args, args.data, text=text, like=like, known=known)
    for note in reading.notes:
        print(f"opttree: {plain(note)}", file=sys.stderr)
    return reading.frame


def table_of(args: argparse.Namespace) -> tuple[pd.DataFrame, pd.Series]:
    """Features and target of a CSV or Parquet file."""
    reading = reading_of(args, getattr(args, "file", None) or args.data)
    X, y = parted(args, reading)
    return X, y


def parted(args: argparse.Namespace, reading: Reading) -> tuple[pd.DataFrame, pd.Series]:
    """Features and target of a table that was read."""
    path, frame = getattr(args, "file", None) or args.data, reading.frame
    if args.target not in frame.columns:
        raise ValueError(f"--target must be a column of {path}: {', '.join(frame.columns)}; got {args.target!r}")
    y = frame[args.target]
    blank = y.isna()
    if blank.any() and getattr(args, "skip_blank_targets", False):
        frame = frame[~blank].reset_index(drop=True)
        y = frame[args.target]
    elif blank.any():
        hint = ": --skip-blank-targets leaves these rows out" if hasattr(args, "skip_blank_targets") else ""
        hint += "".join(f"; {note}" for note in reading.of_columns.get(args.target, ()))
        raise ValueError(f"target column {args.target!r} must have no missing values; got {int(blank.sum())}{hint}")
    if y.dtype.kind in "mM":
        raise ValueError(
            f"target column {args.target!r} must hold numbers or labels; got dates (--dates none: as text)"
        )
    if frame.shape[1] == 1:
        raise ValueError(f"{path} must have at least one column besides the target; got none")
    check_finite(frame, [args.target])
    return frame.drop(columns=args.target), y


def check_finite(frame: pd.DataFrame, targets: list[str]) -> None:
    """ValueError for an infinite number in any row: a fit would not see those of the rows that it holds out."""
    from pandas.api.types import is_float_dtype

    for name, column in frame.items():
        if is_float_dtype(column) and np.isinf(column.to_numpy(np.float64, na_value=np.nan)).any():
            what = "target" if name in targets else "X"
            raise ValueError(
                f"{what} column {name!r} must be finite; got infinity (inf): clip or remove such rows first"
            )


def go_on(args: argparse.Namespace) -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed; for places where no result would be lost."""
    if args.interrupted():
        raise KeyboardInterrupt


def check_place(option: str, path: str) -> None:
    """ValueError unless a path names a file in an existing folder."""
    if not Path(path).resolve().parent.is_dir() or Path(path).is_dir():
        raise ValueError(f"{option} must be a file in an existing folder; got {path!r}")


def save_figure(axes: Any, path: Path) -> None:
    """Write the figure of some axes, whole or not at all."""
    from opttree.runtime.files import whole_file

    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        draw(axes, file)


def draw(axes: Any, path: Path) -> None:
    """Write the figure of some axes and close it."""
    import matplotlib.pyplot as plt

    axes.figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(axes.figure)


def is_other(model: Any) -> bool:
    """Whether the model of a floor is not the tree of its result: it is a fallback, or begins with a linear model."""
    if not hasattr(model, "floor_errors_"):
        return False
    return model.fallback_ is not None or model.tree_.linear_leaves != model.result_.tree.linear_leaves
