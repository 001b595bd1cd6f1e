"""The array functions: on NumPy, on the strict reference of the array API standard, on PyTorch where it is installed.

First the functions by themselves, then descents, solvers and estimators on ``device="torch"``.
"""

import builtins
import sys
from dataclasses import replace
from types import SimpleNamespace

import array_api_compat.numpy
import array_api_strict
import numpy as np
import pytest
from sklearn.base import clone

from opttree import (
    GETClassifier,
    GETRegressor,
    GradTreeClassifier,
    ORRTRegressor,
    Rows,
    SDTRRegressor,
    SmoothTreeProblem,
    SoftForestProblem,
    SRTRegressor,
    TreeProblem,
)
from opttree.cli.main import main
from opttree.kernels.dense import xp as xp_dense
from opttree.kernels.smooth import xp as twin
from opttree.kernels.smooth.first_order import Moments
from opttree.kernels.soft_forest import xp as xp_soft_forest
from opttree.problems import SubtreeProblem
from opttree.problems.smooth.batch import SmoothBatch
from opttree.runtime import devices
from solvers import GET, ORRT, SDTR, GreedyInit, SubtreePolish, solve
from solvers.descent import Adam, geometric, run_all
from tests.conftest import regression_problem, thinned
from tests.device_cases import (
    SHORT,
    SOLVERS,
    STREAMS,
    WITH_DEVICE,
    close,
    dense_descents_alike,
    ends_alike,
    moved,
    small_estimators,
    splits_of,
    streams_alike,
)
from tests.problems.test_smooth import some_theta, statement


@pytest.fixture(params=["numpy", "strict", "torch"])
def arrays(request):
    """Arrays of a library that follows the array API standard; of PyTorch on its own device."""
    if request.param == "torch":
        pytest.importorskip("torch")
        return devices.TorchBackend()
    return devices.Backend(array_api_compat.numpy if request.param == "numpy" else array_api_strict)


@pytest.fixture(params=["strict", "torch"])
def by_arrays(request, monkeypatch):
    """device="torch" is PyTorch, or in its place the strict reference of the standard, which refuses all else."""
    if request.param == "torch":
        pytest.importorskip("torch")
        return
    monkeypatch.setattr(devices, "_no_torch", lambda: None)
    monkeypatch.setattr(devices, "_accelerator", lambda: None)
    monkeypatch.setattr(devices, "TorchBackend", lambda: devices.Backend(array_api_strict))


@pytest.mark.parametrize("loss", ["squared", "log"])
@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_steps_of_the_array_functions_are_those_of_the_cpu(arrays, loss, leaves):
    problem = statement(loss=loss, leaves=leaves, depth=3)
    here = SmoothTreeProblem(problem)
    closed = not (loss == "log" and leaves == "linear")
    rng = np.random.default_rng(0)
    thetas, scales = [here.random_theta(rng) for _ in range(2)], geometric(1.0, 10.0, 8)
    batch = SmoothBatch([here.table] * 2, here.form, [here.penalty] * 2, "float64", backend=arrays)
    state = batch.upload(np.zeros((2, here.size))), batch.upload(np.zeros((2, here.size)))
    moments = Moments(0.9, 0.999, 0.7, 1.0, 1e-8)
    rates = Adam(0.05).rates(8)
    theta = batch.upload(thetas)
    for i, (rate, alpha) in enumerate(zip(rates, scales, strict=True)):
        alphas = batch.upload([alpha, alpha])
        theta, state = batch.step(theta, state, i + 1, float(rate), alphas, batch.every_row, moments, closed)
    assert theta.shape == (2, here.size)
    for start, end in zip(thetas, batch.download(theta), strict=True):
        (descent,) = Adam(0.05, nu1=0.7).start([here], [start], [scales], [rng], closed_leaves=closed)
        for _ in run_all([descent]):
            pass
        close(end, descent.thetas[0], "float64", 1e3)  # where gradients are nearly 0 Adam enlarges roundings


def test_given_losses_and_the_order_of_rows_by_the_array_functions(arrays):
    whole = SmoothTreeProblem(regression_problem(400, depth=3))
    part = SubtreeProblem(whole, some_theta(whole))
    table = whole.problem.X, part.losses, part.weights * (400 / part.share)
    _data, form, penalty = part.stated
    batch = SmoothBatch([table], form, [penalty], "float64", backend=arrays)
    values, gradients, _masses = batch.evaluate(part.start[None], [whole.alpha])
    value, gradient = part.value_and_grad(part.start)
    assert part.share * values[0] == pytest.approx(value, rel=1e-12)
    close(part.share * gradients[0], gradient, "float64")
    A, b, _values, _coefs = whole.unpack(some_theta(whole))
    A_there, b_there, X = map(arrays.asarray, (A, b, whole.problem.X))
    keys = arrays.asnumpy(twin.path_keys(arrays.xp, A_there, b_there, 50.0, X, 3))
    order = np.argsort(keys, kind="stable")
    z = 50.0 * (b[0] - whole.problem.X[order] @ A[0])
    side = np.where(z > twin.SURE, 0, np.where(z < -twin.SURE, 2, 1))
    assert np.array_equal(side, np.sort(side))


