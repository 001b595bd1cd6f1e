"""The one place where opttree imports the package `solvers`: ``bridge.solvers``, on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import solvers as solvers


def __getattr__(name: str) -> Any:
    """The package `solvers` that belongs to this opttree.

    Raises
    ------
    ImportError
        If another module called ``solvers`` comes first on the path; the message names it.
    """
    if name != "solvers":
        raise AttributeError(f"module 'opttree.bridge' has no attribute {name!r}")
    import solvers as found

    if not hasattr(found, "TAO"):
        where = found.__file__ or str(list(found.__path__))
        raise ImportError(
            f"opttree needs its own package 'solvers'; {where} comes first on sys.path and hides it: "
            "rename that module or start Python from another folder"
        )
    globals()[name] = found
    return found
