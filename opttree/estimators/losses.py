"""Losses of regression estimators by name: medians, quantiles, outliers, counts, amounts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.estimators.recipe import Estimator
from opttree.estimators.steps.units import moments, outputs_name
from opttree.runtime.options import option
from opttree.statement.losses import Absolute, Gamma, Huber, Loss, Poisson, Quantile
from opttree.statement.losses.robust import weighted_quantile

Floats = NDArray[np.float64]
NAMES = ("squared", "absolute", "huber", "quantile", "poisson", "gamma")
ROBUST = ("absolute", "huber", "quantile")
HUBER = 1.35  # units of y from which Huber's loss is linear
RANGES = 3.0  # interquartile ranges, of which a deviation is usually less than one: the most that is the unit of y


def loss_option() -> Any:
    """The option of estimators whose loss may be chosen."""
    return option(
        "squared",
        """"squared", "absolute", "huber" (linear for residuals of more than 1.35 standard deviations of y, or 4 of its
        interquartile ranges if these are less), "quantile", "poisson" (counts, y >= 0), "gamma" (amounts, y > 0), or a
        loss of `opttree.losses`, in units of y; summed over the outputs. Positive predictions, of counts and amounts,
        are for trees, not for sums of trees.""",
        test=lambda loss: loss in NAMES if isinstance(loss, str) else isinstance(loss, Loss),
        words=f"one of {list(NAMES)} or a loss of opttree.losses",
    )


def quantile_option() -> Any:
    """The option beside it."""
    return option(0.5, 'Level of the quantile of ``loss="quantile"``.', above=0, below=1)


def stated_loss(options: Estimator, y_scale: Floats) -> Any:
    """The loss of the problem, whose outputs are in units of ``y_scale``."""
    if isinstance(options.loss, Huber):
        return replace(options.loss, delta=options.loss.delta / float(y_scale[0]))
    if not isinstance(options.loss, str) or not hasattr(options, "quantile"):
        return options.loss
    named = {"huber": Huber(HUBER), "quantile": Quantile(options.quantile), "poisson": Poisson(), "gamma": Gamma()}
    return named.get(options.loss, options.loss)


def output_units(options: Estimator, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Offset and unit of each output: of positive outputs, their mean size; of Huber's loss, one for all outputs."""
    loss = stated_loss(options, np.ones(1))
    if isinstance(loss, Loss) and loss.positive:
        loss.check(Y)
        size = np.average(np.abs(Y), axis=0, weights=weight)
        return np.zeros(Y.shape[1]), np.where(size > 0.0, size, 1.0)
    mean, scale = units_of_y(options, Y, weight)
    return mean, np.full_like(scale, scale.mean()) if isinstance(options.loss, Huber) else scale


def units_of_y(options: Estimator, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Offset and unit of each output: its mean and deviation, or of a robust loss, where the deviation is that of a few
    outcomes, its median and some interquartile ranges; or the option ``y_unit``.
    """
    mean, scale = moments(Y, weight, outputs_name(Y))
    unit, loss = getattr(options, "y_unit", None), getattr(options, "loss", None)
    if unit is None and (loss in ROBUST or isinstance(loss, (Absolute, Huber, Quantile))):
        low, middle, high = (np.array([weighted_quantile(y, weight, q) for y in Y.T]) for q in (0.25, 0.5, 0.75))
        far = (scale > RANGES * (high - low)) & (high > low)
        mean, scale = np.where(far, middle, mean), np.where(far, RANGES * (high - low), scale)
    return mean, scale if unit is None else np.full_like(scale, unit)
