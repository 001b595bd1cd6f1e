"""CPU seconds of a fit: the default forest and boosted trees beside another library's, side by side in one thread.

Per data set the methods of the protocol ``forests`` fit three quarters of the rows in turn, outputs standardised;
medians over the repeats, and how many times as long as the first method each took. Their errors are the protocol's:
``python -m experiments run forests``.

python -m experiments.benchmarks.forests [--data ...] [--methods ...] [--repeats 5]
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.model_selection import train_test_split

from experiments import methods, protocol
from opttree import datasets


def main() -> None:
    stated = protocol.read("forests")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(stated.datasets))
    parser.add_argument("--methods", default="forest,boosted,rf-1000,xgb-1000")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    labels = args.methods.split(",")

    def fit(label: str, X: np.ndarray, y: np.ndarray, seed: int) -> float:
        method = stated.methods[label]
        model = methods.estimator(method.use, "regression", method.options, depth=None, seed=seed, threads=1)
        began = time.process_time()
        model.fit(X, y)
        return time.process_time() - began

    rng = np.random.default_rng(0)
    for label in list(labels):
        try:
            fit(label, rng.normal(size=(300, 4)), rng.normal(size=300), 0)  # compile
        except methods.UnavailableError as error:
            print(f"without {label}: {error}")
            labels.remove(label)
    for name in args.data.split(","):
        X, y = datasets.load(name, as_arrays=True)
        taken: dict[str, list[float]] = {label: [] for label in labels}
        for seed in range(args.repeats):
            X_train, _X, y_train, _y = train_test_split(X, y, test_size=0.25, random_state=seed)
            for label in labels:
                taken[label].append(fit(label, X_train, (y_train - y_train.mean()) / y_train.std(), seed))
        medians = {label: float(np.median(seconds)) for label, seconds in taken.items()}
        first = medians[labels[0]]
        print(
            f"{name:12s}",
            "  ".join(f"{label} {seconds:.2f} s ({seconds / first:.2f}x)" for label, seconds in medians.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
