"""Model files: exact round trips, and one sentence for every kind of damage."""

import json
import os
import zipfile
from dataclasses import replace
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris

import opttree
from opttree import TAOClassifier, TAORegressor, Tree, load, save
from tests.conftest import ends_in_time
from tests.trees import random_tree


@pytest.fixture(params=["json", "npz"])
def path(request, tmp_path):
    return tmp_path / f"model.{request.param}"


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_estimators_round_trip(path, leaves):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = TAORegressor(3, leaves=leaves, random_state=0).fit(X, y)
    opttree.save(model, path, target="progression")
    loaded = opttree.load(path)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict(X[X.columns[::-1]]), model.predict(X))  # found by name
    assert np.array_equal(loaded.predict(X.to_numpy()), model.predict(X))
    assert (loaded.target, loaded.method) == ("progression", "TAORegressor")
    assert loaded.feature_names == tuple(X.columns)
    assert np.array_equal(loaded.tree.share, model.tree_.share)


@pytest.mark.parametrize("labels", [np.array([0, 1, 2]), np.array(["a", "b", "c"]), np.array([0.5, 1.5, 2.5])])
def test_classifiers_round_trip(path, labels):
    X, y = load_iris(return_X_y=True)
    model = TAOClassifier(2, random_state=0).fit(X, labels[y].astype(str) if labels.dtype.kind == "f" else labels[y])
    opttree.save(model, path)
    loaded = opttree.load(path)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_bare_trees_and_one_leaf_trees_round_trip(path, rng):
    for tree in (random_tree(rng, 3, 2, 2, linear=True), Tree.constant([1.5, 2.5], 4)):
        opttree.save(tree, path, feature_names=[f"f{j}" for j in range(tree.n_features)])
        loaded = opttree.load(path)
        assert loaded.tree == tree
        assert "f0" in loaded.feature_names
        opttree.save(loaded, path)
        assert opttree.load(path).tree == tree


def test_truncated_files_are_refused(path, rng):
    opttree.save(random_tree(rng, 3, 2, 1), path)
    whole = path.read_bytes()
    for size in (0, 1, len(whole) // 3, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="must be a model written by opttree"):
            opttree.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "its format is not"),
        ('{"format": "other"}', "its format is not"),
        ('{"format": "opttree.Model", "version": 2}', "must have model version 1.*got 2"),
        ('{"format": "opttree.Model", "version": 1}', "its content is damaged"),
        ("import os", "damaged or not a model"),
    ],
)
def test_files_that_are_no_models_are_refused(tmp_path, content, message):
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        opttree.load(path)
    assert len(str(error.value).splitlines()) == 1


def test_inner_damage_is_refused(tmp_path, rng):
    path = tmp_path / "model.json"
    opttree.save(random_tree(rng, 2, 2, 1), path)
    data = json.loads(path.read_text())
    for damage in ({"A": "x"}, {"children": [[1, 2], [3, 3], [5, 6]]}, {"version": 7}, {"values": None}):
        path.write_text(json.dumps({**data, "tree": {**data["tree"], **damage}}))
        with pytest.raises(ValueError, match="damaged"):
            opttree.load(path)


