"""The base class of all estimators: the options that they share, `fit`, and what a fitted tree answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from opttree.estimators.recipe import Recipe, is_printed
from opttree.estimators.steps.fit import check, fit
from opttree.estimators.steps.parts import PASSES, as_rows, fit_parts
from opttree.estimators.steps.rows import read_new
from opttree.estimators.steps.state import state, transformer_of
from opttree.estimators.steps.stream import fit_chunks, partial_fit
from opttree.model.convert import Model, as_tree, names_of, scores_of, split_names
from opttree.model.forest import Forest
from opttree.model.late import late
from opttree.model.tree import Tree
from opttree.runtime.options import Options, option
from opttree.statement import TreeProblem
from opttree.tables.chunks import ROWS, Chunks
from opttree.tables.encoder import TableEncoder
from opttree.tables.parts import Rows

if TYPE_CHECKING:
    from solvers import Result

Floats = NDArray[np.float64]
SAMPLE_ROWS = 50_000


@dataclass(eq=False, repr=False, kw_only=True)
class TreeEstimator(Options, BaseEstimator):
    """Base class of the estimators. A subclass is a list of options with a `Recipe`; ``splits``, ``leaves`` and
    ``loss`` of the problem are options, or class attributes.
    """

    recipe: ClassVar[Recipe]
    starts_compete: ClassVar[bool] = False  # whether the solver takes a start tree as one candidate among others
    takes_eval_set: ClassVar[bool] = False  # whether a fit may stop early by rows that it is given for this

    time_limit: float | None = option(
        None, "Seconds; the best tree so far is kept.", above=0, finite=False, words="> 0 seconds or None"
    )
    random_state: Any = option(
        None, "Int, RandomState, or None: that of `numpy.random`. A seed gives one tree for any ``n_jobs``."
    )
    n_jobs: int | None = option(
        None,
        """Threads, at most one for each core; None: as many as Numba is set to, which is all unless
        `numba.set_num_threads` was called; -1: all; -2: all but one. Idle threads sleep. A search in worker processes
        of joblib (``GridSearchCV(..., n_jobs=2)``) gives each its part of the cores, and no fit in it takes more.""",
        test=lambda n_jobs: n_jobs != 0,
        words="None or an integer other than 0",
    )
    verbose: int | bool = option(0, "1 shows a progress bar.")
    on_interrupt: Literal["raise", "keep"] = option(
        "raise",
        """After Ctrl-C the estimator holds the best tree so far, an `opttree.InterruptedFitWarning` says so, and the
        KeyboardInterrupt is raised, so that a search around the fit ends too; "keep": it is not raised.
        Before there is a tree, and while ``max_depth="cv"`` still searches, it is raised in any case.""",
    )

    categorical_features: Any = option(
        "from_dtype",
        """"from_dtype": text, and what a table calls categories; or names, numbers or a mask of the columns that are
        categories as well. Tables of pandas, polars and Arrow, and arrays, may have categories, booleans, dates and
        missing values: see `TableEncoder`, which makes numbers of them and is kept as ``encoder_``. Axis-aligned splits
        with constant leaves part the categories of a column in two and send missing values to the better side; other
        trees get indicators. With [] all tables are encoded, also of numbers alone, whose blanks in new rows then get
        the median; otherwise these are refused where training had none.""",
    )

    min_level_rows: int = option(
        5,
        """Fewest training rows of a level that a model keeps. Rarer levels of text, and those of new rows, are one
        level together.""",
        least=1,
    )
    high_cardinality: Literal["auto", "drop", "keep"] = option(
        "auto",
        """What becomes of text of many levels, or of few rows a level, see `TableEncoder`. "auto": columns whose levels
        do not predict the target, such as keys, are left out with an `opttree.TableWarning`; "drop": so are those of
        many levels with fewer than ``min_level_rows`` rows on average; "keep": none is.""",
    )

    if TYPE_CHECKING:
        tree_: Tree = field(init=False)
        result_: Result = field(init=False)
        encoder_: TableEncoder | None = field(init=False)

    # ---- fitting --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, eval_set: Any = None) -> Self:
        """Train on a table.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows. A table may have categories, dates and missing values, see ``categorical_features``. SciPy's sparse
            matrices and arrays, and DataFrames of sparse columns, stay sparse in TAO's trees, and from four million
            numbers (rows times columns) on in forests and boosted trees. `opttree.Rows`, and Dask collections, are
            tables in parts, see `fit_chunks`.
        y : array-like of shape (n,) or (n, K)
            Numbers, or labels; None where X is `opttree.Rows`.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows; by default all are 1.
        eval_set : tuple of (X, y), list or dict of such tuples, optional
            Validation rows in place of a share of the training rows, for estimators that stop early; of several, the
            last stops the fit. ``evals_result_`` then has, for each by its name ("validation_0" and so on, or that of
            the dict), "rmse" or "log_loss": of boosted trees after each tree, else of the model.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            For bad input or options, in one sentence, before any work starts.
        MemoryError
            If the fit would take far more memory than there is, see `opttree.methods.costs`.
        """
        rows = as_rows(X, y, sample_weight)
        if rows is None:
            fit(self, X, y, sample_weight, eval_set)
        elif eval_set is not None:
            raise ValueError(f"eval_set must be None for a table in parts; got {type(eval_set).__name__}")
        else:
            fit_parts(self, rows, passes=PASSES if self.recipe.parts else 1, sample_rows=SAMPLE_ROWS)
        return self

    def state(self, X: Floats, y: NDArray[Any], sample_weight: Floats | None = None) -> tuple[TreeProblem, Any]:
        """The `TreeProblem` that `fit` solves, on scaled features (and outputs in regression). Features on whose order
        alone the tree depends, those of axis-aligned splits over constant leaves, are left as they are.

        The estimator is not changed.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Rows of numbers.
        y : ndarray of shape (n,) or (n, K)
            Numbers, or labels.
        sample_weight : ndarray of shape (n,), optional
            Weights >= 0 of the rows; by default all are 1.

        Returns
        -------
        problem : TreeProblem
            The statement.
        scaling : tuple of (x_mean, x_scale, y_mean, y_scale)
            Its units: ``tree.unscale(*scaling)`` transforms a tree of the problem to raw data.
        """
        check(self)
        weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        return state(self, X, y, weight, transformer=transformer_of(self, X, weight))

    @available_if(lambda self: self.recipe.stream is not None or bool(self.recipe.parts))
    def fit_chunks(
        self,
        source: Any,
        *,
        target: str | list[str] | None = None,
        epochs: int = 1,
        sample_rows: int = SAMPLE_ROWS,
        chunk_rows: int = ROWS,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Train on a table of any length: a random sample initialises the model, then all rows train it.

        GET and SDTR learn chunk by chunk; GET of `opttree.Rows`, and all others, go on by passes over all rows, of
        which each chunk sends sums: their source is `opttree.Rows` or what it is made of, which can be read in any
        order.

        Parameters
        ----------
        source : path, pair of arrays, Dask DataFrame or function
            The rows, see `opttree.chunks.Chunks` and `opttree.Rows`.
        target : str or list of str, optional
            The target columns, see `opttree.chunks.Chunks`; None for `opttree.Rows`, which name their own.
        epochs : int, default 1
            Passes over all rows, after those that draw the sample; >= 1. Boosted trees take as many as they need.
        sample_rows : int, default 50000
            Rows of the sample with which the model begins; of GET and SDTR it also selects the best one.
        chunk_rows : int, default 65536
            Largest number of rows in a chunk; the parts of `opttree.Rows` stay as they are.
        checkpoint : path or None, default None
            A file that is written after each pass, and from which a later call goes on; of trees of TAO. It holds the
            sample, and is read by `pickle`: open only files of your own.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.GETRegressor(2, random_state=0)
        >>> model = model.fit_chunks(lambda: iter([(X[:200], y[:200]), (X[200:], y[200:])]), sample_rows=300)
        >>> model.n_rows_
        442
        """
        for name, value in (("epochs", epochs), ("sample_rows", sample_rows), ("chunk_rows", chunk_rows)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1; got {value!r}")
        if isinstance(source, Rows) and target is not None:
            raise ValueError(f"target must be None for opttree.Rows, which name their own; got {target!r}")
        if isinstance(source, Rows) or self.recipe.stream is None:
            rows = source if isinstance(source, Rows) else Rows(source, target, rows=chunk_rows)
            fit_parts(self, rows, passes=int(epochs), sample_rows=int(sample_rows), checkpoint=checkpoint)
        elif checkpoint is not None:
            raise ValueError(f"checkpoint must be None for {type(self).__name__}; got {str(checkpoint)!r}")
        else:
            fit_chunks(self, Chunks(source, target, chunk_rows), epochs, sample_rows, stacklevel=2)
        return self

    @available_if(lambda self: self.recipe.stream is not None)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Train on more rows. The first call is a fit; rows of it, and with SDTR of later parts, are used to select the
        best model. Where no split came of them, as of rows of one outcome, the next call is the first.

        Parameters
        ----------
        X : array-like or SciPy sparse table of shape (m, p)
            Rows; sparse ones are made dense, part by part.
        y : array-like of shape (m,) or (m, K)
            Numbers, or labels.
        classes : array-like, optional
            For the first call of a classifier: all labels that will occur; by default those of ``y``.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            For other columns, outputs or classes than those of the first call, and for options that have changed, but
            those of running and predicting: ``n_jobs``, ``device``, ``verbose``, ``time_limit``, ``on_interrupt``,
            ``prediction``.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.GETRegressor(2, random_state=0)
        >>> for part in (slice(0, 200), slice(200, 442)):
        ...     model = model.partial_fit(X[part], y[part])
        >>> model.score(X, y) > 0.3
        True
        """
        partial_fit(self, X, y, classes)
        return self

    # ---- what was fitted ------------------------------------------------------------------------------------------

    @property
    def _model(self) -> Model:
        """The fitted model."""
        return self.tree_

    def _validated(self, X: Any) -> Any:
        """The features of new rows, as the model takes them; NotFittedError before `fit`."""
        check_is_fitted(self, "result_")
        Z, transformer = read_new(self, X), getattr(self, "transformer_", None)
        return Z if transformer is None else transformer.transform(Z)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        tags.input_tags.sparse = self.recipe.sparse_from is not None
        return tags

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Leaf of each row, numbered as in ``tree_``.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of int of shape (n,)
            Leaf nodes.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
        >>> model.apply(X[:3]).tolist()                  # leaves, numbered after the branches
        [6, 3, 6]
        """
        X = self._validated(X)
        return self.tree_.apply(X)

    def decision_path(self, X: Any) -> Any:
        """Nodes on the path of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n, nodes)
            1 for each node on the path of a row.
        """
        X = self._validated(X)
        return self.tree_.decision_path(X)

    def to_text(self, feature_names: Sequence[str] | None = None, most_terms: int | None = None) -> str:
        """The tree as text, with the feature names seen in `fit`.

        Parameters
        ----------
        feature_names : sequence of str, optional
            Names of the features in their place, such as the words of a sparse table.
        most_terms : int, optional
            Terms of a split or of a linear leaf that are shown, the largest; by default all.

        Returns
        -------
        str
            Lines of text.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
        >>> model.to_text().splitlines()[0]
        'if x8 <= -0.00105384:'
        """
        check_is_fitted(self, "result_")
        if feature_names is None and (self.tree_.encoding is None or scores_of(self) is not None):
            feature_names = split_names(self, names_of(self, self.tree_))
        return self.tree_.to_text(feature_names, most_terms=most_terms)

    def to_html(self, **options: Any) -> str:
        """The fitted model as an HTML page of branches that open and close.

        Parameters
        ----------
        **options : object
            Options of `opttree.export.to_html`.

        Returns
        -------
        str
            The page.
        """
        check_is_fitted(self, "result_")
        page: str = late("html")(self, **options)
        return page

    def explain(self, row: Any) -> str:
        """How the model comes to its answer for one row, in words.

        Parameters
        ----------
        row : DataFrame or array-like of shape (p,) or (1, p)
            One row.

        Returns
        -------
        str
            What `opttree.explain.path` says of it.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
        >>> print(model.explain(X[:1]))
        target = 230
          x8 > -0.00105384  (x8 = 0.0199075)
          x2 > 0.0180448  (x2 = 0.0616962)
          leaf 6: 230
        """
        check_is_fitted(self, "result_")
        words: str = late("explain")(self, row)
        return words

    def get_depth(self) -> int:
        """Depth of the fitted tree."""
        check_is_fitted(self, "result_")
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """Number of leaves of the fitted tree."""
        check_is_fitted(self, "result_")
        return self.tree_.n_leaves


class ForestEstimator(TreeEstimator):
    """Base class of estimators that hold a ``forest_``; ``tree_`` is its tree if there is only one."""

    if TYPE_CHECKING:
        forest_: Forest

    @property
    def _model(self) -> Forest:
        return self.forest_

    @property
    def tree_(self) -> Tree:  # type: ignore[override]
        """The only tree of the forest; AttributeError if there are several."""
        check_is_fitted(self, "forest_")
        if len(self.forest_.trees) > 1:
            raise AttributeError(
                f"tree_ is for a single tree; this is a forest of {len(self.forest_.trees)}: see forest_"
            )
        return as_tree(self.forest_)


COMMON = frozenset(f.name for f in fields(TreeEstimator))


def build_solver(options: Any, kind: type[Any], /, **given: Any) -> Any:
    """Build a solver of class ``kind``. Each of its options is, in this order: the value that is ``given``; the
    estimator's option of that name, unless it is None and is so by default; the solver's default, or the paper's under
    ``preset="paper"``.
    """
    defaults = {f.name: f.default for f in fields(options) if f.name not in COMMON}
    shared = {f.name: getattr(options, f.name) for f in fields(kind) if f.name in defaults and f.name not in given}
    shared = {name: value for name, value in shared.items() if value is not None or defaults[name] is not None}
    usual = kind.paper() if is_printed(options) and hasattr(kind, "paper") else kind()
    return replace(usual, **shared, **given)
