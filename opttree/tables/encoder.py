"""`TableEncoder`: tables of numbers, categories, dates and missing values, as the numbers that trees split on."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import fdtrc
from scipy.stats import rankdata
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from opttree.tables.checks import as_given, check_names, validated, warn
from opttree.tables.encoding import (
    Column,
    Encoding,
    Feature,
    Levels,
    Missing,
    Unread,
    Value,
    coded,
    is_missing,
    is_table,
    kind_of,
    level_text,
    narwhal,
    raw_columns,
    table_names,
    zone_of,
)
from opttree.tables.numbers import LARGEST
from opttree.tables.row_weights import check_sample_weight

__all__ = ["TableEncoder"]

Floats = NDArray[np.float64]
MAX_LEVELS = 16
MIN_LEVEL_ROWS = 5
CHOICES = ("auto", "drop", "keep")
ENTRIES = (str, bytes, bool, float, int, np.generic, Decimal, datetime.date)  # of arrays of objects that are encoded
FOLDS = 5
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # of the shrinkage of target statistics, in rows
CHANCE = 0.01  # of a column that says nothing to be taken for one that does
FEWEST_ROWS, MOST_ROWS, MOST_ROWS_OF_TREES, MOST_FEATURES = 20, 200_000, 5000, 30  # of models that judge statistics
MOST_RESTS = 10  # times that what is left unexplained is found anew, as columns join
MOST_BESIDE = 3  # features beside which levels may matter
FEWEST_LEVELS, JUDGED_ROWS, JUDGED_ROWS_OF_MANY = 4, 30, 100  # of categories of fewer rows a level that are judged
USELESS = "do not predict the target (high_cardinality='keep' keeps them)"


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encodes a table for trees; all estimators of opttree use it inside.

    Takes tables of pandas, polars, Arrow and others that narwhals knows, and arrays. Numbers stay as they are, dates
    are days since 1970, booleans 0 and 1, text is a category.

    A missing number becomes the median of its column, and an indicator column says so: its weight in an oblique split
    or a linear leaf corrects the median. Of numbers that are there in fewer than ``min_level_rows`` rows, the indicator
    alone is kept. Levels of fewer than ``min_level_rows`` rows go together, and
    their names are not kept; levels that training did not have join them. A category becomes indicators of its levels
    or, with more than ``max_levels``, a target statistic: the mean of y, or the share of each class, in rows of this
    level, shrunk towards that of all rows by ``(n mean + m all) / (n + m)`` for a level of n rows. Training rows get
    the statistic of the other folds, so that no row sees its own y; m has the least squared error there.

    A category of four levels and more, with fewer than 30 rows each, or 100 above ``max_levels``, is left out, with a
    `TableWarning`, where no level has enough rows, as in columns of names and keys, or where its levels do not differ
    by more than chance in what the other columns leave unexplained (by a linear model or a tree, on other folds).
    Whether it is missing is kept.

    With ``ordered``, for axis-aligned splits: categories are ordered by the target statistic, so that a threshold parts
    them into two sets, of which one is the best for numbers and two classes (Breiman et al. 1984, section 4.2); up to
    ``max_levels`` it is that of all rows, not shrunk. A number that may be missing becomes two features, with missing
    ones below and above all others, so that a split sends them to the side that is better (scikit-learn's rule).

    A number that is missing in new rows only gets the median.

    Parameters
    ----------
    categorical_features : "from_dtype" or array-like, default "from_dtype"
        "from_dtype": text, and what the table calls categories; or a list of names, of numbers, or a mask of the
        columns that are categories as well, as in scikit-learn's gradient boosting.
    ordered : bool, default False
        Whether the features are for axis-aligned splits.
    max_levels : int, default 16
        Most levels of a category that get an indicator each.
    min_level_rows : int, default 5
        Fewest training rows of a level that is kept.
    high_cardinality : {"auto", "drop", "keep"}, default "auto"
        What becomes of categories of many levels, or of few rows a level. "auto": see above; "drop": those of more than
        ``max_levels`` levels, and fewer than ``min_level_rows`` rows a level on average, are left out as well; "keep":
        all stay that have two levels to tell apart.
    random_state : int or None, default 0
        Seed of the folds.

    Attributes
    ----------
    encoding_ : opttree.encoding.Encoding
        All that was learned.
    left_out_ : dict of str to str
        The columns that are left out, and why.
    feature_names_in_, n_features_in_ : ndarray, int
        As in scikit-learn.

    See Also
    --------
    encoding.Encoding : the same as part of a tree

    Examples
    --------
    >>> import pandas as pd
    >>> from opttree import TableEncoder
    >>> table = pd.DataFrame({"colour": ["red", "blue", "red", None] * 5, "size": [1.0, None, 3.0, 4.0] * 5})
    >>> encoder = TableEncoder().fit(table, [1.0, 2.0, 1.5, 3.0] * 5)
    >>> encoder.get_feature_names_out().tolist()
    ['colour=blue', 'colour=red', 'colour=missing', 'size', 'size=missing']
    """

    def __init__(
        self,
        *,
        categorical_features: Any = "from_dtype",
        ordered: bool = False,
        max_levels: int = MAX_LEVELS,
        min_level_rows: int = MIN_LEVEL_ROWS,
        high_cardinality: str = "auto",
        random_state: int | None = 0,
    ) -> None:
        self.categorical_features = categorical_features
        self.ordered = ordered
        self.max_levels = max_levels
        self.min_level_rows = min_level_rows
        self.high_cardinality = high_cardinality
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

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        copies: Callable[[Floats, NDArray[Any]], NDArray[np.intp] | None] | None = None,
    ) -> Any:
        """Learn the encoding and encode the same rows, whose target statistics are those of the other folds.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows of the table.
        y : array-like of shape (n,) or (n, K), default None
            The target.
        sample_weight : array-like of shape (n,) or None, default None
            Weights of the rows.
        copies : callable or None, default None
            From the columns as numbers (n, p) and the target (n, K), for each row the number of the different row that
            it is a copy of, or None where there are none. A row counts once, and its copies are encoded as it is.

        Returns
        -------
        ndarray or DataFrame of shape (n, q)
            The features, a table where `set_output` asks for one.
        """
        return self._learn(X, y, sample_weight, copies)

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

    def _learn(self, X: Any, y: Any, sample_weight: ArrayLike | None, copies: Any = None) -> Floats:
        """Learn the encoding; the encoded training rows."""
        for name, value in (("max_levels", self.max_levels), ("min_level_rows", self.min_level_rows)):
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1; got {value!r}")
        if self.high_cardinality not in CHOICES:
            raise ValueError(f"high_cardinality must be one of {list(CHOICES)}; got {self.high_cardinality!r}")
        X = check_table(self, X, reset=True)
        columns = columns_of(X, self.categorical_features)
        raw = raw_columns(X, columns)
        used, texts = np.arange(len(raw[0])), {j: raw[j] for j, column in enumerate(columns) if column.is_category}
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, used[:, None])
            used = np.flatnonzero(weight)
        target = None if y is None else np.asarray(y)[used].reshape(len(used), -1)
        if target is not None and texts and target.dtype.kind == "f" and np.abs(target).max() > LARGEST:
            raise ValueError(f"y must be at most {LARGEST:g} beside text; got {np.abs(target).max():g}")
        every, copy = used, None
        if copies is not None and target is not None and texts:
            numbers = [coded(raw[j])[1] if j in texts else raw[j] for j in range(len(columns))]
            copy = copies(np.column_stack(numbers)[used].astype(np.float64), target)
            if copy is not None:
                first = np.unique(copy, return_index=True)[1]
                used, target = used[first], target[first]
        if len(used) < len(raw[0]):
            texts = {j: [values[i] for i in used] for j, values in texts.items()}
        made: dict[int, Made] = {}
        large = []
        for j, column in enumerate(columns):
            if not column.is_category:
                made[j] = Made(self._number(j, raw[j][used]))
            elif target is None or not self._is_judged(texts[j]):
                made[j] = self._category(j, texts[j], target)
            else:
                large.append(j)
        beside = [feature for one in made.values() for feature in one.features]
        large.sort(key=lambda j: len({*raw[j]}))
        rest, known = None, -1
        for count, j in enumerate(large):  # are judged by what the others leave unexplained
            if target is not None and self.high_cardinality == "keep":
                rest = [np.zeros((len(used), 0))] * target.shape[1], np.zeros((len(used), 0))  # none is judged
            elif target is not None and len(beside) > known and count % (1 + len(large) // MOST_RESTS) == 0:
                rest, known = _rest(Encoding(columns, tuple(beside)).encode(raw)[used], target), len(beside)
            made[j] = self._category(j, texts[j], target, rest)
            if not made[j].why and not made[j].folded:
                beside += [Levels(j, {level: 1.0}, 0.0, 0.0) for level in sorted({*texts[j]} - {""})]
        features: list[Feature] = []
        folded: dict[int, Floats] = {}  # out-of-fold values, by number of the feature
        for j in range(len(columns)):
            folded.update({len(features) + k: v for k, v in made[j].folded.items()})
            features += made[j].features
        self.left_out_ = {columns[j].name: made[j].why for j in range(len(columns)) if made[j].why}
        self.encoding_ = Encoding(columns, tuple(features or [Unread(0)]))
        for name, why in self.left_out_.items():
            warn(f"column {name!r} is left out: {why}")
        Z = self.encoding_.encode(raw)
        for place, out_of_fold in folded.items():
            Z[every, place] = out_of_fold if copy is None else out_of_fold[copy]
        return Z

    def _number(self, j: int, values: Floats) -> list[Feature]:
        """The features of a number, a boolean or a date."""
        there = values[~np.isnan(values)]
        if 0 < there.size < min(self.min_level_rows, values.size):  # too few to tell anything but that
            return [Missing(j)]
        fill = float(np.median(there)) if there.size else 0.0
        if there.size == values.size:
            return [Value(j, fill)]
        if not self.ordered:
            return [Value(j, fill), Missing(j)]
        low, high = (float(there.min()), float(there.max())) if there.size else (0.0, 0.0)
        beside = max(float(there.std()) if there.size else 0.0, 1e-3 * max(abs(low), abs(high), 1e-3))
        return [Value(j, low - beside, low, high), Value(j, high + beside, low, high)]

    def _is_judged(self, values: list[str]) -> bool:
        """Whether a category must show that it matters: of few rows a level."""
        levels = {*values} - {""}
        enough = JUDGED_ROWS if len(levels) <= self.max_levels else JUDGED_ROWS_OF_MANY
        return len(levels) >= FEWEST_LEVELS and len(values) - values.count("") < enough * len(levels)

    def _category(self, j: int, values: list[str], target: NDArray[Any] | None, rest: Any = None) -> Made:
        """The features of a category; ``rest`` is what other columns leave unexplained of each output."""
        counts = Counter(values)
        n_missing = counts.pop("", 0)
        n_there, n_levels = len(values) - n_missing, len(counts)
        kept = sorted(level for level, count in counts.items() if count >= self.min_level_rows)
        n_rare = n_there - sum(counts[level] for level in kept)
        pooled = n_rare >= self.min_level_rows
        gaps: list[Feature] = [Missing(j)] if n_missing else []
        many = n_levels > self.max_levels
        if many and self.high_cardinality == "drop" and n_levels * self.min_level_rows > n_there:
            return Made([], why=f"it has {n_levels} levels in {n_there} rows (high_cardinality='drop')")
        if len(kept) + pooled < 2:
            few = f"{n_levels} levels in {n_there} rows, fewer than two of them with {self.min_level_rows} rows or more"
            return Made(gaps, why=few if n_levels > 1 else "")
        rare = n_rare / len(values)
        if target is not None:
            groups = dict.fromkeys(counts, len(kept)) | {level: k for k, level in enumerate(kept)}
            groups[""] = len(kept) + 1
            code = np.fromiter(map(groups.__getitem__, values), np.intp, len(values))
            folds = _folds(code, self.random_state) if many else np.zeros(len(code), np.intp)
            cells = _Cells(code, folds, len(kept) + 2, self.min_level_rows)
            matters = [True] * target.shape[1]
            if rest is not None and self.high_cardinality != "keep":
                matters = [cells.differ(one, rest[1][:, :0] if many else rest[1]) for one in rest[0]]
            if not any(matters):
                return Made(gaps, why=f"its {n_levels} levels {USELESS}")
            if self.ordered or many:
                return _statistics(j, kept, cells, target[:, matters], many, rare)
        if len(kept) == 2 and not n_rare and not gaps:
            return Made([Levels(j, {kept[1]: 1.0}, 0.0, 0.0, rare=1.0)])  # the other level is not named
        features: list[Feature] = [Levels(j, {level: 1.0}, 0.0, 0.0, rare=rare) for level in kept]
        if pooled and len(kept) > 1:
            features.append(Levels(j, dict.fromkeys(kept, 0.0), 1.0, 0.0, rare=rare))
        return Made([*features, *gaps])


@dataclass(frozen=True)
class Made:
    """The features of a column, the out-of-fold values of some by their place, and why the column is left out."""

    features: list[Feature]
    folded: dict[int, Floats] = field(default_factory=dict)
    why: str = ""


def _statistics(j: int, kept: list[str], cells: _Cells, target: NDArray[Any], fold: bool, rare: float) -> Made:
    """Target statistics of a category for each output, or each class; with ``fold``, out of fold."""
    made = Made([])
    for output in target.T:
        names, Y = _numbers_of(output)
        strength = 0.0
        if fold:
            strength, values = cells.out_of_fold(Y)
            made.folded.update({len(made.features) + i: values[:, i] for i in range(Y.shape[1])})
        statistic = cells.statistic(Y, strength)
        for i, name in enumerate(names):
            numbers = dict(zip(kept, statistic[:, i].tolist(), strict=False))
            made.features.append(Levels(j, numbers, float(statistic[-2, i]), float(statistic[-1, i]), name, rare))
    return made


class _Cells:
    """Rows in groups and folds, whose means are shrunk towards the mean of all rows."""

    def __init__(self, code: NDArray[np.intp], folds: NDArray[np.intp], n_groups: int, least: int) -> None:
        n = len(code)
        self.code, self.folds, self.shape = code, folds, (n_groups, FOLDS)
        self.matrix = csr_array((np.ones(n), (code * FOLDS + folds, np.arange(n))), (n_groups * FOLDS, n))
        self.n = np.asarray(self.matrix.sum(axis=1)).reshape(*self.shape, 1)
        self.few = (self.n.sum(axis=1) < least)[:, None]  # groups that have the mean of all rows

    def statistic(self, Y: Floats, strength: float) -> Floats:
        """(groups, q) the shrunk means of numbers (n, q)."""
        mean = Y.mean(axis=0)
        sums, n = (self.matrix @ Y).reshape(*self.shape, -1).sum(axis=1), self.n.sum(axis=1)
        return np.where(self.few[:, 0], mean, (sums + strength * mean) / np.maximum(n + strength, 1.0))

    def out_of_fold(self, Y: Floats) -> tuple[float, Floats]:
        """The strength of least squared error on other folds than those of the means, and the means (n, q) there."""
        mean, scale = Y.mean(axis=0), _precision(Y)
        sums = (self.matrix @ Y).reshape(*self.shape, -1)
        outside, n = sums.sum(axis=1, keepdims=True) - sums, self.n.sum(axis=1, keepdims=True) - self.n
        best = np.inf, STRENGTHS[0], Y
        for strength in STRENGTHS:
            means = np.where(self.few, mean, (outside + strength * mean) / (n + strength))
            values = means[self.code, self.folds]
            error = float((((Y - values) ** 2) @ scale).sum())
            if error < best[0]:
                best = error, strength, values
        return best[1:]

    def differ(self, Y: Floats, beside: Floats) -> bool:
        """Whether some of the numbers (n, q), or their products with the features ``beside`` (n, s), differ between
        groups by more than chance would: an F test of their ranks, which single large numbers do not sway.
        """
        Y = np.concatenate([Y, *(Y * beside[:, [k]] for k in range(beside.shape[1]))], axis=1)
        known = ~self.few[self.code, 0, 0]
        code = self.code[known]
        counts = np.bincount(code)
        n, groups = len(code), np.count_nonzero(counts)
        if groups < 2 or n <= groups:
            return False
        least = 1.0
        for column in Y[known].T:
            ranks = rankdata(column)
            means = np.bincount(code, ranks) / np.maximum(counts, 1)
            between = float((counts * (means - ranks.mean()) ** 2).sum()) / (groups - 1)
            within = float(((ranks - means[code]) ** 2).sum()) / (n - groups)
            least = min(least, float(fdtrc(groups - 1, n - groups, between / within)) if within > 0.0 else 0.0)
        return least * Y.shape[1] < CHANCE


def _rest(Z: Floats, target: NDArray[Any]) -> tuple[list[Floats], Floats]:
    """For each output the numbers (n, q) less what other features predict of them on other folds; and some of these
    features, beside which levels may matter.

    Of a linear model and, of few rows, a tree the better one counts, and of many features those that go along with an
    output most: against less noise, weaker effects of levels show.
    """
    outputs = [_numbers_of(output)[1] for output in target.T]
    n = len(Z)
    spread = np.where(np.ptp(Z, axis=0) > 0.0, Z.std(axis=0), 0.0)  # the rounding of a constant is none
    Z, spread = Z[:, spread > 0.0], spread[spread > 0.0]
    if not FEWEST_ROWS <= n <= MOST_ROWS or not Z.shape[1]:
        return [output - output.mean(axis=0) for output in outputs], np.zeros((n, 0))
    Y = np.concatenate(outputs, axis=1)
    scale = _precision(Y)
    along = np.abs((Z - Z.mean(axis=0)).T @ ((Y - Y.mean(axis=0)) * np.sqrt(scale))) / spread[:, None]
    strongest = np.argsort(-along.max(axis=1), kind="stable")[:MOST_FEATURES]
    Z = (Z[:, strongest] - Z[:, strongest].mean(axis=0)) / spread[strongest]
    models: list[Any] = [Ridge(1.0)]
    if n <= MOST_ROWS_OF_TREES:
        models.append(DecisionTreeRegressor(max_depth=6, min_samples_leaf=5, random_state=0))
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    with config_context(enable_metadata_routing=False, transform_output="default"):
        rests = [
            Y - Y.mean(axis=0),
            *(Y - cross_val_predict(model, Z, Y, cv=folds).reshape(Y.shape) for model in models),
        ]
    ends = np.cumsum([0, *(output.shape[1] for output in outputs)])
    parts = [slice(first, last) for first, last in pairwise(ends)]
    left = [
        min((rest[:, part] for rest in rests), key=lambda one: float((one.var(axis=0) * scale[part]).sum()))
        for part in parts
    ]
    return left, Z[:, :MOST_BESIDE]


def _numbers_of(output: NDArray[Any]) -> tuple[list[str], Floats]:
    """The numbers (n, q) whose means are the statistics of an output, and their names: the target, or the shares of
    classes, of two that of the second.
    """
    if output.dtype.kind == "f" or type_of_target(output) not in ("binary", "multiclass"):
        return ["mean"], output.astype(np.float64)[:, None]
    classes, code = np.unique(output, return_inverse=True)
    shares = np.equal.outer(code, np.arange(len(classes))).astype(np.float64)
    return (["mean"], shares[:, -1:]) if len(classes) <= 2 else ([level_text(c) for c in classes], shares)


def _folds(code: NDArray[np.intp], random_state: Any) -> NDArray[np.intp]:
    """(n,) the fold of each row, drawn so that every level has rows in all folds."""
    order = np.random.default_rng(random_state).permutation(len(code))
    order = order[np.argsort(code[order], kind="stable")]
    folds = np.empty(len(code), np.intp)
    folds[order] = np.arange(len(code)) % FOLDS
    return folds


def _precision(Y: Floats) -> Floats:
    """(q,) the inverse of each variance, so that outputs of all units count alike."""
    variance = Y.var(axis=0)
    inverse: Floats = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0.0)
    return inverse


