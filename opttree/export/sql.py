"""SQL: a model as one query, of `CASE WHEN`, arithmetic, and tables of the leaves of large trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opttree.export.columns import as_read, columns_read
from opttree.export.record import Exporter, text_file
from opttree.export.sql_table import as_number, constant, feature_of, is_finite, is_taken, joined, label, own, typed
from opttree.model.files import Model, as_saved
from opttree.model.forest import TINY_SHARE, Forest
from opttree.model.structure import used_features
from opttree.model.tree import Tree
from opttree.runtime.escape import sql_name


def to_sql(model: Any, table: str = "rows", *, keep: Sequence[str] = ()) -> str:
    """SQL query that predicts every row of a table.

    It selects "prediction", or "prediction_0", ... of several outputs; of a classification model "prediction", the
    label, and "p_LABEL" for every class; names that a column before has, but for upper and lower case, get a "_2" after
    them, or another number.

    The columns of the table have the names of the model's columns, or features; those that the model does not read may
    be absent. Where the model has the encoding of a table, a missing value is NULL, NaN or an empty text; dates are
    days since 1970, ISO texts such as "2020-01-31" and "2020-01-31 23:00" (others have NULL), and DATE and TIMESTAMP of
    DuckDB. Labels that are booleans are 0 and 1. All outputs are NULL where `predict` would refuse the row, and for
    text in a column of numbers, even such as '1.5': NULL and NaN without an encoding, and infinity. Without ``keep``,
    the rows must be matched by their order.

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

    Raises
    ------
    ValueError
        For a column that the model reads and whose name is empty, or differs from that of another in case alone, as
        databases do not tell them apart.

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
    saved = as_saved(model, curves=True)
    inside = as_read(saved.tree)
    trees = [inside] if isinstance(inside, Tree) else inside.trees
    query = Query(table, keep, ordered=any(map(_is_looked_up, trees)))
    x, ok = _columns(query, saved, inside)
    scores = _scores(query, inside, x)
    if inside.classes is None:
        names = ["prediction"] if len(scores) == 1 else [f"prediction_{k}" for k in range(len(scores))]
        return query.select(scores, names, ok)
    s = query.add("s", scores)
    cases = " ".join(_wins(s, k, inside.classes[k]) for k in range(len(s) - 1))
    likeliest = f"CASE {cases} ELSE {label(inside.classes[-1])} END" if cases else label(inside.classes[0])
    names = ["prediction", *(f"p_{c}" for c in inside.classes)]
    return query.select([likeliest, *_shares(query, inside, s)], names, ok)


LEVELS = 6  # of a tree in one expression: parsers have stacks of their own
MOST_CONSTANTS = 256  # of a tree's leaves in expressions, which SQLite reads in quadratic time, and those of VALUES not
MOST_COLUMNS = 1000  # of a table of leaves


