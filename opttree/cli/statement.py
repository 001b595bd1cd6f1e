"""The options that state a problem on the command line: trees, loss, price of splits, side constraints."""

from __future__ import annotations

import argparse
import inspect
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from opttree.cli.common import add_reading, add_skipping, table_of, task_of

if TYPE_CHECKING:
    from opttree.statement import TreeProblem
    from opttree.tables.datasets import Dataset

LOSSES = ("squared", "absolute", "huber", "quantile", "poisson", "gamma", "zero_one", "log")
OWN_UNITS = ("huber", "quantile", "poisson", "gamma")  # losses whose units of y are those of TAO's estimators


class Stated(NamedTuple):
    """A problem of the command line: the data, the encoder or encoding of its columns, if there is one, the features as
    numbers (n, p), their names, the target, the problem in its units and these units.
    """

    data: Dataset
    encoder: Any
    X: Any
    names: list[str]
    y: Any
    problem: TreeProblem
    scaling: Any


def add_options(parser: argparse.ArgumentParser, *, as_tree: bool = False) -> None:
    """Add the options, and the table's; ``as_tree``: splits and leaves are by default those of a tree."""
    usual = {} if as_tree else {"splits": "axis", "leaves": "constant"}
    parser.add_argument("data", metavar="DATA", help="a CSV or Parquet file, or a name that `opttree datasets` lists")
    parser.add_argument("--target", metavar="COLUMN", help="column to predict; needed for a file")
    add_reading(parser)
    add_skipping(parser)
    group = parser.add_argument_group("the problem")
    group.add_argument("--task", choices=("regression", "classification"), help="default: by the target's type")
    group.add_argument("--splits", choices=("axis", "oblique"), default=usual.get("splits"))
    group.add_argument("--leaves", choices=("constant", "linear"), default=usual.get("leaves"))
    group.add_argument("--loss", choices=LOSSES, help="default: squared for numbers, zero_one for labels")
    group.add_argument(
        "--quantile", type=float, default=0.5, metavar="Q", help="of --loss quantile; default %(default)s"
    )
    group.add_argument("--cp", type=float, default=0.0, help="price of a split, as a share of the best constant's loss")
    group.add_argument(
        "--min-leaf", type=int, default=1, metavar="N", help="fewest rows in a leaf; default %(default)s"
    )
    group.add_argument(
        "--constraint",
        action="append",
        metavar="TEXT",
        help='a side constraint of opttree.constraints, such as "MaxFeatures(2)", "Monotone(\'age\')" or '
        "\"MaxDifference('sex', 0.1)\", in units of the problem; repeatable",
    )


def stated(args: argparse.Namespace, depth: int, encoding: Any = None, extra: Any = (), columns: Any = None) -> Stated:
    """The problem of the options and further side constraints ``extra``; columns are encoded as ``encoding`` says, or
    are the ``columns`` of numbers that a model knows.
    """
    import numpy as np

    from opttree.statement import SplitPrice
    from opttree.tables import datasets
    from opttree.tables.encoder import TableEncoder, needs_encoding

    for option, value in (("--depth", depth), ("--min-leaf", args.min_leaf)):
        if value < 1:
            raise ValueError(f"{option} must be a whole number >= 1; got {value}")
    if Path(args.data).is_file():
        features, target = table_of(args)
        data = datasets.Dataset(features, target, task_of(args, target), Path(args.data).name.split(".")[0], args.data)
    else:
        data = datasets.load(args.data)
    encoder = encoding
    X: Any = data.X
    y = np.asarray(data.y) if (args.task or data.task) == "classification" else data.as_arrays()[1]
    if encoding is not None:
        X = encoding.transform(X)
    elif columns is not None:
        X = _of_numbers(X, list(columns))
    elif needs_encoding(X, "from_dtype"):
        encoder = TableEncoder(ordered=args.splits == "axis" and args.leaves == "constant")
        X = encoder.fit_transform(X, y)
    known = getattr(encoder, "encoding_", encoder)
    names = list(map(str, X.columns)) if known is None else list(known.names)
    X = np.ascontiguousarray(X, np.float64)
    model = _estimator(args, args.task or data.task, depth)
    problem, scaling = model.state(X, y)
    if args.loss in OWN_UNITS:
        problem = problem.restated(penalties=())
        if args.cp:
            problem = problem.restated(penalties=(SplitPrice(args.cp * problem.mean_loss(problem.best_constant())),))
    columns_of = features_by_name(names, known)
    own = [one for text in args.constraint or () for one in constraint(text, columns_of, data.X, known)]
    asked = [one for these in extra for one in these(columns_of)]
    problem = problem.restated(constraints=(*asked, *own))
    return Stated(data, encoder, X, names, y, problem, scaling)


def _of_numbers(table: Any, columns: list[str]) -> Any:
    """The columns of a table that a model of numbers was trained on."""
    table = table.rename(columns=str)
    for name in columns:
        if name not in table.columns:
            raise ValueError(f"DATA must have the model's columns, {', '.join(columns[:8])}; got none called {name!r}")
        if table[name].dtype.kind not in "iufb":
            raise ValueError(f"column {name!r} must hold numbers, as the tree was trained on")
        if table[name].isna().any():
            raise ValueError(f"column {name!r} must have no blanks, on which the tree was not trained")
    return table[columns]


