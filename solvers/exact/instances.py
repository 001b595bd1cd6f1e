"""Instances of published comparisons of exact trees, with their known optima, and a check of what a solver claims."""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.words import shown
from opttree.statement import TreeProblem
from opttree.tables import datasets
from solvers.core.result import Result

Floats = NDArray[np.float64]
FORMAT = "opttree.Claim"
STATED = Path(__file__).parents[2] / "experiments" / "instances.toml"
LOSSES = ("zero_one", "squared")
RTOL = 1e-6  # of an objective, and
SMALL = 1e-3  # of what one constant leaves: differences that do not count
MOST_LEVELS = 500
SUFFIXES = (".csv.gz", ".csv", ".txt", ".json")


@dataclass(frozen=True)
class Instance:
    """A table of numbers, the loss of its trees, and the least losses that are known.

    Parameters
    ----------
    name : str
        Its name.
    loss : str
        "zero_one" or "squared".
    n, p : int
        Rows and features.
    table : str or None
        The name by which `opttree.datasets.load` knows it; None: it is in a file of its name, or of what follows the
        first "_" of it.
    optima : mapping of int to float
        By depth, the least number of errors or sum of squares, of trees of constant leaves over all thresholds.
    lists : tuple of str
        The comparisons that have it.

    See Also
    --------
    instances : those that are known
    verify : checks a claim about one

    Examples
    --------
    >>> from solvers import instances
    >>> bank = instances()["bank"]
    >>> bank.n, bank.p, bank.optima[3]
    (1097, 4, 19)
    """

    name: str
    loss: str
    n: int
    p: int
    table: str | None
    optima: Mapping[int, float]
    lists: tuple[str, ...]

    def load(self, folder: str | os.PathLike[str] | None = None) -> tuple[Floats, NDArray[Any]]:
        """Features (n, p), those of one value left out, and target (n,), or (n, K).

        Parameters
        ----------
        folder : path-like or None, default None
            Where the file is, else: ``exact`` or ``onehot`` in the folder OPTTREE_DATA. CSV with the target last; text
            with the label first, as ConTree and MurTree have it; JSON with Xtrain and Ytrain, as Quant-BnB has it.

        Returns
        -------
        X, y
            The table.

        Raises
        ------
        ValueError
            If there is no such table, or one of other sizes.
        """
        X, y = self._read(folder)
        X = X[:, np.ptp(X, axis=0) > 0.0]
        if X.shape != (self.n, self.p):
            sizes = f"{X.shape[0]} and {X.shape[1]}"
            raise ValueError(f"{self.name} must have {self.n} rows and {self.p} features that vary; got {sizes}")
        return X, y

    def _read(self, folder: str | os.PathLike[str] | None) -> tuple[Floats, NDArray[Any]]:
        if self.table is not None:
            data = datasets.load(self.table)
            return data.as_arrays()[0], np.asarray(data.y)
        home = os.environ.get("OPTTREE_DATA")
        folders = [Path(home) / "exact", Path(home) / "onehot"] if home else [Path()]
        folders = folders if folder is None else [Path(folder)]
        names = [stem + end for stem in (self.name, self.name.partition("_")[2]) for end in SUFFIXES]
        path = next((file / name for file in folders for name in names if (file / name).is_file()), None)
        if path is None:
            place = str(folders[0])
            raise ValueError(f"{self.name} needs a file {names[1]}, .txt or .json in {place!r}; there is none")
        if path.suffix == ".json":
            table = json.loads(path.read_text())
            if not isinstance(table, dict) or not {"Xtrain", "Ytrain"} <= set(table):
                raise ValueError(f"{str(path)!r} must hold Xtrain and Ytrain; it does not")
            y = np.array(table["Ytrain"], np.float64)
            return np.array(table["Xtrain"], np.float64), y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if path.suffix == ".txt":
            rows = np.loadtxt(path, ndmin=2)
            return rows[:, 1:], rows[:, 0].astype(np.int64)
        frame = datasets.read_csv(path)
        return frame.iloc[:, :-1].to_numpy(np.float64), frame.iloc[:, -1].to_numpy()

    def problem(self, depth: int, folder: str | os.PathLike[str] | None = None) -> TreeProblem:
        """The statement of trees of a depth.

        Parameters
        ----------
        depth : int
            Largest depth.
        folder : path-like or None, default None
            As `load` takes it.

        Returns
        -------
        TreeProblem
            The problem; its objective times ``n`` is the number of errors or the sum of squares.
        """
        return TreeProblem(*self.load(folder), depth, splits="axis", loss=self.loss)


