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
    add_options(certify)
    certify.add_argument("--depth", type=int, metavar="D", help="largest depth of its rivals; default: the tree's")
    certify.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS", help="default %(default)s")
    certify.add_argument(
        "--relax", action="store_true", help="bound all trees, those that break a side constraint, too"
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
    found = stated(args, args.depth or max(tree.depth, 1), tree.encoding)
    if tree.encoding is None and found.names != list(model.feature_names):
        raise ValueError(
            f"the table must have the model's columns, {', '.join(model.feature_names[:8])}, in this order"
        )
    own = found.scaling.scale(tree.with_names(None))
    if args.refit:
        own = found.problem.fit_leaves(own)
    verdict = bridge.solvers.certify(
        found.problem, own, time_limit=args.time_limit, relax=args.relax, random_state=args.seed
    )
    loss = getattr(found.problem.loss, "name", found.problem.loss)
    print(f"{found.data.name}: n = {len(found.X)}, p = {found.X.shape[1]}; rivals: depth {found.problem.depth}, "
          f"{args.splits} splits, {args.leaves} leaves, {loss} loss of the problem in its units")  # fmt: skip
    proof = "bound none, gap none"
    if verdict.gap is not None:
        proof = f"bound {verdict.bound:.8g}, gap {100.0 * verdict.gap:.3g} %"
    print(f"this tree {verdict.objective:.8g}, {proof}, {verdict.seconds:.2f} s")
    print(verdict.message)
    if args.out:
        told = {"objective": verdict.objective, "bound": verdict.bound, "gap": verdict.gap, "message": verdict.message}
        Path(args.out).write_text(json.dumps(told, indent=1) + "\n")
        print(f"written to {args.out}")
    return 0
