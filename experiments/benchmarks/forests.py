"""Default forests and boosted trees against other libraries': test error and CPU seconds of fits.

"forest" is the default, which chooses between trees of TAO and scikit-learn's CART trees with leaves of ours, by the
rows left out; "forest-oblique" is TAO alone, "forest-cart" CART alone, "forest-axis" axis-aligned trees of TAO.

Per data set and seed a random 75/25 split into training and test rows, each method in one thread. XGBoost and LightGBM
have three configurations each, stopped early on a fifth of the training rows ("tuned" is the best of the six on those
rows), and XGBoost its 1000 trees of depth 6 besides. The outputs are standardised for all: XGBoost grows no trees on
outputs as small as those of ailerons. Written row by row, so that a run that stopped goes on where it was.

python -m experiments.benchmarks.forests [--data ...] [--seeds 5] [--methods ...] [--csv FILE]
python -m experiments.benchmarks.forests --report FILE
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import splits
from opttree import BoostedTreesRegressor, TAOForestRegressor, datasets

EIGHT = "abalone,airfoil,cpu_act,elevators,ailerons,puma32H,kin8nm,ccpp"
SIXTEEN = (
    "airfoil,space_ga,abalone,gas_turbine_co_2015,gas_turbine_nox_2015,puma8NH,cpu_act,cpu_small,kin8nm,"
    "delta_elevators,ccpp,electrical_grid_stability,cbm_compressor,cbm_turbine,ailerons,elevators"
)
CONFIGURATIONS = ((1000, 6, 0.05), (1000, 4, 0.1), (2000, 8, 0.03))  # trees, depth, learning rate
STOP = 50  # trees without a better validation error


def xgboost(trees: int, depth: int, rate: float, seed: int, stop: bool) -> Any:
    import xgboost

    rounds = {"early_stopping_rounds": STOP} if stop else {}
    return xgboost.XGBRegressor(
        n_estimators=trees, max_depth=depth, learning_rate=rate, n_jobs=1, random_state=seed, **rounds
    )


def lightgbm(trees: int, depth: int, rate: float, seed: int) -> Any:
    import lightgbm

    return lightgbm.LGBMRegressor(
        n_estimators=trees, num_leaves=2**depth - 1, learning_rate=rate, n_jobs=1, random_state=seed, verbose=-1
    )


def stopped(kind: str, options: tuple[int, int, float]) -> Callable[..., Any]:
    """A fit with early stopping; the model knows its validation error."""

    def fit(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        X, valid_X, y, valid_y = train_test_split(X, y, test_size=0.2, random_state=seed)
        if kind == "xgboost":
            model = xgboost(*options, seed, True).fit(X, y, eval_set=[(valid_X, valid_y)], verbose=False)
        else:
            import lightgbm as library

            quiet = [library.early_stopping(STOP, verbose=False)]
            model = lightgbm(*options, seed).fit(X, y, eval_set=[(valid_X, valid_y)], callbacks=quiet)
        model.validation_ = float(np.mean((model.predict(valid_X) - valid_y) ** 2))
        return model

    return fit


METHODS: dict[str, Callable[..., Any]] = {
    "forest": lambda X, y, seed: TAOForestRegressor(random_state=seed, n_jobs=1).fit(X, y),
    **{
        f"forest-{kind}": lambda X, y, seed, kind=kind: TAOForestRegressor(kind=kind, random_state=seed, n_jobs=1).fit(
            X, y
        )
        for kind in ("oblique", "axis", "cart")
    },
    "boosted": lambda X, y, seed: BoostedTreesRegressor(random_state=seed, n_jobs=1).fit(X, y),
    "rf-1000": lambda X, y, seed: RandomForestRegressor(1000, random_state=seed).fit(X, y),
    "rf-300": lambda X, y, seed: RandomForestRegressor(300, random_state=seed).fit(X, y),
    "xgb-1000": lambda X, y, seed: xgboost(1000, 6, 0.05, seed, False).fit(X, y),
    **{f"xgb-{k}": stopped("xgboost", options) for k, options in enumerate(CONFIGURATIONS)},
    **{f"lgbm-{k}": stopped("lightgbm", options) for k, options in enumerate(CONFIGURATIONS)},
}
STOPPED = [f"{library}-{k}" for library in ("xgb", "lgbm") for k in range(len(CONFIGURATIONS))]
PEERS = ["forest", "forest-oblique", "forest-cart", "boosted", "rf-1000", "xgb-1000", *STOPPED]


def warm_up() -> None:
    """Compile, off the clock."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    for kind in ("oblique", "axis", "cart"):
        TAOForestRegressor(2, kind=kind, n_jobs=1).fit(X, X[:, 0]).predict(X)
    BoostedTreesRegressor(n_estimators=2, n_jobs=1).fit(X, X[:, 0])