class Query:
    """A chain of common table expressions. The first is the table; each of the others adds columns, or selects some.

    They are materialized, since databases would otherwise repeat the text of a column wherever it is used. Columns of
    the table are named with the first: what is no column of it is then no text either, as SQLite would take it for.
    """

    def __init__(self, table: str, keep: Sequence[str], *, ordered: bool = False) -> None:
        """``ordered``: rows are numbered and sorted at the end, since joins may change their order."""
        self.step = "opttree_step_"
        while table.lower().startswith(self.step):
            self.step += "_"
        self.steps = [f"{self.step}0 AS (SELECT * FROM {sql_name(table)})"]
        self.keep = keep
        self.tables: list[str] = []
        self.number = own("number", 0) if ordered else ""
        self.counts: dict[str, int] = {}

    def entry(self, column: str) -> str:
        """A column of the table."""
        return f"{self.step}0.{sql_name(column)}"

    def only(self, columns: Sequence[tuple[str, str]]) -> None:
        """Select columns, each an expression and its name, beside those to keep."""
        names = [own("keep", k) for k in range(len(self.keep))]
        first = len(self.steps) == 1
        kept = map(self.entry, self.keep) if first else names
        number = [("ROW_NUMBER() OVER ()" if first else self.number, self.number)] if self.number else []
        whole = [*number, *zip(kept, names, strict=True), *columns] or [("1", own("row", 0))]
        self._append(", ".join(f"{text} AS {name}" for text, name in whole))

    def add(self, letter: str, texts: Sequence[str]) -> list[str]:
        """Add columns; their names."""
        names = self._named(letter, len(texts))
        self._append(", ".join(["*", *(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))]))
        return names

    def look_up(self, letter: str, key: str, rows: Sequence[Sequence[str]], texts: Sequence[str]) -> list[str]:
        """Add columns, whose texts have the entries w0, w1 and so on of that of the rows which begins with ``key``."""
        table, last, names = (
            f"{self.step}leaves{len(self.tables)}",
            f"{self.step}{len(self.steps) - 1}",
            self._named(letter, len(texts)),
        )
        heads = ", ".join(own("w", k) for k in range(len(rows[0])))
        entries = ", ".join(f"({', '.join(row)})" for row in rows)
        self.tables.append(f"{table}({heads}) AS MATERIALIZED (VALUES {entries})")
        columns = ", ".join([f"{last}.*", *(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))])
        self._append(columns, f" CROSS JOIN {table} WHERE {table}.{own('w', 0)} = {last}.{key}")
        return names

    def _named(self, letter: str, count: int) -> list[str]:
        first = self.counts.get(letter, 0)
        self.counts[letter] = first + count
        return [own(letter, first + k) for k in range(count)]

    def _append(self, columns: str, more: str = "") -> None:
        number = len(self.steps)
        self.steps.append(f"{self.step}{number} AS MATERIALIZED (SELECT {columns} FROM {self.step}{number - 1}{more})")

    def select(self, answers: Sequence[str], names: Sequence[str], ok: str) -> str:
        """The whole query; the answers are NULL in rows where ``ok`` is not 1."""
        kept = [own("keep", k) for k in range(len(self.keep))]
        texts = [f"CASE WHEN {ok} = 1 THEN {answer} END" for answer in answers] if ok else answers
        different = _different([*self.keep, *names])
        columns = [f"{text} AS {sql_name(name)}" for text, name in zip([*kept, *texts], different, strict=True)]
        last = f"SELECT {', '.join(columns)}\nFROM {self.step}{len(self.steps) - 1}"
        last += f"\nORDER BY {self.number}" if self.number else ""
        return "WITH " + ",\n".join([*self.tables, *self.steps]) + f"\n{last}"


def _different(names: Sequence[str]) -> list[str]:
    """The names, the later ones with a number where they differ from another in case alone, or not at all."""
    found: list[str] = []
    for name in names:
        new, count = name, 1
        while new.lower() in map(str.lower, found):
            count += 1
            new = f"{name}_{count}"
        found.append(new)
    return found


def _columns(query: Query, saved: Model, model: Tree | Forest) -> tuple[list[str], str]:
    """The names of the features, and that of the column that is 1 where `predict` takes the row, "" if it takes all."""
    x = [constant(0.0)] * model.n_features
    if model.encoding is None:
        used = [int(j) for j in np.flatnonzero(used_features(model))]
        _check_names([saved.feature_names[j] for j in used], saved.feature_names)
        query.only([(as_number(query.entry(saved.feature_names[j])), own("x", j)) for j in used])
        checks = [is_finite(own("x", j)) for j in used]
        ok = query.add("ok", [f"CASE WHEN {joined(checks, 'AND')} THEN 1 ELSE 0 END"])[0] if checks else ""
    else:
        columns = columns_read(model.encoding)
        _check_names([read.column.name for read in columns], saved.columns)
        query.only([pair for read in columns for pair in typed(read, query.entry(read.column.name))])
        used = [j for read in columns for j, _f in read.features]
        made = [(feature_of(read, feature), own("x", j)) for read in columns for j, feature in read.features]
        checks = [is_taken(read) for read in columns if not read.column.is_category]
        ok = own("ok", 0) if checks else ""
        whole = [(f"CASE WHEN {joined(checks, 'AND')} THEN 1 ELSE 0 END", ok)] if checks else []
        if made:
            query.only([*made, *whole])
    for j in used:
        x[j] = own("x", j)
    return x, ok


