"""Trees as dictionaries: exact round trips, and damage."""

import json

import numpy as np
import pytest

from opttree import Tree
from tests.model.test_tree import small_tree
from tests.trees import random_tree


@pytest.mark.parametrize("linear", [False, True])
def test_dictionary_round_trip_is_exact(rng, linear):
    tree = random_tree(rng, 3, 4, 2, linear).with_share(rng.uniform(size=15))
    twin = Tree.from_dict(json.loads(json.dumps(tree.to_dict())))
    for name in ("children", "A", "b", "values", "coefs", "lower", "upper", "share"):
        assert np.array_equal(getattr(twin, name), getattr(tree, name)), name


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"format": "x"}, "format must be"),
        ({"version": 99}, "version must be 1"),
        ({"A": [[1.0]]}, "cannot reshape|must have shape"),
        ({"b": "abc"}, "could not convert|must have|lists"),
    ],
)
def test_damaged_dictionaries_are_refused(rng, damage, message):
    data = random_tree(rng, 2, 2, 1).to_dict() | damage
    with pytest.raises(ValueError, match=message):
        Tree.from_dict(data)
    with pytest.raises(ValueError, match="lack them"):
        Tree.from_dict({k: v for k, v in random_tree(rng, 1, 2, 1).to_dict().items() if k != "values"})


def test_dictionaries_say_what_they_are_and_hold_every_part():
    tree = small_tree(classes=["a"], share=np.ones(5))
    data = tree.to_dict()
    assert (data["format"], data["version"], data["n_features"], data["link"]) == ("opttree.Tree", 1, 2, "identity")
    assert "gate" not in data
    assert "lower" not in data
    assert Tree.from_dict(data).classes.tolist() == ["a"]
    assert Tree.from_dict(data).coefs.shape == (3, 1, 0)
    for part in (small_tree(gate=2.0), small_tree(gate=2.0, mixture=True), small_tree(link="softmax")):
        again = json.loads(json.dumps(part.to_dict()))
        assert again["version"] == (1 if part.gate is None else 2)
        assert Tree.from_dict(again) == part
    for name in ("n_features", "children", "A", "b", "values", "coefs", "link"):
        with pytest.raises(ValueError, match=rf"\['{name}'\]; the data lack them"):
            Tree.from_dict({k: v for k, v in data.items() if k != name})
    with pytest.raises(ValueError, match="gate must be a number"):
        Tree.from_dict(data | {"gate": [1.0]})
