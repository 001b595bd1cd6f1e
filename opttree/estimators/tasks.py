"""`RegressionTree` and `ClassificationTree`: mixins with what users of fitted estimators call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from opttree.estimators.base import TreeEstimator
from opttree.estimators.steps.rows import plain_labels
from opttree.runtime.options import Options, option

_Fitted: Any = TreeEstimator if TYPE_CHECKING else object  # what the mixins are combined with
Floats = NDArray[np.float64]
LEAST_SHARE = 1e-300  # of a class, in log-odds


class RegressionTree(MultiOutputMixin, RegressorMixin, _Fitted):
    """Mixin with `predict` for regression; combine with a `TreeEstimator`."""

    def predict(self, X: Any) -> Floats:
        """Predict each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Predictions, (n, K) for several outputs.
        """
        X = self._validated(X)
        return self._model.predict(X)

    def predict_interval(self, X: Any, coverage: float = 0.9, calibration: tuple[Any, Any] | None = None) -> Floats:
        """Prediction interval: the prediction plus and minus an error that this share of rows held out does not exceed.

        Of rows given for this it is split conformal prediction (Lei, G'Sell, Rinaldo, Tibshirani and Wasserman,
        "Distribution-free predictive inference for regression", JASA 113, 2018): among exchangeable rows the interval
        has at least this coverage on average. Otherwise the errors are those of the folds by which the fit chose the
        tree's size, see ``floor``.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.
        coverage : float, default 0.9
            Probability that an outcome is in the interval, of each output.
        calibration : tuple of (X, y) or None, default None
            Rows that were not in training. None: the rows of the folds on which the fit compared its tree with others
            (``max_depth="auto"`` or ``floor=True`` of TAO, GET, SRT, ORRT and GradTree); all other fits need it.

        Returns
        -------
        ndarray of shape (n, 2) or (n, K, 2)
            Lower and upper end, (n, K, 2) with several outputs.

        Raises
        ------
        ValueError
            If ``coverage`` is not between 0 and 1, or neither were rows held out by the fit nor are they given.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.TAORegressor(random_state=0).fit(X[:350], y[:350])
        >>> low, high = model.predict_interval(X[350:], coverage=0.8).T
        >>> bool(0.6 < ((low <= y[350:]) & (y[350:] <= high)).mean() < 1.0)
        True
        """
        check_coverage(coverage)
        answers = self.predict(X)
        answers = answers.reshape(len(answers), -1)
        if calibration is not None:
            found = self.predict(calibration[0]).reshape(-1, answers.shape[1])
            y = np.asarray(calibration[1], np.float64)
            if y.reshape(len(y), -1).shape != found.shape or np.isnan(y).any():
                rule = (
                    f"calibration must be (X, y) with {answers.shape[1]} numbers of y for each of its {len(found)} rows"
                )
                raise ValueError(f"{rule}; got y of shape {y.shape}{', with nan' if np.isnan(y).any() else ''}")
            errors = np.abs(y.reshape(found.shape) - found)
        else:
            errors = vars(self).get("_held_out_errors", np.zeros((0, 1)))
            if not errors.size:
                rule = "predict_interval needs calibration=(X, y), rows that were not in training"
                raise ValueError(f"{rule}, where no folds compared the tree with others (max_depth='auto'); got None")
        half = conformal(errors, coverage)
        bounds: Floats = np.stack([answers - half, answers + half], axis=-1)
        return bounds[:, 0] if bounds.shape[1] == 1 else bounds


def check_coverage(coverage: float) -> None:
    """ValueError for a coverage that is no probability."""
    if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1; got {coverage!r}")


def conformal(errors: Floats, coverage: float) -> Floats:
    """(K,) the errors ``(m, K)`` of rank ``coverage (m + 1)``, of each output; infinite where there are too few."""
    m = len(errors)
    rank = int(np.ceil(coverage * (m + 1)))
    if rank > m:
        return np.full(errors.shape[1], np.inf)
    ranked: Floats = np.partition(errors, rank - 1, axis=0)[rank - 1]
    return ranked


@dataclass(eq=False, repr=False, kw_only=True)
class ClassificationTree(ClassifierMixin, Options, _Fitted):
    """Mixin with `predict` and `predict_proba` for classification; combine with a `TreeEstimator`.

    Several outputs, ``y (n, M)``, become one class for each combination of labels in the training rows, so that one
    tree answers all of them; ``classes_`` is then a list of M arrays, and labels and probabilities of each output are
    those of its marginal distribution. The model's own classes are the labels joined by " | ".
    """

    class_weight: Any = option(
        None,
        """Weights of the classes, which multiply those of the rows: a dict, "balanced" (in inverse proportion to their
        number of rows) or None: all 1. For several outputs None or "balanced", of the combinations of labels.""",
    )

    def _shares(self, X: Any) -> Floats:
        """Probabilities (n, K) of the model's classes."""
        X = self._validated(X)
        return self._model.predict_proba(X)

    def _labels(self, X: Any) -> NDArray[Any]:
        """The model's likeliest classes (n,)."""
        X = self._validated(X)
        return self._model.predict(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Class label of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, outputs)
            Labels, (n, outputs) for several outputs.
        """
        check_is_fitted(self, "classes_")
        if getattr(self, "_several", None) is None:
            return self._labels(X)
        return self._likeliest(self.predict_proba(X))

    def _likeliest(self, shares: Sequence[Floats]) -> NDArray[Any]:
        """Labels (n, outputs) of the highest probabilities of each output."""
        picked = [labels[np.argmax(p, axis=1)] for labels, p in zip(self.classes_, shares, strict=True)]
        kind = None if len({labels.dtype.kind for labels in picked}) == 1 else object
        return np.stack([labels.astype(kind or labels.dtype) for labels in picked], axis=1)

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n, K) or list of ndarray
            Probabilities in the order of ``classes_``; a list of arrays for several outputs.
        """
        check_is_fitted(self, "classes_")
        return self._by_output(self._shares(X))

    def _by_output(self, shares: Floats) -> Any:
        """Probabilities of each of several outputs, from those of their combinations; of one output as they are."""
        several = getattr(self, "_several", None)
        if several is None:
            return shares
        return [shares @ (codes[:, None] == np.arange(len(labels))) for labels, codes in several]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: the share of right answers.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        float
            The share.
        """
        labels = plain_labels(np.asarray(y))
        return float(super().score(X, labels if labels.dtype == bool else y, sample_weight))

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`; minus infinity for a probability of 0.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n, K) or list of ndarray
            Logarithms.
        """
        with np.errstate(divide="ignore"):
            shares = self.predict_proba(X)
            return [np.log(share) for share in shares] if isinstance(shares, list) else np.log(shares)

    @available_if(lambda self: getattr(self, "_several", None) is None)
    def decision_function(self, X: Any) -> Floats:
        """Scores of the classes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Log-odds of the second class, or logarithms of the probabilities of more than two.
        """
        check_is_fitted(self, "classes_")
        logs = np.log(np.maximum(self._shares(X), LEAST_SHARE))
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
