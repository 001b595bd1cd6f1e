"""Steps per second of the soft forest's kernels against the same model in eager PyTorch, on the same batches in turn.

A step is a batch of 1024 rows: loss of the averaged answers, path penalty, decayed l1 norm, gradient, Adam (PyTorch has
no QHAdam); float32, both on the same number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np

from experiments.benchmarks.common import Row, Step, load, script, standard, steps_beside
from opttree import SoftForestProblem, TreeProblem
from opttree.kernels.soft_forest import walk as soft_forest
from solvers.sdtr.descent import QHADAM

BATCH, RATE = 1024, 0.001


def torch_step(form: SoftForestProblem, theta: np.ndarray, batches: list[np.ndarray]) -> Step:
    """A step in PyTorch."""
    import torch

    X, Y = (torch.tensor(np.array(part), dtype=torch.float32) for part in (form.problem.X, form.problem.Y))
    parts = [torch.tensor(part, requires_grad=True) for part in form.unpack(theta.copy())]
    optimizer = torch.optim.Adam(parts, lr=RATE)
    A, b, beta, values = parts
    depth, T = form.problem.depth, form.n_trees

    def step(number: int) -> None:
        rows = torch.from_numpy(batches[number])
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

    return step


def numba_step(form: SoftForestProblem, theta: np.ndarray, batches: list[np.ndarray]) -> Step:
    """A step of the kernel."""
    theta, state, rates = theta.copy(), np.zeros((2, theta.size), theta.dtype), np.full(2, RATE)
    packed = [form.pack_rows([rows]) for rows in batches]

    def step(number: int) -> None:
        data, bounds = packed[number]
        soft_forest.descend(theta, state, number + 1, rates, bounds, data, form.form, QHADAM)

    return step


@script
def main(
    data: tuple[str, ...] = ("wine_red", "sarcos_test", "elevators"),
    trees: tuple[int, ...] = (1, 32, 256),
    depth: int = 5,
    threads: int = 2,
    steps: int = 20,
) -> Iterator[Row]:
    numba.set_num_threads(threads)
    for name in data:
        X, y = load(name)
        problem = TreeProblem(standard(X), standard(y), depth=depth)
        for n_trees in trees:
            form = SoftForestProblem(problem, n_trees, aggregation="mixture", path_penalty=0.1, l1=0.01)
            row = {"data": name, "p": X.shape[1], "trees": n_trees, "depth": depth}
            yield row | steps_beside(form, len(y), BATCH, steps, threads, ours=numba_step, torch=torch_step)