FORESTS = {
    "one tree": {},
    "trees, two outputs": {"n_trees": 3, "n_outputs": 2},
    "averaged": {"n_trees": 4, "aggregation": "mixture"},
    "layers": {"n_trees": 2, "n_layers": 3, "tree_output_dim": 3, "aggregation": "mixture", "n_outputs": 2},
}


def forest_statement(n_outputs=1, n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    Y = np.stack([X[:, 0] * X[:, 1], np.sin(X[:, 2])], axis=1)[:, :n_outputs]
    return TreeProblem(X, Y, depth=3, sample_weight=rng.uniform(0.5, 2.0, n))


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("options", FORESTS.values(), ids=FORESTS)
def test_soft_forests_by_the_array_functions(arrays, classes, options):
    options, xp = dict(options), arrays.xp
    problem = forest_statement(options.pop("n_outputs", 1))
    if classes:
        options.pop("tree_output_dim", None)
        y = np.digitize(problem.Y[:, 0], [-0.5, 0.5])
        problem = TreeProblem(problem.X, y, depth=3, loss="log", sample_weight=problem.sample_weight)
    forest = SoftForestProblem(problem, path_penalty=0.3, l1=0.01, dtype="float64", **options)
    theta = forest.random_theta(np.random.default_rng(1))
    rows = [arrays.asarray(part) for part in (theta, problem.X, problem.Y, problem.w)]
    value, gradient = xp_soft_forest.value_and_gradient(xp, *rows, forest.form)
    expected, slopes = forest.value_and_grad(theta)
    assert float(value) == pytest.approx(expected, rel=1e-12)
    close(arrays.asnumpy(gradient), slopes, "float64")
    assert float(xp_soft_forest.mean_loss(xp, *rows, forest.form)) == pytest.approx(forest.mean_loss(theta), rel=1e-12)


@pytest.mark.parametrize(("solver", "options", "n"), thinned(SOLVERS.values(), 2), ids=SOLVERS)
def test_a_solver_ends_there_by_array_functions_too(by_arrays, solver, options, n):
    """In float64, since sums in another order take descents in float32 elsewhere; `GreedyInit` is always in float32."""
    problem = regression_problem(n, **options)
    if isinstance(solver, GET):
        solver = replace(solver, dtype="float64")
    results = [solve(problem, own, random_state=0) for own in (solver, moved(solver, "torch"))]
    ends_alike(results, 1e-3 if isinstance(solver, GreedyInit) else 1e-4)


def test_estimators_and_the_command_line_take_pytorch(by_arrays, tmp_path):
    problem = regression_problem(100, depth=2)
    X, y = problem.X, problem.y
    for estimator in small_estimators():
        here = estimator.fit(X, y).predict(X)
        np.testing.assert_allclose(estimator.set_params(device="torch").fit(X, y).predict(X), here, atol=1e-3)
    labels = np.where(y > 0, "high", "low")
    for classifier in (GETClassifier(2, polish=False, random_state=0), GradTreeClassifier(2, epochs=5, random_state=0)):
        here = classifier.fit(X, labels).predict_proba(X)
        there = classifier.set_params(device="torch").fit(X, labels).predict_proba(X)
        np.testing.assert_allclose(there, here, atol=1e-3)
    table = tmp_path / "rows.csv"
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,y", comments="")
    options = ["--target", "y", "--depth", "1", "--out", str(tmp_path / "tree.json"), "--device", "torch"]
    assert main(["fit", str(table), "--method", "orrt", *options]) == 0


@pytest.mark.parametrize("estimator", thinned(STREAMS.values(), 3), ids=STREAMS)
def test_rows_in_parts_are_learnt_by_array_functions(by_arrays, estimator):
    streams_alike(estimator, "torch")


@pytest.mark.parametrize("index", ["entmax", "gumbel", "soft"])
@pytest.mark.parametrize("loss", ["squared", "zero_one"])
def test_dense_trees_descend_by_array_functions_too(by_arrays, loss, index, monkeypatch):
    monkeypatch.setattr(xp_dense, "NUMBERS", 1 << 10)  # rows that judge come in portions
    dense_descents_alike("torch", loss, index, "float64")


def test_without_pytorch_there_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    problem = regression_problem(50, depth=2)
    with pytest.raises(ValueError, match=r"device='torch' needs PyTorch, which cannot be imported .*: see pytorch.org"):
        solve(problem, GET(device="torch"))
    with pytest.raises(ValueError, match="device='gpu' needs CuPy"):
        GETRegressor(device="gpu").fit(problem.X, problem.y)


def test_old_pytorch_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.6.1+cu124"))
    assert devices._accelerator() is None
    with pytest.raises(ValueError, match=r"device='torch' needs PyTorch 2.7 or newer, and 2.6.1\+cu124 is installed"):
        solve(regression_problem(50, depth=2), GET(device="torch"))


def test_pytorch_takes_the_place_of_cupy_that_is_missing(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(devices, "_accelerator", lambda: torch.device("cpu"))  # stands for a GPU
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: None)
    problem = regression_problem(200, depth=2)
    assert SmoothTreeProblem(problem, device="gpu").device == "torch"
    assert SmoothTreeProblem(regression_problem(60_000, 10, depth=6), device="auto").device == "cpu"
    results = [
        solve(problem, GET(n_starts=2, anneal=SHORT, device=device), random_state=0) for device in ("cpu", "gpu")
    ]
    assert results[1].objective == pytest.approx(results[0].objective, abs=1e-4)


def test_apple_devices_have_no_float64(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(devices, "_no_torch", lambda: None)
    monkeypatch.setattr(devices, "_accelerator", lambda: SimpleNamespace(type="mps"))
    problem = regression_problem(50, depth=2)
    with pytest.raises(ValueError, match=r"device must have float64, and Apple's \(mps\) has not; .*got 'gpu'"):
        solve(problem, ORRT(device="gpu"))
    assert devices.refusal("torch", "float32") is None


def test_memory_of_pytorch_is_asked_for(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(devices, "_accelerator", lambda: torch.device("cpu"))
    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda: (10_000, 10_000))
    monkeypatch.setattr(torch.accelerator, "memory_reserved", lambda: 0)
    monkeypatch.setattr(torch.accelerator, "memory_allocated", lambda: 0)
    problem = regression_problem(400, depth=3, penalties=())
    for solver in WITH_DEVICE:
        with pytest.raises(ValueError, match=r"must have memory for .* GB are free; lower n_.*got device='torch'"):
            solve(problem.restated(splits=splits_of(solver)), replace(solver, device="torch"))


@pytest.mark.parametrize("options", [{"preset": "paper"}, {"preset": "paper", "reading": "program"}, {}], ids=str)
def test_a_polish_is_on_the_device_of_the_anneals(by_arrays, options):
    problem = regression_problem(50, depth=2)
    model = GETRegressor(2, device="torch", dtype="float64", polish=True, **options)
    solver = model.recipe.solver(model, problem, None)
    assert (solver.device, solver.dtype) == (solver.polish.device, solver.polish.dtype) == ("torch", "float64")


def test_a_polish_whose_device_is_missing_is_refused_ahead(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(devices, "_accelerator", lambda: None)
    problem = regression_problem(50, depth=2, penalties=())
    assert "device='gpu' needs CuPy" in GET(polish=SubtreePolish(device="gpu")).refusal(problem)
    with pytest.raises(ValueError, match="device='gpu' needs CuPy"):
        SmoothTreeProblem.placed(problem, "gpu")


@pytest.mark.parametrize(
    "model",
    [GETRegressor(2, n_starts=1, polish=False), SDTRRegressor(2, max_batches=10, quantile_transform=False)],
    ids=lambda model: type(model).__name__,
)
def test_parts_may_change_the_device(by_arrays, monkeypatch, model):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = clone(model).set_params(device="torch", random_state=0).partial_fit(X, X[:, 0])
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(devices, "_no_torch", lambda: "PyTorch, which is not there")
        with pytest.raises(ValueError, match="device='torch' needs PyTorch, which is not there"):
            model.partial_fit(X, X[:, 0])
        model.set_params(device="cpu").partial_fit(X, X[:, 0])
        for device in ("torch", "plough"):
            with pytest.raises(ValueError, match="device"):
                model.set_params(device=device).partial_fit(X, X[:, 0])
    assert np.isfinite(model.set_params(device="torch").partial_fit(X, X[:, 0]).predict(X)).all()


@pytest.mark.parametrize("kind", [ORRTRegressor, SRTRegressor, GETRegressor])
def test_tables_in_parts_are_for_the_cpu(by_arrays, kind):
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.raises(ValueError, match="device must be 'cpu' for a table in parts; got 'torch'"):
        kind(2, device="torch").fit(Rows((X, X[:, 0]), rows=20))


def test_what_pytorch_lacks_is_said(monkeypatch):
    held = devices.Backend(array_api_compat.numpy)
    with (
        pytest.raises(MemoryError, match="device must have memory for theta"),
        devices.memory_errors(held, "theta", "fewer"),
    ):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 6138000000 bytes")
    real = builtins.__import__

    def damaged(name, *args, **kwargs):
        if name == "torch":
            raise OSError("libcudart.so.12: cannot open shared object file")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", damaged)
    with pytest.raises(ValueError, match=r"device='torch' needs PyTorch, which cannot be imported \(libcudart"):
        GETRegressor(2, device="torch").fit([[0.0], [1.0]], [0.0, 1.0])
    monkeypatch.setattr(devices, "_no_torch", lambda: None)
    monkeypatch.setattr(devices, "_accelerator", lambda: SimpleNamespace(type="mps"))
    assert "device must have float64" in SDTR(dtype="float64", device="torch").refusal(regression_problem(50, depth=2))
