"""Smooth trees on a device: the array-API twins, the CUDA kernels, the descents and the solvers that use them.

CUDA C runs on the CPU too, see `tests.emulation`: indices, barriers and numbers of the kernels need no GPU here.
Where there is one, the same tests run on it (marked ``gpu``).
"""

import sys
from dataclasses import replace
from itertools import product

import array_api_compat.numpy
import numpy as np
import pytest

from opttree import (
    L1,
    L2,
    GETRegressor,
    GradTreeRegressor,
    L2Constants,
    ORRTRegressor,
    SDTRClassifier,
    SDTRRegressor,
    SmoothTreeProblem,
    SoftForestProblem,
    SRTRegressor,
)
from opttree.cli.main import main
from opttree.kernels.losses import codes
from opttree.kernels.smooth import fused, walk as smooth
from opttree.problems import SubtreeProblem
from opttree.problems.smooth.batch import SmoothBatch
from opttree.runtime import devices
from solvers import ORRT, SDTR, GradTree, HingeInit, solve, streaming
from solvers.descent import LBFGS, Adam, QHAdam, geometric, run_all
from tests.conftest import classification_problem, regression_problem, thinned
from tests.device_cases import (
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
from tests.emulation import cupy as emulation
from tests.problems.test_smooth import CASES, some_theta, statement

pytestmark = pytest.mark.long  # kernels for GPUs on the CPU; the contract of array functions is held by default


@pytest.fixture(params=["emulated", pytest.param("real", marks=pytest.mark.gpu)])
def cp(request, monkeypatch):
    """CuPy, or its stand-in on the CPU under the same name."""
    if request.param == "real":
        if (reason := devices._no_cupy()) is not None:
            pytest.skip(f"device='gpu' needs {reason}")
        return devices.backend("gpu").kernels
    if emulation.COMPILER is None:
        pytest.skip("there is no C compiler")
    module = emulation.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "array_api_compat.cupy", module)
    return module


@pytest.fixture
def no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(devices, "_accelerator", lambda: None)


def on_both(problem, dtype, **options):
    return [SmoothTreeProblem(problem, dtype=dtype, device=device, **options) for device in ("cpu", "gpu")]


@pytest.mark.parametrize(("options", "aggregation"), thinned(CASES, 3))
def test_value_gradient_and_masses_are_those_of_the_cpu(cp, options, aggregation):
    dtype = "float32" if options["depth"] == 1 else "float64"
    here = SmoothTreeProblem(statement(**options), alpha=2.0, aggregation=aggregation, dtype=dtype)
    thetas = [some_theta(here, seed) for seed in (1, 2)]
    for use_fused in (True, False):  # the kernels, and the array functions
        batch = SmoothBatch([here.table] * 2, here.form, [here.penalty] * 2, dtype, use_fused=use_fused)
        values, gradients, masses = batch.evaluate(thetas, [2.0, 3.0])
        assert values.shape == (2,)
        for k, (theta, alpha) in enumerate(zip(thetas, (2.0, 3.0), strict=True)):
            value, gradient, mass = here.with_alpha(alpha)._evaluate(theta)
            close(values[k], value, dtype)
            close(gradients[k], gradient, dtype)
            if aggregation == "expected":
                close(masses[k], mass, dtype, 1.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("depth", "p"), [(7, 3), (9, 2), (2, 50), (3, 140), (4, 300), (10, 2)])
def test_kernels_at_other_sizes(cp, depth, p, dtype):
    """Tiles of one to four levels, in one to three layers; features in shared memory and not; more than threads."""
    here, there = on_both(regression_problem(530, p, depth=depth), dtype, alpha=1.5)
    theta = some_theta(here) / np.sqrt(p)
    (value, gradient), (value_there, gradient_there) = here.value_and_grad(theta), there.value_and_grad(theta)
    close(value_there, value, dtype)
    close(gradient_there, gradient, dtype)
    assert gradient_there.dtype == dtype
    assert there.value(theta) == value_there  # sums have an order


