"""`PolicyTree` and `DRPolicyTree`: trees that choose an action for each row."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace as replace_recipe
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state

from opttree.estimators.proved import ProvedTree, priced, solver_of, unscaled
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe
from opttree.estimators.scores import as_numbers, check_shapes, scores
from opttree.estimators.steps.model import single_tree
from opttree.estimators.steps.price import plain, solve_priced
from opttree.model.tree import replace
from opttree.runtime.options import option
from opttree.tables.numbers import check_numbers, numbers_of, unmasked
from opttree.tables.row_weights import check_sample_weight


@dataclass(eq=False, repr=False)
class PolicyTree(MultiOutputMixin, RegressorMixin, ProvedTree):
    """A tree that chooses the action of the highest mean reward in each leaf: the best of its depth, with a proof where
    time suffices for it, or else with a gap.

    Branch and bound over all thresholds, on features of any kind but sparse ones. Rewards of rows may be known for all
    actions, or estimated, as by `opttree.causal.scores`.

    Attributes
    ----------
    tree_ : opttree.Tree
        The tree; its classes are the actions, 0 to K - 1.
    bound_, gap_ : float or None
        Proved lower bound on ``result_.objective``, the mean regret, and relative gap; None of "tao".
    is_optimal_ : bool
        Whether it is proved that no tree of the options has a higher mean reward on the training rows, less the price
        of its splits and within ``gap``.
    result_ : solvers.Result
        Result of the run. Its objective is the mean regret: what the rows would have more if each had its own best
        action, plus the price of splits.
    classes_ : ndarray of int of shape (K,)
        The actions.

    See Also
    --------
    DRPolicyTree : from treatments and outcomes
    opttree.causal.scores : rewards from treatments and outcomes
    opttree.losses.ActionCost : the loss

    References
    ----------
    Athey and Wager, "Policy learning with observational data", Econometrica 89 (2021); Zhou, Athey and Wager, "Offline
    multi-action policy learning: generalization and optimization" (2023).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import PolicyTree
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 4))
    >>> rewards = np.column_stack([X[:, 0], X[:, 1], np.zeros(500)]) + rng.normal(size=(500, 3))
    >>> policy = PolicyTree(max_depth=2).fit(X, rewards)
    >>> policy.is_optimal_, policy.predict(X[:5]).tolist()
    (True, [0, 1, 2, 1, 1])
    >>> value, error = policy.policy_value(X, rewards)
    >>> bool(0.4 < value < 0.8), bool(error < 0.1)
    (True, True)
    """

    recipe = Recipe(solver=solver_of, outputs=unscaled, restate=priced, solve=solve_priced(plain))
    loss = "cost"

    max_depth: int = option(2, "Largest depth.", least=1)
    _: KW_ONLY
    split_price: float | Literal["cv"] = option(
        0.0,
        """Price of a split, in units of the mean reward; "cv": one that leaves the highest mean reward on rows held out
        in five folds, of two seconds each at most, see ``split_price_`` and ``cv_results_``.""",
        least=0,
    )

    def fit(self, X: Any, rewards: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # type: ignore[override]
        """Find the tree of the highest mean reward.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        rewards : array-like of shape (n, K)
            Reward of each row under each of K >= 2 actions.
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
        """
        table = checked_rewards(rewards)
        return super().fit(X, table.max(axis=1, keepdims=True) - table, sample_weight)

    def predict(self, X: Any) -> NDArray[Any]:
        """Action of each row.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of int of shape (n,)
            The actions, 0 to K - 1.
        """
        return self._actions(X)

    def policy_value(self, X: Any, rewards: ArrayLike, sample_weight: ArrayLike | None = None) -> tuple[float, float]:
        """Mean reward of the actions that the tree chooses, on rows that were not in training if it is to be unbiased.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        rewards : array-like of shape (n, K)
            Their rewards.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows.

        Returns
        -------
        value : float
            The weighted mean.
        error : float
            Its standard error, of independent rows: one of weight 2 is one observation, not two. NaN of a single one.
        """
        action = self._actions(X)
        table = checked_rewards(rewards, len(self.classes_))
        if len(action) != len(table):
            raise ValueError(f"rewards must have a row for each of X, {len(action)}; got {len(table)}")
        weight = check_sample_weight(sample_weight, table)
        share = weight / weight.sum()
        gained = table[np.arange(len(table)), action]
        value = float(share @ gained)
        error = float(np.sqrt(np.sum(np.square(share * (gained - value)))))
        return value, error if np.count_nonzero(weight) > 1 else float("nan")

    def _actions(self, X: Any) -> NDArray[Any]:
        Z = self._validated(X)
        actions: NDArray[Any] = np.argmax(self.tree_.outputs(Z), axis=1)
        return actions

    def score(self, X: Any, rewards: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Mean reward, see `policy_value`.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        rewards : array-like of shape (n, K)
            Their rewards.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows.

        Returns
        -------
        float
            The mean.
        """
        return self.policy_value(X, rewards, sample_weight)[0]

    if TYPE_CHECKING:
        classes_: NDArray[np.intp]


