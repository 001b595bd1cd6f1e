"""GradTree's formulation: axis-aligned trees with a logit and a threshold for every branch and feature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opttree.kernels.dense import walk as dense
from opttree.kernels.losses import codes
from opttree.kernels.records import Rows
from opttree.model.tree import Tree
from opttree.runtime.options import Checked, option
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.floating]
INDEX = {"entmax": codes.ENTMAX, "gumbel": codes.GUMBEL, "soft": codes.SOFT}
KNOWN = 1.0  # margin of a known split's logit over the others, small enough for these to catch up


@dataclass(frozen=True, eq=False)
class DenseTreeProblem(Checked):
    """Minimise over theta = (I, T, L) the loss of a complete axis-aligned tree, by straight-through gradients.

    Branch t splits on the feature f with the largest of its logits ``I[t]``: left where ``x[f] <= T[t, f]``. Leaves
    hold scores: of the classes (softmax), or predictions. The loss is the weighted mean over rows of

    - squared loss: ``sum (f - y)^2``;
    - otherwise ``-(1 - q)^gamma log q + epsilon (1 - q)``, q the probability of the row's class: cross-entropy with a
      focal factor and the first term of PolyLoss (GradTree, appendix C).

    It is piecewise constant in I and T; `value_and_grad` returns GradTree's straight-through gradient, which ignores
    the two rounding steps (section 3.3) and so is not the derivative of the value. Penalties of the statement are
    ignored.

    Raises
    ------
    ValueError
        For a statement without a dense form, or an invalid option.

    See Also
    --------
    solvers.GradTree : trains it

    References
    ----------
    Marton, Luedtke, Bartelt and Stuckenschmidt, "GradTree: learning axis-aligned decision trees with gradient
    descent", AAAI 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    >>> from opttree import DenseTreeProblem
    >>> dense = DenseTreeProblem(TreeProblem(X, y, depth=2, splits="axis"))
    >>> theta = dense.random_theta(rng)
    >>> value, gradient = dense.value_and_grad(theta)
    >>> gradient.shape == theta.shape, dense.harden(theta).is_axis_aligned
    (True, True)
    """

    problem: TreeProblem = option(
        doc="""The statement; axis-aligned splits, constant leaves, squared, log or zero-one loss, depth >= 1. Log and
        zero-one loss are both replaced by the smooth loss above."""
    )
    gamma: float = option(0.0, "Focal factor.", least=0)
    epsilon: float = option(0.0, "Weight of the first term of PolyLoss.", least=0)
    index: Literal["entmax", "gumbel", "soft"] = option(
        "entmax",
        """How the gradient treats the choice of a feature: "entmax" (the paper's), "gumbel" (straight-through Gumbel
        softmax) or "soft" (features are weighted by entmax itself, which lower temperatures sharpen).""",
    )
    dtype: Literal["float32", "float64"] = option("float32", '"float32" or "float64".')

    def __post_init__(self) -> None:
        super().__post_init__()
        if (reason := self.refusal(self.problem)) is not None:
            raise ValueError(f"problem has no dense form: {reason}")

    @staticmethod
    def refusal(problem: TreeProblem) -> str | None:
        """Reason why a problem has no dense form.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        if problem.splits != "axis":
            return "its splits are oblique, and a branch of the dense form splits on one feature; use splits='axis'"
        if problem.leaves != "constant":
            return "its leaves are linear, and those of the dense form are constant"
        if (reason := problem.loss_function.refusal("dense")) is not None:
            return f"{reason}; use squared, log or zero_one"
        if problem.depth < 1:
            return "its depth is 0, so that it has no branches"
        return problem.float32_refusal

    @property
    def n_branches(self) -> int:
        """Branch nodes of the complete tree, B = 2^depth - 1."""
        return 2**self.problem.depth - 1

    @property
    def size(self) -> int:
        """Length of theta."""
        return 2 * self.n_branches * self.problem.n_features + (self.n_branches + 1) * self.problem.n_outputs

    @property
    def form(self) -> Any:
        """The formulation as the kernels take it."""
        p = self.problem
        kinds = (p.loss_function.dense, float(self.gamma), float(self.epsilon), INDEX[self.index])
        return dense.Form(p.depth, p.n_features, p.n_outputs, *kinds)

    @cached_property
    def data(self) -> Rows:
        """X (n, p), and Y (n, K) or class codes (n, 1), in the problem's dtype, and weights (n,) in float64.

        FloatingPointError if a number is too large for the dtype.
        """
        problem = self.problem
        with np.errstate(over="ignore"):
            X, Y = (np.ascontiguousarray(part, self.dtype) for part in (problem.X, problem.Y))
        for name, part in (("X", X), ("y", Y)):
            if not np.isfinite(part).all():
                raise FloatingPointError(f"{name} holds numbers too large for {self.dtype}")
        return Rows(X, Y, problem.w)

    def unpack(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Views of theta.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        I : ndarray of shape (B, p)
            Logits of the features.
        T : ndarray of shape (B, p)
            Thresholds.
        L : ndarray of shape (B + 1, K)
            Scores of the leaves.
        """
        if theta.shape != (self.size,):
            raise ValueError(f"theta must have shape ({self.size},); got {theta.shape}")
        return dense.parts.py_func(theta, self.form)

    def random_theta(self, rng: np.random.Generator) -> Floats:
        """Glorot uniform initial values: within ``sqrt(6 / (rows + columns))`` of zero.

        GradTree's algorithm 2, whose exponents 2^(2d-1) and 2^(2d) are read as the rows 2^d - 1 and 2^d.

        Parameters
        ----------
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        ndarray of shape (size,)
            The variables.
        """
        theta = np.empty(self.size, self.dtype)
        for part in self.unpack(theta):
            bound = np.sqrt(6.0 / sum(part.shape))
            part[:] = rng.uniform(-bound, bound, part.shape)
        return theta

    def value(self, theta: Floats) -> float:
        """Loss of the hard tree of a theta on all rows.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        float
            The loss.
        """
        return float(dense.value(self._checked(theta), self.data, self.form))

    def value_and_grad(
        self, theta: Floats, *, temperature: float = 1.0, seed: int = 0, rows: ArrayLike | None = None
    ) -> tuple[float, Floats]:
        """Loss and its straight-through gradient.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.
        temperature : float, default 1.0
            Divides the logits, > 0.
        seed : int, default 0
            Seed of the Gumbel noise of ``index="gumbel"``.
        rows : array-like or None, default None
            Numbers of the rows; None: all.

        Returns
        -------
        value : float
            The loss.
        gradient : ndarray of shape (size,)
            Its gradient.
        """
        theta, n = self._checked(theta), self.problem.n_samples
        gradient = np.empty_like(theta)
        some = np.arange(n) if rows is None else np.asarray(rows)
        if some.ndim != 1 or some.size == 0 or some.dtype.kind not in "iu" or some.min() < 0 or some.max() >= n:
            raise ValueError(f"rows must be numbers of rows, from 0 to {n - 1}; got {rows!r}")
        if not (np.isfinite(temperature) and temperature > 0.0):
            raise ValueError(f"temperature must be finite and > 0; got {temperature}")
        some = some.astype(np.int64)
        loss = dense.value_and_gradient(theta, float(temperature), seed, self.data, some, self.form, gradient)
        return float(loss), gradient

    def _checked(self, theta: ArrayLike) -> Floats:
        theta = np.ascontiguousarray(theta, self.dtype)
        self.unpack(theta)
        if not np.isfinite(theta).all():
            raise ValueError(f"theta must be finite; got {theta[~np.isfinite(theta)][0]}")
        return theta

    def harden(self, theta: Floats) -> Tree:
        """Complete hard tree of a theta; leaves are not refitted.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        Tree
            The tree.
        """
        theta, problem = self._checked(theta), self.problem
        _logits, T, scores = (np.array(part, np.float64) for part in self.unpack(theta))
        feature, branch = dense.features_of(theta, self.form), np.arange(self.n_branches)
        A = np.zeros(T.shape)
        A[branch, feature] = 1.0
        tree = Tree.complete(A, T[branch, feature], problem.n_outputs, problem.classes)
        if problem.is_classification:
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        return replace(tree, values=scores)

    def soften(self, tree: Tree, rng: np.random.Generator) -> Floats:
        """Theta of a tree, the inverse of `harden`.

        Splits "-x <= -b" are flipped.

        Parameters
        ----------
        tree : Tree
            The tree.
        rng : numpy.random.Generator
            Random numbers of the splits that complete the tree to the depth of the problem.

        Returns
        -------
        ndarray of shape (size,)
            The variables.

        Raises
        ------
        ValueError
            If the tree is infeasible for the problem.
        """
        tree = tree.canonical
        if (reason := self.problem.violation(tree)) is not None:
            raise ValueError(f"tree must be feasible; {reason}")
        theta = self.random_theta(rng)
        logits, T, scores = self.unpack(theta)
        node = np.zeros(2 * self.n_branches + 1, np.intp)  # the tree's node at each heap position
        for t in range(self.n_branches):
            known = node[t] < tree.n_branches
            node[2 * t + 1], node[2 * t + 2] = tree.children[node[t]] if known else (node[t], node[t])
            if known:
                f = int(np.flatnonzero(tree.A[node[t]])[0])
                logits[t, f] = logits[t].max() + KNOWN
                T[t, f] = tree.b[node[t]] / tree.A[node[t], f]
        values = tree.values
        if self.problem.is_classification and tree.link == "identity":
            values = np.log(np.maximum(values, codes.SMALLEST_PROBABILITY))
        scores[:] = values[node[self.n_branches :] - tree.n_branches]
        return theta
