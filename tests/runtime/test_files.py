"""Files that appear whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from opttree.runtime.files import whole_file


def test_a_file_takes_the_place_of_a_file_alone(tmp_path):
    (tmp_path / "there.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("there.txt")
    with suppress(ZeroDivisionError), whole_file(tmp_path / "there.txt") as file:
        file.write_text("half")
        _ = 1 / 0
    assert (tmp_path / "there.txt").read_text() == "old"
    with whole_file(tmp_path / "link.txt") as file:
        assert file.suffix == ".txt"
        file.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "there.txt").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / "model.npz").symlink_to("there.txt")
    (tmp_path / "there.txt").chmod(0o600)
    with whole_file(tmp_path / "model.npz") as file:
        np.savez(file, x=1.0)  # adds the suffix where it lacks
    with np.load(tmp_path / "there.txt") as saved:
        assert saved["x"] == 1.0
    assert (tmp_path / "there.txt").stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 3
    os.mkfifo(tmp_path / "pipe")
    reader, writer = os.pipe()
    for path in (tmp_path / "pipe", Path(f"/dev/fd/{writer}")):
        with whole_file(path) as file:
            assert file == path
    os.close(reader)
    os.close(writer)
