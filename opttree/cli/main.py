"""The command line: ``opttree fit | look | predict | show | export | compare | solve | certify | race | ...``.

Exit codes: 0 done; 2 bad input, with one sentence on standard error; 3 no tree satisfies the constraints (``solve``);
4 a claim does not hold (``verify``); 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opttree.cli.certify import add_parser as add_certify
from opttree.cli.common import add_reading, add_skipping, draw, go_on, save_figure, table_for, table_of, task_of
from opttree.cli.fit import add_parsers as add_fit, as_named, check_depth, check_device, tree_options
from opttree.cli.models import add_parsers as add_models
from opttree.cli.race import add_parser as add_race
from opttree.cli.solve import add_parser as add_solve
from opttree.cli.verify import add_parser as add_verify
from opttree.methods.table import METHODS
from opttree.runtime.escape import cell, plain

if TYPE_CHECKING:
    from opttree.tables.datasets import Dataset

HEARD = "opttree: interrupted, ends soon with what there is (Ctrl-C again: at once)\n"
ROWS_AT_ONCE = 10_000  # predictions written to standard output between two checks for Ctrl-C


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0, 2 for an error, 3 and 4 as said above, 130 for Ctrl-C,
    which is deferred from the first line on, see `noted_interrupts`.
    """
    code = None
    try:
        from opttree.runtime.interrupts import noted_interrupts

        with noted_interrupts(HEARD, last=argv is None) as interrupted, warnings.catch_warnings():
            warnings.showwarning = _shown(warnings.showwarning)
            args = _parser().parse_args(argv)
            args.interrupted = interrupted
            code = args.run(args)
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, TypeError, OSError, MemoryError, RuntimeError) as error:
        print(f"opttree: {plain(' '.join(str(error).split()))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("opttree: interrupted", file=sys.stderr)
        return 130
    return code or 0


def _shown(usual: Callable[..., None]) -> Callable[..., None]:
    """What shows warnings: those about tables in one line, others as usual."""

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        from opttree.tables.checks import TableWarning

        if issubclass(category, TableWarning):
            print(f"opttree: {plain(str(message))}", file=sys.stderr)
        else:
            usual(message, category, *where, **more)

    return show


def _parser() -> argparse.ArgumentParser:
    from opttree.runtime.versions import __version__

    begin = "Begin with `opttree look FILE`, then `opttree fit FILE --target COLUMN --out model.json`."
    parser = argparse.ArgumentParser(prog="opttree", description="Optimal and optimized decision trees.", epilog=begin)
    parser.add_argument("--version", action="version", version=f"opttree {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    add_fit(commands)

    predict = commands.add_parser("predict", help="predict the rows of a CSV or Parquet file with a saved model")
    predict.add_argument("model", metavar="MODEL")
    predict.add_argument("data", metavar="DATA")
    predict.add_argument("--out", metavar="CSV", help="where to write; default: standard output")
    predict.add_argument("--proba", action="store_true", help="class probabilities instead of labels")
    add_reading(predict)
    predict.set_defaults(run=_predict)

    show = commands.add_parser("show", help="print a saved tree as text, or draw it")
    show.add_argument("model", metavar="MODEL")
    show.add_argument("--png", metavar="FILE", help="draw the tree into this picture (.png, .pdf or .svg) instead")
    show.add_argument("--tree", type=int, metavar="K", help="of a forest: tree K, counted from 0")
    show.add_argument("--max-depth", type=int, metavar="D", help="draw no deeper than D")
    show.set_defaults(run=_show)

    compare = commands.add_parser("compare", help="cross-validate methods on one data set and print a table")
    compare.add_argument("file", nargs="?", metavar="FILE", help="a CSV or Parquet file, with --target")
    compare.add_argument("--data", metavar="NAME", help="or a name that `opttree datasets` lists, or on OpenML")
    compare.add_argument("--target", metavar="COLUMN", help="column of FILE to predict")
    compare.add_argument("--task", choices=("regression", "classification"), help="of FILE; default: by the target")
    compare.add_argument("--methods", default="cart,rf,tao-c,tao-l", metavar="M,M", help=f"of {', '.join(METHODS)}")
    tree_options(compare)
    compare.add_argument("--cv", type=int, default=4, metavar="K", help="folds, >= 2; default %(default)s")
    compare.add_argument("--out", default="out", metavar="FOLDER", help="where the table (CSV) and figure (PNG) go")
    add_reading(compare)
    add_skipping(compare)
    compare.set_defaults(run=_compare)

    add_solve(commands)
    add_certify(commands)
    add_verify(commands)
    add_race(commands)
    add_models(commands)

    about = "Compile the kernels now, so that the first fit does not have to: some minutes for all methods, once."
    warm = commands.add_parser("warm-up", help="compile the kernels ahead of the first fit", description=about)
    warm.add_argument("methods", nargs="*", metavar="METHOD", help="methods to prepare; default: all")
    wheel = "compile for this kind of processor into the package, to build a wheel: x86-64-v3 or arm64"
    warm.add_argument("--prebuilt", metavar="LEVEL", help=wheel)
    warm.set_defaults(run=_warm_up)

    cost = commands.add_parser("cost", help="estimate seconds and memory of fits on one thread")
    for name, metavar in (("n", "ROWS"), ("p", "FEATURES"), ("depth", "DEPTH")):
        cost.add_argument(name, type=int, metavar=metavar)
    cost.add_argument("methods", nargs="*", metavar="METHOD", help="methods to estimate; default: all")
    cost.add_argument("--outputs", type=int, default=1, metavar="K", help="outputs, or classes (default: 1)")
    cost.add_argument("--density", type=float, default=1.0, metavar="SHARE", help="of entries not zero (default: 1)")
    cost.set_defaults(run=_cost)

    datasets = commands.add_parser("datasets", help="list the data sets known without a network")
    datasets.set_defaults(run=_datasets)
    return parser


def _unless_interrupted(args: argparse.Namespace, work: Callable[[], Any]) -> Any:
    """Run ``work()`` in a thread that is abandoned on Ctrl-C; for work without intermediate results."""
    from opttree.runtime.interrupts import compilation_can_end, in_background

    running = in_background(work)
    with compilation_can_end(), closing(running):
        while True:
            try:
                next(running)
            except StopIteration as stop:
                return stop.value
            go_on(args)


def _predict(args: argparse.Namespace) -> None:
    import pandas as pd

    from opttree.model import files as io
    from opttree.runtime.files import whole_file

    model = io.load(args.model)
    frame = table_for(args, model)
    go_on(args)
    answer = _unless_interrupted(args, lambda: model.predict_proba(frame) if args.proba else model.predict(frame))
    if args.proba:
        out = pd.DataFrame(answer, columns=[f"p({c})" for c in model.tree.classes])  # type: ignore[union-attr]
    else:
        names = [model.target] if answer.ndim == 1 else [f"{model.target}_{k}" for k in range(answer.shape[1])]
        out = pd.DataFrame(answer.reshape(len(frame), -1), columns=names)
        if answer.dtype.kind in "OU":
            changed = next((text for text in pd.unique(answer.ravel()) if cell(text) != text), None)
            if changed is not None:
                print(
                    f"opttree: {plain(changed)!r} is written as {plain(cell(changed))!r}: spreadsheets would take it "
                    "for a formula",
                    file=sys.stderr,
                )
            out = out.map(cell)
    out.columns = [cell(str(name)) for name in out.columns]
    if args.out:
        with whole_file(args.out) as file:
            _unless_interrupted(args, lambda: out.to_csv(file, index=False))
        return
    for first in range(0, max(len(out), 1), ROWS_AT_ONCE):
        go_on(args)
        out[first : first + ROWS_AT_ONCE].to_csv(sys.stdout, index=False, header=first == 0)


def _show(args: argparse.Namespace) -> None:
    from opttree.model import files as io
    from opttree.model.convert import as_model
    from opttree.model.forest import Forest

    model = io.load(args.model)
    inside: Any = model.tree
    as_model(inside, "MODEL")  # refuses trees of features on curves
    if isinstance(inside, Forest):
        if args.tree is None and len(inside.trees) > 1:
            if args.png is not None:
                raise ValueError(
                    f"--png draws one tree: --tree must be one of 0..{len(inside.layers[0]) - 1}; got none"
                )
            print(
                f"a forest of {len(inside.trees)} trees, {inside.n_parameters} parameters; --tree K shows one of them"
            )
            return
        number, most = args.tree or 0, len(inside.layers[0]) - 1
        if not 0 <= number <= most:
            raise ValueError(f"--tree must be one of 0..{most}; got {number}")
        model = replace(model, tree=inside.layers[0][number].with_names(None, inside.encoding))
    elif args.tree is not None:
        raise ValueError(f"--tree must not be given for a single tree; got {args.tree}")
    if args.png:
        import matplotlib as mpl

        from opttree import plotting
        from opttree.runtime.files import whole_file

        go_on(args)
        mpl.use("agg")  # GUI back ends work in the main thread only
        with whole_file(args.png) as file:
            _unless_interrupted(args, lambda: draw(plotting.plot_tree(model, max_depth=args.max_depth), file))
        print(f"drawn to {args.png}")
    else:
        print(model.to_text())


def _datasets(args: argparse.Namespace) -> None:
    from opttree.tables import datasets

    for name in datasets.names():
        go_on(args)
        data = datasets.load(name)
        print(f"{name:28s} {data.task:15s} n = {data.X.shape[0]:6d}  p = {data.X.shape[1]:3d}  {data.source}")


def _warm_up(args: argparse.Namespace) -> None:
    from opttree.methods.warming import warm_up

    began = time.perf_counter()
    seconds = _unless_interrupted(args, lambda: warm_up(as_named(args.methods) or None, prebuilt=args.prebuilt))
    whose = ", ".join(seconds) if len(seconds) < 4 else f"{len(seconds)} methods"
    print(f"the kernels of {whose} are compiled, after {time.perf_counter() - began:.0f} s")


def _cost(args: argparse.Namespace) -> None:
    from opttree.methods.costs import OUTPUTS, SPARSE, estimate_cost, was_measured
    from opttree.methods.warming import names

    every = names() if args.density == 1.0 else [name for name in names() if name in SPARSE]
    print("seconds of one thread, and memory beside the table; *: beyond what was measured", file=sys.stderr)
    for method in as_named(args.methods) or every:
        size = {"outputs": args.outputs, "density": args.density}
        cost = estimate_cost(method, args.n, args.p, args.depth, **size)
        known = args.outputs <= OUTPUTS and args.density == 1.0 and was_measured(method, args.n, args.p, args.depth)
        beyond = "" if known else " *"
        print(f"{method:11s} {cost.seconds:10.3g} s {cost.bytes / 1e6:10.3g} MB{beyond}")


def _compare(args: argparse.Namespace) -> None:
    from opttree.cli.compare import cross_validate, drawn
    from opttree.tables import datasets

    methods = [m.strip() for m in args.methods.split(",") if m.strip()]
    unknown = [m for m in methods if m not in METHODS]
    if unknown or not methods:
        raise ValueError(f"--methods must be among {', '.join(METHODS)}; got {unknown[0] if unknown else 'none'!r}")
    check_depth(args.depth)
    check_device(args.device, methods)
    if args.cv < 2:
        raise ValueError(f"--cv must be >= 2; got {args.cv}")
    if (args.file is None) == (args.data is None):
        raise ValueError(
            "compare takes a FILE with --target, or --data NAME; got " + ("both" if args.file else "neither")
        )
    if args.file is not None:
        if args.target is None:
            raise ValueError(f"--target must name the column of {args.file} to predict; got none")
        X, target = table_of(args)
        data = datasets.Dataset(X, target, task_of(args, target), Path(args.file).name.split(".")[0], args.file)
    else:
        data = datasets.load(args.data)
    for method in methods:  # a library that is absent is named before any work
        METHODS[method].estimator_class(data.task)
    X, y = _compared(data)
    if len(X) < args.cv:
        raise ValueError(f"--cv must be at most the number of rows, {len(X)}; got {args.cv}")
    how = {"folds": args.cv, "depth": args.depth, "seed": args.seed, "jobs": args.jobs, "device": args.device}
    table, results = cross_validate(methods, X, y, data.task, go_on=lambda: go_on(args), **how)
    if table.empty:
        raise KeyboardInterrupt
    score = "R2" if data.task == "regression" else "accuracy"
    print(
        f"{data.name} ({data.source}): {data.task}, n = {X.shape[0]}, p = {X.shape[1]}; "
        f"depth {args.depth}, {args.cv} folds; means over folds; score = {score}, "
        "objective = mean training loss of the standardised problem plus penalties, "
        "- where the model is not the solver's tree alone"
    )
    print(table.to_string(float_format=lambda v: f"{v:.4g}", na_rep="-"))
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"compare_{data.name}_depth{args.depth}"
    table.to_csv(f"{stem}.csv")
    print(f"table: {stem}.csv")
    save_figure(drawn(table, results, f"{data.name}, depth {args.depth}", score), Path(f"{stem}.png"))
    print(f"figure: {stem}.png")
    go_on(args)


def _compared(data: Dataset) -> tuple[Any, Any]:
    """Rows and targets to compare on: arrays where all columns are numbers, else the table, which is encoded inside."""
    from opttree.tables.encoder import needs_encoding

    X, y = data.as_arrays()
    return (data.X if needs_encoding(data.X, "from_dtype") else X), y


if __name__ == "__main__":
    sys.exit(main())
