"""Steps per second of GradTree's kernels against the same model in eager PyTorch, on the same batches in turn.

A step is a batch of 512 rows: forward pass, straight-through gradient, Adam. The reference evaluates algorithm 1 of the
paper densely, as its authors' code does, in float32, on some threads; the kernel runs on one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np

from experiments.benchmarks.common import Row, Step, load, script, standard, steps_beside
from opttree import DenseTreeProblem, TreeProblem
from opttree.kernels.dense import walk as dense
from solvers.gradtree.descent import ADAM

BATCH, RATE = 512, 0.01


def torch_step(form: DenseTreeProblem, theta: np.ndarray, batches: list[np.ndarray]) -> Step:
    """A step in PyTorch."""
    import torch

    problem = form.problem
    p, depth = problem.n_features, problem.depth
    X, y = torch.tensor(problem.X, dtype=torch.float32), torch.tensor(problem.Y[:, 0]).long()
    logits, T, L = (torch.tensor(part, requires_grad=True) for part in form.unpack(theta.copy()))
    optimizers = [torch.optim.Adam([part], lr=RATE) for part in (logits, T, L)]
    k = torch.arange(1, p + 1, dtype=torch.float32)

    def entmax(z: Any) -> Any:
        z = z / 2
        z = z - z.max(-1, keepdim=True)[0]
        ordered, _ = z.sort(-1, descending=True)
        mean, square = ordered.cumsum(-1) / k, (ordered**2).cumsum(-1) / k
        tau = mean - ((1 - k * (square - mean**2)) / k).clamp(min=0).sqrt()
        tau = tau.gather(-1, (tau <= ordered).sum(-1, keepdim=True) - 1)
        return (z - tau).clamp(min=0) ** 2

    def step(number: int) -> None:
        rows = torch.from_numpy(batches[number])
        P = entmax(logits)
        P = P + (torch.nn.functional.one_hot(P.argmax(-1), p) - P).detach()
        s = torch.sigmoid((T * P).sum(-1) - X[rows] @ P.T)
        s = s + (s.round() - s).detach()
        shares = torch.ones(len(rows), 1)
        for level in range(depth):
            here = s[:, 2**level - 1 : 2 ** (level + 1) - 1]
            shares = torch.stack([shares * here, shares * (1 - here)], dim=2).reshape(len(rows), -1)
        loss = torch.nn.functional.cross_entropy(shares @ L, y[rows])
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()

    return step


def numba_step(form: DenseTreeProblem, theta: np.ndarray, batches: list[np.ndarray]) -> Step:
    """A step of the kernel."""
    theta, state = theta.copy(), np.zeros((2, theta.size), theta.dtype)
    schedule, end = dense.Schedule(0, np.full(3, RATE), np.ones(1), ADAM), np.array([len(batches[0])])
    return lambda number: dense.descend(
        theta, state, schedule._replace(done=number + 1), 0, form.data, dense.Batches(batches[number], end), form.form
    )


@script
def main(
    data: tuple[str, ...] = ("adult", "landsat", "spambase"),
    depths: tuple[int, ...] = (8, 10),
    threads: Annotated[int, "of PyTorch"] = 2,
    steps: int = 60,
) -> Iterator[Row]:
    for name in data:
        X, y = load(name)
        for depth in depths:
            form = DenseTreeProblem(TreeProblem(standard(X), y, depth=depth, splits="axis", loss="zero_one"))
            row = {"data": name, "p": X.shape[1], "depth": depth}
            yield row | steps_beside(form, len(y), BATCH, steps, threads, ours=numba_step, torch=torch_step)