def test_nothing_is_left_behind_by_a_failed_save(tmp_path):
    with pytest.raises(ValueError, match="or a fitted estimator of one; got TAORegressor"):
        opttree.save(TAORegressor(), tmp_path / "m.json")
    with pytest.raises(FileNotFoundError):
        opttree.save(Tree.constant([0.0], 1), tmp_path / "absent" / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_missing_columns_are_named(tmp_path, rng):
    opttree.save(random_tree(rng, 1, 2, 1), tmp_path / "m.json", feature_names=["u", "v"])
    with pytest.raises(ValueError, match="got none called 'v'"):
        opttree.load(tmp_path / "m.json").predict(pd.DataFrame({"u": [1.0]}))


def test_tables_are_checked_and_read_by_name(rng):
    tree = random_tree(rng, 2, 2, 1)
    model = opttree.Model(tree, ("0", "v"))
    X = rng.integers(-3, 3, size=(30, 2))
    frame = pd.DataFrame({"v": X[:, 1], "unused": "text", 0: X[:, 0]})  # numbers are names too
    assert np.array_equal(model.table(frame), X)
    assert np.array_equal(model.predict(frame), tree.predict(X.astype(float)))
    for table in (model.table(frame), model.table(X), model.table(np.asfortranarray(X.astype(np.float32)))):
        assert (table.dtype, table.flags.c_contiguous) == (np.float64, True)
    holes = np.where(np.arange(30)[:, None] == 3, np.nan, X)
    for bad in (holes, pd.DataFrame({"0": X[:, 0], "v": holes[:, 1]})):
        with pytest.raises(ValueError, match="must"):
            model.predict(bad)
    with pytest.raises(ValueError, match="must"):
        model.predict(pd.DataFrame({"0": X[:, 0], "v": pd.Categorical(X[:, 1])}))
    assert (model.target, model.method) == ("target", "")
    with pytest.raises(AttributeError, match="cannot assign"):
        model.target = "other"


def test_models_speak_of_their_features_and_classes(path, rng):
    tree = Tree([[1, 2]], [[1.0, 0.0]], [0.25], [[0.9, 0.1], [0.2, 0.8]], classes=["no", "yes"])
    opttree.save(tree, path, feature_names=["age", "height"], target="ill")
    model = opttree.load(path)
    assert model == opttree.Model(tree, ("age", "height"), "ill", "")
    assert model.to_text() == tree.to_text(["age", "height"])
    frame = pd.DataFrame({"height": [1.0, 0.0], "age": [0.0, 1.0]})
    assert model.predict(frame).tolist() == ["no", "yes"]
    assert model.predict_proba(frame).tolist() == [[0.9, 0.1], [0.2, 0.8]]
    opttree.save(tree, path)
    assert opttree.load(path) == opttree.Model(tree, ("x0", "x1"))
    opttree.save(model, path, feature_names=["a", "b"], target="other")  # a model keeps its own
    assert opttree.load(path) == model


def test_a_saved_file_is_an_ordinary_one_and_alone(path, rng):
    before = os.umask(0o027)
    try:
        opttree.save(random_tree(rng, 2, 2, 1), path)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(path.parent.iterdir()) == [path]


def test_the_ending_says_the_format(tmp_path, rng):
    tree = random_tree(rng, 6, 8, 1)
    opttree.save(tree, tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as parts:
        assert np.array_equal(parts["A"], tree.A)
        plain = sum(parts[name].nbytes for name in parts.files)
        header = json.loads(str(parts["header"]))
    assert (tmp_path / "m.npz").stat().st_size < plain
    assert (header["format"], header["version"]) == ("opttree.Model", 1)
    for name in ("m.json", "m.txt", "m"):
        opttree.save(tree, tmp_path / name)
        data = json.loads((tmp_path / name).read_text())
        assert data["tree"] == tree.to_dict()
        assert opttree.load(tmp_path / name).tree == tree


def test_a_failed_save_keeps_the_old_file(path, rng):
    resource = pytest.importorskip("resource")
    tree = random_tree(rng, 2, 2, 1)
    opttree.save(tree, path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # bytes: as on a disk that is full
        with pytest.raises(OSError, match="File too large"):
            opttree.save(random_tree(rng, 8, 8, 1), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert opttree.load(path).tree == tree
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_saved_is_refused(path, rng):
    with pytest.raises(ValueError, match="feature_names must have 2 entries; got 1"):
        opttree.save(random_tree(rng, 1, 2, 1), path, feature_names=["u"])
    with pytest.raises(ValueError, match="quantiles"):
        opttree.save(SimpleNamespace(tree_=random_tree(rng, 1, 2, 1), transformer_=object()), path)
    with pytest.raises(ValueError, match="or a fitted estimator of one; got dict"):
        opttree.save({}, path)
    assert not path.exists()


def test_the_reason_for_a_refusal_is_given(path, rng):
    with pytest.raises(ValueError, match="must be a model written by opttree; no such file"):
        opttree.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="damaged or not a model"):
        opttree.load(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match="damaged or not a model"):
        opttree.load(path)


def test_names_that_do_not_fit_the_tree_are_damage(tmp_path, rng):
    path = tmp_path / "model.json"
    opttree.save(random_tree(rng, 2, 2, 1), path)
    data = json.loads(path.read_text())
    for damage in ({"feature_names": ["x0"]}, {"feature_names": None}, {"tree": []}, {"format": "opttree.Tree"}):
        path.write_text(json.dumps({**data, **damage}))
        with pytest.raises(ValueError, match="must be a model written by opttree"):
            opttree.load(path)
    for name in ("target", "method", "tree", "feature_names"):
        path.write_text(json.dumps({k: v for k, v in data.items() if k != name}))
        with pytest.raises(ValueError, match=f"its content is damaged: '{name}'"):
            opttree.load(path)


def test_a_file_cannot_bring_pickles(tmp_path, rng):
    path = tmp_path / "model.npz"
    opttree.save(random_tree(rng, 1, 2, 1), path)
    with np.load(path) as parts:
        content = dict(parts)
    np.savez(path, **{**content, "b": np.array([{}], object)})
    with pytest.raises(ValueError, match="damaged or not a model"):
        opttree.load(path)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["A", "b", "values"])
def test_numbers_that_are_not_finite_are_refused(path, name, number):
    tree = TAORegressor(2, random_state=0).fit(np.arange(20.0)[:, None], np.arange(20.0) ** 2).tree_
    broken = getattr(tree, name).copy()
    broken.flat[0] = number
    opttree.save(replace(tree, **{name: broken}), path)
    with pytest.raises(ValueError, match=f"its content is damaged: {name} must be finite; got {number}"):
        opttree.load(path)


def test_text_in_the_place_of_numbers_is_damage(tmp_path):
    tree = TAORegressor(2, random_state=0).fit(np.arange(20.0)[:, None], np.arange(20.0) ** 2).tree_
    path = tmp_path / "m.json"
    opttree.save(tree, path)
    data = json.loads(path.read_text())
    data["tree"]["b"] = "NaN"
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match="its content is damaged"):
        opttree.load(path)


def test_damaged_forests_are_refused(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = opttree.BoostedTreesClassifier("cart", n_estimators=3, categorical_features=[], random_state=0).fit(X, y)
    path = tmp_path / "m.json"
    opttree.save(model, path)
    whole = path.read_text()

    def damaged(change):
        data = json.loads(whole)
        change(data["tree"])
        path.write_text(json.dumps(data))
        with pytest.raises(ValueError, match="its content is damaged") as error:
            opttree.load(path)
        assert len(str(error.value).splitlines()) == 1

    for value in (10**400, None, "x"):
        damaged(lambda tree, value=value: tree["encoding"]["features"][0].update(fill=value))
    damaged(lambda tree: tree["encoding"]["features"][0].update(low=1.0))
    for starts in ([[30, [0.0, 0.0, 0.0]]], [[len(model.forest_.trees), [0.0]]], [[1, 10**400]], 3):
        damaged(lambda tree, starts=starts: tree.update(starts=starts))
    for n_outputs in (2.5, 1, 0, None):
        damaged(lambda tree, n_outputs=n_outputs: tree.update(n_outputs=n_outputs))
    damaged(lambda tree: tree.update(layers=[]))
    damaged(lambda tree: tree["layers"][0][0].update(b="x"))


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "colour"},
        {"column": 7},
        {"column": -1},
        {"fill": float("nan")},
        {"fill": float("inf")},
        {"low": 0.0},
        {"low": float("-inf"), "high": 1.0},
        {"more": 1},
    ],
    ids=str,
)
def test_damaged_encodings_that_security_says_are_refused(damage, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"colour": rng.choice(["red", "blue"], 60), "size": rng.normal(size=60)})
    opttree.save(TAORegressor(1, random_state=0).fit(table, table["size"]), tmp_path / "good.json")
    content = json.loads((tmp_path / "good.json").read_text())
    value = next(own for own in content["tree"]["encoding"]["features"] if own["kind"] == "value")
    value |= damage
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"its content is damaged: [^\n]+$"):
        opttree.load(tmp_path / "bad.json")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


