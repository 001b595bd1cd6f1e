"""The nearest row with another answer, by a small program for each leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opttree.explain.path import as_rows, one_row
from opttree.model.convert import as_tree
from opttree.model.files import Model, as_saved
from opttree.model.tree import Tree
from opttree.runtime.words import number
from opttree.tables.encoding import DAY, Encoding, Levels, Missing, Unread, Value, raw_columns

Floats = NDArray[np.float64]
MARGINS = (1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)  # distance kept from the edges of a leaf, in standard deviations


@dataclass(frozen=True)
class Counterfactual:
    """The nearest row with another answer.

    Attributes
    ----------
    changes : mapping of str to tuple[Any, Any]
        For each column that changes, its value before and after.
    distance : float
        Sum of the changes of numbers, each in standard deviations of the training rows (of squares, for ``norm="l2"``),
        and 1 for each category or boolean that changes.
    answer : float or label
        What the model answers for the new row.
    features : ndarray of shape (p,)
        The new row as the features of the tree.
    leaf : int
        The leaf that it reaches.

    See Also
    --------
    counterfactual : what returns it

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> other = opttree.explain.counterfactual(model, X[:1], target=(0.0, 120.0))
    >>> other.distance > 0, len(other.changes) > 0
    (True, True)
    """

    changes: Mapping[str, tuple[Any, Any]]
    distance: float
    answer: Any
    features: Floats
    leaf: int

    def __str__(self) -> str:
        def shown(value: Any) -> str:
            return number(float(value), 6) if isinstance(value, (float, np.floating)) else str(value)

        def beyond(old: Any, new: Any) -> str:
            """The new value, rounded away from the old one: what is nearer may not flip the answer."""
            if not isinstance(new, (float, np.floating)) or not isinstance(old, (int, float, np.number)):
                return shown(new)
            exact = Decimal(float(new))
            unit = Decimal(1).scaleb(exact.adjusted() - 5)
            return f"{exact.quantize(unit, ROUND_CEILING if new > old else ROUND_FLOOR).normalize():f}"

        parts = [f"{name} from {shown(old)} to {beyond(old, new)}" for name, (old, new) in self.changes.items()]
        return f"{'; '.join(parts) or 'no change'} (distance {self.distance:.4g}) gives {shown(self.answer)}"


@dataclass(frozen=True)
class _Variables:
    """Variables of the program, and the features as affine functions of them: ``features = G v + g``."""

    G: Floats
    g: Floats
    start: Floats  # the variables of the row itself
    cost: Floats  # of a unit of change: 1 / standard deviation of a number, 1/2 for each level that changes
    lower: Floats
    upper: Floats
    is_binary: NDArray[np.bool_]
    groups: tuple[tuple[int, ...], ...]  # levels of one column, of which one is 1
    names: tuple[tuple[int, Any], ...]  # the column of each variable, and its level
    low: Floats  # (p,) least and largest value of each feature, to which the encoding clips it
    high: Floats
    is_date: NDArray[np.bool_]

    def features(self, values: Floats) -> Floats:
        """The features (p,) of variables."""
        return np.clip(self.G @ values + self.g, self.low, self.high)


def counterfactual(
    model: Any,
    row: Any,
    target: Any = None,
    *,
    fixed: Sequence[str] = (),
    bounds: Mapping[str, tuple[float, float]] | None = None,
    norm: Literal["l1", "l2"] = "l1",
) -> Counterfactual:
    """The row nearest to ``row`` for which a hard tree answers otherwise; exact, by HiGHS.

    For each leaf with such an answer, a linear or mixed-integer program (a quadratic one for ``norm="l2"``) finds the
    nearest row that reaches it; the nearest of all is the answer. Numbers may become any number, categories any level
    of the training rows; what is missing stays missing.

    Parameters
    ----------
    model : Tree, Model or estimator
        A hard tree, or what holds one.
    row : DataFrame or array-like of shape (p,) or (1, p)
        One row.
    target : label, tuple[float, float] or None, default None
        The answer wanted: a class, or None for any other one; for a regression tree, which needs it, an interval
        ``(low, high)``.
    fixed : sequence of str, default ()
        Columns that may not change.
    bounds : mapping of str to tuple[float, float] or None, default None
        Least and largest value of columns of numbers.
    norm : {"l1", "l2"}, default "l1"
        "l1": the sum of the changes; "l2": the sum of their squares, for trees of numbers only.

    Returns
    -------
    Counterfactual
        The nearest row with such an answer.

    Raises
    ------
    ValueError
        For a soft tree, a forest, several outputs, an unknown column or class, and if no row has such an answer.

    See Also
    --------
    Counterfactual : what it returns
    path : the way of the row as it is

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> other = opttree.explain.counterfactual(model, X[:1], target=(200.0, 300.0))
    >>> bool(model.predict(other.features[None])[0] >= 200.0)
    True
    """
    saved = as_saved(model)
    tree = as_tree(saved.tree)
    if tree.mixture:
        raise ValueError("counterfactual needs a hard tree; got a soft one, whose answer is a mixture of all leaves")
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm must be 'l1' or 'l2'; got {norm!r}")
    x = one_row(saved, row)
    goals = _goals(tree, x, target)
    names = saved.columns
    limits = dict(bounds or {})
    for name in (*fixed, *limits):
        if name not in names:
            raise ValueError(f"fixed and bounds must name columns of the model, {', '.join(names)}; got {name!r}")
    raw = None if tree.encoding is None else raw_columns(as_rows(row), tree.encoding.columns, tree.encoding.read)
    v = _variables(saved, tree, x, raw, names, set(fixed), limits)
    if norm == "l2" and v.is_binary.any():
        raise ValueError("norm='l2' is for trees of numbers; got categories or booleans")
    best: tuple[float, Floats, int] | None = None
    for leaf, G, h in goals:
        nearest = _nearest(tree, v, leaf, G, h, norm, np.inf if best is None else best[0])
        if nearest is not None:
            best = (*nearest, leaf)
    if best is None:
        raise ValueError(f"no row within the bounds has the answer {'other than now' if target is None else target}")
    distance, values, leaf = best
    z = v.features(values)
    answer = tree.predict(z[None])[0]
    return Counterfactual(_changes(v, values, names, raw, x, tree), distance, answer, z, tree.n_branches + leaf)


def _goals(tree: Tree, x: Floats, target: Any) -> list[tuple[int, Floats, Floats]]:
    """Leaves with the answer wanted, and what their linear models must satisfy in addition: ``G features <= h``."""
    values, coefs, lower, upper = tree.leaf_arrays
    p, K = tree.n_features, tree.n_outputs
    none = np.zeros((0, p)), np.zeros(0)
    goals: list[tuple[int, Floats, Floats]] = []
    if tree.classes is None:
        if K > 1:
            raise ValueError(f"counterfactual needs a tree of one output or of classes; got {K} outputs")
        if target is None or np.size(target) != 2:
            raise ValueError(f"target must be an interval (low, high) of answers of a regression tree; got {target!r}")
        low, high = map(float, target)
        if not low <= high:
            raise ValueError(f"target must be an interval (low, high) with low <= high; got {target!r}")
        for leaf in range(tree.n_leaves):
            value = float(values[leaf, 0])
            if not tree.linear_leaves or not coefs[leaf].any():
                if tree.linear_leaves and lower.size:
                    value = float(np.clip(value, lower[leaf, 0], upper[leaf, 0]))
                if low <= value <= high:
                    goals.append((leaf, *none))
                continue
            least, most = (float(b[leaf, 0]) if b.size else d for b, d in ((lower, -np.inf), (upper, np.inf)))
            if most < low or least > high:
                continue
            rows, sides = [], []
            if least < low:
                rows.append(-coefs[leaf, 0])
                sides.append(value - low)
            if most > high:
                rows.append(coefs[leaf, 0])
                sides.append(high - value)
            goals.append((leaf, np.reshape(rows, (-1, p)), np.array(sides)))
        return goals
    labels = list(tree.classes)
    now = tree.predict(x[None])[0]
    if target is not None and target not in labels:
        raise ValueError(f"target must be a class of the model, {labels}; got {target!r}")
    wanted = [k for k, label in enumerate(labels) if (label != now if target is None else label == target)]
    for leaf in range(tree.n_leaves):
        if not tree.linear_leaves or not coefs[leaf].any():
            if int(np.argmax(values[leaf])) in wanted:
                goals.append((leaf, *none))
            continue
        for k in wanted:
            others = [j for j in range(K) if j != k]
            goals.append((leaf, coefs[leaf, others] - coefs[leaf, k], values[leaf, k] - values[leaf, others]))
    return goals


def _variables(
    saved: Model, tree: Tree, x: Floats, raw: Any, names: list[str], fixed: set[str], limits: dict[str, Any]
) -> _Variables:
    """The variables of the program for the row with the features ``x``."""
    encoding = tree.encoding
    if encoding is None:
        encoding = Encoding.of_numbers(names)
        raw = [np.array([value]) for value in x]
    p = encoding.n_features
    spread = np.ones(p) if tree.spread is None else np.where(np.asarray(tree.spread) > 0.0, tree.spread, 1.0)
    columns: list[Floats] = []
    g = np.zeros(p)
    least, most = np.full(p, -np.inf), np.full(p, np.inf)
    entries: list[tuple[float, float, float, float, bool, int, Any]] = []
    groups = []
    for c, column in enumerate(encoding.columns):
        made = [(j, f) for j, f in enumerate(encoding.features) if f.column == c and not isinstance(f, Unread)]
        if not made:
            continue
        value, stays = raw[c][0], column.name in fixed
        if column.is_category:
            known = sorted({level for _j, f in made if isinstance(f, Levels) for level in f.numbers} - {""})
            levels = [value] if stays or value == "" else [value, *(level for level in known if level != value)]
            groups.append(tuple(range(len(entries), len(entries) + len(levels))))
            for level in levels:
                one = np.zeros(p)
                for j, f in made:
                    one[j] = float(level == "") if isinstance(f, Missing) else _levels(f).number_of(level)
                columns.append(one)
                entries.append((float(level == value), 0.5, 0.0, 1.0, True, c, level))
            continue
        if np.isnan(value):
            for j, _f in made:
                g[j] = x[j]
            continue
        one = np.zeros(p)
        low, high = limits.get(column.name, (-np.inf, np.inf))
        for j, f in made:
            if isinstance(f, Value):
                one[j] = 1.0
                if f.low is not None and f.high is not None:
                    least[j], most[j] = f.low, f.high
        if stays:
            low = high = float(value)
        is_boolean = column.kind == "boolean"
        if is_boolean:
            low, high = max(low, 0.0), min(high, 1.0)
        if not any(isinstance(f, Value) for _j, f in made):
            continue
        first, feature = next((j, f) for j, f in made if isinstance(f, Value))
        unit = spread[first]
        if feature.low is not None and feature.high is not None:  # missing ones may be that far beyond the others
            beyond = max(feature.low - feature.fill, feature.fill - feature.high)
            unit = beyond if beyond > 0.0 else unit
        columns.append(one)
        entries.append((float(value), 1.0 if is_boolean else 1.0 / unit, low, high, is_boolean, c, None))
    if not entries:
        raise ValueError("row must have an entry that is there; all of them are missing")
    start, cost, lower, upper, binary, of, level = (list(part) for part in zip(*entries, strict=True))
    return _Variables(
        np.array(columns).T, g, np.array(start), np.array(cost), np.array(lower), np.array(upper),
        np.array(binary, bool), tuple(groups), tuple(zip(of, level, strict=True)), least, most,
        np.array([encoding.columns[c].kind == "date" for c in of], bool),
    )  # fmt: skip


def _levels(feature: Any) -> Levels:
    assert isinstance(feature, Levels)
    return feature


def _nearest(
    tree: Tree, v: _Variables, leaf: int, G: Floats, h: Floats, norm: str, below: float
) -> tuple[float, Floats] | None:
    """Distance and variables of the nearest row in a leaf whose features satisfy ``G features <= h``; None if there is
    none nearer than ``below``.
    """
    rows, sides = [], []
    node = tree.n_branches + leaf
    parents = {int(kid): (t, side) for t in range(tree.n_branches) for side, kid in enumerate(tree.children[t])}
    while node in parents:
        node, side = parents[node]
        sign = 1.0 if side == 0 else -1.0
        j = int(tree.feature[node])
        if j >= 0 and np.isfinite(v.low[j]):  # beyond the ends are missing entries alone, which stay as they are
            ends = tree.A[node, j] * v.low[j], tree.A[node, j] * v.high[j]
            if min(sign * end for end in ends) > sign * tree.b[node] and v.G[j].any():
                return None
            if max(sign * end for end in ends) < sign * tree.b[node] and v.G[j].any():
                continue
        rows.append(sign * tree.A[node])
        sides.append(sign * tree.b[node])
    A = np.concatenate([np.reshape(rows, (len(rows), tree.n_features)), G])
    limit = np.concatenate([np.array(sides), h])
    # in changes from the row, numbers in standard deviations, and rows of size one
    unit = np.where(v.is_binary, 1.0, 1.0 / v.cost)
    A, limit = (A @ v.G) * unit, limit - A @ (v.G @ v.start + v.g)
    size = np.abs(A).max(axis=1, initial=0.0)
    if np.any(limit[size == 0.0] < 0.0):
        return None
    A, limit = A[size > 0.0] / size[size > 0.0, None], limit[size > 0.0] / size[size > 0.0]
    for margin in MARGINS:
        change_units = _solve(v, unit, A, limit - margin, norm)
        if change_units is None:
            return None
        values = np.clip(v.start + change_units * unit, v.lower, v.upper)
        values[v.is_binary] = np.round(values[v.is_binary])
        seconds = values * DAY
        away = np.where(values > v.start, np.ceil(seconds), np.floor(seconds)) / DAY  # so that the date can be written
        values = np.where(v.is_date & (values != v.start), np.clip(away, v.lower, v.upper), values)
        z = v.features(values)
        reached = tree.apply(z[None])[0] == tree.n_branches + leaf
        if reached and np.all(G @ z <= h + 1e-9 * (1.0 + np.abs(h))):
            change = np.abs(values - v.start) * v.cost
            distance = float(np.sum(change if norm == "l1" else change**2))
            return (distance, values) if distance < below else None
    return None


def _solve(v: _Variables, unit: Floats, A: Floats, limit: Floats, norm: str) -> Floats | None:
    """The least changes u, in units of ``unit``, that satisfy ``A u <= limit``, or None."""
    lower, upper = (v.lower - v.start) / unit, (v.upper - v.start) / unit
    cost = v.cost * unit
    if norm == "l2":
        return _quadratic(cost, lower, upper, A, limit)
    from scipy.optimize import Bounds, LinearConstraint, milp

    m = len(v.start)
    eye = np.eye(m)  # u and t with |u| <= t
    constraints = [LinearConstraint(np.hstack([sign * eye, -eye]), -np.inf, 0.0) for sign in (1.0, -1.0)]
    if len(A):
        constraints.append(LinearConstraint(np.hstack([A, np.zeros_like(A)]), -np.inf, limit))
    if v.groups:
        ones = np.zeros((len(v.groups), 2 * m))
        for k, group in enumerate(v.groups):
            ones[k, list(group)] = 1.0
        constraints.append(LinearConstraint(ones, 0.0, 0.0))  # one level comes for the one that goes
    solution = milp(
        np.concatenate([np.zeros(m), cost]),
        integrality=np.concatenate([v.is_binary, np.zeros(m, bool)]).astype(int),
        bounds=Bounds(np.concatenate([lower, np.zeros(m)]), np.concatenate([upper, np.full(m, np.inf)])),
        constraints=constraints,
        options={"mip_rel_gap": 0.0},
    )
    return None if solution.x is None else np.asarray(solution.x[:m])


def _quadratic(cost: Floats, lower: Floats, upper: Floats, A: Floats, limit: Floats) -> Floats | None:
    """`_solve` for squared changes: a convex quadratic program."""
    import highspy

    m = len(cost)
    program = highspy.Highs()
    program.silent()
    for j in range(m):
        program.addVar(float(lower[j]), float(upper[j]))
    for row, side in zip(A, limit, strict=True):
        used = np.flatnonzero(row)
        program.addRow(-highspy.kHighsInf, float(side), len(used), used.astype(np.int32), row[used])
    program.passHessian(
        m, m, int(highspy.HessianFormat.kTriangular), np.arange(m, dtype=np.int32), np.arange(m, dtype=np.int32),
        2.0 * cost**2,
    )  # fmt: skip
    program.run()
    if program.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.array(program.getSolution().col_value)


def _changes(
    v: _Variables, values: Floats, names: list[str], raw: Any, x: Floats, tree: Tree
) -> dict[str, tuple[Any, Any]]:
    """The columns whose values differ, before and after."""
    changes: dict[str, tuple[Any, Any]] = {}
    for k, (column, level) in enumerate(v.names):
        name = names[column]
        kind = "number" if tree.encoding is None else tree.encoding.columns[column].kind
        if level is not None:
            if values[k] > 0.5 and v.start[k] < 0.5:
                changes[name] = (raw[column][0], level)
        elif abs(values[k] - v.start[k]) * v.cost[k] > 1e-8:
            old, new = float(v.start[k]), float(values[k])
            if kind == "date" and tree.encoding is not None:
                changes[name] = (tree.encoding.date_text(old), tree.encoding.date_text(new))
            else:
                changes[name] = (bool(old), bool(new > 0.5)) if kind == "boolean" else (old, new)
    return changes
