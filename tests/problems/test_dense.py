"""The dense form: entmax, gradients against autograd, trees there and back."""

from dataclasses import replace

import numpy as np
import pytest

from opttree import DenseTreeProblem, TreeProblem
from opttree.kernels.dense import walk as dense
from solvers import CartInit, solve
from tests.conftest import classification_problem, regression_problem


def entmax_by_sorting(z):
    """Algorithm 2 of Peters, Niculae and Martins (ACL 2019)."""
    z = np.asarray(z, float) / 2
    ordered = np.sort(z)[::-1]
    k = np.arange(1, len(z) + 1)
    mean, square = np.cumsum(ordered) / k, np.cumsum(ordered**2) / k
    tau = mean - np.sqrt(np.maximum((1 - k * (square - mean**2)) / k, 0.0))
    return np.maximum(z - tau[np.sum(tau <= ordered) - 1], 0.0) ** 2


@pytest.mark.parametrize("p", [1, 2, 7, 60])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_entmax_is_its_definition(p, scale):
    rng = np.random.default_rng(p)
    for _ in range(50):
        z = scale * rng.normal(size=p) + 5.0
        out = np.empty(p)
        dense.entmax(z, out)
        assert out.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(out, entmax_by_sorting(z), atol=1e-12)


def test_entmax_of_equal_numbers_is_uniform():
    out = np.empty(4)
    dense.entmax(np.full(4, -2.0), out)
    np.testing.assert_allclose(out, 0.25, atol=1e-15)


def statement(loss, depth, n=150, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, p)), rng.uniform(0.5, 2.0, n)
    y = rng.normal(size=(n, 2)) if loss == "squared" else rng.integers(0, 3, n)
    return TreeProblem(X, y, depth=depth, splits="axis", loss=loss, sample_weight=w)


def autograd(problem, form, theta, temperature, noise):
    """Loss and gradient of algorithm 1, dense, in PyTorch."""
    torch = pytest.importorskip("torch")

    def entmax(z):
        z = z / 2
        ordered, _ = z.sort(-1, descending=True)
        k = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
        mean, square = ordered.cumsum(-1) / k, (ordered**2).cumsum(-1) / k
        tau = mean - ((1 - k * (square - mean**2)) / k).clamp(min=0).sqrt()
        tau = tau.gather(-1, (tau <= ordered).sum(-1, keepdim=True) - 1)
        return (z - tau).clamp(min=0) ** 2

    X, w = torch.tensor(problem.X), torch.tensor(problem.w)
    B, p, K = 2**problem.depth - 1, problem.n_features, problem.n_outputs
    leaf_theta = torch.tensor(theta, requires_grad=True)
    logits, T, L = torch.split(leaf_theta, [B * p, B * p, (B + 1) * K])
    logits, T, L = logits.reshape(B, p), T.reshape(B, p), L.reshape(B + 1, K)
    logits = (logits + torch.tensor(noise)) / temperature
    P = torch.softmax(logits, -1) if form.index == "gumbel" else entmax(logits)
    if form.index != "soft":
        P = P + (torch.nn.functional.one_hot(logits.argmax(-1), p) - P).detach()
    s = torch.sigmoid((T * P).sum(-1) - X @ P.T)
    s = s + (s.round() - s).detach()
    shares = torch.ones(len(X), 1, dtype=X.dtype)
    for level in range(problem.depth):
        here = s[:, 2**level - 1 : 2 ** (level + 1) - 1]
        shares = torch.stack([shares * here, shares * (1 - here)], dim=2).reshape(len(X), -1)
    f = shares @ L
    if problem.loss == "squared":
        rows = (f - torch.tensor(problem.Y)).square().sum(1)
    else:
        q = torch.softmax(f, 1)[torch.arange(len(X)), torch.tensor(problem.Y[:, 0]).long()]
        rows = -((1 - q) ** form.gamma) * torch.log(q) + form.epsilon * (1 - q)
    loss = (w * rows).sum()
    loss.backward()
    return loss.item(), leaf_theta.grad.numpy()


