"""Sample weights as scikit-learn's estimators take them, in every version of it that setup.cfg allows."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

# from version 1.9 on, weights that are all zero are refused unless they are allowed; ours are refused in our words
_ZEROS = {"allow_all_zero_weights": True}
_ALLOWED = _ZEROS if _ZEROS.keys() <= inspect.signature(_check_sample_weight).parameters.keys() else {}


def check_sample_weight(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """The weights of the rows of X, ones for None; ValueError for another length or no finite numbers."""
    kind = getattr(getattr(sample_weight, "dtype", None), "kind", "")
    if kind in ("c", "m", "M"):
        raise ValueError(f"sample_weight must hold real numbers; got {'complex ones' if kind == 'c' else 'dates'}")
    if np.ma.is_masked(sample_weight):
        raise ValueError(f"sample_weight must have no missing values; got {np.ma.count_masked(sample_weight)} masked")
    try:
        np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers; got {error}") from error
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, **_ALLOWED))
