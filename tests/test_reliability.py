"""Failures that were found by fuzzing, oracles and faults, each with the input that showed it."""

import json
import multiprocessing
import time
import warnings
import zipfile
from dataclasses import replace
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog, minimize

from opttree import (
    L1,
    L2,
    DTSemNetRegressor,
    GETRegressor,
    GradTreeRegressor,
    HRTRegressor,
    OCTClassifier,
    ORRTRegressor,
    ORTRegressor,
    RADDTRegressor,
    SDTRRegressor,
    SRTRegressor,
    TAOClassifier,
    TAOForestRegressor,
    TAORegressor,
    Tree,
    TreeProblem,
    load,
    save,
)
from opttree.cli.main import main
from opttree.statement.numbers import LARGEST
from opttree.tables.checks import check_columns
from solvers import MIP, TAO, BranchAndBound, CartInit, Chain, Solver, Step, TAOForest, Termination, solve

REGRESSORS = [
    TAORegressor(2),
    GETRegressor(2),
    SRTRegressor(2),
    ORRTRegressor(2, max_iter=20),
    ORTRegressor(2),
    GradTreeRegressor(2, epochs=30),
    HRTRegressor(2),
    TAOForestRegressor(3),
]


SCALED = [model for model in REGRESSORS if not isinstance(model, ORTRegressor)]  # ranks suffice for this one


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


# ---- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", SCALED, ids=repr)
def test_features_too_small_to_scale_are_refused(table, model):
    X, y = table
    with pytest.raises(
        ValueError, match=r"X column 0 must hold numbers above 1e-150 in size, or zeros alone; got at mo"
    ):
        model.fit(X * 1e-310, y)


@pytest.mark.parametrize("scale", [2.0**-495, 2.0**495])
@pytest.mark.parametrize("model", [*REGRESSORS, TAOClassifier(2)], ids=repr)
def test_numbers_within_the_limits_make_the_same_tree(table, model, scale):
    X, y = table
    y = y > 0.0 if isinstance(model, TAOClassifier) else y
    model.set_params(random_state=0)
    scaled = model.fit(X * scale, y).predict(X * scale)
    plain = model.fit(X, y).predict(X)
    np.testing.assert_allclose(scaled.astype(float), plain.astype(float), atol=1e-9)


@pytest.mark.parametrize("name", ["X", "y"])
def test_numbers_beyond_the_limit_are_refused(table, name):
    X, y = table
    X, y = (X * 1e200, y) if name == "X" else (X, y * 1e200)
    with pytest.raises(ValueError, match=rf"{name} must hold numbers of at most 1e\+150 in size; got "):
        TreeProblem(X, y, depth=2)
    with pytest.raises(ValueError, match=f"{name} must hold numbers of at most"):
        TAORegressor(2).fit(X, y)
    with pytest.raises(ValueError, match="X must hold numbers of at most"):
        TAORegressor(2).fit(table[0], table[1]).predict(table[0] * 1e200)


def test_numbers_at_the_limit_have_finite_objectives(table):
    X, y = table
    X, y = X / np.abs(X).max() * LARGEST, y / np.abs(y).max() * LARGEST
    for solver in (CartInit(), BranchAndBound()):
        assert np.isfinite(solve(TreeProblem(X, y, depth=2, splits="axis"), solver).objective)


@pytest.mark.parametrize("offset", [1e13, 1e15])
@pytest.mark.parametrize("model", SCALED, ids=repr)
def test_columns_that_vary_too_little_are_refused(table, model, offset):
    X, y = table
    with pytest.raises(ValueError, match=r"X column 0 must vary by more than 1e-12 of its size; got numbers within"):
        model.fit(X + offset, y)
    with pytest.raises(ValueError, match=r"y must vary by more than 1e-12 of its size"):
        model.fit(X, y + offset)


def test_large_offsets_that_are_allowed_do_not_move_rows(table):
    X, y = table
    model = GETRegressor(2, random_state=0).fit(X + 1e11, y)
    loss = np.mean(np.square(model.predict(X + 1e11) - y)) / y.var()
    assert loss == pytest.approx(model.result_.objective, rel=1e-6)


