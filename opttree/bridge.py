"""The one place where opttree imports the packages beside it: ``bridge.solvers`` on first use, others by `own`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import solvers as solvers

HOME = Path(__file__).resolve().parents[1]


def own(name: str) -> Any:
    """The package called ``name``, "solvers" or "experiments", that belongs to this opttree.

    Raises
    ------
    ImportError
        If another module of that name comes first on the path, which is not run; the message names it.
    """
    spec = find_spec(name)
    if spec is not None and (spec.origin is None or Path(spec.origin).resolve().parent != HOME / name):
        where = spec.origin or ", ".join(spec.submodule_search_locations or [])
        raise ImportError(
            f"opttree needs its own package {name!r}; {where} comes first on sys.path and hides it: "
            "rename it, or move it to a folder that is not on sys.path"
        )
    return import_module(name)


def __getattr__(name: str) -> Any:
    """The package `solvers`, see `own`."""
    if name != "solvers":
        raise AttributeError(f"module 'opttree.bridge' has no attribute {name!r}")
    globals()[name] = found = own(name)
    return found
