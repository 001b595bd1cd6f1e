"""Damaged model files: what loads predicts finite numbers, or labels of its own; the rest is refused in a sentence."""

import json
import os
import re
import warnings
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import opttree
from opttree import Forest, Tree
from tests.conftest import ends_in_time, thinned
from tests.model_files import DAMAGE, check_answers, content, damaged, models, packed, places, unpacked
from tests.trees import random_tree

NAMES = list(models())
ENCODED = [name for name in NAMES if name.startswith("table")]


@pytest.fixture
def check_refused(tmp_path):
    """Asserts that a file of some entries is refused in one sentence with some words."""

    def check(data, words):
        path = tmp_path / "bad.json"
        path.write_text(json.dumps(data))
        with pytest.raises(ValueError, match=rf"its content is damaged: [^\n]*{words}") as error:
            opttree.load(path)
        assert len(str(error.value)) < 600

    return check


def saved(name):
    return json.loads(content(name, ".json"))


def first_places(data):
    """The first of all places that differ only by numbers in lists."""
    alike = {}
    for place in places(data):
        alike.setdefault(tuple(key if isinstance(key, str) else 0 for key in place), place)
    return list(alike.values())


def check_file(path):
    """A file is refused in one sentence, or its model answers as it should."""
    model, said = None, ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model = opttree.load(path)
        except ValueError as error:
            said = str(error)
        if model is not None:
            check_answers(model)
    assert said == "" or re.search("must (be a model written by opttree|have model version)", said)
    assert "\n" not in said
    assert len(said) < 600


@pytest.mark.parametrize("name", thinned(NAMES, 4))
def test_any_value_in_the_place_of_any_entry(name, tmp_path):
    path = tmp_path / "bad.json"
    data = saved(name)
    for place in first_places(data):
        for value in DAMAGE:
            path.write_text(json.dumps(damaged(data, place, value)))
            check_file(path)


