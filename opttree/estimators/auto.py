"""`AutoTreeRegressor` and `AutoTreeClassifier`: a portfolio of solvers in a given time, chosen on held-out rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.utils.validation import check_is_fitted

from opttree.estimators import bridge
from opttree.estimators.boosting import DEPTHS as BOOSTED_DEPTHS, boosting_base
from opttree.estimators.forest import DEPTHS as FOREST_DEPTHS, ForestModel, default_depth
from opttree.estimators.logistic import logistic
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe
from opttree.estimators.soft import default_ridge
from opttree.estimators.steps.model import as_forest
from opttree.estimators.steps.shrink import STRENGTHS
from opttree.estimators.steps.solve import run, some_rows
from opttree.estimators.steps.units import spread, with_training
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.methods.table import estimator
from opttree.model.convert import Model, as_tree
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.clock import now
from opttree.runtime.options import option
from opttree.statement import L1, L2, TreeProblem
from opttree.statement.copies import different_rows, with_copies
from opttree.statement.shrinkage import NodeMoments
from opttree.tables.weights import n_rows

__all__ = ["AutoTreeClassifier", "AutoTreeRegressor"]

SEARCH_SHARE = 0.55  # of the time limit, for the search on the training rows; the rest refits the best member
FOREST_PENALTY = 1e-6  # l2, on the splits of forests and boosted trees
SPLIT_PENALTY, LEAF_PENALTY = 1e-4, 1e-4  # l1, for single trees by solvers that do not shrink leaves
FINAL_STARTS = 12  # random starts of a distilled tree on all rows, as far as time allows
MEMBER_SHARE = 0.5  # of the remaining search time, for one member
MANY_ROWS, FEW_ROWS = 2000, 400  # from the first on one part is held out; below the second all folds are made thrice
FOLDS, HELD_OUT = 5, 0.2
TREE_SHARE = 0.6  # of the last fit's time, for a tree that is shrunk afterwards
LOOKS = 4.0  # at all rows, for which the last fit leaves time
CELLS = 50_000.0  # rows x features of the search, per second of the time limit
SEARCH_ROWS = 10_000  # that the search sees in any case
FEWEST = 5  # rows below which none are held out: losses are then those of training
CLEARLY = 3.0  # standard errors behind the best, after which a member's other folds are left out
AT_ONCE = 2  # folds that share what is left of a member's time: better few whole fits than many cut short
NEEDED = 1.0  # standard errors by which a member that was tried on fewer folds must be ahead
RIDGES = (1e-4, 1e-2, 1.0)  # strengths of the linear member
RIDGE_WORK = 5e7  # rows x outputs x features^2 above which it has the least strength but one alone
CART_DEPTHS = (3, 6, 12)
SOFT_DEPTHS: dict[Literal["linear", "constant"], int] = {"linear": 5, "constant": 6}
SOFT_FACTOR = 3  # new rows per training row for soft trees that are taught by a forest


@dataclass(frozen=True)
class Member:
    """A member of the portfolio: a solver, its changes to the problem, and whether the best tree warm-starts it.

    ``continues``: whether, where the search saw a part of the rows, the last fit starts from the tree that it found.
    ``shrinkages`` are strengths of `opttree.statement.shrinkage` that are compared on the member's trees, which are
    then axis-aligned with constant leaves; ``ridges`` those of the L2 penalty of a single linear leaf. ``soft`` trees
    are compared after every fifty iterations.
    """

    name: str
    solver: Any
    depth: int
    penalised: bool = False
    warm: bool = False
    shrinkages: tuple[float, ...] = ()
    soft: Literal["constant", "linear"] | None = None  # leaves of a soft tree
    leaves: Literal["constant", "linear"] | None = None  # other leaves than the problem's
    ridges: tuple[float, ...] = ()
    continues: bool = False

    def statement(self, problem: TreeProblem) -> TreeProblem:
        """The problem that the member solves; forests, whose ``levels`` limit TAO trees, get no depth limit."""
        if self.shrinkages:
            return problem.restated(depth=self.depth, splits="axis", leaves="constant", penalties=())
        if self.ridges:
            return problem.restated(depth=0, leaves="constant", penalties=(), min_leaf=1)
        penalties = problem.penalties
        if self.penalised:
            penalties = (L1(splits=SPLIT_PENALTY, leaves=LEAF_PENALTY),)
        if self.soft:
            splits, leaves = default_ridge(n_rows(np.asarray(problem.sample_weight)), problem.n_features)
            ridge = L2(splits=splits, leaves=leaves if self.soft == "linear" else 0.0)
            return problem.restated(depth=self.depth, leaves=self.soft, penalties=(ridge,), min_leaf=1)
        depth = problem.n_samples if getattr(self.solver, "levels", None) else self.depth
        return problem.restated(depth=depth, penalties=penalties, leaves=self.leaves or problem.leaves)

    def final(self, variant: float | None) -> Any:
        """The solver of the last fit, of one variant: a distilled tree's depth, from more starts, or iterations."""
        if variant is None or self.shrinkages or self.ridges:
            return self.solver
        if isinstance(self.solver, bridge.solvers.Distilled):
            return replace(self.solver, depths=(int(variant),), n_starts=FINAL_STARTS)
        return replace(self.solver, max_iter=int(variant))

    def derived(self, stated: TreeProblem, tree: Tree, strengths: Sequence[float] | None = None) -> dict[Any, Model]:
        """The models that are made of a fit, by strength; none for other members."""
        if self.shrinkages:
            moments = NodeMoments(stated, tree)
            return {strength: moments.shrunk(strength) for strength in strengths or self.shrinkages}
        if self.ridges and stated.is_classification:
            return {strength: logistic(stated, strength) for strength in strengths or self.ridges}
        made: dict[Any, Model] = {}
        for strength in (strengths or self.ridges) if self.ridges else ():
            linear = stated.restated(leaves="linear", penalties=(L2(leaves=strength),))
            made[strength] = linear.fit_leaves(linear.best_constant(), leaves="linear", min_rows=1)
        return made