def _check_names(read: Sequence[str], names: Sequence[str]) -> None:
    """ValueError for a column that is read and has no name, or of which another differs in case alone."""
    for name in read:
        if not name:
            raise ValueError("to_sql needs columns with names; the model reads one that is called ''")
        twin = next((other for other in names if other != name and other.lower() == name.lower()), None)
        if twin is not None:
            raise ValueError(f"to_sql needs columns that differ in more than case; got {name!r} and {twin!r}")


def _signed(value: float) -> str:
    return f"({constant(value)})" if value < 0.0 else constant(value)


def _total(parts: Sequence[str]) -> str:
    """The sum of parts."""
    return joined(parts, "+") if parts else constant(0.0)


def _dot(weights: Any, x: Sequence[str]) -> str:
    used = np.flatnonzero(weights)
    return _total([x[j] if weights[j] == 1.0 else f"{_signed(weights[j])} * {x[j]}" for j in map(int, used)])


def _wins(s: Sequence[str], k: int, name: Any) -> str:
    """The case of the first class with the largest score."""
    rules = [f"{s[k]} >= {other}" for j, other in enumerate(s) if j > k]
    return (
        f"WHEN {' AND '.join(rules + [f'{s[k]} > {other}' for j, other in enumerate(s) if j < k])} THEN {label(name)}"
    )


def _scores(query: Query, model: Tree | Forest, x: list[str]) -> list[str]:
    """The outputs of a model, as its method `outputs`."""
    if isinstance(model, Tree):
        return _tree(query, model, x, probabilities=False)
    if model.curves is not None:
        used = [int(j) for j in np.flatnonzero(used_features(model))]
        texts = [_on_curve(*model.curves.knots[j], x[j]) for j in used]
        for j, name in zip(used, query.add("z", texts) if texts else [], strict=True):
            x[j] = name
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
    return [f"{_total(parts)} / {constant(len(model.trees))}" for parts in totals]


def _on_curve(at: Any, to: Any, x: str) -> str:
    """A feature on its curve, found by halves."""
    if len(at) == 1:
        return constant(float(to[0]))
    slope = np.diff(to) / np.diff(at)

    def between(low: int, high: int) -> str:
        if high - low == 1:
            return f"{_signed(to[low])} + {_signed(slope[low])} * ({x} - {_signed(at[low])})"
        middle = (low + high) // 2
        text = f"CASE WHEN {x} >= {constant(at[middle])} THEN {between(middle, high)} ELSE {between(low, middle)} END"
        return text

    ends = (
        f"WHEN {x} <= {constant(at[0])} THEN {constant(to[0])} WHEN {x} >= {constant(at[-1])} THEN {constant(to[-1])}"
    )
    return f"CASE {ends} ELSE {between(0, len(at) - 1)} END"


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
    return f"CASE WHEN {_dot(tree.A[node], x)} <= {constant(tree.b[node])} THEN {left} ELSE {right} END"


def _tree(query: Query, tree: Tree, x: Sequence[str], *, probabilities: bool, leaf: str = "") -> list[str]:
    """The outputs of a tree, or its class probabilities."""
    if tree.mixture:
        return _mixture(query, tree, x)
    leaf = leaf or _leaves(query, [tree], x)[0]
    if _is_looked_up(tree):
        outputs = _looked_up(query, tree, x, leaf)
        return _softmax(outputs) if probabilities and tree.link == "softmax" else outputs
    outputs = []
    for k in range(tree.n_outputs):
        cases = " ".join(
            f"WHEN {tree.n_branches + number} THEN {_leaf(tree, number, k, x)}" for number in range(tree.n_leaves)
        )
        outputs.append(f"CASE {leaf} {cases} END")
    return _softmax(query.add("own", outputs)) if probabilities and tree.link == "softmax" else outputs