def _estimator(args: argparse.Namespace, task: str, depth: int) -> Any:
    """The estimator that states the problem."""
    from opttree.estimators.ort import OCTClassifier, ORTRegressor
    from opttree.estimators.tao import TAORegressor

    common: dict[str, Any] = {"splits": args.splits, "min_samples_leaf": args.min_leaf}
    if task == "classification":
        if args.leaves != "constant":
            raise ValueError("--leaves must be constant for classification; got 'linear'")
        if args.loss not in (None, "zero_one", "log"):
            raise ValueError(f"--loss must be zero_one or log for classification; got {args.loss!r}")
        return OCTClassifier(depth, loss=args.loss or "zero_one", cp=args.cp, **common)
    if args.loss in ("zero_one", "log"):
        raise ValueError(f"--loss must be of numbers for regression; got {args.loss!r}")
    if args.loss in OWN_UNITS:
        if args.cp < 0.0:
            raise ValueError(f"--cp must be >= 0; got {args.cp:g}")
        return TAORegressor(depth, leaves=args.leaves, loss=args.loss, quantile=args.quantile, **common)
    return ORTRegressor(depth, leaves=args.leaves, loss=args.loss or "squared", cp=args.cp, **common)


def features_by_name(names: list[str], encoding: Any) -> dict[str, list[int]]:
    """The numbers of the features of each name, and of each column of an encoded table: a column with blanks makes two
    features of its name, which have the blanks below and above all numbers.
    """
    found: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        column = name if encoding is None else encoding.columns[encoding.sources[j]].name
        for one in {name, column}:
            found.setdefault(one, []).append(j)
    return found


def constraint(text: str, columns: dict[str, list[int]], table: Any, encoding: Any = None) -> tuple[Any, ...]:
    """The side constraints that a text states; columns may be named, their costs given by a mapping."""
    from opttree.runtime.calls import built
    from opttree.statement import constraints
    from opttree.statement.constraints import Constraint

    kinds = {
        name: getattr(constraints, name) for name in constraints.__all__ if name not in ("Constraint", "LeafConstraint")
    }
    try:
        found = built(
            text, {name: partial(_made, kind, columns, table, encoding) for name, kind in kinds.items()}, "constraints"
        )
    except ValueError as error:
        raise ValueError(f"--constraint must state a side constraint; got {text!r} ({error})") from error
    if not isinstance(found, tuple) or not all(isinstance(one, Constraint) for one in found):
        raise ValueError(f"--constraint must state a side constraint; got {text!r}")
    return found


def _made(
    kind: Any, columns: dict[str, list[int]], table: Any, encoding: Any, *values: Any, **options: Any
) -> tuple[Any, ...]:
    """Side constraints, whose columns are names: one for each feature, or of groups of rows or costs of features."""
    import numpy as np

    given = inspect.signature(kind).bind(*values, **options).arguments
    if isinstance(group := given.get("group"), str):
        of_rows = table.iloc[:, of_column(group, {str(name): [k] for k, name in enumerate(table.columns)})[0]]
        given["group"] = np.asarray(of_rows if of_rows.dtype.kind in "iufb" else of_rows.astype(str))
    if isinstance(costs := given.get("costs"), dict):
        given["costs"] = {}
        for name, cost in costs.items():
            found = of_column(name, columns) if isinstance(name, str) else [name]
            dear = isinstance(cost, (int, float)) and cost > given.get("budget", 0.0) and not given.get("mean")
            if len(found) > 1 and not dear:
                raise ValueError(_several(name, found, "each of which would be charged"))
            given["costs"].update(dict.fromkeys(found, cost))
    if not isinstance(feature := given.get("feature"), str):
        return (kind(**given),)
    found = of_column(feature, columns)
    if (
        kind.__name__ == "Monotone"
        and encoding is not None
        and encoding.columns[encoding.sources[found[0]]].is_category
    ):
        raise ValueError(f"Monotone must be of a column of numbers; {feature!r} holds categories")
    return of_features(kind, feature, found, **{name: value for name, value in given.items() if name != "feature"})


def of_features(kind: Any, name: str, features: list[int], **options: Any) -> tuple[Any, ...]:
    """The side constraint on each feature of a column."""
    if kind.__name__ == "RequireSplit" and len(features) > 1:
        raise ValueError(_several(name, features, "and RequireSplit is for one of them"))
    return tuple(kind(feature=feature, **options) for feature in features)


def _several(name: str, features: list[int], why: str) -> str:
    numbers = f"{', '.join(map(str, features[:-1]))} and {features[-1]}"
    return f"column {name!r} makes the features {numbers}, {why}: give the number of a feature"


def of_column(name: str, columns: dict[str, list[int]]) -> list[int]:
    """The numbers of the features of a column."""
    if name not in columns:
        raise ValueError(f"a column must be one of {', '.join(list(columns)[:8])}; got {name!r}")
    return columns[name]
