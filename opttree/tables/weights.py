"""Sample weights: what they may be, and how many rows they count as."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def check_weight(weight: NDArray[np.float64]) -> None:
    """ValueError unless the weights (n,) are finite, >= 0 and not all zero, and have a finite sum."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(weight.sum())
    if (bad := weight[~(np.isfinite(weight) & (weight >= 0.0))]).size or total == 0.0:
        raise ValueError(f"sample_weight must be finite, >= 0 and not all zero; got {bad[0] if bad.size else 0.0:g}")
    if not np.isfinite(total):
        raise ValueError(f"sample_weight must have a finite sum; got weights of up to {weight.max():g}")


def n_rows(weight: NDArray[np.float64]) -> float:
    """The number of rows that penalties over rows are for: the sum of the weights (n,), which count as repeated rows,
    or the number of rows of positive weight if that is larger.
    """
    return max(float(weight.sum()), float(np.count_nonzero(weight)))
