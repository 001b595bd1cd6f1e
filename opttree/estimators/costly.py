"""`CostClassifier`: a tree of labels whose errors cost different amounts."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from opttree.estimators.proved import ProvedTree, priced, solver_of, unscaled
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe
from opttree.estimators.steps.model import single_tree
from opttree.estimators.steps.price import plain, solve_priced
from opttree.estimators.steps.rows import plain_labels
from opttree.model.tree import replace
from opttree.runtime.options import option
from opttree.runtime.words import shown
from opttree.tables.checks import check_target, plain_target
from opttree.tables.numbers import check_numbers
from opttree.tables.row_weights import check_sample_weight


def _model(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    """``tree_`` with labels for classes."""
    labels = options._labels
    tree = single_tree(options, fit, outcome)["tree_"]
    return {"tree_": replace(tree, classes=labels), "classes_": labels}


@dataclass(eq=False, repr=False)
class CostClassifier(ClassifierMixin, ProvedTree):
    """A classification tree of the least mean cost of its errors, by a cost matrix or by costs of each row: the best
    tree of its depth, with a proof where time suffices for it, or else with a gap.

    The costs are in the statement, so that splits are made for them; weights of classes cannot say that taking one
    class for another costs more than the reverse, and a threshold on probabilities comes after the splits.

    Attributes
    ----------
    tree_ : opttree.Tree
        The tree; its classes are the labels.
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    bound_, gap_ : float or None
        Proved lower bound on ``result_.objective``, the mean cost, and relative gap; None of "tao".
    is_optimal_ : bool
        Whether it is proved that no tree of the options has a lower mean cost on the training rows, with the price of
        its splits and within ``gap``.
    result_ : solvers.Result
        Result of the run. Its objective is the mean cost plus the price of splits.

    See Also
    --------
    PolicyTree : actions that are not labels
    opttree.losses.ActionCost : the loss

    References
    ----------
    Elkan, "The foundations of cost-sensitive learning", IJCAI 2001; van der Linden, de Weerdt and Demirovic, "Necessary
    and sufficient conditions for optimal decision trees using dynamic programming", NeurIPS 2023.

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("breast_cancer", as_arrays=True)
    >>> model = opttree.CostClassifier(cost_matrix=[[0, 20], [1, 0]]).fit(X, y)   # a missed 0 costs 20, a false alarm 1
    >>> model.is_optimal_, int(((y == 0) & (model.predict(X) == 1)).sum())
    (True, 0)
    >>> plain = opttree.CostClassifier().fit(X, y)                                # all errors cost 1
    >>> int(((y == 0) & (plain.predict(X) == 1)).sum())
    5
    """

    recipe = Recipe(solver=solver_of, outputs=unscaled, restate=priced, solve=solve_priced(plain), model=_model)
    loss = "cost"

    max_depth: int = option(2, "Largest depth.", least=1)
    _: KW_ONLY
    cost_matrix: Any = option(
        None,
        """(K, K) what it costs to take class i (row) for class j (column), >= 0, in the order of the sorted labels; or
        a DataFrame whose rows and columns are named by them. None: 1 for every error. Costs given to `fit` come before
        it.""",
    )
    split_price: float | Literal["cv"] = option(
        0.0,
        """Price of a split, in units of the mean cost; "cv": one that leaves the lowest mean cost on rows held out in
        five folds, of two seconds each at most, see ``split_price_`` and ``cv_results_``.""",
        least=0,
    )

    def fit(  # type: ignore[override]  # labels are not left out
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, costs: ArrayLike | None = None
    ) -> Self:
        """Find the tree of the least mean cost.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows; by default all are 1.
        costs : array-like of shape (n, K), optional
            What each label, in sorted order, costs for each row, >= 0; of a DataFrame whose columns are named by the
            labels, by name. By default ``cost_matrix`` says. Scikit-learn's metadata routing passes it on after
            ``set_fit_request(costs=True)``.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            For bad input or options, in one sentence, before any work starts.
        """
        labels, table = _costs(y, self.cost_matrix, costs)
        self._labels = labels
        return super().fit(X, table, sample_weight)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of each row.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            The labels that their leaves chose.
        """
        Z = self._validated(X)
        labels: NDArray[Any] = self.tree_.predict(Z)
        return labels

    def mean_cost(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, costs: ArrayLike | None = None
    ) -> float:
        """Mean cost of the labels that the tree predicts.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        y : array-like of shape (n,)
            Their labels, of ``classes_``.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows.
        costs : array-like of shape (n, K), optional
            What each label costs for each row; by default ``cost_matrix`` says.

        Returns
        -------
        float
            The weighted mean.
        """
        Z = self._validated(X)
        chosen = np.argmax(self.tree_.outputs(Z), axis=1)
        _labels, table = _costs(y, self.cost_matrix, costs, self.classes_)
        if len(chosen) != len(table):
            raise ValueError(f"y must have a label for each row of X, {len(chosen)}; got {len(table)}")
        weight = check_sample_weight(sample_weight, table)
        return float(np.average(table[np.arange(len(table)), chosen], weights=weight))

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, costs: ArrayLike | None = None
    ) -> float:
        """Minus the mean cost, see `mean_cost`: higher is better, as scikit-learn has it.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows.
        costs : array-like of shape (n, K), optional
            What each label costs for each row.

        Returns
        -------
        float
            At most 0.
        """
        return -self.mean_cost(X, y, sample_weight, costs)

    if TYPE_CHECKING:
        classes_: NDArray[Any]


