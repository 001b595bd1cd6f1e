"""Trees as text."""

import numpy as np
import pandas as pd
import pytest

from opttree import TAORegressor, Tree
from opttree.model.text import sides


def test_text_names_features_and_values():
    tree = Tree([[1, 2]], [[1.0, 0.0]], [0.25], [[1.0], [2.0]], [[[0.0, 0.0]], [[0.0, -3.0]]])
    assert tree.to_text(["age", "height"]) == (
        "if age <= 0.25:\n    1\nelse:  # age > 0.25\n    2 - 3 height"
    )  # fmt: skip
    with pytest.raises(ValueError, match="feature_names must have 2 entries; got 1"):
        tree.to_text(["age"])
    labels = Tree([[1, 2]], [[1.0, 0.0]], [0.25], [[0.9, 0.1], [0.2, 0.8]], classes=["no", "yes"])
    assert "yes (p = 0.8)" in labels.to_text()


def test_text_has_four_digits_unless_told_otherwise():
    tree = Tree([[1, 2]], [[1.0]], [0.123456], [[1.0], [2.0]])
    assert "0.123456" in tree.to_text()
    tree = Tree([[1, 2]], [[1.0]], [1.0 / 3.0], [[1.0 / 3.0], [2.0]])
    assert "<= 0.333333\n    0.3333\n" in tree.to_text().replace(":", "")
    assert "<= 0.3333333" in tree.to_text(digits=5)
    assert tree.names() == ["x0"]
    assert tree.names([3]) == ["3"]


def test_splits_name_levels_that_arrive():
    level = np.random.default_rng(0).choice(list("abcdefgh"), 400)
    y = np.array(["abcdefgh".index(one) for one in level]) ** 1.5
    model = TAORegressor(3, splits="axis", floor=False, leaf_shrinkage=0.0, random_state=0)
    tree = model.fit(pd.DataFrame({"c": level}), y).tree_
    arrives = {0: {*"abcdefgh", "other"}}
    for node, kids in enumerate(tree.children.tolist()):
        for kid, words in zip(kids, sides(tree, node, ["c"], in_words=True), strict=True):
            arrives[kid] = set(words.removeprefix("c in {").removesuffix("}").split(", "))
        assert arrives[node] == arrives[kids[0]] | arrives[kids[1]]
        assert not arrives[kids[0]] & arrives[kids[1]]


def test_levels_beside_blanks_are_named_where_they_arrive():
    city = np.random.default_rng(0).choice(np.array(["A", "B", None], object), 300, p=[0.4, 0.3, 0.3])
    y = np.array([{"A": 0.0, "B": 8.0, None: 4.0}[one] for one in city])
    model = TAORegressor(2, splits="axis", floor=False, leaf_shrinkage=0.0, random_state=0)
    text = model.fit(pd.DataFrame({"city": city}), y).to_text()
    assert "city in {missing, other}" in text
    assert text.count("A") == 1
