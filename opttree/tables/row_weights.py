"""Sample weights as scikit-learn's estimators take them, in every version of it that setup.cfg allows."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from opttree.tables.numbers import numbers_of
from opttree.tables.weights import check_weight

# from version 1.9 on, weights that are all zero are refused unless they are allowed; ours are refused in our words
_ZEROS = {"allow_all_zero_weights": True}
_ALLOWED = _ZEROS if _ZEROS.keys() <= inspect.signature(_check_sample_weight).parameters.keys() else {}


def check_sample_weight(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """The weights of the rows of X, ones for None; ValueError for another length, or as `check_weight` says."""
    numbers_of("sample_weight", sample_weight)
    weight = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, **_ALLOWED))
    check_weight(weight)
    return weight
