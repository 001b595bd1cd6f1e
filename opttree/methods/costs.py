"""What a fit will take: seconds and memory of every method for n rows, p features and a depth, from measurements.

The models stand in ``costs.json``, which ``python -m experiments.benchmarks.scaling --fit-costs`` writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import Any

from sklearn.base import is_classifier

from opttree.methods.table import METHODS, Method
from opttree.runtime.devices import has_own_memory
from opttree.runtime.memory import available_memory

MOST_LEVELS = 300  # 2^300 is more than any memory, and its products are still finite numbers

TERMS: dict[str, Callable[[float, float, int], float]] = {  # each grows with n, p and the depth, or stays
    "1": lambda n, p, depth: 1.0,
    "n": lambda n, p, depth: n,
    "p": lambda n, p, depth: p,
    "n p": lambda n, p, depth: n * p,
    "n log n": lambda n, p, depth: n * math.log2(n),
    "n p log n": lambda n, p, depth: n * p * math.log2(n),
    "p^2": lambda n, p, depth: p * p,
    "p^3": lambda n, p, depth: p * p * p,
    "n p^2": lambda n, p, depth: n * p * p,
    "n D": lambda n, p, depth: n * depth,
    "n p D": lambda n, p, depth: n * p * depth,
    "n p^2 D": lambda n, p, depth: n * p * p * depth,
    "leaves": lambda n, p, depth: _leaves(n, depth),
    "p leaves": lambda n, p, depth: p * _leaves(n, depth),
    "2^D": lambda n, p, depth: _nodes(depth),
    "n 2^D": lambda n, p, depth: n * _nodes(depth),
    "p 2^D": lambda n, p, depth: p * _nodes(depth),
    "n p 2^D": lambda n, p, depth: n * p * _nodes(depth),
    "n p 4^D": lambda n, p, depth: n * p * _nodes(depth) ** 2,
}


def _nodes(depth: int) -> float:
    return 2.0 ** min(depth, MOST_LEVELS)


def _leaves(n: float, depth: int) -> float:
    """Leaves of a routed tree, each of which has a row."""
    return min(n, _nodes(depth))


@dataclass(frozen=True)
class Cost:
    """What a fit takes.

    Attributes
    ----------
    seconds : float
        Seconds of one thread.
    bytes : float
        Peak memory in bytes beyond what the process held before the fit, the data among it.
    seconds_factor, bytes_factor : float
        Of ten measured fits, nine are within this factor of what the model says that was fitted to the other fits
        (bytes below `FLOOR` count as `FLOOR`).

    See Also
    --------
    estimate_cost : what returns it

    Examples
    --------
    >>> import opttree
    >>> cost = opttree.estimate_cost("tao-l", n=10_000, p=20, depth=4)
    >>> cost.seconds < 60 and cost.bytes < 1e9 and cost.seconds_factor > 1
    True
    """

    seconds: float
    bytes: float
    seconds_factor: float
    bytes_factor: float


FLOOR = 1.6e7  # bytes: less is noise beside what the process holds anyway


SPARSE = ("tao-c", "tao-l", "tao-axis", "forest", "boosted")  # methods that take sparse tables
SHARES = {  # seconds of an output more, of those of the first, by ``python -m experiments.benchmarks.outputs``
    "auto": 0.02,
    "boosted": 0.2,
    "dtsemnet": 0.16,
    "forest": 0.05,
    "get": 0.05,
    "get-linear": 0.12,
    "gradtree": 0.03,
    "orrt": 0.22,
    "raddt": 0.01,
    "sdtr": 0.0,
    "srt": 0.02,
    "tao-axis": 0.01,
    "tao-c": 0.03,
    "tao-l": 0.0,
}
OUTPUTS = 20  # that were measured
COPIES = 4  # of the weights of linear leaves of many outputs, and of splits on sparse tables, in a fit


def estimate_cost(method: str, n: int, p: int, depth: int, *, outputs: int = 1, density: float = 1.0) -> Cost:
    """Seconds and memory of a fit, by a model of non-negative terms such as n p D that was fitted to measured fits.

    Measured were fits of a regression with one output without weights, of Friedman #1 with further, irrelevant features
    and of ten real tables, with the default options and one thread, on the machine that ``costs.json`` names.
    ``costs.json`` also has the measured ranges, outside of which the model extrapolates. Other data take other numbers
    of iterations: expect the seconds to be right within the factor that the answer states, on such a machine, and the
    bytes to be closer. Several threads take less time and more memory; more restarts or trees than by default take more
    of both.

    Seconds grow by a share of the first output's for each output more, measured once for each method at 1,000 rows of
    10 features and 20 outputs; methods that were not measured there are taken not to grow. A sparse table counts by the
    entries of a row, ``p`` times the density; its splits, and the linear leaves of several outputs, are added to the
    bytes. Neither was measured at other sizes.

    Parameters
    ----------
    method : str
        Name on the command line, see `opttree.methods`. "auto" takes its default time limit, and the memory of
        "forest", with which it begins.
    n, p : int
        Rows and features, >= 1.
    depth : int
        Depth of the tree, >= 1; "auto", "forest" and "boosted" choose their depths, and ignore it.
    outputs : int, default 1
        Outputs, or classes, K >= 1.
    density : float, default 1.0
        Share of the entries that are not zero, above 0 and at most 1; below 1 the table is sparse.

    Returns
    -------
    Cost
        Seconds and bytes, and how far to trust them.

    Raises
    ------
    ValueError
        For an unknown method, a number that is no integer >= 1, or a density that the method does not take.

    See Also
    --------
    Cost : what it returns

    Examples
    --------
    >>> import opttree
    >>> small, large = (opttree.estimate_cost("get", n=n, p=20, depth=6) for n in (1_000, 100_000))
    >>> small.seconds < large.seconds
    True
    """
    models = _table()["methods"]
    if method not in models:
        raise ValueError(f"method must be one of {', '.join(models)}; got {method!r}")
    for name, value in (("n", n), ("p", p), ("depth", depth), ("outputs", outputs)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be an integer >= 1; got {value!r}")
    if not 0.0 < density <= 1.0:
        raise ValueError(f"density must be above 0 and at most 1; got {density!r}")
    if density < 1.0 and method not in SPARSE:
        raise ValueError(f"density must be 1 for {method!r}, which takes dense tables alone; got {density!r}")
    seconds, size = models[method]["seconds"], models[method]["bytes"]
    at = float(n), max(p * density, 1.0), int(depth)
    linear = METHODS[method].options.get("leaves") == "linear"
    more = bytes_of_weights(n, p, depth, outputs, density, linear) if METHODS[method].has_depth else 0.0
    return Cost(
        seconds_of(seconds, *at) * (1.0 + SHARES.get(method, 0.0) * (outputs - 1)),
        total(size["terms"], *at) + more,
        seconds["factor"],
        size["factor"],
    )


def was_measured(method: str, n: int, p: int, depth: int) -> bool:
    """Whether fits of at least this size were measured; a method that takes its time limit counts as measured."""
    largest = _table()["methods"][method].get("measured")
    if largest is None:
        return True
    shallow = not METHODS[method].has_depth or depth <= largest["depth"][1]
    return bool(n <= largest["n"][1] and p <= largest["p"][1] and shallow)


def bytes_of_weights(n: int, p: int, depth: int, outputs: int, density: float, linear: bool) -> float:
    """Bytes of the weights of splits on a sparse table, and of linear leaves of all outputs but the first."""
    nodes, leaves = _nodes(depth) if density < 1.0 else 0.0, _leaves(n, depth) if linear else 0.0
    return 8.0 * COPIES * p * (nodes + leaves * (outputs - 1))


def seconds_of(model: dict[str, Any], n: float, p: float, depth: int) -> float:
    """What a model of seconds says: its terms, no more than its limit; in deep trees those of a search beside it."""
    seconds, deep = min(total(model["terms"], n, p, depth), model.get("most", math.inf)), model.get("deep")
    return seconds if deep is None or depth < deep["from"] else seconds + total(deep["terms"], n, p, depth)


def total(weights: dict[str, float], n: float, p: float, depth: int) -> float:
    """The weighted sum of terms."""
    return sum(weight * TERMS[term](n, p, depth) for term, weight in weights.items())


@cache
def _table() -> dict[str, Any]:
    """The models, and where they were measured."""
    table: dict[str, Any] = json.loads(Path(__file__).with_name("costs.json").read_text())
    return table


OTHERS = 4.0  # with other options a fit may take that many times less (a forest of one oblique tree; GET unpolished: 2)
NEUTRAL = {"random_state", "n_jobs", "verbose", "on_interrupt", "cv", "device", "time_limit"}


def lack_of_memory(estimator: Any, n: int, p: int, depth: int, outputs: int = 1, density: float = 1.0) -> str | None:
    """Why an estimator cannot be fitted to n rows of p features at this depth, in one sentence, or None.

    Only what takes more than this process can still get (`available_memory`) by a wide margin is refused. With the
    default options that is the estimate divided by ``bytes_factor``, the error seen in measurements; with others, a
    quarter of that; with a time limit, which may end a fit before it takes as much, one copy of the data. Beyond the
    measured sizes the estimate grows by one copy of the data only. Fits on a GPU have rules of their own. Nothing lacks
    where the system does not say what is free, or the method was not measured.
    """
    method = method_of(estimator)
    if method is None or method not in _table()["methods"] or has_own_memory(getattr(estimator, "device", "cpu")):
        return None
    bounds = _table()["methods"][method]["measured"]
    entries = max(round(p * density), 1)  # of a row
    sizes = ("n", n), ("p", entries), ("depth", depth)
    rows, features, levels = (min(size, bounds[name][1]) for name, size in sizes)
    cost = estimate_cost(method, rows, features, levels)
    size_of_more = 8.0 * max(n * entries - rows * features, 0)
    if METHODS[method].has_depth:
        linear = getattr(estimator, "leaves", "constant") == "linear"
        size_of_more += bytes_of_weights(n, p, depth, outputs, density, linear)
    needed = cost.bytes / cost.bytes_factor + size_of_more
    free = available_memory() if needed > FLOOR else None
    if free is None or needed <= free:
        return None
    if estimator.time_limit is not None:
        needed = min(8.0 * n * entries, needed)
    elif _has_options(estimator, method):
        needed /= OTHERS
    if needed <= free:
        return None
    likely = cost.bytes + size_of_more
    size, fewer = f"n = {n} rows and p = {p} features", "rows or features"
    size += f" of density {density:.2g}" if density < 1.0 else ""
    size += f" for {outputs} outputs" if outputs > 1 else ""
    if METHODS[method].has_depth:
        size, fewer = f"{size} at depth {depth}", "rows, features or levels (max_depth)"
    return (
        f"memory must be at least {needed / 1e9:.3g} GB, and probably {likely / 1e9:.3g} GB, beside the data for "
        f"{type(estimator).__name__} on {size}: take fewer {fewer}; got {free / 1e9:.3g} GB"
    )


def _has_options(estimator: Any, method: str) -> bool:
    """Whether an option that may count is not as when the method was measured."""
    task = "classification" if is_classifier(estimator) else "regression"
    usual = METHODS[method].estimator_class(task)(**METHODS[method].options).get_params(deep=False)
    given = estimator.get_params(deep=False)
    neutral = NEUTRAL | ({"max_depth"} if METHODS[method].has_depth else set())
    return any(str(given[name]) != str(usual.get(name)) for name in given.keys() - neutral)


def method_of(estimator: Any) -> str | None:
    """The name in `opttree.methods` of an estimator, by its class and the most of the options that define the name;
    None for classes that are not in that table.
    """
    classes = {f"{kind.__module__}:{kind.__name__}" for kind in type(estimator).__mro__}

    def agreement(method: Method) -> int:
        same = [getattr(estimator, option, None) == value for option, value in method.options.items()]
        return sum(same) if all(same) else -1

    names = [name for name, method in METHODS.items() if classes & {method.regressor, method.classifier}]
    return max(names, key=lambda name: agreement(METHODS[name]), default=None)
