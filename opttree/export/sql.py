"""SQL: a model as one query, of `CASE WHEN` and arithmetic alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from opttree.model.files import as_saved
from opttree.model.forest import TINY_SHARE, Forest
from opttree.model.tree import Tree
from opttree.tables.encoding import Encoding, Levels, Missing


def to_sql(model: Any, table: str = "rows", *, keep: Sequence[str] = ()) -> str:
    """SQL query that predicts every row of a table.

    It selects "prediction", or "prediction_0", ... of several outputs; of a classification model "prediction", the
    label, and "p_LABEL" for every class.

    The columns of the table have the names of the model's columns, or features. A missing value is NULL, NaN or an
    empty text, where the model has the encoding of a table; dates are days since 1970; labels that are booleans are 0
    and 1. Without ``keep``, the rows must be matched by their order.
    Runs in SQLite (3.35 and later) and DuckDB; soft trees and boosted classes need the function EXP, which a SQLite
    without its mathematical functions lacks. It answers as `predict` does, but for rounding.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.
    table : str, default "rows"
        Name of the table.
    keep : sequence of str, default ()
        Columns of the table to select beside the answers, such as a key.

    Returns
    -------
    str
        The query.

    See Also
    --------
    to_c : for devices

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> import sqlite3
    >>> connection = sqlite3.connect(":memory:")
    >>> table = ", ".join(f"x{j} REAL" for j in range(10))
    >>> _ = connection.execute(f"CREATE TABLE patients ({table})")
    >>> _ = connection.executemany(f"INSERT INTO patients VALUES ({', '.join('?' * 10)})", X[:5].tolist())
    >>> answers = connection.execute(opttree.export.to_sql(model, "patients")).fetchall()
    >>> bool(abs(model.predict(X[:5]) - [answer for (answer,) in answers]).max() < 1e-9)
    True
    >>> connection.close()
    """
    saved = as_saved(model)
    inside = saved.tree
    if inside.encoding is None:
        features = [f"CAST({_name(name)} AS DOUBLE)" for name in saved.feature_names]
    else:
        features = _encoded(inside.encoding)
    kept = [f"{_name(column)} AS {_own('keep', k)}" for k, column in enumerate(keep)]
    query = Query(_name(table), [*kept, *(f"{text} AS {_own('x', j)}" for j, text in enumerate(features))])
    x = [_own("x", j) for j in range(len(features))]
    scores = _scores(query, inside, x)
    answers = [f"{_own('keep', k)} AS {_name(column)}" for k, column in enumerate(keep)]
    target = "prediction"
    if inside.classes is None:
        names = [target] if len(scores) == 1 else [f"{target}_{k}" for k in range(len(scores))]
        answers += [f"{score} AS {_name(name)}" for score, name in zip(scores, names, strict=True)]
        return query.select(answers)
    s = query.add("s", scores)
    cases = " ".join(_wins(s, k, inside.classes[k]) for k in range(len(s) - 1))
    label = f"CASE {cases} ELSE {_text(inside.classes[-1])} END" if cases else _text(inside.classes[0])
    shares = _shares(query, inside, s)
    answers.append(f"{label} AS {_name(target)}")
    answers += [f"{p} AS {_name(f'p_{c}')}" for p, c in zip(shares, inside.classes, strict=True)]
    return query.select(answers)


LEVELS = 6  # of a tree in one expression: parsers have stacks of their own


class Query:
    """A chain of common table expressions, each of which adds columns to the one before.

    They are materialized, since databases would otherwise repeat the text of a column wherever it is used.
    """

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        self.steps = [f"step_0 AS MATERIALIZED (SELECT {', '.join(columns)} FROM {table})"]
        self.counts: dict[str, int] = {}

    def add(self, letter: str, texts: Sequence[str]) -> list[str]:
        """Add columns; their names."""
        first = self.counts.get(letter, 0)
        self.counts[letter] = first + len(texts)
        names = [_own(letter, first + k) for k in range(len(texts))]
        new = ", ".join(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))
        number = len(self.steps)
        self.steps.append(f"step_{number} AS MATERIALIZED (SELECT *, {new} FROM step_{number - 1})")
        return names

    def select(self, answers: Sequence[str]) -> str:
        """The whole query."""
        return "WITH " + ",\n".join(self.steps) + f"\nSELECT {', '.join(answers)}\nFROM step_{len(self.steps) - 1}"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _own(letter: str, number: int) -> str:
    """A name that no column has."""
    return f"opttree_{letter}{number}"


def _text(value: Any) -> str:
    """A label as a constant."""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return _number(float(value))
    return "'" + str(value).replace("'", "''") + "'"


def _number(value: float) -> str:
    """A constant of double precision: with an exponent, since others may be decimals."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _signed(value: float) -> str:
    return f"({_number(value)})" if value < 0.0 else _number(value)