@dataclass
class Trial:
    """What a member found on each fold: models of its variants, the depths of distilled trees, the iterations of soft
    ones or strengths, and their losses (rows,) on the held-out rows; None names the only one. ``weights``: of these
    rows, which sum to one on each fold.
    """

    member: Member
    source: Trial | None  # the trial whose trees were the warm starts
    models: list[dict[float | None, Model]] = field(default_factory=list)
    losses: list[dict[float | None, Floats]] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    seconds: float = 0.0
    overrun: bool = False  # whether the last fold took much longer than it was given
    result: Any = None  # of the last fold

    @property
    def variant(self) -> float | None:
        """The variant of the lowest mean loss."""
        common = set.intersection(*map(set, self.losses))
        return min(common, key=lambda variant: (float(self._means(variant).mean()), variant or 0))

    def _means(self, variant: float | None) -> Floats:
        pairs = zip(self.weights, self.losses, strict=True)
        return np.array([float(np.sum(w * fold[variant])) for w, fold in pairs])

    @property
    def per_fold(self) -> Floats:
        """Mean loss of the best variant on each fold."""
        return self._means(self.variant)

    @property
    def loss(self) -> float:
        """Mean loss of the best variant."""
        return float(self.per_fold.mean())

    def lead(self, other: Trial) -> float:
        """By how many standard errors of their difference the loss is below another's, on the folds of both.

        The error is that of the rows' differences, or that of the folds' where it is larger: one fold has rows, too.
        """
        n = min(len(self.losses), len(other.losses))
        mine, theirs = self.variant, other.variant
        gains = [other.losses[k][theirs] - self.losses[k][mine] for k in range(n)]
        means = np.array([float(np.sum(w * gain)) for w, gain in zip(self.weights, gains, strict=False)])
        within = [np.sum(np.square(w * (g - m))) for w, g, m in zip(self.weights, gains, means, strict=False)]
        error = float(np.sqrt(np.sum(within))) / n
        if n > 1:
            error = max(error, float(means.std(ddof=1) / np.sqrt(n)))
        mean = float(means.mean())
        return mean / error if error > 0.0 else float(np.sign(mean)) * np.inf if mean else 0.0