@pytest.mark.parametrize("units", [1, 4, 15])
def test_a_column_of_rounding_errors_is_constant(table, units):
    X, y = table
    noise = np.where(y > 0.0, 1.0, 1.0 - units * np.finfo(float).eps)  # as a total of shares
    assert np.ptp(noise) > 0.0
    plain = TAORegressor(2, leaves="linear", random_state=0).fit(np.column_stack([X, np.zeros(40)]), y)
    noisy = TAORegressor(2, leaves="linear", random_state=0).fit(np.column_stack([X, noise]), y)
    np.testing.assert_allclose(
        noisy.predict(np.column_stack([X, noise])), plain.predict(np.column_stack([X, X[:, 0] * 0]))
    )
    assert not noisy.tree_.coefs[:, :, 3].any()


def test_a_column_that_varies_in_rows_of_hardly_any_weight_is_taken(table):
    X, y = table
    rare, weight = np.eye(40)[7], np.where(np.arange(40) == 7, 1e-25, 1.0)
    model = TAORegressor(2, random_state=0).fit(np.column_stack([X, rare]), y, sample_weight=weight)
    assert np.isfinite(model.predict(np.column_stack([X, rare]))).all()


@pytest.mark.parametrize("change", [lambda X: X * 1e-310, lambda X: X + 1e13, lambda X: X + 1e15])
def test_trees_of_axis_aligned_splits_need_no_scale(table, change):
    X, y = table
    X, model = change(X), ORTRegressor(2, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.3
    with pytest.raises(ValueError, match=r"y must vary by more than 1e-12 of its size"):
        model.fit(X, y + 1e15)


def test_an_offset_does_not_change_what_is_proved():
    X, y = (1e15 + np.arange(8.0))[:, None], np.random.default_rng(0).normal(size=8)
    for solver in (BranchAndBound(), MIP()):
        found = [solve(TreeProblem(Z, y, depth=3, splits="axis"), solver).objective for Z in (X, X - 1e15)]
        assert found[0] == pytest.approx(found[1], abs=1e-12)


# ---- leaves ---------------------------------------------------------------------------------------------------------


def one_leaf(X, y, loss, weight, penalties=()):
    problem = TreeProblem(X, y, depth=0, leaves="linear", loss=loss, sample_weight=weight, penalties=penalties)
    tree = problem.fit_leaves(problem.one_leaf("constant"), min_rows=1)
    return problem.objective(replace(tree, lower=None, upper=None))


def degenerate(rng, n, p):
    """Features with copies, constants and many scales."""
    X = rng.normal(size=(n, p))
    kind = rng.integers(4)
    if kind == 1:
        X[:, 0] = 3.7
    elif kind == 2:
        X[:, 0] = -2.0 * X[:, -1]
    elif kind == 3:
        X[: n // 2] = X[0]
    return X * 10.0 ** rng.integers(-4, 5, size=p)


@pytest.mark.parametrize("seed", range(40))
def test_linear_leaves_are_least_squares(seed):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(5, 100)), int(rng.integers(1, 6))
    X, y, w = degenerate(rng, n, p), rng.normal(size=n), rng.uniform(0.1, 2.0, n)
    root = np.sqrt(w / w.sum())
    A = np.column_stack([X / np.abs(X).max(axis=0), np.ones(n)]) * root[:, None]
    rest = y * root - A @ np.linalg.lstsq(A, y * root, rcond=None)[0]
    assert one_leaf(X, y, "squared", w) == pytest.approx(rest @ rest, rel=1e-6)


@pytest.mark.parametrize("strength", [0.0, 0.03])
@pytest.mark.parametrize("seed", range(80))
def test_linear_leaves_are_least_absolute_deviations(seed, strength):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(5, 100)), int(rng.integers(1, 6))
    X = degenerate(rng, n, p)
    y, w = rng.standard_t(2, size=n), rng.uniform(0.1, 2.0, n)
    y = y.round() if seed % 3 == 0 else y
    if seed % 4 == 0:  # many rows on one hyperplane
        X, y = rng.integers(0, 2 + seed % 3, size=(n, p)).astype(float), rng.integers(-2, 3, size=n).astype(float)
    unit = np.maximum(np.abs(X).max(axis=0), 1e-300)
    A, share, price = np.column_stack([X / unit, np.ones(n)]), w / w.sum(), np.append(strength / unit, 0.0)
    costs = np.concatenate([price, price, share, share])
    best = linprog(costs, A_eq=np.hstack([A, -A, np.eye(n), -np.eye(n)]), b_eq=y).fun
    penalties = (L1(leaves=strength),) if strength else ()
    assert one_leaf(X, y, "absolute", w, penalties) == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_linear_leaves_of_classes_minimise_log_loss(seed):
    rng = np.random.default_rng(seed)
    n, p, K = int(rng.integers(60, 200)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    X = rng.normal(size=(n, p))
    label = np.unique(np.argmax(X @ rng.normal(size=(p, K)) + rng.gumbel(size=(n, K)), axis=1), return_inverse=True)[1]
    strength, w = (0.0, 1e-3)[seed % 2], rng.uniform(0.1, 2.0, n)
    Y, A, share = np.eye(label.max() + 1)[label], np.column_stack([X, np.ones(n)]), w / w.sum()

    def value(v):
        V = v.reshape(p + 1, -1)
        z = A @ V
        log_sum = np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)) + z.max(axis=1)
        slope = A.T @ (share[:, None] * (np.exp(z - log_sum[:, None]) - Y))
        slope[:p] += 2.0 * strength * V[:p]
        return share @ (log_sum - (z * Y).sum(axis=1)) + strength * np.square(V[:p]).sum(), slope.ravel()

    best = minimize(value, np.zeros((p + 1) * Y.shape[1]), jac=True, method="BFGS").fun
    scale = np.ones(p) if strength else 10.0 ** rng.integers(-4, 5, size=p)
    offset = rng.choice([0.0, 1e4]) * scale
    reached = one_leaf(X * scale + offset, label, "log", w, (L2(leaves=strength),) if strength else ())
    assert best - 1e-6 <= reached <= best + 2e-4


