"""Ideas for trees by gradients, as PyTorch prototypes beside opttree's own by default, judged on rows within the
training part: ensembles of hard axis-aligned trees trained end to end (GRANDE, Marton et al. 2024), and for soft trees
of numbers (SDTR, Luo et al. 2021) a hidden layer before the splits and gates that are small networks.

A quarter of the rows is set aside and never read. Of the others, three fifths fit, a fifth stops the prototypes and
chooses between two learning rates, and a fifth judges; opttree's are fitted to the first two together. Numbers: R2;
classes: accuracy. "constant" is the mean, or the most frequent class. CPU seconds are of both learning rates.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, script
from opttree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    GradTreeClassifier,
    SDTRRegressor,
    TAOForestClassifier,
    TAOForestRegressor,
    datasets,
)
from opttree.preprocessing import Curves

CLASSES = ("german", "titanic", "contraceptive", "car", "spambase")
NUMBERS = ("airfoil", "abalone", "kin8nm", "cpu_act")
SOFT = ("linear gates", "hidden layer", "MLP gates")
MODELS = ("GRANDE", *SOFT, "constant", "TAO forest", "boosted", "GradTree", "SDTR")
# of features, thresholds, leaves and the leaves' weights
GRANDE_RATES = ((0.01, 0.01, 0.01, 0.005), (0.01, 0.05, 0.05, 0.001))
SOFT_RATES = (0.003, 0.01)
BATCH = 128
HIDDEN = 8  # units of a gate that is a network
Floats = NDArray[np.float64]
Made = tuple[list[Any], Callable[[Any, bool], tuple[Any, Any]]]


def parts(name: str, seed: int, most: int) -> list[tuple[Floats, Any]]:
    """Rows that fit, choose and judge, with the outcomes."""
    X, y = datasets.load(name, as_arrays=True)
    classes = name in CLASSES

    def split(X: Floats, y: Any, share: float) -> list[Any]:
        return train_test_split(X, y, test_size=share, random_state=seed, stratify=y if classes else None)

    X, _X, y, _y = split(X, y, 0.25)
    X, judge, y, judge_y = split(X[:most], y[:most], 0.2)
    fit, choose, fit_y, choose_y = split(X, y, 0.25)
    return [(fit, fit_y), (choose, choose_y), (judge, judge_y)]


# ---- hard trees ------------------------------------------------------------------------------------------------------


def entmax(logits: Any) -> Any:
    """1.5-entmax over the last axis: like softmax, but with zeros."""
    import torch

    class Entmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            z = (z - z.amax(-1, keepdim=True)) / 2
            ordered = z.sort(-1, descending=True).values
            count = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
            mean, square = ordered.cumsum(-1) / count, (ordered**2).cumsum(-1) / count
            level = mean - ((1 / count - (square - mean**2)).clamp(min=0)).sqrt()
            size = (level <= ordered).sum(-1, keepdim=True)
            share = (z - level.gather(-1, size - 1)).clamp(min=0) ** 2
            ctx.save_for_backward(share)
            return share

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            root = ctx.saved_tensors[0].sqrt()
            product = gradient * root
            return product - product.sum(-1, keepdim=True) / root.sum(-1, keepdim=True) * root

    return Entmax.apply(logits)


def grande(X: Any, outputs: int, trees: int, depth: int, rates: tuple[float, ...]) -> Made:
    """Parameters, with learning rates, of hard trees, each weighted by the leaf that a row reaches, and the program:
    the outputs of rows, and no penalty.
    """
    import torch

    n, p = X.shape
    some = max(min(p, 2), round(0.8 * p))
    subset = torch.stack([torch.randperm(p)[:some] for _ in range(trees)])
    rows = torch.randint(n, (trees, 2**depth - 1, some))
    at = X[rows, subset[:, None, :].expand_as(rows)]  # thresholds begin at values of the features
    index = 0.05 * torch.randn(trees, 2**depth - 1, some)
    leaves = 0.05 * torch.randn(trees, 2**depth, outputs)
    weights = 0.05 * torch.randn(trees, 2**depth)
    parameters = [part.requires_grad_() for part in (index, at, leaves, weights)]

    def program(x: Any, training: bool) -> tuple[Any, Any]:
        share = entmax(index)
        hard = torch.nn.functional.one_hot(share.argmax(-1), some).to(share.dtype)
        chosen = hard + share - share.detach()
        z = torch.einsum("eif,ebf->ieb", chosen, x[:, subset].transpose(0, 1)) - (chosen * at).sum(-1).T[:, :, None]
        soft = (torch.nn.functional.softsign(z) + 1) / 2
        right = soft + (soft.round() - soft).detach()
        reached = torch.ones(1, trees, len(x))
        for level in range(depth):
            both = reached * right[2**level - 1 : 2 ** (level + 1) - 1]
            reached = torch.cat([reached - both, both])
        answers = torch.einsum("leb,elk->ebk", reached, torch.cat([leaves, weights[:, :, None]], dim=-1))
        of_tree = answers[:, :, -1]
        if training:  # a fifth of the trees is left out
            of_tree = of_tree.masked_fill(torch.rand(trees, 1) < 0.2, -1e9)
        return (of_tree.softmax(0)[:, :, None] * answers[:, :, :-1]).sum(0), 0.0

    return [{"params": [part], "lr": rate} for part, rate in zip(parameters, rates, strict=True)], program


# ---- soft trees ------------------------------------------------------------------------------------------------------


def soft_tree(kind: str, X: Any, depth: int, rate: float) -> Made:
    """Parameters, with learning rates, of a soft tree of numbers, and its program: the outputs, and what the penalties
    on paths and weights add.
    """
    import torch

    p, gates = X.shape[1], 2**depth - 1
    width = max(p, 16) if kind == "hidden layer" else p

    def drawn(*shape: int, fans: tuple[int, int]) -> Any:
        return (2 * torch.rand(*shape) - 1) * math.sqrt(6 / sum(fans))

    before = drawn(p, width, fans=(p, width))
    before_b, beta, b = torch.zeros(width), torch.full((gates,), 1.5), torch.zeros(gates)
    leaves = torch.randn(2**depth, 1)
    inner, inner_b = drawn(gates, p, HIDDEN, fans=(p, HIDDEN)), torch.zeros(gates, HIDDEN)
    A = drawn(gates, HIDDEN, fans=(HIDDEN, 1)) if kind == "MLP gates" else drawn(gates, width, fans=(width, 1))
    used = [beta, b, A, *([before, before_b] if kind == "hidden layer" else ())]
    used += [inner, inner_b] if kind == "MLP gates" else []
    for part in (*used, leaves):
        part.requires_grad_()
    decay = torch.cat([torch.full((2**level,), 0.5**level) for level in range(depth)])

    def program(x: Any, training: bool) -> tuple[Any, Any]:
        if kind == "MLP gates":
            units = torch.relu((x @ inner.transpose(0, 1).reshape(p, -1)).unflatten(1, (gates, HIDDEN)) + inner_b)
            z, size = (units * A).sum(-1), inner.abs().sum(1).mean(-1)
        else:
            z, size = (torch.relu(x @ before + before_b) if kind == "hidden layer" else x) @ A.T, A.abs().sum(-1)
        left = torch.sigmoid(beta * (z + b))
        reached, balance = torch.ones(len(x), 1), []
        for level in range(depth):
            s = left[:, 2**level - 1 : 2 ** (level + 1) - 1]
            balance.append((reached * s).sum(0) / reached.sum(0).clamp(min=1e-9))
            reached = torch.stack([reached * s, reached * (1 - s)], dim=-1).flatten(1)
        alpha = torch.cat(balance).clamp(1e-6, 1 - 1e-6)
        path = -(decay * (alpha.log() + (1 - alpha).log()) / 2).sum()
        return reached @ leaves, 0.01 * path + 0.005 * (decay * size).sum()

    return [{"params": used, "lr": rate}, {"params": [leaves], "lr": rate * 2**depth}], program


# ---- training --------------------------------------------------------------------------------------------------------


def trained(
    make: Callable[[Any, int, Any], Made],
    rates: tuple[Any, ...],
    given: list[tuple[Floats, Any]],
    classes: bool,
    seed: int,
    epochs: int,
) -> tuple[float, Row]:
    """Score on the rows that judge, of the learning rates with the lower loss on those that choose, and how it went."""
    import torch

    torch.set_num_threads(1)
    curves = Curves.normal(given[0][0])
    xs = [torch.tensor(np.asarray(curves.transform(X), np.float32)) for X, _y in given]
    labels, (center, spread) = np.unique(given[0][1]), (np.mean(given[0][1]), np.std(given[0][1]))
    codes = [np.searchsorted(labels, y) if classes else ((y - center) / spread).astype(np.float32) for _X, y in given]
    ys = [torch.tensor(code) for code in codes]

    def loss(outputs: Any, y: Any) -> Any:
        if classes:
            return torch.nn.functional.cross_entropy(outputs, y)
        return torch.nn.functional.mse_loss(outputs[:, 0], y)

    best: tuple[float, int, float, Any, Any] = (math.inf, 0, 0.0, None, None)
    for rate in rates:
        torch.manual_seed(seed)
        groups, program = make(xs[0], len(labels) if classes else 1, rate)
        optimizer = torch.optim.Adam(groups)
        leading, since = math.inf, 0
        for epoch in range(epochs):
            for rows in torch.randperm(len(xs[0])).split(BATCH):
                optimizer.zero_grad()
                outputs, penalty = program(xs[0][rows], True)
                (loss(outputs, ys[0][rows]) + penalty).backward()
                optimizer.step()
            with torch.no_grad():
                now = float(loss(program(xs[1], False)[0], ys[1]))
                if now < best[0]:
                    fitted = float(loss(program(xs[0], False)[0], ys[0]))
                    best = (now, epoch + 1, fitted, rate, program(xs[2], False)[0])
            leading, since = (now, 0) if now < leading else (leading, since + 1)
            if since >= 20:
                break
    answer = best[4].numpy()
    score = (
        accuracy_score(given[2][1], labels[answer.argmax(1)])
        if classes
        else r2_score(given[2][1], center + spread * answer[:, 0])
    )
    return float(score), {"epochs": best[1], "fit loss": best[2], "choosing loss": best[0], "rates": str(best[3])}


def own(classes: bool, seed: int) -> dict[str, Any]:
    """The estimators of opttree by default, and the constant."""
    if classes:
        return {
            "constant": DummyClassifier(),
            "TAO forest": TAOForestClassifier(random_state=seed),
            "boosted": BoostedTreesClassifier(random_state=seed),
            "GradTree": GradTreeClassifier(random_state=seed),
        }
    return {
        "constant": DummyRegressor(),
        "TAO forest": TAOForestRegressor(random_state=seed),
        "boosted": BoostedTreesRegressor(random_state=seed),
        "SDTR": SDTRRegressor(random_state=seed),
    }


@script
def main(
    sets: Annotated[tuple[str, ...], "data sets"] = (*CLASSES, *NUMBERS),
    seeds: Annotated[tuple[int, ...], "of the splits"] = (0, 1, 2),
    models: Annotated[tuple[str, ...], "of the table"] = MODELS,
    most: Annotated[int, "rows of the training part that are used"] = 1500,
    trees: Annotated[int, "of GRANDE"] = 32,
    depth: int = 5,
    epochs: Annotated[int, "of GRANDE at most, twice as many of soft trees; 20 without a gain end it"] = 80,
) -> Iterator[Row]:
    def hard(X: Any, outputs: int, rates: Any) -> Made:
        return grande(X, outputs, trees, depth, rates)

    def soft(kind: str) -> Callable[[Any, int, Any], Made]:
        return lambda X, outputs, rate: soft_tree(kind, X, depth, rate)

    rows: list[Row] = []
    for seed in seeds:
        for name in sets:
            classes = name in CLASSES
            given = parts(name, seed, most)
            makers: dict[str, Any] = {"GRANDE": (hard, GRANDE_RATES)}
            makers |= {} if classes else {kind: (soft(kind), SOFT_RATES) for kind in SOFT}
            others = own(classes, seed)
            both, both_y = (np.concatenate([given[0][k], given[1][k]]) for k in (0, 1))
            for label in (one for one in (*makers, *others) if one in models):
                began = time.process_time()
                if label in makers:
                    make, rates = makers[label]
                    score, how = trained(make, rates, given, classes, seed, epochs if label == "GRANDE" else 2 * epochs)
                else:
                    score, how = others[label].fit(both, both_y).score(*given[2]), {}
                row = {"data": name, "seed": seed, "model": label, "score": score, "CPU s": time.process_time() - began}
                rows.append(row)
                yield row | {key: how.get(key) for key in ("epochs", "fit loss", "choosing loss", "rates")}
    table = pd.DataFrame(rows)
    for what in ("score", "CPU s"):
        for some in (CLASSES, NUMBERS):
            chosen = table[table["data"].isin(some)]
            for name, means in chosen.pivot_table(what, "data", "model", sort=False).iterrows():
                yield {"data": name, "mean": what} | means.to_dict()
