"""`SurvivalTree` and `SurvivalForest`: hazards of survival times."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.forest import ForestModel
from opttree.estimators.proved import ProvedTree, priced, solver_of, unscaled
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe
from opttree.estimators.steps.model import as_forest, raw_with_training
from opttree.estimators.steps.price import leaf_sums, solve_priced
from opttree.estimators.steps.solve import keep_last, run_recipe
from opttree.estimators.steps.units import spread
from opttree.model.convert import as_tree
from opttree.model.tree import Tree, replace
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.losses import Exponential, Loss
from opttree.tables.row_weights import check_sample_weight
from opttree.tables.survival import Flags, StepFunction, at_risk, concordance, deaths, nelson_aalen, parts, steps_at
from opttree.tables.weights import n_rows

_Fitted: Any = TreeEstimator if TYPE_CHECKING else object  # what the mixin is combined with
PRIOR = 2.0  # events at the hazard of all rows that each leaf has beside its own (chosen on colon, acath, drawn data)
PRIOR_ROWS = 30.0  # rows of a leaf's own hazard ratio that the course of its hazard has beside its own (likewise)
HALF = 0.5  # events that a leaf of a forest has beside its own
SLOPES = np.linspace(0.05, 3.0, 60)  # of scores of a forest
FEW_EVENTS = 10  # in rows that trees have not seen, below which the slope is 1
BEFORE = 1e-9  # of the least hazard: that of rows lost from sight before the first event


class SurvivalModel(RegressorMixin, _Fitted):
    """Mixin with what trees and forests of survival times answer; combine with a `TreeEstimator`."""

    loss: Loss = Exponential()

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn hazards.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        y : structured array of shape (n,)
            Whether the event of each row was seen (bool), and the time of it, or until which the row was in sight
            (float): the outcomes of scikit-survival, or of `opttree.survival.outcome`.
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
        event, time = parts(y)
        weight = check_sample_weight(sample_weight, time)
        times, hazard = nelson_aalen(event, time, weight)
        if not times.size:
            raise ValueError("y must have an event in a row of positive weight; got none")
        self._event_times = times, hazard
        mine = np.maximum(steps_at(times, hazard, time, 0.0), BEFORE * hazard[0])
        super().fit(X, np.where(event, mine, -mine), sample_weight)
        return self

    def _hazards(self, X: Any) -> Floats:
        """Cumulative hazards (n, T) of rows at ``unique_times_``."""
        raise NotImplementedError(f"{type(self).__name__} must define _hazards")

    def predict(self, X: Any) -> Floats:
        """Risk of each row: its hazard relative to that of all training rows together.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Hazard ratios, > 0.
        """
        X = self._validated(X)
        risks: Floats = self._model.predict(X)
        return risks

    def predict_cumulative_hazard_function(self, X: Any, return_array: bool = False) -> Any:
        """Cumulative hazard of each row.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        return_array : bool, default False
            Whether to return the values at ``unique_times_`` in place of functions.

        Returns
        -------
        ndarray of StepFunction of shape (n,), or of float of shape (n, T)
            The hazards.
        """
        hazards = self._hazards(X)
        return hazards if return_array else _functions(self.unique_times_, hazards, 0.0)

    def predict_survival_function(self, X: Any, return_array: bool = False) -> Any:
        """Probability that the event of each row comes later than a time.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        return_array : bool, default False
            Whether to return the values at ``unique_times_`` in place of functions.

        Returns
        -------
        ndarray of StepFunction of shape (n,), or of float of shape (n, T)
            The probabilities.
        """
        alive = np.exp(-self._hazards(X))
        return alive if return_array else _functions(self.unique_times_, alive, 1.0)

    def score(self, X: Any, y: Any, sample_weight: None = None) -> float:
        """Harrell's C of the risks, see `opttree.survival.concordance`.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.
        y : structured array of shape (n,)
            Their events and times.
        sample_weight : None
            Not used.

        Returns
        -------
        float
            Between 0 and 1.
        """
        return concordance(y, self.predict(X))

    if TYPE_CHECKING:
        unique_times_: Floats
        baseline_: Floats


def _functions(times: Floats, values: Floats, before: float) -> NDArray[Any]:
    """A `StepFunction` of each row of ``values (n, T)``."""
    found = np.empty(len(values), object)
    found[:] = [StepFunction(times, row, before) for row in values]
    return found


def _counted(problem: TreeProblem) -> Floats:
    """As how many rows each row (n,) counts: weights stand for repeated rows."""
    weight = problem.sample_weight
    rows: Floats = (problem.n_samples if weight is None else n_rows(weight)) * problem.w
    return rows


def hazard_ratios(problem: TreeProblem, tree: Tree) -> Floats:
    """Of each leaf (L,), relative to all rows: its events over those that the hazard of all rows would have, and
    `PRIOR` more of either.
    """
    weight, signed = _counted(problem), problem.Y[:, 0]
    events, expected = leaf_sums(problem, tree, weight * (signed > 0.0), weight * np.abs(signed))
    ratios: Floats = (events + PRIOR) / (expected + PRIOR)
    return ratios


def leaf_hazards(problem: TreeProblem, tree: Tree, ratios: Floats, levels: Floats) -> Floats:
    """Cumulative hazard of each leaf at each time of an event (L, T): these have the cumulative hazards ``levels (T,)``
    of all rows.

    The estimator of Nelson and Aalen, with `PRIOR_ROWS` more rows in sight, of a hazard that is ``ratios (L,)`` times
    that of all rows: the mean of a beta process (Hjort, "Nonparametric Bayes estimators based on beta processes",
    1990).
    """
    weight, signed = _counted(problem), problem.Y[:, 0]
    leaf, found = problem.leaves_of(tree) - tree.n_branches, np.empty((ratios.size, levels.size))
    prior = PRIOR_ROWS * np.diff(levels, prepend=0.0)
    for number, ratio in enumerate(ratios):
        mine = leaf == number
        event, hazard = signed[mine] > 0.0, np.abs(signed[mine])
        seen, still = deaths(levels, event, hazard, weight[mine]), at_risk(levels, hazard, weight[mine])
        found[number] = np.cumsum((seen + ratio * prior) / (still + PRIOR_ROWS))
    return found


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    fewest = max(5, np.count_nonzero(weight) // 50)
    return {"min_leaf": fewest if options.min_samples_leaf is None else options.min_samples_leaf}


def _refit(problem: TreeProblem, tree: Tree) -> Tree:
    """The tree with leaves as they will predict: times, the inverse of hazard ratios."""
    return replace(tree, values=1.0 / hazard_ratios(problem, tree)[:, None])


def _tree(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    """``tree_`` with hazard ratios in its leaves, and the hazards of these."""
    tree, (times, levels) = as_tree(outcome.result.tree), options._event_times
    ratios = hazard_ratios(fit.problem, tree)
    raw = raw_with_training(fit, replace(tree, values=ratios[:, None]))
    attributes = {"unique_times_": times, "baseline_": levels}
    return {"tree_": raw, "hazards_": leaf_hazards(fit.problem, tree, ratios, levels), **attributes}


@dataclass(eq=False, repr=False)
class SurvivalTree(SurvivalModel, ProvedTree):  # type: ignore[misc]
    """A tree of survival times: rows of a leaf share a hazard. It has the highest likelihood of its depth, with a proof
    where time suffices for it, or else with a gap.

    A leaf has its own multiple of the hazard of all rows, by the likelihood of LeBlanc and Crowley: branch and bound
    over all thresholds. How many splits are worth their while is decided on held-out rows, see ``split_price``. Answers
    are those of scikit-survival's estimators, with outcomes as they are there.

    Attributes
    ----------
    tree_ : opttree.Tree
        The tree; its leaves hold hazard ratios, each with two events beside its own of the hazard of all rows.
    unique_times_ : ndarray of shape (T,)
        Times of the training events.
    baseline_ : ndarray of shape (T,)
        Cumulative hazard of all training rows at these times, by Nelson and Aalen.
    hazards_ : ndarray of shape (L, T)
        Cumulative hazard of each leaf, with thirty rows beside its own of the leaf's ratio times the hazard of all.
    split_price_ : float
        The price that was chosen, with ``split_price="cv"``; the losses are in ``cv_results_``.
    bound_, gap_ : float or None
        Proved lower bound on ``result_.objective``, the mean deviance, and relative gap; None of "tao".
    is_optimal_ : bool
        Whether it is proved that no tree of the options has a lower deviance on the training rows, with the price of
        its splits and within ``gap``.
    result_ : solvers.Result
        Result of the run. Its objective is the mean deviance: negative log-likelihood less that of a hazard of its own
        for each row, plus the price of splits.

    See Also
    --------
    SurvivalForest : where accuracy counts most
    opttree.survival.outcome : outcomes from events and times
    opttree.losses.Exponential : the loss

    References
    ----------
    LeBlanc and Crowley, "Relative risk trees for censored survival data", Biometrics 48 (1992); Huisman, van der Linden
    and Demirovic, "Optimal survival trees: a dynamic programming approach", AAAI 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import SurvivalTree, survival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> time = rng.exponential(np.where(X[:, 0] > 0, 1.0, 4.0))
    >>> y = survival.outcome(time < 5.0, np.minimum(time, 5.0))          # lost from sight after five years
    >>> model = SurvivalTree(max_depth=2, random_state=0).fit(X, y)
    >>> model.is_optimal_, model.tree_.n_leaves, bool(model.score(X, y) > 0.6)
    (True, 2, True)
    >>> alive = model.predict_survival_function([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    >>> bool(alive[0](2.0) < 0.25 < 0.5 < alive[1](2.0))
    True
    """

    recipe = Recipe(
        solver=solver_of, terms=_terms, outputs=unscaled, restate=priced, solve=solve_priced(_refit), model=_tree
    )

    max_depth: int = option(3, "Largest depth.", least=1)
    _: KW_ONLY
    split_price: float | Literal["cv"] = option(
        "cv",
        """Price of a split, in units of the mean deviance; "cv": the one that leaves the lowest deviance on rows held
        out in five folds, of two seconds each at most, see ``split_price_`` and ``cv_results_``.""",
        least=0,
    )

    min_samples_leaf: int | None = option(
        None, "Fewest training rows in a leaf; None: 5, or a fiftieth of the rows if these are more.", least=1
    )

    def _hazards(self, X: Any) -> Floats:
        hazards: Floats = self.hazards_[self.apply(X) - self.tree_.n_branches]
        return hazards

    if TYPE_CHECKING:
        hazards_: Floats


@dataclass(frozen=True)
class _LogHazard(Loss):
    """The likelihood of `Exponential` at logarithms of hazard ratios, whose leaves have half an event beside their
    own, as in LeBlanc and Crowley.
    """

    criterion = "poisson"
    pseudo = Exponential.pseudo

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The negative log-likelihood less its least value."""
        return Exponential().value(y, np.exp(-prediction))

    def constant(self, y: Floats, w: Floats) -> float:
        """The logarithm of events over those of the hazard of all rows."""
        unit = w.size / w.sum()  # weights count rows
        return float(np.log((unit * w[y > 0.0].sum() + HALF) / (unit * np.sum(w * np.abs(y)) + HALF)))


def partial_likelihood(event: Flags, time: Floats, weight: Floats, score: Floats) -> float:
    """Logarithm of Cox's partial likelihood of scores (n,), with Breslow's way with ties."""
    still = at_risk(time[event], time, weight * np.exp(score))
    return float(np.sum(weight[event] * (score[event] - np.log(still))))


def breslow(times: Floats, event: Flags, time: Floats, weight: Floats, score: Floats) -> Floats:
    """Cumulative hazard at ``times (T,)`` of a row of score 0, by Breslow's estimator from rows with scores (n,)."""
    still = at_risk(times, time, weight * np.exp(score))
    return np.cumsum(np.divide(deaths(times, event, time, weight), still, out=np.zeros(times.size), where=still > 0.0))


def _bagging(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    solvers = bridge.solvers
    grown = build_solver(options, solvers.CartInit)
    return build_solver(options, solvers.Bagging, solver=grown, n_trees=options.n_estimators, n_jobs=options.n_jobs)


def _grown(options: Estimator, fit: Fit) -> Outcome:
    return Outcome(keep_last(partial(run_recipe, options, fit)))


def _forest(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    """``forest_`` of logarithms of hazard ratios; the slope and the baseline that fit rows which trees did not see."""
    forest, (times, levels) = as_forest(outcome.result.tree, 1), options._event_times
    problem, slope = fit.problem, 1.0
    event, hazard, weight = problem.Y[:, 0] > 0.0, np.abs(problem.Y[:, 0]), _counted(problem)
    score = forest.outputs(problem.X)[:, 0]
    if forest.outside is not None:
        means, counts = forest.outside
        seen = counts > 0
        score = np.where(seen, means[:, 0], score)
        if np.count_nonzero(event & seen) >= FEW_EVENTS:
            known = event[seen], hazard[seen], weight[seen]
            likelihoods = [partial_likelihood(*known, candidate * score[seen]) for candidate in SLOPES]
            slope = float(SLOPES[int(np.argmax(likelihoods))])
    levels = breslow(levels, event, hazard, weight, slope * score)
    scaled = forest.unscale(fit.scaling.x_mean, fit.scaling.x_scale, 0.0, slope)
    return {
        "forest_": scaled.with_spread(spread(fit.X, fit.rows.weight)),
        "slope_": slope,
        "unique_times_": times,
        "baseline_": levels,
    }


@dataclass(eq=False, repr=False)
class SurvivalForest(SurvivalModel, ForestModel):  # type: ignore[misc]
    """A forest of survival times: the mean log hazard ratio of trees, each on rows drawn with replacement, whose splits
    are the best of some random features by the likelihood of `SurvivalTree`.

    Take it where accuracy counts most. The cumulative hazard of a row is a baseline times the exponential of its risk,
    which is a logarithm; `SurvivalTree` answers the factor itself.

    Attributes
    ----------
    forest_ : opttree.Forest
        The forest; its leaves hold logarithms of hazard ratios, times the slope.
    slope_ : float
        The factor of the highest partial likelihood on rows that trees have not seen; 1 for fewer than ten events.
    unique_times_ : ndarray of shape (T,)
        Times of the training events.
    baseline_ : ndarray of shape (T,)
        Cumulative hazard of a row of risk 0 at these times, by Breslow's estimator with the answers of trees that have
        not seen a row.
    result_ : solvers.Result
        Result of the run.

    See Also
    --------
    SurvivalTree : a single tree, proved
    solvers.Bagging : the solver

    References
    ----------
    Ishwaran, Kogalur, Blackstone and Lauer, "Random survival forests", Annals of Applied Statistics 2 (2008).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import SurvivalForest, survival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = survival.outcome(rng.random(300) < 0.7, rng.exponential(np.exp(-X[:, 0])))
    >>> forest = SurvivalForest(30, random_state=0).fit(X[:200], y[:200])
    >>> bool(forest.score(X[200:], y[200:]) > 0.6)
    True
    """

    recipe = Recipe(
        solver=_bagging,
        outputs=unscaled,
        solve=_grown,
        model=_forest,
        depth=lambda options, n_samples: n_samples if options.max_depth is None else int(options.max_depth),
    )
    loss = _LogHazard()
    splits = "axis"
    leaves = "constant"

    n_estimators: int = option(100, "Number of trees.", least=1)
    _: KW_ONLY
    max_depth: int | None = option(None, "Largest depth of the trees, or None.", least=1)
    min_samples_leaf: int = groups.min_samples_leaf(10)
    max_features: float | Literal["sqrt"] | None = option(
        "sqrt", "Random features of each split, see `solvers.CartInit`."
    )

    def predict(self, X: Any) -> Floats:
        """Risk of each row: the logarithm of its hazard relative to the baseline.

        Parameters
        ----------
        X : array-like or table of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Logarithms of hazard ratios.
        """
        return super().predict(X)

    def _hazards(self, X: Any) -> Floats:
        hazards: Floats = np.exp(self.predict(X))[:, None] * self.baseline_
        return hazards

    if TYPE_CHECKING:
        slope_: float
