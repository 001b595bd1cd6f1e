"""scikit-learn estimators: validate, scale, state the problem, call a solver, keep ``tree_`` and ``result_``."""

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
from opttree.tables.encoder import *
