"""`show_versions`: what a report of a problem should say about the machine and its libraries."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib import metadata

__version__ = "0.2.0"


def show_versions() -> None:
    """Print the versions of opttree, Python and the libraries, and the machine: for a report of a problem.

    The libraries are those that opttree needs, and those of its extras that are installed.

    See Also
    --------
    opttree.warm_up : compiles the kernels, whose cache is for one version and one machine

    Examples
    --------
    >>> import opttree
    >>> opttree.show_versions()                                # doctest: +ELLIPSIS
    opttree             ...
    system              ...
    """
    from opttree.runtime.threads import available

    lines = {
        **_libraries(),
        "Python": sys.version.split()[0],
        "system": f"{platform.platform()}, {available()} of {os.cpu_count()} cores",
    }
    print("\n".join(f"{name:19s} {what}" for name, what in lines.items()))


def _libraries() -> dict[str, str]:
    """Versions of the libraries that opttree's metadata names; libraries of extras only where they are installed."""
    try:
        required, versions = metadata.requires("opttree") or [], {"opttree": metadata.version("opttree")}
    except metadata.PackageNotFoundError:
        return {"opttree": "not installed; its libraries are not known"}
    for line in required:
        name = re.split(r"[\s\[;<>=!~]", line, maxsplit=1)[0]
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if "extra ==" not in line:
                versions[name] = "missing"
    return versions
