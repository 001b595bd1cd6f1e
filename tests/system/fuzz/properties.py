"""What must hold for whatever fuzzing draws. Each function takes what a strategy gives and asserts."""

from __future__ import annotations

import contextlib
import io
import tempfile
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags

from opttree import TreeProblem, load, save
from opttree.cli.main import main
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.clock import now
from solvers import Solver, Termination, solve
from solvers.conformance import dense, refusal
from tests.exact import optimum
from tests.system.fuzz.strategies import Table, repeated

LONGEST = 600  # characters of a message
LONG = 30.0  # seconds
REFUSALS = (ValueError, TypeError, MemoryError)


def said_in_one_sentence(error: BaseException) -> None:
    """The message of a refusal is one short line, and somebody wrote it: it comes from a ``raise``."""
    text = str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.line or "").lstrip().startswith("raise"), f"not a refusal: {type(error).__name__}: {text}"
    assert text, "an empty message"
    assert len(text) <= LONGEST, f"a message of {len(text)} characters"
    assert "\n" not in text.split("\n\n")[0], f"a message of several lines: {text}"


@contextlib.contextmanager
def quiet() -> Any:
    """Warnings are errors, but for scikit-learn's that y has many classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        yield


def fitted(model: Any, table: Table) -> Any:
    """The fitted model, or None if the fit was refused in one sentence."""
    try:
        with quiet():
            return model.fit(table.X, table.y, sample_weight=table.weight)
    except REFUSALS as error:
        said_in_one_sentence(error)
        return None


def answers(model: Any, X: Any) -> np.ndarray:
    """Predictions, or class probabilities."""
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def check_estimator(model: Any, table: Table, how: str) -> None:
    """A fit is refused in a sentence, or its model is finite, feasible, recomputable, saved and loaded whole, and the
    same in another layout, on other threads, and again (``how``). Sparse tables stay sparse, however small, where the
    estimator takes them, and are refused where it does not.
    """
    with stays_sparse(model):
        _check_estimator(model, table, how)


def stays_sparse(model: Any) -> Any:
    """Context in which estimators of the kind of ``model`` that take sparse tables keep small ones sparse."""
    kind = type(model)
    size = None if kind.recipe.sparse_from is None else 0
    return mock.patch.object(kind, "recipe", replace(kind.recipe, sparse_from=size))


def _check_estimator(model: Any, table: Table, how: str) -> None:
    if fitted(model, table) is None:
        return
    few = sparse.issparse(table.X)
    assert get_tags(model).input_tags.sparse or not few, "a sparse table must be refused"
    with quiet():
        there = answers(model, table.X)
        labels = model.predict(table.X)
    assert len(labels) == len(table.y)
    assert np.isfinite(there).all(), "predictions that are not finite"
    if table.task == "classification":
        assert np.isin(labels, table.y).all()
        np.testing.assert_allclose(there.sum(axis=1), 1.0, atol=1e-9)
        assert (there >= 0.0).all()
    result = model.result_
    assert np.isfinite(result.objective)
    if result.bound is not None:
        assert result.bound <= result.objective
    if result.termination is Termination.OPTIMAL:
        assert result.bound is not None
    other = clone(model).set_params(n_jobs=2 if how == "threads" else 1)
    X = relaid(table.X) if how == "layout" else table.X
    inside = getattr(model, "forest_", None) or model.tree_
    if few and all(tree.is_axis_aligned for tree in getattr(inside, "trees", (inside,))):
        np.testing.assert_allclose(answers(model, table.X.toarray()), there, rtol=1e-9, atol=1e-12, err_msg="dense")
    if how in ("threads", "layout", "again") and result.termination is not Termination.TIME_LIMIT:
        with quiet():
            other.fit(X, table.y, sample_weight=table.weight)
        np.testing.assert_array_equal(answers(other, X), there, err_msg=how)
    if how == "saved" and isinstance(inside, Tree):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("model.json", "model.npz"):
                save(model, Path(folder) / name)
                kept = load(Path(folder) / name)
                rows = table.X if few else np.asarray(table.X, np.float64)
                np.testing.assert_array_equal(kept.predict(rows), labels)


def relaid(X: Any) -> Any:
    """The same table in another order of its numbers in memory, or in another sparse format."""
    if sparse.issparse(X):
        return X.tocsr() if X.format == "csc" else X.tocsc()
    return np.array(X, order="C" if np.isfortran(X) else "F")


def check_limit(model: Any, table: Table, limit: float) -> None:
    """A fit ends within half a second of its time limit in one of three tries, with a finite model (kernels are loaded
    by the caller).
    """
    for _ in range(3):
        model = clone(model).set_params(time_limit=limit)
        with stays_sparse(model):
            began = now()
            if fitted(model, table) is None:
                return
            late = now() - began - limit
            assert np.isfinite(answers(model, table.X)).all()
        if late < 0.5:
            return
    raise AssertionError(f"{late:.2f} s late")


def check_solver(problem: TreeProblem, solver: Solver, seed: int) -> None:
    """A solver refuses a statement in a sentence, or its result is feasible, recomputable and repeatable."""
    reason = refusal(solver, problem)
    if reason is not None:
        assert len(reason) <= LONGEST
        return
    limit = LONG if type(solver).__name__ == "BranchAndBound" else None  # proofs of three levels may take hours
    with quiet():
        result = solve(problem, solver, random_state=seed, time_limit=limit)
        again = solve(problem, solver, random_state=seed, time_limit=limit)
    in_time = Termination.TIME_LIMIT not in (result.termination, again.termination)
    model = result.tree
    assert problem.violation(model) is None
    assert np.isfinite(result.objective)
    assert result.objective == problem.objective(model)
    assert result.objective == again.objective or not in_time
    if problem.is_sparse and problem.splits == "axis":
        np.testing.assert_allclose(dense(problem).objective(model), result.objective, rtol=1e-9, atol=1e-12)
    assert result.bound is None or result.bound <= result.objective
    whole = model.outputs(problem.X) if isinstance(model, (Tree, Forest)) else None
    assert whole is None or np.isfinite(whole).all()


def check_oracle(problem: TreeProblem, solver: Solver) -> None:
    """No solver is below the optimum by enumeration; what is called optimal is; bounds are below it."""
    if solver.refusal(problem) is not None:
        return
    labels = problem.Y if not problem.is_classification else problem.Y[:, :1]
    price = problem.split_price
    best = optimum(
        problem.X, labels, depth=problem.depth, loss=problem.loss, w=problem.sample_weight, price=price,
        min_leaf=problem.min_leaf,
    )  # fmt: skip
    result = solve(problem, solver, random_state=0)
    slack = 1e-9 * max(1.0, abs(best))
    assert result.objective >= best - slack, f"{result.objective} below the optimum {best}"
    assert result.bound is None or result.bound <= best + slack, f"the bound {result.bound} above the optimum {best}"
    if result.termination is Termination.OPTIMAL:
        assert abs(result.objective - best) <= max(slack, 1e-6 * abs(best) if type(solver).__name__ == "MIP" else 0.0)
    if problem.min_leaf == 1 and problem.sample_weight is not None:
        copies = solve(repeated(problem), solver, random_state=0)
        if result.termination is copies.termination is Termination.OPTIMAL:
            assert abs(copies.objective - result.objective) <= max(slack, 2e-6 * abs(best))


# ---- tables as text -------------------------------------------------------------------------------------------------

FIELDS = (
    "1",
    "-2.5",
    "1e3",
    "",
    "NA",
    "nan",
    "inf",
    "abc",
    "1,5",
    '"quoted"',
    "1e400",
    "0x10",
    "TRUE",
    "é",
    "2020-01-01",
)


def csv_text(rng: np.random.Generator) -> str:
    """A table as text, good or damaged."""
    n, p = int(rng.integers(0, 12)), int(rng.integers(1, 5))
    names = [f"c{j}" for j in range(p)] + ["target"]
    if rng.random() < 0.1:
        names[0] = str(rng.choice(["target", "", "a b", '"', "c1"]))
    rows = [[f"{v:.3g}" for v in rng.normal(size=p + 1)] for _ in range(n)]
    for _ in range(int(rng.integers(0, 4))):
        if rows:
            row = rows[rng.integers(n)]
            row[rng.integers(len(row))] = str(rng.choice(FIELDS))
    if rows and rng.random() < 0.2:
        rows[rng.integers(n)].append("7")
    if rows and rng.random() < 0.2:
        rows[rng.integers(n)].pop()
    text = "\n".join(",".join(row) for row in [names, *rows])
    if rng.random() < 0.1:
        text = text.replace("\n", "\r\n")
    if rng.random() < 0.1:
        text = text[: rng.integers(len(text) + 1)]
    return text + ("\n" if rng.random() < 0.8 else "")


def check_csv(text: str, folder: Path, method: str) -> None:
    """``opttree fit`` and ``predict`` do what they say, or say in one line why not; nothing is left half."""
    table, model = folder / "table.csv", folder / "model.json"
    table.write_bytes(text.encode("utf-8"))
    model.unlink(missing_ok=True)
    arguments = ["fit", str(table), "--target", "target", "--method", method, "--depth", "2", "--out", str(model)]
    for words in (arguments, ["predict", str(model), str(table)]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        if code == 2:
            assert err.getvalue().startswith("opttree: ")
            assert err.getvalue().count("\n") == 1
            assert len(err.getvalue()) <= 2 * LONGEST
            assert words[0] != "fit" or not model.exists()
            return
        assert code == 0
    assert out.getvalue().count("\n") >= 2
