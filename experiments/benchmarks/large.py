"""Seconds and peak memory of one fit on generated rows: 500,000 x 90, depth 8, linear leaves, 10 passes.

Peak memory is the process's largest resident set, the interpreter and all libraries included.

python -m experiments.benchmarks.large [--rows 500000] [--features 90] [--depth 8] [--passes 10]
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from opttree import TAORegressor


def peak() -> float:
    """Largest resident set so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--features", type=int, default=90)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--init", default="random")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    warm = rng.normal(size=(300, 3))
    TAORegressor(2, leaves="linear", init=args.init, max_iter=5).fit(warm, warm[:, 0])  # compile
    X = np.empty((args.rows, args.features))
    for start in range(0, args.rows, 10_000):
        block = X[start : start + 10_000]
        block[:] = rng.normal(size=block.shape)
    y = np.where(X[:, 0] > 0, X[:, 1] + np.abs(X[:, 2]), X[:, 3] * np.sign(X[:, 4])) + 0.3 * rng.normal(size=args.rows)
    before = peak()
    began = time.perf_counter()
    model = TAORegressor(
        args.depth, leaves="linear", init=args.init, max_iter=args.passes, random_state=0, verbose=0
    ).fit(X, y)
    seconds = time.perf_counter() - began
    size = X.nbytes / 2**20
    after = peak()
    print(f"{args.rows} x {args.features} ({size:.0f} MB), depth {args.depth}, linear leaves, {args.passes} passes")
    print(f"fit {seconds:.1f} s; train R2 {model.score(X[:50_000], y[:50_000]):.4f}; {model.tree_.n_leaves} leaves")
    print(f"peak memory {after:.0f} MB = {after / size:.2f} x the input; before the fit {before:.0f} MB")
    print(model.result_)


if __name__ == "__main__":
    main()
