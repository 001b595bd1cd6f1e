"""GradTree: entmax, straight-through gradients against autograd, trees there and back, training, the estimators."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from opttree import DenseTreeProblem, GradTreeClassifier, GradTreeRegressor, TreeProblem
from opttree.kernels.dense import walk as dense
from opttree.tables.preprocessing import rebalanced
from solvers import TAO, AxisNode, CartInit, Chain, GradTree, LocalSearch, solve
from tests.conftest import classification_problem, regression_problem

FAST = GradTree(epochs=60, n_starts=2)


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
    problem = replace(statement("zero_one", 4), loss="log")
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


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learning_rates": (0.1, 0.1)}, "learning_rates must be three finite numbers > 1e-12"),
        ({"learning_rates": 0.1}, r"learning_rates must be three finite numbers > 1e-12; got 0\.1"),
        ({"epochs": 0}, "epochs must be an integer >= 1; got 0"),
        ({"validation": 1.0}, r"validation must be a finite number between 0 and 1, a TreeProblem or None; got 1\.0"),
        ({"index": "argmax"}, "index must be one of"),
        ({"gamma": -1.0}, "gamma must be a finite number >= 0; got -1.0"),
        ({"epsilon": None}, "epsilon must be a finite number >= 0; got None"),
        ({"temperatures": (1.0, 0.0)}, "temperatures must be two finite numbers > 1e-12"),
    ],
)
def test_bad_options_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        GradTree(**options)


def test_it_finds_a_tree_where_greedy_splits_fail():
    """XOR of two features among six: no first split tells anything."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    problem = TreeProblem(X, (X[:, 2] > 0) ^ (X[:, 4] > 0), depth=2, splits="axis", loss="zero_one")
    greedy = solve(problem, CartInit()).objective
    found = solve(problem, GradTree(epochs=400, learning_rates=(0.02, 0.05, 0.05), n_starts=6), random_state=0)
    assert found.objective < 0.1 < greedy


def test_a_start_is_improved():
    problem = classification_problem(400, splits="axis", depth=4, penalties=())
    start = solve(problem, CartInit(min_rows=60)).tree
    result = solve(problem, GradTree(epochs=150, n_starts=1, validation=None), start=start, random_state=0)
    assert result.trace.rows[0].objective == problem.objective(start)
    assert result.objective < 0.95 * problem.objective(start)
    at_once = solve(problem, FAST, start=start, time_limit=1e-6, random_state=0)
    assert at_once.objective <= problem.objective(start)


def test_tao_and_local_search_go_on_from_its_tree():
    problem = classification_problem(400, splits="axis", depth=4, penalties=())
    alone = solve(problem, FAST, random_state=0).objective
    for link in (TAO(node_solver=AxisNode(), accept="improve"), LocalSearch(n_starts=1)):
        assert solve(problem, Chain(FAST, link), random_state=0).objective < 0.95 * alone


@pytest.mark.parametrize("solver", [replace(FAST, index="gumbel"), GradTree.annealed(epochs=60, n_starts=1)])
def test_the_rivals_of_the_ablation_run(solver):
    problem = classification_problem(300, splits="axis")
    result = solve(problem, solver, random_state=0)
    assert result.objective < 0.9 * result.trace.rows[0].objective


def test_starts_and_epochs_are_chosen_on_held_out_rows():
    X, y = load_breast_cancer(return_X_y=True)
    model = GradTreeClassifier(4, epochs=100, n_starts=2, random_state=0).fit(X, y)
    losses = [row.info["validation"] for row in model.result_.trace if "validation" in row.info]
    assert model.validation_loss_ == min(losses)
    assert model.result_.objective == pytest.approx(1 - model.score(X, y))
    assert model.tree_.is_axis_aligned
    assert not model.tree_.linear_leaves


def test_it_learns_on_held_out_rows():
    X, y = make_classification(2000, 12, n_informative=6, random_state=0)
    train, test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = GradTreeClassifier(6, epochs=300, n_starts=2, random_state=0).fit(train, y_train)
    assert f1_score(y_test, model.predict(test), average="macro") > 0.8
    rng = np.random.default_rng(0)
    y = np.where(X[:, 0] > 0, 2.0, -1.0) + np.where(X[:, 1] > 0.5, 1.0, 0.0) + 0.1 * rng.normal(size=len(y))
    assert GradTreeRegressor(3, epochs=300, n_starts=2, random_state=0).fit(X, y).score(X, y) > 0.9


def test_leaves_of_many_rows():
    problem = classification_problem(300, splits="axis", depth=4, min_leaf=20, penalties=())
    start = solve(problem, CartInit()).tree
    assert problem.violation(solve(problem, FAST, start=start, random_state=0).tree) is None
    X, y = load_breast_cancer(return_X_y=True)
    fast = {"epochs": 5, "n_starts": 1, "random_state": 0, "min_samples_leaf": 15}
    model = GradTreeClassifier("cv", cv=0.3, **fast).fit(X, y)
    assert model.tree_.n_leaves > 1
    assert np.bincount(model.apply(X))[model.tree_.n_branches :].min() >= 15
    again = GradTreeClassifier(model.get_depth(), init=model.tree_, **fast).fit(X, y)
    assert again.score(X, y) > 0.8
    assert np.bincount(again.apply(X))[again.tree_.n_branches :].min() >= 15


