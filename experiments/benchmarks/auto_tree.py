"""`AutoTreeRegressor` in a minute, one thread, on the 16 data sets of the GET paper: test R2 of three 75/25 splits.

Beside it a random forest tuned on the same held-out share, and the toolkit's single-tree methods by their defaults.
Written row by row, so that a run that stopped goes on where it was.

python -m experiments.benchmarks.auto_tree [--data ...] [--seeds 3] [--methods ...] [--csv FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import splits
from experiments.benchmarks.forests import SIXTEEN
from opttree import AutoTreeRegressor, GETRegressor, TAORegressor, datasets

SECONDS = 60.0
RF_GRID = [(features, rows) for features in (0.33, 0.66, 1.0) for rows in (1, 2, 5)]


def tuned_forest(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """The best of nine forests of 100 trees on a fifth of the rows, with 300 trees on all of them."""
    fit_X, valid_X, fit_y, valid_y = train_test_split(X, y, test_size=0.2, random_state=seed)

    def forest(trees: int, features: float, rows: int) -> Any:
        return RandomForestRegressor(trees, max_features=features, min_samples_leaf=rows, random_state=seed)

    scores = [forest(100, *options).fit(fit_X, fit_y).score(valid_X, valid_y) for options in RF_GRID]
    return forest(300, *RF_GRID[int(np.argmax(scores))]).fit(X, y)


def auto(kind: str) -> Callable[..., Any]:
    return lambda X, y, seed: AutoTreeRegressor(SECONDS, kind=kind, random_state=seed, n_jobs=1).fit(X, y)


METHODS: dict[str, Callable[..., Any]] = {
    "auto": auto("tree"),
    "auto-forest": auto("forest"),
    "tuned-rf": tuned_forest,
    "tao-l": lambda X, y, seed: TAORegressor("cv", cv=0.2, leaves="linear", random_state=seed, n_jobs=1).fit(X, y),
    "get-linear": lambda X, y, seed: GETRegressor(
        "cv", cv=0.2, leaves="linear", time_limit=SECONDS, random_state=seed, n_jobs=1
    ).fit(X, y),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=SIXTEEN)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv", default="auto_tree.csv")
    args = parser.parse_args()
    path = Path(args.csv)
    done = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["data", "seed", "method"])
    known = set(zip(done["data"], done["seed"], done["method"], strict=True))
    for method in args.methods.split(","):
        for name in args.data.split(","):
            X, y = datasets.load(name, as_arrays=True)
            for seed, train, test in splits(len(X), 0.25, args.seeds):
                if (name, seed, method) in known:
                    continue
                began = time.perf_counter()
                model = METHODS[method](X[train], y[train], seed)
                row = {
                    "data": name,
                    "seed": seed,
                    "method": method,
                    "r2": model.score(X[test], y[test]),
                    "seconds": time.perf_counter() - began,
                    "member": getattr(model, "best_member_", ""),
                }
                pd.DataFrame([row]).to_csv(path, mode="a", header=not path.exists(), index=False)
                print(*row.values(), flush=True)
    table = pd.read_csv(path).pivot_table("r2", "data", "method", sort=False)
    table.loc["mean"] = table.mean()
    print(table.to_string(float_format="%.4f"))


if __name__ == "__main__":
    main()
