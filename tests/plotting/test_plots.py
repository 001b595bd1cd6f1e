"""Figures: what is drawn on them, not how they look."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.offsetbox import AnnotationBbox

from opttree import SDTRRegressor, TAOClassifier, TAORegressor, load, plotting, save
from opttree.export import to_html, to_sklearn
from opttree.plotting import tree_picture
from opttree.plotting.traces import GAP_FLOOR
from opttree.plotting.tree_picture import percent
from opttree.tables.encoding import _listed
from solvers import TAO, Chain, GradTree, RandomInit, solve
from tests.conftest import regression_problem
from tests.solvers.core.test_driver import Script
from tests.trees import random_tree


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
    assert "200 rows, 100 %" in texts(ax)
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
    kind, options = (TAOClassifier, {}) if labels else (TAORegressor, {"leaves": "linear"})
    model = kind(2, random_state=0, **options).fit(X, y if labels else y.astype(float))
    ax = plotting.plot_partition(model, X, y if labels else y.astype(float), features=(0, 2))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x2")
    ax = plotting.plot_partition(model, X)  # the two features that matter
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


@pytest.mark.parametrize(
    ("depth", "size"),
    [
        *((depth, None) for depth in (1, 3, 5, 7)),
        *((depth, (6, 4)) for depth in (2, 4, 6)),
        pytest.param(8, (6, 4), marks=pytest.mark.long),
    ],
)
def test_trees_of_any_depth_fit_the_figure(rng, depth, size):
    """No two boxes overlap or leave the picture, of at most 24 by 14 inches or of 6 by 4 inches."""
    names = ["age", "a_rather_long_name", "height"]
    tree = random_tree(rng, depth, 3, 1).with_share(np.full(2 ** (depth + 1) - 1, 0.123)).with_spread(np.ones(3))
    ax = None if size is None else plt.subplots(figsize=size)[1]
    ax = plotting.plot_tree(tree, feature_names=names, ax=ax)
    figure = ax.figure
    assert tuple(figure.get_size_inches()) <= (24.0, 14.0)
    figure.canvas.draw()
    boxes = [
        t.get_bbox_patch().get_window_extent()
        for t in ax.texts
        if t.get_bbox_patch() and t.get_text() not in ("yes", "no")
    ]
    assert boxes
    frame = figure.bbox
    for i, one in enumerate(boxes):
        assert frame.x0 - 1 <= one.x0
        assert one.x1 <= frame.x1 + 1
        assert not any(one.overlaps(other) for other in boxes[i + 1 :])


def test_boxes_show_weight_times_deviation_in_plain_numbers(rng):
    X = rng.normal(size=(400, 3)) * [1.0, 1000.0, 1.0]
    model = TAORegressor(2, random_state=0).fit(X, np.where(X[:, 0] + X[:, 1] / 1000.0 > 0, 2220.4, 10.0))
    drawn = texts(plotting.plot_tree(model))
    assert "\n22" in drawn  # the leaf, shrunk a little
    assert "e+03" not in drawn
    assert "+1.00 x" in drawn  # both matter alike, though their weights differ by a factor of a thousand
    line = TAORegressor(1, leaves="linear", random_state=0).fit(X, X[:, 0] * 5 + (X[:, 2] > 0))
    assert "x0" in texts(plotting.plot_tree(line))


def test_colours_tell_classes_and_numbers(rng):
    X = rng.normal(size=(200, 2))
    model = TAOClassifier(1, splits="axis", random_state=0).fit(X, np.where(X[:, 0] > 0, "up", "down"))
    ax = plotting.plot_tree(model)
    faces = {t.get_text().split()[0]: t.get_bbox_patch().get_facecolor() for t in ax.texts if t.get_bbox_patch()}
    assert faces["up"] != faces["down"]


def test_traces_have_points_for_incumbents_and_scales():
    problem = regression_problem()
    result = solve(problem, TAO(max_iter=6), random_state=0)
    frame = result.trace.to_frame()
    ax = plotting.plot_trace(result)
    better = np.append(True, np.diff(frame["best"]) < 0.0)
    assert len(ax.lines[1].get_xdata()) == better.sum() <= len(frame)
    assert plotting.plot_trace(result, scale="log").get_yscale() == "log"
    gap = plotting.plot_trace({"a": result, "b": result}, scale="gap")
    assert "gap" in gap.get_ylabel()
    assert gap.lines[0].get_ydata().min() == pytest.approx(GAP_FLOOR)
    with pytest.raises(ValueError, match="scale must be"):
        plotting.plot_trace(result, scale="odd")


def test_partitions_take_names(rng):
    X = rng.normal(size=(60, 3))
    model = TAORegressor(2, random_state=0).fit(X, X[:, 0] * X[:, 2])
    ax = plotting.plot_partition(model.tree_.with_names(["a", "b", "c"]), X, features=("a", "c"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "c")
    with pytest.raises(ValueError, match="features must be names"):
        plotting.plot_partition(model, X, features=("a", "c"))


def test_importances_are_drawn_in_order(rng):
    X = rng.normal(size=(200, 30))
    model = TAORegressor(2, random_state=0).fit(X, X[:, 3])
    ax = plotting.plot_importances(model, most=5)
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels[0] == "x3"
    assert labels[-1] == "25 others"
    widths = [bar.get_width() for bar in ax.patches]
    assert sum(widths) == pytest.approx(1.0)
    assert widths[:5] == sorted(widths[:5], reverse=True)
    with pytest.raises(ValueError, match="model must be fitted"):
        plotting.plot_importances(TAORegressor())
    with pytest.raises(ValueError, match="most must be >= 1"):
        plotting.plot_importances(model, most=0)


def test_pages_hold_the_tree_and_nothing_from_elsewhere(rng):
    X = rng.normal(size=(200, 2))
    label = np.where(X[:, 0] > 0, "</script><b>", 'say "x"')
    model = TAOClassifier(2, random_state=0).fit(X, label)
    page = model.tree_.to_html(title="a < b")
    assert "</script><b>" not in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    data = json.loads(page.split("const model = ")[1].split(";\n")[0])
    assert len(data["nodes"]) == model.tree_.n_nodes
    assert data["nodes"][0]["share"] == "100 % of the weight"
    assert '"share": "200 rows, 100 %"' in to_html(model)
    with pytest.raises(ValueError, match="open_levels must be"):
        model.tree_.to_html(open_levels=-1)


def test_boxes_have_bars_of_shares_and_a_legend_of_classes(rng):
    X = rng.normal(size=(300, 2))
    model = TAOClassifier(2, splits="axis", random_state=0).fit(X, np.where(X[:, 0] > 0, "yes!", "no!"))
    ax = plotting.plot_tree(model)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["no!", "yes!"]
    bars = [artist for artist in ax.artists if isinstance(artist, AnnotationBbox)]
    assert len(bars) == model.tree_.n_nodes
    ax.figure.canvas.draw()
    widths = [part.get_width() for part in bars[-1].offsetbox.get_children()]
    shares = np.mean(X[:, 0] > 0)
    np.testing.assert_allclose(widths[1] / sum(widths), shares, atol=0.02)  # leaves are shrunk
    assert percent(0.6479) == "65 %"
    assert percent(0.0022) == "0.22 %"
    assert percent(0.9999) == "99 %"
    assert percent(1.0 - 1e-15) == "100 %"


def test_no_bar_where_shares_are_not_known_and_no_mathematics_in_names(rng, tmp_path):
    X = rng.normal(size=(300, 2))
    labels = np.array(["$5 to $10", "$x^{$", "_hidden"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    ax = plotting.plot_tree(TAOClassifier(2, splits="axis", random_state=0).fit(X, labels))
    ax.figure.savefig(tmp_path / "tree.png")
    for model in (
        TAORegressor(2, leaves="linear", random_state=0).fit(X, X[:, 0] * X[:, 1]),
        random_tree(rng, 2, 2, 2),
    ):
        assert not plotting.plot_tree(model).artists


def test_legends_and_boxes_do_not_meet_and_stay_inside(rng):
    X = rng.normal(size=(600, 4))
    named = np.array([f"a rather long class {k}" for k in range(9)])
    labels = named[np.digitize(X[:, 0] + X[:, 1], np.arange(-2, 2, 0.5))]
    for depth in (1, 2, 5):
        ax = plotting.plot_tree(TAOClassifier(depth, splits="axis", random_state=0).fit(X, labels))
        ax.figure.canvas.draw()
        legend = ax.get_legend().get_window_extent()
        for box in ax.texts:
            if box.get_bbox_patch() and box.get_text() not in ("yes", "no"):
                extent = box.get_bbox_patch().get_window_extent()
                assert not legend.overlaps(extent)
                assert extent.x0 >= ax.figure.bbox.x0 - 1
                assert extent.x1 <= ax.figure.bbox.x1 + 1


def test_pictures_name_the_target_and_keep_dark_ink_on_pale_boxes(rng):
    X = rng.normal(size=(300, 2))
    y = pd.Series(1000.0 + 100.0 * (X[:, 0] > 0.0), name="rent")
    model = TAORegressor(1, splits="axis", random_state=0).fit(X, y)
    with plt.style.context("dark_background"):
        ax = plotting.plot_tree(model)
    assert "rent: from 10" in texts(ax)
    assert {t.get_color() for t in ax.texts if t.get_bbox_patch() and "rows" in t.get_text()} == {"#1f2933"}
    assert model.explain(X[:1]).startswith("rent = ")
    assert "<title>TAORegressor for rent</title>" in to_html(model)
    right = int((X[:, 0] > 0.0).sum())
    assert {"300 rows, 100 %", f"{right} rows, {percent(right / 300)}"} <= set(texts(ax).split("\n"))
    assert to_sklearn(model).tree_.n_node_samples[0] == 300
    weighted = TAORegressor(1, splits="axis", random_state=0).fit(X, y, sample_weight=np.arange(300.0))
    assert "100 % of the weight" in texts(plotting.plot_tree(weighted))
    assert TAORegressor(1, random_state=0).fit(X, y.to_numpy()).explain(X[:1]).startswith("target = ")


def test_rest_of_levels_is_told_with_what_is_no_level():
    levels = [f"l{k}" for k in range(12)]
    assert _listed(levels, ["missing", "other"], 8) == "l0, l1, l2, l3, l4, 7 more, missing, other"
    assert _listed(levels[:3], ["other"], 8) == "l0, l1, l2, other"
    assert percent(1 / 32_561) == "< 0.1 %"


def test_means_of_nodes_are_found_once_a_picture(monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = X[:, 0] ** 2 + X[:, 1]
    tree = TAORegressor(8, splits="axis", floor=False, random_state=0).fit(X, y).tree_
    found, usual = [], tree_picture._mean_answers

    def counted(tree):
        found.append(tree)
        return usual(tree)

    monkeypatch.setattr(tree_picture, "_mean_answers", counted)
    plotting.plot_tree(tree)
    other = TAORegressor(2, splits="axis", random_state=0).fit(X, -y).tree_
    plotting.plot_tree(other)
    assert found == [tree, other]


@pytest.mark.parametrize("saved", [False, True])
def test_pictures_and_texts_are_of_scores(tmp_path, rng, saved):
    """The plane was drawn as if the tree split features, tables with text failed, and no name said what is split."""
    kinds = rng.choice(["u", "v"], 150)
    table = pd.DataFrame({"a": rng.exponential(size=150), "b": rng.exponential(size=150), "k": kinds})
    model = shown = SDTRRegressor(2, max_batches=200, random_state=0).fit(table, table["a"] > 1.0)
    if saved:
        save(model, tmp_path / "model.json")
        shown = load(tmp_path / "model.json")
    ax = plotting.plot_partition(shown, table, features=("a", "b"), resolution=20)
    (mesh,) = (part for part in ax.collections if isinstance(part, QuadMesh))
    edges = mesh.get_coordinates()
    a, b = np.meshgrid((edges[0, 1:, 0] + edges[0, :-1, 0]) / 2, (edges[1:, 0, 1] + edges[:-1, 0, 1]) / 2)
    usual = max("uv", key=lambda kind: (kinds == kind).sum())
    expected = model.predict(pd.DataFrame({"a": a.ravel(), "b": b.ravel(), "k": usual}))
    np.testing.assert_allclose(np.asarray(mesh.get_array()).ravel(), expected, rtol=1e-9)
    assert "score(a)" in texts(plotting.plot_tree(shown))
    assert saved or "score(a)" in model.to_text()


def test_names_are_drawn_as_they_are_written():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["rent [$\\m$]", "a name of more than thirty characters"])
    score = X.iloc[:, 0] ** 2 + X.iloc[:, 1]
    for model, y in (
        (TAORegressor(2, random_state=0), score),
        (TAOClassifier(2, random_state=0), np.where(score > 1.0, "$\\x$", "b")),
    ):
        model.fit(X, y)
        for draw in (plotting.plot_tree, plotting.plot_importances, plotting.plot_node_weights):
            np.ravel(draw(model))[0].figure.canvas.draw()
        ax = plotting.plot_partition(model, X, y)
        ax.figure.canvas.draw()  # which reads formulas
        assert ax.get_xlabel() == "rent [$\\m$]"
        assert not ax.xaxis.label.get_parse_math()


def test_leaves_without_one_answer_have_no_colour():
    """The class of a row of zeros coloured leaves that answer three classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) + 5.0
    label = np.digitize(X[:, 0] + X[:, 1], [9.0, 11.0])
    model = TAOClassifier(1, leaves="linear", floor=False, random_state=0).fit(X, label)
    leaf = model.tree_.n_branches
    assert tree_picture.color_of(model.tree_, leaf) == tree_picture.PLAIN
    assert tree_picture.short_answer(model.tree_, leaf) == ""
    assert plotting.plot_tree(model).get_legend() is None
    constant = TAOClassifier(1, floor=False, random_state=0).fit(X, label)
    assert plotting.plot_tree(constant).get_legend() is not None


