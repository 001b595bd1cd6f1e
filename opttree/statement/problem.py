"""The statement of the problem: the data, the feasible trees, and the objective by which trees are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels import records
from opttree.kernels.losses import codes
from opttree.kernels.passes import reduced
from opttree.model.convert import as_model
from opttree.model.forest import Forest
from opttree.model.structure import read_only, writable
from opttree.model.tree import LINKS, Tree, replace as with_fields
from opttree.runtime.words import shown
from opttree.statement.constraints import Constraint, LeafConstraint, MaxSplits, MinLeaf
from opttree.statement.copies import different_rows
from opttree.statement.joint_leaves import NoAnswersError, fit_jointly
from opttree.statement.losses import NAMED, Loss
from opttree.statement.numbers import (
    LARGEST_SINGLE,
    NUMBERS,
    SMALLEST,
    in_same_order,
    orders_of,
    ranks_of,
)
from opttree.statement.penalties import L1, L2, FeatureL1, L2Constants, Penalty, SplitPrice, scaled
from opttree.statement.pruning import with_splits
from opttree.tables.numbers import check_numbers
from opttree.tables.weights import check_weight
from opttree.wide import leaves as wide, sparse

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TreeProblem:
    """Minimise over trees T:  ``(1 / sum w) sum_i w_i loss(y_i, T(x_i))  +  sum of penalties(T)``.

    A row goes left where ``a . x <= b`` in double precision. Values that differ are told apart, however close they are:
    a bound of an exact solver for axis-aligned splits is for thresholds between any two different numbers of a column.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Numbers of at most 1e150 in size; the columns of a DataFrame give the features their names. A matrix or an array
        of SciPy's sparse formats stays sparse, in compressed rows; solvers that need it dense refuse it.
    y : array-like of shape (n,) or (n, K)
        Such numbers for a regression loss; labels, of shape (n,), for a classification loss.
    depth : int
        Largest depth of the tree, >= 0.
    splits : {"oblique", "axis"}, default "oblique"
        Splits on any hyperplane, or on one feature.
    leaves : {"constant", "linear"}, default "constant"
        Kind of the leaves. Classification leaves hold class frequencies, linear ones softmax scores.
    loss : str or Loss, default "squared"
        "squared" (summed over the K outputs), "absolute" (same), "zero_one", or "log" (capped at ``-log(1e-6)`` per
        row, so that one row in a pure leaf of another class does not make the mean loss infinite), "cost" (y (n, K)
        are the costs of K actions, of which each leaf chooses one); or an
        `opttree.losses.Loss`, such as ``Quantile(0.9)`` or one of your own, with constant leaves.
    sample_weight : array-like of shape (n,) or None, default None
        Weights, >= 0; None: all equal. Rows of weight zero are left out.
    penalties : sequence of Penalty, default ()
        Terms added to the mean loss: `L1`, `L2`, `SplitPrice`, or anything with ``value(tree)``. Strengths are in units
        of the mean loss; the alpha of the TAO paper's eq. (1), a sum over rows, is ``alpha / n`` here. Penalties on
        splits act on the weights at unit length, since scaling a hyperplane does not change the routing (in the papers
        they act on the weights as stored); see `L1`. A single penalty needs no tuple.
    min_leaf : int, default 1
        Fewest rows in a nonempty leaf, >= 1; a tree of one leaf is always allowed.
    constraints : sequence of Constraint, default ()
        Side constraints, see `opttree.constraints`. `solve` refuses solvers whose trees may violate them.
    feature_names : sequence of str or None, default None
        The p names, which the trees that `solve` returns keep.

    Raises
    ------
    ValueError
        For wrong shapes, values that are not finite or too large, negative weights, or an unknown option.

    See Also
    --------
    solvers.solve : solves it
    SmoothTreeProblem, MIPTreeProblem, ExactTreeProblem : what is derived from it
    constraints : side constraints

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    >>> problem = TreeProblem(X, y, depth=1)
    >>> constant = problem.best_constant()
    >>> from solvers import TAO, solve
    >>> result = solve(problem, TAO(), random_state=0)
    >>> bool(result.objective < problem.objective(constant)), problem.violation(result.tree)
    (True, None)
    """

    X: Any = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    depth: int
    splits: str = "oblique"
    leaves: str = "constant"
    loss: str | Loss = "squared"
    sample_weight: Floats | None = field(default=None, repr=False)
    penalties: Sequence[Penalty] = ()
    min_leaf: int = 1
    constraints: Sequence[Constraint] = ()
    feature_names: Sequence[str] | None = field(default=None, repr=False)
    classes: NDArray[Any] | None = field(init=False, default=None)  # (K,) sorted labels, those of weight zero included

    def __post_init__(self) -> None:
        if isinstance(self.loss, Loss) and type(self.loss) in NAMED.values():
            object.__setattr__(self, "loss", self.loss.name)
        for name, allowed in (("splits", ("oblique", "axis")), ("leaves", ("constant", "linear")), ("loss", NAMED)):
            is_object = name == "loss" and isinstance(self.loss, Loss)
            if not is_object and getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {list(allowed)}; got {getattr(self, name)!r}")
        for name, least in (("depth", 0), ("min_leaf", 1)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < least:
                raise ValueError(f"{name} must be an integer >= {least}; got {value!r}")
        penalties = _as_tuple(self.penalties)
        for penalty in penalties:
            if isinstance(penalty, type) or not callable(getattr(penalty, "value", None)):
                raise ValueError(
                    f"penalties must be a sequence of L1, L2, SplitPrice or objects with value(tree); got {penalty!r}"
                )
        constraints = _as_tuple(self.constraints)
        for constraint in constraints:
            if not isinstance(constraint, Constraint):
                raise ValueError(
                    f"constraints must be a sequence of constraints, such as MaxSplits(3); got {shown(constraint)}"
                )
        min_leaf = max([self.min_leaf, *(c.k for c in constraints if isinstance(c, MinLeaf))])
        object.__setattr__(self, "min_leaf", int(min_leaf))
        constraints = tuple(c for c in constraints if not isinstance(c, MinLeaf))
        names = getattr(self.X, "columns", None) if self.feature_names is None else self.feature_names
        X: Any = sparse.as_table(self.X)
        if X.ndim != 2 or min(X.shape) == 0:
            raise ValueError(f"X must be a table with at least one row and one column; got shape {X.shape}")
        y = np.asarray(self.y)
        if y.ndim not in (1, 2) or y.shape[0] != X.shape[0]:
            raise ValueError(f"y must have one entry per row of X, {X.shape[0]}; got shape {y.shape}")
        check_numbers("X", X.data if sparse.is_sparse(X) else X)
        if self.is_classification and y.ndim != 1:
            raise ValueError(f"y must be one column of labels for loss={self.loss!r}; got shape {y.shape}")
        if not self.is_classification:
            try:
                y = y.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"y must hold numbers for loss={self.loss!r}; got {error}") from error
            check_numbers("y", y)
        if self.leaves != "constant" and self.loss_function.lacks("linear_leaves"):
            raise ValueError(f"leaves must be 'constant' for loss={self.loss!r}; got {self.leaves!r}")
        weight = np.ones(X.shape[0]) if self.sample_weight is None else np.asarray(self.sample_weight, np.float64)
        if weight.shape != (X.shape[0],):
            raise ValueError(f"sample_weight must have shape ({X.shape[0]},); got {weight.shape}")
        check_weight(weight)
        if self.is_classification:
            object.__setattr__(self, "classes", np.unique(y))
        elif self.loss_function.chooses and y.ndim == 2:
            object.__setattr__(self, "classes", np.arange(y.shape[1]))
        used = weight > 0.0
        if not used.all():
            constraints = _on_rows(constraints, np.flatnonzero(used), len(used))
            X, y, weight = X[used], y[used], weight[used]  # of an array in C order, a copy in C order
        self.loss_function.check(y)
        names = None if names is None else tuple(str(name) for name in names)
        if names is not None and len(names) != X.shape[1]:
            raise ValueError(f"feature_names must have {X.shape[1]} entries; got {len(names)}")
        object.__setattr__(self, "feature_names", names)
        values = {"X": X, "y": y, "sample_weight": weight, "penalties": penalties, "constraints": constraints}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for constraint in constraints:
            if (reason := constraint.refusal(self)) is not None:
                raise ValueError(f"constraints must fit the problem; {shown(constraint)}: {reason}")

    @staticmethod
    def standardized(X: Any, y: Any, **options: Any) -> TreeProblem:
        """Problem on features, and outputs of a named regression loss, in units of their deviation.

        Units are weighted standard deviations about the mean; `original` is the way back. A sparse table is not
        centred, and its units are powers of two, see `opttree.wide.sparse.units`.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Features.
        y : array-like of shape (n,) or (n, K)
            Outputs or labels.
        **options : object
            Options of the class, ``depth`` among them.

        Returns
        -------
        TreeProblem
            The problem.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> problem = opttree.TreeProblem.standardized(X, y, depth=2, splits="axis")
        >>> bool(abs(problem.X.mean()) < 1e-9), bool(abs(problem.y.std() - 1.0) < 1e-9)
        (True, True)
        """
        raw = TreeProblem(X, y, **options)
        mean, deviation = raw.moments
        unit = np.where(deviation > 0.0, deviation, 1.0)
        scaling = [mean, unit, np.zeros(raw.n_outputs), np.ones(raw.n_outputs)]
        y_scaled = raw.y
        if raw.loss_function.scales:
            middle = np.sum(raw.w[:, None] * raw.Y, axis=0)
            spread = np.sqrt(np.sum(raw.w[:, None] * np.square(raw.Y - middle), axis=0))
            scaling[2:] = [middle, np.where(spread > 0.0, spread, 1.0)]
            y_scaled = ((raw.Y - middle) / scaling[3]).reshape(raw.y.shape)
        constraints = tuple(c.in_units(scaling[3]) for c in raw.constraints)
        if raw.is_sparse:
            mean, unit = np.zeros(raw.n_features), sparse.units(raw.X)
            scaling[:2] = mean, unit
            Z = sparse.scaled(raw.X, unit)
        else:
            Z = (raw.X - mean) / unit
        if raw.splits == "axis" and not raw.is_sparse:
            in_same_order(raw.X, Z)
        scaled = raw.with_rows(Z, y_scaled, raw.sample_weight, constraints=constraints)
        scaled.__dict__.update(_scaling=tuple(scaling), _raw=raw.X)
        return scaled

    def original(self, model: Any) -> Any:
        """Model of a `standardized` problem on the data as they were given.

        An axis-aligned tree sends the rows the same ways there, whatever rounding does to its thresholds.

        Parameters
        ----------
        model : Tree, Forest, Result or estimator
            The model, or what holds one, see `opttree.model.convert.as_model`.

        Returns
        -------
        Tree or Forest
            The model on raw data.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> problem = opttree.TreeProblem.standardized(X, y, depth=2, splits="axis")
        >>> from solvers import CartInit, solve
        >>> tree = problem.original(solve(problem, CartInit()))
        >>> bool(50 < tree.predict(X).mean() < 250)              # in units of y again
        True
        """
        scaling = self.__dict__.get("_scaling")
        if scaling is None:
            raise ValueError("original is for a problem that TreeProblem.standardized made; this one has its own units")
        model, raw = as_model(model), self.__dict__.get("_raw")
        if isinstance(model, Tree) and model.is_axis_aligned and model.gate is None and raw is not None:
            return model.unscale(*scaling).routing(raw, self.leaves_of(model))
        return model.unscale(*scaling)

    # ---- the data as kernels take them ----------------------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Number of rows with positive weight, n."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.X.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether X is sparse: a SciPy array of compressed rows."""
        return sparse.is_sparse(self.X)

    @cached_property
    def loss_function(self) -> Loss:
        """The loss as an object, which says what it can do."""
        return self.loss if isinstance(self.loss, Loss) else NAMED[self.loss]()

    @property
    def is_classification(self) -> bool:
        """Whether y holds labels."""
        return self.loss_function.labels

    @property
    def _rows(self) -> records.Rows:
        """The rows as kernels take them."""
        return records.Rows(self.X, self.Y, self.w)

    @property
    def n_outputs(self) -> int:
        """K: outputs, or classes."""
        return int(self.Y.shape[1]) if self.classes is None else int(self.classes.size)

    @cached_property
    def Y(self) -> Floats:  # noqa: N802
        """(n, K) outputs, or (n, 1) class codes."""
        if self.classes is not None and self.is_classification:
            return np.searchsorted(self.classes, self.y).astype(np.float64).reshape(-1, 1)
        return np.ascontiguousarray(self.y.reshape(self.n_samples, -1))

    @cached_property
    def w(self) -> Floats:
        """(n,) weights that sum to one."""
        assert self.sample_weight is not None  # set by __post_init__
        return self.sample_weight / self.sample_weight.sum()

    @cached_property
    def presorted(self) -> NDArray[np.int32]:
        """(p, n) rows in increasing order of each feature; computed on first use."""
        return orders_of(self.X)

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """(p, n) the number of each row's value among the different values of its feature; computed on first use."""
        ranks = np.empty((self.n_features, self.n_samples), np.int32)
        width = max(NUMBERS // self.n_samples, 1)
        for first in range(0, self.n_features, width):
            here = slice(first, first + width)
            ranks[here] = ranks_of(self.X[:, here].T, self.presorted[here])
        return ranks

    @cached_property
    def sorted_values(self) -> Floats:
        """(p, n) values of each feature in increasing order; computed on first use."""
        values = np.empty((self.n_features, self.n_samples))
        for ordered, order, x in zip(values, self.presorted, self.X.T, strict=True):
            ordered[:] = x[order]
        return values

    @cached_property
    def in_order(self) -> Any:
        """What node solvers for axis-aligned splits take: `presorted` and `sorted_values`, or the `SortedColumns` of a
        sparse table; computed on first use.
        """
        return sparse.sorted_columns(self.X) if self.is_sparse else (self.presorted, self.sorted_values)

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        """(p,) weighted mean and standard deviation of each feature."""
        if self.is_sparse:
            return sparse.moments(self.X, self.w)
        w = self.w[:, None]
        mean = np.sum(w * self.X, axis=0)  # no dot product: BLAS threads and ours would compete for the cores
        return mean, np.sqrt(np.sum(w * np.square(self.X - mean), axis=0))

    @cached_property
    def float32_refusal(self) -> str | None:
        """Why solvers that may evaluate in single precision do not take the rows, or None: squares of numbers must
        be finite in it. Estimators scale features and outputs.
        """
        by_column = sparse.largest(self.X) if self.is_sparse else np.maximum(self.X.max(axis=0), -self.X.min(axis=0))
        for name, largest in (("X", float(by_column.max())), ("y", float(max(self.Y.max(), -self.Y.min())))):
            if largest > LARGEST_SINGLE:
                return (
                    f"its {name} holds numbers of up to {largest:.3g} in size, and this solver takes at most "
                    f"{LARGEST_SINGLE:g}: scale them"
                )
        if np.any((by_column > 0.0) & (by_column < SMALLEST)):
            return f"its X has a column of numbers below {SMALLEST:g} in size, whose inverse overflows: scale it"
        return None

    @property
    def loss_code(self) -> int:
        """The kernels' code of the loss; `TABLE` for one that they have no branch for, and take as a table."""
        return self.loss_function.code

    def leaf_losses(self, values: Floats) -> Floats:
        """Loss of every row at constant leaves, for a loss that kernels have no branch for.

        Parameters
        ----------
        values : ndarray of shape (L, K)
            Constants of the leaves.

        Returns
        -------
        ndarray of shape (n, L)
            The losses.
        """
        loss, table = self.loss_function, np.zeros((self.n_samples, len(values)))
        if loss.labels or loss.joint:
            for number, shares in enumerate(values):
                table[:, number] = loss.of_rows(self.Y, np.broadcast_to(shares, (self.n_samples, self.n_outputs)))
            return table
        for k in range(self.n_outputs):
            table += loss.value(self.Y[:, k : k + 1], values[None, :, k])
        return table

    def strength(self, kind: type[L1 | L2 | L2Constants | FeatureL1], on: str) -> float:
        """Total strength of the penalties of one kind.

        Parameters
        ----------
        kind : type
            `L1`, `L2`, `L2Constants` or `FeatureL1`.
        on : {"splits", "leaves", "strength"}
            What they act on; "strength" of `FeatureL1`.

        Returns
        -------
        float
            The strength.
        """
        return float(sum(getattr(q, on) for q in self.penalties if isinstance(q, kind)))

    @property
    def split_price(self) -> float:
        """Total price per split."""
        return float(sum(q.price for q in self.penalties if isinstance(q, SplitPrice)))

    @property
    def price_per_split(self) -> float:
        """The amount that every split adds to the objective regardless of its weights: prices, and constant penalties.

        At unit length `L2` is constant, and `L1` is on axis-aligned splits, which have one weight.
        """
        l1 = self.strength(L1, "splits") if self.splits == "axis" else 0.0
        return self.split_price + self.strength(L2, "splits") + l1

    @property
    def max_splits(self) -> int | None:
        """The largest number of splits that `MaxSplits` allows, or None."""
        return min((c.k for c in self.constraints if isinstance(c, MaxSplits)), default=None)

    # ---- the objective --------------------------------------------------------------------------------------------

    def violation(self, model: Any) -> str | None:
        """Reason why a model is infeasible for this problem; a forest is feasible if all its trees are.

        Parameters
        ----------
        model : Tree, Forest, Result or estimator
            The model, or what holds one, see `opttree.model.convert.as_model`.

        Returns
        -------
        str or None
            One sentence, or None.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> problem = opttree.TreeProblem.standardized(X, y, depth=2, splits="axis")
        >>> from solvers import CartInit, solve
        >>> tree = solve(problem.restated(depth=3), CartInit()).tree
        >>> problem.violation(tree)
        'the tree has depth 3; the problem allows 2'
        """
        model = as_model(model)
        if model.n_features != self.n_features or model.n_outputs != self.n_outputs:
            return (
                f"the tree maps {model.n_features} features to {model.n_outputs} outputs; "
                f"the problem has {self.n_features} and {self.n_outputs}"
            )
        if (model.classes is None) != (self.classes is None) or not np.array_equal(
            np.asarray(model.classes), np.asarray(self.classes)
        ):
            return f"the tree has the classes {model.classes}; the problem has {self.classes}"
        trees = (model,) if isinstance(model, Tree) else model.trees
        return next((reason for tree in trees if (reason := self._broken_limit(tree)) is not None), None)

    def _broken_constraint(self, tree: Tree) -> str | None:
        """The side constraint that ``tree``, as it stands or without dead branches, violates, in one sentence."""
        live = self.live(tree)
        forms = (tree,) if live.n_branches == tree.n_branches else (tree, live)
        reasons = (c.violation(self, form) for form in forms for c in self.constraints)
        return next((reason for reason in reasons if reason is not None), None)

    def _broken_limit(self, tree: Tree) -> str | None:
        """The limit on single trees that ``tree`` violates, in one sentence, or None."""
        if tree.depth > self.depth:
            return f"the tree has depth {tree.depth}; the problem allows {self.depth}"
        if self.splits == "axis" and not tree.is_axis_aligned:
            return "the tree has oblique splits; the problem allows axis-aligned ones"
        if self.leaves == "constant" and tree.linear_leaves:
            return "the tree has linear leaves; the problem allows constant ones"
        first_layer = tree.n_features == self.n_features  # of a layered forest; always true for a tree
        if self.min_leaf > 1 and tree.n_branches and first_layer:
            counts = np.bincount(self.leaves_of(tree), minlength=tree.n_nodes)
            if np.any((counts > 0) & (counts < self.min_leaf)):
                return f"the tree has a leaf with {counts[counts > 0].min()} rows; the problem asks for {self.min_leaf}"
        return self._broken_constraint(tree) if self.constraints and first_layer else None

    def __getstate__(self) -> dict[str, Any]:
        """Without what is kept of the last tree, of raw rows and of rows in blocks, so that copies stay small."""
        left_out = ("_routed", "_packed") if self.splits == "axis" else ("_routed", "_packed", "_raw")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def leaves_of(self, tree: Tree) -> NDArray[np.int32]:
        """Leaf of each row.

        Those of the last tree are kept, so that its rows are routed once while its leaves are fitted, it is pruned and
        its objective is taken.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        ndarray of int of shape (n,)
            Leaf nodes, read-only.
        """
        weights = tree.split_weights
        parts = [weights.data, weights.indices, weights.indptr] if sparse.is_sparse(weights) else [weights]
        splits: list[NDArray[Any]] = [tree.children, tree.b, *parts]
        known = self.__dict__.get("_routed")
        if known is not None and len(known[0]) == len(splits) and all(map(np.array_equal, known[0], splits)):
            return known[1]
        leaf = read_only(tree.apply(self.X))
        self.__dict__["_routed"] = splits, leaf
        return leaf

    def live(self, tree: Tree) -> Tree:
        """Remove the branches that send all rows one way, see `Tree.prune_dead`.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        Tree
            The smaller tree.
        """
        filled = np.bincount(self.leaves_of(tree), minlength=tree.n_nodes)[tree.n_branches :] > 0
        return tree.keep(filled)

    def mean_loss(self, model: Tree | Forest) -> float:
        """Weighted mean loss of a model, without penalties; routing is hard, except for mixtures.

        Parameters
        ----------
        model : Tree or Forest
            The model.

        Returns
        -------
        float
            The loss.
        """
        # no dot product: BLAS and OpenMP threads would compete for the cores
        return float(np.sum(self.w * self.row_losses(model)))

    def row_losses(self, model: Tree | Forest) -> Floats:
        """Loss of each row, of which `mean_loss` is the weighted mean.

        Parameters
        ----------
        model : Tree or Forest
            The model.

        Returns
        -------
        ndarray of shape (n,)
            The losses.
        """
        if isinstance(model, Forest):
            return self.loss_function.of_rows(self.Y, model.answers(self.X))
        if model.mixture or self.loss_code == codes.TABLE:
            return self.loss_function.of_rows(self.Y, model.outputs(self.X))
        leaf = writable(self.leaves_of(model))
        losses: Floats = wide.losses_at(self._rows, leaf, model.kept_leaves, self.loss_code, LINKS[model.link])
        return losses

    def mean_loss_of(self, answers: Floats) -> float:
        """Weighted mean loss of predictions.

        Parameters
        ----------
        answers : ndarray of shape (n, K)
            Predictions, or class probabilities.

        Returns
        -------
        float
            The loss.
        """
        return float(np.sum(self.w * self.loss_function.of_rows(self.Y, answers)))

    def penalty(self, model: Tree | Forest) -> float:
        """Sum of the penalties of a tree; of a forest, the mean over its trees.

        Parameters
        ----------
        model : Tree or Forest
            The model.

        Returns
        -------
        float
            The penalties.
        """
        if isinstance(model, Forest):
            return float(np.mean([self.penalty(tree) for tree in model.trees]))
        return float(sum(q.value(model) for q in self.penalties))

    def objective(self, model: Any) -> float:
        """Objective of a model: mean loss plus penalties.

        Parameters
        ----------
        model : Tree, Forest, Result or estimator
            The model, or what holds one, see `opttree.model.convert.as_model`.

        Returns
        -------
        float
            The objective; infinite if the model is infeasible, see `violation`.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> problem = opttree.TreeProblem.standardized(X, y, depth=2, splits="axis")
        >>> round(problem.objective(problem.best_constant()), 6)     # the variance, in units of itself
        1.0
        """
        model = as_model(model)
        if self.violation(model) is not None:
            return np.inf
        return self.mean_loss(model) + self.penalty(model)

    def sample(self, rows: NDArray[np.integer], **changes: Any) -> TreeProblem:
        """The same statement on a subset of the rows.

        Parameters
        ----------
        rows : ndarray of int of shape (m,)
            Numbers of the rows.
        **changes : object
            Options that differ.

        Returns
        -------
        TreeProblem
            The problem.
        """
        assert self.sample_weight is not None  # set by __post_init__
        changes.setdefault("constraints", _on_rows(self.constraints, np.arange(self.n_samples)[rows], self.n_samples))
        part = self.with_rows(self.X[rows], self.y[rows], self.sample_weight[rows], **changes)
        if "_raw" in self.__dict__:
            part.__dict__["_raw"] = self.__dict__["_raw"][rows]
        return part

    def restated(self, **changes: Any) -> TreeProblem:
        """The same rows and classes with other options.

        Parameters
        ----------
        **changes : object
            Options that differ.

        Returns
        -------
        TreeProblem
            The problem.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> problem = opttree.TreeProblem.standardized(X, y, depth=2, splits="axis")
        >>> deeper = problem.restated(depth=3)
        >>> problem.depth, deeper.depth
        (2, 3)
        """
        changes.setdefault("constraints", self.constraints)
        same = self.with_rows(self.X, self.y, self.sample_weight, **changes)
        for name in ("presorted", "ranks", "in_order", "_raw"):
            if name in self.__dict__:
                same.__dict__[name] = self.__dict__[name]
        return same

    def with_rows(self, X: Any, y: Any, sample_weight: Any = None, **changes: Any) -> TreeProblem:
        """The same statement on other rows of the same features and classes.

        Constraints on single rows do not carry over. This, `restated` and `sample` are the ways to change a problem:
        `dataclasses.replace` would forget the classes that have no row.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Features.
        y : array-like of shape (n,) or (n, K)
            Outputs or labels.
        sample_weight : array-like of shape (n,), default None
            Weights; None: all equal.
        **changes : object
            Options that differ.

        Returns
        -------
        TreeProblem
            The problem.
        """
        changes.setdefault("constraints", _on_rows(self.constraints, np.zeros(0, int), self.n_samples))
        part = replace(self, X=X, y=y, sample_weight=sample_weight, **changes)
        if not part.loss_function.chooses:  # of one that does, they are the columns of y
            object.__setattr__(part, "classes", self.classes if part.is_classification else None)
        if "_scaling" in self.__dict__:
            object.__setattr__(part, "_scaling", self.__dict__["_scaling"])
        return part

    def with_order(self, order: NDArray[np.int32], kept: NDArray[np.bool_]) -> TreeProblem:
        """Tell the problem how its rows are ordered by each feature: `presorted` is made from it, without sorting.

        Parameters
        ----------
        order : ndarray of int of shape (p, m)
            Rows of a larger problem, ordered by each feature.
        kept : ndarray of bool of shape (m,)
            True for the rows of the larger problem that this one has.

        Returns
        -------
        TreeProblem
            The problem itself.
        """
        number = (np.cumsum(kept) - 1).astype(np.int32)
        presorted = np.empty((len(order), self.n_samples), np.int32)
        for mine, rows in zip(presorted, order, strict=True):
            mine[:] = number[rows[kept[rows]]]
        self.__dict__["presorted"] = presorted
        return self

    def forget_order(self) -> None:
        """Free the memory of the sorted features; they are sorted again where they are asked for."""
        for name in ("presorted", "ranks", "sorted_values", "in_order"):
            self.__dict__.pop(name, None)

    def split(
        self, fraction: float, rng: np.random.Generator, *, stratify: bool = False
    ) -> tuple[TreeProblem, TreeProblem]:
        """The statement on two disjoint sets of random rows. Copies of a row, unless the data are discrete, are in the
        same set.

        Parameters
        ----------
        fraction : float
            Share of the different rows in the second set, which has at least one.
        rng : numpy.random.Generator
            Random numbers.
        stratify : bool, default False
            Whether both sets have the same shares of the classes as near as may be; a class of one row is then in the
            first.

        Returns
        -------
        tuple[TreeProblem, TreeProblem]
            The problems of the two sets.
        """
        if not 0.0 < fraction < 1.0:
            raise ValueError(f"fraction must be between 0 and 1; got {fraction}")
        if self.n_samples < 2:
            raise ValueError(f"a split needs two rows of positive weight; got {self.n_samples}")
        first, copy = different_rows(self.X, self.Y)
        order = rng.permutation(first.size)
        cut = min(max(round(fraction * order.size), 1), order.size - 1)
        chosen = order[:cut]
        if stratify and self.is_classification:
            label = self.Y[first[order], 0].astype(np.intp)
            order, label = order[by_class := np.argsort(label, kind="stable")], label[by_class]
            even = np.floor((np.arange(order.size) + rng.random()) * cut / order.size)
            held = (np.diff(even, prepend=0.0) > 0.0) & (np.bincount(label) > 1)[label]
            chosen = order[held] if held.any() else chosen
        out = np.zeros(first.size, bool)
        out[chosen] = True
        rows = out[copy]
        return self.sample(np.flatnonzero(~rows)), self.sample(np.flatnonzero(rows))

    def restrict(self, rows: NDArray[np.integer], depth: int, **changes: Any) -> TreeProblem:
        """The subproblem of a subtree, on the rows that reach it.

        Penalties are scaled by the rows' share of the weight, so that the subproblem's objective times this share is
        the subtree's contribution to this problem's objective. Side constraints are on whole trees and left out.

        Parameters
        ----------
        rows : ndarray of int of shape (m,)
            Numbers of the rows.
        depth : int
            Levels of the subtree, at most.
        **changes : object
            Options that differ.

        Returns
        -------
        TreeProblem
            The subproblem.
        """
        share = float(np.sum(self.w[rows]))
        penalties = [scaled(q, 1.0 / share) for q in self.penalties]
        return self.sample(rows, depth=depth, penalties=penalties, constraints=(), **changes)

    def one_leaf(self, leaves: str | None = None) -> Tree:
        """Best tree of one leaf; without regard to side constraints on answers where it has none within them.

        Parameters
        ----------
        leaves : {"constant", "linear"} or None, default None
            Kind of the leaf; None: as in the problem.

        Returns
        -------
        Tree
            The tree.
        """
        tree = Tree.constant(np.zeros(self.n_outputs), self.n_features, self.classes)
        try:
            return self.fit_leaves(tree, leaves=leaves)
        except NoAnswersError:
            return self.restated(constraints=()).fit_leaves(tree, leaves=leaves)

    def best_constant(self) -> Tree:
        """The best tree of one constant leaf."""
        return self._best_constant

    @cached_property
    def _best_constant(self) -> Tree:
        return self.one_leaf("constant")

    # ---- leaves ---------------------------------------------------------------------------------------------------

    def fit_leaves(self, tree: Tree, *, leaves: str | None = None, min_rows: int | None = None) -> Tree:
        """Fit optimal leaves to the splits of a tree (TAO paper, Theorem 3.3).

        Parameters
        ----------
        tree : Tree
            The tree.
        leaves : {"constant", "linear"} or None, default None
            Kind of the leaves; None: as in the problem.
        min_rows : int or None, default None
            Fewest rows of a linear leaf; smaller leaves stay constant. None: ``2 (p + 1)``.

        Returns
        -------
        Tree
            Constant leaves are exact: mean, median, class frequencies (under log loss 0 for classes so rare that their
            rows cost the cap all the same). Linear ones minimise the loss plus the leaf
            penalties (softmax cross-entropy for classification) and, in regression, are clipped to the intersection of
            the ranges of y and of the fitted values on the leaf's rows. Leaves that no row reaches are unchanged.
            Under a `LeafConstraint` constant leaves are the best within its limits.
        """
        leaf = self.leaves_of(tree) - tree.n_branches
        linear = (leaves or self.leaves) == "linear"
        shape = (tree.n_leaves, self.n_outputs, self.n_features if linear else 0)
        coefs = tree.leaf_arrays[1]
        start = coefs if coefs.shape == shape else np.zeros(shape)
        values, coefs, lower, upper = self.fit_leaf_arrays(leaf, tree.values, start, min_rows)
        fitted = with_fields(
            tree,
            values=values,
            coefs=coefs,
            lower=lower if lower.size else None,
            upper=upper if upper.size else None,
            link=self.link(linear),
            classes=self.classes,
            mixture=False,  # fitted under hard routing
        )
        joint = not linear and any(isinstance(c, LeafConstraint) for c in self.constraints)
        return fit_jointly(self, fitted) if joint else fitted

    def link(self, linear: bool) -> str:
        """Link of this problem's trees.

        Parameters
        ----------
        linear : bool
            Whether the leaves are linear.

        Returns
        -------
        {"identity", "softmax"}
            "softmax" if leaves hold linear class scores.
        """
        return "softmax" if linear and self.is_classification else "identity"

    def fit_leaf_arrays(
        self,
        leaf: NDArray[np.integer],
        values: Floats,
        coefs: Floats,
        min_rows: int | None = None,
        lasso: float = 0.0,
    ) -> records.Leaves:
        """`fit_leaves` on arrays.

        Parameters
        ----------
        leaf : ndarray of int of shape (n,)
            Number of the leaf of each row.
        values : ndarray of shape (L, K)
            Constant terms of the leaves.
        coefs : ndarray of shape (L, K, p)
            Linear terms to start from; of shape (L, K, 0) for constant leaves.
        min_rows : int or None, default None
            Fewest rows of a linear leaf; None: ``2 (p + 1)``.
        lasso : float, default 0.0
            If > 0, a linear leaf minimises half the mean squared error on its rows (of another loss, the mean) plus
            ``lasso |coefs|_1``, whatever the penalties of the statement.

        Returns
        -------
        values : ndarray of shape (L, K)
            Constant terms.
        coefs : ndarray of shape (L, K, p)
            Linear terms.
        lower, upper : ndarray of shape (L, K)
            Bounds of linear leaves; empty for none.
        """
        linear, loss = coefs.shape[2] > 0, self.loss_function
        order, start = group = reduced.group_rows(leaf, values.shape[0], self.w)
        fit = loss.starts if linear else loss.constants
        new = fit(self.Y, self.w, order, start, self.n_outputs)
        empty = np.diff(start) == 0
        new[empty] = values[empty] if values.shape == new.shape else 0.0
        none = np.zeros((0, 0))
        if not linear:
            return records.Leaves(new, coefs, none, none)
        coefs = coefs.copy()
        w, l1, l2 = self.w, self.strength(L1, "leaves"), self.strength(L2, "leaves")
        if lasso:
            w, l1, l2 = w / np.bincount(leaf, w, len(values))[leaf], lasso * loss.lasso_scale, 0.0
        fewest = 2 * (self.n_features + 1) if min_rows is None else min_rows
        if coefs.any():  # predictors to start from have the constants at the means of their leaves' rows
            coefs[(np.diff(start) < fewest) & ~empty] = 0.0
            new -= wide.at_means(self.X, self.w, group, coefs)
        rows = records.Rows(self.X, self.Y, w)
        wide.fit_leaves(loss.linear_leaves, rows, group, records.Net(l1, l2), fewest, new, coefs)
        bounds = (none, none) if self.is_classification else wide.output_ranges(rows, group, new, coefs)
        return records.Leaves(new, coefs, *bounds)

    def bound_leaves(self, tree: Tree) -> Tree:
        """Clip the linear leaves of a tree as in `fit_leaves`, without a refit; regression only.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        Tree
            The tree with bounds.
        """
        if self.is_classification or not tree.linear_leaves:
            return tree
        group = reduced.group_rows(self.leaves_of(tree) - tree.n_branches, tree.n_leaves, self.w)
        lower, upper = wide.output_ranges(self._rows, group, *tree.leaf_arrays[:2])
        return with_fields(tree, lower=lower, upper=upper)

    def trim(self, tree: Tree, *, refit: bool = True) -> Tree:
        """Remove dead leaves and leaves below ``min_leaf``.

        Parameters
        ----------
        tree : Tree
            The tree.
        refit : bool, default True
            Whether leaves are refitted if rows had to move.

        Returns
        -------
        Tree
            The smaller tree.
        """
        live = self.live(tree)
        trimmed = self.enforce_min_leaf(live)
        if trimmed.n_leaves == live.n_leaves:
            return trimmed
        return self.fit_leaves(trimmed) if refit else self.bound_leaves(trimmed)

    def enforce_max_splits(self, tree: Tree) -> Tree:
        """Join leaves, the weakest pair first, until the tree is within `max_splits`; see `opttree.statement.pruning`.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        Tree
            The tree as it is, or a smaller one with leaves fitted again.
        """
        return tree if self.max_splits is None else with_splits(self, tree, self.max_splits)

    def enforce_min_leaf(self, tree: Tree) -> Tree:
        """Remove the leaves that hold fewer than ``min_leaf`` rows; their rows go to the sibling subtree.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        Tree
            The smaller tree.
        """
        while tree.n_branches:
            counts = np.bincount(self.leaves_of(tree), minlength=tree.n_nodes)
            small = counts < self.min_leaf
            small[: tree.n_branches] = False
            if not small.any():
                break
            left, right = tree.children.T
            both = small[left] & small[right]  # of two small siblings the larger is kept and takes the other's rows
            small[np.where(counts[left] >= counts[right], left, right)[both]] = False
            tree = tree.keep(~small[tree.n_branches :])
        return tree


def _on_rows(constraints: Sequence[Constraint], rows: NDArray[np.integer], n: int) -> tuple[Constraint, ...]:
    """The constraints for the problem of some of its ``n`` rows, without those that concern others."""
    parts = (constraint.on_rows(rows, n) for constraint in constraints)
    return tuple(part for part in parts if part is not None)


def _as_tuple(penalties: Any) -> tuple[Any, ...]:
    """``penalties`` as a tuple; a single penalty becomes a tuple of one."""
    return tuple(penalties) if np.iterable(penalties) and not isinstance(penalties, str) else (penalties,)
