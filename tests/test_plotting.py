"""Figures: what is drawn on them, not how they look."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from opttree import TAOClassifier, TAORegressor, plotting
from solvers import TAO, Chain, GradTree, RandomInit, solve
from tests.conftest import regression_problem
from tests.test_driver import Script
from tests.test_kernels import random_tree


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def texts(ax):
    return "\n".join(t.get_text() for t in ax.texts)


def test_tree_shows_weights_values_and_shares(rng):
    X = rng.normal(size=(200, 3))
    model = TAORegressor(2, random_state=0).fit(X, np.where(X[:, 0] > 0, 5.0, X[:, 1]))
    ax = plotting.plot_tree(model, feature_names=["alpha", "beta", "gamma"])
    assert "alpha" in texts(ax)
    assert "100 % of samples" in texts(ax)
    assert len([t for t in ax.texts if "yes" not in t.get_text() and t.get_text() != "no"]) >= model.tree_.n_nodes
    ax.figure.canvas.draw()


def test_no_two_boxes_overlap(rng):
    tree = random_tree(rng, 3, 6, 1, linear=True).with_share(np.full(15, 0.123))
    ax = plotting.plot_tree(tree, feature_names=[f"a_rather_long_name_{j}" for j in range(6)])
    ax.figure.canvas.draw()
    boxes = [t.get_bbox_patch().get_window_extent() for t in ax.texts if "\n" in t.get_text()]
    assert len(boxes) == 15
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[i + 1 :])


def test_deep_trees_can_be_cut(rng):
    tree = random_tree(rng, 5, 2, 1)
    ax = plotting.plot_tree(tree, max_depth=1)
    assert texts(ax).count("(16 leaves)") == 2
    with pytest.raises(ValueError, match="max_depth must be >= 0"):
        plotting.plot_tree(tree, max_depth=-1)
    with pytest.raises(ValueError, match="model must be a Tree"):
        plotting.plot_tree("tree")


def test_traces_of_several_results_share_an_axis():
    problem = regression_problem()
    results = {
        "tao": solve(problem, TAO(max_iter=3), random_state=0),
        "chain": solve(problem, Chain(RandomInit(), TAO(max_iter=2)), random_state=0),
        "bounded": solve(problem, Script((3.0, 2.0))),
    }
    ax = plotting.plot_trace(results, log=True)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["tao", "chain", "bounded", "bounded, bound"]
    assert plotting.plot_trace(results["tao"]).get_legend().get_texts()[0].get_text() == "TAO"
    with pytest.raises(ValueError, match="at least one result"):
        plotting.plot_trace({})


@pytest.mark.parametrize("labels", [False, True])
def test_partition_of_two_features(rng, labels):
    X = rng.normal(size=(100, 3))
    y = X[:, 0] + X[:, 2] > 0
    model = TAOClassifier(2).fit(X, y) if labels else TAORegressor(2, leaves="linear").fit(X, y.astype(float))
    ax = plotting.plot_partition(model, X, y if labels else y.astype(float), features=(0, 2))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x2")
    with pytest.raises(ValueError, match="features must be two different columns"):
        plotting.plot_partition(model, X, features=(0, 3))
    with pytest.raises(ValueError, match="one output or classes"):
        plotting.plot_partition(random_tree(rng, 1, 3, 2), X)


def test_node_weights_stand_in_the_shape_of_the_tree(rng):
    tree = random_tree(rng, 3, 4, 1)
    axes = plotting.plot_node_weights(tree, levels=3, feature_names=list("abcd"))
    assert len(axes) == 7
    for t, ax in enumerate(axes):
        np.testing.assert_allclose([bar.get_height() for bar in ax.patches], tree.A[t])
        assert ax.get_title() == f"branch {t}"
    axes[0].figure.canvas.draw()
    tops = [ax.get_position().y0 for ax in axes]
    assert tops[0] > tops[1] == tops[2] > tops[3]
    assert len(plotting.plot_node_weights(tree, levels=1)) == 1
    with pytest.raises(ValueError, match="levels must be >= 1"):
        plotting.plot_node_weights(tree, levels=0)


def test_evolution_of_splits_ends_at_the_best_tree():
    problem = regression_problem(splits="axis")
    steps = []
    solve(
        problem,
        GradTree(epochs=60, n_starts=2),
        random_state=0,
        callback=lambda step, trace: steps.append(step) and None,
    )
    axes = plotting.plot_split_evolution(steps, levels=2, feature_names=list("abcd"))
    assert len(axes) == 3
    last = min((s for s in steps if "epoch" in s.info), key=lambda s: s.info["validation"]).tree.canonical
    assert axes[0].lines[-1].get_ydata()[0] == pytest.approx(last.b[0])
    labels = [text.get_text() for text in axes[0].figure.legends[0].get_texts()]
    assert "abcd"[last.feature[0]] in labels
    with pytest.raises(ValueError, match="steps must hold"):
        plotting.plot_split_evolution(steps[:1])
