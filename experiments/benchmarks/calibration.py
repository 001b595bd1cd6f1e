"""Log loss of the probabilities of single trees on rows held out, beside a forest's; in brackets the accuracy.

    python -m experiments.benchmarks.calibration --sets segment landsat glass german

At most 4,000 rows of a set; means over three splits with a quarter of the rows held out. "bare" is the same tree
without shrinkage and temperature.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from opttree import DTSemNetClassifier, GETClassifier, RADDTClassifier, TAOClassifier, TAOForestClassifier, datasets

ROWS, SPLITS = 4000, 3
SINGLE = {
    "TAO, depth 6": lambda: TAOClassifier(6),
    "GET, depth 6": lambda: GETClassifier(6),
    "TAO, linear, depth 4": lambda: TAOClassifier(4, leaves="linear"),
    "GET-Linear, depth 4": lambda: GETClassifier(4, leaves="linear"),
    "RADDT, depth 5": lambda: RADDTClassifier(5, epochs=60),
    "DTSemNet, depth 5": lambda: DTSemNetClassifier(5),
}


def loss_of(model: Any, X: Any, y: Any) -> tuple[float, float]:
    shares = np.clip(model.predict_proba(X), 1e-15, 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    return log_loss(y, shares, labels=model.classes_), model.score(X, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["segment", "landsat", "glass", "german"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in args.sets:
        X, y = datasets.load(name, as_arrays=True)
        some = np.random.default_rng(0).permutation(len(X))[:ROWS]
        X, y = X[some], y[some].astype(int)
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(SPLITS):
            A, B, u, v = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
            models = {"forest": TAOForestClassifier()}
            for method, make in SINGLE.items():
                models |= {method: make(), f"{method}, bare": make().set_params(leaf_shrinkage=0.0)}
            for method, model in models.items():
                found.setdefault(method, []).append(loss_of(model.set_params(random_state=seed).fit(A, u), B, v))
        for method, pairs in found.items():
            loss, accuracy = np.mean(pairs, axis=0)
            rows.append({"data": name, "method": method, "loss": f"{loss:.3f} ({accuracy:.3f})"})
            print(rows[-1], flush=True)
    print(pd.DataFrame(rows).pivot_table("loss", "method", "data", aggfunc="first", sort=False).to_markdown())


if __name__ == "__main__":
    main()