def test_rows_of_different_starts_may_differ(cp):
    problem = regression_problem(900, depth=3, penalties=(L1(splits=1e-2), L2(splits=1e-2)))
    parts = [problem.restrict(rows, 2) for rows in np.split(np.random.default_rng(0).permutation(900), [40, 500])]
    smooths = [SmoothTreeProblem(part) for part in parts]
    thetas = [some_theta(smooth) for smooth in smooths]
    tables, penalties = [s.table for s in smooths], [s.penalty for s in smooths]
    for options in ({}, {"backend": devices.Backend(array_api_compat.numpy)}):
        batch = SmoothBatch(tables, smooths[0].form, penalties, "float64", **options)
        values, gradients, _masses = batch.evaluate(thetas, [1.0, 1.0, 1.0])
        for k, smooth_problem in enumerate(smooths):
            value, gradient = smooth_problem.value_and_grad(thetas[k])
            assert values[k] == pytest.approx(value, rel=1e-12)
            close(gradients[k], gradient, "float64")


def test_steep_gates_skip_subtrees_and_dead_rows_count_for_nothing(cp):
    problem = regression_problem(3000, depth=8, penalties=())
    rng = np.random.default_rng(0)
    exact = SmoothTreeProblem(problem, alpha=150.0)
    theta = exact.unit_splits(exact.soften(solve(problem, HingeInit(), random_state=0).tree, rng))
    value, gradient = exact.value_and_grad(theta)
    batch = SmoothBatch([exact.table], exact.form._replace(eps=1e-6), [exact.penalty], "float64")
    device_theta, alpha = batch.upload(theta[None]), batch.upload([150.0])
    rows, weight = batch.sorted_rows(device_theta, alpha)
    order = batch.download(rows[0]).ravel()
    assert sorted(order[order >= 0]) == list(range(3000))
    batch._launch(device_theta, alpha, rows, weight)
    skipped = batch.download(batch._space.gradient)[0]
    assert float(np.sum(batch.download(batch._space.values))) / 3000 == pytest.approx(value, rel=1e-6)
    assert 0.0 < np.abs(skipped - gradient).max() <= 1e-5 * np.abs(gradient).max()


@pytest.mark.parametrize("alone", [False, True])
def test_working_sets_of_given_losses(cp, alone):
    penalties = L2(splits=1e-3, leaves=1e-3), L2Constants(splits=2e-3, leaves=1e-3)
    problem = regression_problem(2500, depth=3, leaves="linear", penalties=penalties)
    here, there = on_both(problem, "float64")
    theta = some_theta(here)
    for exact in (True, False):
        sets = [SubtreeProblem(whole, theta, 0, alone=alone, exact=exact) for whole in (here, there)]
        assert sets[1].on_gpu
        (value, gradient), (value_there, gradient_there) = (s.value_and_grad(s.start) for s in sets)
        close(value_there, value, "float64")
        close(gradient_there, gradient, "float64")
        close(sets[1].lbfgs(sets[1].start, 5), sets[0].lbfgs(sets[0].start, 5), "float32")


def test_missing_barriers_and_deadlocks_show_in_the_emulation():
    if emulation.COMPILER is None:
        pytest.skip("there is no C compiler")
    source = """
#define real double
#define KERNEL
typedef struct { real v[4]; } pack;
KERNEL void reverse(real *out, const int careful)
{
    extern __shared__ pack shared[];
    real *all = (real *)shared;
    all[threadIdx.x] = threadIdx.x;
    if (careful) __syncthreads();
    out[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}
KERNEL void divergent(real *out)
{
    if (threadIdx.x < 32) __syncthreads();
    out[0] = __shfl_xor_sync(0xffffffffu, 1.0, 1);
}
"""
    module = emulation.RawModule(code=source)
    out = np.zeros(64).view(emulation.Array)
    module.get_function("reverse")((1,), (64,), (out, np.int32(1)), shared_mem=512)
    assert np.array_equal(out, np.arange(64)[::-1])
    module.get_function("reverse")((1,), (64,), (out, np.int32(0)), shared_mem=512)
    assert not np.array_equal(out, np.arange(64)[::-1])
    with pytest.raises(AssertionError, match="did not reach a barrier"):
        module.get_function("divergent")((1,), (64,), (out,))
    with pytest.raises(AssertionError, match="int got"):
        module.get_function("reverse")((1,), (64,), (out, 1), shared_mem=512)


