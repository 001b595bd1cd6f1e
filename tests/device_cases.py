"""What the tests of devices share: statements, solvers and estimators, and what has to agree with the CPU."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

from opttree import (
    DenseTreeProblem,
    GETClassifier,
    GETRegressor,
    GradTreeRegressor,
    ORRTRegressor,
    SDTRClassifier,
    SDTRRegressor,
    SRTRegressor,
)
from solvers import GET, NODEC, ORRT, SDTR, Chain, GradTree, GreedyInit, HingeInit, SubtreePolish
from solvers.descent import Adam
from solvers.get import Anneal
from solvers.gradtree.descent import descents as dense_descents
from tests.conftest import classification_problem, regression_problem
from tests.emulation import cupy as emulation

TOLERANCE = {"float64": 1e-11, "float32": 1e-5}


def close(value, expected, dtype, scale=None):
    scale = np.abs(expected).max() if scale is None else scale
    np.testing.assert_allclose(value, expected, rtol=0.0, atol=TOLERANCE[dtype] * max(scale, 1e-12))


LINEAR = {"leaves": "linear"}
SHORT = Anneal(epochs=40, optimizer=Adam(0.05))
SOLVERS = {
    "get": (GET(n_starts=3, anneal=SHORT, polish=SubtreePolish(SHORT), dtype="float64"), {"depth": 2}, 600),
    "get, float32": (GET(n_starts=3, anneal=SHORT, polish=None), {"depth": 3}, 600),
    "get, race": (GET(n_starts=3, anneal=SHORT, race_rows=200, n_kept=2, finish=SHORT, polish=None), {"depth": 2}, 500),
    "get, linear": (GET(n_starts=2, anneal=SHORT, refine=SHORT, sweeps=1), {"depth": 2, **LINEAR}, 400),
    "get, skipping": (GET(n_starts=1, anneal=SHORT, eps=1e-9, sweeps=0, polish=None), {"depth": 4}, 600),
    "get, as printed": (
        replace(GET.paper(2), anneal=Anneal(epochs=20, scale_ranges=((5, 25), (50, 150))), polish=None),
        {"depth": 2},
        300,
    ),
    "greedy": (GreedyInit(levels=2, epochs=40), {"depth": 4}, 500),
    "orrt": (ORRT(max_iter=40), {"depth": 2, **LINEAR}, 400),
    "nodec": (NODEC(max_iter=2, joint_iterations=10), {"depth": 2, **LINEAR}, 2300),
    "nodec, exact": (NODEC(max_iter=2, k0=0), {"depth": 2, **LINEAR}, 2100),
    "chain": (Chain(HingeInit(), SubtreePolish(SHORT)), {"depth": 3}, 400),
    "gradtree": (
        GradTree(epochs=15, batch_size=100, n_starts=2, dtype="float64"),
        {"depth": 3, "splits": "axis", "penalties": ()},
        300,
    ),
    "sdtr": (SDTR(n_trees=3, max_batches=60, batch_size=100), {"depth": 3, "penalties": ()}, 300),
}


def moved(solver, device):
    """The solver with all its parts on a device."""
    if isinstance(solver, Chain):
        return Chain(solver.solvers[0], replace(solver.solvers[1], device=device))
    if isinstance(getattr(solver, "polish", None), SubtreePolish):
        solver = replace(solver, polish=replace(solver.polish, device=device))
    return replace(solver, device=device)


def ends_alike(results, tolerance=1e-4):
    assert results[1].objective == pytest.approx(results[0].objective, abs=tolerance)
    assert len(results[0].trace) == len(results[1].trace)
    assert results[0].objective < 0.9


def small_estimators():
    """Of every method that takes a device."""
    return (
        GETRegressor(2, n_starts=2, polish=False, random_state=0),
        SRTRegressor(2, max_iter=1, joint_iterations=5, random_state=0),
        ORRTRegressor(2, max_iter=20, random_state=0),
        SDTRRegressor(2, max_batches=40, batch_size=50, random_state=0),
        GradTreeRegressor(2, epochs=5, random_state=0),
    )


STREAMS = {
    "get": GETRegressor(2, n_starts=1, polish=False, dtype="float64", random_state=0),
    "get, classes": GETClassifier(2, n_starts=1, polish=False, random_state=0),
    "get-linear": GETRegressor(1, leaves="linear", random_state=0),
    "sdtr": SDTRRegressor(2, n_trees=2, batch_size=100, max_batches=60, quantile_transform=False, random_state=0),
    "sdtr, classes": SDTRClassifier(2, batch_size=100, max_batches=60, quantile_transform=False, random_state=0),
}


def streamed(estimator, X, y, device):
    """Trained on three parts, by `partial_fit` and by `fit_chunks`; saved and restored between parts."""
    first = clone(estimator).set_params(device=device)
    for i in range(0, 900, 300):
        first = pickle.loads(pickle.dumps(first.partial_fit(X[i : i + 300], y[i : i + 300])))
    chunks = [(X[i : i + 300], y[i : i + 300]) for i in range(0, 900, 300)]
    second = clone(estimator).set_params(device=device).fit_chunks(lambda: iter(chunks), sample_rows=300, epochs=2)
    return [model.predict_proba(X) if is_classifier(model) else model.predict(X) for model in (first, second)]


def streams_alike(estimator, device):
    problem = regression_problem(900, depth=2)
    X, y = problem.X, problem.y
    if is_classifier(estimator):
        y = np.where(y > 0, "high", "low")
    here = streamed(estimator, X, y, "cpu")
    before = emulation.RawKernel.launches
    for own, other in zip(here, streamed(estimator, X, y, device), strict=True):
        np.testing.assert_allclose(other, own, atol=2e-3)
    return emulation.RawKernel.launches > before


def dense_descents_alike(there, loss, index, dtype):
    """Three starts, batches, averages, temperatures, losses of rows that judge; more features than lanes of a warp."""
    make = regression_problem if loss == "squared" else classification_problem
    train, judge = (make(n, 40, depth=3, splits="axis", penalties=()) for n in (230, 150))
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 230)
    train = train.with_rows(train.X, train.y, weights)
    focus = {"gamma": 2.0, "epsilon": 1.5} if loss == "zero_one" else {}
    options = GradTree(epochs=6, batch_size=64, average=3, index=index, temperatures=(1.0, 0.5), dtype=dtype, **focus)
    dense, judging = (DenseTreeProblem(part, options.gamma, options.epsilon, index, dtype) for part in (train, judge))
    ends = []
    for device in ("cpu", there):
        rngs = np.random.default_rng(1).spawn(3)
        thetas = [dense.random_theta(rng) for rng in rngs]
        runs = dense_descents(replace(options, device=device), dense, judging, thetas, rngs)
        assert len(runs) == (3 if device == "cpu" else 1)
        for mover in runs:
            mover.advance(4)
            mover.advance(10)
            assert mover.remaining == 0
        ends.append([best for run in runs for best in run.best])
    for here, there in zip(*ends, strict=True):
        assert there.theta.dtype == dtype
        assert there.step == here.step
        assert there.loss == pytest.approx(here.loss, rel=1e-9 if dtype == "float64" else 1e-3)
        close(there.theta, here.theta, "float64" if dtype == "float64" else "float32", 1e3)


WITH_DEVICE = [GradTree(), GET(), SubtreePolish(), GreedyInit(), ORRT(), NODEC(), SDTR()]


def splits_of(solver):
    return "axis" if isinstance(solver, GradTree) else "oblique"
