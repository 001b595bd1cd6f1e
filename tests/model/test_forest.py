"""Forests: their answers, their layers, and what a tree of them costs."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

import opttree
from opttree import BoostedTreesRegressor, Forest, TAOForestRegressor
from opttree.model import forest
from opttree.model.structure import is_deeper
from tests.trees import random_tree

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["json", "npz"])
def path(request, tmp_path):
    return tmp_path / f"model.{request.param}"


CALLS = """
import sys

import numpy as np

import opttree
from opttree import Forest
from tests.trees import random_tree


def n_calls(function, *arguments):
    # how many functions a call calls, Python's own included
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return count


path, rng = sys.argv[1], np.random.default_rng(0)
trees = tuple(random_tree(rng, 3, 2, 1) for _ in range(64))
opttree.save(trees[0], path)
opttree.load(path)  # modules are loaded
for count in (4, 16, 64):
    forest = Forest((trees[:count],), 1)
    print(n_calls(opttree.save, forest, path), n_calls(opttree.load, path))
"""


def test_a_tree_of_a_forest_costs_the_same_however_many_there_are(path):
    """In a process of its own: Python 3.11 may loop for ever where a profile is set in one that has run much else."""
    run = subprocess.run([sys.executable, "-c", CALLS, path], capture_output=True, text=True, check=True, cwd=ROOT)
    four, sixteen, all_of_them = np.array([line.split() for line in run.stdout.splitlines()], int)
    assert ((all_of_them - sixteen) / 48 < 1.1 * (sixteen - four) / 12).all()


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_no_level_below_the_last_is_looked_at(depth, rng):
    class Watched(np.ndarray):
        looks = 0

        def __getitem__(self, key):
            Watched.looks += 1
            return np.asarray(self)[key]

    children = random_tree(rng, depth, 2, 1).children if depth else np.zeros((0, 2), np.int32)
    assert not is_deeper(children.view(Watched), 500)
    assert Watched.looks <= depth
    assert depth == 0 or is_deeper(children, depth - 1)


def test_layers_keep_their_trees_apart(path, rng):
    first = tuple(random_tree(rng, 2, 3, 2, linear=True) for _ in range(12))
    second = tuple(random_tree(rng, depth, 27, 1) for depth in (1, 3))
    forest = Forest((first, second), 1)
    opttree.save(forest, path)
    assert opttree.load(path).tree == forest


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(800, n_features=6, noise=0.5, random_state=0)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def test_stacked_predictions_are_those_of_the_trees(friedman):
    a, b, c, _d = friedman
    for model in (TAOForestRegressor(6, kind="axis"), BoostedTreesRegressor("oblique", n_estimators=10)):
        forest = model.fit(a, c).forest_
        one_by_one = np.mean([tree.outputs(b) for tree in forest.trees], axis=0)
        np.testing.assert_allclose(forest.outputs(b), one_by_one, rtol=1e-9)
        np.testing.assert_allclose(forest.outputs(b[:1]), one_by_one[:1], rtol=1e-9)


def test_large_constant_trees_answer_one_after_another(rng, monkeypatch):
    X = rng.normal(size=(3000, 4))
    found = TAOForestRegressor(5, kind="cart", leaves="constant", random_state=0).fit(
        X, X[:, 0] + rng.normal(size=3000)
    )
    model, before = found.forest_, found.forest_.outputs(X)
    monkeypatch.setattr(forest, "MANY_ROWS", 3000)
    assert model._is_deep(3000)
    assert not model._is_deep(2999)
    np.testing.assert_array_equal(model.outputs(X), before)
    many = np.tile(X, (10, 1))
    tracemalloc.start()
    model.outputs(many)
    assert tracemalloc.get_traced_memory()[1] < 4 * 30_000 * 8  # the answers of a tree, not those of all
    tracemalloc.stop()
