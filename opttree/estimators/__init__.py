"""scikit-learn estimators: validate, scale, state the problem, call a solver, keep ``tree_`` and ``result_``."""

from opttree.estimators.auto import AutoTreeClassifier, AutoTreeRegressor
from opttree.estimators.boosting import BoostedTreesClassifier, BoostedTreesRegressor
from opttree.estimators.forest import TAOForestClassifier, TAOForestRegressor
from opttree.estimators.get import GETClassifier, GETRegressor
from opttree.estimators.gradtree import GradTreeClassifier, GradTreeRegressor
from opttree.estimators.ort import OCTClassifier, ORTRegressor
from opttree.estimators.sdtr import SDTRRegressor
from opttree.estimators.soft import ORRTRegressor, SRTRegressor
from opttree.estimators.tao import TAOClassifier, TAORegressor

__all__ = [
    "AutoTreeClassifier",
    "AutoTreeRegressor",
    "BoostedTreesClassifier",
    "BoostedTreesRegressor",
    "GETClassifier",
    "GETRegressor",
    "GradTreeClassifier",
    "GradTreeRegressor",
    "OCTClassifier",
    "ORRTRegressor",
    "ORTRegressor",
    "SDTRRegressor",
    "SRTRegressor",
    "TAOClassifier",
    "TAOForestClassifier",
    "TAOForestRegressor",
    "TAORegressor",
]
