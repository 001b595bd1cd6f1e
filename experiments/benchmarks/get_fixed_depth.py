"""Table 8 of the GET paper: training and test R2 and seconds at fixed depths, constant leaves, on its 16 data sets.

Per data set, depth and seed (a random 75/25 split): CART, TAO (one fit of `TAORegressor` with its defaults), the
paper's algorithm as printed with 2 and with 10 random starts, and the default preset. Rows are printed as they come;
the means over data sets stand at the end, beside the paper's.

python -m experiments.benchmarks.get_fixed_depth [--data ...] [--depths 2,4,8] [--seeds 0,1,2] [--csv FILE]
python -m experiments.benchmarks.get_fixed_depth --depths 12 --data airfoil,space_ga,abalone,kin8nm --methods ...
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor

from opttree import GETRegressor, TAORegressor, datasets

DATA = (
    "airfoil,space_ga,abalone,gas_turbine_co_2015,gas_turbine_nox_2015,puma8NH,cpu_act,cpu_small,kin8nm,"
    "delta_elevators,ccpp,electrical_grid_stability,cbm_compressor,cbm_turbine,ailerons,elevators"
)
PUBLISHED = {2: (71.80, 70.24), 4: (82.40, 77.89), 8: (91.02, 78.55), 12: (96.09, 71.97)}  # GET: train, test


def model(method: str, depth: int, seed: int) -> Any:
    """The estimator of a row: cart, tao, default, or paper-N with N starts."""
    if method == "cart":
        return DecisionTreeRegressor(max_depth=depth, random_state=seed)
    if method == "tao":
        return TAORegressor(depth, random_state=seed)
    if method == "default":
        return GETRegressor(depth, random_state=seed)
    return GETRegressor(depth, preset="paper", n_starts=int(method.removeprefix("paper-")), random_state=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--depths", default="2,4,8")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--methods", default="cart,tao,default,paper-2,paper-10")
    parser.add_argument("--csv", help="also write the rows to this file")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(500, 3)), rng.uniform(size=500)
    for method in ("tao", "default", "paper-1"):
        model(method, 5, 0).set_params(time_limit=1.0).fit(X, y)  # compile off the clock
    rows = []
    for depth in (int(d) for d in args.depths.split(",")):
        for name in args.data.split(","):
            X, y = datasets.load(name, as_arrays=True)
            for seed in (int(s) for s in args.seeds.split(",")):
                train, test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
                for method in args.methods.split(","):
                    fitted = model(method, depth, seed)
                    began = time.perf_counter()
                    fitted.fit(train, y_train)
                    seconds = time.perf_counter() - began
                    row = {
                        "depth": depth,
                        "data": name,
                        "seed": seed,
                        "method": method,
                        "train": 100 * fitted.score(train, y_train),
                        "test": 100 * fitted.score(test, y_test),
                        "seconds": seconds,
                    }
                    rows.append(row)
                    if args.csv:
                        pd.DataFrame(rows).to_csv(args.csv, index=False)
            table = pd.DataFrame(r for r in rows if r["data"] == name and r["depth"] == depth)
            means = table.groupby("method", sort=False)[["train", "test", "seconds"]].mean()
            cells = (f"{m} {r.train:.2f} {r.test:.2f} {r.seconds:.2f} s" for m, r in means.iterrows())
            print(f"depth {depth} {name:26s}", " | ".join(cells), flush=True)
        table = pd.DataFrame(r for r in rows if r["depth"] == depth)
        means = table.groupby("method", sort=False)[["train", "test", "seconds"]].mean()
        print(f"\ndepth {depth}, means; GET as published: train and test R2 {PUBLISHED.get(depth)}")
        print(means.round(2).to_string(), "\n", flush=True)


if __name__ == "__main__":
    main()
