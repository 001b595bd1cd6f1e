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
    "statistics": "statistics that add up",
}


class Loss(Checked):
    """Base class of losses of one output; several outputs are summed. Subclasses are frozen dataclasses.

    `value` and `constant` are needed by all solvers that take such losses; `majorizer`, or `gradient` and `curvature`,
    by `solvers.Boosting`; `statistics` and `cost`, or one of the forms below, by `solvers.BranchAndBound`. Class
    attributes say what kernels and exact forms know of a loss; a loss of one's own needs none of them.

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
    joint : bool
        Whether the outputs are one outcome, with `of_rows` and `constants` of all of them, and not losses to be summed.
    chooses : bool
        Whether leaves choose one of the outputs: their numbers are the classes of trees.
    averages : bool
        Whether best constants are means, so that leaves may be shrunk towards those of the nodes above.
    degree : float
        Outcomes and predictions c times as large lose ``c ** degree`` times as much.
    criterion : str
        The criterion of scikit-learn that grows trees most like it.
    code : int
        The branch of compiled kernels; without one, solvers take its losses as a table of rows and leaves.
    form : str or None
        "quadratic", "absolute", "errors" or "entropy": the form that exact searches, integer programs and side
        constraints on leaves know it in.
    additive : str or None
        "poisson", "gamma", "exponential", "quantile" or "huber": the form that only the search of exact trees knows it
        in.
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
    joint: ClassVar[bool] = False
    chooses: ClassVar[bool] = False
    averages: ClassVar[bool] = False
    degree: ClassVar[float] = 1.0
    criterion: ClassVar[str] = "squared_error"
    code: ClassVar[int] = codes.TABLE
    form: ClassVar[str | None] = None
    additive: ClassVar[str | None] = None
    smooth: ClassVar[int | None] = None
    dense: ClassVar[int | None] = None
    linear_leaves: ClassVar[Any] = None
    lasso_scale: ClassVar[float] = 1.0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in cls.__dict__ and cls.name is not None:
            NAMED[cls.name] = cls

    def check(self, y: Floats) -> None:
        """Check that the loss is for some outcomes.

        Parameters
        ----------
        y : ndarray
            Outcomes.

        Raises
        ------
        ValueError
            For outcomes that the loss is not for.
        """

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """Loss of outcomes at predictions.

        Parameters
        ----------
        y : ndarray
            Outcomes.
        prediction : ndarray
            Predictions; they broadcast against the outcomes.

        Returns
        -------
        ndarray
            The losses.
        """
        raise NotImplementedError(f"{type(self).__name__} must define value")

    def constant(self, y: Floats, w: Floats) -> float:
        """Constant prediction that minimises ``sum w value(y, .)``.

        Parameters
        ----------
        y : ndarray of shape (m,)
            Outcomes.
        w : ndarray of shape (m,)
            Weights, > 0.

        Returns
        -------
        float
            The prediction.
        """
        raise NotImplementedError(f"{type(self).__name__} must define constant")

    def majorizer(self, y: Floats, prediction: Floats) -> tuple[Floats, Floats]:
        """Quadratic ``w (f - prediction - t)^2`` that, up to a constant, is nowhere below the loss and touches it.

        By `gradient` and `curvature`, ``w = h / 2`` and ``t = -g / h``.

        Parameters
        ----------
        y : ndarray
            Outcomes.
        prediction : ndarray
            Predictions, where it touches.

        Returns
        -------
        w : ndarray
            Weights, > 0.
        t : ndarray
            Steps.
        """
        h = self.curvature(y, prediction)
        return 0.5 * h, -self.gradient(y, prediction) / h

    def statistics(self, y: Floats) -> Floats:
        """Statistics of rows, whose weighted sums tell what a leaf costs, see `cost`.

        Parameters
        ----------
        y : ndarray of shape (n,), or (n, K) of a joint loss
            Outcomes.

        Returns
        -------
        ndarray of shape (n, S)
            The statistics.
        """
        raise NotImplementedError(f"{type(self).__name__} must define statistics")

    def least(self, y: Floats) -> Floats:
        """What no leaf spares a row; `cost` is what comes on top of it.

        Parameters
        ----------
        y : ndarray of shape (n,), or (n, K) of a joint loss
            Outcomes.

        Returns
        -------
        ndarray of shape (n,)
            The least losses, >= 0; by default 0.
        """
        return np.zeros(len(y))

    def pseudo(self, y: Floats) -> tuple[Floats, Floats]:
        """Outcomes and weights with which scikit-learn's `criterion` grows trees most like the loss.

        Parameters
        ----------
        y : ndarray of shape (n,) or (n, K)
            Outcomes.

        Returns
        -------
        y : ndarray of shape (n,) or (n, K)
            By default the outcomes.
        factor : ndarray of shape (n,)
            Factors of the rows' weights, >= 0; by default 1.
        """
        return y, np.ones(len(y))

    @staticmethod
    def cost(s: Floats) -> float:
        """Loss of a leaf of the best constant, by the weighted sums of its rows' statistics.

        A function that numba compiles. It is never negative, and no less for the rows of two leaves together than for
        each alone, added up.

        Parameters
        ----------
        s : ndarray of shape (S,)
            The sums.

        Returns
        -------
        float
            The loss.
        """
        raise NotImplementedError

    def gradient(self, y: Floats, prediction: Floats) -> Floats:
        """Derivative of `value` in the prediction.

        Parameters
        ----------
        y : ndarray
            Outcomes.
        prediction : ndarray
            Predictions; they broadcast against the outcomes.

        Returns
        -------
        ndarray
            The derivatives.
        """
        raise NotImplementedError(f"{type(self).__name__} must define gradient")

    def curvature(self, y: Floats, prediction: Floats) -> Floats:
        """Upper bound of the second derivative of `value` in the prediction.

        Parameters
        ----------
        y : ndarray
            Outcomes.
        prediction : ndarray
            Predictions; they broadcast against the outcomes.

        Returns
        -------
        ndarray
            The bounds, > 0.
        """
        raise NotImplementedError(f"{type(self).__name__} must define curvature")

    def of_rows(self, Y: Floats, outputs: Floats) -> Floats:
        """Loss of each row, summed over the outputs.

        Parameters
        ----------
        Y : ndarray of shape (n, K)
            Outcomes.
        outputs : ndarray of shape (n, K)
            Predictions.

        Returns
        -------
        ndarray of shape (n,)
            The losses.
        """
        return np.sum(self.value(Y, outputs), axis=1)

    def constants(self, Y: Floats, w: Floats, order: NDArray[Any], start: NDArray[Any], n_outputs: int) -> Floats:
        """Best constants of groups of rows.

        Parameters
        ----------
        Y : ndarray of shape (n, K)
            Outcomes.
        w : ndarray of shape (n,)
            Weights of the rows.
        order : ndarray of shape (m,)
            Rows of all groups, one group after another.
        start : ndarray of shape (L + 1,)
            Where each group begins in ``order``, and where the last ends.
        n_outputs : int
            Number of outputs, K.

        Returns
        -------
        ndarray of shape (L, K)
            The constants; 0 for empty groups.
        """
        best = np.zeros((len(start) - 1, n_outputs))
        for number in np.flatnonzero(np.diff(start)):
            rows = order[start[number] : start[number + 1]]
            best[number] = [self.constant(Y[rows, k], w[rows]) for k in range(n_outputs)]
        return best

    def starts(self, Y: Floats, w: Floats, order: NDArray[Any], start: NDArray[Any], n_outputs: int) -> Floats:
        """Constant terms of linear leaves before they are fitted, see `constants`.

        Parameters
        ----------
        Y : ndarray of shape (n, K)
            Outcomes.
        w : ndarray of shape (n,)
            Weights of the rows.
        order : ndarray of shape (m,)
            Rows of all groups, one group after another.
        start : ndarray of shape (L + 1,)
            Where each group begins in ``order``, and where the last ends.
        n_outputs : int
            Number of outputs, K.

        Returns
        -------
        ndarray of shape (L, K)
            The terms.
        """
        return self.constants(Y, w, order, start, n_outputs)

    def lacks(self, *needs: str) -> str | None:
        """First of some methods or attributes that the loss does not define.

        Parameters
        ----------
        *needs : str
            Names of methods or attributes, see `MEANING`.

        Returns
        -------
        str or None
            The name, or None.
        """
        return next((name for name in needs if getattr(type(self), name) == getattr(Loss, name)), None)

    def refusal(self, *needs: str) -> str | None:
        """Reason why what needs some methods or attributes does not take the loss.

        Parameters
        ----------
        *needs : str
            Names of methods or attributes, see `MEANING`.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        lacking = self.lacks(*needs)
        if lacking is None:
            return None
        return f"its loss is {self.name or self!r}, and it takes losses with {MEANING[lacking]}"

    @property
    def can_boost(self) -> bool:
        """Whether it defines a majorizer, or gradient and curvature."""
        return self.lacks("majorizer") is None or self.lacks("gradient", "curvature") is None
