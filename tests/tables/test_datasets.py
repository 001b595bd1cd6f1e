"""`opttree.datasets`: the order of look-up, the arrays, the errors."""

import numpy as np
import pandas as pd
import pytest

from opttree import datasets


@pytest.fixture
def folder(tmp_path, monkeypatch):
    frame = pd.DataFrame(
        {
            "size": [1.0, None, 3.0, 5.0],
            "kind": ["a", "b", None, "a"],
            "flag": [True, False, True, True],
            "target": ["no", "yes", "yes", "no"],
        }
    )
    frame.to_csv(tmp_path / "tiny.csv", index=False)
    pd.DataFrame({"x": [1, 2], "target_0": [0.1, 0.2], "target_1": [1, 2]}).to_csv(tmp_path / "two.csv.gz", index=False)
    pd.DataFrame({"x": [1, 2, 3], "target": [3, 3, 4]}).to_csv(tmp_path / "codes.csv", index=False)
    pd.DataFrame({"name": ["codes"], "task": ["multiclass"]}).to_csv(tmp_path / "MANIFEST.csv", index=False)
    monkeypatch.setenv("OPTTREE_DATA", str(tmp_path))
    return tmp_path


def test_a_delimiter_at_the_end_of_each_row_is_no_column(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2,\n3,4,\n")
    assert datasets.read_csv(tmp_path / "a.csv").to_numpy().tolist() == [[1, 2], [3, 4]]


def test_csv_files_of_the_folder_come_first(folder):
    assert {"tiny", "two", "codes", "diabetes", "friedman1"} <= set(datasets.names())
    assert "MANIFEST" not in datasets.names()
    data = datasets.load("tiny")
    assert (data.task, data.name, data.source) == ("classification", "tiny", "tiny.csv")
    assert list(data.X.columns) == ["size", "kind", "flag"]
    X, y = data.as_arrays()
    assert X.dtype == y.dtype == np.float64
    assert X.shape == (4, 4)
    assert X[:, 0].tolist() == [1.0, 3.0, 3.0, 5.0]  # the median fills the gap
    assert X[:, 2:].tolist() == [[1, 0], [0, 1], [0, 0], [1, 0]]  # a missing category is all zeros
    assert y.tolist() == [0.0, 1.0, 1.0, 0.0]


def test_several_targets_and_the_manifests_task(folder):
    X, y = datasets.load("two", as_arrays=True)
    assert (X.shape, y.shape) == ((2, 1), (2, 2))
    assert datasets.load("codes").task == "classification"
    assert datasets.load("codes").as_arrays()[1].tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "shape", "task"),
    [
        ("diabetes", (442, 10), "regression"),
        ("iris", (150, 4), "classification"),
        ("linnerud", (20, 3), "regression"),
        ("friedman1", (2000, 10), "regression"),
        ("friedman3", (2000, 4), "regression"),
    ],
)
def test_built_in_sets_need_no_network(monkeypatch, name, shape, task):
    monkeypatch.delenv("OPTTREE_DATA", raising=False)
    data = datasets.load(name)
    X, y = data.as_arrays()
    assert (X.shape, data.task, data.name) == (shape, task, name)
    assert np.isfinite(X).all()
    assert np.isfinite(y).all()
    assert np.array_equal(datasets.load(name, as_arrays=True)[0], X)


def test_openml_comes_last_and_near_matches_are_listed(folder, monkeypatch):
    import sklearn.datasets

    def no_network(*args, **options):
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", no_network)
    with pytest.raises(ValueError, match=r"got 'tinny' \(near matches: tiny.*no network\)"):
        datasets.load("tinny")
    with pytest.raises(ValueError, match="known names: "):
        datasets.load("zzzzzzzz")

    class Bunch:
        data = pd.DataFrame({"x": [1.0, 2.0]})
        target = pd.Series(["u", "v"])
        details = {"id": "61"}  # noqa: RUF012

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *args, **options: Bunch)
    data = datasets.load("somewhere")
    assert (data.source, data.task) == ("OpenML 61", "classification")


def test_bad_folders_and_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTTREE_DATA", str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="OPTTREE_DATA must name a folder"):
        datasets.names()
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="must be a readable CSV file"):
        datasets.read_csv(tmp_path / "empty.csv")
    (tmp_path / "header.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="at least one row"):
        datasets.read_csv(tmp_path / "header.csv")


@pytest.mark.usefixtures("needs_data")
def test_real_sets_have_the_sizes_of_their_manifest():
    for name, shape in {"abalone": (4177, 8), "titanic": (891, 7), "computer_hardware": (209, 8)}.items():
        assert datasets.load(name).X.shape == shape
    assert datasets.load("computer_hardware", as_arrays=True)[0].shape == (209, 37)
    assert datasets.load("wine_red").task == "regression"
    assert datasets.load("sarcos_test", as_arrays=True)[1].shape == (4449, 7)


def test_a_file_of_images_is_a_table_of_pixels(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    parts = {"train": 6, "test": 3}
    arrays = {f"{part}_images": rng.integers(0, 256, (n, 4, 4), dtype=np.uint8) for part, n in parts.items()}
    arrays |= {f"{part}_labels": rng.integers(0, 3, n, dtype=np.uint8) for part, n in parts.items()}
    np.savez(tmp_path / "small.npz", **arrays)
    monkeypatch.setenv("OPTTREE_DATA", str(tmp_path))
    data = datasets.load("small")
    assert (data.X.shape, data.task) == ((9, 16), "classification")
    np.testing.assert_allclose(data.X.iloc[7], arrays["test_images"][1].ravel() / 255.0, rtol=1e-6)
    assert data.y.tolist() == [*arrays["train_labels"], *arrays["test_labels"]]