def columns_of(X: Any, categorical_features: Any) -> tuple[Column, ...]:
    """Names and kinds of the columns of a table; columns of an array are called x0, x1, ..."""
    names = table_names(X)
    if names is None:
        texts = [f"x{j}" for j in range(X.shape[1])]
        columns = [X[:, j] for j in range(X.shape[1])]
    else:
        frame = narwhal(X)
        texts = [str(name) for name in names]
        columns = [frame.get_column(name) for name in names]
    kinds = [kind_of(column, name) for column, name in zip(columns, texts, strict=True)]
    zones = [zone_of(column) if kind == "date" else "" for column, kind in zip(columns, kinds, strict=True)]
    categories = chosen(categorical_features, texts)
    return tuple(
        Column(name, "code" if kind == "number" else "category") if j in categories else Column(name, kind, zone)
        for j, (name, kind, zone) in enumerate(zip(texts, kinds, zones, strict=True))
    )


def chosen(categorical_features: Any, names: Sequence[str]) -> set[int]:
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
    X = as_given(X)
    if is_table(X):
        check_names(X)
        validated(estimator, _as_named(X), reset=reset, skip_check_array=True)
        if X.shape[0] < 1:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required")
        return X
    kind = getattr(X, "dtype", None)
    numeric = isinstance(kind, np.dtype) and kind.kind in "biuf"
    return validated(
        estimator, X, reset=reset, dtype="numeric" if numeric else None, ensure_all_finite="allow-nan", order="C"
    )


def _as_named(X: Any) -> Any:
    """What scikit-learn reads the names of columns from: it does not find them in every library's tables."""
    if hasattr(X, "iloc"):
        return X
    import pandas as pd  # other tables do without

    return pd.DataFrame(columns=pd.Index(table_names(X) or []))


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
    except (TypeError, ValueError, OverflowError):
        return all(isinstance(v, ENTRIES) or is_missing(v) for v in array.flat)


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
        signs = list(monotonic_cst) if np.ndim(monotonic_cst) else [monotonic_cst]
    if len(signs) != n_columns or any(sign not in (-1, 0, 1) for sign in signs):
        raise ValueError(f"{rule}, of which there are {n_columns}; got {monotonic_cst!r}")
    if encoder is None:
        return tuple(map(int, signs))
    for column, sign in zip(encoder.encoding_.columns, signs, strict=True):
        if sign and column.is_category:
            raise ValueError(f"monotonic_cst must be 0 for categories; got {sign} for {column.name!r}")
    return tuple(int(signs[f.column]) if isinstance(f, Value) else 0 for f in encoder.encoding_.features)
