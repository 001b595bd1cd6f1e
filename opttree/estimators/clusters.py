"""`KMeansTree`: clusters that an axis-aligned tree explains."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin, MultiOutputMixin
from sklearn.exceptions import ConvergenceWarning

from opttree.estimators.proved import ProvedTree, priced, solver_of
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe
from opttree.estimators.steps.model import raw_with_training
from opttree.estimators.steps.price import plain, solve_priced
from opttree.estimators.steps.units import with_training
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement.constraints import MaxSplits
from opttree.tables.encoder import as_array
from opttree.tables.numbers import not_numbers
from opttree.wide.sparse import is_given_sparse

DEEPEST = 6  # of a tree that is searched


def _check(options: Estimator) -> None:
    if 2 ** (_depth(options, 0)) < options.n_clusters:
        raise ValueError(
            f"max_depth must allow {options.n_clusters} leaves, one for each of n_clusters; got {options.max_depth}"
        )


def _depth(options: Estimator, n_samples: int) -> int:
    """As deep as so many leaves can be, or as branch and bound goes, or as many leaves need."""
    if options.max_depth is not None:
        return int(options.max_depth)
    return max(min(options.n_clusters - 1, DEEPEST), int(options.n_clusters - 1).bit_length())


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    return {"constraints": (MaxSplits(min(options.n_clusters, options.max_leaf_nodes or options.n_clusters) - 1),)}


def _unit(options: Estimator, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Features about their means, in one unit, so that no square underflows."""
    mean = np.average(Y, axis=0, weights=weight)
    unit = float(np.abs(Y[weight > 0.0] - mean).max()) or 1.0
    return mean, np.full(Y.shape[1], unit)


def _numbers(X: Any) -> Floats:
    """The features as numbers (n, p); ValueError for others."""
    if is_given_sparse(X):
        raise ValueError("X must be a dense table of numbers; got a sparse one")
    try:
        table = np.asarray(as_array(X), np.float64)
    except (TypeError, ValueError) as error:
        raise not_numbers("X", X, error) from error
    if np.isnan(table).any():
        raise ValueError(f"X must have no missing values; got {int(np.isnan(table).sum())} NaN")
    return table


def _model(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    """``tree_`` with centres in its leaves."""
    found = raw_with_training(fit, as_tree(outcome.result.tree))
    k, unit = found.n_leaves, float(fit.scaling.y_scale[0])
    inertia = float(fit.problem.mean_loss(as_tree(outcome.result.tree)) * fit.rows.weight.sum()) * unit**2
    tree = Tree(found.children, found.split_weights, found.b, np.eye(k), classes=np.arange(k))
    tree = with_training(tree, fit.X, fit.rows.weight)
    labels = tree.apply(fit.X).astype(np.intp) - tree.n_branches
    return {
        "tree_": tree,
        "labels_": labels,
        "cluster_centers_": found.values,
        "inertia_": inertia,
    }


@dataclass(eq=False, repr=False)
class KMeansTree(ClusterMixin, MultiOutputMixin, ProvedTree):
    """Clusters that a tree with one leaf for each explains: of all such trees of its depth the one of the least sum of
    squared distances to the leaves' means, with a proof where time suffices for it, or else with a gap.

    Features should be in comparable units, as for k-means.

    Attributes
    ----------
    tree_ : opttree.Tree
        The tree; its classes are the clusters.
    labels_ : ndarray of int of shape (n,)
        Cluster of each training row.
    cluster_centers_ : ndarray of shape (k, p)
        Centres of the clusters.
    inertia_ : float
        Weighted sum of squared distances of the training rows to their centres.
    bound_, gap_ : float or None
        Proved lower bound on ``result_.objective``, and relative gap; None of "tao".
    is_optimal_ : bool
        Whether it is proved that no tree of the options has a smaller one, within ``gap``.
    result_ : solvers.Result
        Result of the run. Its objective is the mean squared distance, in units of the largest size of a feature about
        its mean.

    See Also
    --------
    ORTRegressor : the same search for outcomes

    References
    ----------
    Moshkovitz, Dasgupta, Rashtchian and Frost, "Explainable k-means and k-medians clustering", ICML 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import KMeansTree
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KMeansTree(3).fit(X)
    >>> model.is_optimal_, round(model.inertia_, 2)                 # k-means: 78.85
    (True, 81.73)
    """

    recipe = Recipe(
        solver=solver_of,
        terms=_terms,
        outputs=_unit,
        restate=priced,
        solve=solve_priced(plain),
        model=_model,
        check=_check,
        depth=_depth,
    )
    loss = "squared"

    n_clusters: int = option(8, "Number of clusters, k.", least=2)
    _: KW_ONLY
    max_depth: int | None = option(
        None,
        "Largest depth; None: ``n_clusters - 1``, at most 6 where as many leaves fit.",
        least=1,
    )

    def fit(self, X: Any, y: None = None, sample_weight: ArrayLike | None = None) -> Self:  # type: ignore[override]
        """Find the tree.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows of numbers.
        y : None
            Not used.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows; by default all are 1.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            For bad input or options, in one sentence, before any work starts.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            Where the tree has fewer clusters: of rows of fewer different values, say, or as the time is up.
        """
        super().fit(X, _numbers(X), sample_weight)
        if (k := self.get_n_leaves()) < min(self.n_clusters, self.max_leaf_nodes or self.n_clusters):
            sentence = f"the tree has {k} clusters, fewer than n_clusters={self.n_clusters}"
            warnings.warn(sentence, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Cluster of each row.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of int of shape (n,)
            Numbers of clusters, 0 to k - 1.
        """
        Z = self._validated(X)
        labels: NDArray[np.intp] = self.tree_.predict(Z)
        return labels

    def score(self, X: Any, y: None = None) -> float:
        """Minus the sum of squared distances of rows to the centres of their clusters.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.
        y : None
            Not used.

        Returns
        -------
        float
            At most 0.
        """
        Z = self._validated(X)
        return -float(np.sum(np.square(_numbers(X) - self.cluster_centers_[self.tree_.predict(Z)])))

    if TYPE_CHECKING:
        labels_: NDArray[np.intp]
        cluster_centers_: Floats
        inertia_: float
