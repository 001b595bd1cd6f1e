"""Nodes and leaves of many features or outputs: the same minimisers as the kernels for few."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import logsumexp, softmax

from opttree import L1, L2, Tree, TreeProblem
from opttree.kernels import records
from opttree.kernels.algebra import logistic as narrow_logistic
from opttree.kernels.algebra.quadratic import minimise_quadratic
from opttree.kernels.leaves import fit as narrow, outputs as row_outputs
from opttree.kernels.smooth import subtree
from opttree.kernels.wide.quadratic import minimise
from opttree.runtime.clock import now
from opttree.wide import leaves as wide, logistic as wide_logistic, soft as wide_soft
from opttree.wide.rows import Part, SparsePart
from tests.conftest import ends_in_time


def node(seed, m=300, p=90):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m + 50, p)) * rng.uniform(0.2, 2.0, p)
    X[:, 3] = X[:, 2] + 1e-3 * rng.normal(size=m + 50)
    rows = np.sort(rng.permutation(m + 50)[:m]).astype(np.int32)
    u = np.where(X[rows] @ rng.normal(size=p) + 2.0 * rng.normal(size=m) > 0.0, 1.0, -1.0)
    return X, rows, u * rng.uniform(0.0, 2.0, m) / m


def objective(X, rows, u, offset, a, b, l1, l2):
    z = X[rows] @ a - b + offset
    return np.sum(np.abs(u) * np.logaddexp(0.0, -np.sign(u) * z)) + l1 * np.abs(a).sum() + l2 * np.sum(a * a)


@pytest.mark.parametrize(("l1", "l2"), [(0.01, 0.0), (0.003, 0.001), (0.0, 0.01)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_node_problems_have_the_minimiser_of_the_kernel(l1, l2, seed, monkeypatch):
    X, rows, u = node(seed)
    offset = np.random.default_rng(seed).normal(size=rows.size)
    monkeypatch.setattr(wide_logistic, "WORKING", 20)  # the set has to grow
    found = []
    for fit in (narrow_logistic.fit_logistic, wide_logistic.fit_logistic):
        a = np.zeros(X.shape[1])
        if fit is wide_logistic.fit_logistic:
            b, steps = fit(Part(X, rows), u, offset, a, 0.0, l1, l2, 1e-7, 100)
        else:
            b, steps = fit(X, rows, u, offset, a, 0.0, l1, l2, 1e-7, 100, True)
        assert steps < 100
        found.append((objective(X, rows, u, offset, a, b, l1, l2), a, b))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-7)
    np.testing.assert_allclose(found[1][1], found[0][1], atol=2e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fits_of_more_features_than_rows_turn_to_the_span_of_the_rows(seed, monkeypatch):
    X, rows, u = node(seed, m=60, p=150)
    found = []
    for turned in (wide_logistic._turned, lambda part: None):
        monkeypatch.setattr(wide_logistic, "_turned", turned)
        a = 0.1 * np.random.default_rng(seed).normal(size=X.shape[1])
        b, _steps = wide_logistic.fit_logistic(Part(X, rows), u, np.zeros(60), a, 0.0, 0.0, 1e-3, 1e-8, 100)
        found.append((objective(X, rows, u, 0.0, a, b, 0.0, 1e-3), a))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)


def test_fits_of_equal_rows_do_not():
    X, rows, u = node(0, m=60, p=150)
    X[rows[1]] = X[rows[0]]
    assert wide_logistic._turned(Part(X, rows)) is None
    b, _steps = wide_logistic.fit_logistic(Part(X, rows), u, None, np.zeros(150), 0.0, 0.0, 1e-3, 1e-8, 100)
    assert np.isfinite(b)


def soft_leaves(n_features, n_outputs, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(260, n_features)) * rng.uniform(0.3, 3.0, n_features) + 2.0
    rows = np.sort(rng.permutation(260)[:200]).astype(np.int32)
    W = rng.uniform(size=(200, 4)) ** 6
    W[:100, 2], W[:, 3] = 0.0, 0.0
    return X, rows, W, rng.normal(size=(4, n_outputs)), 0.1 * rng.normal(size=(4, n_outputs, n_features))


@pytest.mark.parametrize(
    ("shape", "l1", "l2"),
    [((80, 1), 0.0, 0.1), ((80, 3), 0.0, 0.0), ((80, 2), 1.0, 0.1), ((20, 12), 0.0, 0.1), ((230, 2), 0.0, 0.3)],
)
def test_leaves_of_a_smooth_tree_are_those_of_the_kernel(shape, l1, l2):
    X, rows, W, values, coefs = soft_leaves(*shape)
    data = records.Rows(X, np.random.default_rng(1).normal(size=(260, shape[1])), W)
    expected, expected_coefs = values.copy(), coefs.copy()
    norm = subtree.fit_leaves(data, rows, records.Net(l1, l2), 1e-9, expected, expected_coefs)
    assert wide_soft.fit_leaves(data, rows, records.Net(l1, l2), 1e-9, values, coefs, softmax=False) == pytest.approx(
        norm
    )
    np.testing.assert_allclose(coefs, expected_coefs, atol=1e-6 if l1 == 0.0 else 1e-3)
    np.testing.assert_allclose(values, expected, atol=1e-5 if l1 == 0.0 else 1e-2)


def test_leaves_of_classes_are_those_of_the_kernel():
    X, rows, W, values, coefs = soft_leaves(80, 3)
    data, net = (
        records.Rows(X, np.random.default_rng(1).integers(0, 3, (260, 1)).astype(float), W),
        records.Net(0.0, 0.1),
    )
    expected, expected_coefs = values.copy(), coefs.copy()
    norm = subtree.fit_softmax_leaves(data, rows, net, 1e-9, expected, expected_coefs)
    assert wide_soft.fit_leaves(data, rows, net, 1e-9, values, coefs, softmax=True) == pytest.approx(norm)
    for leaf in range(3):
        shares = [
            softmax(X[rows] @ c[leaf].T + v[leaf], axis=1) for v, c in ((values, coefs), (expected, expected_coefs))
        ]
        np.testing.assert_allclose(*shares, atol=2e-2)


def test_leaves_of_more_features_than_rows_meet_the_rows_that_count():
    X, rows, W, values, coefs = soft_leaves(400, 2)
    Y = np.random.default_rng(1).normal(size=(260, 2))
    wide_soft.fit_leaves(records.Rows(X, Y, W), rows, records.Net(0.0, 0.0), 0.0, values, coefs, softmax=False)
    for leaf in range(3):
        errors = X[rows] @ coefs[leaf].T + values[leaf] - Y[rows]
        assert W[:, leaf] @ np.square(errors).sum(axis=1) < 1e-6
        assert np.abs(coefs[leaf]).max() < 2.0


def test_leaves_stay_where_the_gradient_is_small():
    X, rows, W, values, coefs = soft_leaves(80, 1)
    data, net = records.Rows(X, np.zeros((260, 1)), W), records.Net(0.0, 0.1)
    before = values.copy(), coefs.copy()
    wide_soft.fit_leaves(data, rows, net, 1e9, values, coefs, softmax=False)
    np.testing.assert_array_equal(values, before[0])
    np.testing.assert_array_equal(coefs, before[1])


def test_conjugate_gradients_take_more_features_than_rows(monkeypatch):
    monkeypatch.setattr(wide_logistic, "_turned", lambda part: None)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 700))
    u = np.where(X[:, 0] > 0.0, 1.0, -1.0) / 40
    rows, a = np.arange(40, dtype=np.int32), np.zeros(700)
    b, _steps = wide_logistic.fit_logistic(Part(X, rows), u, None, a, 0.0, 0.0, 0.01, 1e-6, 50)
    g = Part(X, rows).sums(wide_logistic._derivatives(u, X @ a - b)[0])
    assert np.abs(g[:-1] + 0.02 * a).max() < 1e-5
    assert abs(g[-1]) < 1e-5


def test_softmax_leaves_that_are_late_are_the_shares_of_the_classes(monkeypatch):
    X, rows, _u = node(0)
    label = np.random.default_rng(0).integers(0, 5, 300).astype(float)
    steps = []
    fit = wide.fit_logistic
    monkeypatch.setattr(wide, "fit_logistic", lambda *settings: (steps.append(1), fit(*settings))[1])
    value, coef = np.zeros(5), np.zeros((5, X.shape[1]))
    wide.fit_softmax(X, rows, np.full(300, 1 / 300), label, 0.01, 0.0, value, coef, -np.inf)
    assert not steps
    assert not coef.any()
    np.testing.assert_allclose(softmax(value), np.bincount(label.astype(int)) / 300)
    value[:], coef[:, 0] = 0.0, 1.0  # begun: it stays
    wide.fit_softmax(X, rows, np.full(300, 1 / 300), label, 0.01, 0.0, value, coef, -np.inf)
    np.testing.assert_allclose(coef[:, 0], 1.0)


def test_a_fit_that_is_late_stays_where_it_is():
    X, rows, u = node(0)
    a = np.zeros(X.shape[1])
    _b, steps = wide_logistic.fit_logistic(Part(X, rows), u, None, a, 0.0, 0.01, 0.0, 1e-7, 100, lambda: True)
    assert steps == 0
    assert not a.any()


@pytest.mark.parametrize("seed", range(4))
def test_quadratic_programs_have_the_minimiser_of_the_faces(seed):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(200, 120)) @ np.diag(rng.uniform(0.1, 3.0, 120))
    B[:, 1] = B[:, 0] + 0.01 * rng.normal(size=200)
    H, C = B.T @ B / 200 + 1e-9 * np.eye(120), rng.normal(size=(3, 120))
    V = np.zeros((3, 120))
    minimise(H, C, 0.7, V)
    for c, v in zip(C, V, strict=True):
        other = np.zeros(120)
        minimise_quadratic(H, c, 0.7, 119, other)
        value = [c @ x + 0.5 * x @ H @ x + 0.7 * np.abs(x[:-1]).sum() for x in (v, other)]
        assert value[0] <= value[1] + 1e-6 * abs(value[1])


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.3), (0.0, 0.0), (0.4, 0.0), (0.4, 0.1)])
@pytest.mark.parametrize(("m", "p", "n_outputs"), [(200, 70, 1), (60, 12, 20), (50, 90, 2)])
def test_leaves_have_the_minimiser_of_the_kernel(l1, l2, m, p, n_outputs, monkeypatch):
    rng = np.random.default_rng(m + p)
    X = rng.normal(size=(m + 9, p)) + rng.normal(size=p)
    X[:, 1] = 3.0  # constant
    X[:, 5] = X[:, 4]
    Y = X @ rng.normal(size=(p, n_outputs)) + rng.normal(size=(m + 9, n_outputs))
    rows, h = np.sort(rng.permutation(m + 9)[:m]).astype(np.int32), rng.uniform(0.5, 2.0, m)

    def value_of(value, coef):
        loss = np.sum(h[:, None] * (Y[rows] - X[rows] @ coef.T - value) ** 2)
        return loss + l1 * np.abs(coef).sum() + l2 * np.sum(coef**2)

    found = []
    for limit in (None, 1500, 10):  # the kernel, one Gram matrix, working sets
        value, coef = np.zeros(n_outputs), np.zeros((n_outputs, p))
        if limit is None:
            narrow.fit_linear(X, rows, h, Y[rows], l1, l2, value, coef)
        else:
            monkeypatch.setattr(wide, "LARGEST_GRAM", limit)
            wide.fit_linear(X, rows, h, Y[rows], l1, l2, value, coef)
        found.append((value_of(value, coef), value, coef))
    scale = value_of(np.average(Y[rows], axis=0, weights=h), np.zeros((n_outputs, p)))
    for other in found[1:]:
        assert abs(other[0] - found[0][0]) < 2e-6 * scale
        if l1 == 0.0:
            np.testing.assert_allclose(other[2], found[0][2], atol=1e-3 if m < p and not l2 else 1e-6)


def test_softmax_leaves_have_the_loss_of_the_kernel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 80))
    label = np.argmax(X[:, :4] + rng.normal(size=(300, 4)), axis=1).astype(float)
    rows, h = np.arange(300, dtype=np.int32), np.full(300, 1.0 / 300)
    value, coef = np.zeros((2, 4)), np.zeros((2, 4, 80))
    wide.fit_softmax(X, rows, h, label, 0.0, 1e-3, value[0], coef[0])
    group = records.Group(rows, np.array([0, 300]))
    rule = records.Rows(X, label[:, None], h), group, records.Net(0.0, 1e-3), 1, value[1:], coef[1:]
    narrow.fit_linear_leaves(narrow.softmaxes_range, *rule)
    loss = []
    for v, c in zip(value, coef, strict=True):
        score = X @ c.T + v
        own = score[np.arange(300), label.astype(int)]
        loss.append(np.mean(np.log(np.exp(score).sum(axis=1)) - own) + 1e-3 * np.sum(c**2))
    assert loss[0] == pytest.approx(loss[1], rel=1e-3)


@pytest.mark.parametrize("made", [np.asarray, csr_array])
@pytest.mark.parametrize("loss", ["zero_one", "log"])
def test_softmax_leaves_of_one_class_are_sure(loss, made, rng):
    stated = {"depth": 1, "leaves": "linear", "loss": loss, "penalties": L1(leaves=1e-3)}
    problem = TreeProblem(made(rng.normal(size=(300, 70))), ["a"] * 300, **stated)
    assert problem.objective(problem.one_leaf()) == 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("penalties", [(), L2(leaves=0.01)])
@pytest.mark.parametrize("scale", [1.0, 1e8, 1e145])
def test_softmax_leaves_of_sparse_columns_of_any_size_say_nothing(scale, penalties, rng):
    X = rng.normal(size=(13, 2)) * (rng.uniform(size=(13, 2)) < 0.7) * [1.0, scale]
    stated = {"depth": 0, "leaves": "linear", "loss": "log", "penalties": penalties}
    problem = TreeProblem(csr_array(X), rng.integers(3, size=13), **stated)
    assert problem.objective(problem.one_leaf()) <= problem.objective(problem.best_constant()) + 1e-6


@pytest.mark.filterwarnings("error")
def test_steps_without_curvature_are_not_taken():
    x = np.where(np.arange(18) % 3, 0.0, -1e5)
    u = np.where(np.arange(18) % 2, 1.0, -1.0) / 18.0
    a = np.ones(1)  # a start from which all rows are far from the hyperplane
    part = SparsePart(csr_array(x[:, None]), np.arange(18))
    b, _steps = wide_logistic.fit_logistic(part, u, None, a, -50_000.0, 0.0, 0.0, 0.01, 2)
    assert np.isfinite([b, *a]).all()


@pytest.mark.parametrize("loss", ["squared", "absolute", "zero_one", "log"])
def test_answers_and_losses_by_products_are_those_of_the_rows(loss, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 9))
    Y = rng.normal(size=(200, 3)) if loss in ("squared", "absolute") else rng.integers(0, 3, 200)
    problem = TreeProblem(X, Y, depth=2, leaves="linear", loss=loss)
    A, b = rng.normal(size=(3, 9)), rng.normal(size=3)
    tree = problem.fit_leaves(Tree.complete(A, b, 3, problem.classes))
    leaf = tree.apply(X)
    assert tree.linear_leaves
    expected = row_outputs.outputs(X, leaf, tree.leaf_arrays), problem.row_losses(tree)
    monkeypatch.setattr(wide, "WORK", 1)
    assert wide.by_products(X, tree.leaf_arrays)
    np.testing.assert_allclose(wide.outputs_at(X, leaf, tree.leaf_arrays), expected[0], atol=1e-12)
    np.testing.assert_allclose(problem.row_losses(tree), expected[1], atol=1e-12)
    if loss in ("squared", "absolute"):
        bounded = problem.bound_leaves(tree)
        np.testing.assert_allclose(bounded.lower, tree.lower, atol=1e-12)
        np.testing.assert_allclose(bounded.upper, tree.upper, atol=1e-12)


def test_a_pass_by_products_is_a_pass_by_rows(monkeypatch):
    from solvers import TAO, solve

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12))
    Y = np.tanh(X @ rng.normal(size=(12, 3)))
    problem = TreeProblem(X, Y, depth=2, leaves="linear", penalties=(L1(1e-4),))
    found = [solve(problem, TAO(max_iter=4), random_state=0).objective]
    monkeypatch.setattr(wide, "WORK", 1)
    found.append(solve(problem, TAO(max_iter=4), random_state=0).objective)
    assert found[1] == pytest.approx(found[0], rel=1e-6)


def test_columns_of_very_different_size_leave_leaves_finite():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 90)) * 10.0 ** rng.integers(-60, 60, 90)
    Y, h = rng.normal(size=(40, 2)), np.ones(40)
    for l2 in (0.0, 1e-3, 10.0):
        value, coef = np.zeros(2), np.zeros((2, 90))
        wide.fit_linear(X, np.arange(40, dtype=np.int32), h, Y, 0.0, l2, value, coef)
        assert np.isfinite(coef).all()
        assert np.sum((Y - X @ coef.T - value) ** 2) <= 1.001 * np.sum((Y - Y.mean(axis=0)) ** 2)


def test_rows_far_from_the_hyperplane_leave_weights_finite():
    X, rows, u = node(0)
    for l1, l2 in ((0.01, 0.0), (0.0, 0.01), (0.0, 0.0)):
        a = 1e5 * np.random.default_rng(1).normal(size=X.shape[1])
        b, _steps = wide_logistic.fit_logistic(Part(X, rows), u, None, a, 0.0, l1, l2, 1e-2, 5)
        assert np.isfinite(a).all()
        assert np.isfinite(b)


@pytest.mark.parametrize(("n", "p", "n_outputs"), [(50, 3000, 1), (400, 1000, 50)])
def test_a_limit_holds_on_wide_tables(n, p, n_outputs):
    from solvers import TAO, solve

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    Y = np.tanh(X[:, :10] @ rng.normal(size=(10, n_outputs))) + rng.normal(size=(n, n_outputs))
    problem = TreeProblem(X, Y, depth=5, leaves="linear", penalties=(L1(1e-3),))
    solver = TAO(max_iter=10_000, tol=0.0, patience=10_000)
    result = ends_in_time(lambda: solve(problem, solver, time_limit=0.3, random_state=0), 2.0)
    assert np.isfinite(result.objective)


def test_softmax_of_many_features_hears_the_time_limit(rng):
    """A first round that is cut short is no worse than the classes' shares."""
    X = rng.normal(size=(300, 80))
    y = rng.integers(0, 6, 300)
    y[:200] = 0
    for end in (0.0, now() + 0.02):
        value, coef = np.zeros(6), np.zeros((6, 80))
        rows, mass = np.arange(300, dtype=np.int32), np.full(300, 1.0)
        wide.fit_softmax(X, rows, mass, y.astype(float), 0.0, 0.01, value, coef, end)
        scores = value + X @ coef.T
        shares = np.bincount(y, minlength=6) / 300
        loss = logsumexp(scores, axis=1) - scores[np.arange(300), y]
        assert loss.mean() <= -np.log(shares[y]).mean() + 1e-9


