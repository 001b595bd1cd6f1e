"""``opttree fit --task policy`` and ``--task survival``: targets of several columns."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from opttree.cli.common import names_in

TASKS = ("policy", "survival")


def targets_of(args: argparse.Namespace, frame: Any) -> list[str]:
    """The target columns; ValueError for too few, or for others than the table has."""
    names = names_in(args.target)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise ValueError(f"--target must be columns of {args.data}: {', '.join(frame.columns)}; got {missing[0]!r}")
    if args.task == "survival" and len(names) != 2:
        raise ValueError(f"--target must be EVENT,TIME for --task survival; got {args.target!r}")
    if len(names) < 2:
        raise ValueError(f"--target must be the columns of two or more rewards for --task policy; got {args.target!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"--target must be different columns; got {args.target!r}")
    if args.device != "cpu":
        raise ValueError(f"--device must be cpu for --task {args.task}; got {args.device!r}")
    blank = frame[names].isna().any(axis=1)
    if blank.any() and not args.skip_blank_targets:
        raise ValueError(f"target columns {args.target} must have no missing values; got {int(blank.sum())} rows")
    return names


def outcomes(task: str, table: Any) -> Any:
    """Rewards (n, K), or events and times (n,)."""
    from opttree.tables.survival import outcome

    try:
        numbers = table.to_numpy(np.float64)
    except ValueError as error:
        raise ValueError(f"target columns must hold numbers, events 0 or 1; got {error}") from error
    return numbers if task == "policy" else outcome(*numbers.T)


def model_of(args: argparse.Namespace, **options: Any) -> Any:
    """The estimator of a task."""
    from opttree.estimators.policy import PolicyTree
    from opttree.estimators.survival import SurvivalForest, SurvivalTree

    if args.method not in ("tao", *(("forest",) if args.task == "survival" else ())):
        rule = "left out, or forest" if args.task == "survival" else "left out"
        raise ValueError(f"--method must be {rule} for --task {args.task}; got {args.method!r}")
    shared = {"random_state": args.seed, "n_jobs": args.jobs, "on_interrupt": "keep", **options}
    if args.method == "forest":
        return SurvivalForest(max_depth=None if args.depth == "auto" else args.depth, **shared)
    kind = PolicyTree if args.task == "policy" else SurvivalTree
    return kind(**({} if args.depth == "auto" else {"max_depth": args.depth}), **shared)


def said(args: argparse.Namespace, model: Any, train: Any, held_out: Any) -> str:
    """What the model is worth, in one line."""
    name = "mean reward" if args.task == "policy" else "C index"
    text = f"{args.task}: training {name} {_score(model, train)} on {len(train[1])} rows"
    if held_out is not None:
        text += f", held-out {name} {_score(model, held_out)} on {len(held_out[1])} rows"
    return text


def _score(model: Any, rows: Any) -> str:
    """The score; where rows have none, as those whose survival times cannot be compared, why."""
    try:
        return f"{model.score(*rows):.4f}"
    except ValueError as error:
        return f"none ({error})"


def fitted(args: argparse.Namespace, model: Any, X: Any, y: Any) -> tuple[Any, Any, float]:
    """The model fitted to a part of the rows; these, those held out, if any, and the seconds that it took."""
    held_out, train = None, (X, y)
    rows = np.random.default_rng(args.seed).permutation(len(X))
    count = round(args.test * len(X))
    if count >= 2 and len(X) - count >= 2:
        test, rest = np.sort(rows[:count]), np.sort(rows[count:])
        train, held_out = (X.iloc[rest], y[rest]), (X.iloc[test], y[test])
    began = time.perf_counter()
    model.fit(*train)
    return train, held_out, time.perf_counter() - began