@pytest.mark.parametrize(
    "name", ["axis, two outputs", "classes", "soft, linear", "forest", "boosted, classes", "table"]
)
def test_any_array_in_the_place_of_another(name, tmp_path):
    path = tmp_path / "bad.npz"
    arrays = unpacked(content(name, ".npz"))
    for member in list(arrays)[:8]:  # of the first tree
        array = arrays[member]
        others = [array.astype(kind) for kind in ("U8", "S8", "?", "f4")] if array.dtype.kind in "if" else []
        others += [array[..., None], array.ravel()[:1], np.zeros(0), np.array(1.0), np.array("x"), np.array(["x", "x"])]
        for number in (np.nan, np.inf, 1e308, -1.0, 0.5):
            others.append(np.full(array.shape, number))
        for other in others:
            path.write_bytes(packed({**arrays, member: other}))
            check_file(path)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("n_features", 3.0, "n_features must be an integer >= 0; got 3.0"),
        ("n_features", True, "n_features must be an integer >= 0; got True"),
        ("n_features", 10**30, r"A must have shape \(3, 10"),
        ("link", [], "link must be text"),
        ("link", "probit", "link must be one of"),
        ("gate", "1", "gate must be a number; got '1'"),
        ("gate", 10**400, "gate must be lists of numbers|gate must be finite"),
        ("mixture", "yes", "mixture must be true or false; got 'yes'"),
        ("b", {}, "b must be lists of numbers"),
        ("b", [0.0, 0.0, 10**400], "b must be lists of numbers"),
        ("A", [[1.0], [2.0, 3.0]], "A must be lists of numbers, of equal lengths"),
        ("A", [[1.0]], r"A must have shape \(3, 3\)"),
        ("children", [[1, 2], [3, 4], [5, 6.5]], "children must be numbers of nodes, 1 to 6"),
        ("children", [[1, 2], [3, 4], [5, 2**70]], "children must be numbers of nodes, 1 to 6"),
        ("values", [], "values must have shape"),
        ("values", [[None, 1.0, 0.0]] * 4, "values must be finite; got nan"),
        ("coefs", [1e308] * 36, "sums are finite; got too large ones"),
        ("feature_names", "abc", "feature_names must be a list; got 'abc'"),
        ("feature_names", [1, 2, 3], "an entry of feature_names must be text; got 1"),
        ("classes", "abc", "classes must be a list"),
        ("classes", ["no", "yes", None], "classes must be texts, booleans or numbers, all of one type"),
        ("classes", ["no", "yes", {}], "classes must be texts, booleans or numbers, all of one type"),
        ("classes", ["no", "yes", 1], "classes must be texts, booleans or numbers, all of one type"),
        ("classes", [0, 1, True], "classes must be texts, booleans or numbers, all of one type"),
        ("classes", ["no", "yes", "no"], "classes must differ from one another"),
        ("classes", [0.0, 1.0, float("nan")], "classes must be finite; got nan"),
        ("classes", [0.0, 1.0, float("inf")], "classes must be finite; got inf"),
        ("classes", [0, 1, 10**30], "classes must be integers of 64 bits"),
        ("classes", ["no", "yes"], "classes must have shape"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_a_tree(check_refused, rng, place, value, words):
    tree = random_tree(rng, 2, 3, 3, linear=True).to_dict()
    check_refused(of_tree({**tree, place: value}, ["a", "b", "c"]), words)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("tree", "layers", 0, 1, "classes"), ["a", "b", "c"], "trees must have the same classes, .*; got"),
        (("tree", "layers", 0, 1, "classes"), None, "trees must have the same classes, .*; got None"),
        (("tree", "layers", 0, 0, "classes"), None, "trees must have the same classes, None; got"),
        (("tree", "layers", 0, 1, "n_features"), 4, "A must have shape"),
        (("tree", "layers", 0, 1, "values"), [[1.0, 2.0]] * 9, "values must have shape"),
        (("tree", "layers", 0, 1), [], "a tree must be entries with names; got"),
        (("tree", "layers", 0), {}, "a layer must be a list; got {}"),
        (("tree", "layers", 0), [], "layers must hold a tree each"),
        (("tree", "layers"), "x", "layers must be a list; got 'x'"),
        (("tree", "n_outputs"), True, "n_outputs must be an integer >= 1; got True"),
        (("tree", "n_outputs"), 2, "n_outputs must be the number of classes, 3; got 2"),
        (("tree", "starts"), [[1, [0.0, 0.0, 0.0]], [1, [0.0, 0.0, float("nan")]]], "starts must be finite; got nan"),
        (("tree", "starts"), [[2]], "starts must hold pairs"),
        (("tree", "starts"), [[2.0, [0.0, 0.0, 0.0]]], "starts must be an integer >= 1; got 2.0"),
        (("tree", "link"), None, "link must be text; got None"),
        (("tree",), [], r"the tree must be entries with names; got \[\]"),
        (("feature_names",), ["a", "b", 3], "an entry of feature_names must be text; got 3"),
        (("feature_names",), ["a", "b", "a"], "feature_names must differ from one another; got 'a' twice"),
        (("feature_names",), ["a"], "feature_names must have 3 entries; got 1"),
        (("target",), None, "target must be text; got None"),
        (("method",), {}, "method must be text; got {}"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_a_forest(check_refused, place, value, words):
    check_refused(damaged(saved("forest, classes"), place, value), words)


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 10**400, True, "1", None])
def test_numbers_of_an_encoding_must_be_finite(check_refused, name, number):
    data = saved(name)
    for j, feature in enumerate(data["tree"]["encoding"]["features"]):
        above = ("tree", "encoding", "features", j)
        there = [(*above, key) for key in ("fill", "low", "high", "other", "missing") if feature.get(key) is not None]
        there += [(*above, "numbers", level) for level in feature.get("numbers", {})]
        for place in there:
            check_refused(damaged(data, place, number), "")