def _sum(parts: Sequence[str]) -> str:
    """The sum, in brackets by halves, so that it is not too deep for a parser."""
    if not parts:
        return _number(0.0)
    if len(parts) <= 8:
        return f"({' + '.join(parts)})"
    half = len(parts) // 2
    return f"({_sum(parts[:half])} + {_sum(parts[half:])})"


def _dot(weights: Any, x: Sequence[str]) -> str:
    used = np.flatnonzero(weights)
    return _sum([x[j] if weights[j] == 1.0 else f"{_signed(weights[j])} * {x[j]}" for j in map(int, used)])


def _encoded(encoding: Encoding) -> list[str]:
    texts = []
    for feature in encoding.features:
        column = encoding.columns[feature.column]
        name = _name(column.name)
        if column.kind == "category":
            text = f"CAST({name} AS VARCHAR)"
            missing = f"{name} IS NULL OR {text} IN ('', 'nan', 'NaN')"
        else:
            text = f"CAST({name} AS DOUBLE)"
            missing = f"{name} IS NULL OR CAST({name} AS VARCHAR) IN ('', 'nan', 'NaN')"
        if isinstance(feature, Missing):
            texts.append(f"CASE WHEN {missing} THEN 1e0 ELSE 0e0 END")
        elif isinstance(feature, Levels):
            texts.append(f"CASE WHEN {missing} THEN {_number(feature.missing)} {_levels(text, feature)} END")
        else:
            known = ""
            if feature.low is not None and feature.high is not None:
                low, high = _number(feature.low), _number(feature.high)
                known = f"WHEN {text} < {low} THEN {low} WHEN {text} > {high} THEN {high} "
            texts.append(f"CASE WHEN {missing} THEN {_number(feature.fill)} {known}ELSE {text} END")
    return texts


def _levels(text: str, feature: Levels) -> str:
    """Cases of the known levels; levels of the same number share a case."""
    groups: dict[float, list[str]] = {}
    for level, value in _as_stored(feature).items():
        if value != feature.other:
            groups.setdefault(value, []).append(level)
    cases = [f"WHEN {text} IN ({', '.join(map(_text, group))}) THEN {_number(v)}" for v, group in groups.items()]
    return " ".join([*cases, f"ELSE {_number(feature.other)}"])


def _as_stored(feature: Levels) -> dict[str, float]:
    """The number of each text that a database may make of a level, which may be stored as a number or a boolean."""
    numbers = dict(feature.known)
    booleans = set(feature.numbers) <= {"True", "False"}
    for level, value in feature.known.items():
        if re.fullmatch(r"-?\d+", level):
            numbers.setdefault(f"{level}.0", value)
        if booleans:
            for text in (level.lower(), "1" if level == "True" else "0"):
                numbers.setdefault(text, value)
    return numbers


def _wins(s: Sequence[str], k: int, label: Any) -> str:
    """The case of the first class with the largest score."""
    rules = [f"{s[k]} >= {other}" for j, other in enumerate(s) if j > k]
    return (
        f"WHEN {' AND '.join(rules + [f'{s[k]} > {other}' for j, other in enumerate(s) if j < k])} THEN {_text(label)}"
    )


def _scores(query: Query, model: Tree | Forest, x: list[str]) -> list[str]:
    """The outputs of a model, as its method `outputs`."""
    if isinstance(model, Tree):
        return _tree(query, model, x, probabilities=False)
    per_tree = model.classes is not None and not model.averages_outputs
    totals: list[list[str]] = [[] for _ in range(model.n_outputs)]
    for number, layer in enumerate(model.layers):
        leaves = _leaves(query, layer, x)
        answers = [
            _tree(query, tree, x, probabilities=per_tree, leaf=leaf) for tree, leaf in zip(layer, leaves, strict=True)
        ]
        flat = [text for texts in answers for text in texts]
        if number < len(model.layers) - 1:
            flat = query.add("a", flat)
            x = [*x, *flat]
        at = 0
        for texts in answers:
            for k in range(model.n_outputs):
                totals[k].append(flat[at + k])
            at += len(texts)
    return [f"{_sum(parts)} / {_number(len(model.trees))}" for parts in totals]


def _leaves(query: Query, trees: Sequence[Tree], x: Sequence[str]) -> list[str]:
    """Columns with the leaf nodes of hard trees, `LEVELS` levels of all trees at a time; "" for soft ones."""
    hard = [tree for tree in trees if not tree.mixture]
    if not hard:
        return [""] * len(trees)
    at = query.add("node", [_walk(tree, 0, x, LEVELS) for tree in hard])
    for level in range(LEVELS, max(tree.depth for tree in hard), LEVELS):
        going_on = [k for k, tree in enumerate(hard) if tree.depth > level]
        texts = []
        for k in going_on:
            tree = hard[k]
            here = np.flatnonzero(tree.node_depth[: tree.n_branches] == level)
            cases = " ".join(f"WHEN {node} THEN {_walk(tree, int(node), x, LEVELS)}" for node in here)
            texts.append(f"CASE {at[k]} {cases} ELSE {at[k]} END")
        for k, name in zip(going_on, query.add("node", texts), strict=True):
            at[k] = name
    names = iter(at)
    return ["" if tree.mixture else next(names) for tree in trees]


