"""The entries of other projects' references that the site links to, so that it is built without a network."""

from __future__ import annotations

import zlib
from pathlib import Path

SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "sklearn": "https://scikit-learn.org/stable/",
    "pyomo": "https://pyomo.readthedocs.io/en/stable/",
}
ENTRIES = {
    "python": ["KeyboardInterrupt py:exception library/exceptions.html#KeyboardInterrupt"],
    "numpy": [
        "numpy.ndarray py:class reference/generated/numpy.ndarray.html",
        "numpy.random.Generator py:class reference/random/generator.html#numpy.random.Generator",
    ],
    "sklearn": [
        *(
            f"sklearn.{name} py:class modules/generated/sklearn.{name}.html"
            for name in (
                "base.BaseEstimator",
                "ensemble.RandomForestClassifier",
                "ensemble.RandomForestRegressor",
                "model_selection.GridSearchCV",
                "model_selection.KFold",
                "pipeline.Pipeline",
                "tree.DecisionTreeClassifier",
                "tree.DecisionTreeRegressor",
            )
        ),
        "sklearn.model_selection.cross_val_score py:function "
        "modules/generated/sklearn.model_selection.cross_val_score.html",
    ],
    "pyomo": [
        "pyomo.core.base.PyomoModel.ConcreteModel py:class api/pyomo.core.base.PyomoModel.ConcreteModel.html",
        "pyomo.environ.ConcreteModel py:class api/pyomo.core.base.PyomoModel.ConcreteModel.html",
    ],
}


def write(folder: Path) -> None:
    """Write an inventory of each project's entries, in the format of Sphinx's own (version 2)."""
    folder.mkdir(parents=True, exist_ok=True)
    for project, entries in ENTRIES.items():
        lines = [f"{name} {role} 1 {place} -\n" for name, role, place in map(str.split, entries)]
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n# compressed with zlib\n"
        (folder / f"{project}.inv").write_bytes(head.encode() + zlib.compress("".join(lines).encode()))
