"""From tables to rows of numbers: those of a fit, new ones, and those of ``eval_set``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from opttree.estimators.recipe import Estimator, Fit, Rows, has_costs, has_numbers, is_ordered
from opttree.estimators.steps.tails import Limits
from opttree.runtime.words import shown
from opttree.statement import TreeProblem
from opttree.statement.copies import copies_of
from opttree.tables import parts
from opttree.tables.checks import as_given, check_columns, check_target, plain_target, validated
from opttree.tables.describe import warn_of_table
from opttree.tables.encoder import TableEncoder, as_array, check_table, needs_encoding, signs_of
from opttree.tables.encoding import level_text
from opttree.tables.numbers import are_small, check_numbers
from opttree.tables.row_weights import check_sample_weight
from opttree.wide.sparse import as_rows, is_given_sparse

Floats = NDArray[np.float64]
SPARSE: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": False}
JOIN = " | "  # between the labels of several outputs, in the names of their joint classes


def read_rows(options: Estimator, X: Any, y: Any, sample_weight: ArrayLike | None, eval_set: Any) -> Rows:
    """The rows of a fit as numbers; a table of more than numbers is encoded by a new ``encoder_``.

    Raises
    ------
    ValueError
        For what cannot be read, in one sentence.
    """
    numeric = has_numbers(options)
    is_dict = isinstance(X, Mapping) and not is_given_sparse(X)
    if is_dict or (isinstance(X, (list, tuple)) and any(isinstance(row, Mapping) for row in X[:1])):
        what = "a dict" if is_dict else "dicts as rows"
        raise ValueError(f"X must be a table or an array; got {what}: make a data frame of it")
    stays_sparse = options.recipe.sparse_from is not None and is_given_sparse(X)
    X = X if stays_sparse else as_given(X)
    if hasattr(X, "columns") and not len(X.columns):
        raise ValueError(f"X must have at least one column; got a table of shape {tuple(X.shape)}")
    check_target(y, numeric)
    y = plain_target(y)
    if not stays_sparse:
        warn_of_table(X, options.categorical_features)
    if not has_costs(options) and not get_tags(options).target_tags.multi_output:
        y = column_or_1d(y, warn=True)
    how = {"multi_output": True, "y_numeric": True} if numeric else {"multi_output": True}
    table = None
    if stays_sparse:
        if not isinstance(options.categorical_features, str):
            raise ValueError(
                f"categorical_features must be 'from_dtype' for sparse X; got {options.categorical_features}"
            )
        options.encoder_ = None
        X, y = validated(options, X, y, **SPARSE, **how)
        X = as_rows(X)
        check_numbers("X", X.data)
        if X.shape[0] * X.shape[1] < options.recipe.sparse_from:
            X = X.toarray()
    elif not needs_encoding(X, options.categorical_features):
        options.encoder_ = None
        X = as_array(X)
        check_columns(X)
        X, y = validated(options, X, y, dtype=np.float64, order="C", **how)
        check_features(X, names_in(options))
    else:
        y = validated(options, y=y, **how)
        table = check_table(options, X, reset=True)
        check_consistent_length(table, y, sample_weight)
        encoder = TableEncoder(
            categorical_features=options.categorical_features,
            ordered=is_ordered(options),
            min_level_rows=options.min_level_rows,
            high_cardinality=options.high_cardinality,
        )
        X = encode(options, encoder, table, y, sample_weight)
        check_features(X, encoder.encoding_.names)
        before = getattr(options, "encoder_", None)
        goes_on = getattr(options, "warm_start", False) and hasattr(options, "forest_")
        if goes_on and (before is None or before.encoding_ != encoder.encoding_):
            raise ValueError("warm_start needs the table of the first fit; got one of another encoding")
        options.encoder_ = encoder
    several = None
    if numeric:
        y = y.astype(np.float64)
        check_numbers("y", y)
    else:
        y = y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y
        y = y.astype(np.float64) if y.dtype.kind == "f" else y
        y = plain_labels(y)
        if y.ndim == 2:
            if eval_set is not None:
                raise ValueError("eval_set is for one output; got y of several")
            y, several = joint(y, options.class_weight)
        try:
            check_classification_targets(y)
        except ValueError as error:
            rule = "Unknown label type: y must hold texts, booleans or whole numbers as labels"
            raise ValueError(f"{rule}; got {shown(y.ravel()[:5].tolist())}") from error
    return Rows(X, y, check_sample_weight(sample_weight, X), table, several)


def encode(
    options: Estimator, encoder: TableEncoder, table: Any, y: NDArray[Any], sample_weight: ArrayLike | None
) -> Floats:
    """The features (n, p) of the training rows, by an encoder that learns from them."""
    target = y.astype(np.float64) if has_numbers(options) else codes_of_labels(y)
    features: Floats = encoder.fit_transform(table, target, sample_weight, copies=copies_of)
    return features


def read_new(options: Estimator, X: Any) -> Any:
    """The features (n, p) of new rows."""
    if isinstance(X, parts.Rows) or hasattr(X, "to_delayed"):
        kind = "opttree.Rows" if isinstance(X, parts.Rows) else "a Dask collection"
        raise ValueError(f"X must be a table in memory; got {kind}: opttree.chunks.predict_chunks answers part by part")
    encoder = getattr(options, "encoder_", None)
    if options.recipe.sparse_from is not None and encoder is None and is_given_sparse(X):
        Z = as_rows(validated(options, X, reset=False, **SPARSE))
        check_numbers("X", Z.data)
        return Z
    Z = _plain(options, X) if encoder is None or isinstance(encoder, Limits) else None
    if Z is not None:
        return Z if encoder is None else encoder.encoding_.encode(list(Z.T))
    X = as_given(X)
    if isinstance(encoder, Limits):
        how = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        Z = encoder.encoding_.encode(list(validated(options, as_array(X), reset=False, **how).T))
    elif encoder is not None:
        Z = options.encoder_.encoding_.transform(check_table(options, X, reset=False))
    else:
        X = as_array(X)
        check_columns(X)
        Z = validated(options, X, reset=False, dtype=np.float64, order="C")
    check_features(Z, names_in(options))
    return Z


def names_in(options: Estimator) -> Sequence[str] | None:
    """Names of the features of an estimator that has read a table, or None."""
    encoder = getattr(options, "encoder_", None)
    if encoder is None:
        return getattr(options, "feature_names_in_", None)
    names: Sequence[str] = encoder.encoding_.names
    return names


def check_features(X: Floats, names: Sequence[str] | None) -> None:
    """`check_numbers` of features (n, p), with the name of a column, where there are names."""
    try:
        check_numbers("X", X)
    except ValueError:
        for j, name in enumerate(() if names is None else names):
            check_numbers(f"X column {name!r}", X[:, j])
        raise


def _plain(options: Estimator, X: Any) -> Floats | None:
    """New rows of an array or of pandas whose columns are those of the fit, if all are numbers; None where the checks
    of scikit-learn, which take a millisecond, must look at them.
    """
    names = getattr(options, "feature_names_in_", None)
    if names is not None:
        if type(X).__name__ != "DataFrame" or not type(X).__module__.startswith("pandas"):
            return None
        if X.columns.tolist() != names.tolist():
            return None
        if not all(isinstance(kind, np.dtype) for kind in X.dtypes):
            return None
        X = X.to_numpy()
    if type(X) is not np.ndarray or X.dtype.kind not in "fiu" or X.ndim != 2 or not len(X):
        return None
    Z = np.ascontiguousarray(X, np.float64)
    return Z if X.shape[1] == options.n_features_in_ and are_small(Z) else None


def read_eval_set(options: Estimator, eval_set: Any, fit: Fit) -> TreeProblem | None:
    """The problem on validation rows ``(X, y)``, or None."""
    if eval_set is None:
        return None
    problem = fit.problem
    X, y = read_new(options, eval_set[0]), np.asarray(eval_set[1])
    check_consistent_length(X, y)
    if y.reshape(len(y), -1).shape[1] != problem.Y.shape[1]:
        raise ValueError(f"eval_set must have a y of {problem.Y.shape[1]} outputs; got {y.shape}")
    if problem.classes is None:
        check_numbers("y", y := y.astype(np.float64))
        y = fit.scaling.outputs(y)
    elif not np.isin(y, problem.classes).all():
        raise ValueError(f"eval_set must have classes of y, {problem.classes.tolist()}; got others")
    if fit.transformer is not None:
        X = fit.transformer.transform(X)
    return problem.with_rows(fit.scaling.features(X), y)


def class_weighted(options: Estimator, y: NDArray[Any], weight: Floats) -> Floats:
    """The weights (n,) of the rows, times those of the classes."""
    class_weight = getattr(options, "class_weight", None)
    if class_weight is None:
        return weight
    try:
        factors = compute_sample_weight(class_weight, y)
    except ValueError as error:
        rule = "class_weight must be None, 'balanced' or a dict from the labels of y to weights"
        raise ValueError(f"{rule}; got {class_weight!r}") from error
    if not (np.isfinite(factors) & (factors >= 0.0)).all():
        raise ValueError(f"class_weight must hold finite weights >= 0; got {class_weight!r}")
    if not factors.any():
        raise ValueError(f"class_weight must be positive for a class of y; got {class_weight!r}")
    return factors * weight


def without_classes(options: Estimator, rows: Rows) -> Rows:
    """The rows, those of classes of weight 0 without weight of their own."""
    given = getattr(options, "class_weight", None)
    if not isinstance(given, dict) or 0 not in given.values():
        return rows
    return replace(rows, weight=np.where(class_weighted(options, rows.y, rows.weight) > 0.0, rows.weight, 0.0))


def monotone_signs(options: Estimator) -> tuple[int, ...] | None:
    """``monotonic_cst`` for each feature, or None."""
    signs = getattr(options, "monotonic_cst", None)
    if signs is None or not hasattr(options, "n_features_in_"):
        return signs
    names = getattr(options, "feature_names_in_", None)
    return signs_of(signs, names, options.n_features_in_, options.encoder_)


def plain_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Labels, where they are objects that are all booleans (as pandas has them after ``dropna``) as booleans."""
    booleans = y.dtype == object and all(isinstance(label, (bool, np.bool_)) for label in y.ravel())
    return y.astype(bool) if booleans else y


def codes_of_labels(y: NDArray[Any]) -> NDArray[np.intp]:
    """The number of each label among the sorted ones of its output: ``y (n,)`` or ``(n, M)``."""
    if np.ndim(y) == 2:  # of objects, numbers and texts are told apart in each output
        return np.stack([codes_of_labels(np.array(output.tolist())) for output in y.T], axis=1)
    return np.unique(y, return_inverse=True)[1]


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
    names = [JOIN.join(level_text(kinds[k]) for kinds, k in zip(labels, row, strict=True)) for row in rows]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"y must have labels that differ when joined by {JOIN!r}; got {twice[0]!r} twice")
    order = np.argsort(np.array(names))
    several = [(kinds, rows[order, m]) for m, kinds in enumerate(labels)]
    return np.array(names)[number.ravel()], several
