"""Trees as text: splits as inequalities, leaves as constants or equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.escape import plain
from opttree.runtime.words import number, threshold

Tree = Any  # an `opttree.Tree`, which imports this module


def tree_text(
    tree: Tree, names: Sequence[str], digits: int = 4, most: int | None = None, *, in_words: bool = False
) -> str:
    """The tree as indented text, with at most the ``most`` largest terms of each split and linear leaf; ``in_words``:
    splits on a feature of a table say what they mean for its column.
    """
    lines: list[str] = [gate_text(tree, digits)] if tree.mixture else []

    def walk(node: int, prefix: str) -> None:
        if node >= tree.n_branches:
            lines.append(f"{prefix}{leaf_text(tree, node, names, digits, most)}")
            return
        left, right = (int(c) for c in tree.children[node])
        below, above = sides(tree, node, names, digits, most, in_words=in_words)
        lines.append(f"{prefix}if {below}:")
        walk(left, prefix + "    ")
        lines.append(f"{prefix}else:  # {above}")
        walk(right, prefix + "    ")

    walk(0, "")
    return "\n".join(map(plain, lines))


def sides(
    tree: Tree,
    node: int,
    names: Sequence[str],
    digits: int = 4,
    most: int | None = None,
    *,
    in_words: bool = False,
    whole: bool = False,
) -> tuple[str, str]:
    """The condition of branch ``node`` and its opposite; at most the ``most`` largest terms; ``whole``: all levels."""
    j = int(tree.feature[node])
    if in_words and tree.encoding is not None and j >= 0 and not tree.mixture:
        split = j, float(tree.A[node, j]), float(tree.b[node])
        within = _within(tree, node, j) if hasattr(tree.encoding.features[j], "numbers") else (-np.inf, np.inf)
        condition: tuple[str, str] = tree.encoding.sides(*split, digits, whole=whole, within=within)
        return condition
    expression = terms(tree.A[node], names, digits, most, tree.spread)
    at = threshold(tree.b[node], digits) if j >= 0 else number(tree.b[node], digits)
    return f"{expression} <= {at}", f"{expression} > {at}"


def _within(tree: Tree, node: int, j: int) -> tuple[float, float]:
    """The numbers of a feature of levels that arrive at a branch: above the first, and at most the second."""
    low, high = -np.inf, np.inf
    while node > 0:
        above = int(tree.parents[node])
        right = int(tree.children[above, 1]) == node
        if int(tree.feature[above]) == j:
            weight = float(tree.A[above, j])
            at = float(tree.b[above]) / weight
            if (weight > 0.0) == right:
                low = max(low, at)
            else:
                high = min(high, at)
        node = above
    return low, high


def gate_text(tree: Tree, digits: int = 4) -> str:
    """One line that explains the splits of a mixture."""
    return f"soft: 'if a.x <= b' holds to the degree 1 / (1 + exp(-{number(tree.gate or 0.0, digits)} (b - a.x)))"


def leaf_text(tree: Tree, node: int, names: Sequence[str], digits: int = 4, most: int | None = None) -> str:
    """The prediction of leaf ``node`` in one line; at most the ``most`` largest linear terms."""
    leaf = node - tree.n_branches
    values, coefs = tree.kept_leaves[:2]
    if tree.classes is not None and not tree.linear_leaves:
        k = int(np.argmax(values[leaf]))
        return f"{tree.classes[k]}" if chooses(tree) else f"{tree.classes[k]} (p = {number(values[leaf, k], 3)})"
    parts = []
    for k in range(tree.n_outputs):
        text = number(values[leaf, k], digits)
        if tree.linear_leaves and np.any(coefs[leaf][k]):
            text += " + " + terms(coefs[leaf][k], names, digits, most, tree.spread)
        parts.append(text.replace("+ -", "- "))
    if tree.classes is not None:
        return "; ".join(f"score[{c}] = {part}" for c, part in zip(tree.classes, parts, strict=True))
    return parts[0] if len(parts) == 1 else "[" + ", ".join(parts) + "]"


def chooses(tree: Tree) -> bool:
    """Whether all leaves are sure of their class, as those that choose an action are."""
    values = tree.kept_leaves[0]
    sure: bool = tree.classes is not None and not tree.linear_leaves and bool(np.all((values == 0.0) | (values == 1.0)))
    return sure


def terms(
    weights: NDArray[np.float64],
    names: Sequence[str],
    digits: int = 4,
    most: int | None = None,
    spread: NDArray[np.float64] | None = None,
) -> str:
    """``w . x`` as text without zero terms; with ``most``, only the largest terms and an ellipsis.

    Terms are ranked by weight times standard deviation of the feature, ``spread (p,)``, if it is given.
    """
    chosen = np.flatnonzero(weights)
    cut = most is not None and chosen.size > most
    if cut:
        sizes = np.abs(weights if spread is None else weights * spread)[chosen]
        chosen = np.sort(chosen[np.argsort(-sizes, kind="stable")[:most]])
    told = {j: number(weights[j], digits) for j in map(int, chosen)}
    parts = [names[j] if word == "1" else f"{word} {names[j]}" for j, word in told.items()]
    return (" + ".join(parts).replace("+ -", "- ") or "0") + (" + ..." if cut else "")
