"""Working sets of the smooth problem."""

import numpy as np
import pytest

from opttree import SmoothTreeProblem, SubtreeProblem
from opttree.problems.smooth.problem import path_products
from solvers import CartInit, solve
from tests.statements import smooth_problem


@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("n_outputs", [1, 2, "classes"])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("node", range(7))
def test_the_exact_form_is_the_whole_objective_up_to_a_constant(node, alone, n_outputs, leaves):
    smooth = smooth_problem(alpha=2.0, n_outputs=n_outputs, leaves=leaves)
    rng = np.random.default_rng(1)
    theta = rng.normal(size=smooth.size)
    part = SubtreeProblem(smooth, theta, node, alone=alone)
    point = part.start + 0.3 * rng.normal(size=part.start.size)
    moved = part.insert(point)
    change = part.value_and_grad(point)[0] - part.value_and_grad(part.start)[0]
    assert change == pytest.approx(smooth.value(moved) - smooth.value(theta), rel=1e-10, abs=1e-12)
    A, b, _values, _coefs = smooth.unpack(smooth.value_and_grad(moved)[1])
    expected = np.concatenate([A[part.branches].ravel(), b[part.branches]])
    np.testing.assert_allclose(part.value_and_grad(point)[1], expected, atol=1e-12)
    assert smooth.harden(moved).values == pytest.approx(smooth.harden(theta).values)


@pytest.mark.parametrize("node", [1, 2, 5])
def test_the_proxy_holds_the_rows_whose_path_passes_the_node(node):
    smooth = smooth_problem(alpha=3.0)
    theta = np.random.default_rng(2).normal(size=smooth.size)
    part = SubtreeProblem(smooth, theta, node, exact=False)
    passes = smooth.harden(theta).decision_path(smooth.problem.X)[:, [node]].toarray()[:, 0] > 0
    assert np.array_equal(np.flatnonzero(passes), part.rows)
    np.testing.assert_allclose(part.weights, smooth.problem.w[passes])
    tree = smooth.harden(theta).subtree(node)
    own = SmoothTreeProblem(smooth.problem.restrict(part.rows, tree.depth), alpha=3.0)
    value = part.value_and_grad(part.start)[0]
    leaf_part = 1e-3 * np.sum(np.square(tree.coefs))
    assert value == pytest.approx(part.share * own.value(own.soften(tree)) - leaf_part, rel=1e-9)
    rows = np.sum(path_products(part.left_probabilities) * part.losses, axis=1)
    np.testing.assert_allclose(part.row_losses, rows)


def test_proxy_and_exact_form_agree_at_the_root_and_under_steep_gates():
    for alpha, nodes in ((1.0, [0]), (1e7, range(7))):
        smooth = smooth_problem(alpha=alpha)
        theta = smooth.soften(solve(smooth.problem, CartInit(), random_state=0).tree, np.random.default_rng(0))
        for node in nodes:
            exact, proxy = (SubtreeProblem(smooth, theta, node, exact=e) for e in (True, False))
            assert proxy.rows.size > 0
            assert exact.value_and_grad(exact.start)[0] == pytest.approx(proxy.value_and_grad(proxy.start)[0], rel=1e-9)


def test_a_working_set_is_refused_with_a_reason():
    smooth = smooth_problem()
    theta = np.zeros(smooth.size)
    with pytest.raises(ValueError, match=r"node must be a branch node, 0\.\.6; got 7"):
        SubtreeProblem(smooth, theta, 7)
    mixture = SmoothTreeProblem(smooth.problem, aggregation="mixture")
    with pytest.raises(ValueError, match="aggregation is 'mixture'"):
        SubtreeProblem(mixture, theta)
    with pytest.raises(ValueError, match="point must have the shape of start"):
        SubtreeProblem(smooth, theta).value_and_grad(np.zeros(3))