DRIVERS = {
    "adam": (Adam(0.05), {}),
    "qhadam": (QHAdam(0.05), {}),
    "batches": (Adam(0.05, batch_size=240), {}),
    "averages": (Adam(0.05, average=3, check=2), {}),
    "restarts": (Adam(0.05, period=4, factor=2), {}),
    "skipping": (Adam(0.05), {"eps": 1e-12}),
    "lbfgs": (LBFGS(iterations=5), {}),
}


@pytest.mark.parametrize("loss", ["squared", "log"])
@pytest.mark.parametrize(("driver", "options"), thinned(DRIVERS.values(), 2), ids=DRIVERS)
def test_starts_side_by_side_end_where_they_end_one_by_one(cp, driver, options, loss):
    problem = regression_problem(500, depth=2, penalties=L2Constants(splits=1e-2, leaves=0.3))
    if loss == "log":
        problem = classification_problem(500, depth=2, loss="log")
    ends = []
    for smooth_problem in on_both(problem, "float64", **options):
        rngs = np.random.default_rng(0).spawn(3)
        thetas = [smooth_problem.random_theta(rng) for rng in rngs]
        scales = [geometric(1.0, last, 30) if isinstance(driver, Adam) else np.full(20, 2.0) for last in (5, 9, 12)]
        closed = isinstance(driver, Adam)
        descents = driver.start([smooth_problem] * 3, thetas, scales, rngs, closed_leaves=closed)
        assert len(descents) == (1 if closed and smooth_problem.device == "gpu" else 3)
        for _ in run_all(descents):
            pass
        ends.append(np.concatenate([descent.thetas for descent in descents]))
    close(ends[1], ends[0], "float64", 1e3)


def test_each_start_is_judged_and_stopped_by_itself(cp):
    problem, valid = regression_problem(300, depth=2), regression_problem(200, depth=2, seed=1)
    driver = Adam(0.2, check=3, patience=2)
    ends = []
    for device in ("cpu", "gpu"):
        whole, judge = (SmoothTreeProblem(part, dtype="float64", device=device) for part in (problem, valid))
        rngs = np.random.default_rng(0).spawn(1)
        theta = whole.random_theta(rngs[0])
        (descent,) = driver.start([whole], [theta], [np.full(120, 3.0)], rngs, validation=judge)
        for _ in run_all([descent]):
            pass
        assert descent.done < 120
        ends.append(descent.thetas[0])
    close(ends[1], ends[0], "float64", 1e3)


@pytest.mark.parametrize(("solver", "options", "n"), thinned(SOLVERS.values(), 2), ids=SOLVERS)
def test_a_solver_ends_at_the_objective_of_the_cpu(cp, solver, options, n):
    problem = regression_problem(n, **options)
    results = [solve(problem, solver, random_state=0)]
    before = emulation.RawKernel.launches
    results.append(solve(problem, moved(solver, "gpu"), random_state=0))
    if isinstance(cp, emulation.Module):
        assert (emulation.RawKernel.launches > before) == (not isinstance(solver, SDTR))  # which has no kernels
    ends_alike(results)


def test_estimators_and_the_command_line_take_a_device(cp, tmp_path):
    problem = regression_problem(100, depth=2)
    X, y = problem.X, problem.y
    for estimator in small_estimators():
        here = estimator.fit(X, y).predict(X)
        before = emulation.RawKernel.launches
        there = estimator.set_params(device="gpu").fit(X, y).predict(X)
        if isinstance(cp, emulation.Module) and not isinstance(estimator, (SDTRRegressor, SRTRegressor)):
            assert emulation.RawKernel.launches > before
        np.testing.assert_allclose(there, here, atol=1e-3)
    table = tmp_path / "rows.csv"
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,y", comments="")
    options = ["--target", "y", "--depth", "1", "--out", str(tmp_path / "tree.json"), "--device", "gpu"]
    assert main(["fit", str(table), "--method", "orrt", *options]) == 0


EMULATED = {name: STREAMS[name] for name in ("get", "sdtr", "sdtr, classes")}  # the others take long


@pytest.mark.parametrize("estimator", EMULATED.values(), ids=EMULATED)
def test_rows_in_parts_are_learnt_on_the_device(cp, estimator):
    ours = streams_alike(estimator, "gpu")
    if isinstance(cp, emulation.Module):
        assert ours == (not isinstance(estimator, (SDTRRegressor, SDTRClassifier)))


