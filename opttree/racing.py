"""`opttree.race`, whose machinery is that of the experiments."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def race(problems: Any, solvers: Any, time_limit: float, **options: Any) -> Any:
    """Run every solver on every problem, each run in a process of its own, and compare them: see
    `experiments.racing.race`, which this calls, for the options, and `experiments.racing.Race` for what it returns.

    Parameters
    ----------
    problems : mapping from names to `TreeProblem`; or names of data sets, CSV files or folders of them.
    solvers : mapping from labels to solvers, a sequence of them, or a text such as
        ``"TAO();Chain(TAO(),LocalSearch())"``.
    time_limit : seconds for each run, > 0.
    options : ``seeds``, ``n_jobs``, ``store``, ``target``, ``memory_limit``, ``progress``, and those of the statement.

    Raises
    ------
    ImportError
        Without what the extra "experiments" installs.

    See Also
    --------
    solvers.solve : one run, in this process
    solvers.certify : a bound for one tree

    Examples
    --------
    >>> import opttree
    >>> from opttree import TreeProblem, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
    >>> race = opttree.race({"diabetes": problem}, "CartInit();BranchAndBound()", time_limit=5)
    >>> race.references()["is"].tolist()
    ['proved optimum']
    """
    try:
        machinery = import_module("experiments.racing")
    except ImportError as error:
        raise ImportError(f"race needs pip install opttree[experiments]; {error.name} is missing") from error
    return machinery.race(problems, solvers, time_limit, **options)
