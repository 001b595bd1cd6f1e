"""Files of people's own projects through `opttree.read_table` and an estimator as they come, beside LightGBM.

The list is a CSV file with the columns file, target and, where the file's texts cannot tell, task and drop. A quarter
of the rows is held out once; LightGBM (``pip install lightgbm``) has its defaults, and the same columns: dates in days,
texts as pandas' categories. Rows without a target are left out.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, script
from opttree import AutoTreeClassifier, AutoTreeRegressor, TAOClassifier, TAORegressor, describe_table, read_table
from opttree.datasets import guess_task

SHARE = 0.25
MOST_CLASSES = 30
RARE = "other"


def as_numbers(X: pd.DataFrame, known: dict[str, Any]) -> pd.DataFrame:
    """Columns as LightGBM takes them; ``known`` are the categories of the training rows."""
    columns = {}
    for name in X:
        column = X[name]
        if pd.api.types.is_datetime64_any_dtype(column):
            columns[name] = column.astype("int64") / 8.64e10
        elif pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            columns[name] = column.astype(float)
        else:
            levels = known.setdefault(name, column.dropna().astype(str).unique())
            columns[name] = pd.Categorical(column.where(column.isna(), column.astype(str)), levels)
    out = pd.DataFrame(columns, index=X.index)
    out.columns = [f"x{k}" for k in range(out.shape[1])]  # it refuses some characters in names
    return out


def scores(X: pd.DataFrame, y: pd.Series, task: str, seed: int, limit: float) -> dict[str, float]:
    """Held-out R2 or accuracy of each method."""
    import lightgbm

    stratify = y if task == "classification" and y.value_counts().min() > 1 else None
    X, new, y, truth = train_test_split(X, y, test_size=SHARE, random_state=seed, stratify=stratify)
    found = {}
    number = task == "regression"
    for name, model in {
        "tao": TAORegressor(4, random_state=0) if number else TAOClassifier(4, random_state=0),
        "auto": (AutoTreeRegressor if number else AutoTreeClassifier)(kind="forest", time_limit=limit, random_state=0),
    }.items():
        began = time.perf_counter()
        found[name] = float(model.fit(X, y.to_numpy()).score(new, truth.to_numpy()))
        found[f"{name}, s"] = time.perf_counter() - began
    known: dict[str, Any] = {}
    peer = (lightgbm.LGBMRegressor if number else lightgbm.LGBMClassifier)(verbose=-1, n_jobs=1, random_state=0)
    rows = as_numbers(X, known)
    found["LightGBM"] = float(peer.fit(rows, y.to_numpy()).score(as_numbers(new, known), truth.to_numpy()))
    return found


@script
def main(
    folder: Annotated[Path, "where the files are"],
    listed: Annotated[Path, "the list of files"],
    seed: Annotated[int, "of the split"] = 0,
    limit: Annotated[float, "seconds of the forest"] = 60.0,
) -> Iterator[Row]:
    """Yield a row for each file."""
    for one in pd.read_csv(listed, dtype=str).fillna("").to_dict("records"):
        row: Row = {"file": one["file"]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                began = time.perf_counter()
                options = {"header": False} if one.get("header") == "no" else {}
                frame = read_table(
                    folder / one["file"], drop=[d for d in one.get("drop", "").split("|") if d], **options
                )
                row["read, s"] = time.perf_counter() - began
                report = describe_table(frame, one["target"])
                row["notes"] = sum(len(column.notes) for column in report.columns)
                frame = frame[frame[one["target"]].notna()].reset_index(drop=True)
                y = frame[one["target"]]
                task = one.get("task") or guess_task(y)
                if task == "classification":
                    y = y.astype(str)
                    counts = y.value_counts()
                    y = y.where(y.isin(counts.index[:MOST_CLASSES]), RARE)
                row |= {"rows": len(frame), "columns": frame.shape[1] - 1, "task": task}
                row |= scores(frame.drop(columns=one["target"]), y, task, seed, limit)
            except (ValueError, TypeError) as error:
                row["error"] = str(error)[:100]
        yield row
