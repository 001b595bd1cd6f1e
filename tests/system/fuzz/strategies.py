"""What fuzzing draws: tables, weights, estimators with options at their ends, small problems, solvers.

Structure is drawn by hypothesis, so that failures shrink; numbers come from a generator with a drawn seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

import opttree
import solvers
from opttree import L1, L2, L2Constants, SplitPrice, TreeProblem
from opttree.methods.table import estimators as known_estimators

COLUMNS = ("normal", "ties", "constant", "copy", "collinear", "counts", "wide", "binary", "outlier", "near-constant")
FEW = ("constant", "copy", "binary", "three")  # columns of few values
SHAPES = ("usual",) * 9 + ("wide", "fifty outputs", "few values", "sparse", "sparse")
FORMATS = ("csr_array", "csr_matrix", "csc_array", "coo_array", "explicit zeros", "duplicates")
SCALES = (1.0, 1.0, 1.0, 1e-3, 1e6, 1e30, 1e-30, 1e140, 1e-140, 1e300, 1e-300)
DTYPES = ("float64", "float64", "float64", "float32", "int64", "object", "bool")


@dataclass(frozen=True)
class Table:
    """A table, what is to be predicted, and the weights or None; ``task`` as in `opttree.methods`."""

    X: Any
    y: Any
    weight: Any
    task: str


def column(rng: np.random.Generator, kind: str, X: np.ndarray) -> np.ndarray:
    """A column of a kind, beside the columns ``X`` that are there."""
    n = len(X)
    if kind == "ties":
        return rng.normal(size=n).round()
    if kind == "constant":
        return np.full(n, rng.choice([0.0, 3.7, -1e5]))
    if kind == "copy" and X.shape[1]:
        return X[:, -1].copy()
    if kind == "collinear" and X.shape[1]:
        return X @ rng.normal(size=X.shape[1])
    if kind == "counts":
        return rng.poisson(2.0, n).astype(float)
    if kind == "wide":
        return 10.0 ** rng.uniform(-8.0, 8.0, n)
    if kind in ("binary", "three"):
        return rng.integers(2 if kind == "binary" else 3, size=n).astype(float)
    if kind == "outlier":
        return np.where(np.arange(n) == 0, 1e9, rng.normal(size=n))
    if kind == "near-constant":
        return rng.choice([1.0, 1e4]) + 10.0 ** -rng.integers(4, 18) * rng.normal(size=n)
    return rng.normal(size=n)


@st.composite
def tables(
    draw: Any,
    tasks: tuple[str, ...] = ("regression", "classification"),
    most: int = 60,
    shapes: tuple[str, ...] = SHAPES,
) -> Table:
    """Tables of a few rows, also fewer than features, with all kinds of columns, scales, types and targets; some are
    sparse.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = 1 if draw(st.integers(0, 40)) == 40 else draw(st.integers(2, most))
    task = draw(st.sampled_from(tasks))
    shape = draw(st.sampled_from(shapes))
    X = np.zeros((n, 0))
    for kind in draw(st.lists(st.sampled_from(FEW if shape == "few values" else COLUMNS), min_size=1, max_size=6)):
        X = np.column_stack([X, column(rng, kind, X)])
    if shape == "wide":
        X = np.column_stack([X, rng.normal(size=(n, draw(st.sampled_from((100, 1000)))))])
    if shape == "sparse":
        X = np.column_stack([X, rng.poisson(0.1, (n, draw(st.sampled_from((0, 30, 1200)))))])
        X = np.where(rng.uniform(size=X.shape) < draw(st.sampled_from((0.0, 0.1, 0.5, 1.0))), X, 0.0)
    if draw(st.booleans()):
        with np.errstate(over="ignore"):
            X = X * draw(st.sampled_from(SCALES))
    dtype = draw(st.sampled_from(DTYPES))
    if dtype in ("int64", "bool", "float32"):
        X = np.clip(X, -1e30, 1e30)
        X = np.round(np.clip(X, -1e15, 1e15)).astype(dtype) if dtype == "int64" else X.astype(dtype)
    elif dtype == "object" and shape != "sparse":
        X = X.astype(object)
    if draw(st.booleans()):
        X = np.asfortranarray(X)
    y = target(draw, rng, X, task, shape)
    weight = None
    kind = draw(st.sampled_from(("none", "none", "none", "uniform", "integer", "zeros", "tiny", "large", "one heavy")))
    if kind != "none":
        weight = {
            "uniform": rng.uniform(0.1, 2.0, n),
            "integer": rng.integers(1, 4, n).astype(float),
            "zeros": rng.integers(0, 2, n).astype(float),
            "tiny": rng.uniform(0.1, 2.0, n) * 1e-200,
            "large": rng.uniform(0.1, 2.0, n) * 1e200,
            "one heavy": np.where(np.arange(n) == 0, 1e12, 1.0),
        }[kind]
    return Table(compressed(draw, rng, X) if shape == "sparse" else X, y, weight, task)