def measure(args: argparse.Namespace) -> None:
    warm_up()
    path = Path(args.csv)
    done = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["data", "seed", "method"])
    known = set(zip(done["data"], done["seed"], done["method"], strict=True))
    for name in args.data.split(","):
        X, y = datasets.load(name, as_arrays=True)
        for seed, train, test in splits(len(X), 0.25, args.seeds):
            mean, unit = y[train].mean(), y[train].std()
            for method in args.methods.split(","):
                if (name, seed, method) in known:
                    continue
                began = time.process_time()
                model = METHODS[method](X[train], (y[train] - mean) / unit, seed)
                seconds = time.process_time() - began
                error = float(np.sqrt(np.mean((model.predict(X[test]) * unit + mean - y[test]) ** 2)))
                row = {
                    "data": name,
                    "seed": seed,
                    "method": method,
                    "rmse": error,
                    "r2": 1.0 - error**2 / y[test].var(),
                    "cpu_seconds": seconds,
                    "validation": getattr(model, "validation_", np.nan),
                    "kind": getattr(model, "kind_", ""),
                }
                pd.DataFrame([row]).to_csv(path, mode="a", header=not path.exists(), index=False)
                print(
                    f"{name:28s} {seed} {method:10s} rmse {error:.5g}  r2 {row['r2']:.4f}  {seconds:.2f} s", flush=True
                )


def report(path: str) -> None:
    """Means over the seeds; early-stopped methods as one, "tuned": per split the best on its validation rows."""
    rows = pd.read_csv(path)
    tuned = rows[rows["method"].isin(STOPPED)]
    if len(tuned):
        best = tuned.loc[tuned.groupby(["data", "seed"])["validation"].idxmin()].assign(method="tuned")
        rows = pd.concat([rows, best])
    for value in ("rmse", "r2", "cpu_seconds"):
        table = rows.pivot_table(value, "data", "method", sort=False)
        if value == "r2":
            table.loc["mean"] = table.mean()
        print(value, table.to_string(float_format="%.4g"), sep="\n")
    if "kind" in rows:
        chosen = rows[rows["method"] == "forest"].groupby("data", sort=False)["kind"].agg(" ".join)
        print("kinds that the default forest chose", chosen.to_string(), sep="\n")
    worst = rows.pivot_table("r2", ["data", "seed"], "method")
    for method in ("forest", "boosted"):
        if method in worst:
            print(f"{method}: most below the best, in R2: {(worst.max(axis=1) - worst[method]).max():.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=EIGHT, help="data sets, or 'sixteen': those of the GET paper")
    parser.add_argument("--methods", default=",".join(PEERS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--csv", default="forests.csv")
    parser.add_argument("--report", metavar="FILE", help="print the tables of a file and measure nothing")
    args = parser.parse_args()
    args.data = SIXTEEN if args.data == "sixteen" else args.data
    if not args.report:
        measure(args)
    report(args.report or args.csv)


if __name__ == "__main__":
    main()
