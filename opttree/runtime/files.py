"""Atomic writing of files: a file appears complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the path of an empty temporary file in the same folder, with the same suffix; it replaces ``path`` after
    the block, and is removed if the block raises.

    A symbolic link stays a link, and an existing file keeps its permissions. Devices, pipes and files in folders
    without write permission are yielded themselves.
    """
    path = Path(path)
    suffix = path.suffix
    if not path.exists() or path.is_file():
        path = path.resolve()
    if (path.exists() and not path.is_file()) or not os.access(path.parent, os.W_OK):
        yield path
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem[:50]}.", suffix=f".part{suffix}")
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _umask() -> int:
    """The umask of the process; the permissions of mkstemp's files are stricter."""
    umask = os.umask(0)
    os.umask(umask)
    return umask