def compressed(draw: Any, rng: np.random.Generator, X: np.ndarray) -> Any:
    """The table in one of SciPy's sparse formats, also with zeros that are stored, or with numbers in two parts."""
    name = draw(st.sampled_from(FORMATS))
    if name == "duplicates":
        parts = sparse.coo_array(X), sparse.coo_array(X)
        data, row, column = (np.concatenate([getattr(part, a) for part in parts]) for a in ("data", "row", "col"))
        data[len(data) // 2 :] = 0
        return sparse.coo_array((data, (row, column)), shape=X.shape)
    table = getattr(sparse, "csr_array" if name == "explicit zeros" else name)(X)
    if name == "explicit zeros":
        table.data[rng.integers(2, size=table.nnz) > 0] = 0
    return table


def target(draw: Any, rng: np.random.Generator, X: Any, task: str, shape: str) -> np.ndarray:
    """What is to be predicted from ``X``."""
    n = len(X)
    many = shape == "fifty outputs"
    if task == "classification":
        kind = "fifty" if many else draw(st.sampled_from(("two", "three", "one", "fifty", "rare", "text", "negative")))
        if kind in ("two", "three", "fifty"):
            return rng.integers({"two": 2, "three": 3, "fifty": 50}[kind], size=n)
        if kind == "rare":
            return (np.arange(n) == n - 1).astype(int)
        if kind == "text":
            return np.array(["yes", "no", "it depends"])[rng.integers(3, size=n)]
        return np.zeros(n, int) if kind == "one" else rng.choice([-5, 10], size=n)
    kinds = ("signal", "noise", "constant", "ties", "two outputs", "heavy", "counts")
    kind = "fifty outputs" if many else draw(st.sampled_from(kinds))
    first = np.nan_to_num(np.asarray(X[:, 0], np.float64))
    y = {
        "signal": np.sign(first) + 0.1 * rng.normal(size=n),
        "noise": rng.normal(size=n),
        "constant": np.full(n, 2.5),
        "ties": rng.integers(3, size=n).astype(float),
        "two outputs": rng.normal(size=(n, 2)),
        "fifty outputs": rng.normal(size=(n, 50)),
        "heavy": rng.standard_cauchy(n),
        "counts": rng.poisson(3.0, n),
    }[kind]
    with np.errstate(over="ignore"):
        return y * draw(st.sampled_from(SCALES)) if draw(st.booleans()) else y


OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "TAO": {
        "leaves": ("constant", "linear"), "splits": ("oblique", "axis"), "split_penalty": (0.0, 1e-4, 1.0, 1e9),
        "l1_ratio": (0.0, 0.5, 1.0), "init": ("auto", "random", "cart", "cluster", "hinge"), "max_iter": (1, 5),
        "leaf_shrinkage": (None, 0.0, 10.0, "cv"), "min_samples_leaf": (1, 5, 100), "accept": ("always", "improve"),
    },
    "GET": {
        "leaves": ("constant", "linear"), "n_starts": (None, 1, 2), "split_penalty": (0.0, 1e-3, 1.0),
        "min_samples_leaf": (1, 5, 100), "leaf_shrinkage": (None, 0.0), "validation_fraction": (None, 0.3),
    },
    "SRT": {
        "leaves": ("constant", "linear"), "l2": ("auto", "paper", 0.0, 1e6), "max_iter": (1, 3), "k0": (None, 0),
        "init": ("hinge", "cluster", "cart", "random"), "min_samples_leaf": (1, 10), "steepness": (None, 1.0, 1e6),
    },
    "ORRT": {"leaves": ("constant", "linear"), "l2": ("auto", "paper", 0.0, 1e6), "max_iter": (1, 20)},
    "SDTR": {
        "max_batches": (40,), "n_trees": (1, 3), "n_layers": (1, 2), "validation_fraction": (None, 0.1, 0.9),
        "path_penalty": (0.0, 0.3, 100.0), "quantile_transform": (True, False), "batch_size": (1, 1024),
    },
    "GradTree": {
        "epochs": (10,), "n_starts": (1, 2), "quantile_transform": (True, False), "stratify": (True, False),
        "improve": (0, 2), "validation_fraction": (None, 0.2), "index": ("entmax", "gumbel"),
    },
    "RADDT": {"epochs": (5,), "n_starts": (1,), "leaves": ("constant", "linear"), "min_samples_leaf": (1, 10)},
    "DTSemNet": {"epochs": (3,), "n_starts": (1,), "leaves": ("constant", "linear")},
    "HRT": {"ridge": (0.0, 0.01, 1e6), "min_samples_leaf": (1, 5, 100), "clip": (True, False), "step": ("auto", 1.0)},
    "ORT": {
        "leaves": ("constant", "linear"), "loss": ("squared", "absolute"), "cp": (0.0, 0.01, 10.0),
        "solver": ("auto", "bnb", "local"), "min_samples_leaf": (None, 1, 10), "leaf_penalty": (0.0, 1e-3),
        "max_splits": (None, 1),
    },
    "OCT": {
        "loss": ("zero_one", "log"), "cp": (0.0, 0.01, 10.0), "solver": ("auto", "bnb", "local"),
        "min_samples_leaf": (None, 1, 10), "max_splits": (None, 1),
    },
    "TAOForest": {
        "n_estimators": (1, 4), "kind": ("auto", "oblique", "axis", "extra", "stacked", "cart"),
        "leaves": ("constant", "linear"), "max_samples": (0.1, 0.9), "bootstrap": (True, False),
        "max_depth": (None, 1, 3),
    },
    "BoostedTrees": {
        "n_estimators": (1, 3), "base": ("auto", "oblique", "axis"), "leaves": ("constant", "linear"),
        "learning_rate": (0.01, 1.0), "subsample": (0.1, 1.0), "validation_fraction": (None, 0.1), "max_depth": (1, 3),
    },
}  # fmt: skip


