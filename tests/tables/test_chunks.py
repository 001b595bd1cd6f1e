"""Rows in parts, of every source."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

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
