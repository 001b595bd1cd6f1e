"""Steps per second of GradTree's kernels against the same model in eager PyTorch, on the same batches.

A step is a batch of 512 rows: forward pass, straight-through gradient, Adam. The reference evaluates algorithm 1 of the
paper densely, as its authors' code does, in float32; both on the same number of threads.

python -m experiments.benchmarks.gradtree_speed [--data adult,landsat,spambase] [--depths 8,10] [--threads 2]
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np

from opttree import DenseTreeProblem, TreeProblem, datasets
from opttree.kernels.dense import walk as dense
from solvers.gradtree.descent import ADAM

BATCH, RATE = 512, 0.01


def torch_steps(form: DenseTreeProblem, theta: np.ndarray, batches: list[np.ndarray], threads: int) -> float:
    """Seconds per step in PyTorch."""
    import torch

    torch.set_num_threads(threads)
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

    def step(rows: Any) -> None:
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

    step(torch.tensor(batches[0]))
    return median([partial(step, torch.tensor(rows)) for rows in batches])


def numba_steps(form: DenseTreeProblem, theta: np.ndarray, batches: list[np.ndarray]) -> float:
    """Seconds per step of the kernel."""
    theta, state = theta.copy(), np.zeros((2, theta.size), theta.dtype)
    rates, one = np.full(3, RATE), np.ones(1)

    def step(number: int, rows: np.ndarray) -> None:
        end = np.array([rows.size])
        schedule, batches = dense.Schedule(number, rates, one, ADAM), dense.Batches(rows, end)
        dense.descend(theta, state, schedule, 0, form.data, batches, form.form)

    step(0, batches[0])
    return median([partial(step, i + 1, rows) for i, rows in enumerate(batches)])


def median(calls: list[Any]) -> float:
    """Median seconds of the calls, one after another."""
    seconds = []
    for call in calls:
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="adult,landsat,spambase")
    parser.add_argument("--depths", default="8,10")
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch; the kernel runs on one")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    for name in args.data.split(","):
        X, y = datasets.load(name, as_arrays=True)
        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        for depth in (int(d) for d in args.depths.split(",")):
            form = DenseTreeProblem(TreeProblem(X, y, depth=depth, splits="axis", loss="zero_one"))
            rng = np.random.default_rng(0)
            theta = form.random_theta(rng)
            batches = [rng.permutation(len(y))[:BATCH] for _ in range(args.steps)]
            ours, theirs = numba_steps(form, theta, batches), torch_steps(form, theta, batches, args.threads)
            print(
                f"{name:10s} p = {X.shape[1]:3d} depth {depth:2d}: {1 / ours:7.0f} steps/s, PyTorch {1 / theirs:6.0f}, "
                f"ratio {theirs / ours:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
