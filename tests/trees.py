"""Random trees."""

import numpy as np

from opttree.model.tree import Tree


def random_tree(rng, depth, p, n_outputs, linear=False, axis=False):
    B = 2**depth - 1
    A = rng.normal(size=(B, p))
    if axis:
        A = np.eye(p)[rng.integers(p, size=B)] * np.sign(A[:, :1])
    tree = Tree.complete(A, 0.3 * rng.normal(size=B), n_outputs)
    coefs = rng.normal(size=(B + 1, n_outputs, p if linear else 0))
    bounds = {"lower": np.full((B + 1, n_outputs), -0.5), "upper": np.ones((B + 1, n_outputs))} if linear else {}
    return Tree(tree.children, tree.A, tree.b, rng.normal(size=(B + 1, n_outputs)), coefs, **bounds)