@pytest.mark.parametrize("loss", ["squared", "absolute", "log"])
def test_weights_are_repetitions_to_degenerate_leaves(loss):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.full(30, 3.7), np.repeat(rng.normal(size=3), 10), rng.normal(size=30)])
    times = rng.integers(1, 4, 30)
    y = rng.integers(3, size=30) if loss == "log" else rng.normal(size=30)
    rows = np.repeat(np.arange(30), times)
    assert one_leaf(X, y, loss, times.astype(float)) == pytest.approx(one_leaf(X[rows], y[rows], loss, None), rel=1e-4)


def test_constant_targets_with_linear_leaves_and_absolute_loss(table):
    model = ORTRegressor(2, leaves="linear", loss="absolute").fit(table[0], np.ones(40))
    np.testing.assert_array_equal(model.predict(table[0]), 1.0)


# ---- statements, starts and verdicts --------------------------------------------------------------------------------


def test_a_start_outside_the_program_is_said(table):
    problem = TreeProblem(*table, depth=2, splits="axis")
    start = solve(problem, CartInit()).tree
    result = solve(problem, MIP(max_splits=1), start=start)
    assert "the start was not used: the tree has 3 splits; MaxSplits(k=1) allows 1" in result.message
    assert result.tree.n_branches == 1
    result = solve(problem, MIP(max_features=1, max_splits=3), start=start)
    assert ("the start was not used: it splits on" in result.message) == (np.unique(start.feature).size > 1)
    assert "not used" not in solve(problem, MIP(), start=start).message


def test_a_chain_that_goes_on_from_a_forest_is_refused_before_it_starts(table):
    with pytest.raises(ValueError, match="TAOForest makes a forest, from which the next solver of the chain cannot"):
        solve(TreeProblem(*table, depth=2), Chain(TAOForest(2), TAO()))
    assert Chain(TAO(), TAOForest(2)).refusal(TreeProblem(*table, depth=2)) is None


class Claims(Solver):
    """A solver whose bound is above its tree."""

    def steps(self, problem, start, rng):
        """One step."""
        yield Step(problem.best_constant(), bound=1e9)
        yield None


def test_a_dropped_bound_leaves_the_verdict(table):
    result = solve(TreeProblem(*table, depth=2), Claims(), callback=lambda step, trace: True)
    assert result.termination is Termination.INTERRUPTED
    assert result.bound is None
    assert "The bound is dropped" in result.message


@pytest.mark.parametrize("kind", [ORTRegressor, OCTClassifier])
def test_wrong_words_are_one_sentence(table, kind):
    if kind is ORTRegressor:
        with pytest.raises(ValueError, match=r"leaves must be one of \['constant', 'linear'\]; got 'x'"):
            kind(leaves="x").fit(*table)
    with pytest.raises(ValueError, match="random_state must be an integer >= 0, a RandomState or None; got -1"):
        kind(random_state=-1).fit(table[0], table[1] > 0.0)
    with pytest.raises(ValueError, match="max_depth must be an integer"):
        kind(None).fit(table[0], table[1] > 0.0)