@pytest.mark.parametrize("loss", ["squared", "log"])
@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_steps_on_parts_are_taken_on_the_device(cp, leaves, loss):
    make = regression_problem if loss == "squared" else classification_problem
    problem = make(400, depth=2, leaves=leaves, loss=loss)
    tree = solve(problem, HingeInit(), random_state=0).tree
    streams = [streaming.TreeStream(problem, tree, np.random.default_rng(0), device) for device in ("cpu", "gpu")]
    before = streams[0].theta.copy()
    for stream in streams:
        stream.learn(problem)
        stream.learn(problem.sample(np.arange(300)))
    close(streams[1].theta, streams[0].theta, "float32", 1e2)
    assert np.abs(streams[0].theta - before).max() > 1e-3
    assert streams[0].steps == streams[1].steps == 2


def test_auto_takes_the_gpu_for_large_problems_only(cp, monkeypatch):
    small, large = regression_problem(200, depth=2), regression_problem(60_000, 10, depth=6)
    assert SmoothTreeProblem(small, device="auto").device == "cpu"
    assert SmoothTreeProblem(large, device="auto").device == "gpu"
    assert SoftForestProblem(large.restated(penalties=()), n_trees=100, device="auto").device == "gpu"
    if isinstance(cp, emulation.Module):
        monkeypatch.setattr(cp, "free", 1000)
        assert SmoothTreeProblem(large, device="auto").device == "gpu"  # whatever others hold: one seed gives one tree
        monkeypatch.setattr(cp, "total", 1000)
        assert SmoothTreeProblem(large, device="auto").device == "cpu"
        assert SoftForestProblem(large.restated(penalties=()), n_trees=100, device="auto").device == "cpu"
    monkeypatch.setattr(cp.cuda, "is_available", lambda: False)
    assert SmoothTreeProblem(large, device="auto").device == "cpu"
    with pytest.raises(ValueError, match="needs a CUDA device, and there is none"):
        SmoothTreeProblem(small, device="gpu")


DENSE = list(product(["squared", "zero_one"], ["entmax", "gumbel", "soft"], ["float64", "float32"]))


@pytest.mark.parametrize(
    ("loss", "index", "dtype"),
    [case if k % 6 == 0 else pytest.param(*case, marks=pytest.mark.long) for k, case in enumerate(DENSE)],
)
def test_dense_trees_descend_as_on_the_cpu(cp, loss, index, dtype):
    dense_descents_alike("gpu", loss, index, dtype)


def test_dense_trees_that_diverge_say_so(cp):
    problem = regression_problem(100, depth=2, splits="axis", penalties=())
    steep = GradTree(learning_rates=(1e30, 1e38, 1e38), epochs=20, device="gpu")
    assert solve(problem, steep, random_state=0).termination.name == "NUMERICAL_ERROR"


@pytest.mark.parametrize("solver", WITH_DEVICE, ids=lambda s: type(s).__name__)
def test_without_cupy_there_is_one_sentence(no_cupy, solver):
    problem = regression_problem(50, depth=2, penalties=(), splits=splits_of(solver))
    steps = []
    with pytest.raises(ValueError, match=r"device='gpu' needs CuPy.*pip install opttree\[gpu\]"):
        solve(problem, replace(solver, device="gpu"), callback=lambda *step: steps.append(step))
    assert not steps
    assert solve(problem, replace(solver, device="auto"), random_state=0, time_limit=5).tree is not None
    with pytest.raises(ValueError, match=r"device must be one of \['cpu', 'gpu', 'torch', 'auto'\]; got 'tpu'"):
        replace(solver, device="tpu")


@pytest.mark.parametrize("estimator", [GETRegressor, SRTRegressor, ORRTRegressor, SDTRRegressor, GradTreeRegressor])
def test_estimators_refuse_before_any_work(no_cupy, estimator):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40.0)
    with pytest.raises(ValueError, match="device='gpu' needs CuPy"):
        estimator(max_depth="cv", device="gpu").fit(X, y)
    with pytest.raises(ValueError, match="device must be one of"):
        estimator(device="cuda").fit(X, y)


