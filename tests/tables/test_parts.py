"""Tables in parts: what is read, in which order, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import opttree
from opttree import TAORegressor
from opttree.chunks import predict_chunks
from opttree.tables.parts import Read, Rows

X = np.arange(60.0).reshape(20, 3)
Y = np.arange(20.0)


def read(rows):
    parts = [rows.part(k) for k in range(len(rows))]
    return np.concatenate([np.asarray(part.X, float) for part in parts]), np.concatenate([part.y for part in parts])


def mean(part: Read, number: int, shared: float):
    return np.array([part.y.sum() * shared]), np.array([len(part.y)])


def sources(folder):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
    frame[:12].to_parquet(folder / "1.parquet", row_group_size=5)
    frame[12:].to_parquet(folder / "2.parquet")
    big = np.lib.format.open_memmap(folder / "X.npy", "w+", shape=X.shape)
    big[:] = X
    big.flush()
    mapped = np.load(folder / "X.npy", mmap_mode="r")
    dd, da = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.array")
    return {
        "arrays": Rows((X, Y), rows=6),
        "pairs": Rows([(X[:7], Y[:7]), (X[7:], Y[7:])], rows=6),
        "memmap": Rows((mapped, Y), rows=6),
        "folder": Rows(folder, "y", rows=4),
        "pattern": Rows(str(folder / "*.parquet"), ["y"]),
        "files": Rows([folder / "1.parquet", folder / "2.parquet"], "y"),
        "chunks": Rows(opttree.chunks.Chunks(folder, "y", 4)),
        "frame": Rows(dd.from_pandas(frame, npartitions=3), "y"),
        "dask": Rows((da.from_array(X, chunks=(6, 3)), da.from_array(Y, chunks=6))),
    }


def test_all_sources_hold_the_same_rows_in_order(tmp_path):
    for name, rows in sources(tmp_path).items():
        assert rows.n_rows == 20, name
        assert len(rows) > 1, name
        for given, found in zip((X, Y), read(rows), strict=True):
            np.testing.assert_array_equal(found.reshape(given.shape), given, name)
        total, count = rows.sum(mean, 2.0)
        assert (total[0], count[0]) == (2.0 * Y.sum(), 20), name


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_sums_are_taken_in_the_order_of_the_parts(n_jobs):
    rows = Rows((X, Y), rows=1, n_jobs=n_jobs)
    assert list(rows.each(lambda part, number, shared: number, ())) == list(range(20))
    assert rows.traffic.rounds == 1
    list(rows.each(lambda part, number, shared: np.zeros(5), np.zeros(3)))
    assert (rows.traffic.sent, rows.traffic.received) == (20 * 24, 20 * 8 + 20 * 40)


def test_a_sample_has_rows_of_all_parts_without_repeats():
    rows = Rows((X, Y, np.arange(20.0)), rows=3)
    some = rows.sample(10, np.random.default_rng(0))
    assert len(set(some.y)) == 10
    assert (np.diff(some.y) > 0).all()
    np.testing.assert_array_equal(some.weight, some.y)
    np.testing.assert_array_equal(rows.sample(50, np.random.default_rng(0)).X, X)


def test_rows_are_stored_once(tmp_path):
    rows = Rows((X, Y), rows=6, store=tmp_path / "numbers")
    stored = rows.stored(lambda part: (part.X * 2.0, part.y, np.ones(len(part.y))))
    assert stored.sizes == rows.sizes
    np.testing.assert_array_equal(read(stored)[0], 2.0 * X)


def test_an_error_in_a_part_is_passed_on():
    def fails(part, number, shared):
        raise RuntimeError(f"part {number}")

    with pytest.raises(RuntimeError, match="part 0"):
        list(Rows((X, Y), rows=3, n_jobs=2).each(fails, ()))


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (lambda: iter([]), {}, "can be read in any order"),
        ((X, Y[:5]), {}, r"as many rows; got \[20, 5\]"),
        ((X, Y), {"rows": 0}, "rows must be an integer >= 1; got 0"),
        ("nowhere/*.parquet", {"target": "y"}, "does not exist"),
        ((np.zeros((0, 2)), np.zeros(0)), {}, "at least one row"),
        ([(X, Y), X], {}, "another at 1"),
        ((X, Y), {"target": "y"}, "target and weight name columns"),
        ((5, 6), {}, "must be arrays or DataFrames; got int"),
    ],
)
def test_what_has_no_parts_is_refused(source, options, message):
    with pytest.raises(ValueError, match=message):
        Rows(source, **options)


def test_a_missing_target_is_refused(tmp_path):
    pd.DataFrame(X, columns=list("abc")).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="target must name the target column"):
        Rows(tmp_path)
    with pytest.raises(ValueError, match="got 'y'"):
        Rows(tmp_path, "y").part(0)


@pytest.mark.parametrize("source", ["pattern", "list", "pairs", "dask"])
def test_parts_are_aligned_by_the_names_of_their_columns(tmp_path, source):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc")).assign(y=lambda t: t["a"] - 2.0 * t["c"])
    halves = table[:200], table[200:][["c", "y", "b", "a"]].reset_index(drop=True)
    for number, half in enumerate(halves):
        half.to_parquet(tmp_path / f"{number}.parquet", index=False)
    files = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    if source == "dask":
        dd = pytest.importorskip("dask.dataframe")
        rows = Rows(dd.from_map(pd.read_parquet, [str(file) for file in files], enforce_metadata=False), "y")
    elif source == "pairs":
        rows = Rows([(half.drop(columns="y"), half["y"].to_numpy()) for half in halves])
    else:
        rows = Rows(str(tmp_path / "*.parquet") if source == "pattern" else files, "y")
    assert [list(rows.part(number).X.columns) for number in (0, 1)] == [["a", "b", "c"]] * 2
    model = TAORegressor(2, leaves="linear", floor=False, random_state=0).fit(rows)
    whole = model.predict(table[["a", "b", "c"]])
    np.testing.assert_allclose(whole, table["y"], atol=1e-2)
    np.testing.assert_array_equal(np.concatenate(list(predict_chunks(model, rows))), whole)
    if source in ("pattern", "list"):
        found = predict_chunks(model, str(tmp_path / "*.parquet") if source == "pattern" else files, target="y")
        np.testing.assert_array_equal(np.concatenate(list(found)), whole)
    with pytest.raises(ValueError, match=r"X must be a table in memory; got opttree\.Rows: opttree\.chunks\.predict"):
        model.predict(rows)


def test_a_column_may_be_called_part_and_other_columns_are_refused():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((400, 3)), columns=["a", "b", "part"])
    model = TAORegressor(2, random_state=0).fit(table, table["a"])
    dd = pytest.importorskip("dask.dataframe")
    found = np.concatenate(list(predict_chunks(model, dd.from_pandas(table, npartitions=2))))
    np.testing.assert_array_equal(found, model.predict(table))
    y = table["a"].to_numpy()
    odd = Rows([(table, y), (table.rename(columns={"b": "z"}), y)])
    with pytest.raises(ValueError, match="parts must have the same columns; got 'z', which the first part has not"):
        odd.part(1)
    with pytest.raises(ValueError, match="source must be a Dask DataFrame or arrays"):
        Rows(pytest.importorskip("dask.array").zeros((4, 2), chunks=2), "y")