def _walk(tree: Tree, node: int, x: Sequence[str], levels: int) -> str:
    """The node that a row reaches from ``node`` after some levels, or its leaf."""
    if node >= tree.n_branches or levels == 0:
        return str(node)
    left, right = (_walk(tree, int(kid), x, levels - 1) for kid in tree.children[node])
    return f"CASE WHEN {_dot(tree.A[node], x)} <= {_number(tree.b[node])} THEN {left} ELSE {right} END"


def _tree(query: Query, tree: Tree, x: Sequence[str], *, probabilities: bool, leaf: str = "") -> list[str]:
    """The outputs of a tree, or its class probabilities."""
    if tree.mixture:
        return _mixture(query, tree, x)
    leaf = leaf or _leaves(query, [tree], x)[0]
    outputs = []
    for k in range(tree.n_outputs):
        cases = " ".join(
            f"WHEN {tree.n_branches + number} THEN {_leaf(tree, number, k, x)}" for number in range(tree.n_leaves)
        )
        outputs.append(f"CASE {leaf} {cases} END")
    return _softmax(query.add("own", outputs)) if probabilities and tree.link == "softmax" else outputs


def _leaf(tree: Tree, leaf: int, k: int, x: Sequence[str]) -> str:
    """Output k of a leaf."""
    values, coefs, lower, upper = tree.leaf_arrays
    if not tree.linear_leaves or not np.any(coefs[leaf, k]):
        value = float(values[leaf, k])
        return _number(
            float(np.clip(value, lower[leaf, k], upper[leaf, k])) if lower.size and tree.linear_leaves else value
        )
    text = f"({_signed(values[leaf, k])} + {_dot(coefs[leaf, k], x)})"
    if not lower.size:
        return text
    low, high = _number(lower[leaf, k]), _number(upper[leaf, k])
    return f"CASE WHEN {text} < {low} THEN {low} WHEN {text} > {high} THEN {high} ELSE {text} END"


def _mixture(query: Query, tree: Tree, x: Sequence[str]) -> list[str]:
    gate = float(tree.gate or 1.0)
    gaps = (
        query.add(
            "gap", [f"{_signed(gate)} * ({_signed(b)} - {_dot(a, x)})" for a, b in zip(tree.A, tree.b, strict=True)]
        )
        if tree.n_branches
        else []
    )
    left = [f"1e0 / (1e0 + EXP(-{gap}))" for gap in gaps]
    right = [f"1e0 / (1e0 + EXP({gap}))" for gap in gaps]
    reach = [""] * tree.n_nodes
    for t in range(tree.n_branches):
        for side, kid in zip((left[t], right[t]), map(int, tree.children[t]), strict=True):
            reach[kid] = f"({side})" if t == 0 else f"{reach[t]} * ({side})"
    share = query.add("share", [reach[tree.n_branches + k] or "1e0" for k in range(tree.n_leaves)])
    if tree.linear_leaves and tree.link == "softmax":
        scores = [
            query.add("own", [_leaf(tree, number, k, x) for k in range(tree.n_outputs)])
            for number in range(tree.n_leaves)
        ]
        values = [_softmax(row) for row in scores]
    elif tree.linear_leaves:
        values = [[_leaf(tree, number, k, x) for k in range(tree.n_outputs)] for number in range(tree.n_leaves)]
    else:
        values = [[_signed(v) for v in row] for row in tree._probabilities(tree.values)]
    return [_sum([f"{share[n]} * {values[n][k]}" for n in range(tree.n_leaves)]) for k in range(tree.n_outputs)]


def _softmax(scores: Sequence[str]) -> list[str]:
    """Probabilities of scores: ``1 / sum_j exp(s_j - s_k)``, where what overflows is a probability of 0."""
    return [f"(1e0 / {_sum([f'EXP({other} - {score})' for other in scores])})" for score in scores]


def _shares(query: Query, model: Tree | Forest, s: Sequence[str]) -> list[str]:
    """Class probabilities, as the method `predict_proba`."""
    if isinstance(model, Tree):
        return list(s) if model.mixture or model.link == "identity" else _softmax(s)
    if model.is_proper:
        return list(s)
    if model.link == "softmax":
        top = query.add(
            "top",
            [
                "CASE "
                + " ".join(f"WHEN {' AND '.join([f'{score} >= {other}' for other in s])} THEN {score}" for score in s)
                + " END"
            ],
        )[0]
        s = query.add("e", [f"EXP({score} - {top})" for score in s])
    p = query.add("p", [f"CASE WHEN {score} > 0e0 THEN {score} ELSE 0e0 END + {_number(TINY_SHARE)}" for score in s])
    return [f"{part} / {_sum(p)}" for part in p]
