"""`privacy_report`: what a model says about single rows of its training table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.model.files import as_saved
from opttree.model.tree import Tree
from opttree.runtime.escape import plain
from opttree.runtime.words import number
from opttree.tables.encoding import Levels, Value

FEW = 5  # rows of a leaf that is listed
MOST_TRIED = 200  # rows that the smallest leaf is thought to hold at most, where their number is not known
LEAST_ROWS, MOST_ROWS = 20, 10**7  # of a training table
MOST_LISTED = 20


@dataclass(frozen=True)
class PrivacyReport:
    """What `privacy_report` found; `str` of it is the report in words.

    Attributes
    ----------
    levels : dict of str to tuple of str
        Levels of text columns, of at least ``min_level_rows`` training rows each.
    extremes : dict of str to tuple of (float, float)
        Smallest and largest training value of number columns, kept where values may be missing.
    medians : dict of str to float
        Median of number columns, kept for missing values.
    thresholds : dict of str to tuple of float
        Thresholds of axis-aligned splits, each of which lies between two training values.
    labels : tuple
        Class labels.
    small_leaves : tuple of (int, int, int)
        Tree, leaf node, and training rows of each leaf of fewer than five rows, whose answer says much of their
        targets. Where a model keeps no number of rows, the smallest that agrees with its shares is meant, and where
        rows were weighted, none is listed.
    outcomes : tuple of float
        Numbers of leaves that are, or may be, the outcome of a single training row: limits of linear leaves, and the
        medians or quantiles of an estimator of absolute or quantile loss. With ``y``, those that are outcomes.

    See Also
    --------
    privacy_report : makes it

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("iris", as_arrays=True)
    >>> model = opttree.TAOClassifier(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> opttree.privacy_report(model).small_leaves
    ()
    """

    levels: Mapping[str, tuple[str, ...]]
    extremes: Mapping[str, tuple[float, float]]
    medians: Mapping[str, float]
    thresholds: Mapping[str, tuple[float, ...]]
    labels: tuple[Any, ...]
    small_leaves: tuple[tuple[int, int, int], ...]
    outcomes: tuple[float, ...] = ()

    def to_text(self) -> str:
        """The report in words, a line for each thing that is kept."""
        lines = []
        for name, levels in self.levels.items():
            lines.append(f"levels of {plain(name)}: {plain(_listed(levels))}")
        for name, (low, high) in self.extremes.items():
            lines.append(
                f"range of {plain(name)}, its smallest and largest value or limits that clip it: "
                f"{number(low)}, {number(high)}"
            )
        for name, median in self.medians.items():
            lines.append(f"median {plain(name)}: {number(median)}")
        for name, cuts in self.thresholds.items():
            lines.append(f"thresholds of {plain(name)}, between training values: {_listed([number(c) for c in cuts])}")
        if self.outcomes:
            lines.append(
                f"numbers of leaves that may be outcomes of single rows: {_listed([number(y) for y in self.outcomes])}"
            )
        if self.labels:
            lines.append(f"labels: {plain(_listed([str(label) for label in self.labels]))}")
        for tree, leaf, rows in self.small_leaves[:MOST_LISTED]:
            lines.append(f"leaf {leaf} of tree {tree}: {rows} training row{'s' if rows > 1 else ''}")
        if len(self.small_leaves) > MOST_LISTED:
            lines.append(f"and {len(self.small_leaves) - MOST_LISTED} more leaves of fewer than {FEW} rows")
        return "\n".join(lines) or "nothing of single rows"

    def __str__(self) -> str:
        return self.to_text()


def privacy_report(model: Any, X: Any = None, y: Any = None) -> PrivacyReport:
    """What a model, and any file that `save` writes or export of it, says about rows of its training table.

    A pickle of an estimator may say more: those of survival trees and forests hold training times, those of estimators
    that learn by ``partial_fit`` the rows of the first part, and by ``fit_chunks``, as its checkpoints, the sample.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.
    X : DataFrame or array-like of shape (n, p), optional
        The training rows, by which the rows of each leaf are counted; else by the shares that trees keep.
    y : array-like of shape (n,) or (n, K), optional
        The training outcomes, which are looked for in leaves.

    Returns
    -------
    PrivacyReport
        What it says.

    See Also
    --------
    save : what writes the file

    Examples
    --------
    >>> import pandas as pd
    >>> import opttree
    >>> table = pd.DataFrame({"colour": ["red", "blue", "green"] * 20, "key": [f"k{i}" for i in range(60)]})
    >>> tree = opttree.TAORegressor(max_depth=2, splits="axis", high_cardinality="drop", random_state=0)
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", opttree.TableWarning)
    ...     tree = tree.fit(table, [1.0, 2.0, 5.0] * 20)
    >>> print(opttree.privacy_report(tree))
    levels of colour: blue, green, red
    """
    saved = as_saved(model, curves=True)
    inside = saved.tree
    trees: list[Tree] = [inside] if isinstance(inside, Tree) else list(inside.trees)
    levels: dict[str, tuple[str, ...]] = {}
    extremes: dict[str, tuple[float, float]] = {}
    medians: dict[str, float] = {}
    encoding = saved.encoding
    for feature in () if encoding is None else encoding.features:
        name = encoding.columns[feature.column].name  # type: ignore[union-attr]
        if isinstance(feature, Levels):
            levels[name] = tuple(sorted({*levels.get(name, ()), *feature.numbers}))
        elif isinstance(feature, Value) and feature.low is not None and feature.high is not None:
            extremes[name] = feature.low, feature.high
        elif isinstance(feature, Value) and feature.fill != 0.0:
            medians[name] = feature.fill
    thresholds: dict[str, set[float]] = {}
    names = saved.names
    curves = getattr(inside, "curves", None)
    for tree in trees if curves is None else ():
        for node in range(tree.n_branches):
            j = int(tree.feature[node])
            if 0 <= j < len(names) and (encoding is None or isinstance(encoding.features[j], Value)):
                thresholds.setdefault(names[j], set()).add(float(tree.b[node] / tree.A[node, j]))
    for name, (at, _to) in zip(names, () if curves is None else curves.knots, strict=False):
        thresholds.setdefault(name, set()).update(map(float, at))
    features = None if X is None else saved.table(X)
    small = [
        (number, leaf, rows)
        for number, tree in enumerate(trees)
        for leaf, rows in _leaf_rows(tree, features)
        if 0 < rows < FEW
    ]
    cuts = {name: tuple(sorted(values)) for name, values in thresholds.items()}
    labels = () if inside.classes is None else tuple(inside.classes.tolist())
    exact = getattr(model, "loss", None) in ("absolute", "quantile")
    held = _numbers_of_leaves(trees, answers=exact or y is not None) if inside.classes is None else set()
    if y is not None:
        held &= set(np.ravel(np.asarray(y)).tolist())
    return PrivacyReport(levels, extremes, medians, cuts, labels, tuple(small), tuple(sorted(held)))


def _numbers_of_leaves(trees: list[Tree], *, answers: bool) -> set[float]:
    """The limits of linear leaves, and the answers of constant ones."""
    found: set[float] = set()
    for tree in trees:
        limits = [limit for limit in (tree.lower, tree.upper) if limit is not None]
        for numbers in [*limits, tree.values] if answers else limits:
            found |= set(numbers[np.isfinite(numbers)].tolist())
    return found


def _leaf_rows(tree: Tree, X: NDArray[np.float64] | None) -> list[tuple[int, int]]:
    """Leaf nodes, and the number of training rows in each."""
    leaves = range(tree.n_branches, tree.n_nodes)
    if X is not None and X.shape[1] == tree.n_features:
        counts = np.bincount(tree.apply(X), minlength=tree.n_nodes)
        return [(leaf, int(counts[leaf])) for leaf in leaves]
    if tree.share is None or tree.mixture:
        return []
    share = np.asarray(tree.share)[tree.n_branches :]
    there = share[share > 0.0]
    for k in range(1, MOST_TRIED):
        n = round(k / float(there.min()))
        rows = share * n
        if LEAST_ROWS <= n <= MOST_ROWS and np.abs(rows - np.round(rows)).max() < 1e-6 * max(n, 1) ** 0.5:
            return [(leaf, int(count)) for leaf, count in zip(leaves, np.round(rows), strict=True)]
    return []


def _listed(texts: Any) -> str:
    return ", ".join(texts[:MOST_LISTED]) + (
        f" and {len(texts) - MOST_LISTED} more" if len(texts) > MOST_LISTED else ""
    )
