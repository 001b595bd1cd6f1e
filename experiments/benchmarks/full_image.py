"""Whole turned digits from their images, 784 pixels to 784: one tree of TAO with linear leaves.

The ridge of the leaves is chosen on 10,000 of the training rows by a tree of depth 5 on 20,000 others; then the tree is
fitted to all of them. The error is the root mean square over the 10,000 test images and all pixels.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from scipy.ndimage import rotate

from experiments.benchmarks.common import Row, peak, script
from experiments.benchmarks.wide import LASSO, SIDE, images, rmse, solver_of
from opttree import L2, TreeProblem
from solvers import solve

RIDGES = (1e-4, 1e-3, 1e-2)


def turned(X: np.ndarray, digits: np.ndarray) -> np.ndarray:
    """(n, 784) the images, each turned by the angle of its digit."""
    angles, out = np.random.default_rng(0).uniform(0.0, 360.0, size=10), np.empty_like(X)
    for digit, angle in enumerate(angles.tolist()):
        own = X[digits == digit].reshape(-1, SIDE, SIDE)
        out[digits == digit] = rotate(own, angle, axes=(1, 2), reshape=False, order=1).reshape(-1, SIDE * SIDE)
    return out


def tree(X: np.ndarray, Y: np.ndarray, depth: int, passes: int, ridge: float) -> Any:
    """A tree with linear leaves under a ridge."""
    problem = TreeProblem(X, Y, depth=depth, leaves="linear", penalties=L2(leaves=ridge))
    return solve(problem, replace(solver_of(passes, LASSO), leaf_lasso=0.0), random_state=0).tree


@script
def main(
    rows: Annotated[int, "images, at most 60,000"] = 60_000,
    depth: Annotated[int, "of the tree"] = 6,
    passes: Annotated[int, "of its fit"] = 4,
) -> Iterator[Row]:
    X, digits = images(rows, "train")
    Y = turned(X, digits)
    X_test, digits_test = images(10_000, "test")
    Y_test = turned(X_test, digits_test)
    yield {"model": "constant", "RMSE": float(np.sqrt(np.mean((Y_test - Y.mean(axis=0)) ** 2)))}
    some, held = slice(0, rows // 3), slice(rows - rows // 6, rows)
    errors = [rmse(tree(X[some], Y[some], depth - 1, passes, ridge), X[held], Y[held]) for ridge in RIDGES]
    ridge = RIDGES[int(np.argmin(errors))]
    began, cpu = time.perf_counter(), time.process_time()
    model = tree(X, Y, depth, passes, ridge)
    yield {
        "model": "TAO",
        "RMSE": rmse(model, X_test, Y_test),
        "training": rmse(model, X[:5000], Y[:5000]),
        "cpu s": time.process_time() - cpu,
        "wall s": time.perf_counter() - began,
        "numbers": model.n_parameters,
        "MB": peak(),
        "ridge": ridge,
    }
