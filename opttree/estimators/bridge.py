"""The one place where opttree imports the package `solvers`: ``bridge.solvers``, `solver_of`, `race`, on first use."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import solvers as solvers
    from solvers.races.race import Race

HOME = Path(__file__).resolve().parents[2]


def check_own() -> None:
    """ImportError if another module called ``solvers`` comes before opttree's own package on the path; it is not run,
    and the message says which file it is.
    """
    spec = find_spec("solvers")
    if spec is not None and (spec.origin is None or Path(spec.origin).resolve().parent != HOME / "solvers"):
        where = spec.origin or ", ".join(spec.submodule_search_locations or [])
        raise ImportError(
            f"opttree needs its own package 'solvers'; {where} comes first on sys.path and hides it: "
            "rename it, or move it to a folder that is not on sys.path"
        )


def __getattr__(name: str) -> Any:
    """The package `solvers` that belongs to this opttree, see `check_own`."""
    if name != "solvers":
        raise AttributeError(f"module 'opttree.estimators.bridge' has no attribute {name!r}")
    check_own()
    import solvers as package

    globals()[name] = package
    return package


def solver_of(text: str) -> Any:
    """The solver that a text states, see `solvers.races.entries.solver`."""
    check_own()
    from solvers.races.entries import solver

    return solver(text, "--solver")


def race(
    problems: Any,
    solvers: Any,
    time_limit: float,
    *,
    seeds: Iterable[int] = (0,),
    n_jobs: int = 1,
    store: str | Path | None = None,
    target: str | None = None,
    memory_limit: float | None = None,
    progress: bool = False,
    **statement: Any,
) -> Race:
    """Run every solver on every problem, each run in a process of its own, and compare them.

    Parameters
    ----------
    problems : mapping of str to TreeProblem, path-like or sequence
        Problems by name; or names of data sets, CSV files or folders of them, which are stated with features and target
        in units of their deviation and with ``statement``.
    solvers : mapping of str to Solver, sequence of Solver, Solver or str
        Solvers by label; solvers; or a text such as ``"GET();Chain(TAO(),LocalSearch())"``.
    time_limit : float
        Seconds for each run, > 0; kernels are compiled before.
    seeds : sequence of int, default (0,)
        Random states; every solver runs once with each.
    n_jobs : int, default 1
        Runs at a time; each has the machine's cores divided by this number.
    store : path-like or None, default None
        Folder that keeps the runs: a race that was stopped goes on where it was, and one with more solvers or problems
        runs what is new. Without it, Ctrl-C returns the race so far.
    target : str or None, default None
        Column to predict of CSV files; by default the last.
    memory_limit : float or None, default None
        Megabytes for each run.
    progress : bool, default False
        Whether to show a bar.
    **statement : object
        Options of `TreeProblem` for data sets and files: ``depth`` (3 by default), ``splits``, ``leaves``, ``loss``
        (squared, or 0/1 for labels), ``penalties``, ``constraints``.

    Returns
    -------
    solvers.races.race.Race
        Every run, with tables and pictures.

    Raises
    ------
    ImportError
        Without what the extra "experiments" installs, or where another module called ``solvers`` hides ours.
    ValueError
        For no problem, no solver or a bad option; if no run ended well, with the reasons.

    See Also
    --------
    solvers.races.race.Race : what it returns
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
    check_own()
    try:
        from solvers.races.race import race as run
    except ModuleNotFoundError as error:
        raise ImportError(f"race needs pip install opttree[experiments]; {error.name} is missing") from error
    return run(
        problems,
        solvers,
        time_limit,
        seeds=seeds,
        n_jobs=n_jobs,
        store=store,
        target=target,
        memory_limit=memory_limit,
        progress=progress,
        **statement,
    )
