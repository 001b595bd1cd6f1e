"""Single trees on held-out data: TAO-l, TAO-c and CART, each with its options chosen on a validation part.

Per data set and seed: a random 75/25 split into training and test rows; a quarter of the training rows is the
validation part on which the options are chosen (RMSE, or macro F1 for classification; mean over three such random
parts, which are noisy one by one); the tree is then refitted on all training rows, TAO's from the best of the trees
with the options chosen. Printed: mean and deviation of the test score over the seeds.

python -m experiments.benchmarks.single_trees [--data ...] [--seeds 5] [--csv FILE]
python -m experiments.benchmarks.single_trees --classification
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import f1_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from experiments.benchmarks.common import splits
from opttree import TAOClassifier, TAORegressor, datasets
from solvers import HingeInit

REGRESSION = "abalone,ailerons,cpu_act,airfoil,kin8nm,elevators,puma32H"
CLASSIFICATION = (
    "banknote,spambase,segment,landsat,dermatology,breast_cancer_wisconsin,rice,german,balance_scale,heart_disease"
)


def grid(**options: list[Any]) -> list[dict[str, Any]]:
    """All combinations of the options."""
    return [dict(zip(options, values, strict=True)) for values in product(*options.values())]


CART_GRID = grid(max_depth=[2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20], min_samples_leaf=[1, 2, 5, 10, 20])
REGRESSORS: dict[str, tuple[Any, dict[str, Any], list[dict[str, Any]]]] = {
    "cart": (DecisionTreeRegressor, {}, CART_GRID),
    "tao-c": (  # constant leaves: oblique splits from random trees as in the paper, or axis-aligned ones from CART
        TAORegressor,
        {"leaves": "constant"},
        grid(max_depth=[3, 4, 5, 6, 7, 8], split_penalty=[1e-5, 3e-5, 1e-4, 3e-4], init=["random"], n_init=[3])
        + grid(max_depth=[8, 10, 12], min_samples_leaf=[20], init=["cart"], splits=["axis"]),
    ),
    "tao-l": (
        TAORegressor,
        {"leaves": "linear"},
        grid(
            max_depth=[2, 3, 4, 5, 6, 8],
            split_penalty=[1e-4, 1e-3],
            leaf_penalty=[1e-4, 1e-3],
            init=[HingeInit(), HingeInit(price=1.0)],
        ),
    ),
}
CLASSIFIERS: dict[str, tuple[Any, dict[str, Any], list[dict[str, Any]]]] = {
    "cart": (DecisionTreeClassifier, {}, CART_GRID),
    "tao-c": (
        TAOClassifier,
        {},
        grid(max_depth=[1, 2, 3, 4, 5, 6, 8, 10], split_penalty=[1e-4, 3e-4, 1e-3, 3e-3], init=["cart", "random"]),
    ),
}


def score(y: np.ndarray, predicted: np.ndarray, classification: bool) -> float:
    """Macro F1, or minus the RMSE: larger is better."""
    if classification:
        return float(f1_score(y, predicted, average="macro"))
    return -float(root_mean_squared_error(y, predicted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classification", action="store_true")
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", type=int, default=3, help="validation parts; default %(default)s")
    parser.add_argument("--csv", help="write one row per data set, method and seed to this file")
    args = parser.parse_args()
    methods = CLASSIFIERS if args.classification else REGRESSORS
    names = (args.data or (CLASSIFICATION if args.classification else REGRESSION)).split(",")
    rows = []
    for name in names:
        X, y = datasets.load(name, as_arrays=True)
        for seed, train, test in splits(len(X), 0.25, args.seeds):
            parts = [train_test_split(train, test_size=0.25, random_state=100 * seed + k) for k in range(args.parts)]
            for method, (kind, fixed, options) in methods.items():
                began = time.perf_counter()
                valued = []
                for o in options:
                    models = [kind(random_state=seed, **fixed, **o).fit(X[fit], y[fit]) for fit, _valid in parts]
                    scores = [
                        score(y[valid], model.predict(X[valid]), args.classification)
                        for model, (_fit, valid) in zip(models, parts, strict=True)
                    ]
                    valued.append((np.mean(scores), models[int(np.argmax(scores))]))
                best = int(np.argmax([value for value, _model in valued]))
                chosen = options[best]
                model = clone(valued[best][1])
                if method != "cart":  # CART has no warm start
                    model.set_params(init=valued[best][1].tree_, n_init=1)
                model.fit(X[train], y[train])
                result = score(y[test], model.predict(X[test]), args.classification)
                seconds = time.perf_counter() - began
                rows.append(
                    {"data": name, "method": method, "seed": seed, "score": abs(result), "seconds": seconds, **chosen}
                )
        table = pd.DataFrame([r for r in rows if r["data"] == name]).groupby("method", sort=False)["score"]
        print(
            f"{name:26s}",
            "  ".join(f"{m} {table.mean()[m]:.4g} +- {table.std()[m]:.2g}" for m in methods),
            flush=True,
        )
    if args.csv:
        pd.DataFrame(rows).to_csv(args.csv, index=False)


if __name__ == "__main__":
    main()