def test_capitals_and_chinese_signs_take_more_room():
    small, capital, broad = (tree_picture.text_size(name, 8.0)[0] for name in ("income", "INCOME", "年間世帯収入"))
    assert small < capital < broad


@pytest.mark.parametrize("classes", [3, 12, 30])
def test_every_class_of_a_plane_has_a_colour_of_its_own(classes):
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(classes), 10)
    X = np.c_[label % 6, label // 6] + 0.1 * rng.normal(size=(label.size, 2))
    ax = plotting.plot_partition(TAOClassifier(6, splits="axis", floor=False, random_state=0).fit(X, label), X, label)
    assert len({handle.get_color() for handle in ax.get_legend().legend_handles}) == classes
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x1 <= ax.figure.bbox.x1


def test_a_partition_of_rows_that_are_none_is_refused():
    """One NaN in a column that is not drawn moved the regions; rows of unknown labels had another class's colour."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    c = np.digitize(X[:, 0] + X[:, 1], [-1.0, 1.0])
    model = TAOClassifier(max_depth=2, random_state=0).fit(X, c)
    blank = X.copy()
    blank[0, 2] = np.nan
    for rows, y, options, words in (
        (blank, None, {}, "X must be finite; got nan"),
        (X, np.where(c == 1, -5, c), {}, "y must hold labels of the training; got -5"),
        (X, c[:4], {}, "y must have an entry for each row, 200"),
        (X[:0], None, {}, "X must have rows of 3 columns"),
        (X, c, {"features": (0,)}, "features must be two columns"),
        (X, c, {"resolution": 1}, "resolution must be >= 2"),
    ):
        with pytest.raises(ValueError, match=words):
            plotting.plot_partition(model, rows, y, **{"features": (0, 1)} | options)
