"""The one place where opttree imports the package `solvers`, on first use."""

from __future__ import annotations

from types import ModuleType


def solvers() -> ModuleType:
    """The package `solvers` that belongs to this opttree.

    Raises
    ------
    ImportError
        If another module of that common name comes first on the path; the message says which.
    """
    import solvers as found

    if not hasattr(found, "TAO"):
        where = found.__file__ or str(list(found.__path__))
        raise ImportError(
            f"opttree needs its own package 'solvers'; {where} comes first on sys.path and hides it: "
            "rename that module or start Python from another folder"
        )
    return found
