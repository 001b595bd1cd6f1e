"""Log loss of the probabilities of single trees on rows held out, beside a forest's, and their accuracy.

At most 4,000 rows of a set; means over three splits with a quarter of the rows held out. "bare" is the same tree
without shrinkage and temperature.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, load, script
from opttree import DTSemNetClassifier, GETClassifier, RADDTClassifier, TAOClassifier, TAOForestClassifier

ROWS, SPLITS = 4000, 3
SINGLE = {
    "TAO, depth 6": TAOClassifier(6),
    "GET, depth 6": GETClassifier(6),
    "TAO, linear, depth 4": TAOClassifier(4, leaves="linear"),
    "GET-Linear, depth 4": GETClassifier(4, leaves="linear"),
    "RADDT, depth 5": RADDTClassifier(5, epochs=60),
    "DTSemNet, depth 5": DTSemNetClassifier(5),
}


@script
def main(sets: tuple[str, ...] = ("segment", "landsat", "glass", "german")) -> Iterator[Row]:
    warnings.simplefilter("ignore")
    models = {"forest": (TAOForestClassifier(), {})}
    for name, model in SINGLE.items():
        models |= {name: (model, {}), f"{name}, bare": (model, {"leaf_shrinkage": 0.0})}
    for name in sets:
        X, y = load(name, ROWS)
        for method, (model, options) in models.items():
            found = []
            for seed in range(SPLITS):
                A, B, u, v = train_test_split(X, y.astype(int), test_size=0.25, random_state=seed, stratify=y)
                fitted = clone(model).set_params(**options, random_state=seed).fit(A, u)
                shares = np.clip(fitted.predict_proba(B), 1e-15, 1.0)
                shares /= shares.sum(axis=1, keepdims=True)
                found.append((log_loss(v, shares, labels=fitted.classes_), fitted.score(B, v)))
            loss, accuracy = np.mean(found, axis=0)
            yield {"data": name, "method": method, "log loss": loss, "accuracy": accuracy}