@st.composite
def estimators(draw: Any, task: str) -> Any:
    """An estimator of the toolkit for ``task``, with options at their ends."""
    suffix = "Regressor" if task == "regression" else "Classifier"
    names = [n for n in OPTIONS if f"{n}{suffix}" in known_estimators()]
    family = draw(st.sampled_from(names))
    kind = getattr(opttree, f"{family}{suffix}")
    there = set(kind().get_params())
    options = {k: draw(st.sampled_from(v)) for k, v in OPTIONS[family].items() if k in there}
    if "max_depth" not in options and "max_depth" in there:
        options["max_depth"] = draw(st.sampled_from((1, 2, 3, 6)))
    slow = options.get("solver") == "bnb" or (family == "ORT" and options.get("leaves") == "linear")
    if slow:  # these are for small tables, and tables here have up to a thousand columns
        options["time_limit"] = 5.0
    return kind(random_state=draw(st.integers(0, 3)), n_jobs=1, **options)


def options_of(model: Any) -> dict[str, tuple[Any, ...]]:
    """What is drawn for the estimator's options."""
    return OPTIONS[type(model).__name__.removesuffix("Regressor").removesuffix("Classifier")]


@st.composite
def problems(draw: Any, most_rows: int = 12) -> TreeProblem:
    """Small axis-aligned problems with constant leaves, whose optimum can be enumerated."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p = draw(st.integers(2, most_rows)), draw(st.integers(1, 3))
    X = rng.normal(size=(n, p)).round(draw(st.sampled_from((0, 1, 8))))
    X *= draw(st.sampled_from((1.0, 1e-140, 1e140, 1e6)))
    loss = draw(st.sampled_from(("squared", "absolute", "zero_one", "log")))
    y = rng.integers(draw(st.integers(2, 4)), size=n)
    if loss in ("squared", "absolute"):
        y = rng.normal(size=n).round(draw(st.sampled_from((0, 1, 8))))
    return TreeProblem(
        X,
        y,
        depth=draw(st.integers(1, 3)),
        splits="axis",
        loss=loss,
        sample_weight=rng.integers(1, 4, n).astype(float) if draw(st.booleans()) else None,
        penalties=(SplitPrice(draw(st.sampled_from((0.01, 0.1)))),) if draw(st.booleans()) else (),
        min_leaf=draw(st.integers(1, 3)),
    )


HEURISTICS = (
    solvers.TAO(max_iter=3), solvers.TAO(max_iter=3, node_solver=solvers.AxisNode(), init=solvers.CartInit()),
    solvers.GET(n_starts=1), solvers.LocalSearch(n_starts=2), solvers.GradTree(epochs=10, n_starts=1),
    solvers.CartInit(), solvers.ExactInit(), solvers.NODEC(max_iter=2), solvers.ORRT(max_iter=10),
    solvers.SDTR(max_batches=40), solvers.RADDT(epochs=5, n_starts=1), solvers.DTSemNet(epochs=3, n_starts=1),
    solvers.HRT(), solvers.HingeInit(), solvers.ClusterInit(), solvers.RandomInit(), solvers.GreedyInit(),
    solvers.Chain(solvers.TAO(max_iter=2), solvers.LocalSearch(n_starts=1)),
    solvers.MultiStart(solvers.TAO(max_iter=2), 2),
)  # fmt: skip
EXACT = (solvers.BranchAndBound(), solvers.BranchAndBound(init=None, n_jobs=2), solvers.MIP())


@st.composite
def statements(draw: Any) -> TreeProblem:
    """Problems of every kind of statement, on a small table."""
    table = draw(tables(most=40))
    X = table.X if sparse.issparse(table.X) else np.asarray(table.X, np.float64)
    y = table.y
    loss = draw(st.sampled_from(("zero_one", "log") if table.task == "classification" else ("squared", "absolute")))
    constants = (L2Constants(splits=1e-2, leaves=0.0 if loss == "log" else 1e-2),)
    choices = ((), (L1(splits=1e-3),), (L2(leaves=1e-2),), (SplitPrice(0.01), L1(leaves=1e-2)), constants)
    return TreeProblem(
        X,
        y,
        depth=draw(st.integers(0, 3)),
        splits=draw(st.sampled_from(("oblique", "axis"))),
        leaves=draw(st.sampled_from(("constant", "linear"))),
        loss=loss,
        sample_weight=table.weight,
        penalties=draw(st.sampled_from(choices)),
        min_leaf=draw(st.sampled_from((1, 1, 4))),
    )


def repeated(problem: TreeProblem) -> TreeProblem:
    """The problem with rows repeated instead of weighted by whole numbers."""
    assert problem.sample_weight is not None
    rows = np.repeat(np.arange(problem.n_samples), problem.sample_weight.astype(int))
    return problem.with_rows(problem.X[rows], problem.y[rows], min_leaf=1)
