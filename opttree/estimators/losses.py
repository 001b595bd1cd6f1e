"""Losses of regression estimators by name: medians, quantiles, outliers, counts, amounts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.estimators.base import TreeEstimator
from opttree.estimators.scaling import moments, outputs_name
from opttree.runtime.options import option
from opttree.statement.losses import Gamma, Huber, Loss, Poisson, Quantile

Floats = NDArray[np.float64]
NAMES = ("squared", "absolute", "huber", "quantile", "poisson", "gamma")
HUBER = 1.35  # standard deviations of y from which Huber's loss is linear


@dataclass(eq=False, repr=False, kw_only=True)
class RegressionLoss(TreeEstimator):
    """Estimators whose loss may be chosen."""

    loss: Any = option(
        "squared",
        """"squared", "absolute", "huber" (linear for residuals of more than 1.35 standard deviations of y), "quantile",
        "poisson" (counts, y >= 0), "gamma" (amounts, y > 0), or a loss of `opttree.losses`, in units of y; summed over
        the outputs. Positive predictions, of counts and amounts, are for trees, not for sums of trees.""",
        test=lambda loss: loss in NAMES if isinstance(loss, str) else isinstance(loss, Loss),
        words=f"one of {list(NAMES)} or a loss of opttree.losses",
    )
    quantile: float = option(0.5, 'Level of the quantile of ``loss="quantile"``.', above=0, below=1)

    def _stated_loss(self, y_scale: Floats) -> Any:
        if isinstance(self.loss, Huber):
            return replace(self.loss, delta=self.loss.delta / float(y_scale[0]))
        named = {"huber": Huber(HUBER), "quantile": Quantile(self.quantile), "poisson": Poisson(), "gamma": Gamma()}
        return named.get(self.loss, self.loss) if isinstance(self.loss, str) else self.loss

    def _output_units(self, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
        loss = self._stated_loss(np.ones(1))
        if isinstance(loss, Loss) and loss.positive:
            loss.check(Y)
            size = np.average(np.abs(Y), axis=0, weights=weight)
            return np.zeros(Y.shape[1]), np.where(size > 0.0, size, 1.0)
        mean, scale = moments(Y, weight, outputs_name(Y))
        return mean, np.full_like(scale, scale.mean()) if isinstance(self.loss, Huber) else scale