@pytest.mark.parametrize("loss", ["zero_one", "squared"])
@pytest.mark.parametrize("depth", [1, 3, 6])
@pytest.mark.parametrize(
    ("gamma", "epsilon", "index", "temperature"),
    [(0, 0, "entmax", 1), (3, 2, "entmax", 1), (0.5, 0, "entmax", 0.7), (0, 5, "soft", 0.4), (1, 0, "gumbel", 1)],
)
def test_gradients_are_those_of_autograd(loss, depth, gamma, epsilon, index, temperature):
    problem = statement(loss, depth)
    form = DenseTreeProblem(problem, gamma, epsilon, index, "float64")
    theta = 3.0 * form.random_theta(np.random.default_rng(1))
    size = form.n_branches * problem.n_features
    noise = np.zeros((form.n_branches, problem.n_features))
    if index == "gumbel":
        noise = np.array([dense.gumbel(7, place) for place in range(size)]).reshape(noise.shape)
    value, gradient = form.value_and_grad(theta, temperature=temperature, seed=7)
    expected, autograds = autograd(problem, form, theta, temperature, noise)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, autograds, atol=1e-10 * np.abs(autograds).max())


def test_gumbel_noise_has_its_distribution():
    noise = np.array([dense.gumbel(3, k) for k in range(20_000)])
    assert noise.mean() == pytest.approx(np.euler_gamma, abs=0.03)
    assert noise.std() == pytest.approx(np.pi / np.sqrt(6), abs=0.03)
    assert len(np.unique(noise)) == len(noise)


def test_value_is_the_loss_of_the_hard_tree():
    problem = statement("zero_one", 4).restated(loss="log")
    form = DenseTreeProblem(problem, dtype="float64")
    theta = form.random_theta(np.random.default_rng(0))
    assert form.value(theta) == pytest.approx(problem.mean_loss(form.harden(theta)))
    assert form.value(theta) == pytest.approx(form.value_and_grad(theta)[0])
    squared = DenseTreeProblem(statement("squared", 3), dtype="float64")
    theta = squared.random_theta(np.random.default_rng(0))
    assert squared.value(theta) == pytest.approx(squared.problem.mean_loss(squared.harden(theta)))


def test_a_tree_there_and_back():
    for depth, p in ((4, 4), (1, 2)):  # few features: random logits are large
        problem = classification_problem(p=max(p, 3), splits="axis", depth=depth)
        tree = solve(problem, CartInit(min_rows=20)).tree
        turned = replace(tree, A=-tree.A, b=-tree.b, children=tree.children[:, ::-1])
        form = DenseTreeProblem(problem, dtype="float64")
        for seed in range(30):
            for one in (tree, turned):
                back = problem.trim(form.harden(form.soften(one, np.random.default_rng(seed))))
                np.testing.assert_allclose(back.predict_proba(problem.X), tree.predict_proba(problem.X), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"splits": "oblique"}, "its splits are oblique"),
        ({"leaves": "linear"}, "its leaves are linear"),
        ({"loss": "absolute"}, "its loss is 'absolute'"),
        ({"depth": 0}, "its depth is 0"),
    ],
)
def test_what_has_no_dense_form_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        DenseTreeProblem(regression_problem(**({"splits": "axis"} | options)))


def test_rows_and_points_are_checked():
    form = DenseTreeProblem(statement("zero_one", 2))
    theta = form.random_theta(np.random.default_rng(0))
    some = form.value_and_grad(theta, rows=[0, 5, 9])[0]
    assert np.isfinite(some)
    for rows in ([], [10**5], [-1], np.ones(150, bool)):
        with pytest.raises(ValueError, match="rows must be numbers of rows, from 0 to 149"):
            form.value_and_grad(theta, rows=rows)
    with pytest.raises(ValueError, match="temperature must be finite and > 0; got 0"):
        form.value_and_grad(theta, temperature=0)
    with pytest.raises(ValueError, match="theta must be finite; got nan"):
        form.value(np.full(form.size, np.nan))
    with pytest.raises(ValueError, match="theta must have shape"):
        form.value(theta[1:])
