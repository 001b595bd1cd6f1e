"""Steps per second of the soft forest's kernels against the same model in eager PyTorch, on the same batches.

A step is a batch of 1024 rows: loss of the averaged answers, path penalty, decayed l1 norm, gradient, Adam (PyTorch has
no QHAdam); float32, both on the same number of threads.

python -m experiments.benchmarks.sdtr_speed [--data wine_red,sarcos_test,elevators] [--trees 1,32,256] [--depth 5]
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numba
import numpy as np

from experiments.benchmarks.gradtree_speed import median
from opttree import SoftForestProblem, TreeProblem, datasets
from opttree.kernels.soft_forest import walk as soft_forest
from solvers.sdtr.descent import QHADAM

BATCH, RATE = 1024, 0.001


def torch_steps(form: SoftForestProblem, theta: np.ndarray, batches: list[np.ndarray], threads: int) -> float:
    """Seconds per step in PyTorch."""
    import torch

    torch.set_num_threads(threads)
    X, Y = (torch.tensor(np.array(part), dtype=torch.float32) for part in (form.problem.X, form.problem.Y))
    parts = [torch.tensor(part, requires_grad=True) for part in form.unpack(theta.copy())]
    optimizer = torch.optim.Adam(parts, lr=RATE)
    A, b, beta, values = parts
    depth, T = form.problem.depth, form.n_trees

    def step(rows: Any) -> None:
        x, y = X[rows], Y[rows]
        left = torch.sigmoid(beta * (b - (x @ A.reshape(-1, A.shape[2]).T).reshape(len(rows), T, -1)))
        shares, penalty = torch.ones(len(rows), T, 1), torch.zeros(())
        for level in range(depth):
            nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
            here = left[:, :, nodes]
            alpha = (shares * here).sum(0) / shares.sum(0)
            even = -0.5 * (torch.log(alpha) + torch.log(1 - alpha)).sum()
            penalty = penalty + 2.0**-level * (form.path_penalty * even + form.l1 * A[:, nodes].abs().sum()) / T
            shares = torch.stack([shares * here, shares * (1 - here)], dim=3).reshape(len(rows), T, -1)
        answers = torch.einsum("ntl,tlk->nk", shares, values) / T
        loss = ((answers - y) ** 2).sum(1).mean() + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step(torch.tensor(batches[0]))
    return median([partial(step, torch.tensor(rows)) for rows in batches])


def numba_steps(form: SoftForestProblem, theta: np.ndarray, batches: list[np.ndarray]) -> float:
    """Seconds per step of the kernel."""
    theta, state, rates = theta.copy(), np.zeros((2, theta.size), theta.dtype), np.full(2, RATE)
    packed = [form.pack_rows([rows]) for rows in batches]

    def step(number: int, data: Any, bounds: np.ndarray) -> None:
        soft_forest.descend(theta, state, number, rates, bounds, data, form.form, QHADAM)

    step(0, *packed[0])
    return median([partial(step, i + 1, *batch) for i, batch in enumerate(packed)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="wine_red,sarcos_test,elevators")
    parser.add_argument("--trees", default="1,32,256")
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    numba.set_num_threads(args.threads)
    for name in args.data.split(","):
        X, y = datasets.load(name, as_arrays=True)
        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        y = (y - y.mean(axis=0)) / y.std(axis=0)
        problem = TreeProblem(X, y, depth=args.depth)
        for n_trees in (int(t) for t in args.trees.split(",")):
            form = SoftForestProblem(problem, n_trees, aggregation="mixture", path_penalty=0.1, l1=0.01)
            rng = np.random.default_rng(0)
            theta = form.random_theta(rng)
            batches = [rng.permutation(len(y))[:BATCH] for _ in range(args.steps)]
            ours, theirs = numba_steps(form, theta, batches), torch_steps(form, theta, batches, args.threads)
            print(
                f"{name:12s} p = {X.shape[1]:3d}, {n_trees:3d} trees of depth {args.depth}: {1 / ours:7.1f} steps/s, "
                f"PyTorch {1 / theirs:6.1f}, ratio {theirs / ours:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