def _used(tree: Tree) -> list[int]:
    """The features of the linear leaves."""
    return [int(j) for j in np.flatnonzero(tree.leaf_arrays[1].any(axis=(0, 1)))] if tree.linear_leaves else []


def _is_looked_up(tree: Tree) -> bool:
    """Whether the leaves of a tree are rows of a table."""
    width = tree.n_outputs * (1 + len(_used(tree)))
    many = tree.n_leaves * width > MOST_CONSTANTS
    return not tree.mixture and many and width + 2 * tree.n_outputs < MOST_COLUMNS


def _looked_up(query: Query, tree: Tree, x: Sequence[str], leaf: str) -> list[str]:
    """The outputs of a tree, whose leaves are rows of a table: constants, weights and bounds of each output."""
    values, coefs, lower, upper = tree.leaf_arrays
    used, bounded = _used(tree), tree.linear_leaves and lower.size > 0
    bounds = [lower, upper] if bounded else []
    rows, texts, at = [], list[str](), 1
    for number in range(tree.n_leaves):
        row = [str(tree.n_branches + number)]
        for k in range(tree.n_outputs):
            own_numbers = values[number, k], *(coefs[number, k, j] for j in used), *(b[number, k] for b in bounds)
            row += [constant(entry) for entry in own_numbers]
        rows.append(row)
    for _k in range(tree.n_outputs):
        parts = [own("w", at), *(f"{own('w', at + 1 + place)} * {x[j]}" for place, j in enumerate(used))]
        at += len(parts)
        texts += [_total(parts), *(own("w", at + side) for side in range(len(bounds)))]
        at += len(bounds)
    found = query.look_up("found", leaf, rows, texts)
    if not bounds:
        return found
    return [
        f"CASE WHEN {found[k]} < {found[k + 1]} THEN {found[k + 1]} WHEN {found[k]} > {found[k + 2]} "
        f"THEN {found[k + 2]} ELSE {found[k]} END"
        for k in range(0, len(found), 3)
    ]


def _leaf(tree: Tree, leaf: int, k: int, x: Sequence[str]) -> str:
    """Output k of a leaf."""
    values, coefs, lower, upper = tree.leaf_arrays
    if not tree.linear_leaves or not np.any(coefs[leaf, k]):
        value = float(values[leaf, k])
        return constant(
            float(np.clip(value, lower[leaf, k], upper[leaf, k])) if lower.size and tree.linear_leaves else value
        )
    text = f"({_signed(values[leaf, k])} + {_dot(coefs[leaf, k], x)})"
    if not lower.size:
        return text
    low, high = constant(lower[leaf, k]), constant(upper[leaf, k])
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
    return [_total([f"{share[n]} * {values[n][k]}" for n in range(tree.n_leaves)]) for k in range(tree.n_outputs)]


def _softmax(scores: Sequence[str]) -> list[str]:
    """Probabilities of scores: ``1 / sum_j exp(s_j - s_k)``, where what overflows is a probability of 0."""
    return [f"(1e0 / {_total([f'EXP({other} - {score})' for other in scores])})" for score in scores]


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
    p = query.add("p", [f"CASE WHEN {score} > 0e0 THEN {score} ELSE 0e0 END + {constant(TINY_SHARE)}" for score in s])
    return [f"{part} / {_total(p)}" for part in p]


def _statement(model: Any, options: Any) -> str:
    keep = [column.strip() for column in options.keep.split(",") if column.strip()]
    return to_sql(model, options.table, keep=keep) + ";\n"


EXPORTER = Exporter("sql", (".sql",), text_file(_statement))