@pytest.mark.parametrize("weights", ["falling", "one rules"])
def test_weights_that_differ_by_more_than_float32_holds(weights):
    problem = classification_problem(300, splits="axis", penalties=())
    w = 0.8 ** np.arange(300) if weights == "falling" else np.where(np.arange(300) == 7, 1e50, 1.0)
    weighted = TreeProblem(problem.X, problem.y, depth=3, splits="axis", loss="zero_one", sample_weight=w)
    result = solve(weighted, GradTree(epochs=20, n_starts=2, batch_size=16), random_state=0)
    assert result.termination.name == "ITERATION_LIMIT"
    assert {row.phase for row in result.trace} == {"constant", "start 1", "start 2"}
    assert result.objective < result.trace.rows[0].objective <= 0.5


def test_numbers_too_large_for_the_type_are_refused_or_end_the_run():
    problem = classification_problem(100, splits="axis", penalties=())
    large = TreeProblem(problem.X * 1e39, problem.y, depth=2, splits="axis", loss="zero_one")
    with pytest.raises(ValueError, match=r"its X holds numbers of up to .*e\+39 in size, and this solver takes"):
        solve(large, FAST, random_state=0)
    wild = solve(problem, GradTree(epochs=20, learning_rates=(1e38, 1e38, 1e38)), random_state=0)
    assert wild.termination.name == "NUMERICAL_ERROR"
    assert "lower learning rates" in wild.message


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


def test_a_time_limit_is_kept_with_few_rows_and_many_parameters():
    rng = np.random.default_rng(0)
    problem = TreeProblem(rng.normal(size=(40, 300)), rng.integers(0, 2, 40), depth=10, splits="axis", loss="zero_one")
    solve(problem, GradTree(epochs=1), random_state=0)  # compile
    seconds = [solve(problem, GradTree(), time_limit=0.2, random_state=0).seconds for _ in range(3)]
    assert min(seconds) < 1.5  # this machine may be busy: the best of three counts


def test_class_weights_count_once():
    X, y = make_classification(300, 6, weights=[0.8], random_state=0)
    weight = np.where(y == 1, 5.0, 1.0)
    fast = {"epochs": 40, "n_starts": 1, "random_state": 0}
    for depth in (3, "cv"):
        by_class = GradTreeClassifier(depth, class_weight={0: 1.0, 1: 5.0}, cv=0.3, **fast).fit(X, y)
        problem, _scaling = by_class.state(X, y)
        assert problem.w[y == 1][0] == pytest.approx(5 * problem.w[y == 0][0])
    direct = GradTreeClassifier(3, **fast).fit(X, y, sample_weight=weight)
    by_class = GradTreeClassifier(3, class_weight={0: 1.0, 1: 5.0}, **fast).fit(X, y)
    assert direct.tree_ == by_class.tree_
    assert np.mean(direct.predict(X) == 1) > np.mean(GradTreeClassifier(3, **fast).fit(X, y).predict(X) == 1)


def test_labels_weights_and_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    fast = {"epochs": 60, "n_starts": 1, "random_state": 0}
    model = GradTreeClassifier(3, **fast).fit(X, names)
    assert set(model.predict(X)) == set(names)
    assert model.score(X, names) > 0.7
    assert GradTreeClassifier(3, class_weight="balanced", **fast).fit(X, y).score(X, y) > 0.8
    one = GradTreeClassifier(3, **fast).fit(X[:20], y[:20])
    assert one.get_n_leaves() == 1
    two = GradTreeClassifier(3, **fast).fit(X[48:52], y[48:52])  # two rows of each class
    assert two.score(X[48:52], y[48:52]) > 0.5
    with pytest.raises(ValueError, match="class_weight"):
        GradTreeClassifier(3, class_weight="heavy", **fast).fit(X, y)


def test_the_same_seed_gives_the_same_tree_on_any_number_of_threads():
    X, y = load_breast_cancer(return_X_y=True)
    models = [GradTreeClassifier(4, epochs=40, random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)]
    assert models[0].tree_ == models[1].tree_


def test_starting_from_cart_is_no_worse_on_the_rows_that_judge():
    problem = classification_problem(n=400, splits="axis")
    fast = replace(FAST, validation=None, refit=True)
    cart = solve(problem, CartInit()).objective
    assert solve(problem, replace(fast, init=CartInit()), random_state=0).objective <= cart + 0.02
    X, y = load_iris(return_X_y=True)
    options = {"epochs": 60, "n_starts": 1, "random_state": 0}
    model = GradTreeClassifier(3, init="cart", **options).fit(X, y)
    assert model.score(X, y) > 0.9
    assert GradTreeClassifier(3, **options).fit(X, y).tree_ == model.tree_  # the default for classes
    assert GradTreeClassifier(3, init="random", **options).fit(X, y).tree_ != model.tree_
    numbers = [GradTreeRegressor(3, init=init, **options).fit(X, y).tree_ for init in (None, "random", "cart")]
    assert numbers[0] == numbers[1] != numbers[2]
    with pytest.raises(ValueError, match=r"init must be a Tree, one of \['cart', 'random'\] or None; got 'oak'"):
        GradTreeClassifier(init="oak").fit(X, y)


