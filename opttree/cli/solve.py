"""The command ``opttree solve``: a tree with a proof of how good it is, and its program."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from opttree.cli.common import check_place, save_figure
from opttree.cli.statement import add_options, of_features, stated

OF_METHODS = ("max_splits", "max_features", "node_limit", "threads", "gap")
OF_MIP = ("formulation", "max_features", "n_thresholds", "node_limit", "threads", "write")


def add_parser(commands: Any) -> None:
    """Add the command to the parser of ``opttree``."""
    solve = commands.add_parser("solve", help="find a tree with a proof of how good it is: incumbent, bound, gap")
    add_options(solve)
    solve.add_argument(
        "--method",
        choices=("bnb", "mip", "local", "local+mip"),
        help="default: bnb, branch and bound over all thresholds, where it takes the problem and the options; else mip",
    )
    solve.add_argument("--solver", metavar="TEXT", help='or any solver, such as "Chain(TAO(), LocalSearch())"')
    solve.add_argument("--formulation", choices=("hyperflow", "flow", "big-m"), help="of mip; default: hyperflow")
    solve.add_argument("--depth", type=int, default=2, metavar="D", help="largest depth, >= 1; default %(default)s")
    solve.add_argument("--max-splits", type=int, metavar="K", help="most splits")
    solve.add_argument("--max-features", type=int, metavar="K", help="most features in splits; hyperflow")
    solve.add_argument(
        "--require", action="append", metavar="COLUMN", help="a split on this column, by bnb or mip; repeatable"
    )
    solve.add_argument(
        "--forbid", action="append", metavar="COLUMN", help="no split on this column, by bnb or mip; repeatable"
    )
    solve.add_argument("--n-thresholds", default="all", metavar="K", help="candidates per feature; default: all")
    solve.add_argument("--gap", type=float, metavar="G", help="relative gap that counts as proved")
    solve.add_argument("--time-limit", type=float, metavar="SECONDS")
    solve.add_argument("--node-limit", type=int, metavar="N", help="nodes of branch and bound")
    solve.add_argument("--threads", type=int, metavar="N", help="of HiGHS")
    solve.add_argument("--seed", type=int, default=0, help="random seed; default %(default)s")
    solve.add_argument(
        "--write", metavar="MODEL", help="write the program to this .lp or .mps file: every tree is in it"
    )
    solve.add_argument("--reduced", action="store_true", help="--write only columns that an optimal tree may need")
    solve.add_argument(
        "--objective", choices=("exact", "outer"), default="exact",
        help="of --write, flow or big-m, squared loss: quadratic or tangents (a relaxation); default %(default)s",
    )  # fmt: skip
    solve.add_argument("--save", metavar="TREE", help="save the tree, on raw features, to this file, .json or .npz")
    solve.add_argument("--claim", metavar="FILE", help="write tree, objective and bound for `opttree verify`")
    solve.add_argument("--out", default="out", metavar="FOLDER", help="where the trace (CSV, PNG) goes")
    solve.set_defaults(run=_solve)


def _solve(args: argparse.Namespace) -> int:
    if args.save:
        from opttree.model.files import check_suffix

        check_place("--save", args.save)
        check_suffix(Path(args.save), "--save")
    for option in ("write", "claim"):
        if getattr(args, option):
            check_place(f"--{option}", getattr(args, option))

    from opttree import plotting
    from opttree.estimators import bridge
    from opttree.estimators.steps.units import raw_tree
    from opttree.model import files as io
    from opttree.model.convert import as_tree
    from opttree.model.structure import with_encoding
    from opttree.problems import MIPTreeProblem
    from opttree.runtime.clock import now
    from opttree.statement import TreeProblem
    from opttree.statement.constraints import ForbidSplit, RequireSplit

    if args.solver is not None and (args.method is not None or any(getattr(args, name) for name in OF_METHODS)):
        raise ValueError("--solver has its options in its own text; it does not go with --method and its options")
    if args.solver is not None and not args.write and (args.formulation or args.n_thresholds != "all"):
        raise ValueError("--solver goes with --formulation and --n-thresholds only where --write writes the program")
    if args.method == "local" and args.max_features is not None:
        raise ValueError(f"--max-features is for --method mip; got {args.max_features} for local")
    of_mip = [option for option in OF_MIP if getattr(args, option) not in (None, "all", False)]
    if args.method == "bnb" and of_mip:
        name = of_mip[0].replace("_", "-")
        raise ValueError(f"--{name} is not for --method bnb; got {getattr(args, of_mip[0])}")
    if args.time_limit is not None and not args.time_limit > 0.0:
        raise ValueError(f"time_limit must be > 0 seconds; got {args.time_limit}")
    Path(args.out).mkdir(parents=True, exist_ok=True)
    kinds = (("require", RequireSplit), ("forbid", ForbidSplit))
    asked = [partial(_named, kind, option, text) for option, kind in kinds for text in getattr(args, option) or ()]
    data, encoder, X, _names, y, problem, scaling = stated(args, args.depth, extra=asked)
    if args.claim:
        _check_claim(args, data.X, y, problem.loss)
    name = data.name
    solvers = bridge.solvers
    whole: Any = int(args.n_thresholds) if args.n_thresholds.isdecimal() else args.n_thresholds
    limits: dict[str, Any] = {"n_thresholds": whole, "max_splits": args.max_splits}
    mip = solvers.MIP(
        formulation=args.formulation or "hyperflow",
        max_features=args.max_features,
        gap=args.gap,
        node_limit=args.node_limit,
        threads=args.threads,
        seed=args.seed,
        **limits,
    )
    formulation: Any = args.formulation or "hyperflow"
    for other in ("flow", "big-m") if args.formulation is None else ():  # where the usual one does not take it
        if mip.refusal(problem) is not None:
            formulation = other
            mip = replace(mip, formulation=formulation)
    every: Any = "auto" if whole == "all" else whole
    local = solvers.LocalSearch(n_thresholds=every, max_splits=args.max_splits)
    bnb = solvers.BranchAndBound(gap=args.gap or 0.0, max_splits=args.max_splits)
    usual = "mip" if of_mip or bnb.refusal(problem) is not None else "bnb"
    method = args.method or usual
    solver = {"bnb": bnb, "mip": mip, "local": local, "local+mip": replace(mip, init=local)}[method]
    if args.solver is not None:
        solver, method = bridge.solver_of(args.solver), "solver"
    if (reason := solver.refusal(problem)) is not None:
        raise ValueError(f"{method} cannot solve this problem: {reason}")
    began, unwritten = now(), ""
    if args.write:
        program = MIPTreeProblem(
            problem,
            formulation=formulation,
            max_features=args.max_features,
            objective=args.objective,
            **limits,
        )
        unwritten = _write(program, args)
    left = None if args.time_limit is None else max(args.time_limit - (now() - began), 1e-3)
    result = solvers.solve(problem, solver, time_limit=left, random_state=args.seed)
    if result.tree is None:
        print(f"{name}: {result.message}")
        return 3
    tree = raw_tree(scaling, as_tree(result.tree), problem, X)
    print(
        f"{name}: n = {X.shape[0]}, p = {X.shape[1]}; depth {args.depth}, {args.splits} splits, "
        f"{args.leaves} leaves, {problem.loss} loss of the problem in its units"
    )
    proof = "bound none, gap none"
    if result.gap is not None:
        proof = f"bound {result.bound:.8g}, gap {100.0 * result.gap:.3g} %"
    print(f"incumbent {result.objective:.8g}, {proof}, {result.seconds:.2f} s")
    print(result.message)
    if args.claim:
        raw = TreeProblem(X, data.y.to_numpy(), args.depth, splits=args.splits, loss=problem.loss)
        unit = float(scaling.y_scale[0]) ** 2 if problem.loss == "squared" else 1.0
        bound = None if result.bound is None else unit * result.bound
        found = replace(result, tree=tree, objective=raw.objective(tree), bound=bound)
        Path(args.claim).write_text(json.dumps(solvers.claim(name, raw, found)))
        print(f"claim: {args.claim}")
    tree = tree.with_share(tree.node_share(X)).with_spread(X.std(axis=0))
    target = str(data.y.name) if data.y.ndim == 1 else "target"
    tree = (
        tree.with_names(list(map(str, data.X.columns))) if encoder is None else with_encoding(tree, encoder.encoding_)
    )
    saved = io.Model(tree, tuple(tree.names()), target, type(solver).__name__)
    print(saved.to_text())
    if args.save:
        io.save(saved, args.save)
        print(f"saved to {args.save}")
    stem = Path(args.out) / f"solve_{name}_depth{args.depth}"
    result.trace.to_frame().to_csv(f"{stem}.csv", index=False)
    axes = plotting.plot_trace({method: result})
    axes.set_title(f"{name}, depth {args.depth}")
    save_figure(axes, Path(f"{stem}.png"))
    print(f"trace: {stem}.csv, {stem}.png")
    if unwritten:
        raise ValueError(unwritten)
    return 0


def _check_claim(args: argparse.Namespace, X: Any, y: Any, loss: Any) -> None:
    """ValueError where the problem is not that of a claim: all axis-aligned trees of the depth, and their loss."""
    import numpy as np

    from opttree.tables.encoder import needs_encoding

    if needs_encoding(X, "from_dtype") or np.ndim(y) > 1 or args.leaves == "linear" or args.splits == "oblique":
        raise ValueError("--claim is for tables of numbers, one target, splits of one feature and constant leaves")
    if loss not in ("squared", "zero_one"):
        raise ValueError(f"--claim is for loss squared or zero_one; got {loss!r}")
    restricted = [
        o for o in ("cp", "max_splits", "max_features", "require", "forbid", "constraint") if getattr(args, o)
    ]
    restricted += ["min_leaf"] if args.min_leaf > 1 else []
    restricted += ["n_thresholds"] if args.n_thresholds != "all" else []
    if restricted:
        name = restricted[0].replace("_", "-")
        raise ValueError(f"--claim is about all trees of a depth; it does not go with --{name}")


def _named(kind: Any, option: str, text: str, columns: dict[str, list[int]]) -> Any:
    """The side constraints of --require or --forbid."""
    if text not in columns:
        raise ValueError(f"--{option} must name a column, one of {', '.join(list(columns)[:8])}; got {text!r}")
    return of_features(kind, text, columns[text])


def _write(program: Any, args: argparse.Namespace) -> str:
    """Write the program, unless the time limit or Ctrl-C comes first; the reason if there is no file, else "" ."""
    import pyomo.environ  # noqa: F401  imported here, since the thread may be abandoned in mid-import

    from opttree.runtime.clock import now
    from opttree.runtime.interrupts import in_background

    began = now()
    form = "the reduced program" if args.reduced else "the program"
    with closing(in_background(lambda: program.write(args.write, complete=not args.reduced))) as writing:
        for _ in writing:
            late = args.time_limit is not None and now() - began >= args.time_limit
            if late or args.interrupted():
                why = f"--time-limit {args.time_limit:g} was over" if late else "it was interrupted"
                return f"{form} is not in {args.write}: {why} before it was built and written"
    print(f"{form}: {args.write}")
    return ""
