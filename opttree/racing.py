"""`opttree.race`, whose machinery is that of the experiments."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from opttree.estimators import bridge


def race(problems: Any, solvers: Any, time_limit: float, **options: Any) -> Any:
    """Run every solver on every problem, each run in a process of its own, and compare them.

    Parameters
    ----------
    problems : mapping from names to `TreeProblem`; or names of data sets, paths of CSV files or of a folder of them, in
        a list or alone, which are stated with features and target in units of their deviation and with ``statement``.
    solvers : mapping from labels to solvers; a sequence of solvers; or a text such as
        ``"GET();Chain(TAO(),LocalSearch())"``.
    time_limit : seconds for each run, > 0; kernels are compiled before.
    seeds : random states; every solver runs once with each.
    n_jobs : runs at a time; each has the machine's cores divided by this number.
    store : folder that keeps the runs: a race that was stopped goes on where it was, and one with more solvers or
        problems runs what is new. Without it, Ctrl-C returns the race so far.
    target : column to predict of CSV files.
    memory_limit : megabytes for each run, or None.
    progress : whether to show a bar.
    statement : options of `TreeProblem` for data sets and files: ``depth`` (3 by default), ``splits``, ``leaves``,
        ``loss`` (squared, or 0/1 for labels), ``penalties``, ``constraints``.

    Returns
    -------
    `experiments.racing.Race`
        Every run, with tables and pictures.

    Raises
    ------
    ImportError
        Without what the extra "experiments" installs, or where another module called ``experiments`` hides ours.
    ValueError
        For no problem, no solver or a bad option; if no run ended well, with the reasons.

    See Also
    --------
    experiments.racing.Race : what it returns
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
    bridge.check_own("experiments")
    try:
        machinery = import_module("experiments.racing")
    except ModuleNotFoundError as error:
        raise ImportError(f"race needs pip install opttree[experiments]; {error.name} is missing") from error
    return machinery.race(problems, solvers, time_limit, **options)
