"""CPU seconds of a fit: the default forest and boosted trees beside another library's, side by side in one thread.

Per data set the methods of the protocol ``forests`` fit three quarters of the rows in turn, outputs standardised;
medians over the repeats, and how many times as long as the first method each took. Their errors are the protocol's:
``python -m experiments run forests``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.model_selection import train_test_split

from experiments import methods as libraries, reading
from experiments.benchmarks.common import Row, alternating, beside, load, script, standard

FORESTS = reading.read("forests")


def fit(label: str, X: np.ndarray, y: np.ndarray, seed: int) -> None:
    """Fit a method to three quarters of the rows."""
    method = FORESTS.methods[label]
    model = libraries.estimator(method.use, "regression", method.options, depth=None, seed=seed, threads=1)
    X_train, _X, y_train, _y = train_test_split(X, y, test_size=0.25, random_state=seed)
    model.fit(X_train, standard(y_train))


@script
def main(
    data: tuple[str, ...] = tuple(FORESTS.datasets),
    methods: tuple[str, ...] = ("forest", "boosted", "rf-1000", "xgb-1000"),
    repeats: int = 5,
) -> Iterator[Row | str]:
    rng = np.random.default_rng(0)
    labels = []
    for label in methods:
        try:
            fit(label, rng.normal(size=(400, 4)), rng.normal(size=400), 0)  # compile
            labels.append(label)
        except libraries.UnavailableError as error:
            yield f"without {label}: {error}"
    for name in data:
        calls = {label: partial(fit, label, *load(name)) for label in labels}
        yield {"data": name, **beside(alternating(calls, repeats, numbered=True, clock=time.process_time))}
