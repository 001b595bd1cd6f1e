"""Sparse tables, from the estimators down: the models of their dense copies, without a dense table on the way."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse as scipy_sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

import opttree
from opttree import (
    L1,
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    Forest,
    GETRegressor,
    TAOClassifier,
    TAOForestClassifier,
    TAOForestRegressor,
    TAORegressor,
    Tree,
    TreeProblem,
)
from opttree.export import standalone
from opttree.kernels import routing
from opttree.kernels.passes.thresholds import best_axis_splits
from opttree.kernels.wide import sparse as kernels
from opttree.model.tree import replace
from opttree.statement.numbers import orders_of
from opttree.wide import sparse
from solvers import (
    GET,
    TAO,
    BranchAndBound,
    CartInit,
    ClusterInit,
    HingeInit,
    LiblinearNode,
    RandomInit,
    SklearnNode,
    solve,
)


def table(seed=0, n=300, p=30, share=0.2):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n, p)) < share, np.round(rng.normal(size=(n, p)), 1), 0.0)
    dense[:, 4] = np.abs(dense[:, 4])
    dense[:, 5] = 0.0
    y = dense[:, 0] + 2.0 * dense[:, 1] - dense[:, 2]
    return dense, y, (y > 0.1).astype(int)


def entries(n, p, count, rng):
    """A sparse table (n, p) with about so many entries at random places."""
    places = rng.integers(n, size=count), rng.integers(p, size=count)
    return scipy_sparse.csr_array((rng.random(count), places), shape=(n, p))


def words(n=400, p=20_000, seed=0):
    """A sparse table far too wide to be made dense in passing, and labels that depend on a few of its columns."""
    rng = np.random.default_rng(seed)
    X = entries(n, p, 20 * n, rng)
    label = rng.integers(3, size=n)
    extra = scipy_sparse.csr_array((np.ones(n), (np.arange(n), label * 7)), shape=(n, p))
    return scipy_sparse.csr_array(X + extra), label


def test_statistics_of_columns_are_those_of_the_dense_table():
    dense, _y, _label = table()
    X = sparse.as_rows(scipy_sparse.coo_matrix(dense))
    np.testing.assert_allclose(sparse.moments(X, np.ones(300))[1], dense.std(axis=0), atol=1e-12)
    np.testing.assert_array_equal(sparse.largest(X), np.abs(dense).max(axis=0))
    ranks = sparse.ranks(X).toarray()
    for x, rank in zip(dense.T, ranks.T, strict=True):
        values = np.unique(np.append(x, 0.0))
        np.testing.assert_array_equal(rank, np.searchsorted(values, x) - np.searchsorted(values, 0.0))
    codes = np.zeros(300, np.uint64)
    sparse.mix(codes, X)
    assert len(np.unique(codes)) == len(np.unique(dense, axis=0))


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32, np.float64])
def test_what_is_given_is_not_changed(dtype):
    numbers = np.array([1, 2, 0, 1, 0], dtype)
    for places, ends in (([2, 0, 1, 1, 0], [0, 2, 3, 5]), ([0, 2, 1, 0, 1], [0, 2, 3, 5])):  # the second in order
        X = scipy_sparse.csr_matrix((numbers, np.array(places), np.array(ends)), shape=(3, 3))
        before = X.data.copy(), X.indices.copy(), X.indptr.copy()
        TAOClassifier(1, floor=False).fit(X, [0, 1, 1])
        np.testing.assert_array_equal(sparse.as_rows(X).toarray(), X.toarray())
        for part, given in zip((X.data, X.indices, X.indptr), before, strict=True):
            np.testing.assert_array_equal(part, given)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_thresholds_are_those_of_the_dense_table(seed):
    rng = np.random.default_rng(seed)
    dense = table(seed, n=60, p=8)[0]
    order = orders_of(dense)
    slot = rng.integers(-1, 4, 60).astype(np.int32)
    settings = slot, np.where(slot >= 0, rng.normal(size=60), 0.0), 4, int(rng.integers(1, 5)), rng.choice([0.0, 0.1])
    found = kernels.best_axis_splits(sparse.sorted_columns(sparse.as_rows(scipy_sparse.csr_array(dense))), *settings)
    wanted = best_axis_splits(order, np.take_along_axis(dense.T, order, 1), *settings)
    for mine, its in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-12)


@pytest.mark.parametrize("splits", ["axis", "oblique"])
@pytest.mark.parametrize("loss", ["zero_one", "log", "squared", "absolute"])
def test_passes_find_what_they_find_in_the_dense_table(splits, loss):
    dense, y, label = table()
    target = label if loss in ("zero_one", "log") else y
    for init in (CartInit(), RandomInit()):
        found = []
        for X in (dense, scipy_sparse.csr_array(dense)):
            problem = TreeProblem(X, target, depth=3, splits=splits, loss=loss, penalties=L1(splits=1e-2), min_leaf=3)
            result = solve(problem, TAO(init=init, max_iter=6), random_state=0)
            found.append(result.objective)
            other = TreeProblem(dense, target, depth=3, splits=splits, loss=loss, penalties=L1(splits=1e-2), min_leaf=3)
            assert other.objective(result.tree) == pytest.approx(result.objective, abs=1e-9)
        assert found[1] <= found[0] * 1.1 + 5e-3


@pytest.mark.parametrize("init", [HingeInit(), CartInit(), ClusterInit()])
@pytest.mark.parametrize("loss", ["squared", "log"])
def test_linear_leaves_of_a_sparse_table(init, loss):
    dense, y, label = table()
    objectives = []
    for X in (dense, scipy_sparse.csr_array(dense)):
        stated = {"leaves": "linear", "loss": loss, "penalties": L1(splits=1e-3, leaves=1e-3)}
        problem = TreeProblem(X, label if loss == "log" else y, depth=2, **stated)
        objectives.append(solve(problem, TAO(init=init, max_iter=4), random_state=0).objective)
    assert objectives[1] <= objectives[0] * 1.1 + 1e-3


@pytest.mark.parametrize("node_solver", [SklearnNode(), LiblinearNode()])
def test_other_node_solvers_take_sparse_tables(node_solver):
    dense, _y, label = table()
    problem = TreeProblem(scipy_sparse.csr_array(dense), label, 2, loss="zero_one", penalties=L1(splits=1e-3))
    assert solve(problem, TAO(init=CartInit(), node_solver=node_solver), random_state=0).objective < 0.15


def test_solvers_that_need_a_dense_table_say_so_and_what_it_takes():
    X, label = words()
    problem = TreeProblem(X, label, depth=2, loss="zero_one")
    assert "X is sparse" in GET().refusal(problem)
    assert "400 x 20,000 numbers take 0.064 GB" in BranchAndBound().refusal(problem.restated(splits="axis"))
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        GETRegressor().fit(X, label.astype(float))


@pytest.fixture
def never_dense(monkeypatch):
    """Fail where more than a few columns of a table are made dense."""
    made = scipy_sparse.csr_array.toarray

    def small(self, *args, **options):
        assert self.shape[1] <= 2_000 or self.shape[0] * self.shape[1] < 1_000_000, f"{self.shape} is made dense"
        return made(self, *args, **options)

    monkeypatch.setattr(scipy_sparse.csr_array, "toarray", small)
    monkeypatch.setattr(scipy_sparse.csr_array, "todense", small)


MODELS = [
    TAOClassifier(random_state=0),
    TAOClassifier(3, splits="axis", random_state=0),
    TAOForestClassifier(6, random_state=0),
    TAOForestClassifier(4, kind="oblique", random_state=0),
    TAOForestClassifier(4, kind="axis", random_state=0),
    TAOForestClassifier(4, kind="extra", random_state=0),
    BoostedTreesClassifier("cart", n_estimators=14, random_state=0),
    BoostedTreesClassifier("axis", n_estimators=14, random_state=0),
    BoostedTreesClassifier("oblique", n_estimators=2, random_state=0),
]


@pytest.mark.usefixtures("never_dense")
@pytest.mark.parametrize("model", MODELS, ids=[f"{type(m).__name__}-{k}" for k, m in enumerate(MODELS)])
def test_classifiers_learn_from_many_columns(model, tmp_path):
    X, label = words(p=14_000)
    model.fit(X[:300], label[:300])
    assert model.score(X[300:], label[300:]) > 0.7
    answers = model.predict_proba(X[300:])
    inside = getattr(model, "forest_", None) or model.tree_
    np.testing.assert_allclose(
        inside.answers(X[300:]) if hasattr(inside, "answers") else inside.predict_proba(X[300:]), answers
    )
    np.testing.assert_allclose(model.predict_proba(scipy_sparse.csc_matrix(X[300:])), answers)
    np.testing.assert_allclose(model.predict_proba(X[300:305].todense()), answers[:5], atol=1e-12)
    assert model.feature_importances_.argmax() in (0, 7, 14)
    for name in ("model.npz", "model.json"):
        opttree.save(model, tmp_path / name)
        np.testing.assert_allclose(opttree.load(tmp_path / name).predict_proba(X[300:]), answers)
    assert (tmp_path / "model.npz").stat().st_size < 5_000_000


@pytest.mark.usefixtures("never_dense")
@pytest.mark.parametrize(
    "model",
    [
        TAORegressor(random_state=0),
        TAOForestRegressor(6, random_state=0),
        BoostedTreesRegressor("axis", n_estimators=15, random_state=0),
    ],
)
def test_regressors_learn_from_many_columns(model):
    X, label = words(p=14_000)
    y = label**2 + 0.1 * np.random.default_rng(0).normal(size=400)
    assert model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.8


def test_weights_of_rows_are_copies_of_rows():
    dense, _y, label = table()
    X, weight = scipy_sparse.csr_array(dense), np.random.default_rng(0).integers(0, 3, 300)
    twice = np.repeat(np.arange(300), weight)
    for splits in ("axis", "oblique"):
        one = TAOClassifier(3, splits=splits, floor=False, random_state=0).fit(X, label, sample_weight=weight)
        other = TAOClassifier(3, splits=splits, floor=False, random_state=0).fit(X[twice], label[twice])
        assert one.result_.objective == pytest.approx(other.result_.objective, abs=0.02)


def test_a_pipeline_of_texts():
    texts = [
        f"the {a} sat on the {b}" for a in ("cat", "dog", "bird") for b in ("mat", "rug", "tree") for _ in range(9)
    ]
    label = ["cat" if "cat" in text else "other" for text in texts]
    model = make_pipeline(TfidfVectorizer(), TAOClassifier(2, random_state=0)).fit(texts, label)
    assert model.score(texts, label) == 1.0
    names = model[0].get_feature_names_out()
    assert "cat" in model[1].to_text(names, most_terms=2)
    axis = make_pipeline(TfidfVectorizer(), TAOClassifier(1, splits="axis", random_state=0)).fit(texts, label)
    assert "cat <= " in axis[1].to_text(axis[0].get_feature_names_out())


def test_sparse_columns_of_a_frame_keep_their_names():
    pd = pytest.importorskip("pandas")
    dense, _y, label = table()
    frame = pd.DataFrame.sparse.from_spmatrix(scipy_sparse.csr_matrix(dense), columns=[f"w{j}" for j in range(30)])
    model = TAOClassifier(2, splits="axis", random_state=0).fit(frame, label)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert "w0 <= " in model.to_text()
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.sparse.to_dense()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X * np.nan, "X must be finite; got nan"),
        (lambda X: X * 1e200, "X must hold numbers of at most 1e\\+150"),
        (lambda X: X[:, :5], "features"),
    ],
)
def test_bad_sparse_rows_are_refused(change, words):
    dense, _y, label = table()
    X = scipy_sparse.csr_array(dense)
    model = TAOClassifier(2, random_state=0).fit(X, label)
    with pytest.raises(ValueError, match=words):
        model.predict(change(X))
    if "features" not in words:
        with pytest.raises(ValueError, match=words):
            TAOClassifier(2).fit(change(X), label)
    with pytest.raises(ValueError, match="categorical_features"):
        TAOClassifier(2, categorical_features=[0]).fit(X, label)


def test_packed_splits_route_as_dense_ones():
    rng = np.random.default_rng(0)
    X, _label = words(n=100)
    A = entries(31, 20_000, 6200, rng)
    tree = Tree.complete(A, rng.normal(size=31) * 0.1, 2)
    assert scipy_sparse.issparse(tree.split_weights)
    dense = tree.A
    np.testing.assert_array_equal(dense, A.toarray())
    wanted = routing.route(X, routing.Tree(tree.children.copy(), dense.copy(), tree.b.copy(), tree.feature.copy()))
    np.testing.assert_array_equal(tree.apply(X), wanted)
    np.testing.assert_array_equal(tree.apply(X.toarray()), wanted)
    again = Tree.from_dict(tree.to_dict())
    assert again == tree
    moved = tree.scale(np.zeros(20_000), rng.uniform(1.0, 2.0, 20_000))
    assert scipy_sparse.issparse(moved.split_weights)
    for damage in ({"columns": [-1]}, {"start": [1]}, {"columns": [20_000] * A.nnz}, {"numbers": [1.0]}):
        data = tree.to_dict()
        data["A"] |= damage
        with pytest.raises(ValueError, match="A must hold compressed rows"):
            Tree.from_dict(data)


def test_sparse_rows_arrive_in_parts(monkeypatch):
    dense, y, _label = table()
    models = []
    for X in (dense, scipy_sparse.csr_array(dense)):
        model = GETRegressor(2, random_state=0)
        models.append(model.partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:]))
    np.testing.assert_allclose(models[1].predict(dense), models[0].predict(dense))
    monkeypatch.setattr("opttree.estimators.steps.stream.MOST_NUMBERS", 100)
    with pytest.raises(ValueError, match="at most 100 numbers, zeros included; got 200 x 30"):
        GETRegressor(2).partial_fit(scipy_sparse.csr_array(dense[:200]), y[:200])


def test_leaves_of_many_outputs_are_kept_sparse(tmp_path):
    rng = np.random.default_rng(0)
    coefs = rng.normal(size=(8, 64, 784)) * (rng.random((8, 64, 784)) < 0.03)
    tree = Tree.complete(rng.normal(size=(7, 784)), np.zeros(7), 64)
    low, high = np.full((8, 64), -9.0), np.ones((8, 64))
    tree = replace(tree, values=rng.normal(size=(8, 64)), coefs=coefs, lower=low, upper=high)
    assert scipy_sparse.issparse(tree.leaf_weights)
    np.testing.assert_array_equal(tree.coefs, coefs)
    assert tree.n_parameters == np.count_nonzero(coefs) + 7 * 785 + 8 * 64
    X = rng.normal(size=(200, 784))
    leaf = tree.apply(X) - tree.n_branches
    wanted = np.clip(np.einsum("np,nkp->nk", X, coefs[leaf]) + tree.values[leaf], -9.0, 1.0)
    for rows in (X, scipy_sparse.csr_array(X)):
        np.testing.assert_allclose(tree.predict(rows), wanted, atol=1e-9)
        np.testing.assert_allclose(Forest(((tree, tree),), n_outputs=64).predict(rows), wanted, atol=1e-9)
    assert len(pickle.dumps(tree)) < 400_000
    kept = tree.keep(np.arange(8) % 2 == 0)
    np.testing.assert_array_equal(kept.coefs, coefs[::2])
    again = Tree.from_dict(tree.to_dict())
    assert again == tree
    assert scipy_sparse.issparse(again.leaf_weights)
    assert scipy_sparse.issparse(tree.scale(np.zeros(784), np.full(784, 2.0)).leaf_weights)
    for suffix in (".json", ".npz"):
        path = tmp_path / f"model{suffix}"
        opttree.save(tree, path)
        assert path.stat().st_size < 1_000_000
        assert opttree.load(path).tree == tree
    data = tree.to_dict()
    data["coefs"] |= {"columns": [784] * len(data["coefs"]["columns"])}
    with pytest.raises(ValueError, match="coefs must hold compressed rows"):
        Tree.from_dict(data)


@pytest.mark.parametrize("where", ["small", "large", "all positive"])
def test_ranks_tell_where_zero_stands(where):
    dense, _y, label = table()
    if where == "all positive":
        dense = np.abs(dense)
        dense[:, 3] = np.round(np.random.default_rng(0).random(300) * 5) + 1.0
        label = (dense[:, 3] > 3.0).astype(int)
    dense[0, 7] = -1e149 if where == "large" else 1e-8  # scikit-learn's single precision does not hold it
    objectives = [
        solve(TreeProblem(X, label, depth=3, splits="axis", loss="zero_one"), CartInit(), random_state=0).objective
        for X in (dense, scipy_sparse.csr_array(dense))
    ]
    assert objectives[1] == pytest.approx(objectives[0])


def test_starts_that_are_not_sparse_take_no_square_of_the_columns():
    rng = np.random.default_rng(0)
    X = entries(300, 30_000, 9000, rng)
    label = rng.integers(2, size=300)
    for options in ({"init": "random", "floor": False}, {"preset": "paper"}):
        model = TAOClassifier(2, max_iter=3, random_state=0, **options).fit(X, label)
        assert model.result_.n_steps >= 1
        assert model.score(X, label) >= 0.5


def test_small_tables_are_dense_to_forests_and_boosting():
    dense, y, _label = table()
    X = scipy_sparse.csr_array(dense)
    for kind in (TAOForestRegressor, BoostedTreesRegressor):
        models = [kind(n_estimators=4, random_state=0).fit(Z, y) for Z in (dense, X)]
        np.testing.assert_allclose(models[1].predict(X), models[0].predict(dense), atol=1e-9)


def test_validation_rows_may_be_sparse():
    X, label = words()
    model = BoostedTreesClassifier("cart", n_estimators=20, random_state=0)
    model.fit(X[:300], label[:300], eval_set=(X[300:], label[300:]))
    assert len(model.evals_result_["validation_0"]["log_loss"]) > 1


def test_a_sparse_row_is_explained():
    dense, _y, label = table()
    X = scipy_sparse.csr_array(dense)
    model = TAOClassifier(2, splits="axis", random_state=0).fit(X, label)
    assert model.explain(X[:1]) == model.explain(dense[:1])


def test_damaged_rows_and_soft_trees_are_refused_in_words():
    dense, _y, label = table()
    X = scipy_sparse.csr_array(dense)
    model = TAOClassifier(2, floor=False, random_state=0).fit(X, label)
    for damage in (10**8, -1):
        bad = X.copy()
        bad.indices[:5] = damage
        with pytest.raises(ValueError, match=f"X must have indices from 0 to 29; got {damage}"):
            model.predict(bad)
    tree = Tree.complete(np.ones((1, 30)), np.zeros(1), 1)
    with pytest.raises(ValueError, match="X must be dense for a soft tree"):
        Tree(tree.children, tree.A, tree.b, tree.values, gate=2.0).leaf_proba(X)


def test_wide_splits_are_taken_as_lists_and_are_not_shared():
    A = np.zeros((3, 100_000))
    A[:, 5] = 1.0
    tree = Tree([[1, 2], [3, 4], [5, 6]], A.tolist(), [0.0] * 3, np.zeros((4, 1)))
    assert scipy_sparse.issparse(tree.split_weights)
    given = scipy_sparse.csr_array(A)
    other = Tree([[1, 2], [3, 4], [5, 6]], given, [0.0] * 3, np.zeros((4, 1)))
    given.data[:] = -99.0
    assert other == tree


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_a_script_without_opttree_reads_wide_models(leaves, tmp_path, monkeypatch):
    monkeypatch.setattr("opttree.model.tree.PACKED", 1)
    monkeypatch.setattr("opttree.model.tree.MANY", 1)
    some, _y, label = table()
    monkeypatch.setattr("opttree.wide.leaves.WORK", 1)
    monkeypatch.setattr("opttree.model.tree.DENSITY", 1.0)
    X = scipy_sparse.csr_array(some)
    model = TAOClassifier(3, splits="axis", leaves=leaves, random_state=0, floor=False).fit(X, label)
    assert scipy_sparse.issparse(model.tree_.split_weights)
    assert scipy_sparse.issparse(model.tree_.leaf_weights) == (leaves == "linear")
    opttree.save(model, tmp_path / "model.json")
    some = some[:20]
    lines = [",".join(f"x{j}" for j in range(30)), *(",".join(map(repr, map(float, row))) for row in some)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    run = subprocess.run(
        [sys.executable, standalone.__file__, tmp_path / "model.json", tmp_path / "rows.csv"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split()[-20:] == [str(answer) for answer in model.predict(some)]