def _members(options: Estimator, problem: TreeProblem) -> Iterator[Member]:
    """The portfolio, the cheapest members first: what they reach is the floor of what any time gives."""
    solvers = bridge.solvers
    depth = default_depth(problem.n_samples, problem.n_features)
    deepest = FOREST_DEPTHS[1] + 2
    forest = solvers.TAOForest(n_jobs=options.n_jobs)
    if options.kind == "forest":
        yield Member("forest", replace(forest, levels=depth), depth)
        for kind, levels in BOOSTED_DEPTHS.items():
            leaves: Any = "constant" if kind == "cart" else None
            yield Member(f"boosted, {kind}", solvers.Boosting(boosting_base(kind)), levels, leaves=leaves)
        for name, levels in (("deep forest", min(depth + 2, deepest)), ("shallow forest", max(depth - 2, 1))):
            yield Member(name, replace(forest, levels=levels), levels)
        return
    for levels in CART_DEPTHS:
        yield Member(f"CART, depth {levels}", solvers.CartInit(), levels, shrinkages=STRENGTHS)
    size = float(problem.n_samples) * problem.n_outputs * problem.n_features**2
    yield Member("linear", solvers.CartInit(), 0, ridges=RIDGES if size <= RIDGE_WORK else RIDGES[1:2])
    for levels in (4, 6):
        yield Member(
            f"TAO, depth {levels}", solvers.TAO(init=solvers.HingeInit()), levels, penalised=True, continues=True
        )
    if options.soft:
        soft = solvers.ORRT(bounded=True)
        for leaves, levels in SOFT_DEPTHS.items():
            yield Member(f"soft, {leaves} leaves", soft, levels, soft=leaves, continues=True)
    depths = tuple(sorted({max(depth - 1, 1), depth, min(depth + 1, deepest)}))
    yield Member("distilled", solvers.Distilled(forest, depths), depths[-1])
    if options.soft:
        taught = solvers.Distilled(forest, (SOFT_DEPTHS["constant"],), factor=SOFT_FACTOR, student=soft)
        yield Member("distilled, soft", taught, SOFT_DEPTHS["constant"], soft="constant")
    boosted = solvers.Boosting(boosting_base("oblique"))
    yield Member("distilled, boosted", solvers.Distilled(boosted, depths), depths[-1])
    improve = solvers.TAO(max_iter=10, accept="improve")
    yield Member("TAO from the best", improve, deepest, penalised=True, warm=True)
    if not problem.is_classification:
        yield Member("GET, depth 4", solvers.Chain(solvers.GET(n_starts=1), solvers.TAO(accept="improve")), 4, True)


def _solve(options: Estimator, fit: Fit) -> Outcome:
    """Run the members on the training rows, then the one with the lowest validation loss again on all rows."""
    problem, seed, time_limit = fit.problem, fit.seed, fit.time_limit
    began = now()
    folds = _folds(options, problem, seed)
    trials: list[Trial] = []
    interrupted = False
    for member in _members(options, problem):
        left = None if time_limit is None else SEARCH_SHARE * time_limit - (now() - began)
        if left is not None and trials and left < 0.05 * (time_limit or 0.0):
            break
        best = chosen(trials)
        until = None if left is None else now() + MEMBER_SHARE * max(left, 0.1)
        trial = _try(options, member, folds, best, seed, until)
        trials.append(trial)
        interrupted = trial.result.termination.name == "INTERRUPTED"
        if interrupted:
            break
    best = chosen(trials)
    assert best is not None  # the first trial has at least one fold
    members = [{"name": t.member.name, "loss": t.loss, "seconds": t.seconds, "folds": len(t.losses)} for t in trials]
    attributes = {"members_": members, "best_member_": best.member.name, "validation_loss_": best.loss}
    tree = best.models[0][best.variant]
    paused = now()
    result = replace(best.result, tree=tree, objective=problem.mean_loss(tree))
    if interrupted:
        return Outcome(result, attributes)
    needed = LOOKS * (now() - paused)
    until = None if time_limit is None else began + time_limit - needed
    seen = sum(part.n_samples for part in folds[0]) if len(folds) == 1 else problem.n_samples
    start = as_tree(tree) if best.member.continues and seen < problem.n_samples else None
    again = _again(options, best, problem, seed, until, start)
    late = again is not None and again.termination.name == "TIME_LIMIT"
    if again is None or (late and problem.mean_loss(again.tree) > result.objective):
        return Outcome(result, attributes)
    return Outcome(again, attributes)


def _folds(options: Estimator, problem: TreeProblem, seed: int) -> list[tuple[TreeProblem, TreeProblem]]:
    """Training and held-out rows: one part of many rows; of few rows five folds, of very few three times five."""
    if problem.n_samples < FEWEST:
        return [(problem, problem)]
    share = options.validation_fraction or (HELD_OUT if problem.n_samples >= MANY_ROWS else None)
    if share is not None:
        rng = np.random.default_rng(seed)
        most = (
            math.inf
            if options.time_limit is None
            else max(CELLS * options.time_limit / problem.n_features, SEARCH_ROWS)
        )
        train, valid = problem.split(share, rng)
        return [(some_rows(train, most, rng), some_rows(valid, most, rng))]
    repeats = 1 if problem.n_samples >= FEW_ROWS else 3
    first, copy = different_rows(problem.X, problem.Y)
    labels = problem.Y[first, 0]
    stratified = problem.is_classification and np.bincount(labels.astype(np.intp)).min() >= FOLDS
    kind = RepeatedStratifiedKFold if stratified else RepeatedKFold
    cuts = kind(n_splits=min(FOLDS, labels.size), n_repeats=repeats, random_state=seed).split(labels, labels)
    return [(problem.sample(train), problem.sample(valid)) for train, valid in with_copies(cuts, copy)]


