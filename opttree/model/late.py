"""The doors that open upwards: conveniences of models and estimators whose work is done in rooms above theirs.

No other string in the packages names a module above its own; `tests/contracts/test_layers.py` holds this.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

DOORS = {
    "explain": "opttree.explain:path",  # Model.explain, and that of estimators
    "html": "opttree.export.html:to_html",  # Tree.to_html
    "plot_rows": "opttree.plotting:plot_rows",  # in notebooks, a Result
    "plot_tree": "opttree.plotting:plot_tree",  # in notebooks, a Tree
}


def late(name: str) -> Any:
    """The function behind one of the `DOORS`, whose module is imported now."""
    module, _colon, function = DOORS[name].partition(":")
    return getattr(import_module(module), function)
