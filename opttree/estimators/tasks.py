"""`RegressionTree` and `ClassificationTree`: mixins with what users of fitted estimators call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from opttree.estimators.base import codes_of_labels
from opttree.estimators.scaling import Scaling
from opttree.runtime.options import Options, option
from opttree.statement import TreeProblem
from opttree.statement.numbers import check_numbers
from opttree.tables.encoding import level_text

Floats = NDArray[np.float64]
JOIN = " | "  # between the labels of several outputs, in the names of their joint classes
LEAST_SHARE = 1e-300  # of a class, in log-odds


class RegressionTree(MultiOutputMixin, RegressorMixin):
    """Mixin with `predict` for regression; combine with a `TreeEstimator`."""

    def _train(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[TreeProblem, Scaling]:
        me: Any = self
        X, y = me._checked(X, y, sample_weight, multi_output=True, y_numeric=True)
        y = y.astype(np.float64)
        check_numbers("y", y)
        return me._fit(X, y, sample_weight)

    def predict(self, X: Any) -> Floats:
        """Predictions (n,), or (n, K) with several outputs."""
        me: Any = self
        X = me._validated(X)
        return me._model.predict(X)


@dataclass(eq=False, repr=False, kw_only=True)
class ClassificationTree(ClassifierMixin, Options):
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

    def _train(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[TreeProblem, Scaling]:
        me: Any = self
        X, y = me._checked(X, y, sample_weight, multi_output=True)
        y = y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y
        several = None
        if y.ndim == 2:
            if getattr(self, "_eval_set", None) is not None:
                raise ValueError("eval_set is for one output; got y of several")
            y, several = joint(y, self.class_weight)
        check_classification_targets(y)
        try:
            return me._fit(X, y, sample_weight)
        finally:  # also after Ctrl-C, where there is a best so far
            with suppress(AttributeError):
                classes = me._model.classes
                self._several = several
                me.classes_ = classes if several is None else [labels for labels, _codes in several]

    def _weighted(self, y: NDArray[Any], weight: Floats) -> Floats:
        """The weights of `fit`, times those of the classes."""
        if self.class_weight is None:
            return weight
        try:
            return compute_sample_weight(self.class_weight, y) * weight
        except ValueError as error:
            rule = "class_weight must be None, 'balanced' or a dict from the labels of y to weights"
            raise ValueError(f"{rule}; got {self.class_weight!r}") from error

    def _shares(self, X: Any) -> Floats:
        """Probabilities (n, K) of the model's classes."""
        me: Any = self
        X = me._validated(X)
        return me._model.predict_proba(X)

    def _labels(self, X: Any) -> NDArray[Any]:
        """The model's likeliest classes (n,)."""
        me: Any = self
        X = me._validated(X)
        return me._model.predict(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Class labels (n,), or (n, M) of several outputs."""
        check_is_fitted(self, "classes_")
        if getattr(self, "_several", None) is None:
            return self._labels(X)
        me: Any = self
        picked = [labels[np.argmax(p, axis=1)] for labels, p in zip(me.classes_, self.predict_proba(X), strict=True)]
        kind = None if len({labels.dtype.kind for labels in picked}) == 1 else object
        return np.stack([labels.astype(kind or labels.dtype) for labels in picked], axis=1)

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities (n, K), in the order of ``classes_``; of several outputs a list of M such arrays."""
        check_is_fitted(self, "classes_")
        shares = self._shares(X)
        several: Any = getattr(self, "_several", None)
        if several is None:
            return shares
        return [shares @ (codes[:, None] == np.arange(len(labels))) for labels, codes in several]

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`; minus infinity for a probability of 0."""
        with np.errstate(divide="ignore"):
            shares = self.predict_proba(X)
            return [np.log(own) for own in shares] if isinstance(shares, list) else np.log(shares)

    @available_if(lambda self: getattr(self, "_several", None) is None)
    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class (n,), or logarithms of the probabilities of more than two (n, K)."""
        check_is_fitted(self, "classes_")
        logs = np.log(np.maximum(self._shares(X), LEAST_SHARE))
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def joint(y: NDArray[Any], class_weight: Any) -> tuple[NDArray[Any], Sequence[tuple[NDArray[Any], NDArray[np.intp]]]]:
    """One label (n,) for each combination of labels in ``y (n, M)``; for each output its labels, and the number of
    that of each joint class.
    """
    if class_weight is not None and class_weight != "balanced":
        raise ValueError(f"class_weight must be None or 'balanced' for several outputs; got {class_weight!r}")
    outputs = [np.array(output.tolist()) for output in y.T]  # of objects, numbers and texts are told apart
    for output in outputs:
        check_classification_targets(output)
    codes = codes_of_labels(y)
    labels = [np.unique(output) for output in outputs]
    rows, number = np.unique(codes, axis=0, return_inverse=True)
    names = [JOIN.join(level_text(own[k]) for own, k in zip(labels, row, strict=True)) for row in rows]
    if len(set(names)) < len(names):
        raise ValueError(f"y must have labels that differ when joined by {JOIN!r}; got {names[0]!r} twice")
    order = np.argsort(np.array(names))
    several = [(own, rows[order, m]) for m, own in enumerate(labels)]
    return np.array(names)[number.ravel()], several
