"""Models for other programs: ONNX, C, SQL, Graphviz, scikit-learn, treelite, rules, and NumPy alone.

Every function takes a `Tree`, a `Forest`, a saved `opttree.Model`, a result or a fitted estimator. What is written
answers as `predict` of the model does but for rounding, the encoding of a table included; `opttree.export.standalone`
reads model files with NumPy alone.
"""

from __future__ import annotations

from opttree.export.c import to_c
from opttree.export.dot import to_dot
from opttree.export.html import to_html
from opttree.export.onnx import register_skl2onnx, to_onnx
from opttree.export.rules import to_rules
from opttree.export.sklearn import to_sklearn
from opttree.export.sql import to_sql
from opttree.export.treelite import to_treelite

__all__ = [
    "register_skl2onnx",
    "to_c",
    "to_dot",
    "to_html",
    "to_onnx",
    "to_rules",
    "to_sklearn",
    "to_sql",
    "to_treelite",
]
