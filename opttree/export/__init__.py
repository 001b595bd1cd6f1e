"""Models for other programs: ONNX, C, SQL, Graphviz, scikit-learn, treelite, rules, and NumPy alone.

Every function takes a `Tree`, a `Forest`, a saved `opttree.Model`, a result or a fitted estimator. What is written
answers as `predict` of the model does but for rounding, the encoding of a table included (of several classified outputs
the likeliest combination); `opttree.export.standalone` reads model files with NumPy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from opttree.export.record import modules as _modules

if _TYPE_CHECKING:  # what is found below, for type checkers
    from opttree.export.c import to_c as to_c
    from opttree.export.dot import to_dot as to_dot
    from opttree.export.html import to_html as to_html
    from opttree.export.onnx import register_skl2onnx as register_skl2onnx, to_onnx as to_onnx
    from opttree.export.rules import to_rules as to_rules
    from opttree.export.sklearn import to_sklearn as to_sklearn
    from opttree.export.sql import to_sql as to_sql
    from opttree.export.treelite import to_treelite as to_treelite

globals().update(
    {
        _name: _function
        for _module in _modules()
        for _name, _function in vars(_module).items()
        if _name.startswith(("to_", "register_")) and _function.__module__ == _module.__name__
    }
)

__all__ = sorted(name for name in globals() if name.startswith(("to_", "register_")))