def test_rebalancing_leaves_the_held_out_rows_as_they_are(monkeypatch):
    pytest.importorskip("imblearn")
    X, y = make_classification(400, 6, weights=[0.9], random_state=0)
    seen = {}

    def watched(rows, labels, seed):
        seen["before"] = len(labels)
        seen["X"], seen["y"] = rebalanced(rows, labels, seed)
        return seen["X"], seen["y"]

    monkeypatch.setattr("opttree.estimators.gradtree.rebalanced", watched)
    model = GradTreeClassifier(3, epochs=60, n_starts=1, init="random", rebalance=True, random_state=0)
    model.fit(X, y)
    assert seen["before"] == 320
    assert np.ptp(np.unique(seen["y"], return_counts=True)[1]) == 0
    assert model.result_.trace.rows[0].objective == pytest.approx(0.5)  # the constant, on the rebalanced rows
    assert f1_score(y, model.predict(X), average="macro") > 0.7
    with pytest.raises(ValueError, match=r"rebalance.* needs rows and classes of one weight"):
        GradTreeClassifier(3, rebalance=True, class_weight="balanced").fit(X, y)


def test_quantiles_inside_split_raw_features():
    rng = np.random.default_rng(0)
    X = np.exp(3.0 * rng.normal(size=(300, 3)))  # long tails
    y = ((X[:, 0] > 1.0) ^ (X[:, 1] > 0.2)).astype(int)
    options = {"epochs": 150, "n_starts": 2, "random_state": 0}
    plain = GradTreeClassifier(3, **options).fit(X, y)
    inside = GradTreeClassifier(3, quantile_transform=True, **options).fit(X, y)
    assert inside.score(X, y) > max(0.9, plain.score(X, y))
    rows = inside.result_.tree
    problem, scaling = inside.state(X, y)
    raw = scaling.unscale(rows)
    assert np.array_equal(raw.apply(X), rows.apply(problem.X))  # the same rows at every leaf
    assert np.array_equal(scaling.scale(raw).apply(problem.X), rows.apply(problem.X))
    mirrored = replace(rows, A=-rows.A, b=-rows.b)
    assert np.array_equal(scaling.unscale(mirrored).apply(X), mirrored.apply(problem.X))
    again = GradTreeClassifier(3, quantile_transform=True, init=inside.tree_, **options).fit(X, y)
    assert again.validation_loss_ <= inside.validation_loss_ + 0.1
    number = GradTreeRegressor(3, quantile_transform=True, **options).fit(X, np.log(X[:, 0]))
    assert number.score(X, np.log(X[:, 0])) > 0.7


def test_stratified_parts_have_the_shares_of_all():
    y = np.repeat(["a", "b", "c", "d"], [100, 40, 10, 1])
    problem = TreeProblem(np.arange(151.0)[:, None], y, depth=1, splits="axis", loss="zero_one")
    train, valid = problem.split(0.2, np.random.default_rng(0), stratify=True)
    assert train.n_samples + valid.n_samples == 151
    for label, share in (("a", 20), ("b", 8), ("c", 2)):
        assert abs(int((valid.y == label).sum()) - share) <= 1
    assert "d" in train.y
    assert not np.intersect1d(train.X, valid.X).size
    one = TreeProblem(np.arange(2.0)[:, None], ["a", "b"], depth=1, loss="zero_one")
    assert one.split(0.5, np.random.default_rng(0), stratify=True)[1].n_samples == 1


def test_passes_of_tao_lower_the_objective():
    X, y = load_iris(return_X_y=True)
    options = {"epochs": 30, "n_starts": 1, "random_state": 0}
    plain = GradTreeClassifier(3, **options).fit(X, y)
    better = GradTreeClassifier(3, improve=10, **options).fit(X, y)
    assert better.result_.objective < plain.result_.objective
    assert better.tree_.is_axis_aligned


def test_a_limit_is_heard_where_steps_are_many_and_nearly_empty():
    """10,000 epochs of 50 starts on two rows were one round, of half a minute."""
    problem = TreeProblem(np.array([[0.4], [-0.5]]), np.array([0, 1]), depth=1, splits="axis", loss="log")
    solve(problem, GradTree(epochs=5), random_state=0)
    rounds = 0
    for step in GradTree(epochs=10_000, n_starts=50).steps(problem, None, np.random.default_rng(0)):
        rounds += step is None
        if rounds == 20:
            break
    assert rounds == 20  # of a few epochs each
    assert solve(problem, GradTree(epochs=10_000, n_starts=50), time_limit=0.2, random_state=0).seconds < 2.0
