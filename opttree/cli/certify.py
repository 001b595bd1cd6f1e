"""The command ``opttree certify``: how far a saved tree is from the best one for a table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from opttree.cli.common import check_place
from opttree.cli.statement import add_options, stated


def add_parser(commands: Any) -> None:
    """Add the command to the parser of ``opttree``."""
    certify = commands.add_parser(
        "certify", help="say how far a saved tree is from the best one: objective, bound, gap"
    )
    certify.add_argument("model", metavar="MODEL", help="a saved tree, .json or .npz")
    add_options(certify, as_tree=True)
    certify.add_argument("--depth", type=int, metavar="D", help="largest depth of its rivals; default: the tree's")
    certify.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS", help="default %(default)s")
    certify.add_argument(
        "--relax", action="store_true", help="rivals may break the side constraints, which the tree keeps"
    )
    certify.add_argument("--refit", action="store_true", help="fit the leaves to this table first")
    certify.add_argument("--seed", type=int, default=0, help="random seed; default %(default)s")
    certify.add_argument("--out", metavar="FILE", help="write objective, bound and gap to this JSON file, too")
    certify.set_defaults(run=_certify)


def _certify(args: argparse.Namespace) -> int:
    from opttree.estimators import bridge
    from opttree.model import files as io
    from opttree.model.forest import Forest

    if args.out:
        check_place("--out", args.out)
    if not args.time_limit > 0.0:
        raise ValueError(f"--time-limit must be > 0 seconds; got {args.time_limit:g}")
    model = io.load(args.model)
    if isinstance(model.tree, Forest):
        raise ValueError("MODEL must hold one tree; got a forest")
    tree = model.tree
    if args.depth is not None and args.depth < tree.depth:
        raise ValueError(f"--depth must be at least that of the tree, {tree.depth}; got {args.depth}")
    args.splits = args.splits or ("axis" if tree.is_axis_aligned else "oblique")
    args.leaves = args.leaves or ("linear" if tree.linear_leaves else "constant")
    found = stated(args, args.depth or max(tree.depth, 1), tree.encoding, columns=model.feature_names)
    if (classes := found.problem.classes) is not None and tree.classes is not None:
        absent = [str(name) for name in tree.classes if name not in classes]
        if absent or len(classes) != len(tree.classes):
            why = f"there is no row of {absent[0]}" if absent else "it has further labels"
            raise ValueError(f"DATA must have the tree's classes, {', '.join(map(str, tree.classes))}; {why}")
    elif (classes is None) != (tree.classes is None):
        raise ValueError("DATA must have a target as the tree's, numbers or labels; see --task")
    own = found.scaling.scale(tree.with_names(None))
    if args.refit:
        own = found.problem.fit_leaves(own)
    verdict = bridge.solvers.certify(
        found.problem, own, time_limit=args.time_limit, relax=args.relax, random_state=args.seed
    )
    message, kept = verdict.message, ordered_columns(tree.encoding)
    if kept:
        message = message.replace("Proved optimal.", "Proved optimal among such trees.")
        message = f"Of trees that keep the model's order of the levels of {', '.join(kept)}: {message}"
    loss = getattr(found.problem.loss, "name", None) or found.problem.loss
    print(f"{found.data.name}: n = {len(found.X)}, p = {found.X.shape[1]}; rivals: depth {found.problem.depth}, "
          f"{args.splits} splits, {args.leaves} leaves, {loss} loss of the problem in its units")  # fmt: skip
    proof = "bound none, gap none"
    if verdict.gap is not None:
        proof = f"bound {verdict.bound:.8g}, gap {100.0 * verdict.gap:.3g} %"
    print(f"this tree {verdict.objective:.8g}, {proof}, {verdict.seconds:.2f} s")
    print(message)
    if args.out:
        told = {"objective": verdict.objective, "bound": verdict.bound, "gap": verdict.gap, "message": message}
        Path(args.out).write_text(json.dumps(told, indent=1) + "\n")
        print(f"written to {args.out}")
    return 0


def ordered_columns(encoding: Any) -> list[str]:
    """The columns of three levels or more, whose order the encoding fixes."""
    if encoding is None:
        return []
    from opttree.tables.encoding import Levels

    found = []
    for number, column in enumerate(encoding.columns):
        levels = [one for one in encoding.features if isinstance(one, Levels) and one.column == number]
        own = [one for one in levels if one.of != "indicator"]
        if len(own) > 1 or any(len(one.numbers) > 2 for one in own):
            found.append(column.name)
    return found