def _run(*given: Any) -> Any:
    """`run`, without scikit-learn's warning of many classes, which is more often true of a part of the rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        return run(*given)


def _try(
    options: Estimator,
    member: Member,
    folds: list[tuple[TreeProblem, TreeProblem]],
    best: Trial | None,
    seed: int,
    until: float | None,
) -> Trial:
    """Run the member on the folds, until the time is up or it lies clearly behind the best."""
    began = now()
    trial = Trial(member, best if member.warm else None)
    for k, (train, valid) in enumerate(folds):
        left = max(min(FOLDS, len(folds), AT_ONCE), 1)
        limit = None if until is None else max((until - now()) / (left if k + 1 < len(folds) else 1), 0.05)
        started = now()
        if k and until is not None and now() >= until:
            break
        if trial.source is not None and k >= len(trial.source.models):
            break
        start = None if trial.source is None else as_tree(trial.source.models[k][trial.source.variant]).as_hard
        variants: dict[float | None, Model] = {}
        last: list[Any] = [None]

        def watch(step: Any, _trace: Any, variants: Any = variants, last: Any = last) -> None:
            last[0] = step
            if "unlike_teacher" in step.info:
                variants[float(step.info["depth"])] = step.tree
            elif step.info.get("iterations"):
                variants[float(step.info["iterations"])] = step.tree

        stated = member.statement(train)
        trial.result = _run(options, member.solver, stated, start, seed, limit, watch)
        if member.shrinkages or member.ridges:
            variants.update(member.derived(stated, as_tree(trial.result.tree)))
        if not variants:
            variants[None] = trial.result.tree if isinstance(last[0].tree, Tree) else last[0].tree
        if k and not set(variants) & set(trial.losses[0]):  # stopped before the variants of the first fold
            break
        trial.overrun = limit is not None and now() - started > max(1.5 * limit, 0.1)
        trial.models.append(variants)
        trial.losses.append({variant: valid.row_losses(model) for variant, model in variants.items()})
        trial.weights.append(valid.w)
        if trial.result.termination.name == "INTERRUPTED":
            break
        if best is not None and k >= 1 and best.lead(trial) > CLEARLY:
            break
    trial.seconds = now() - began
    return trial


def _again(
    options: Estimator, best: Trial, problem: TreeProblem, seed: int, until: float | None, start: Tree | None = None
) -> Any:
    """Run the best member on all rows, after the member that gave its warm start; None if time runs out."""
    member, variant = best.member, best.variant
    if until is not None and best.overrun and until - now() < best.seconds / len(best.losses):
        return None  # even its first step takes longer than there is time
    before = None if best.source is None else _again(options, best.source, problem, seed, until)
    if best.source is not None and before is None:
        return None
    derived = bool(member.shrinkages or member.ridges)
    varied = variant is not None and not derived
    limit = None if until is None else max((until - now()) * (TREE_SHARE if derived else 1.0), 0.1)
    if before is not None:
        start = as_tree(before.tree).as_hard
    steps: list[Any] = []

    def note(step: Any, _trace: Any) -> None:
        steps.append(step)

    stated = member.statement(problem)
    result = _run(options, member.final(variant), stated, start, seed, limit, note)
    done = steps[-1]
    if derived:
        (tree,) = member.derived(stated, as_tree(result.tree), [variant or 0.0]).values()
        return replace(result, tree=tree, objective=problem.mean_loss(tree))
    if isinstance(best.models[0][variant], Forest) or varied:  # the last step, not that of lowest objective
        if isinstance(best.models[0][variant], Forest) != isinstance(done.tree, Forest) or not done.info:
            return before
        return replace(result, tree=done.tree, objective=problem.mean_loss(done.tree))
    return result


def _model(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    model, X, weight = fit.scaling.unscale(outcome.result.tree), fit.X, fit.rows.weight
    if isinstance(model, Tree):
        return {"forest_": as_forest(with_training(model.canonical, X, weight), fit.problem.n_outputs)}
    return {"forest_": model.with_spread(spread(X, weight))}


RECIPE = Recipe(
    solver=lambda options, problem, valid: next(_members(options, problem)).solver,
    terms=lambda options, weight, n_features, y_scale: {"penalties": (L2(splits=FOREST_PENALTY),)},
    solve=_solve,
    model=_model,
    depth=lambda options, n_samples: 1,  # each member sets its own
)


@dataclass(eq=False, repr=False)
class _AutoTree(ForestModel):
    """Common part of the regressor and the classifier."""

    recipe = RECIPE
    splits = "oblique"
    leaves = "linear"

    time_limit: float | None = option(
        60.0,
        "Seconds, of which just over half go to the search; None: no limit.",
        above=0,
        finite=False,
        words="> 0 seconds or None",
    )
    _: KW_ONLY
    kind: Literal["tree", "forest"] = option("tree", "A tree or a forest.")
    soft: bool = option(
        True,
        """Whether a soft tree may be chosen, whose answer is the mixture of its leaves' (as `ORRTRegressor`); otherwise
        every row follows one path to one leaf.""",
    )
    validation_fraction: float | None = option(
        None,
        """Share of the rows held out once to choose the best member. None: .2 of 2000 rows and more; of fewer rows five
        folds, of fewer than 400 three times five. Members are compared on the folds that both have; one with fewer
        must be ahead by one standard error. Of more than 10,000 rows, the search sees 50,000 numbers of the table for
        each second of the time limit.""",
        above=0,
        below=1,
    )

    def report(self) -> str:
        """The members in the order they ran, with held-out loss and seconds."""
        check_is_fitted(self, "members_")
        lines = [f"{row['name']:20s} {row['loss']:10.5g} {row['seconds']:8.2f} s" for row in self.members_]
        return "\n".join([*lines, f"best: {self.best_member_}"])


def chosen(trials: Sequence[Trial]) -> Trial | None:
    """The trial of the lowest loss, compared on the folds that two trials share. Those of the most folds are compared
    first; one with fewer than the best must be ahead by more than one standard error of the difference.
    """
    best = None
    for trial in sorted(trials, key=lambda trial: -len(trial.losses)):
        if best is None or trial.lead(best) > (NEEDED if len(trial.losses) < len(best.losses) else 0.0):
            best = trial
    return best


@estimator(
    "auto",
    solver="Distilled",
    has_depth=False,
    methods={
        "auto": (
            "the best tree of a portfolio, distilled and soft ones among them, within --time-limit or a minute; "
            "no --depth",
            {},
        ),
    },
)
class AutoTreeRegressor(RegressionTree, _AutoTree):
    """A tree, or forest, of the solver that does best on held-out rows, of several that are tried in the time given.

    Take it for the best single tree when there are seconds or minutes to spare, and no wish to choose.

    For ``kind="tree"``, in this order: CART with shrunk leaves at three depths, a single linear leaf (ridge or logistic
    regression), TAO with linear leaves from hinge splits at two, soft trees with linear and with constant leaves (see
    `solvers.ORRT`), a tree distilled from a forest (`solvers.Distilled`), a soft one taught by it, a tree distilled
    from boosted ones, TAO from the best tree so far, GET. For ``kind="forest"``: forests of three depths and boosted
    trees of three kinds. A member that runs into its limit counts as what it found. The best is fitted again to all
    rows.

    Attributes
    ----------
    forest_ : opttree.Forest
        The model; ``tree_`` if it is a single tree.
    members_ : list of dict
        The members that ran: "name", "loss" (held out, outputs standardised; the mean over "folds") and "seconds".
    best_member_, validation_loss_ : str, float
        The chosen member and its held-out loss.
    result_ : solvers.Result
        Result of the last run.

    See Also
    --------
    AutoTreeClassifier : the same for classes
    TAOForestRegressor : where it need not be one tree

    Examples
    --------
    >>> from opttree import AutoTreeRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = AutoTreeRegressor(time_limit=2, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3
    True
    """

    loss = "squared"


@estimator("auto")
@dataclass(eq=False, repr=False, kw_only=True)
class AutoTreeClassifier(ClassificationTree, _AutoTree):
    """`AutoTreeRegressor` for classification: members are compared by held-out log loss.

    Take it for the best single tree when there are seconds or minutes to spare, and no wish to choose.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels; other attributes are those of `AutoTreeRegressor`.

    See Also
    --------
    AutoTreeRegressor : the same for numbers
    TAOForestClassifier : where it need not be one tree

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import AutoTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AutoTreeClassifier(time_limit=2, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    loss = "log"