@pytest.fixture
def saved(table, tmp_path):
    save(TAORegressor(2, leaves="linear", random_state=0).fit(*table), tmp_path / "model.npz")
    save(TAORegressor(2, leaves="linear", random_state=0).fit(*table), tmp_path / "model.json")
    return tmp_path


def with_array(folder, shape, zeros):
    """The saved NPZ with another array of thresholds: its header says ``shape``, and ``zeros`` numbers follow."""
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with (
        zipfile.ZipFile(folder / "model.npz") as before,
        zipfile.ZipFile(folder / "b.npz", "w", 8, compresslevel=1) as after,
    ):
        for name in before.namelist():
            if name != "b.npy":
                after.writestr(name, before.read(name))
        with after.open("b.npy", "w", force_zip64=True) as file:
            file.write(header.getvalue())
            for first in range(0, zeros, 10**6):
                file.write(bytes(8 * min(10**6, zeros - first)))
    return folder / "b.npz"


def test_arrays_that_say_more_than_they_hold_are_refused(saved):
    with pytest.raises(ValueError, match=r"b\.npy says that it holds 8000000000 bytes, and holds"):
        load(with_array(saved, (10**9,), 3))


@pytest.mark.parametrize(("kind", "shape"), [("<U0", 10**13), ("|V0", 10**13), ("|O", 3), ("<c16", 3), ("|b1", 10**9)])
def test_arrays_of_other_kinds_are_refused(saved, kind, shape):
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": (shape,)})
    size = {"<c16": 48, "|O": 24, "|b1": 10**9}.get(kind, 0)
    with (
        zipfile.ZipFile(saved / "model.npz") as before,
        zipfile.ZipFile(saved / "b.npz", "w", 8, compresslevel=1) as after,
    ):
        for name in before.namelist():
            if name != "b.npy":
                after.writestr(name, before.read(name))
        with after.open("b.npy", "w", force_zip64=True) as file:
            file.write(header.getvalue())
            for first in range(0, size, 10**7):
                file.write(bytes(min(10**7, size - first)))
    with pytest.raises(ValueError, match=r"must be a model written by opttree; it is damaged or not a model"):
        load(saved / "b.npz")


