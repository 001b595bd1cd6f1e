"""`CausalTree`: effects of a treatment that differ from leaf to leaf."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state

from opttree.estimators.proved import ProvedTree, priced, solver_of
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe
from opttree.estimators.scores import as_numbers, check_shapes, residuals
from opttree.estimators.steps.price import plain, solve_priced
from opttree.estimators.steps.units import raw_tree, with_training
from opttree.estimators.tasks import check_coverage
from opttree.model.convert import as_tree
from opttree.model.tree import replace
from opttree.runtime.options import option
from opttree.statement.copies import different_rows, with_copies
from opttree.tables.checks import as_given
from opttree.tables.encoding import is_table, rows_of
from opttree.tables.numbers import numbers_of, unmasked
from opttree.tables.row_weights import check_sample_weight
from opttree.wide.sparse import is_given_sparse

LEAST_FIT = 20  # rows of a fit
LEAST_ROWS = 5  # that estimate the effect of a leaf


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    fewest = max(10, np.count_nonzero(weight) // 50)
    return {"min_leaf": fewest if options.min_samples_leaf is None else options.min_samples_leaf}


def _model(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    """``tree_`` with the effects of its leaves, and their standard errors, by the rows that are for them."""
    X, y, (weight, labels, copy) = fit.X, fit.rows.y, options._estimating
    tree = raw_tree(fit.scaling, as_tree(outcome.result.tree), fit.problem, X[fit.rows.weight > 0.0])
    used = weight > 0.0
    while True:
        leaf = tree.apply(X[used]) - tree.n_branches
        counts = np.bincount(leaf, minlength=tree.n_leaves)
        if not tree.n_branches or counts.min() >= LEAST_ROWS:
            break
        kept = np.ones(tree.n_leaves, bool)
        kept[np.argmin(counts)] = False
        tree = tree.keep(kept)
    w, effect = weight[used], y[used]
    mass = np.bincount(leaf, w, minlength=tree.n_leaves)
    effects = np.bincount(leaf, w * effect, minlength=tree.n_leaves) / mass
    _rows, first, copy = np.unique(copy[used], return_index=True, return_inverse=True)  # copies are one observation
    off = np.bincount(copy.ravel(), w * (effect - effects[leaf]))
    errors = np.sqrt(np.bincount(leaf[first], np.square(off), minlength=tree.n_leaves)) / mass
    filled = with_training(replace(tree, values=effects[:, None]), X, weight)
    return {"tree_": filled, "standard_errors_": errors, "treatments_": labels}


@dataclass(eq=False, repr=False)
class CausalTree(RegressorMixin, ProvedTree):
    """A tree of the effects of a treatment: leaves are the groups whose effects differ the most, found with a proof
    where time suffices for it, or else with a gap.

    The R-loss: outcomes less what the features let expect, over treatments less their probabilities, with the squares
    of the latter as weights; both expectations are made by models of the other folds. The effect of a leaf is thus the
    mean over its rows weighted by e (1 - e), e the probability of the second treatment: the plain mean where e, as in
    an experiment, or the effect is the same for all of them. Half of the rows find the tree, the others the effects of
    its leaves, so that these and their intervals are honest. How many splits are worth their while is decided on rows
    held out of the first half, see ``split_price``.

    Attributes
    ----------
    tree_ : opttree.Tree
        The tree; its leaves hold effects.
    standard_errors_ : ndarray of shape (L,)
        Standard error of the effect of each leaf.
    treatments_ : ndarray of shape (2,)
        The two labels; effects are those of the second, compared with the first.
    split_price_ : float
        The price that was chosen, with ``split_price="cv"``; the losses are in ``cv_results_``.
    bound_, gap_ : float or None
        Proved lower bound on ``result_.objective`` and relative gap; None of "tao".
    is_optimal_ : bool
        Whether it is proved that no tree of the options has a lower R-loss on the rows that find the tree, with the
        price of its splits and within ``gap``.
    result_ : solvers.Result
        Result of the run on these rows. Its objective is the R-loss relative to that of one effect, plus the price of
        splits.

    See Also
    --------
    DRPolicyTree : whom to treat
    opttree.causal.residuals : what the loss is made of

    References
    ----------
    Nie and Wager, "Quasi-oracle estimation of heterogeneous treatment effects", Biometrika 108 (2021); Athey and
    Imbens, "Recursive partitioning for heterogeneous causal effects", PNAS 113 (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression, LogisticRegression
    >>> from opttree import CausalTree
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> treated = rng.random(1000) < 0.5
    >>> outcome = X[:, 1] + treated * np.where(X[:, 0] > 0, 2.0, 0.0) + 0.5 * rng.normal(size=1000)
    >>> model = CausalTree(1, outcome_model=LinearRegression(), propensity_model=LogisticRegression(), random_state=0)
    >>> effects = model.fit(X, treated, outcome).predict([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    >>> bool(1.7 < effects[0] < 2.3), bool(-0.3 < effects[1] < 0.3)
    (True, True)
    """

    recipe = Recipe(solver=solver_of, terms=_terms, restate=priced, solve=solve_priced(plain), model=_model)
    loss = "squared"

    max_depth: int = option(3, "Largest depth.", least=1)
    _: KW_ONLY
    split_price: float | Literal["cv"] = option(
        "cv",
        """Price of a split, in units of the R-loss of one effect; "cv": the one that leaves the lowest R-loss on rows
        held out in five folds, of two seconds each at most, see ``split_price_`` and ``cv_results_``.""",
        least=0,
    )
    min_samples_leaf: int | None = option(
        None,
        "Fewest rows in a leaf, of those that find the tree; None: 10, or a fiftieth of them if these are more.",
        least=1,
    )
    honest: bool = option(
        True, "Whether half of the rows find the tree and the others the effects; else all rows do both."
    )
    outcome_model: Any = option(None, "A regressor of outcomes, see `opttree.causal.residuals`.")
    propensity_model: Any = option(None, "A classifier of treatments, see `opttree.causal.residuals`.")
    folds: int = option(5, "Folds of these models.", least=2)

    def fit(  # type: ignore[override]
        self,
        X: Any,
        treatment: ArrayLike,
        outcome: ArrayLike,
        propensity: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Find the tree, and estimate the effects of its leaves.

        Models of outcomes and treatments are fitted first, without regard to the time limit and to weights.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        treatment : array-like of shape (n,)
            Labels of two kinds.
        outcome : array-like of shape (n,)
            Outcomes.
        propensity : array-like of shape (n,) or float, optional
            Probability of the second treatment where it is known, as in an experiment; None: it is estimated.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows; by default all are 1.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            For bad input or options, in one sentence.
        """
        self.check_options()
        if is_given_sparse(X):
            raise ValueError("X must be dense for CausalTree; got a sparse table")
        table = as_given(X) if is_table(X) else np.asarray(as_given(X))
        treatment, outcome = np.asarray(unmasked("treatment", treatment)), numbers_of("outcome", outcome)
        check_shapes(table, treatment, outcome)
        given = check_sample_weight(sample_weight, outcome)
        rng, used = check_random_state(self.random_state), given > 0.0
        if np.count_nonzero(used) < LEAST_FIT:
            raise ValueError(f"X must have {LEAST_FIT} rows of positive weight or more; got {np.count_nonzero(used)}")
        if propensity is not None and np.ndim(propensity) == 1:
            if len(np.asarray(propensity)) != used.size:
                n = len(np.asarray(propensity))
                raise ValueError(f"propensity must be a number, or one for each row, {used.size}; got {n}")
            propensity = np.asarray(propensity)[used]
        parts = self._residuals(
            rows_of(table, np.flatnonzero(used)),
            treatment[used],
            outcome[used],
            propensity,
            rng.randint(2**31 - 1),
        )
        y, t, labels = np.zeros(used.size), np.ones(used.size), parts[2]
        y[used], t[used] = parts[:2]
        weight = given * np.square(t)
        finding, estimating = weight.copy(), weight.copy()
        numbers = as_numbers(rows_of(table, np.flatnonzero(used)), outcome[used])
        said = np.column_stack([outcome[used], np.unique(treatment[used], return_inverse=True)[1]])
        first, copy = different_rows(numbers, said)
        if self.honest:
            order = rng.permutation(first.size)
            ((out, kept),) = with_copies([(order[: order.size // 2], order[order.size // 2 :])], copy)
            finding[np.flatnonzero(used)[out]] = 0.0
            estimating[np.flatnonzero(used)[kept]] = 0.0
        of = np.zeros(used.size, np.intp)
        of[used] = copy
        self._estimating = estimating, labels, of
        try:
            return super().fit(X, y / t, finding)
        finally:
            del self._estimating

    def _residuals(
        self, X: Any, treatment: ArrayLike, outcome: ArrayLike, propensity: ArrayLike | None, seed: int
    ) -> tuple[Floats, Floats, NDArray[Any]]:
        y, t = residuals(
            as_numbers(X, outcome),
            treatment,
            outcome,
            propensity,
            cv=self.folds,
            outcome_model=self.outcome_model,
            propensity_model=self.propensity_model,
            random_state=seed,
        )
        return y, t, np.unique(np.asarray(treatment))

    def predict(self, X: Any) -> Floats:
        """Effect of the leaf of each row: of the second treatment, compared with the first.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            The effects.
        """
        X = self._validated(X)
        effects: Floats = self.tree_.predict(X)
        return effects

    def effect_interval(self, X: Any, coverage: float = 0.95) -> Floats:
        """Confidence interval of the effect of the leaf of each row: the mean effect in it, weighted as above.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        coverage : float, default 0.95
            Probability that the interval has the effect of the leaf, for many estimating rows, of an honest tree.

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper end.
        """
        check_coverage(coverage)
        X = self._validated(X)
        half = norm.ppf(0.5 + coverage / 2.0) * self.standard_errors_[self.tree_.apply(X) - self.tree_.n_branches]
        effects = self.tree_.predict(X)
        return np.column_stack([effects - half, effects + half])

    def score(self, X: Any, treatment: ArrayLike, outcome: ArrayLike, propensity: ArrayLike | None = None) -> float:
        """Share of the R-loss of one effect for all rows that the tree's effects take off.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows that were not in training, with as many of each treatment as there are folds.
        treatment : array-like of shape (n,)
            Their treatments.
        outcome : array-like of shape (n,)
            Their outcomes.
        propensity : array-like of shape (n,) or float, optional
            Known probabilities of the second treatment.

        Returns
        -------
        float
            At most 1; 0 for the best single effect, below 0 for effects that are worse than it.
        """
        effects = self.predict(X)
        y, t, labels = self._residuals(X, treatment, outcome, propensity, 0)
        if not np.array_equal(labels, self.treatments_):
            raise ValueError(f"treatment must have the labels {self.treatments_.tolist()}; got {labels.tolist()}")
        best = float(np.sum(t * y) / np.sum(t * t))
        loss, least = float(np.sum(np.square(y - effects * t))), float(np.sum(np.square(y - best * t)))
        if least == 0.0:
            return 0.0 if loss == 0.0 else -np.inf
        return 1.0 - loss / least

    if TYPE_CHECKING:
        standard_errors_: Floats
        treatments_: NDArray[Any]