@pytest.mark.parametrize(
    "change",
    [
        lambda encoding: encoding["features"][0].update(column=0.5),
        lambda encoding: encoding["features"][0].update(column=True),
        lambda encoding: encoding["features"][0].update(column=-1),
        lambda encoding: encoding["features"][0].update(column=4),
        lambda encoding: encoding["features"][0].update(column="0"),
        lambda encoding: encoding["features"][0].update(kind="colour"),
        lambda encoding: encoding["features"][0].update(kind={}),
        lambda encoding: encoding["features"][0].update(more=1),
        lambda encoding: encoding["features"].pop(),
        lambda encoding: encoding["features"].append({"kind": "missing", "column": 0}),
        lambda encoding: encoding.update(features={}),
        lambda encoding: encoding.update(features=None),
        lambda encoding: encoding.update(columns=[]),
        lambda encoding: encoding.update(columns="abcd"),
        lambda encoding: encoding["columns"].__setitem__(0, ["colour", "shape"]),
        lambda encoding: encoding["columns"].__setitem__(0, ["colour", None]),
        lambda encoding: encoding["columns"].__setitem__(0, [7, "category"]),
        lambda encoding: encoding["columns"].__setitem__(0, ["colour"]),
        lambda encoding: encoding["columns"].__setitem__(0, "cc"),
        lambda encoding: encoding["columns"].__setitem__(0, encoding["columns"][1]),
        lambda encoding: encoding["columns"].__setitem__(0, ["size", "category"]),
        lambda encoding: encoding["columns"].reverse(),
    ],
)
def test_damaged_encodings_are_refused(check_refused, change):
    data = saved("table")
    change(data["tree"]["encoding"])
    check_refused(data, "")


def test_features_of_another_kind_than_their_column_are_refused(check_refused):
    data = saved("table")
    features = data["tree"]["encoding"]["features"]
    kinds = [data["tree"]["encoding"]["columns"][feature["column"]][1] for feature in features]
    levels = next(j for j, kind in enumerate(kinds) if kind == "category")
    for j, kind in enumerate(kinds):
        if kind != "category":
            there = {**features[levels], "column": features[j]["column"]}
            check_refused(damaged(data, ("tree", "encoding", "features", j), there), "")
    there = {"kind": "value", "column": features[levels]["column"], "fill": 0.0}
    check_refused(damaged(data, ("tree", "encoding", "features", levels), there), "")


def test_sums_over_a_forest_must_be_finite(check_refused, rng):
    trees = [Tree.constant([1e308], 1), Tree.constant([1e308], 1)]
    check_refused(of_tree(Forest((trees,), 1).to_dict(), ["x"]), "sums are finite; got too large ones")
    soft = Tree([[1, 2]], [[1e308, 1e308]], [0.0], [[0.0], [1.0]], gate=1.0, mixture=True)
    check_refused(of_tree(soft.to_dict(), ["x", "y"]), "sums are finite; got too large ones")


def test_sums_over_the_numbers_of_an_encoding_must_be_finite(check_refused):
    data = saved("table, soft")
    for tree in (data["tree"], damaged(data["tree"], ("spread",), None)):
        wide = {**tree, "coefs": (1e200 * np.sign(tree["coefs"])).tolist()}
        for j, feature in enumerate(data["tree"]["encoding"]["features"]):
            for key in ("fill", "other", "missing"):
                if key in feature:
                    too_large = damaged(wide, ("encoding", "features", j, key), -1e120)
                    check_refused({**data, "tree": too_large}, "sums are finite; got too large ones")


def test_features_that_are_only_counted_take_no_memory(check_refused):
    tree = Tree.constant([1.0], 1).to_dict()
    check_refused(
        of_tree({**tree, "n_features": 10**12}, ["x"]), "feature_names must have 1000000000000 entries; got 1"
    )
    check_refused(of_tree({**tree, "n_features": 10**30}, ["x"]), "")


def of_tree(tree, names):
    return {"format": "opttree.Model", "version": 1, "target": "y", "method": "", "feature_names": names, "tree": tree}


# ---- files that are not what they seem -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [Path("/dev/zero"), Path("/dev/random"), Path("/dev"), "a pipe", "a link", "a pipe.npz"]
)
def test_only_ordinary_files_are_read(path, tmp_path):
    if isinstance(path, Path):
        target = path
    else:
        target = tmp_path / path
        if path == "a link":
            target.symlink_to("/dev/zero")
        else:
            os.mkfifo(target)
    with pytest.raises(ValueError, match=r"must be a model written by opttree; .*\(a folder, a device or a pipe\)$"):
        opttree.load(target)


