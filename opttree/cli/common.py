"""What commands share: tables and their targets, places of files, figures, Ctrl-C."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def task_of(args: argparse.Namespace, y: pd.Series) -> str:
    """The task asked for, or the task that the target suggests, which is said where it is a guess."""
    from opttree.tables import datasets

    if args.task:
        return str(args.task)
    task = datasets.guess_task(y)
    if task == "classification" and y.dtype.kind in "iuf":
        values = sorted(y.unique())
        print(f"{args.target} is {values[0]:g} or {values[1]:g}: classification (--task regression for numbers)")
    return task


def table_of(args: argparse.Namespace) -> tuple[pd.DataFrame, pd.Series]:
    """Features and target of a CSV or Parquet file."""
    from opttree.tables import datasets

    path = getattr(args, "file", None) or args.data
    frame = datasets.read_table(path)
    if args.target not in frame.columns:
        raise ValueError(f"--target must be a column of {path}: {', '.join(frame.columns)}; got {args.target!r}")
    y = frame[args.target]
    if y.isna().any():
        raise ValueError(f"target column {args.target!r} must have no missing values; got {int(y.isna().sum())}")
    if frame.shape[1] == 1:
        raise ValueError(f"{path} must have at least one column besides the target; got none")
    return frame.drop(columns=args.target), y


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