@pytest.mark.parametrize("method", ["get", "get-linear", "srt", "orrt", "sdtr", "gradtree", "tao"])
def test_the_command_line_ends_with_exit_code_2(no_cupy, method, tmp_path, capsys):
    table = tmp_path / "rows.csv"
    np.savetxt(table, np.random.default_rng(0).normal(size=(30, 3)), delimiter=",", header="a,b,y", comments="")
    options = ["--target", "y", "--out", str(tmp_path / "tree.json")]
    assert main(["fit", str(table), "--method", method, "--device", "gpu", *options]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert ("--device must be cpu but for" if method == "tao" else "device='gpu' needs CuPy") in message
    assert main(["compare", "--data", "diabetes", "--methods", f"cart,{method}", "--device", "gpu"]) == 2
    assert not (tmp_path / "tree.json").exists()


def test_too_little_memory_is_said_before_any_work(cp, monkeypatch):
    if not isinstance(cp, emulation.Module):
        pytest.skip("memory is short only in the emulation")
    problem = regression_problem(400, depth=3, penalties=())
    monkeypatch.setattr(cp, "free", 10_000)
    for solver in WITH_DEVICE:
        own = problem.restated(splits=splits_of(solver))
        with pytest.raises(ValueError, match=r"device must have memory for .* GB are free; lower n_"):
            solve(own, replace(solver, device="gpu"))
    whole = SmoothTreeProblem(problem, device="gpu")
    with pytest.raises(MemoryError, match="1 starts of depth 3 on 400 rows of 4 features in float64, about"):
        whole.value(some_theta(whole))
    monkeypatch.setattr(cp, "free", 1 << 34)
    monkeypatch.setattr(cp.cuda.runtime, "memGetInfo", lambda: (1 << 34, 1 << 34))
    monkeypatch.setattr(cp, "free", 100)  # taken by somebody else after the check
    with pytest.raises(
        MemoryError, match=r"Out of memory allocating .*; lower n_starts or the number of rows"
    ) as error:
        whole.value(some_theta(whole))
    assert str(error.value).count("device must have memory") == 1


def test_sizes_are_those_that_the_kernels_count(cp):
    for depth in range(1, 13):
        for p, linear in ((1, 0), (4, 1), (30, 0)):
            form = smooth.Form(depth, 1, 0.0, codes.SQUARED, codes.EXPECTED, p, 2, linear)
            size = fused.own_sizes(cp, form, "float32")
            assert size.levels * size.n_tiles - size.pad == depth
            assert 0 <= size.pad < size.levels
            assert size.q >= p + 1
            assert size.splits >= (2**depth - 1) * (p + 1)
            assert size.part >= size.theta
            assert size.shared <= fused.shared_limit(cp)


def test_amd_devices_are_not_asked_for_shared_memory(cp, monkeypatch):
    """CuPy on HIP lists no such limit, and setting it is an error there."""
    if not isinstance(cp, emulation.Module):
        pytest.skip("the device is what it is")
    here, there = on_both(regression_problem(300, 40, depth=3), "float64")
    assert fused.own_sizes(cp, there.form, "float64").shared > fused.ORDINARY_SHARED
    monkeypatch.delitem(cp.cuda.Device().attributes, "MaxSharedMemoryPerBlockOptin")
    monkeypatch.setitem(cp.cuda.Device().attributes, "MaxSharedMemoryPerBlock", 65536)
    monkeypatch.setattr(cp.cuda.runtime, "is_hip", True)
    refused = property(lambda kernel: 65536)  # cannot be set
    monkeypatch.setattr(emulation.RawKernel, "max_dynamic_shared_size_bytes", refused)
    theta = some_theta(here)
    close(there.value_and_grad(theta)[1], here.value_and_grad(theta)[1], "float64")


def test_smaller_devices_keep_rows_out_of_shared_memory(cp, monkeypatch):
    if not isinstance(cp, emulation.Module):
        pytest.skip("the device is what it is")
    here, there = on_both(regression_problem(300, 40, depth=4), "float64")
    monkeypatch.setitem(cp.cuda.Device().attributes, "MaxSharedMemoryPerBlockOptin", 65536)
    assert not fused.own_sizes(cp, there.form, "float64").features_shared
    theta = some_theta(here)
    close(there.value_and_grad(theta)[1], here.value_and_grad(theta)[1], "float64")
    monkeypatch.setitem(cp.cuda.Device().attributes, "MaxSharedMemoryPerBlockOptin", 9000)
    with pytest.raises(ValueError, match="device must have 9280 bytes of shared memory"):
        solve(here.problem, ORRT(device="gpu"))
