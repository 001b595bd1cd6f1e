"""`AutoTreeRegressor` and `AutoTreeClassifier`: a portfolio of solvers in a given time, chosen on held-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from opttree import bridge
from opttree.clock import now
from opttree.estimators.base import ClassificationTree, Floats, Penalties, RegressionTree, as_forest
from opttree.estimators.boosting import DEPTHS as BOOSTED_DEPTHS, boosting_base
from opttree.estimators.forest import DEPTHS as FOREST_DEPTHS, ForestModel, default_depth
from opttree.estimators.scaling import Scaling, spread, with_training
from opttree.forest import Forest
from opttree.models import Model
from opttree.options import option
from opttree.problems import L1, L2, TreeProblem
from opttree.tree import Tree

__all__ = ["AutoTreeClassifier", "AutoTreeRegressor"]

SEARCH_SHARE = 0.55  # of the time limit, for the search on the training rows; the rest refits the best member
FOREST_PENALTY = 1e-6  # l2, on the splits of forests and boosted trees
SPLIT_PENALTY, LEAF_PENALTY = 1e-4, 1e-4  # l1, for single trees by solvers that do not shrink leaves
FINAL_STARTS = 12  # random starts of a distilled tree on all rows, as far as time allows
MEMBER_SHARE = 0.5  # of the remaining search time, for one member


@dataclass(frozen=True)
class Member:
    """A member of the portfolio: a solver, its changes to the problem, and whether the best tree warm-starts it."""

    name: str
    solver: Any
    depth: int
    penalised: bool = False
    warm: bool = False

    def statement(self, problem: TreeProblem) -> TreeProblem:
        """The problem that the member solves; forests, whose ``levels`` limit TAO trees, get no depth limit."""
        penalties = (L1(splits=SPLIT_PENALTY, leaves=LEAF_PENALTY),) if self.penalised else problem.penalties
        depth = problem.n_samples if getattr(self.solver, "levels", None) else self.depth
        return problem.restated(depth=depth, penalties=penalties)


@dataclass(eq=False, repr=False)
class _AutoTree(ForestModel):
    """Common part of the regressor and the classifier."""

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
    validation_fraction: float = option(0.2, "Share of the rows held out to choose the best member.", above=0, below=1)

    def _fit_noted(self, X: Floats, y: NDArray[Any], sample_weight: ArrayLike | None) -> tuple[TreeProblem, Scaling]:
        self._forget("forest_")
        return super()._fit_noted(X, y, sample_weight)

    def _depth_for(self, n_samples: int) -> int:
        return 1  # each member sets its own depth

    def _penalties(self, weight: Floats, n_features: int) -> Penalties:
        return (L2(splits=FOREST_PENALTY),)

    def _members(self, problem: TreeProblem) -> Iterator[Member]:
        """The portfolio, ordered by how well its members did in the race experiments, the best first."""
        solvers = bridge.solvers
        depth = default_depth(problem.n_samples, problem.n_features)
        deepest = FOREST_DEPTHS[1] + 2
        forest = solvers.TAOForest(n_jobs=self.n_jobs)
        if self.kind == "forest":
            yield Member("forest", replace(forest, levels=depth), depth)
            for kind, levels in BOOSTED_DEPTHS.items():
                yield Member(f"boosted, {kind}", solvers.Boosting(boosting_base(kind)), levels)
            for name, levels in (("deep forest", min(depth + 2, deepest)), ("shallow forest", max(depth - 2, 1))):
                yield Member(name, replace(forest, levels=levels), levels)
            return
        depths = tuple(sorted({max(depth - 1, 1), depth, min(depth + 1, deepest)}))
        yield Member("distilled", solvers.Distilled(forest, depths), depths[-1])
        for levels in (6, 4):
            yield Member(f"TAO, depth {levels}", solvers.TAO(init=solvers.HingeInit()), levels, penalised=True)
        boosted = solvers.Boosting(boosting_base("oblique"))
        yield Member("distilled, boosted", solvers.Distilled(boosted, depths), depths[-1])
        improve = solvers.TAO(max_iter=10, accept="improve")
        yield Member("TAO from the best", improve, deepest, penalised=True, warm=True)
        if not problem.is_classification:
            yield Member("GET, depth 4", solvers.Chain(solvers.GET(n_starts=1), solvers.TAO(accept="improve")), 4, True)

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        """Run the members on the training rows, then the one with the lowest validation loss again on all rows."""
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31 - 1))
        began = now()
        train, valid = problem.split(self.validation_fraction, np.random.default_rng(seed))
        rows: list[dict[str, Any]] = []
        best: dict[str, Any] = {"loss": np.inf}
        interrupted = False
        for member in self._members(problem):
            left = None if time_limit is None else SEARCH_SHARE * time_limit - (now() - began)
            if left is not None and rows and left < 0.05 * (time_limit or 0.0):
                break
            found = self._try(member, train, valid, best, seed, None if left is None else MEMBER_SHARE * max(left, 0.1))
            rows.append({"name": member.name, "loss": found["loss"], "seconds": found["seconds"]})
            if found["loss"] < best["loss"]:
                best = found
            interrupted = found["result"].termination.name == "INTERRUPTED"
            if interrupted:
                break
        self.members_, self.best_member_, self.validation_loss_ = rows, best["member"].name, best["loss"]
        result = replace(best["result"], tree=best["tree"], objective=valid_loss(problem, best["tree"]))
        if interrupted:
            return result
        until = None if time_limit is None else began + time_limit
        again = self._again(best, problem, seed, until, watch)
        late = again is not None and again.termination.name == "TIME_LIMIT"
        if again is None or (late and valid_loss(problem, again.tree) > result.objective):
            return result
        return again

    def _try(
        self, member: Member, train: TreeProblem, valid: TreeProblem, best: dict[str, Any], seed: int, limit: Any
    ) -> dict[str, Any]:
        """Run the member on ``train``; for distilled trees, the depth with the lowest validation loss is its result."""
        began = now()
        students: list[Any] = []
        last: list[Any] = [None]

        def watch(step: Any, _trace: Any) -> None:
            last[0] = step
            if "unlike_teacher" in step.info:
                students.append((valid_loss(valid, step.tree), step))

        result = self._run(member.solver, member.statement(train), self._from(best, member), seed, limit, watch)
        found: dict[str, Any] = {"member": member, "result": result, "info": {}, "from": best}
        if students:
            loss, step = min(students, key=lambda pair: pair[0])
            found |= {"tree": step.tree, "info": step.info}
        else:
            found["tree"] = result.tree if isinstance(last[0].tree, Tree) else last[0].tree
            loss = valid_loss(valid, found["tree"])
        return found | {"loss": loss, "seconds": now() - began}

    @staticmethod
    def _from(best: dict[str, Any], member: Member) -> Tree | None:
        """The warm start of a member, if it takes one."""
        return best.get("tree") if member.warm else None

    def _again(self, best: dict[str, Any], problem: TreeProblem, seed: int, until: float | None, watch: Any) -> Any:
        """Run the best member on all rows, after the member that gave its warm start; None if time runs out."""
        member, solver = best["member"], best["member"].solver
        before = self._again(best["from"], problem, seed, until, watch) if member.warm else None
        if member.warm and before is None:
            return None
        if "depth" in best["info"]:  # distilled: only the best depth, from more starts
            solver = replace(solver, depths=(int(best["info"]["depth"]),), n_starts=FINAL_STARTS)
        limit = None if until is None else max(until - now(), 0.1)
        start = None if before is None else before.tree
        steps: list[Any] = []

        def keep(step: Any, trace: Any) -> None:
            steps.append(step)
            if watch is not None:
                watch(step, trace)

        result = self._run(solver, member.statement(problem), start, seed, limit, keep)
        done = steps[-1]
        if isinstance(best["tree"], Forest) or "depth" in best["info"]:  # the last step, not that of lowest objective
            if isinstance(best["tree"], Forest) != isinstance(done.tree, Forest) or not done.info:
                return before
            return replace(result, tree=done.tree, objective=valid_loss(problem, done.tree))
        return result

    def _keep(self, problem: TreeProblem, scaling: Scaling, X: Floats, weight: Floats) -> None:
        model = scaling.unscale(self.result_.tree)
        if isinstance(model, Tree):
            self.forest_ = as_forest(with_training(model.canonical, X, weight), problem.n_outputs)
        else:
            self.forest_ = model.with_spread(spread(X, weight))

    def report(self) -> str:
        """The members in the order they ran, with held-out loss and seconds."""
        check_is_fitted(self, "members_")
        lines = [f"{row['name']:20s} {row['loss']:10.5g} {row['seconds']:8.2f} s" for row in self.members_]
        return "\n".join([*lines, f"best: {self.best_member_}"])


def valid_loss(valid: TreeProblem, model: Model) -> float:
    """Mean loss of a tree or a forest on the held-out rows."""
    return valid.mean_loss(model) if isinstance(model, Tree) else valid.mean_loss_of(model.answers(valid.X))


class AutoTreeRegressor(RegressionTree, _AutoTree):
    """The best tree, or forest, that the toolkit finds in the time given: several solvers, chosen on held-out rows.

    For ``kind="tree"``: a tree distilled from a forest (`solvers.Distilled`), TAO from hinge splits at two depths, TAO
    from the best tree so far, GET. For ``kind="forest"``: forests of three depths and boosted trees of two kinds. The
    best is fitted again to all rows.

    Attributes
    ----------
    forest_ : `opttree.Forest`; ``tree_`` if it has a single tree.
    members_ : the members that ran: dictionaries of "name", "loss" (held out, outputs standardised) and "seconds".
    best_member_, validation_loss_ : the chosen member and its held-out loss, the lowest of all.
    result_ : `solvers.Result` of the last run.
    """

    loss = "squared"


class AutoTreeClassifier(ClassificationTree, _AutoTree):
    """`AutoTreeRegressor` for classification: members are compared by held-out log loss.

    Attributes
    ----------
    classes_ : (K,) class labels; the others are those of `AutoTreeRegressor`.
    """

    loss = "log"
