"""`Exporter`: what the command ``opttree export`` knows of a format. Each module of the room that has one is found."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple


class Exporter(NamedTuple):
    """A format of files.

    kind : its name, for ``--to``.
    endings : those of its files.
    write : from a saved model, the path, and the options of the command.
    beside : whether it names and writes files of its own, beside the path.
    """

    kind: str
    endings: tuple[str, ...]
    write: Callable[[Any, Path, Any], Any]
    beside: bool = False


def text_file(make: Callable[[Any, Any], str]) -> Callable[[Any, Path, Any], None]:
    """What writes the text that ``make(model, options)`` returns."""

    def write(model: Any, path: Path, options: Any) -> None:
        path.write_text(make(model, options), encoding="utf-8")

    return write


def modules() -> list[Any]:
    """The modules of the room, but for the file to copy."""
    return [
        import_module(f"opttree.export.{module.name}")
        for module in iter_modules([str(Path(__file__).parent)])
        if module.name not in ("record", "standalone")
    ]


def exporters() -> dict[str, Exporter]:
    """The formats by name."""
    found = [module.EXPORTER for module in modules() if hasattr(module, "EXPORTER")]
    return {exporter.kind: exporter for exporter in found}
