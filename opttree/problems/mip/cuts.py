"""BendersOCT: splits, answers and one variable per distinct row and answer; which rows are right is said by cuts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from opttree.model.tree import Tree
from opttree.problems.mip.candidates import Candidates
from opttree.problems.mip.complete import Complete
from opttree.statement.constraints import FeatureCost, ForbidSplit, LeafConstraint, MaxFeatures, MaxSplits
from opttree.statement.constraints.base import EXACT
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Cut(NamedTuple):
    """A row ``sum values[i] x[places[i]] <= upper`` of a program.

    Parameters
    ----------
    places : ndarray of int of shape (m,)
        Numbers of the variables.
    values : ndarray of shape (m,)
        Their coefficients.
    upper : float
        The right side.

    See Also
    --------
    solvers.Separator : finds them

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import Cut
    >>> Cut(np.array([0, 2]), np.ones(2), 1.0).violation(np.array([1.0, 0.0, 0.5]))
    0.5
    """

    places: Ints
    values: Floats
    upper: float

    def violation(self, point: Floats) -> float:
        """How far a point is above it.

        Parameters
        ----------
        point : ndarray
            Values of all variables.

        Returns
        -------
        float
            The distance; negative below.
        """
        return float(self.values @ point[self.places]) - self.upper


class Parts(NamedTuple):
    """A point by its parts: ``split (branches, C)``, ``answer (leaves, K)``, ``right (Q,)``."""

    split: Floats
    answer: Floats
    right: Floats


class CutProgram:
    """The master of Benders' decomposition, for 0/1 loss and costs of actions: it has no flows.

    Variables, in this order: ``split[t, c]``, 1 if branch t of the complete tree takes candidate c (none: all rows go
    left); ``answer[l, k]``, 1 if leaf l answers k; ``right[q]``, at most 1 and only if pattern ``pattern_of[q]``
    reaches a leaf that answers ``answer_of[q]``: that is what cuts say. The objective is ``offset`` less what right
    answers save.

    Attributes
    ----------
    tree : Complete
        The complete tree.
    goes_right : ndarray of bool of shape (G, C)
        Whether each distinct row goes right at each candidate.
    pattern_of, answer_of : ndarray of int of shape (Q,)
        The pattern and the answer of each ``right``.
    saved : ndarray of shape (Q,)
        What it saves.
    """

    def __init__(self, problem: TreeProblem, candidates: Candidates) -> None:
        self.problem, self.candidates = problem, candidates
        self.tree = Complete(problem.depth if len(candidates) else 0)
        patterns, group = np.unique(candidates.left.T, axis=0, return_inverse=True)
        if not len(candidates):
            patterns, group = np.ones((1, 0), bool), np.zeros(problem.n_samples, np.int64)
        self.goes_right, self.group = ~patterns, group.reshape(-1)
        K = problem.n_outputs
        lost = problem.Y if problem.loss_function.chooses else 1.0 - (np.arange(K) == problem.Y)
        costs = self.by_pattern(problem.w[:, None] * lost)
        worst = costs.max(axis=1)
        saved = worst[:, None] - costs
        self.limits = [c for c in problem.constraints if isinstance(c, LeafConstraint)]
        kept = np.ones(saved.shape, bool) if self.limits else saved > 0.0
        self.pattern_of, self.answer_of = np.nonzero(kept)
        self.saved, self.offset = saved[kept], float(worst.sum())
        self.n_split, self.n_answer = self.tree.n_branches * len(candidates), self.tree.n_leaves * K
        self.n_columns = self.n_split + self.n_answer + len(self.saved)

    def by_pattern(self, table: Floats) -> Floats:
        """Rows' numbers added up."""
        found = np.zeros((int(self.group.max()) + 1, *table.shape[1:]))
        np.add.at(found, self.group, table)
        return found

    def parts(self, point: Floats) -> Parts:
        """The parts of a point."""
        a, b = self.n_split, self.n_split + self.n_answer
        split = point[:a].reshape(self.tree.n_branches, len(self.candidates))
        return Parts(split, point[a:b].reshape(self.tree.n_leaves, -1), point[b:])

    def split_at(self, t: int, c: Any) -> Any:
        """Place of ``split[t, c]`` in a point."""
        return t * len(self.candidates) + c

    def answer_at(self, leaf: int, k: Any) -> Any:
        """Place of ``answer[leaf, k]`` in a point."""
        return self.n_split + leaf * self.problem.n_outputs + k

    def right_at(self, q: Any) -> Any:
        """Place of ``right[q]`` in a point."""
        return self.n_split + self.n_answer + q

    def rows(self, unit: float) -> dict[str, Any]:
        """The program as arrays, whose costs are in some unit, without its offset; HiGHS's names."""
        problem, C, K = self.problem, len(self.candidates), self.problem.n_outputs
        cost = np.zeros(self.n_columns)
        cost[: self.n_split] = problem.price_per_split / unit
        cost[self.n_split + self.n_answer :] = -self.saved / unit
        integer = np.zeros(self.n_columns, bool)
        integer[: self.n_split + self.n_answer] = True
        found: list[tuple[Ints, Floats, float, float]] = []
        every = np.arange(C)

        def add(places: Any, values: Any, low: float, high: float) -> None:
            found.append((np.asarray(places, np.int64), np.asarray(values, np.float64), low, high))

        for t in range(self.tree.n_branches):
            add(self.split_at(t, every), np.ones(C), -np.inf, 1.0)
            if t:
                both = np.concatenate([self.split_at(t, every), self.split_at((t - 1) // 2, every)])
                add(both, np.repeat([1.0, -1.0], C), -np.inf, 0.0)
        for leaf in range(self.tree.n_leaves):
            add(self.answer_at(leaf, np.arange(K)), np.ones(K), 1.0, 1.0)
        upper = np.ones(self.n_columns)
        feature = self.candidates.feature[self.candidates.family]
        names = sorted(set(feature.tolist()))
        extra = 0
        for c in problem.constraints:
            if isinstance(c, MaxSplits):
                add(np.arange(self.n_split), np.ones(self.n_split), -np.inf, float(c.k))
            elif isinstance(c, ForbidSplit):
                upper[: self.n_split] *= np.tile(feature != c.feature, self.tree.n_branches)
            elif isinstance(c, (MaxFeatures, FeatureCost)):
                if isinstance(c, FeatureCost):
                    costs, most = c.of(problem)[names], float(c.budget)
                else:
                    costs, most = np.ones(len(names)), float(c.k)
                uses = self.n_columns + extra + np.arange(len(names))
                extra += len(names)
                for t in range(self.tree.n_branches):
                    for place, j in zip(uses, names, strict=True):
                        on = self.split_at(t, np.flatnonzero(feature == j))
                        add([*on, place], [*np.ones(len(on)), -1.0], -np.inf, 0.0)
                add(uses, costs, -np.inf, most)
        self._add_limits(add)
        n = self.n_columns + extra
        count = len(found)
        sizes = [len(places) for places, *_rest in found]
        matrix = csc_array(
            (
                np.concatenate([values for _places, values, *_rest in found]),
                (np.repeat(np.arange(count), sizes), np.concatenate([places for places, *_rest in found])),
            ),
            shape=(count, n),
        )
        return {
            "n_columns": n,
            "n_rows": count,
            "col_cost_": np.append(cost, np.zeros(extra)),
            "col_lower_": np.zeros(n),
            "col_upper_": np.append(upper, np.ones(extra)),
            "row_lower_": np.array([low for *_rest, low, _high in found]),
            "row_upper_": np.array([high for *_rest, high in found]),
            "matrix": (matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data),
            "integer": np.append(integer, np.zeros(extra, bool)),
        }

    def _add_limits(self, add: Any) -> None:
        """One answer for every pattern, and the limits on these."""
        if not self.limits:
            return
        K = self.problem.n_outputs
        for g in range(len(self.goes_right)):
            add(self.right_at(g * K + np.arange(K)), np.ones(K), 1.0, 1.0)
        for c in self.limits:
            for weights, most in zip(*c.terms(self.problem), strict=True):
                table = self.by_pattern(weights).ravel()
                some = np.flatnonzero(table)
                add(self.right_at(some), table[some], -np.inf, float(most) + EXACT)

    def min_cuts(self, point: Floats, most: int, least: float) -> Iterator[Cut]:
        """The rows ``right[q] <= capacity of a cut`` that a point violates by more than ``least``: the ``most`` worst.

        A pattern flows from the root to the leaves that answer k: left of a branch at most 1 less the splits that send
        it right, right at most these, into a leaf at most its answer k. The least cut is found from the leaves up, for
        all patterns at once, in O(Q branches).
        """
        split, answer, right = self.parts(point)
        B, Q = self.tree.n_branches, len(self.pattern_of)
        to_right = np.clip(split @ self.goes_right.T, 0.0, 1.0)[:, self.pattern_of] if B else np.zeros((0, Q))
        value = np.empty((2 * B + 1, Q))
        value[B:] = answer[:, self.answer_of]
        for t in range(B - 1, -1, -1):
            value[t] = np.minimum(1.0 - to_right[t], value[2 * t + 1]) + np.minimum(to_right[t], value[2 * t + 2])
        over = right - value[0]
        worst = np.flatnonzero(over > least)
        worst = worst[np.argsort(-over[worst], kind="stable")[:most]]
        for q in worst.tolist():
            yield self._cut(q, to_right[:, q], value[:, q])

    def _cut(self, q: int, to_right: Floats, value: Floats) -> Cut:
        """The cut of a pattern and an answer, given the capacities and the flows below each node."""
        goes = np.flatnonzero(self.goes_right[self.pattern_of[q]])
        places, values, upper = [np.array([self.right_at(q)])], [np.ones(1)], 0.0
        pending = [0]
        while pending:
            node = pending.pop()
            if node >= self.tree.n_branches:
                places.append(np.array([self.answer_at(node - self.tree.n_branches, self.answer_of[q])]))
                values.append(-np.ones(1))
                continue
            left, right = 2 * node + 1, 2 * node + 2
            cut_left, cut_right = 1.0 - to_right[node] <= value[left], to_right[node] <= value[right]
            upper += float(cut_left)
            if cut_left != cut_right and goes.size:
                places.append(self.split_at(node, goes))
                values.append(np.full(goes.size, 1.0 if cut_left else -1.0))
            pending += [child for child, cut in ((left, cut_left), (right, cut_right)) if not cut]
        return Cut(np.concatenate(places), np.concatenate(values), upper)

    def chosen(self, point: Floats) -> Tree:
        """The tree of the splits of a point; leaves are zero."""
        split = self.parts(point[: self.n_columns]).split
        splits = {
            t: (self.candidates.A[c], float(self.candidates.b[c]))
            for t in range(self.tree.n_branches)
            for c in [int(split[t].argmax())]
            if split[t, c] > 0.5 and (t == 0 or split[(t - 1) // 2].max() > 0.5)
        }
        return self.problem.live(self.tree.decode(splits, self.problem))

    def encode(self, tree: Tree) -> Floats | None:
        """A tree of candidate splits as a point, or None."""
        point = np.zeros(self.n_columns)
        split, answer, right = self.parts(point)
        placed = self.tree.place(tree, self.problem.X)
        for t, node in placed.branches.items():
            same = np.all(tree.A[node] == self.candidates.A, axis=1) & (self.candidates.b == tree.b[node])
            if not same.any():
                return None
            split[t, np.flatnonzero(same)[0]] = 1.0
        given = tree.values.argmax(axis=1)[placed.owner]
        answer[np.arange(len(given)), given] = 1.0
        of_pattern = np.zeros(len(self.goes_right), np.int64)
        of_pattern[self.group] = given[placed.leaf]
        right[:] = of_pattern[self.pattern_of] == self.answer_of
        return point
