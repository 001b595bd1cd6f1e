"""scikit-learn estimators: validate, scale, state the problem, call a solver, keep ``tree_`` and ``result_``.

Each is found by its decorator `opttree.methods.table.estimator`.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from opttree.methods.table import estimators as _estimators
from opttree.tables.encoder import TableEncoder as TableEncoder

if _TYPE_CHECKING:  # what is found below, for type checkers; `python docs/tools/faces.py` writes these lines
    from opttree.estimators.auto import *
    from opttree.estimators.boosting import *
    from opttree.estimators.forest import *
    from opttree.estimators.get import *
    from opttree.estimators.gradtree import *
    from opttree.estimators.ort import *
    from opttree.estimators.rectified import *
    from opttree.estimators.sdtr import *
    from opttree.estimators.soft import *
    from opttree.estimators.tao import *

_sys.modules["opttree.estimators.tables"] = _sys.modules["opttree.tables.encoder"]  # where pickles of 0.1.0 look
globals().update({_name: getattr(_import_module(_module), _name) for _name, _module in _estimators().items()})

__all__ = sorted([*_estimators(), "TableEncoder"])
