"""Figures of solvers' traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

FACTOR_OF_LOG = 3.0  # between the largest and the least objective of a trace on a linear axis
GAP_FLOOR = 1e-6  # relative gaps below are drawn as this one


def plot_trace(
    results: Any,
    *,
    ax: Axes | None = None,
    log: bool = False,
    scale: Literal["auto", "linear", "log", "gap"] = "auto",
) -> Axes:
    """Draw the best objective (solid, a point for each improvement) and the bound (dashed) against seconds, for several
    results on one axis.

    Parameters
    ----------
    results : Result or fitted estimator, sequence or mapping of str to these
        What to draw; a mapping has the labels.
    ax : matplotlib.axes.Axes or None, default None
        Axes to draw on; by default new ones.
    log : bool, default False
        Whether the time axis is logarithmic.
    scale : {"auto", "linear", "log", "gap"}, default "auto"
        Scale of the objective. "linear"; "log"; "gap": ``(objective - best) / |best|`` on a logarithmic axis, with the
        best objective of all results, or the best bound where that is a proof, as ``best``; "auto": "log" where
        objectives are positive and differ by more than a factor of 3, else "linear".

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    solvers.Trace : what it draws

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> ax = opttree.plotting.plot_trace(model.result_)
    >>> ax.get_xlabel()
    'seconds'
    >>> plt.close("all")
    """
    if not isinstance(results, Mapping):
        several = list(results) if isinstance(results, Sequence) else [results]
        names = [str(getattr(result, "solver", type(result).__name__)).split("(")[0] for result in several]
        results = {
            name if names.count(name) == 1 else f"{name} {k + 1}": result
            for k, (name, result) in enumerate(zip(names, several, strict=True))
        }
    results = {label: getattr(result, "result_", result) for label, result in results.items()}
    for result in results.values():
        if not hasattr(result, "trace"):
            raise ValueError(f"results must hold what solve returns, Result; got {result!r}")
    if not results:
        raise ValueError("results must hold at least one result; got none")
    bounds = {label: result.bound for label, result in results.items()}
    end = max(result.seconds for result in results.values())
    return plot_rows(
        {label: result.trace for label, result in results.items()}, end, bounds, ax=ax, log=log, scale=scale
    )


def plot_rows(
    traces: Mapping[str, Any],
    end: float = 0.0,
    bounds: Mapping[str, float | None] | None = None,
    *,
    ax: Axes | None = None,
    log: bool = False,
    scale: Literal["auto", "linear", "log", "gap"] = "auto",
) -> Axes:
    """`plot_trace` of traces alone.

    Parameters
    ----------
    traces : mapping of str to Trace
        Traces by their labels.
    end : float, default 0.0
        Seconds up to which lines go on; 0: up to the last step.
    bounds : mapping of str to float or None or None, default None
        Final bound of each label; None: the last bound of each trace.
    ax : matplotlib.axes.Axes or None, default None
        Axes to draw on; by default new ones.
    log : bool, default False
        Whether the time axis is logarithmic.
    scale : {"auto", "linear", "log", "gap"}, default "auto"
        Scale of the objective, see `plot_trace`.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    plot_trace : of a result, or of several

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> ax = opttree.plotting.plot_rows({"TAO": model.result_.trace})
    >>> ax.get_xlabel()
    'seconds'
    >>> plt.close("all")
    """
    if scale not in ("auto", "linear", "log", "gap"):
        raise ValueError(f"scale must be 'auto', 'linear', 'log' or 'gap'; got {scale!r}")
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.0))
    frames = {label: trace.to_frame() for label, trace in traces.items()}
    best = np.concatenate([frame["best"].to_numpy(float) for frame in frames.values()])
    best = best[np.isfinite(best)]
    if scale == "auto":
        scale = "log" if best.size and best.min() > 0.0 and best.max() > FACTOR_OF_LOG * best.min() else "linear"
    reference = float(best.min()) if best.size else 0.0

    def drawn(values: Any) -> NDArray[Any]:
        numbers = np.asarray(values, np.float64)
        if scale != "gap":
            return numbers
        return np.maximum((numbers - reference) / max(abs(reference), 1e-300), GAP_FLOOR)

    for k, (label, frame) in enumerate(frames.items()):
        end = max(end, float(frame["seconds"].max()))
        last = frame["bound"].iloc[-1] if bounds is None else bounds[label]
        color = f"C{k % 10}"
        best = frame["best"].to_numpy(float)
        ax.step(
            np.append(frame["seconds"], end), drawn(np.append(best, best[-1])), where="post", color=color,
            label=label or "best",
        )  # fmt: skip
        better = np.append(True, np.diff(best) < 0.0) & np.isfinite(best)
        ax.plot(frame["seconds"][better], drawn(best[better]), "o", color=color, markersize=3.5)
        if last is not None and scale != "gap":
            bound = np.append(frame["bound"].astype(float), last)
            label = f"{label}, bound" if label else "bound"
            seconds = np.append(frame["seconds"], end)
            ax.step(seconds, bound, where="post", color=color, linestyle="--", label=label)
    if log:
        ax.set_xscale("log")
    if scale in ("log", "gap"):
        ax.set_yscale("log")
    ax.set_xlabel("seconds")
    ax.set_ylabel("gap to the best objective (training)" if scale == "gap" else "objective (training)")
    ax.grid(alpha=0.25)
    ax.legend(facecolor="white", edgecolor="none", framealpha=0.9)  # a curve that it covers crosses no letter
    return ax
