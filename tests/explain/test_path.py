"""The path of a row in words."""

import pytest

import opttree
from opttree import explain
from opttree.model.files import as_saved
from tests.export_models import MODELS, fitted


@pytest.mark.parametrize("name", [name for name in MODELS if "curves" not in name])
def test_paths_end_in_the_answer(name):
    model, X = fitted(name)
    row = X[5:6]
    words = explain.path(model, row)
    answer = model.predict(row)[0]
    assert words.startswith(f"target = {answer}" if isinstance(answer, str) else "target = ")
    saved = as_saved(model)
    if isinstance(saved.tree, opttree.Tree) and not saved.tree.mixture:
        depth = saved.tree.node_depth[saved.tree.apply(saved.table(row))[0]]
        assert len(words.splitlines()) == depth + 2
    assert model.explain(row) == words


def test_a_path_wants_one_row():
    model, X = fitted("TAO, oblique")
    assert explain.path(model, X[0]) == explain.path(model, X[:1])
    with pytest.raises(ValueError, match="row must be one row; got 2"):
        explain.path(model, X[:2])
