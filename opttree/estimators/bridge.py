"""The one place where opttree imports the package `solvers`: ``bridge.solvers``, on first use."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import solvers as solvers

HOME = Path(__file__).resolve().parents[2]


def check_own(name: str) -> None:
    """ImportError if another module called ``name`` comes before opttree's own package, "solvers" or "experiments", on
    the path; it is not run, and the message says which file it is.
    """
    spec = find_spec(name)
    if spec is not None and (spec.origin is None or Path(spec.origin).resolve().parent != HOME / name):
        where = spec.origin or ", ".join(spec.submodule_search_locations or [])
        raise ImportError(
            f"opttree needs its own package {name!r}; {where} comes first on sys.path and hides it: "
            "rename it, or move it to a folder that is not on sys.path"
        )


def __getattr__(name: str) -> Any:
    """The package `solvers` that belongs to this opttree, see `check_own`."""
    if name != "solvers":
        raise AttributeError(f"module 'opttree.estimators.bridge' has no attribute {name!r}")
    check_own(name)
    import solvers as found

    globals()[name] = found
    return found
