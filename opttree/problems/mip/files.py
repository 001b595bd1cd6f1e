"""Files beside a written program: a start, and the solutions that optimizers write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from opttree.runtime.files import whole_file

CONSTANT = "ONE_VAR_CONSTANT"  # Pyomo's variable for the constant term of an objective
ENTRY = re.compile(r'<variable\b[^>]*\bname="([^"]+)"[^>]*\bvalue="([^"]+)"')  # CPLEX


def labels(model: Any) -> dict[str, Any]:
    """The variables of a Pyomo model by their names in a written program."""
    import pyomo.core as pyo
    from pyomo.core.base.label import TextLabeler

    label = TextLabeler()
    return {label(v): v for v in model.component_data_objects(pyo.Var)}


def write_start(model: Any, path: str | Path) -> None:
    """Write the values of the variables, a name and a value per line, without those that are 0."""
    from pyomo.repn import generate_standard_repn

    values = {name: v.value for name, v in labels(model).items() if v.value}
    if generate_standard_repn(model.cost.expr, quadratic=False).constant:
        values[CONSTANT] = 1.0
    with whole_file(path) as unfinished:
        unfinished.write_text("".join(f"{name} {value!r}\n" for name, value in values.items()))


def read_values(path: str | Path) -> dict[str, float]:
    """The values of the variables in a solution: the ``.sol`` files of SCIP, Gurobi, HiGHS, CPLEX and CBC, or lines of
    a name and a value.
    """
    text = Path(path).read_text()
    texts = dict(ENTRY.findall(text))
    if "# Primal solution values" in text:  # HiGHS: columns, rows, then dual values
        text = text.partition("# Primal solution values")[2].partition("# Rows")[0]
    for line in [] if texts else text.splitlines():
        words = line.split("(obj:")[0].split()
        if len(words) == 2:
            texts[words[0]] = words[1]
        elif len(words) == 4 and words[0].isdecimal():  # CBC: number, name, value, reduced cost
            texts[words[1]] = words[2]
    values = {}
    for name, value in texts.items():
        try:
            values[name] = float(value)
        except ValueError:
            continue  # a heading of two words
    return values