@pytest.mark.parametrize("l2", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize(("n", "p"), [(120, 200), (600, 80)])
def test_softmax_scores_of_several_classes_are_the_minimiser(n, p, l2):
    """Also of fewer rows than features, of features of any size, with weights and a class without rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p)) * 10.0 ** rng.uniform(-2, 2, p)
    X[:, 4] = 3.0
    label, h = rng.integers(0, 4, n), rng.uniform(0.5, 1.5, n) / n
    label[label == 2] = 3
    value, coef = np.zeros(5), np.zeros((5, p))
    value[2] = value[4] = -2.0
    rows = np.arange(n, dtype=np.int32)
    losses = []
    for start in (1.0, 0.5):  # the second fit begins beside the optimum, out of the span of the rows
        value *= start
        coef += (1.0 - start) * rng.normal(size=(5, p)) / p * np.array([1, 1, 0, 1, 0])[:, None]
        value[[2, 4]] = -2.0
        wide.fit_softmax(X, rows, h, label.astype(float), 0.0, l2, value, coef)
        score = X @ coef.T + value
        chance = softmax(score, axis=1)
        losses.append(h @ (logsumexp(score, axis=1) - score[rows, label]) + l2 * np.sum(coef**2))
        slope = (h[:, None] * (chance - np.eye(5)[label])).T @ X + 2.0 * l2 * coef
        size = np.sqrt(0.25 * h @ X**2 + 2.0 * l2)
        assert np.abs(slope / size)[[0, 1, 3]].max() < 3e-4  # .025 where one class was fitted after the other
        assert not coef[[2, 4]].any()
    assert losses[1] == pytest.approx(losses[0], rel=1e-3, abs=1e-5)
