"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the path of an empty file beside ``path``, of the same suffix, that takes its place after the block; it is
    removed where the block raises. Devices and pipes are yielded as they are.
    """
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}.", suffix=f".part{path.suffix}")
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        umask = os.umask(0)
        os.umask(umask)
        unfinished.chmod(0o666 & ~umask)  # mkstemp's files are private; this one is an ordinary file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
