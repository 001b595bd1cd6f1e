"""The store of runs."""

import os

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from experiments import protocol
from experiments.protocol import Protocol
from solvers.races import runs, store as store_module
from solvers.races.runs import ROOT
from solvers.races.store import Store
from tests.races.test_runner import run, small


def test_the_code_version_ignores_comments_and_docstrings(tmp_path, monkeypatch):
    def version(text: str, name: str = "methods.py") -> str:
        runs.code_version.cache_clear()
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
        return Protocol.version()

    for name in protocol.WORKING:
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.setattr(protocol, "FOLDER", tmp_path)
    monkeypatch.setattr(runs, "ROOT", tmp_path)
    first = version('"""One."""\nx = 1\n')
    assert first == version('"""Two."""\n# a comment\nx  =  1\n') != version('"""One."""\nx = 2\n')
    assert version('x = option(1, "One.", least=0)') == version('x = option(1, doc="Two.", least=0)')
    assert version("x = option(1, least=0)") != version("x = option(1, least=1)")
    # what shows a race changes no row
    first = version("x = 1")
    assert first == version("y = 1", "solvers/races/page.py") != version("y = 1", "solvers/races/execute.py")
    assert version("x = 1") != version("y = 1", "solvers/tao/tao.py")
    assert version("A = 2\nB = 22") != version("A = 22\nB = 2")
    rest = "\nexcept E:\n    c()"
    assert version(f"try:\n    a()\n    b(){rest}") != version(f"try:\n    a(){rest}\nelse:\n    b()")
    assert all((ROOT / runs.RACES / name).is_file() for name in runs.WORKING)
    runs.code_version.cache_clear()


def test_a_table_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path, monkeypatch):
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pd.DataFrame({"x": np.arange(1000)}).to_parquet(path)
    pd.DataFrame({"y": ["text"] * 3}).to_parquet(other)
    read = pq.ParquetDataset.read

    def replaced(self, *args, **kwargs):  # the schema has been read, the values have not
        if other.exists():
            os.replace(other, path)
        return read(self, *args, **kwargs)

    monkeypatch.setattr(pq.ParquetDataset, "read", replaced)
    assert list(store_module.read_table(path).columns) == ["x"]
    assert not other.exists()


@pytest.mark.long
def test_a_crash_within_compaction_loses_and_doubles_nothing(tmp_path, monkeypatch):
    store = Store("small", tmp_path)
    run(small(seeds=(0, 1)), store)
    rows, traces = store.rows(), store.traces()
    for one in small(seeds=(0, 1)).runs(Protocol.version()):
        row = rows.set_index("key").loc[one.key].dropna().to_dict()
        numbers = {k: v for k, v in row.items() if k not in {"status", "reason", *one.identity}}
        trace = traces[traces["key"] == one.key].drop(columns="key")
        store.add(one, {"status": "ok", "reason": "", "row": numbers, "trace": trace}, row["session"])
    assert len(store.rows()) == 4  # in the table and in the single files: read once
    assert len(store.traces()) == len(traces)
    monkeypatch.setattr(type(next(tmp_path.iterdir())), "unlink", lambda _path: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        store.compact()
    monkeypatch.undo()
    assert len(store.rows()) == 4
    store.compact()
    assert len(store.rows()) == 4
    assert len(store.traces()) == len(traces)


def test_one_writer_at_a_time(tmp_path):
    store = Store("small", tmp_path)
    with (
        store.lock(),
        pytest.raises(ValueError, match=r"another run writes to small\.parquet"),
        Store("small", tmp_path).lock(),
    ):
        pass