def instances(path: str | os.PathLike[str] | None = None) -> dict[str, Instance]:
    """The instances of a file, by name.

    Parameters
    ----------
    path : path-like or None, default None
        The file; None: ``experiments/instances.toml``.

    Returns
    -------
    dict of str to Instance
        The instances.

    See Also
    --------
    verify : checks a claim about one

    Examples
    --------
    >>> from solvers import instances
    >>> found = instances()
    >>> found["wilt"].optima[2], found["wilt"].lists
    (37, ('ConTree', 'Quant-BnB'))
    """
    with Path(STATED if path is None else path).open("rb") as file:
        stated = tomllib.load(file)
    found = {}
    for name, one in stated.items():
        optima = {int(depth): value for depth, value in one.get("optima", {}).items()}
        found[name] = Instance(
            name, one["loss"], one["n"], one["p"], one.get("table"), optima, tuple(one.get("lists", ()))
        )
    return found


def claim(name: str, problem: TreeProblem, result: Result) -> dict[str, Any]:
    """What a result claims about an instance, as plain lists and scalars that `json` can write and `verify` checks.

    Parameters
    ----------
    name : str
        Name of the instance, or of a table.
    problem : TreeProblem
        The problem that was solved, on raw features, under squared or 0/1 loss.
    result : Result
        Its result, by a solver without restrictions of its own.

    Returns
    -------
    dict
        The claim: ``instance``, ``depth``, ``loss``, the ``tree``, its ``objective`` and the ``bound``, both as numbers
        of errors or sums of squares, ``seconds``, ``solver``.

    Raises
    ------
    ValueError
        For another loss, penalties, rows of different weights, other trees, and a result without a tree.

    See Also
    --------
    verify : checks it

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import BranchAndBound, claim, solve
    >>> X, y = datasets.load("iris", as_arrays=True)
    >>> problem = TreeProblem(X, y.astype(int), depth=2, splits="axis", loss="zero_one")
    >>> stated = claim("iris", problem, solve(problem, BranchAndBound()))
    >>> stated["objective"], stated["bound"]
    (6.0, 6.0)
    """
    if problem.loss not in LOSSES or problem.penalties or np.ptp(problem.w) > 0.0:
        got = f"loss {problem.loss!r}, penalties {problem.penalties!r}"
        raise ValueError(f"a claim is of squared or 0/1 loss alone, on rows of equal weight; got {got}")
    if problem.splits != "axis" or problem.leaves != "constant" or problem.constraints or problem.min_leaf > 1:
        got = f"{problem.splits} splits, {problem.leaves} leaves, min_leaf {problem.min_leaf}, {problem.constraints!r}"
        raise ValueError(f"a claim is about all axis-aligned trees of constant leaves of a depth; got {got}")
    if result.tree is None:
        raise ValueError(f"a claim needs a tree; the result has none: {result.message}")
    n = problem.n_samples
    digits = 6 if problem.loss == "zero_one" else 17  # errors are whole numbers
    return {
        "format": FORMAT,
        "instance": name,
        "depth": problem.depth,
        "loss": problem.loss,
        "objective": round(n * result.objective, digits),
        "bound": None if result.bound is None else round(n * result.bound, digits),
        "seconds": result.seconds,
        "solver": result.solver,
        "tree": as_tree(result.tree).to_dict(),
    }


