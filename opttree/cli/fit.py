"""The commands ``opttree fit`` and ``opttree look``: a table, what is to be said of it, and a model."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from copy import copy
from pathlib import Path
from typing import Any

from opttree.cli import beyond, tall
from opttree.cli.common import (
    add_reading,
    add_skipping,
    check_finite,
    check_place,
    go_on,
    is_other,
    names_in,
    parted,
    reading_of,
    task_of,
)
from opttree.methods.table import METHODS, make_estimator
from opttree.runtime.escape import plain

METHOD = (
    "tao-axis: a tree with conditions on one feature each; tao or tao-c, the default: on weighted sums of features; "
    "tao-l: with a linear model in each leaf; ort: proved optimal, if ten seconds suffice; forest and "
    "boosted: sums of trees, the most accurate; the others are methods of papers, see `opttree.methods`"
)
FEWEST_HELD_OUT = 2  # rows, of which a score can be made


def add_parsers(commands: Any) -> None:
    """Add the commands."""
    fit = commands.add_parser("fit", help="train a tree or a forest on a CSV or Parquet file and save it")
    fit.add_argument("data", metavar="DATA", help="a CSV or Parquet file, or a pattern such as 'parts/*.parquet'")
    several = "column to predict; with --task policy the columns of rewards, with --task survival EVENT,TIME"
    fit.add_argument("--target", required=True, metavar="COLUMN", help=several)
    fit.add_argument("--method", choices=sorted(fit_methods()), default="tao", help=METHOD)
    tasks = ("regression", "classification", *beyond.TASKS)
    fit.add_argument("--task", choices=tasks, help="default: by the target, of one column")
    tree_options(fit, "auto")
    fit.add_argument("--out", required=True, metavar="MODEL", help="model file, .json or .npz")
    share = "share of the rows held out to test the model, which does not see them; default %(default)s; 0: none"
    fit.add_argument("--test", type=float, default=0.25, metavar="SHARE", help=share)
    fit.add_argument(
        "--categorical", default="", metavar="COL,COL", help="columns of numbers that are categories; text always is"
    )
    add_skipping(fit)
    fit.add_argument("--time-limit", type=float, metavar="SECONDS", help="after which the best model so far is kept")
    fit.add_argument("--verbose", action="store_true", help="show a progress bar")
    tall.add_options(fit)
    add_reading(fit)
    fit.set_defaults(run=_fit)

    look = commands.add_parser("look", help="say what the columns of a CSV or Parquet file hold, and what looks odd")
    look.add_argument("data", metavar="FILE")
    look.add_argument("--target", metavar="COLUMN", help="column to predict")
    add_reading(look)
    look.set_defaults(run=_look)


def fit_methods() -> dict[str, str]:
    """Methods of the toolkit; "tao" is "tao-c"."""
    ours = {name: name for name, method in METHODS.items() if method.family}
    return {"tao": "tao-c", **ours}


def as_named(methods: list[str]) -> list[str]:
    """Methods by the names of the table: "tao" is "tao-c"."""
    return ["tao-c" if name == "tao" else name for name in methods]


def choosing() -> list[str]:
    """Methods of single trees that choose their depth."""
    return [name for name, method in METHODS.items() if method.chooses_depth]


def on_gpu() -> list[str]:
    """Methods that take ``--device``."""
    return [name for name, method in METHODS.items() if method.has_device]


def depth_of(text: str) -> int | str:
    """A number, or a word; see `check_depth`."""
    try:
        return int(text)
    except ValueError:
        return text


def check_depth(depth: int | str) -> None:
    """ValueError for what is no depth."""
    if depth != "auto" and (isinstance(depth, str) or depth < 1):
        raise ValueError(f"--depth must be a whole number >= 1, or auto; got {depth}")


def tree_options(parser: argparse.ArgumentParser, depth: int | str = 4) -> None:
    """Add the options of all trees."""
    parser.add_argument(
        "--depth",
        type=depth_of,
        default=depth,
        metavar="D",
        help=f"largest depth, >= 1, or auto: {', '.join(choosing())} choose it on rows held out, with a linear "
        "model and CART beside them; the others take 4; default %(default)s",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed; default %(default)s")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads; default: all")
    where = (
        f"where {', '.join(on_gpu())} compute: gpu is CuPy, or PyTorch where there is no CuPy; torch is PyTorch; auto "
        "is CuPy if there is a GPU and the problem is large; default %(default)s"
    )
    parser.add_argument("--device", choices=("cpu", "gpu", "torch", "auto"), default="cpu", help=where)


def check_device(device: str, methods: list[str]) -> None:
    """ValueError for a device that is absent, or that no method uses."""
    from opttree.runtime import devices

    if device in ("gpu", "torch") and not set(methods) & set(on_gpu()):
        raise ValueError(f"--device must be cpu but for {', '.join(on_gpu())}; got {device!r} for {', '.join(methods)}")
    devices.require(device)


def _look(args: argparse.Namespace) -> None:
    reading = reading_of(args, args.data)
    go_on(args)
    if args.target is not None and args.target not in reading.frame.columns:
        columns = ", ".join(reading.frame.columns)
        raise ValueError(f"--target must be a column of {args.data}: {columns}; got {args.target!r}")
    print(_report(reading, args.target))


def _report(reading: Any, target: str | None, categorical: Any = ()) -> Any:
    from dataclasses import replace

    from opttree.tables.describe import describe_table

    report = describe_table(reading.frame, target, notes=reading.of_columns)
    columns = [replace(column, notes=()) if column.name in categorical else column for column in report.columns]
    return replace(report, columns=tuple(columns), notes=reading.notes)


def _fit(args: argparse.Namespace) -> None:
    check_depth(args.depth)
    from sklearn.model_selection import train_test_split

    from opttree.cli.doubts import doubts
    from opttree.estimators.steps.solve import as_seed
    from opttree.model import files as io
    from opttree.model.files import as_saved
    from opttree.runtime.interrupts import InterruptedFitWarning
    from opttree.tables.checks import TableWarning
    from opttree.tables.describe import COUNTS, EACH

    check_place("--out", args.out)
    io.check_suffix(Path(args.out), "--out")
    if not 0.0 <= args.test < 1.0:
        raise ValueError(f"--test must be at least 0 and below 1; got {args.test}")
    categorical = names_in(args.categorical)
    if tall.is_tall(args):
        _fit_tall(args, categorical)
        return
    reading = reading_of(args, args.data, text=categorical)
    if args.task in beyond.TASKS:
        _fit_beyond(args, reading, categorical)
        return
    X, y = parted(args, reading)
    task = task_of(args, y)
    method = fit_methods()[args.method]
    check_device(args.device, [method])
    options = {"time_limit": args.time_limit, "verbose": int(args.verbose), "device": args.device}
    # a list, also of none: all tables are encoded, so that new rows may have blanks where these have none
    options["categorical_features"] = categorical
    model = make_estimator(method, task, args.depth, args.seed, args.jobs, on_interrupt="keep", **options)
    as_seed(args.seed)  # checks it
    report = _report(reading, args.target, categorical)
    print(report, flush=True)
    go_on(args)
    held_out = None
    if args.test and len(X) * min(args.test, 1.0 - args.test) >= FEWEST_HELD_OUT:
        enough = task == "classification" and y.value_counts().min() > 1 and len(X) * args.test >= y.nunique()
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=args.test, random_state=args.seed, stratify=y if enough else None
        )
        held_out = X_test, y_test.to_numpy()
    began = time.perf_counter()
    with warnings.catch_warnings():  # the result's message, and the lines below, say it too
        warnings.simplefilter("ignore", InterruptedFitWarning)
        warnings.simplefilter("ignore", TableWarning)
        model.fit(X, y.to_numpy())
    seconds = time.perf_counter() - began
    io.save(model, args.out, target=args.target, form=reading.form)
    score = "R2" if task == "regression" else "accuracy"
    scores = [model.score(X, y.to_numpy()), None if held_out is None else model.score(*held_out)]
    test = "" if held_out is None else f", held-out {score} {scores[1]:.4f} on {len(held_out[1])} rows"
    for name, why in getattr(model.encoder_, "left_out_", {}).items():
        print(f"column {plain(name)} is left out: {plain(why)}")
    print(f"{method}, {task}: training {score} {scores[0]:.4f} on {len(X)} rows{test}, {seconds:.2f} s")
    if getattr(model, "fallback_", None):
        better = {"linear": "a linear model", "cart": "CART's tree"}[model.fallback_]
        print(f"on rows held out {better} answers as well as trees of {method} or better: it is the model")
    whose = "the solver's own tree has the objective" if is_other(model) else "objective"
    print(f"{_size(model)}; {whose} {model.result_.objective:.6g}. {model.result_.message}")
    print(f"saved to {args.out}" + (" (the model of the training rows; --test 0 takes all)" if held_out else ""))
    encoding = as_saved(model).encoding
    used = set(X) if encoding is None else {encoding.columns[j].name for j in encoding.read}
    for column in report.columns:
        for note in {COUNTS, EACH} & {*column.notes} if column.name in used else ():
            print(f"opttree: look again: the model uses {plain(column.name)!r}, which {note}", file=sys.stderr)
    for doubt in doubts(task, scores, X, y.to_numpy(), held_out):
        print(f"opttree: look again: {doubt}", file=sys.stderr)


def _fit_tall(args: argparse.Namespace, categorical: list[str]) -> None:
    """Train a model on files that are read in parts."""
    from opttree.model import files as io

    tall.names_refused(args)
    method = fit_methods()[args.method]
    check_device(args.device, [method])
    options = {"time_limit": args.time_limit, "verbose": int(args.verbose), "device": args.device}

    def make(task: str) -> Any:
        options["categorical_features"] = categorical
        return make_estimator(method, task, args.depth, args.seed, args.jobs, on_interrupt="keep", **options)

    model, said = tall.fit(args, make)
    io.save(model, args.out, target=args.target)
    print(f"{method}, {said}")
    print(_size(model))
    print(f"saved to {args.out}")


def _fit_beyond(args: argparse.Namespace, reading: Any, categorical: list[str]) -> None:
    """Train a model of a task whose target has several columns."""
    import numpy as np

    from opttree.model import files as io
    from opttree.model.tree import replace
    from opttree.runtime.interrupts import InterruptedFitWarning
    from opttree.tables.checks import TableWarning

    names = beyond.targets_of(args, reading.frame)
    frame = reading.frame.dropna(subset=names).reset_index(drop=True)
    check_finite(frame, names)
    X, y = frame.drop(columns=names), beyond.outcomes(args.task, frame[names])
    options = {"time_limit": args.time_limit, "verbose": int(args.verbose), "categorical_features": categorical}
    model = beyond.model_of(args, **options)
    print(_report(reading, None, categorical), flush=True)
    go_on(args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)
        warnings.simplefilter("ignore", TableWarning)
        train, held_out, seconds = beyond.fitted(args, model, X, y)
    saved = model
    if args.task == "policy":  # the actions by the names of their columns
        saved = copy(model)
        saved.tree_ = replace(model.tree_, classes=np.array(names))
    io.save(saved, args.out, target="action" if args.task == "policy" else "risk", form=reading.form)
    print(f"{beyond.said(args, model, train, held_out)}, {seconds:.2f} s")
    print(f"{_size(model)}; objective {model.result_.objective:.6g}. {model.result_.message}")
    print(f"saved to {args.out}" + (" (the model of the training rows; --test 0 takes all)" if held_out else ""))


def _size(model: Any) -> str:
    """Depth, leaves and parameters in words."""
    forest = getattr(model, "forest_", None)
    if forest is not None and len(forest.trees) > 1:
        leaves = sum(tree.n_leaves for tree in forest.trees)
        return f"{len(forest.trees)} trees, {leaves} leaves, {forest.n_parameters} parameters"
    return f"depth {model.tree_.depth}, {model.tree_.n_leaves} leaves, {model.tree_.n_parameters} parameters"
