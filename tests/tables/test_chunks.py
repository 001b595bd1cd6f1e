"""Rows in parts, of every source."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

import opttree
from opttree import chunks


@pytest.fixture
def table(tmp_path):
    import pandas as pd

    X, y = make_friedman1(6000, n_features=6, noise=0.5, random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    np.save(tmp_path / "X.npy", X)
    return X, y, frame, tmp_path


def test_chunks_of_every_source_hold_the_same_rows(table):
    X, y, frame, folder = table
    mapped = np.load(folder / "X.npy", mmap_mode="r")
    sources = [
        (folder / "rows.parquet", "y"),
        (str(folder), "y"),
        ((mapped, y), None),
        (lambda: ((X[i : i + 700], y[i : i + 700]) for i in range(0, 6000, 700)), None),
    ]
    try:
        import dask.dataframe as dd

        sources.append((dd.from_pandas(frame, npartitions=3), "y"))
    except ImportError:
        pass
    for source, target in sources:
        parts = list(chunks.Chunks(source, target, 512))
        assert max(len(part) for part, _y in parts) <= 512
        np.testing.assert_allclose(np.concatenate([part for part, _y in parts]), X)
        np.testing.assert_allclose(np.concatenate([own for _x, own in parts]), y)
    sample_X, sample_y, n = chunks.Chunks((X, y), None, 512).sample(300, np.random.default_rng(0))
    assert (len(sample_X), len(sample_y), n) == (300, 300, 6000)
    assert len(np.unique(sample_y)) == 300
    assert np.isin(sample_y, y).all()


def test_columns_of_files_are_found_by_their_names(table):
    _X, y, frame, folder = table
    turned = frame[["y", *(f"x{j}" for j in reversed(range(6)))]]
    (folder / "two").mkdir()
    frame[:3000].to_parquet(folder / "two" / "0.parquet")
    turned[3000:].to_parquet(folder / "two" / "1.parquet")
    named = opttree.TAORegressor(3, random_state=0).fit(frame.drop(columns="y"), y)
    turned.to_parquet(folder / "turned.parquet")
    for model in (named, as_tree_of(named, folder)):
        found = np.concatenate(list(chunks.predict_chunks(model, folder / "turned.parquet", target="y")))
        np.testing.assert_array_equal(found, named.predict(frame.drop(columns="y")))
    one, two = (
        opttree.GETRegressor(2, random_state=0).fit_chunks(place, target="y", sample_rows=500)
        for place in (folder / "rows.parquet", folder / "two")
    )
    assert list(two.feature_names_in_) == [f"x{j}" for j in range(6)]
    np.testing.assert_allclose(two.predict(frame.drop(columns="y")), one.predict(frame.drop(columns="y")))
    turned.drop(columns="x0").to_parquet(folder / "two" / "2.parquet")
    with pytest.raises(ValueError, match="all parts must have the same columns; got some without 'x0'"):
        list(chunks.Chunks(folder / "two", "y"))


def test_tables_of_other_libraries_blanks_and_empty_parts_are_read(tmp_path):
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    import pandas as pd

    columns = {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    for part in (pl.DataFrame(columns), pa.table(columns)):
        ((X, _y),) = chunks.Chunks(lambda part=part: iter([([], []), (part, [1, 2])]))
        np.testing.assert_array_equal(X, [[1.0, 3.0], [2.0, 4.0]])
    pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}).to_parquet(tmp_path / "blank.parquet")
    ((X, _y),) = chunks.Chunks(tmp_path / "blank.parquet")
    np.testing.assert_array_equal(X, [[1.0], [np.nan]])
    two = [(pd.DataFrame(np.ones((2, 3)), columns=list(names)), [1, 2]) for names in ("aab", "aba")]
    with pytest.raises(ValueError, match="all parts must have the same columns; got one name several times"):
        list(chunks.Chunks(lambda: iter(two)))


def as_tree_of(model, folder):
    opttree.save(model, folder / "model.json")
    return opttree.load(folder / "model.json")


def test_parts_that_do_not_fit_together_are_refused():
    X, y = make_friedman1(600, random_state=0)
    blank, once = np.where(X < 0.1, np.nan, X), iter([(X[:300], y[:300]), (X[300:], y[300:])])
    for parts, words in (
        ([(X, y), (X, y[:10])], "y must have an entry for each row; got 10 for 600 rows"),
        ([(X, y), (X[:, :2], y)], "all parts must have the same columns, 10; got 2"),
        ([(X, y), (X, np.column_stack([y, y]))], "y must have 1 outputs in each part; got 2"),
        ([(X, y), (blank, y)], "X must be finite; got nan"),
        (once, "source must have the same rows at each pass, 600; got 0 at a later one"),
    ):
        with pytest.raises(ValueError, match=words):
            opttree.GETRegressor(2, random_state=0).fit_chunks(lambda parts=parts: iter(parts), sample_rows=100)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (lambda: None, "pairs of features and targets; it gave None"),
        (lambda: iter([np.zeros((2, 2))]), "pairs of features and targets; a part was ndarray"),
        (lambda: iter([(1, 2, 3)]), "pairs of features and targets; a part was 3 things"),
    ],
)
def test_functions_give_pairs(source, said):
    model = opttree.TAORegressor(1, random_state=0).fit(np.eye(8), np.arange(8.0))
    with pytest.raises(ValueError, match=said):
        list(chunks.predict_chunks(model, source))
