"""`Loss`: what a loss says of itself. The named ones and users' own are instances of its subclasses.

A loss is closed by default: a solver or a form of the problem lists what it needs, `Loss.lacks` says what of it a loss
does not define, and `refusal` makes the sentence. To add a loss, write one subclass; give it a ``name`` to be known by
in `NAMED`, and a ``code`` if kernels have a branch for it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.losses import codes
from opttree.runtime.options import Checked

Floats = NDArray[np.float64]
NAMED: dict[str, type[Loss]] = {}  # the losses that a problem takes by name
MEANING = {  # of what a loss may define
    "value": "a value",
    "constant": "a best constant",
    "gradient": "a gradient",
    "curvature": "a curvature",
    "majorizer": "a majorizer",
    "code": "a branch in the compiled kernels",
    "form": "an exact form, of searches and programs",
    "smooth": "a smooth form",
    "dense": "a gradient in the leaves",
    "linear_leaves": "linear leaves",
    "averages": "leaves that are means",
}


class Loss(Checked):
    """Base class of losses of one output; several outputs are summed. Subclasses are frozen dataclasses.

    `value` and `constant` are needed by all solvers that take such losses; `majorizer`, or `gradient` and `curvature`,
    by `solvers.Boosting`. Class attributes say what kernels and exact forms know of a loss; a loss of one's own needs
    none of them.

    Attributes
    ----------
    name : str or None
        What a `TreeProblem` calls the loss by.
    labels : bool
        Whether outcomes are labels; `value` then has class codes (n, 1) and scores or shares (n, K) of the classes.
    positive : bool
        Whether predictions must be > 0, so that sums of trees may leave the domain.
    scales : bool
        Whether outputs may be shifted and scaled: the best leaves shift and scale along.
    averages : bool
        Whether best constants are means, so that leaves may be shrunk towards those of the nodes above.
    degree : float
        Outcomes and predictions c times as large lose ``c ** degree`` times as much.
    criterion : str
        scikit-learn's criterion that grows trees most like it.
    code : int
        The branch of compiled kernels; without one, solvers take its losses as a table of rows and leaves.
    form : str or None
        "quadratic", "absolute", "errors" or "entropy": the form that exact searches, integer programs and side
        constraints on leaves know it in.
    smooth, dense : int or None
        The branch of kernels for smooth trees and for `DenseTreeProblem`.
    linear_leaves : kernel or None
        What fits linear leaves, see `opttree.kernels.leaves.fit`.
    lasso_scale : float
        The loss relative to the one that strengths of a lasso on linear leaves are stated for.

    See Also
    --------
    opttree.TreeProblem : takes it as ``loss``
    opttree.TAORegressor : takes most by name, and any as ``loss``

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.losses import Loss
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Relative(Loss):
    ...     # squared error relative to the outcome
    ...     def value(self, y, prediction):
    ...         return ((y - prediction) / y) ** 2
    ...     def constant(self, y, w):
    ...         return float(np.sum(w / y) / np.sum(w / y**2))
    >>> problem = TreeProblem(X, 1.0 + X[:, 0], depth=2, splits="axis", loss=Relative())
    >>> bool(problem.objective(problem.best_constant()) < 0.05)
    True
    """

    name: ClassVar[str | None] = None
    labels: ClassVar[bool] = False
    positive: ClassVar[bool] = False
    scales: ClassVar[bool] = False
    averages: ClassVar[bool] = False
    degree: ClassVar[float] = 1.0
    criterion: ClassVar[str] = "squared_error"
    code: ClassVar[int] = codes.GIVEN
    form: ClassVar[str | None] = None
    smooth: ClassVar[int | None] = None
    dense: ClassVar[int | None] = None
    linear_leaves: ClassVar[Any] = None
    lasso_scale: ClassVar[float] = 1.0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in cls.__dict__ and cls.name is not None:
            NAMED[cls.name] = cls

    def check(self, y: Floats) -> None:
        """ValueError for outcomes ``y`` that the loss is not for."""

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The loss of outcomes at predictions, arrays that broadcast against each other."""
        raise NotImplementedError(f"{type(self).__name__} must define value")

    def constant(self, y: Floats, w: Floats) -> float:
        """The constant prediction that minimises ``sum w value(y, .)``, for ``y, w (m,)``, all weights > 0."""
        raise NotImplementedError(f"{type(self).__name__} must define constant")

    def majorizer(self, y: Floats, prediction: Floats) -> tuple[Floats, Floats]:
        """Weights w > 0 and steps t of a quadratic ``w (f - prediction - t)^2`` that, up to a constant, is nowhere
        below the loss and touches it at ``prediction``: by `gradient` and `curvature`, ``w = h / 2`` and ``t = -g /
        h``.
        """
        h = self.curvature(y, prediction)
        return 0.5 * h, -self.gradient(y, prediction) / h

    def gradient(self, y: Floats, prediction: Floats) -> Floats:
        """The derivative of `value` in the prediction."""
        raise NotImplementedError(f"{type(self).__name__} must define gradient")

    def curvature(self, y: Floats, prediction: Floats) -> Floats:
        """An upper bound, > 0, of its second derivative."""
        raise NotImplementedError(f"{type(self).__name__} must define curvature")

    def of_rows(self, Y: Floats, outputs: Floats) -> Floats:
        """The loss (n,) of outcomes ``Y (n, K)`` at predictions (n, K), summed over the outputs."""
        return np.sum(self.value(Y, outputs), axis=1)

    def constants(self, Y: Floats, w: Floats, order: NDArray[Any], start: NDArray[Any], n_outputs: int) -> Floats:
        """The best constants (L, K) of groups of rows, ``order[start[l]:start[l + 1]]`` each; 0 for empty ones."""
        best = np.zeros((len(start) - 1, n_outputs))
        for number in np.flatnonzero(np.diff(start)):
            rows = order[start[number] : start[number + 1]]
            best[number] = [self.constant(Y[rows, k], w[rows]) for k in range(n_outputs)]
        return best

    def starts(self, Y: Floats, w: Floats, order: NDArray[Any], start: NDArray[Any], n_outputs: int) -> Floats:
        """What the constant terms (L, K) of linear leaves are before they are fitted, see `constants`."""
        return self.constants(Y, w, order, start, n_outputs)

    def lacks(self, *needs: str) -> str | None:
        """The first of some methods or attributes, see `MEANING`, that the loss does not define, or None."""
        return next((name for name in needs if getattr(type(self), name) == getattr(Loss, name)), None)

    def refusal(self, *needs: str) -> str | None:
        """Why what needs these methods or attributes does not take the loss, in one sentence, or None."""
        lacking = self.lacks(*needs)
        return None if lacking is None else f"its loss is {self.name or self!r}, and it takes losses with {MEANING[lacking]}"

    @property
    def can_boost(self) -> bool:
        """Whether it defines a majorizer, or gradient and curvature."""
        return self.lacks("majorizer") is None or self.lacks("gradient", "curvature") is None
