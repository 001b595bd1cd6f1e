"""From the problem to a result: runs of solvers, the model that is kept, seeds, progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from opttree.estimators import bridge
from opttree.estimators.recipe import Estimator, Fit, Outcome, is_printed
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.clock import now, told_of_compilation
from opttree.runtime.threads import count, limited
from opttree.statement import TreeProblem

PART_CELLS = 20_000.0  # rows x features of a first fit, per second of a time limit that is short for the table
PART_ROWS, PART_SHARE = 10_000, 0.4  # its fewest rows, and its share of the time
AUTO_SECONDS = 10.0  # of branch and bound, after its start tree, where the estimator chooses the solver

Watch = Callable[[Any, Any], None]  # called with every step of a solver and its trace


def run(
    options: Estimator,
    solver: Any,
    problem: TreeProblem,
    start: Tree | None,
    seed: int,
    time_limit: float | None,
    watch: Watch | None = None,
) -> Any:
    """The result of a solver, within the estimator's threads; ``watch(step, trace)`` sees every step."""
    title = f"{type(options).__name__}, {type(solver).__name__} of depth {problem.depth}, {problem.n_samples} rows"
    with limited(count(options.n_jobs)), progress(options.verbose, title, watch) as callback:
        return bridge.solvers.solve(
            problem, solver, start=start, time_limit=time_limit, random_state=seed, callback=callback
        )


def run_recipe(options: Estimator, fit: Fit, watch: Watch | None = None) -> Any:
    """The result of the recipe's solver, from the tree of `start_of_part` where the time limit is short."""
    solver, began = options.recipe.solver(options, fit.problem, fit.valid), now()
    start = fit.start if fit.start is not None else start_of_part(options, solver, fit)
    left = None if fit.time_limit is None else max(fit.time_limit - (now() - began), 1e-3)
    return run(options, solver, fit.problem, start, fit.seed, left, watch)


def start_of_part(options: Estimator, solver: Any, fit: Fit) -> Tree | None:
    """A tree of the solver on a part of the rows, where there are many for the time limit, and it goes on from a tree;
    None otherwise.
    """
    problem, solvers = fit.problem, bridge.solvers
    continuing = solvers.TAO, solvers.NODEC, solvers.ORRT, solvers.GET, solvers.RADDT
    if fit.time_limit is None or not isinstance(solver, continuing) or is_printed(options):
        return None
    most = max(PART_CELLS * fit.time_limit / problem.n_features, PART_ROWS)
    if np.count_nonzero(problem.w) < 2 * most:
        return None
    part = some_rows(problem, most, np.random.default_rng(fit.seed))
    result = run(options, solver, part, None, fit.seed, PART_SHARE * fit.time_limit)
    tree = as_tree(result.tree)
    useless = result.termination.name == "INTERRUPTED" or not tree.n_branches
    return None if useless or problem.violation(tree) is not None else tree


def some_rows(problem: TreeProblem, most: float, rng: np.random.Generator) -> TreeProblem:
    """The problem, or ``most`` random rows of it."""
    rows = np.flatnonzero(problem.w)
    if rows.size <= most:
        return problem
    return problem.sample(np.sort(rng.choice(rows, int(most), replace=False)))


def within_leaves(options: Estimator, fit: Fit, solve: Callable[[Estimator, Fit], Outcome]) -> Outcome:
    """Solve under ``max_leaf_nodes``: where the solver does not take it, `TAO` starts from the solver's tree.

    Its passes only improve the objective, once the weakest pairs of leaves are joined.
    """
    problem = fit.problem
    if problem.max_splits is None or options.recipe.solver(options, problem, fit.valid).refusal(problem) is None:
        return solve(options, fit)
    began = now()
    free = None if fit.valid is None else fit.valid.restated(constraints=())
    outcome = solve(options, replace(fit, problem=problem.restated(constraints=()), valid=free))
    return replace(outcome, result=with_fewer_leaves(options, fit, outcome.result, began))


