"""Losses and entropies of the kernels against plain NumPy, and classes that are given up."""

import itertools

import numpy as np
import pytest

from opttree.kernels.losses import rows as row_losses
from opttree.kernels.losses.entropy import CAP, give_up_rare, log_cost
from opttree.kernels.losses.exponential import exp_minus_abs
from opttree.kernels.records import Rows
from opttree.model.tree import Tree
from tests.trees import random_tree


def test_exp_minus_abs_is_accurate(rng):
    z = np.concatenate([np.linspace(-700, 700, 2001), rng.normal(size=1000), [0.0]])
    out, bits = np.empty(z.size), np.empty(z.size, np.int64)
    exp_minus_abs(z, 0, z.size, bits, out)
    np.testing.assert_allclose(out, np.exp(-np.abs(z)), rtol=1e-14)
    far = np.array([-1e300, 1e5])
    exp_minus_abs(far, 0, 2, bits, out)
    np.testing.assert_allclose(out[:2], np.exp(-700.0), rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "absolute", "zero_one", "log"])
@pytest.mark.parametrize("link", ["identity", "softmax"])
def test_losses(rng, loss, link):
    code = {"squared": 0, "absolute": 1, "zero_one": 2, "log": 3}[loss]
    X = rng.normal(size=(100, 3))
    tree = random_tree(rng, 2, 3, 3)
    values = tree.values.copy()
    if link == "identity" and code >= 2:
        values = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    tree = Tree(tree.children, tree.A, tree.b, values, link=link)
    out = tree.outputs(X)
    if code < 2:
        Y = rng.normal(size=(100, 3))
        expected = (np.square(Y - out) if loss == "squared" else np.abs(Y - out)).sum(axis=1)
    else:
        Y = rng.integers(0, 3, (100, 1)).astype(float)
        label = Y[:, 0].astype(int)
        probability = out if link == "identity" else np.exp(out) / np.exp(out).sum(axis=1, keepdims=True)
        expected = (
            (out.argmax(axis=1) != label).astype(float)
            if loss == "zero_one"
            else -np.log(probability[np.arange(100), label])
        )
    rows, link_code = Rows(X, Y, np.ones(100)), {"identity": 0, "softmax": 1}[link]
    got = row_losses.losses(rows, tree.apply(X), tree.leaf_arrays, code, link_code)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_rare_classes_are_given_up_where_that_pays():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = 10.0 ** rng.uniform(-9, 0, rng.integers(2, 5))
        options = []
        for size in range(counts.size):
            for given in itertools.combinations(range(counts.size), size):
                kept = np.delete(counts, given)
                options.append(CAP * counts[list(given)].sum() - np.sum(kept * np.log(kept / kept.sum())))
        assert log_cost(np.concatenate([[9.0], counts]), 1) == pytest.approx(min(options), rel=1e-9)
        shares = (counts / counts.sum())[None]
        give_up_rare(shares)
        loss = np.sum(counts * np.minimum(-np.log(np.maximum(shares[0], 1e-300)), CAP))
        assert loss == pytest.approx(min(options), rel=1e-9)