@dataclass(frozen=True)
class Verified:
    """What a check of a claim found.

    Parameters
    ----------
    objective : float
        Errors, or sum of squares, of the tree, computed anew.
    findings : tuple of str
        Sentences about what was checked and holds.
    faults : tuple of str
        Sentences about what does not hold.

    See Also
    --------
    verify : returns it

    Examples
    --------
    >>> from solvers import Verified
    >>> Verified(6.0, ("the tree has 6 errors",), ()).holds
    True
    """

    objective: float
    findings: tuple[str, ...]
    faults: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether all that was checked holds."""
        return not self.faults


def verify(stated: Mapping[str, Any], X: Floats, y: NDArray[Any], optimum: float | None = None) -> Verified:
    """Check a claim against a table and, if it is known, the optimum.

    Parameters
    ----------
    stated : mapping
        The claim, by `claim` or another program: ``depth``, ``loss`` ("zero_one" or "squared"), ``objective`` (the
        number of errors, or the sum of squares), ``bound`` (or None), and a ``tree``: a dictionary of an
        `opttree.Tree`, or nodes with ``feature`` (counted from 0), ``threshold``, ``left`` (rows at or below the
        threshold) and ``right``, and leaves with ``value``.
    X : ndarray of shape (n, p)
        Features.
    y : ndarray of shape (n,) or (n, K)
        Targets, of classes those that the tree's leaves name.
    optimum : float or None, default None
        The least objective, if it is known.

    Returns
    -------
    Verified
        What holds and what does not.

    Raises
    ------
    ValueError
        For a claim that lacks something or has another form.

    See Also
    --------
    claim : what our solvers claim
    instances : known optima

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import verify
    >>> tree = {"feature": 0, "threshold": 0.5, "left": {"value": 0}, "right": {"value": 1}}
    >>> stated = {"depth": 1, "loss": "zero_one", "objective": 0, "bound": 0, "tree": tree}
    >>> found = verify(stated, np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 0]))
    >>> found.objective, found.faults
    (1.0, ('the tree has 1 errors; the claim is 0',))
    """
    missing = [key for key in ("depth", "loss", "objective", "tree") if key not in stated]
    if missing:
        raise ValueError(f"a claim needs the entries {missing}; it lacks them")
    loss, depth = stated["loss"], stated["depth"]
    if loss not in LOSSES:
        raise ValueError(f"the loss of a claim must be one of {', '.join(LOSSES)}; got {loss!r}")
    if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= MOST_LEVELS:
        raise ValueError(f"the depth of a claim must be a whole number of 0 to {MOST_LEVELS}; got {depth!r}")
    X, y = _table(X, y, loss)
    claimed, bound = _number(stated, "objective"), _number(stated, "bound") if stated.get("bound") is not None else None
    found, levels = _answers(stated["tree"], X)
    errors = loss == "zero_one"
    has = "the tree has {} errors" if errors else "the tree has a sum of squares of {}"
    off = found[:, 0] != y if errors else np.square(_numbers(found, y.shape[1]) - y)
    objective = float(np.sum(off))
    near = RTOL * (max(objective, 1.0) if errors else objective + SMALL * float(np.sum(np.square(y - y.mean(axis=0)))))
    text = "{:.8g}"
    shown = text.format(objective)
    checks = [
        (levels <= depth, f"the tree has {levels} levels", f"the tree has {levels} levels; the claim is {depth}"),
        (
            abs(objective - claimed) < near,
            f"{has.format(shown)}, as claimed",
            f"{has.format(shown)}; the claim is {text.format(claimed)}",
        ),
    ]
    if bound is not None:
        low = f"the bound {bound:.8g} is"
        checks.append((bound < objective + near, f"{low} not above the tree's", f"{low} above the tree's {shown}"))
    if optimum is not None:
        known = f"the known optimum {text.format(optimum)}"
        checks.append((objective > optimum - near, f"{known} is not above the tree's", f"{known} is above the tree's"))
        if bound is not None:
            checks.append((bound < optimum + near, f"{low} not above {known}", f"{low} above {known}"))
    return Verified(
        objective,
        tuple(good for holds, good, _bad in checks if holds),
        tuple(bad for holds, _, bad in checks if not holds),
    )


def _table(X: Any, y: Any, loss: str) -> tuple[Floats, NDArray[Any]]:
    """The table as arrays (n, p), and (n,) of labels or (n, K) of numbers; ValueError for other tables."""
    try:
        X, y = np.asarray(X, np.float64), np.asarray(y) if loss == "zero_one" else np.asarray(y, np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"the table of a claim must hold numbers; {error}") from error
    y = y.reshape(len(y), -1) if loss == "squared" and y.ndim else y
    if X.ndim != 2 or y.ndim != (1 if loss == "zero_one" else 2) or len(X) != len(y) or not np.isfinite(X).all():
        got = f"{X.shape} and {y.shape}"
        raise ValueError(f"the table of a claim must have finite features (n, p) and a target of each row; got {got}")
    if loss == "squared" and not np.isfinite(y).all():
        raise ValueError("the target of a claim of squared loss must be finite; got nan or infinity")
    return X, y


def _numbers(found: NDArray[Any], n_outputs: int) -> Floats:
    """The answers (n, K) of leaves as numbers."""
    try:
        answers = found.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"the leaves of a claim of squared loss must hold numbers; {error}") from error
    if answers.shape[1] != n_outputs or not np.isfinite(answers).all():
        raise ValueError(f"the leaves of a claim must hold {n_outputs} finite numbers each; got others")
    return answers


def _number(stated: Mapping[str, Any], key: str) -> float:
    """A number of a claim."""
    value = stated[key]
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1000
    if not whole and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError(f"{key} must be a finite number; got {shown(value)}")
    return float(value)


def _answers(stated: Any, X: Floats) -> tuple[NDArray[Any], int]:
    """The answers (n, K) of a claim's tree, and its levels."""
    if not isinstance(stated, Mapping):
        raise ValueError(f"the tree of a claim must be a mapping; got {type(stated).__name__}")
    if "format" in stated:
        tree = Tree.from_dict(stated)
        if not tree.is_axis_aligned or tree.n_features != X.shape[1]:
            raise ValueError(f"the tree of a claim must have axis-aligned splits of {X.shape[1]} features; got others")
        return np.asarray(tree.predict(X)).reshape(len(X), -1), tree.depth
    answers: NDArray[Any] = np.empty(len(X), object)
    levels, pending = 0, [(stated, np.arange(len(X)), 0)]
    while pending:
        node, rows, level = pending.pop()
        levels = max(levels, level)
        if not isinstance(node, Mapping) or level > MOST_LEVELS:
            raise ValueError(f"nodes of a claim must be mappings, of {MOST_LEVELS} levels at most; got {shown(node)}")
        if "value" in node:
            for i in rows:
                answers[i] = node["value"]
            continue
        lacking = [key for key in ("feature", "threshold", "left", "right") if key not in node]
        if lacking:
            raise ValueError(f"a node of a claim needs {lacking}, or a value; it has {sorted(node)}")
        feature = node["feature"]
        if not isinstance(feature, int) or isinstance(feature, bool) or not 0 <= feature < X.shape[1]:
            raise ValueError(f"feature must be a number of 0 to {X.shape[1] - 1}; got {shown(feature)}")
        left = X[rows, feature] <= _number(node, "threshold")
        pending += [(node["left"], rows[left], level + 1), (node["right"], rows[~left], level + 1)]
    try:
        return np.array(answers.tolist()).reshape(len(X), -1), levels
    except ValueError as error:
        raise ValueError(f"the leaves of a claim must hold values of one shape; {error}") from error