def with_fewer_leaves(options: Estimator, fit: Fit, result: Any, began: float) -> Any:
    """The result of a run without ``max_leaf_nodes``, which ``began`` then, with a tree that has no more leaves."""
    tree, problem = as_tree(result.tree), fit.problem
    start = problem.enforce_max_splits(problem.trim(tree))
    if start.n_branches == tree.n_branches:
        return result
    limit = None if fit.time_limit is None else max(fit.time_limit - (now() - began), 1e-3)
    better = run(options, bridge.solvers.TAO(accept="improve"), problem, start, fit.seed, limit)
    ended = result.termination if better.termination.name != "INTERRUPTED" else better.termination
    return replace(result, tree=better.tree, objective=better.objective, termination=ended)


def solve_once(options: Estimator, fit: Fit) -> Outcome:
    """One run of the recipe's solver; the tree of the lowest objective."""
    return Outcome(run_recipe(options, fit))


def choose_lowest(
    measure: str | Callable[[Any], float], solve: Callable[[Watch], Any], watch: Watch | None = None
) -> tuple[Any, float]:
    """The result of ``solve(watch)`` with the tree of the step with the lowest ``measure``, and that value.

    For methods that select by something other than the objective: a function of the step, or the name of an entry of
    ``step.info``; steps without this entry are skipped. ``watch`` is called at every step, too.
    """
    lowest: list[Any] = [np.inf, None, None]

    def compare(step: Any, trace: Any) -> None:
        number = step.info.get(measure, np.inf) if isinstance(measure, str) else measure(step)
        if number < lowest[0]:
            lowest[:] = number, step.tree, trace.rows[-1].objective
        if watch is not None:
            watch(step, trace)

    result = solve(compare)
    number, tree, objective = lowest
    return (result if tree is None else replace(result, tree=tree, objective=objective)), number


def solve_lowest(measure: str, name: str) -> Callable[[Estimator, Fit], Outcome]:
    """A run that keeps the tree with the lowest entry ``measure`` of its steps, which is the attribute ``name``; where
    none has one, as a constant, it is the objective.
    """

    def solve(options: Estimator, fit: Fit) -> Outcome:
        result, number = choose_lowest(measure, lambda watch: run_recipe(options, fit, watch))
        return Outcome(result, {name: number if np.isfinite(number) else result.objective})

    return solve


def keep_last(solve: Callable[[Watch], Any]) -> Any:
    """The result of ``solve(watch)`` with the model of the last step: the forest with the most trees, not the one with
    the lowest loss.
    """
    last: list[Any] = [None]

    def remember(step: Any, trace: Any) -> None:
        last[0] = step, trace.rows[-1].objective

    result = solve(remember)
    step, objective = last[0]
    return replace(result, tree=step.tree, objective=objective)


def as_seed(random_state: Any) -> int:
    """An int seed from a scikit-learn random state; drawn from a RandomState (of None: that of `numpy.random`, as in
    scikit-learn), so that the next fit gets another one.
    """
    if isinstance(random_state, (int, np.integer)):
        if random_state < 0:
            raise ValueError(f"random_state must be an integer >= 0, a RandomState or None; got {random_state}")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


@contextmanager
def progress(verbose: int, title: str, watch: Any = None) -> Iterator[Any]:
    """A callback that advances a tqdm bar and shows the best objective; with ``verbose=0``, ``watch`` itself.

    ``watch(step, trace)`` is called in either case.
    """
    if not verbose:
        yield watch
        return
    from tqdm.auto import tqdm

    with tqdm(desc=title, unit="step") as bar, told_of_compilation(bar.set_postfix_str):

        def show(step: Any, trace: Any) -> None:
            bar.set_postfix_str(f"{trace.rows[-1].phase}, best objective {trace.rows[-1].best:.6g}", refresh=False)
            bar.update()
            if watch is not None:
                watch(step, trace)

        yield show


def solve_with_bound(options: Estimator, fit: Fit) -> Outcome:
    """One run of a solver that may prove its tree: with the bound, the gap, and whether there is a proof."""
    result = run_recipe(options, fit)
    proved = result.termination.name == "OPTIMAL"
    return Outcome(result, {"bound_": result.bound, "gap_": result.gap, "is_optimal_": proved})
