"""Seconds of TAO on images of digits, n images of 784 pixels, to 1 or 64 outputs, and on 5,000 columns.

The task is that of Table 3 of the TAO paper: from an image of a digit, predict a patch of 8 x 8 pixels of the image
turned by an angle, where the digit decides on the angle and on the patch. The paper's angles and patches are in its
supplement; here they are drawn from a stated seed. One output: the mean of the patch. Leaves are the lasso, and the
strengths, .003 against half the mean squared error and in each node, those of the first try, not tuned.

Prints, for each size, CPU seconds of a whole fit and of a pass, root mean squared errors on training and test images,
and the number of weights. --against another checkout runs the same in it, size by size, in turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from scipy.ndimage import rotate

from experiments.benchmarks.common import Row, script
from opttree import TreeProblem
from solvers import TAO, NewtonNode, RandomInit, solve

SIZES = {"3k x 784 to 1": (3000, 784, 1), "3k x 784 to 64": (3000, 784, 64), "2k x 5000 to 1": (2000, 5000, 1)}
LARGE = {"20k x 784 to 64": (20_000, 784, 64), "60k x 784 to 64": (60_000, 784, 64)}
NARROW = {"8k x 21 to 1": (8000, 21, 1), "8k x 60 to 1": (8000, 60, 1), "8k x 21 to 7": (8000, 21, 7)}
SIDE, PATCH = 28, 8
LASSO = 0.003


def images(n: int, part: str) -> tuple[np.ndarray, np.ndarray]:
    """(n, 784) pixels in [0, 1] of images in random order, and their digits."""
    with np.load(Path(os.environ["OPTTREE_DATA"]) / "mnist.npz") as data:
        pixels, digits = data[f"{part}_images"], data[f"{part}_labels"]
    some = np.random.default_rng(0).permutation(len(pixels))[:n]
    return pixels[some].reshape(-1, SIDE * SIDE) / 255.0, digits[some]


def patches(X: np.ndarray, digits: np.ndarray, seed: int = 0) -> np.ndarray:
    """(n, 64) the patches of the turned images."""
    rng = np.random.default_rng(seed)
    out = np.empty((len(X), PATCH * PATCH))
    for digit in range(10):
        angle, (row, column) = float(rng.uniform(0.0, 360.0)), rng.integers(4, SIDE - PATCH - 3, size=2)
        own = digits == digit
        turned = rotate(X[own].reshape(-1, SIDE, SIDE), angle, axes=(1, 2), reshape=False, order=1)
        out[own] = turned[:, row : row + PATCH, column : column + PATCH].reshape(-1, PATCH * PATCH)
    return out


def table(n: int, p: int, n_outputs: int, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Rows of a size: images, or else columns of noise of which the outputs depend on ten."""
    if p == SIDE * SIDE:
        X, digits = images(n, part)
        Y = patches(X, digits)
        return X, Y if n_outputs > 1 else Y.mean(axis=1, keepdims=True)
    rng = np.random.default_rng(1 if part == "train" else 2)
    X = rng.normal(size=(n, p))
    mix = np.random.default_rng(3).normal(size=(10, n_outputs))
    return X, np.where(X[:, :1] > 0.0, X[:, :10] @ mix, -X[:, :10] @ mix) + rng.normal(size=(n, n_outputs))


def solver_of(passes: int, lasso: float) -> TAO:
    """TAO from random hyperplanes, with the same l1 penalty in nodes and linear leaves."""
    return TAO(
        max_iter=passes,
        init=RandomInit(),
        node_solver=NewtonNode(max_iter=2),
        split_lasso=lasso,
        leaf_lasso=lasso,
        min_linear_rows=20,
        constant_iterations=1,
    )


def measure(n: int, p: int, n_outputs: int, depth: int, passes: int, limit: float) -> dict[str, Any]:
    """One fit of a tree with linear leaves."""
    X, Y = table(n, p, n_outputs)
    problem = TreeProblem(X, Y, depth=depth, leaves="linear")
    solver = solver_of(passes, LASSO)
    solve(TreeProblem(X[:200], Y[:200], depth=2, leaves="linear"), solver, random_state=0)  # compiles
    started, cpu = time.perf_counter(), time.process_time()
    result = solve(problem, solver, random_state=0, time_limit=limit)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - started
    test = table(3000, p, n_outputs, "test")
    steps = sum(row.phase == "pass" for row in result.trace)
    return {
        "cpu": round(cpu, 2),
        "wall": round(wall, 2),
        "passes": steps,
        "per pass": round(cpu / max(steps, 1), 2),
        "ended": result.termination.name,
        "train": round(rmse(result.tree, X, Y), 4),
        "test": round(rmse(result.tree, *test), 4),
        "weights": int(np.count_nonzero(result.tree.A) + np.count_nonzero(result.tree.coefs)),
    }


def rmse(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """Root mean squared error over rows and outputs."""
    return float(np.sqrt(np.mean((model.predict(X).reshape(Y.shape) - Y) ** 2)))


def show(*size: Any) -> None:
    """Print what `measure` finds."""
    print(json.dumps(measure(*size)))


@script
def main(
    sizes: Annotated[str, "small, large or narrow"] = "small",
    depth: Annotated[int, "of the trees"] = 4,
    passes: Annotated[int, "of each fit"] = 6,
    limit: Annotated[float, "seconds of each fit"] = 300.0,
    against: Annotated[str, "another checkout"] = "",
) -> Iterator[Row]:
    chosen = {"small": SIZES, "large": LARGE, "narrow": NARROW}[sizes]
    for name, size in chosen.items():
        for place in [Path.cwd(), Path(against)] if against else [Path.cwd()]:
            settings = *size, depth, passes, limit
            code = f"import runpy; runpy.run_path({__file__!r})['show'](*{settings})"
            environment = os.environ | {"PYTHONPATH": str(place)}
            command = [sys.executable, "-c", code]
            run = subprocess.run(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            yield {"size": name, "checkout": place.name} | json.loads(run.stdout.splitlines()[-1])