def _of_treatments(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    """``tree_`` with treatments for classes, and the scores."""
    found, labels = options._scored
    fitted = single_tree(options, fit, outcome)
    return {"tree_": replace(fitted["tree_"], classes=labels), "scores_": found, "treatments_": labels}


@dataclass(eq=False, repr=False)
class DRPolicyTree(PolicyTree):
    """A policy tree from treatments and outcomes: `PolicyTree` on doubly robust scores.

    Attributes
    ----------
    tree_, bound_, gap_, is_optimal_, result_ : Tree, float, float, bool, Result
        As in `PolicyTree`.
    classes_ : ndarray of int of shape (K,)
        The actions, numbers of ``treatments_``.
    treatments_ : ndarray of shape (K,)
        The treatments, sorted: the classes of the tree.
    scores_ : ndarray of shape (n, K)
        The estimated rewards of the training rows.

    See Also
    --------
    PolicyTree : from rewards
    opttree.causal.scores : the scores

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression, LinearRegression
    >>> from opttree import DRPolicyTree
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> T = rng.integers(2, size=600)
    >>> Y = X[:, 1] + T * X[:, 0] + 0.3 * rng.normal(size=600)
    >>> policy = DRPolicyTree(1, outcome_model=LinearRegression(), propensity_model=LogisticRegression())
    >>> policy.fit(Y, T, X=X).predict([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]).tolist()
    [1, 0]
    """

    recipe = replace_recipe(PolicyTree.recipe, model=_of_treatments)

    _: KW_ONLY
    method: Literal["dr", "ipw", "dm"] = option("dr", "The scores, see `opttree.causal.scores`.")
    outcome_model: Any = option(None, "A regressor of outcomes, see `opttree.causal.scores`.")
    propensity_model: Any = option(None, "A classifier of treatments, see `opttree.causal.scores`.")
    folds: int = option(5, "Folds of the scores.", least=2)

    def fit(  # type: ignore[override]
        self, Y: ArrayLike, T: ArrayLike, *, X: Any, W: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Estimate the scores, without regard to the time limit, and find the tree of the highest mean score.

        Parameters
        ----------
        Y : array-like of shape (n,)
            Outcomes; higher is better.
        T : array-like of shape (n,)
            Treatments: labels of two or more kinds.
        X : array-like of shape (n, p)
            Features that the tree may use.
        W : array-like of shape (n, q), optional
            Further features for the scores.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows, of the tree. Rows of weight 0 are as absent, and their scores 0.

        Returns
        -------
        self
            The fitted estimator.
        """
        tables = {"X": X} if W is None else {"X": X, "W": W}
        for name, given in tables.items():
            check_shapes(given, np.asarray(T), np.asarray(Y), name)
        treatment, outcome = np.asarray(unmasked("T", T)), numbers_of("Y", Y)
        table = np.column_stack([as_numbers(given, outcome) for given in tables.values()])
        weight = check_sample_weight(sample_weight, outcome)
        used = weight > 0.0
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        of_used = scores(
            table[used],
            treatment[used],
            outcome[used],
            method=self.method,
            cv=self.folds,
            outcome_model=self.outcome_model,
            propensity_model=self.propensity_model,
            random_state=seed,
        )
        found = np.zeros((used.size, of_used.shape[1]))
        found[used] = of_used
        self._scored = found, np.unique(treatment[used])
        return super().fit(X, found, sample_weight)

    def predict(self, X: Any) -> NDArray[Any]:
        """Treatment of each row.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            The treatments.
        """
        treatments: NDArray[Any] = self.treatments_[self._actions(X)]
        return treatments


def checked_rewards(rewards: ArrayLike, n_actions: int | None = None) -> Floats:
    """Rewards (n, K) as numbers; ValueError for others."""
    table = numbers_of("rewards", rewards)
    if table.ndim != 2 or table.shape[1] < 2 or n_actions not in (None, table.shape[1]):
        rule = "two or more actions" if n_actions is None else f"the {n_actions} actions of the training"
        raise ValueError(f"rewards must be a table (n, K) with a column for each of {rule}; got shape {table.shape}")
    check_numbers("rewards", table)
    return table
