"""`TableEncoder`: tables of numbers, categories, dates and missing values, as the numbers that trees split on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from opttree.tables.checks import check_names
from opttree.tables.encoding import (
    Column,
    Encoding,
    Feature,
    Levels,
    Missing,
    Value,
    is_table,
    kind_of,
    level_text,
    narwhal,
    raw_columns,
    table_names,
)
from opttree.tables.row_weights import check_sample_weight
from opttree.tables.weights import check_weight

__all__ = ["TableEncoder"]

Floats = NDArray[np.float64]
MAX_LEVELS = 16
MIN_FREQUENCY = 5
FOLDS = 5


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encodes a table for trees, by scikit-learn's imputer and encoders; all estimators of opttree use it inside.

    Takes tables of pandas, polars, Arrow and others that narwhals knows, and arrays. Numbers stay as they are, dates
    are days since 1970, booleans 0 and 1, text is a category.

    A missing number becomes the median of its column, and an indicator column says so, whose weight in an oblique split
    or a linear leaf is what the fill should have been. A category becomes indicators of its levels, rare ones together,
    or, with more than ``max_levels``, a target statistic: the mean of y, or the share of each class, in rows of this
    category, for training rows in other folds (`sklearn.preprocessing.TargetEncoder`), so that no row sees its own y.

    With ``ordered``, for axis-aligned splits: categories are ordered by the target statistic, so that a threshold parts
    them into two sets, of which one is the best for numbers and two classes (Breiman et al. 1984, section 4.2); up to
    ``max_levels`` it is that of all rows. A number that may be missing becomes two features, with missing ones below
    and above all others, so that a split sends them to the side that is better (scikit-learn's rule).

    A category that training did not have counts as rare; where there were no rare ones it is none of the levels, and
    has the mean of all rows as its statistic. A number that is missing in new rows only gets the median.

    Parameters
    ----------
    categorical_features : "from_dtype" or array-like, default "from_dtype"
        "from_dtype": text, and what the table calls categories; or a list of names, of numbers, or a mask of the
        columns that are categories as well, as in scikit-learn's gradient boosting.
    ordered : bool, default False
        Whether the features are for axis-aligned splits.
    max_levels : int, default 16
        Most levels of a category that get an indicator each.
    random_state : int or None, default 0
        Seed of the folds.

    Attributes
    ----------
    encoding_ : opttree.encoding.Encoding
        All that was learned.
    feature_names_in_, n_features_in_ : ndarray, int
        As in scikit-learn.

    See Also
    --------
    encoding.Encoding : the same as part of a tree

    Examples
    --------
    >>> import pandas as pd
    >>> from opttree import TableEncoder
    >>> table = pd.DataFrame({"colour": ["red", "blue", "red", None], "size": [1.0, None, 3.0, 4.0]})
    >>> encoder = TableEncoder().fit(table, [1.0, 2.0, 1.5, 3.0])
    >>> encoder.transform(table).shape[0], len(encoder.get_feature_names_out()) >= 3
    (4, True)
    """

    def __init__(
        self,
        *,
        categorical_features: Any = "from_dtype",
        ordered: bool = False,
        max_levels: int = MAX_LEVELS,
        random_state: int | None = 0,
    ) -> None:
        self.categorical_features = categorical_features
        self.ordered = ordered
        self.max_levels = max_levels
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the encoding.

        Rows of weight zero are left out; other weights do not count. Without ``y``, every category gets indicators.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows of the table.
        y : array-like of shape (n,) or (n, K), default None
            The target.
        sample_weight : array-like of shape (n,) or None, default None
            Weights of the rows.

        Returns
        -------
        TableEncoder
            The encoder itself.

        Raises
        ------
        ValueError
            For a column of another kind, infinity, columns of equal names, or ``categorical_features`` that do not fit.
        """
        self._learn(X, y, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Any:
        """Learn the encoding and encode the same rows, whose target statistics are those of the other folds.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows of the table.
        y : array-like of shape (n,) or (n, K), default None
            The target.
        sample_weight : array-like of shape (n,) or None, default None
            Weights of the rows.

        Returns
        -------
        ndarray or DataFrame of shape (n, q)
            The features, a table where `set_output` asks for one.
        """
        return self._learn(X, y, sample_weight)

    def transform(self, X: Any) -> Any:
        """Encode new rows.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows of the table.

        Returns
        -------
        ndarray or DataFrame of shape (n, q)
            The features, a table where `set_output` asks for one.
        """
        check_is_fitted(self, "encoding_")
        return self.encoding_.transform(check_table(self, X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features, such as "age", "age=missing" and "colour=red".

        Parameters
        ----------
        input_features : object, default None
            Ignored; scikit-learn passes it.

        Returns
        -------
        ndarray of shape (q,)
            The names.
        """
        check_is_fitted(self, "encoding_")
        return np.array(self.encoding_.names, object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _learn(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Floats:
        """Learn the encoding; the encoded training rows."""
        X = check_table(self, X, reset=True)
        columns = columns_of(X, self.categorical_features)
        raw = raw_columns(X, columns)
        used = np.arange(len(raw[0]))
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, used[:, None])
            check_weight(weight)
            used = np.flatnonzero(weight)
        target = None if y is None else np.asarray(y)[used].reshape(len(used), -1)
        features: list[Feature] = []
        folded: dict[int, Floats] = {}  # out-of-fold values, by number of the feature
        for j, column in enumerate(columns):
            if column.kind == "category":
                entries = [raw[j][i] for i in used]
                made, values = self._category(j, entries, target)
                folded.update({len(features) + k: v for k, v in values.items()})
            else:
                made = self._number(j, raw[j][used])
            features += made
        self.encoding_ = Encoding(columns, tuple(features))
        Z = self.encoding_.encode(raw)
        for k, value in folded.items():
            Z[used, k] = value
        return Z

    def _number(self, j: int, values: Floats) -> list[Feature]:
        """The features of a number, a boolean or a date."""
        there = values[~np.isnan(values)]
        fill = SimpleImputer(strategy="median", keep_empty_features=True).fit(values[:, None]).statistics_[0]
        fill = 0.0 if there.size == 0 else float(fill)
        if there.size == values.size:
            return [Value(j, fill)]
        if not self.ordered:
            return [Value(j, fill), Missing(j)]
        low, high = (float(there.min()), float(there.max())) if there.size else (0.0, 0.0)
        beside = max(float(there.std()) if there.size else 0.0, 1e-3 * max(abs(low), abs(high), 1e-3))
        return [Value(j, low - beside, low, high), Value(j, high + beside, low, high)]

    def _category(
        self, j: int, values: list[str], target: NDArray[Any] | None
    ) -> tuple[list[Feature], dict[int, Floats]]:
        """The features of a category, and out-of-fold values of the features that are statistics."""
        column = np.array(values, object)[:, None]
        there = column[column[:, 0] != ""]
        n_levels = len(set(there[:, 0]))
        if target is not None and n_levels > 1 and (self.ordered or n_levels > self.max_levels):
            return self._statistics(j, column, target, fold=n_levels > self.max_levels)
        gaps = [] if len(there) == len(column) else [Missing(j)]
        if n_levels == 0:
            return [*gaps] or [Missing(j)], {}
        least = MIN_FREQUENCY if n_levels > 2 and len(column) > 10 * MIN_FREQUENCY else 1
        encoder = OneHotEncoder(min_frequency=least, handle_unknown="infrequent_if_exist", dtype=np.float64).fit(there)
        rare = encoder.infrequent_categories_[0]
        rare = [] if rare is None else list(rare)
        frequent = [level for level in encoder.categories_[0] if level not in set(rare)]
        if len(frequent) + bool(rare) == 2 and not rare and not gaps:
            frequent = frequent[1:]  # two levels: one indicator
        features: list[Feature] = [Levels(j, {level: 1.0}, 0.0, 0.0) for level in frequent]
        if rare:
            features.append(Levels(j, {**dict.fromkeys(rare, 1.0), **dict.fromkeys(frequent, 0.0)}, 1.0, 0.0))
        return [*features, *gaps], {}

    def _statistics(
        self, j: int, column: NDArray[Any], target: NDArray[Any], fold: bool
    ) -> tuple[list[Feature], dict[int, Floats]]:
        """Target statistics of a category for each output, or each class; out of fold, if asked for."""
        features: list[Feature] = []
        folded: dict[int, Floats] = {}
        for output in target.T:
            kind, folds = _kind_and_folds(output)
            encoder = TargetEncoder(target_type=kind, cv=max(folds, 2), random_state=self.random_state)
            # warnings are about classes of fewer rows than folds; routing would ask for groups of rows
            with warnings.catch_warnings(), config_context(enable_metadata_routing=False, transform_output="default"):
                warnings.simplefilter("ignore")
                encoder.fit(column, output)
                other = encode = None
                if fold and folds >= 2:
                    encode = encoder.fit_transform(column, output)
            means = np.atleast_1d(encoder.target_mean_)
            levels = [str(level) for level in encoder.categories_[0]]
            names = ["mean"] if len(means) == 1 else [level_text(c) for c in encoder.classes_]
            for k, (name, other) in enumerate(zip(names, means, strict=True)):
                numbers = dict(zip(levels, map(float, encoder.encodings_[k]), strict=True))
                missing = numbers.pop("", float(other))
                if encode is not None:
                    folded[len(features)] = encode[:, k]
                features.append(Levels(j, numbers, float(other), missing, name))
        return features, folded


def _kind_and_folds(output: NDArray[Any]) -> tuple[str, int]:
    """The kind of target for `TargetEncoder`, and how many folds its rows allow."""
    kind = type_of_target(output)
    if kind in ("binary", "multiclass") and output.dtype.kind != "f":
        least = int(np.unique(output, return_counts=True)[1].max())
        return kind, min(FOLDS, least)
    return "continuous", min(FOLDS, len(output))


def columns_of(X: Any, categorical_features: Any) -> tuple[Column, ...]:
    """Names and kinds of the columns of a table; columns of an array are called x0, x1, ..."""
    names = table_names(X)
    if names is None:
        kinds = [kind_of(X[:, j]) for j in range(X.shape[1])]
        texts = [f"x{j}" for j in range(X.shape[1])]
    else:
        frame = narwhal(X)
        kinds = [kind_of(frame.get_column(name)) for name in names]
        texts = [str(name) for name in names]
    chosen = _chosen(categorical_features, texts)
    return tuple(
        Column(name, "category" if j in chosen else kind)
        for j, (name, kind) in enumerate(zip(texts, kinds, strict=True))
    )


def _chosen(categorical_features: Any, names: Sequence[str]) -> set[int]:
    """Numbers of the columns that ``categorical_features`` names.

    Raises
    ------
    ValueError
        If it is not "from_dtype", or names of columns, or their numbers, or a mask of them.
    """
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return set()
    rule = f'categorical_features must be "from_dtype", or names or numbers of the {len(names)} columns, or a mask'
    wrong = ValueError(f"{rule}; got {categorical_features!r}")
    if isinstance(categorical_features, str) or not np.iterable(categorical_features):
        raise wrong
    given = list(categorical_features)
    if given and all(isinstance(v, (bool, np.bool_)) for v in given):
        if len(given) != len(names):
            raise wrong
        return set(map(int, np.flatnonzero(given)))
    numbers = set()
    for value in given:
        if isinstance(value, (int, np.integer)) and -len(names) <= value < len(names):
            numbers.add(int(value) % len(names))
        elif isinstance(value, str) and value in names:
            numbers.add(names.index(value))
        else:
            raise ValueError(f"{rule}; got {value!r} in it")
    return numbers


def check_table(estimator: Any, X: Any, *, reset: bool) -> Any:
    """A table, or an array of objects or numbers; its names and number of columns are checked as scikit-learn does."""
    if is_table(X):
        check_names(X)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if X.shape[0] < 1:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required")
        return X
    kind = getattr(X, "dtype", None)
    numeric = isinstance(kind, np.dtype) and kind.kind in "biuf"
    return validate_data(
        estimator, X, reset=reset, dtype="numeric" if numeric else None, ensure_all_finite="allow-nan", order="C"
    )


def needs_encoding(X: Any, categorical_features: Any) -> bool:
    """Whether X has more than finite numbers, or categories are named."""
    if not (isinstance(categorical_features, str) and categorical_features == "from_dtype"):
        return True
    if is_table(X):
        check_names(X)
        frame = narwhal(X)
        columns = [frame.get_column(name) for name in table_names(X) or []]
        if not all(column.dtype.is_numeric() or str(column.dtype) == "Boolean" for column in columns):
            return True
        return any(column.is_null().any() or has_nan(column.to_numpy()) for column in columns)
    if not isinstance(X, (np.ndarray, list, tuple)):
        return False
    try:
        array = np.asarray(X)
    except ValueError:  # rows of different lengths
        return False
    if array.ndim != 2 or array.dtype.kind not in "fOUS":
        return False
    if array.dtype.kind == "f":
        return has_nan(array)
    try:
        return has_nan(array.astype(np.float64))
    except (TypeError, ValueError):
        return all(isinstance(v, (str, bytes, bool, float, int, type(None), np.generic)) for v in array.flat)


def has_nan(array: NDArray[Any]) -> bool:
    """Whether an array of numbers has NaN; without a temporary array where it has none."""
    if array.dtype.kind != "f":
        return array.dtype.kind == "O" and any(v is None or v != v for v in array.flat)
    with np.errstate(over="ignore", invalid="ignore"):
        return not np.isfinite(array.sum()) and bool(np.isnan(array).any())


def as_array(X: Any) -> Any:
    """Tables of other libraries than pandas as DataFrames of numbers; anything else as it is."""
    if not is_table(X):
        return X
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return X
    frame = narwhal(X)
    return pd.DataFrame({name: frame.get_column(name).to_numpy() for name in frame.columns})


def signs_of(
    monotonic_cst: Any, names: Sequence[Any] | None, n_columns: int, encoder: TableEncoder | None
) -> tuple[int, ...]:
    """For each feature -1, 0 or 1, from an entry for each column, or a dict from names of columns.

    Raises
    ------
    ValueError
        For other numbers, a wrong number of them, unknown names, and categories.
    """
    rule = "monotonic_cst must be -1, 0 or 1 for each column, or a dict of these by the names of columns"
    if isinstance(monotonic_cst, Mapping):
        known = [] if names is None else [str(name) for name in names]
        unknown = [name for name in monotonic_cst if str(name) not in known]
        if unknown:
            raise ValueError(f"{rule}; got {unknown[0]!r}")
        given = {str(name): sign for name, sign in monotonic_cst.items()}
        signs = [given.get(name, 0) for name in known]
    else:
        signs = list(monotonic_cst)
    if len(signs) != n_columns or any(sign not in (-1, 0, 1) for sign in signs):
        raise ValueError(f"{rule}, of which there are {n_columns}; got {monotonic_cst!r}")
    if encoder is None:
        return tuple(map(int, signs))
    for column, sign in zip(encoder.encoding_.columns, signs, strict=True):
        if sign and column.kind == "category":
            raise ValueError(f"monotonic_cst must be 0 for categories; got {sign} for {column.name!r}")
    return tuple(int(signs[f.column]) if isinstance(f, Value) else 0 for f in encoder.encoding_.features)
