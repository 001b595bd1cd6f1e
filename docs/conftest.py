"""Pages run as tests, each in a folder of its own that holds the table they speak of."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder_of_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with `rentals.csv`, as a reader who has downloaded it has."""
    shutil.copy(Path(__file__).parent / "rentals.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
