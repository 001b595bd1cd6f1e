"""The preprocessing of the GradTree paper (section 4.1), made of other libraries' parts, for scikit-learn pipelines."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import QuantileTransformer
from sklearn.utils.validation import check_is_fitted

FEW = 0.25  # share of the smallest class, times classes less one, under which classes are rebalanced
NEIGHBOURS = 5  # of SMOTE


def gradtree_pipeline(estimator: Any, *, rebalance: bool = True, random_state: int | None = None) -> Any:
    """``estimator`` behind the paper's preprocessing: a pipeline of imbalanced-learn.

    1. Categorical columns become means of the target (`LeaveOneOutMeans`), missing numbers medians.
    2. Every feature is mapped to normal quantiles.
    3. Where the smallest class has less than 25 / (c - 1) % of the rows, c the number of classes, SMOTE fills up the
       smaller ones: in `fit` alone, so that in a cross-validation held-out rows stay as they are. An estimator that
       holds rows out itself and has a parameter ``rebalance``, as `opttree.GradTreeClassifier`, takes this step within.

    Parameters
    ----------
    estimator : a classifier (or a regressor, with ``rebalance=False``).
    rebalance : whether to take the third step.
    random_state : seed of SMOTE, and of the rows that quantiles are taken from where there are more than 10,000.

    Raises
    ------
    ImportError
        Where category_encoders or imbalanced-learn is missing: ``pip install opttree[gradtree]``.
    """
    try:
        from imblearn import FunctionSampler
        from imblearn.pipeline import Pipeline
    except ImportError as error:
        raise ImportError("gradtree_pipeline needs imbalanced-learn: pip install opttree[gradtree]") from error
    sampler = FunctionSampler(func=rebalanced, kw_args={"random_state": random_state}, validate=False)
    if "rebalance" in estimator.get_params():
        estimator, rebalance = clone(estimator).set_params(rebalance=rebalance), False
    return Pipeline(
        [
            ("encode", LeaveOneOutMeans()),
            ("impute", SimpleImputer(strategy="median", keep_empty_features=True)),
            ("normal", NormalQuantiles(random_state)),
            ("rebalance", sampler if rebalance else "passthrough"),
            ("model", estimator),
        ]
    )


class LeaveOneOutMeans(TransformerMixin, BaseEstimator):
    """Leave-one-out encoding of the columns of a DataFrame that are not numbers (category_encoders).

    A category becomes the mean of the target over its rows; one of a single row, or one that is new, the mean over all.
    Text labels count by their place in sorted order, numbers as they are. Missing values are a category of their own.

    Parameters
    ----------
    leave_out : bool, default False
        Whether training rows get the mean over the *other* rows. That is the name's meaning, but it tells a tree the
        row's own target: within a category, rows of the higher class have the lower mean. On a column of three
        categories, a tree of depth 2 so fell from .9 to .4 on held-out rows. The code that the paper follows
        (Popov et al., 2020) encodes training rows like new ones; so does the default.
    """

    def __init__(self, leave_out: bool = False) -> None:
        self.leave_out = leave_out

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the means of ``X (n, p)``, a DataFrame or numbers, and ``y (n,)``."""
        self._encode(X, y)
        return self

    def fit_transform(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Training rows; with ``leave_out``, each without its own target in the means."""
        left_out = self._encode(X, y)
        return left_out if self.leave_out else self.transform(X)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Other rows."""
        check_is_fitted(self, "encoder_")
        frame = pd.DataFrame(X)
        if list(frame.columns) != self.columns_:
            raise ValueError(f"X must have the columns {self.columns_}, in this order; got {list(frame.columns)}")
        return self.encoder_.transform(frame).to_numpy(np.float64)

    def _encode(self, X: Any, y: Any) -> NDArray[np.float64]:
        try:
            from category_encoders import LeaveOneOutEncoder
        except ImportError as error:
            raise ImportError("LeaveOneOutMeans needs category_encoders: pip install opttree[gradtree]") from error
        frame, target = pd.DataFrame(X), np.asarray(y)
        if target.dtype.kind not in "fiu":
            target = np.unique(target, return_inverse=True)[1]
        numbers = frame.select_dtypes(["number", "bool"]).columns
        self.columns_ = list(frame.columns)
        self.encoder_ = LeaveOneOutEncoder(cols=[c for c in frame.columns if c not in numbers])
        return self.encoder_.fit_transform(frame, pd.Series(target, frame.index)).to_numpy(np.float64)


class NormalQuantiles(QuantileTransformer):
    """scikit-learn's `QuantileTransformer` to normal quantiles, without a warning where rows are few."""

    def __init__(self, random_state: int | None = None) -> None:
        super().__init__(output_distribution="normal", random_state=random_state)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the quantiles of each column."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="n_quantiles")
            return super().fit(X)


def rebalanced(X: NDArray[Any], y: NDArray[Any], random_state: int | None = None) -> tuple[Any, Any]:
    """``(X, y)`` with the smaller classes filled up by SMOTE, where the smallest is small enough (see above).

    A class of one row has no neighbour to interpolate with: rows are then repeated instead.
    """
    try:
        from imblearn.over_sampling import SMOTE, RandomOverSampler
    except ImportError as error:
        raise ImportError("rebalanced needs imbalanced-learn: pip install opttree[gradtree]") from error

    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2 or counts.min() >= FEW / (len(counts) - 1) * counts.sum():
        return X, y
    if counts.min() < 2:
        return RandomOverSampler(random_state=random_state).fit_resample(X, y)
    neighbours = min(NEIGHBOURS, int(counts.min()) - 1)
    return SMOTE(k_neighbors=neighbours, random_state=random_state).fit_resample(X, y)