# ---- time, processes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [SRTRegressor, ORRTRegressor, SDTRRegressor, GETRegressor, GradTreeRegressor, RADDTRegressor, DTSemNetRegressor],
)
def test_deep_complete_trees_of_few_rows_keep_their_time(kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    model = kind(20, time_limit=1.0, random_state=0)
    model.fit(X, y)  # kernels are loaded
    began = time.perf_counter()
    model.fit(X, y)
    assert time.perf_counter() - began < 4.0
    assert model.result_.seconds < 1.5
    assert model._model.trees[0].depth <= 10 if hasattr(model, "forest_") else model.tree_.depth <= 10


@pytest.mark.parametrize("options", [{"leaves": "linear"}, {}])
def test_programs_keep_their_time(options):
    rng = np.random.default_rng(0)
    problem = TreeProblem(rng.normal(size=(60, 2)), rng.normal(size=60), depth=2, splits="axis", **options)
    solver = MIP() if options else MIP(formulation="flow")
    solve(problem, solver, time_limit=0.5)
    assert solve(problem, solver, time_limit=1.0).seconds < 2.0


def fitted_in_a_child(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    return GETRegressor(2, random_state=seed).fit(X, X[:, 0]).score(X, X[:, 0])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_forked_process_can_fit(n_jobs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    own = GETRegressor(2, random_state=0, n_jobs=n_jobs).fit(X, X[:, 0]).score(X, X[:, 0])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(fitted_in_a_child, [0, 1]).get(timeout=120)
    assert found[0] == own


@pytest.mark.parametrize(
    "model",
    [
        SDTRRegressor(np.int8(2), n_layers=np.int8(2), max_batches=np.int8(40)),
        GETRegressor(np.int8(4), n_starts=np.int8(2)),
        TAORegressor(np.int8(7), max_iter=np.int8(20)),
        TAOForestRegressor(np.int8(100)),
    ],
    ids=repr,
)
def test_small_integer_types_are_integers(table, model):
    model.set_params(random_state=0)
    wide = {k: int(v) if isinstance(v, np.integer) else v for k, v in model.get_params().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = model.fit(*table).predict(table[0])
    np.testing.assert_array_equal(mine, type(model)(**wide).fit(*table).predict(table[0]))


def test_a_table_of_very_many_columns_is_checked_at_once():
    X = pd.DataFrame(np.zeros((2, 200_000)))
    began = time.perf_counter()
    check_columns(X)
    assert time.perf_counter() - began < 5.0
    X.iloc[1, 77] = np.inf
    with pytest.raises(ValueError, match="X column 77 must be finite"):
        check_columns(X)


# ---- files and messages ---------------------------------------------------------------------------------------------


@pytest.fixture
def saved(table, tmp_path):
    save(TAORegressor(2, leaves="linear", random_state=0).fit(*table), tmp_path / "model.npz")
    save(TAORegressor(2, leaves="linear", random_state=0).fit(*table), tmp_path / "model.json")
    return tmp_path


def with_array(folder, shape, zeros):
    """The saved NPZ with another array of thresholds: its header says ``shape``, and ``zeros`` numbers follow."""
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(folder / "model.npz") as before, zipfile.ZipFile(folder / "b.npz", "w", 8) as after:
        for name in before.namelist():
            if name != "b.npy":
                after.writestr(name, before.read(name))
        with after.open("b.npy", "w", force_zip64=True) as file:
            file.write(header.getvalue())
            for first in range(0, zeros, 10**6):
                file.write(bytes(8 * min(10**6, zeros - first)))
    return folder / "b.npz"


def test_arrays_that_say_more_than_they_hold_are_refused(saved):
    with pytest.raises(ValueError, match=r"b\.npy says that it holds 8000000000 bytes, and holds"):
        load(with_array(saved, (10**9,), 3))


@pytest.mark.parametrize(("kind", "shape"), [("<U0", 10**13), ("|V0", 10**13), ("|O", 3), ("<c16", 3), ("|b1", 10**9)])
def test_arrays_of_other_kinds_are_refused(saved, kind, shape):
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": (shape,)})
    size = {"<c16": 48, "|O": 24, "|b1": 10**9}.get(kind, 0)
    with zipfile.ZipFile(saved / "model.npz") as before, zipfile.ZipFile(saved / "b.npz", "w", 8) as after:
        for name in before.namelist():
            if name != "b.npy":
                after.writestr(name, before.read(name))
        with after.open("b.npy", "w", force_zip64=True) as file:
            file.write(header.getvalue())
            for first in range(0, size, 10**7):
                file.write(bytes(min(10**7, size - first)))
    with pytest.raises(ValueError, match=r"must be a model written by opttree; it is damaged or not a model"):
        load(saved / "b.npz")


def test_small_files_that_inflate_are_refused_before_they_do(saved):
    path = with_array(saved, (2 * 10**8,), 2 * 10**8)
    assert path.stat().st_size < 2 * 10**7
    began = time.perf_counter()
    with pytest.raises(ValueError, match="models are of at most 1073741824 bytes, and this is of 16000"):
        load(path)
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize("entry", ["NaN", [["x"]], None, {}, [1e400], "1" * 50])
def test_entries_of_another_kind_are_refused(saved, entry):
    data = json.loads((saved / "model.json").read_text())
    data["tree"]["b"] = entry
    (saved / "other.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"must be a model written by opttree; its content is damaged"):
        load(saved / "other.json")


def chain(n_branches):
    """A tree whose right children are leaves."""
    children = np.stack([np.arange(1, n_branches + 1), n_branches + np.arange(n_branches)], axis=1)
    children[-1, 0] = 2 * n_branches
    b = np.arange(n_branches, dtype=float)[::-1]
    return Tree(children, np.ones((n_branches, 1)), b, np.arange(n_branches + 1.0)[:, None])


def test_trees_too_deep_for_a_text_are_neither_written_nor_read(tmp_path):
    save(chain(500), tmp_path / "deep.json")
    assert load(tmp_path / "deep.json").to_text().count("\n") == 1500
    with pytest.raises(ValueError, match="a tree in a file must have at most 500 levels; got more"):
        save(chain(501), tmp_path / "deeper.json")
    data = json.loads((tmp_path / "deep.json").read_text())
    deep = chain(20_000)
    for name in ("children", "A", "b", "values"):
        data["tree"][name] = getattr(deep, name).tolist()
    data["tree"]["coefs"] = []
    (tmp_path / "deeper.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match="at most 500 levels"):
        load(tmp_path / "deeper.json")


def test_a_damaged_tree_makes_a_short_message():
    children = chain(5000).children.copy()
    children[7] = 0
    with pytest.raises(ValueError, match="children must name every node but the root exactly once") as caught:
        Tree(children, np.ones((5000, 1)), np.zeros(5000), np.zeros((5001, 1)))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("option", ["--depth", "--seed"])
def test_numbers_of_the_command_line_beyond_all_bounds(option, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("a,b,target\n1,2,3\n4,5,6\n7,8,1\n1,1,1\n")
    values = {"--depth": "9" * 20, "--seed": "-1"}
    words = {
        "--depth": "max_depth must be an integer of at most 64 bits",
        "--seed": "random_state must be an integer >= 0",
    }
    arguments = ["fit", str(tmp_path / "a.csv"), "--target", "target", "--out", str(tmp_path / "m.json")]
    assert main([*arguments, option, values[option]]) == 2
    assert words[option] in capsys.readouterr().err


def test_the_offending_text_is_shown_and_no_more_than_a_line_of_it(tmp_path, capsys):
    for text, shown in (("five", "'five'"), ("x" * 200_000, "xxx...")):
        (tmp_path / "a.csv").write_text("a,b,target\n1,2,3\n4,5,6\n7,8,1\n")
        (tmp_path / "b.csv").write_text(f"a,b,target\n1,2,3\n4,{text},6\n7,8,1\n")
        assert main(["fit", str(tmp_path / "a.csv"), "--target", "target", "--out", str(tmp_path / "m.json")]) == 0
        code = main(["predict", str(tmp_path / "m.json"), str(tmp_path / "b.csv")])
        message = capsys.readouterr().err
        assert code == 2
        assert "X column 'b' must hold numbers, as in training; got " in message
        assert shown in message
        assert len(message) < 250


def test_a_picture_that_cannot_be_drawn_leaves_nothing(saved, tmp_path, capsys):
    before = sorted(tmp_path.rglob("*"))
    assert main(["show", str(saved / "model.json"), "--png", str(tmp_path / "absent" / "tree.png")]) == 2
    assert main(["show", str(saved / "model.json"), "--png", str(tmp_path / "tree.xyz")]) == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_highs_prints_nothing(table, capfd):
    solve(TreeProblem(*table, depth=2, splits="axis"), MIP(formulation="flow"), time_limit=0.5)
    assert capfd.readouterr().out == ""