def _costs(
    y: ArrayLike, matrix: Any, costs: ArrayLike | None, classes: NDArray[Any] | None = None
) -> tuple[NDArray[Any], Floats]:
    """The sorted labels, and what each costs for each row (n, K); ValueError for others than ``classes``."""
    check_target(y, numeric=False)
    target = plain_labels(column_or_1d(plain_target(y), warn=True))
    check_classification_targets(target)
    labels, code = np.unique(target, return_inverse=True)
    if classes is not None:
        if (unknown := ~np.isin(labels, classes)).any():
            raise ValueError(f"y must hold labels of the training; got {labels[unknown][0]!r}")
        labels, code = classes, np.searchsorted(classes, target)
    K = len(labels)
    if K < 2:
        raise ValueError(f"y must hold labels of two or more classes; got {K} class, {labels.tolist()}")
    name, given = (
        ("costs", costs) if costs is not None else ("cost_matrix", 1.0 - np.eye(K) if matrix is None else matrix)
    )
    given = _by_label(given, labels) if costs is None else _columns_by_label(costs, labels)
    try:
        table = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers; got {error}") from error
    shape = (len(target), K) if costs is not None else (K, K)
    if table.shape != shape:
        what = "the rows and labels of y" if costs is not None else "the labels of y"
        raise ValueError(f"{name} must have shape {shape}, for {what}; got {table.shape}")
    check_numbers(name, table)
    if table.min() < 0.0:
        raise ValueError(f"{name} must be >= 0; got {table.min():g}")
    return labels, table if costs is not None else table[code]


def _columns_by_label(costs: Any, labels: NDArray[Any]) -> Any:
    """A table whose columns are named by the labels, in the order of these; one with other names as it is."""
    places = _places("costs", getattr(costs, "columns", ()), labels)
    return costs if places is None else np.asarray(costs)[:, places]


def _places(name: str, names: Any, labels: NDArray[Any]) -> list[int] | None:
    """The numbers of the columns of a table that are named by the labels, as these or as text, in the order of the
    labels; None: they have other names. ValueError where some are so named.
    """
    if (places := _places_of(labels, names)) is not None:
        return places
    known, wanted = [str(one) for one in names], [str(label) for label in labels.tolist()]
    named = [one in known for one in wanted]
    if any(named) and not all(named) and known != [str(k) for k in range(len(known))]:
        told = shown(labels.tolist())
        raise ValueError(f"{name} must have a column named by each label, {told}; got {shown(list(names))}")
    return None


def _places_of(labels: NDArray[Any], names: Any) -> list[int] | None:
    """The places of labels among names, by their values, or else by their texts; None: some are not among them."""
    for kind in (lambda one: one, str):
        known, wanted = [kind(one) for one in names], [kind(label) for label in labels.tolist()]
        if wanted and all(one in known for one in wanted):
            return [known.index(one) for one in wanted]
    return None


def _by_label(matrix: Any, labels: NDArray[Any]) -> Any:
    """A matrix whose rows and columns are named by labels, in the order of these; one with other names as it is."""
    places = _places("cost_matrix", getattr(matrix, "columns", ()), labels)
    if places is None:
        return matrix
    index = list(getattr(matrix, "index", ()))
    if not index and places == list(range(len(labels))):
        return matrix
    rows = _places_of(labels, index)
    if rows is None:
        missing = [label for label in labels.tolist() if str(label) not in map(str, index)]
        raise ValueError(f"cost_matrix must have a row named by each label; got none for {missing[0]!r}")
    return np.asarray(matrix)[rows][:, places]
