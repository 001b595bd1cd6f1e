"""`check_solver`: conformance tests for any solver, on small problems of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from opttree.model.tree import Tree
from opttree.runtime.options import Options
from opttree.runtime.threads import limited
from opttree.statement import L1, SplitPrice, TreeProblem
from opttree.wide.sparse import is_sparse
from solvers.core.base import Solver, Step
from solvers.core.combinators import Chain
from solvers.core.driver import solve
from solvers.core.result import Result, SolverError, Termination, Trace
from solvers.initial import CartInit
from solvers.tao import TAO

MOST_GAP = 0.01  # largest relative gap of a result that is reported as optimal
SLACK = 3.0  # seconds that a run may take beyond a time limit of .01 seconds


def check_solver(solver: Any, problems: Mapping[str, TreeProblem] | None = None) -> dict[str, str]:
    """Run the conformance tests of opttree's own solvers on a user's solver.

    The solver must be frozen. It must refuse a problem with a sentence, or return a feasible tree without dead leaves,
    whose objective equals `TreeProblem.objective` and is the lowest of the trace. The same seed must give the same tree
    on one thread and on three, a constant y must give one leaf, and the run must end soon after a time limit. Some
    problems have sparse tables: a solver refuses them unless its ``takes_sparse`` is true, and a tree of one has the
    same objective on the dense copy. This takes a few seconds, or more if the solver compiles.

    Parameters
    ----------
    solver : Solver
        An instance.
    problems : mapping of str to TreeProblem or None, default None
        Problems by name, used instead of `example_problems`.

    Returns
    -------
    dict of str to str
        For each problem that the solver refused, its name and the reason.

    Raises
    ------
    AssertionError
        Names the solver, the problem and the violated rule; exceptions of the solver itself are passed on.

    See Also
    --------
    Solver : the interface that it checks

    Examples
    --------
    >>> from opttree import TreeProblem
    >>> from solvers import CartInit, check_solver
    >>> problem = TreeProblem([[0.0], [1.0], [2.0], [3.0]], [0.0, 0.0, 1.0, 1.0], depth=1)
    >>> refused = check_solver(CartInit(), {"small": problem})
    >>> all(isinstance(reason, str) for reason in refused.values())
    True
    """
    _require(isinstance(solver, Solver), f"{solver!r} must be an instance of a subclass of solvers.Solver")
    check_frozen(solver)
    refused: dict[str, str] = {}
    for name, problem in (example_problems() if problems is None else problems).items():
        if (reason := refusal(solver, problem)) is not None:
            refused[name] = reason
        else:
            check_results(solver, problem, name)
    _require(len(refused) < len(example_problems()) or problems is not None, f"{solver!r} must take some problem")
    for check in (check_constant_target, check_time_limit):
        check(solver)
    return refused


SMALL = {  # option values that make a run fast, by name
    **{"max_iter": 3, "epochs": 30, "n_starts": 2, "n_init": 2, "n_trees": 2, "max_batches": 60},
    **{"race_rows": 100, "n_thresholds": 4, "n": 3},
}


FEW_NODES = 500


def small(solver: Any) -> Any:
    """A solver (or other options) with the option values of `SMALL`, also in nested options."""
    changes: dict[str, Any] = {}
    for option in fields(solver):
        value = getattr(solver, option.name)
        if option.name in SMALL and value is not None:
            most = SMALL[option.name]
            changes[option.name] = min(value, most) if isinstance(value, int) else most
        elif isinstance(value, Options):
            changes[option.name] = small(value)
    return replace(solver, **changes)


def example_solvers(exported: Mapping[str, Any]) -> list[Solver]:
    """A `small` instance of every solver among the names ``exported``."""
    kinds = [kind for kind in exported.values() if isinstance(kind, type) and issubclass(kind, Solver)]
    solvers: list[Solver] = []
    for kind in kinds:
        if kind is not Solver and kind is not Chain:
            options: Any = fields(kind)  # type: ignore[arg-type]  # solvers are dataclasses
            needs = [f for f in options if f.default is MISSING and f.default_factory is MISSING]
            made = small(kind(*[TAO() for _ in needs]))
            limits = {"node_limit": FEW_NODES}  # proofs of hyperplanes may take long
            made = replace(made, **{f.name: limits[f.name] for f in options if f.name in limits})
            solvers.append(made)
    return [*solvers, Chain(CartInit(), small(TAO()))]


def example_problems() -> dict[str, TreeProblem]:
    """Small problems of every kind, by name."""
    return {
        "squared, constant": regression_problem(600),  # of rows enough for several threads
        "squared, linear": regression_problem(leaves="linear"),
        "squared, axis": regression_problem(splits="axis"),
        "absolute, linear": regression_problem(leaves="linear", loss="absolute"),
        "absolute, constant, price": regression_problem(loss="absolute", penalties=(SplitPrice(0.01),)),
        "min_leaf": regression_problem(min_leaf=20),
        "depth 0": regression_problem(depth=0),
        "zero-one": classification_problem(),
        "log": classification_problem(loss="log"),
        "log, linear": classification_problem(leaves="linear", loss="log"),
        "zero-one, axis, linear": classification_problem(splits="axis", leaves="linear"),
        "two rows": regression_problem(2, p=2),
        "a few rows, one split": regression_problem(24, p=2, depth=1, penalties=()),
        "squared, axis, price": regression_problem(60, p=2, depth=2, splits="axis", penalties=(SplitPrice(0.01),)),
        "zero-one, axis, price": classification_problem(60, depth=2, splits="axis", penalties=(SplitPrice(0.01),)),
        "squared, axis, linear, l1 on leaves": regression_problem(
            50, p=2, depth=1, splits="axis", leaves="linear", penalties=(L1(leaves=1e-3),)
        ),
        "wide": regression_problem(50, p=300, depth=2),
        "wide, axis": regression_problem(50, p=100, depth=1, splits="axis"),
        "wide, zero-one": classification_problem(50, p=1000, depth=2),
        "fifty outputs": regression_problem(n_outputs=50),
        "fifty outputs, axis": regression_problem(60, depth=1, n_outputs=50, splits="axis"),
        "few values": regression_problem(n_values=3),
        "few values, zero-one, axis": classification_problem(n_values=3, splits="axis", penalties=(SplitPrice(0.01),)),
        "sparse": regression_problem(120, p=40, depth=2, density=0.1),
        "sparse, axis": regression_problem(120, p=40, depth=2, density=0.1, splits="axis", min_leaf=5),
        "sparse, linear": regression_problem(120, p=20, depth=2, density=0.1, leaves="linear"),
        "sparse, zero-one, wide": classification_problem(60, p=1200, depth=2, density=0.02),
        "sparse, log, axis": classification_problem(120, p=40, depth=2, density=0.1, loss="log", splits="axis"),
    }


def regression_problem(
    n: int = 200, p: int = 4, seed: int = 0, n_outputs: int = 1, n_values: int = 0, density: float = 0.0, **options: Any
) -> TreeProblem:
    """Piecewise linear target with noise; ``n_values``, ``density`` as in `_features`; options go to `TreeProblem`."""
    rng = np.random.default_rng(seed)
    X = _features(rng, n, p, n_values, density)
    first, second, last = _columns(X, 0, 1, p - 1)
    y = np.where(first + 0.5 * second > 0, 2.0 + second, -1.0 + last) + 0.1 * rng.normal(size=n)
    y = (y - y.mean()) / y.std()
    if n_outputs > 1:  # multiples of one target, with noise of their own
        y = np.outer(y, rng.normal(size=n_outputs)) + 0.1 * rng.normal(size=(n, n_outputs))
    options = {"depth": 3, "penalties": (L1(splits=1e-4, leaves=1e-4),), **options}
    return TreeProblem(X, y, **options)


def classification_problem(
    n: int = 200, p: int = 4, seed: int = 0, n_values: int = 0, density: float = 0.0, **options: Any
) -> TreeProblem:
    """Three classes by two hyperplanes, 5 % of the labels random; further arguments as of `regression_problem`."""
    rng = np.random.default_rng(seed)
    X = _features(rng, n, p, n_values, density)
    first, second, third = _columns(X, 0, 1, 2)
    y = (first + second > 0).astype(int) + (third > 0.5)
    noisy = rng.uniform(size=n) < 0.05
    y[noisy] = rng.integers(0, 3, noisy.sum())
    options = {"depth": 3, "loss": "zero_one", "penalties": (L1(splits=1e-4, leaves=1e-3),), **options}
    return TreeProblem(X, np.array(["a", "b", "c"])[y], **options)


def _features(rng: np.random.Generator, n: int, p: int, n_values: int, density: float) -> Any:
    """Normal numbers, or ``n_values`` whole numbers around zero; of a ``density``, a sparse table with about this share
    of entries, as words have them: many in the first column, few in the last.
    """
    if density:
        from scipy.sparse import csr_array

        size = round(density * n * p)
        places = rng.integers(n, size=size), (p * rng.uniform(size=size) ** 2).astype(int)
        return csr_array((rng.normal(size=size), places), shape=(n, p))
    return rng.integers(n_values, size=(n, p)) - (n_values - 1) / 2 if n_values else rng.normal(size=(n, p))


def _columns(X: Any, *numbers: int) -> Iterator[np.ndarray]:
    """These columns of a table, sparse or not, as arrays."""
    return (X[:, [j]].toarray().ravel() if is_sparse(X) else X[:, j] for j in numbers)


# ---- the rules ------------------------------------------------------------------------------------------------------


def refusal(solver: Solver, problem: TreeProblem) -> str | None:
    """The sentence by which ``solver`` refuses ``problem``, or None."""
    reason = solver.refusal(problem)
    _require(
        reason is None or (isinstance(reason, str) and len(reason) > 10 and "\n" not in reason),
        f"{solver!r}: refusal must return None or a sentence; got {reason!r}",
    )
    if reason is not None and problem.is_sparse and "sparse" not in reason:
        _require(
            solver.refusal(dense(problem)) is not None,
            f"{solver!r}: it takes the dense copy of a sparse X, and its refusal must say so; got {reason!r}",
        )
    return reason


def dense(problem: TreeProblem) -> TreeProblem:
    """The problem with a dense copy of its sparse X."""
    return problem.with_rows(problem.X.toarray(), problem.y, problem.sample_weight)


def check_frozen(solver: Solver) -> None:
    """Options cannot be changed, and the repr starts with the class name."""
    name = type(solver).__name__
    _require(is_dataclass(solver) and solver.__dataclass_params__.frozen, f"{name} must be a frozen dataclass")
    _require(repr(solver).startswith(name), f"{name}'s text form must start with its name; got {solver!r}")


def check_results(solver: Solver, problem: TreeProblem, name: str = "the problem") -> Result:
    """Check a result: feasible, of the reported objective, the same on one thread and on three; returns it."""
    where = f"{solver!r} on {name!r}"

    def recompute(step: Step, _trace: Trace) -> None:
        value = problem.objective(step.tree)
        said = value if step.objective is None else step.objective
        close = bool(np.isclose(said, value, rtol=1e-4, atol=1e-4 * scale))
        _require(close, f"{where}: a step said {said}; its tree has the objective {value}")

    scale = problem.objective(problem.best_constant())
    try:
        with limited(1):
            result = solve(problem, solver, random_state=1, callback=recompute)
    except SolverError as error:
        raise AssertionError(f"{where}: {error}") from error
    reason = problem.violation(result.tree)
    _require(reason is None, f"{where}: the tree must be feasible; {reason}")
    if problem.is_sparse:
        value = dense(problem).objective(result.tree)
        close = bool(np.isclose(result.objective, value, rtol=1e-6, atol=1e-6 * scale))
        _require(close, f"{where}: the objective is {result.objective} on the sparse X, {value} on its dense copy")
    lowest = min(row.objective for row in result.trace)
    _require(
        bool(np.isclose(result.objective, lowest, rtol=1e-4, atol=1e-9)),
        f"{where}: the result must be the lowest of the trace, {lowest}; got {result.objective}",
    )
    _require(isinstance(result.termination, Termination), f"{where}: termination {result.termination!r}")
    close = result.termination is not Termination.OPTIMAL or (result.gap is not None and result.gap <= MOST_GAP)
    _require(close, f"{where}: OPTIMAL needs a relative gap of at most {MOST_GAP}; got {result.gap}")
    if isinstance(result.tree, Tree) and result.tree.gate is None:  # soft trees are complete
        reached = np.unique(result.tree.apply(problem.X)).size
        _require(result.tree.n_leaves == reached, f"{where}: {result.tree.n_leaves - reached} leaves hold no row")
    with limited(3, worth=1.0):
        again = solve(problem, solver, random_state=1)
    _require(again.tree == result.tree, f"{where}: one seed must give one tree, on any number of threads; got two")
    # bounds may rise, and several threads go on, without a look at the clock: then rows are left out, and none changes
    told, retold = [[row.objective for row in found.trace] for found in (result, again)]
    if any(row.bound is not None for row in result.trace):
        told, retold = [[value for value, _same in groupby(values)] for values in (told, retold)]
    fewer, more = sorted((told, retold), key=len)
    rest = iter(more)
    _require(all(value in rest for value in fewer), f"{where}: one seed must give one trace; got two")
    return result


def check_constant_target(solver: Solver) -> None:
    """A constant y gives one leaf."""
    base = regression_problem(50)
    problem = TreeProblem(base.X, np.full(50, 3.3), depth=3, penalties=base.penalties)
    if refusal(solver, problem) is None:
        tree = solve(problem, solver, random_state=0).tree
        leaves = tree.n_leaves if isinstance(tree, Tree) else max(part.n_leaves for part in tree.trees)
        _require(leaves == 1, f"{solver!r}: a constant y must give one leaf; got {leaves}")


def check_time_limit(solver: Solver) -> None:
    """A run ends soon after a time limit, with a tree: on many rows, features, outputs and ties, and on sparse rows."""
    for name, problem in {
        "many rows": regression_problem(3000, depth=8),
        "wide": regression_problem(50, p=1000, depth=8),
        "fifty outputs": regression_problem(1000, p=20, n_outputs=50, depth=5),
        "few values": regression_problem(3000, p=20, n_values=3, depth=5),
        "sparse": regression_problem(2000, p=5000, density=0.002, depth=5),
    }.items():
        if refusal(solver, problem) is None:
            seconds = [np.inf]
            while len(seconds) < 4 and seconds[-1] >= SLACK:  # the first loads kernels, and the machine may be busy
                seconds.append(solve(problem, solver, time_limit=0.01, random_state=0).seconds)
            _require(
                seconds[-1] < SLACK,
                f"{solver!r} on {name!r}: a time limit of .01 s must end the run; it took {seconds[-1]:.2f} s",
            )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
