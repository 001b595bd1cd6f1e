"""Base classes of all estimators: options, scaling of the data, unscaling of the model, prediction and text."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from opttree.estimators import bridge
from opttree.estimators.running import as_seed, progress
from opttree.estimators.scaling import Scaling, moments, outputs_name
from opttree.explain.importance import importances
from opttree.methods import costs
from opttree.model.convert import Model
from opttree.model.late import late
from opttree.model.tree import Tree
from opttree.runtime import devices
from opttree.runtime.clock import now
from opttree.runtime.compiling.ahead import compiled_ahead
from opttree.runtime.interrupts import InterruptedFitWarning, noted_interrupts
from opttree.runtime.options import Options, option
from opttree.runtime.threads import count, limited
from opttree.statement import L1, L2, TreeProblem
from opttree.statement.numbers import check_numbers, in_same_order
from opttree.tables.checks import check_columns
from opttree.tables.encoder import TableEncoder, as_array, check_table, needs_encoding, signs_of
from opttree.tables.row_weights import check_sample_weight
from opttree.tables.weights import check_weight

if TYPE_CHECKING:
    from solvers import Result, Solver

Floats = NDArray[np.float64]
Penalties = tuple[L1 | L2, ...]


@dataclass(eq=False, repr=False, kw_only=True)
class TreeEstimator(Options, BaseEstimator):
    """Base class of the estimators. Subclasses define ``_solver()`` and `_depth_for`, and ``splits``, ``leaves`` and
    ``loss`` of the problem, as options or as class attributes.
    """

    time_limit: float | None = option(
        None, "Seconds; the best tree so far is kept.", above=0, finite=False, words="> 0 seconds or None"
    )
    random_state: Any = option(None, "Int or RandomState. The same seed gives the same tree for any ``n_jobs``.")
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

    if TYPE_CHECKING:
        tree_: Tree = field(init=False)
        result_: Any = field(init=False)
        encoder_: TableEncoder | None = field(init=False)

    def _solver(self, problem: TreeProblem) -> Solver:
        raise NotImplementedError(f"{type(self).__name__} must define _solver")

    def _depth_for(self, n_samples: int) -> int:
        """Depth of the problem."""
        raise NotImplementedError(f"{type(self).__name__} must define _depth_for")

    def _check_options(self) -> None:
        """Check the options' own rules; the problem and the solver check the options they receive."""
        self.check_options()
        devices.require(getattr(self, "device", "cpu"))  # "cpu" is always available

    def _made(self, kind: type[Any], /, **given: Any) -> Any:
        """A solver of class ``kind``; options that are not ``given`` are taken from the estimator by name, but for
        those that are None, as by default: these are the solver's own, or its paper's under ``preset="paper"``.
        """
        own = {f.name: f.default for f in fields(self)}
        own = {name: default for name, default in own.items() if name not in {f.name for f in fields(TreeEstimator)}}
        shared = {f.name: getattr(self, f.name) for f in fields(kind) if f.name in own and f.name not in given}
        shared = {name: value for name, value in shared.items() if value is not None or own[name] is not None}
        usual = kind.paper() if self._as_printed and hasattr(kind, "paper") else kind()
        return replace(usual, **shared, **given)

    @property
    def _as_printed(self) -> bool:
        """Whether the method is to be its paper's."""
        return getattr(self, "preset", "default") == "paper"

    @property
    def _min_leaf(self) -> int:
        """Fewest rows in a leaf."""
        return 1

    # ---- fitting --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, eval_set: Any = None) -> Self:
        """Train on ``X (n, p)`` and numbers, or labels, ``y (n,)`` or ``(n, K)``, with weights ``(n,)`` >= 0.

        X may be a table with categories, dates and missing values, see ``categorical_features``. Estimators that stop
        early take ``eval_set=(X, y)``, validation rows in place of a share of the training rows.

        Raises
        ------
        ValueError
            For bad input or options, in one sentence, before any work starts.
        MemoryError
            If the fit would take far more memory than there is, see `opttree.methods.costs`.
        """
        self._set_judge(eval_set)
        self._train(X, y, sample_weight)
        return self

    def _train(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[TreeProblem, Scaling]:
        """Check the input and fit; regression and classification define it."""
        raise NotImplementedError(f"{type(self).__name__} must define _train")

    def _fit(self, X: Floats, y: NDArray[Any], sample_weight: ArrayLike | None) -> tuple[TreeProblem, Scaling]:
        """Fit; after Ctrl-C, warn that the model is the best so far and re-raise unless ``on_interrupt`` is "keep".

        Returns the problem that was solved, and its scaling.
        """
        with noted_interrupts() as interrupted, compiled_ahead(self):
            stated = self._fit_noted(X, y, sample_weight)
        if interrupted():
            self._conclude_interrupted(5)
        return stated

    def _conclude_interrupted(self, stacklevel: int) -> None:
        """Warn, at the caller so many frames up, and raise KeyboardInterrupt unless ``on_interrupt`` is "keep"."""
        try:
            warnings.warn(
                f"{type(self).__name__} was interrupted: its model is the best so far, not the finished one",
                InterruptedFitWarning,
                stacklevel=stacklevel,
            )
        finally:  # even if warnings are errors, which a hyperparameter search would count as a failed fit
            if self.on_interrupt == "raise":
                raise KeyboardInterrupt

    def _forget(self, *names: str) -> None:
        """Drop attributes of an earlier fit."""
        for name in names:
            self.__dict__.pop(name, None)

    def _fit_noted(self, X: Floats, y: NDArray[Any], sample_weight: ArrayLike | None) -> tuple[TreeProblem, Scaling]:
        """State the problem, solve it, and transform the tree back to raw features."""
        weight = check_sample_weight(sample_weight, X)
        began = now()
        self._forget("best_depth_", "cv_results_", "validation_loss_")
        self._check_options()
        depth = self._depth_for(len(X))
        if (reason := costs.lack_of_memory(self, max(int(np.count_nonzero(weight)), 1), X.shape[1], depth)) is not None:
            raise MemoryError(reason)
        seed = as_seed(self.random_state)
        self._choose_depth(X, y, weight, seed)
        problem, scaling = self._state_of_fit(X, y, weight)
        self._judge = self._stated_judge(problem, scaling)
        left = None if self.time_limit is None else max(self.time_limit - (now() - began), 1e-3)
        self.result_ = self._solve(problem, self._start(problem, scaling), seed, left)
        self.n_iter_ = self.result_.n_steps
        self._keep(problem, scaling, X, weight)
        self._describe(X, weight)
        self._forget("_judge", "_table")
        return problem, scaling

    def _describe(self, X: Floats, weight: Floats) -> None:
        """Give the model the names of its features and their encoding, and find the importances of the columns."""
        encoder = getattr(self, "encoder_", None)
        own = "forest_" if "forest_" in vars(self) else "tree_"
        model = getattr(self, own)
        if encoder is not None:
            setattr(self, own, model.with_names(None, encoder.encoding_))
        elif hasattr(self, "feature_names_in_") and model.n_features == self.n_features_in_:
            setattr(self, own, model.with_names(self.feature_names_in_))
        self.feature_importances_ = self._importances(X, weight)

    def _importances(self, X: Floats, weight: Floats) -> Floats:
        """Importance of each feature of the table (p,), see `opttree.interpret.importances`."""
        return self._of_columns(importances(self._model, X, weight))

    def _of_columns(self, found: Floats) -> Floats:
        """Importances of the features, added up for each column of the table."""
        encoder = getattr(self, "encoder_", None)
        if encoder is None:
            return found
        columns: Floats = np.zeros(len(encoder.encoding_.columns))
        np.add.at(columns, encoder.encoding_.sources, found)
        return columns

    @property
    def _validation_rows(self) -> TreeProblem | None:
        """The problem on the rows of ``eval_set``, while a fit runs."""
        rows: TreeProblem | None = vars(self).get("_judge")
        return rows

    takes_eval_set = False  # whether a fit may stop early by rows that it is given for this

    def _set_judge(self, eval_set: Any) -> None:
        """Keep the validation rows of a fit, ``(X, y)``; ValueError where they have no use."""
        self._eval_set = None
        if eval_set is None:
            return
        if not self.takes_eval_set:
            raise ValueError(f"eval_set is for estimators that stop early; got it for {type(self).__name__}")
        if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
            raise ValueError(f"eval_set must be a pair (X, y) of validation rows; got {type(eval_set).__name__}")
        self._eval_set = eval_set

    def _stated_judge(self, problem: TreeProblem, scaling: Scaling) -> TreeProblem | None:
        """The problem on the validation rows of this fit, or None."""
        given, self._eval_set = getattr(self, "_eval_set", None), None
        if given is None:
            return None
        X, y = self._prepared(given[0]), np.asarray(given[1])
        check_consistent_length(X, y)
        if y.reshape(len(y), -1).shape[1] != problem.Y.shape[1]:
            raise ValueError(f"eval_set must have a y of {problem.Y.shape[1]} outputs; got {y.shape}")
        if problem.classes is None:
            check_numbers("y", y := y.astype(np.float64))
            y = scaling.outputs(y)
        elif not np.isin(y, problem.classes).all():
            raise ValueError(f"eval_set must have classes of y, {problem.classes.tolist()}; got others")
        return problem.with_rows(scaling.features(self._transformed(X)), y)

    def _transformed(self, X: Floats) -> Floats:
        """The features before they are scaled."""
        return X

    @property
    def _for_features(self) -> dict[str, Any]:
        """Options that speak of the columns of a table, for a copy of this estimator that is fitted to features."""
        signs = {} if getattr(self, "monotonic_cst", None) is None else {"monotonic_cst": self._signs()}
        return {"categorical_features": "from_dtype", **signs}

    def _signs(self) -> tuple[int, ...]:
        """``monotonic_cst`` for each feature."""
        me: Any = self
        return signs_of(me.monotonic_cst, getattr(self, "feature_names_in_", None), self.n_features_in_, me.encoder_)

    def _choose_depth(self, X: Floats, y: NDArray[Any], weight: Floats, seed: int | None) -> None:
        """Choose the depth if it is not given."""

    def _state_of_fit(self, X: Floats, y: NDArray[Any], weight: Floats) -> tuple[TreeProblem, Scaling]:
        """`state` as `fit` calls it; subclasses may keep fitted transformers."""
        return self.state(X, y, weight)

    def state(self, X: Floats, y: NDArray[Any], sample_weight: Floats | None = None) -> tuple[TreeProblem, Scaling]:
        """The `TreeProblem` that `fit` solves, on standardised features (and outputs in regression). Features on whose
        order alone the tree depends, those of axis-aligned splits over constant leaves, are left as they are.

        The estimator is not changed.

        Returns
        -------
        problem, (x_mean, x_scale, y_mean, y_scale)
            ``tree.unscale(x_mean, ...)`` transforms a tree of the problem to raw data.
        """
        self._check_options()
        if X.shape[0] < 2:
            raise ValueError(f"X must have at least two rows; got n_samples = {X.shape[0]}")
        weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        check_weight(weight)
        weight = self._weighted(y, weight)
        units = np.zeros(1), np.ones(1)
        if is_regressor(self):
            units = self._output_units(y.reshape(y.shape[0], -1), weight)
        scaling = Scaling(*self._feature_units(X, weight), *units)
        me: Any = self  # an option of some estimators and a class attribute of others
        Z = scaling.features(X)
        if me.splits == "axis":
            in_same_order(X, Z)
        problem = TreeProblem(
            Z,
            scaling.outputs(y) if is_regressor(self) else y,
            depth=self._depth_for(int(np.count_nonzero(weight))),
            splits=me.splits,
            leaves=self._stated_leaves,
            loss=self._stated_loss(scaling.y_scale),
            sample_weight=weight,
            penalties=self._penalties(weight, X.shape[1]),
            min_leaf=int(self._min_leaf),
        )
        return problem, scaling

    @property
    def _stated_leaves(self) -> Any:
        """The kind of the problem's leaves."""
        me: Any = self
        return me.leaves

    def _stated_loss(self, y_scale: Floats) -> Any:
        """The loss of the problem, whose outputs are in units of ``y_scale``."""
        me: Any = self
        return me.loss

    def _weighted(self, y: NDArray[Any], weight: Floats) -> Floats:
        """The weights (n,) of the problem's rows, from those of `fit`."""
        return weight

    def _feature_units(self, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Offset and unit of each feature for the solver; as they are where nothing but their order matters."""
        return (np.zeros(X.shape[1]), np.ones(X.shape[1])) if self._ordered else moments(X, weight)

    def _output_units(self, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Offset and unit of each output for the solver."""
        return moments(Y, weight, outputs_name(Y))

    def _penalties(self, weight: Floats, n_features: int) -> Penalties:
        """Penalties of the problem."""
        return ()

    def _start(self, problem: TreeProblem, scaling: Scaling) -> Tree | None:
        """The start tree, scaled to the problem."""
        return None

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Result:
        """Solve the problem; ``watch(step, trace)`` sees every step."""
        return self._run(self._solver(problem), problem, start, seed, time_limit, watch)

    def _run(
        self,
        solver: Solver,
        problem: TreeProblem,
        start: Tree | None,
        seed: int | None,
        time_limit: float | None,
        watch: Any,
    ) -> Result:
        with limited(count(self.n_jobs)), progress(self.verbose, f"{type(self).__name__}", watch) as callback:
            return bridge.solvers.solve(
                problem, solver, start=start, time_limit=time_limit, random_state=seed, callback=callback
            )

    def _keep(self, problem: TreeProblem, scaling: Scaling, X: Floats, weight: Floats) -> None:
        """Transform the result's model to raw features and keep it for prediction."""
        raise NotImplementedError(f"{type(self).__name__} must define _keep")

    @property
    def _merit(self) -> float:
        """The number by which fits of the same problem are compared; lower is better."""
        return float(self.result_.objective)

    # ---- what was fitted ------------------------------------------------------------------------------------------

    @property
    def _model(self) -> Model:
        """The fitted model."""
        return self.tree_

    @property
    def _ordered(self) -> bool:
        """Whether categories are ordered, and missing values put at either end, for axis-aligned splits alone."""
        me: Any = self
        return me.splits == "axis" and me.leaves == "constant"

    def _checked(self, X: Any, y: Any, sample_weight: ArrayLike | None, **how: Any) -> tuple[Floats, NDArray[Any]]:
        """Rows and targets of a fit as arrays; a table of more than numbers is encoded by a new ``encoder_``."""
        self._forget("_table")
        if not needs_encoding(X, self.categorical_features):
            self.encoder_ = None
            X = as_array(X)
            check_columns(X)
            X, y = validate_data(self, X, y, dtype=np.float64, order="C", **how)
            check_numbers("X", X)
            return X, y
        y = validate_data(self, y=y, **how)
        X = check_table(self, X, reset=True)
        check_consistent_length(X, y, sample_weight)
        encoder = TableEncoder(categorical_features=self.categorical_features, ordered=self._ordered)
        Z = self._encoded(encoder, X, y, sample_weight)
        check_numbers("X", Z)
        before = getattr(self, "encoder_", None)
        goes_on = getattr(self, "warm_start", False) and hasattr(self, "forest_")
        if goes_on and (before is None or before.encoding_ != encoder.encoding_):
            raise ValueError("warm_start needs the table of the first fit; got one of another encoding")
        self.encoder_, self._table = encoder, X
        return Z, y

    def _encoded(self, encoder: TableEncoder, X: Any, y: NDArray[Any], sample_weight: ArrayLike | None) -> Floats:
        """The features of the training rows, by an encoder that learns from them."""
        found: Floats = encoder.fit_transform(
            X, y.astype(np.float64) if is_regressor(self) else codes_of_labels(y), sample_weight
        )
        return found

    def _validated(self, X: Any) -> Floats:
        check_is_fitted(self, "result_")
        return self._prepared(X)

    def _prepared(self, X: Any) -> Floats:
        """New rows as arrays of features."""
        if getattr(self, "encoder_", None) is not None:
            Z = self.encoder_.encoding_.transform(check_table(self, X, reset=False))  # type: ignore[union-attr]
        else:
            X = as_array(X)
            check_columns(X)
            Z = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        check_numbers("X", Z)
        return Z

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Leaf node of each row, numbered as in ``tree_``: (n,) int.

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
        """Sparse indicator matrix (n, nodes) of the nodes on each row's path."""
        X = self._validated(X)
        return self.tree_.decision_path(X)

    def to_text(self) -> str:
        """The tree as text, with the feature names seen in `fit`.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
        >>> model.to_text().splitlines()[0]
        'if x8 <= -0.001054:'
        """
        check_is_fitted(self, "result_")
        if getattr(self, "encoder_", None) is not None:
            return self.tree_.to_text()
        return self.tree_.to_text(getattr(self, "feature_names_in_", None))

    def explain(self, row: Any) -> str:
        """How the model comes to its answer for one row, in words: see `opttree.explain.path`.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
        >>> print(model.explain(X[:1]))
        target = 230
          x8 > -0.001054  (x8 = 0.01991)
          x2 > 0.01804  (x2 = 0.0617)
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


def codes_of_labels(y: NDArray[Any]) -> NDArray[np.intp]:
    """The number of each label among the sorted ones of its output: ``y (n,)`` or ``(n, M)``."""
    if np.ndim(y) == 2:  # of objects, numbers and texts are told apart in each output
        return np.stack([codes_of_labels(np.array(output.tolist())) for output in y.T], axis=1)
    return np.unique(y, return_inverse=True)[1]