def test_small_files_that_inflate_are_refused_before_they_do(saved):
    path = with_array(saved, (2 * 10**8,), 2 * 10**8)
    assert path.stat().st_size < 2 * 10**7

    def refused():
        with pytest.raises(ValueError, match="models are of at most 1073741824 bytes, and this is of 16000"):
            load(path)

    ends_in_time(refused, 1.0)


@pytest.mark.parametrize("entry", ["NaN", [["x"]], None, {}, [1e400], "1" * 50])
def test_entries_of_another_kind_are_refused(saved, entry):
    data = json.loads((saved / "model.json").read_text())
    data["tree"]["b"] = entry
    (saved / "other.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"must be a model written by opttree; its content is damaged"):
        load(saved / "other.json")


def chain(n_branches):
    """A tree whose right children are leaves."""
    children = np.stack([np.arange(1, n_branches + 1), n_branches + np.arange(n_branches)], axis=1)
    children[-1, 0] = 2 * n_branches
    b = np.arange(n_branches, dtype=float)[::-1]
    return Tree(children, np.ones((n_branches, 1)), b, np.arange(n_branches + 1.0)[:, None])


def test_trees_too_deep_for_a_text_are_neither_written_nor_read(tmp_path):
    save(chain(500), tmp_path / "deep.json")
    assert load(tmp_path / "deep.json").to_text().count("\n") == 1500
    with pytest.raises(ValueError, match="a tree in a file must have at most 500 levels; got more"):
        save(chain(501), tmp_path / "deeper.json")
    data = json.loads((tmp_path / "deep.json").read_text())
    deep = chain(20_000)
    for name in ("children", "A", "b", "values"):
        data["tree"][name] = getattr(deep, name).tolist()
    data["tree"]["coefs"] = []
    (tmp_path / "deeper.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match="at most 500 levels"):
        load(tmp_path / "deeper.json")


def test_tables_of_numbered_columns_are_read_by_place(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    frame = pd.DataFrame(X)  # columns 0, 1, ...
    model = TAORegressor(2, random_state=0).fit(frame, y)
    save(model, tmp_path / "tree.json")
    saved = load(tmp_path / "tree.json")
    np.testing.assert_array_equal(saved.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(saved.predict(X), model.predict(frame))
    with pytest.raises(ValueError, match="got none called 'x0'"):
        saved.predict(frame.iloc[:, :3])
    with pytest.raises(ValueError, match="got none called 'x0'"):
        saved.predict(frame.rename(columns={0: "age"}))