def test_a_link_to_a_model_is_read(tmp_path):
    (tmp_path / "m.json").write_bytes(content("oblique", ".json"))
    (tmp_path / "link.json").symlink_to("m.json")
    assert opttree.load(tmp_path / "link.json").tree == models()["oblique"].tree_


@pytest.mark.parametrize("depth", [50, 900, 960, 100_000])
@pytest.mark.parametrize(
    "entry", ["format", "version", "feature_names", "tree", "n_features", "b", "classes", "encoding"]
)
def test_deep_nesting_is_refused(depth, entry, tmp_path):
    data = saved("classes")
    inner = data if entry in data else data["tree"]
    inner[entry] = "deep"
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data).replace('"deep"', "[" * depth + "]" * depth))
    with pytest.raises(ValueError, match=r"must (be a model|have model version)[^\n]{1,500}$"):
        opttree.load(path)


def test_members_of_an_npz_are_packed_as_numpy_packs_them(tmp_path):
    path = tmp_path / "bad.npz"
    path.write_bytes(content("oblique", ".npz"))
    with zipfile.ZipFile(path) as before:
        parts = {name: before.read(name) for name in before.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as after:
        for name, part in parts.items():
            after.writestr(name, part)
    with pytest.raises(ValueError, match=r"must be stored or deflated; its method is 14"):
        opttree.load(path)


def test_an_array_of_an_npz_takes_the_place_of_no_other_entry(tmp_path):
    path = tmp_path / "bad.npz"
    arrays = unpacked(content("table", ".npz"))
    tree = opttree.load(saved_at(path, arrays)).tree
    others = {name: np.array(["x", "y"]) for name in ("format", "version", "encoding", "gate", "mixture", "extra")}
    assert opttree.load(saved_at(path, {**arrays, **others})).tree == tree


def saved_at(path, arrays):
    path.write_bytes(packed(arrays))
    return path


# ---- labels and names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", ""],
        [True, False],
        [0.5, -1.0],
        [3, -1],
        np.array([1, 2**63], np.uint64),
        np.array(["x", "long"], object),
    ],
    ids=str,
)
def test_labels_come_back_as_they_were(labels, suffix, tmp_path):
    tree = Tree.constant(np.arange(len(labels), dtype=float), 1, labels)
    opttree.save(tree, tmp_path / f"m{suffix}")
    loaded = opttree.load(tmp_path / f"m{suffix}").tree.classes
    assert [(type(label), label) for label in loaded.tolist()] == [
        (type(label), label) for label in tree.classes.tolist()
    ]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.array(["2020-01-01", "2021-01-01"], "M8[D]"), "texts, booleans or numbers"),
        (np.array(["a", 1], object), "all of one type"),
        (np.array([0.0, np.nan]), "must be finite; got nan"),
        (np.array(["a", "a"]), "must differ from one another"),
    ],
)
def test_labels_that_could_not_be_loaded_are_not_saved(labels, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        opttree.save(Tree.constant([0.0, 1.0], 1, labels), tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_names_that_could_not_be_loaded_are_not_saved(tmp_path, rng):
    tree = random_tree(rng, 1, 2, 1)
    with pytest.raises(ValueError, match="feature_names must differ from one another; got 'a' twice"):
        opttree.save(tree, tmp_path / "m.json", feature_names=["a", "a"])
    with pytest.raises(ValueError, match="target must be text; got 3"):
        opttree.save(tree, tmp_path / "m.json", target=3)
    assert list(tmp_path.iterdir()) == []


def test_labels_do_not_take_more_memory_than_they_may(check_refused):
    tree = Tree.constant(np.zeros(10_000), 1).to_dict()
    tree["classes"] = [*map(str, range(9_999)), "x" * 30_000]  # all are as long as the longest
    check_refused(of_tree(tree, ["x"]), "classes must take at most 1073741824 bytes; the longest is of 30000 letters")


# ---- what loading costs ----------------------------------------------------------------------------------------------


def test_files_of_older_versions_are_read_in_time_that_their_size_takes(tmp_path):
    """Half a megabyte took ten seconds and more: each name was looked for in a list of all."""
    p = 30_000
    names = [f"x{j}" for j in range(p)]
    data = of_tree(Tree.constant([1.0], p).to_dict(), names)
    for number, old in enumerate(({"fill": {"x1": 1.0}}, {"levels": {name: [name, "a"] for name in names[: p // 3]}})):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({**data, **old}))
        model = ends_in_time(partial(opttree.load, path), 3.0)
        assert len(model.encoding.columns) == p


def test_older_files_say_what_is_missing_and_which_levels_there_are(tmp_path, check_refused):
    tree = Tree([[1, 2]], [[1.0, 2.0, 4.0]], [2.5], [[0.0], [1.0]])
    data = of_tree(tree.to_dict(), ["size", "colour=red", "colour=blue"])
    old = {"fill": {"size": 9.0}, "levels": {"colour=red": ["colour", "red"], "colour=blue": ["colour", "blue"]}}
    (tmp_path / "old.json").write_text(json.dumps({**data, **old}))
    model = opttree.load(tmp_path / "old.json")
    table = pd.DataFrame({"colour": ["red", "blue", "green", None], "size": [0.0, 0.0, np.nan, 1.0]})
    assert model.predict(table).tolist() == [0.0, 1.0, 1.0, 0.0]
    for fill in ({"size": float("nan")}, {"size": "x"}, {"size": None}, [1]):
        check_refused({**data, "fill": fill}, "")
    for levels in ({"size": ["colour"]}, {"size": ["a", "b", "c"]}, {"size": "ab"}, {"size": ["a", 1]}, [1]):
        check_refused({**data, "levels": levels}, "")


def test_texts_in_the_place_of_numbers_are_not_read_one_by_one(tmp_path):
    """80 kB took ten seconds: the packed texts were turned into numbers before they were counted."""
    arrays = unpacked(content("oblique", ".npz"))
    path = saved_at(tmp_path / "bad.npz", {**arrays, "share": np.full(10**7, "0")})

    def refused():
        with pytest.raises(ValueError, match="share must be lists of numbers"):
            opttree.load(path)

    ends_in_time(refused, 1.5)


@pytest.mark.parametrize("letter", [0x110000, 0xD800])
def test_what_is_no_letter_of_unicode_is_refused(tmp_path, letter):
    """Such a text crashed where it was shown, long after it had been read."""
    model = opttree.TAORegressor(1, random_state=0).fit(pd.DataFrame({"x": np.arange(20.0)}), np.arange(20.0))
    opttree.save(model, tmp_path / "good.npz")
    arrays = unpacked((tmp_path / "good.npz").read_bytes())
    names = arrays["feature_names"].copy()
    names.view(np.uint32)[0] = letter
    with pytest.raises(ValueError, match=r"feature_names\.npy must hold letters of Unicode"):
        opttree.load(saved_at(tmp_path / "bad.npz", {**arrays, "feature_names": names}))
    if letter == 0xD800:
        opttree.save(model, tmp_path / "good.json")
        text = (tmp_path / "good.json").read_text()
        (tmp_path / "bad.json").write_text(text.replace('"x"', '"\\ud800"'))
        with pytest.raises(ValueError, match="damaged or not a model"):
            opttree.load(tmp_path / "bad.json")


def test_numbers_of_levels_are_as_small_as_numbers_of_tables(tmp_path, check_refused):
    frame = pd.DataFrame({"size": [1.0, None, 3.0, 4.0] * 5})
    opttree.save(opttree.TAORegressor(1, random_state=0).fit(frame, np.arange(20.0) % 4), tmp_path / "model.json")
    data = json.loads((tmp_path / "model.json").read_text())
    found = [feature for feature in data["tree"]["encoding"]["features"] if "fill" in feature]
    found[0]["fill"] = 1e308
    check_refused(data, "fill must be at most 1e\\+150 in size; got 1e\\+308")
