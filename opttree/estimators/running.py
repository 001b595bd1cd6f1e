"""How estimators run solvers: seeds, threads, progress bars, and the choice of the model to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from opttree.runtime.clock import told_of_compilation


def solve_and_keep(
    measure: str | Callable[[Any], float], solve: Callable[[Any], Any], watch: Any = None
) -> tuple[Any, float]:
    """The result of ``solve(callback)`` with the tree of the step with the lowest ``measure``, and that value.

    For methods that select by something other than the objective: a function of the step, or the name of an entry of
    ``step.info``; steps without this entry are skipped. ``watch`` is called at every step, too.
    """
    best: list[Any] = [np.inf, None, None]

    def judge(step: Any, trace: Any) -> None:
        number = step.info.get(measure, np.inf) if isinstance(measure, str) else measure(step)
        if number < best[0]:
            best[:] = number, step.tree, trace.rows[-1].objective
        if watch is not None:
            watch(step, trace)

    result = solve(judge)
    number, tree, objective = best
    return (result if tree is None else replace(result, tree=tree, objective=objective)), number


def keep_last(solve: Callable[..., Any], watch: Any = None) -> Any:
    """The result of ``solve(callback=...)`` with the model of the last step: the forest with the most trees, not the
    one with the lowest loss.
    """
    last: list[Any] = [None]

    def keep(step: Any, trace: Any) -> None:
        last[0] = step, trace.rows[-1].objective
        if watch is not None:
            watch(step, trace)

    result = solve(callback=keep)
    step, objective = last[0]
    return replace(result, tree=step.tree, objective=objective)


def as_seed(random_state: Any) -> int | None:
    """An int seed from a scikit-learn random state; drawn from a RandomState, so that the next fit gets another one."""
    if random_state is None:
        return None
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
