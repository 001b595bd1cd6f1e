"""What leaves the toolkit answers as it does inside: ONNX, C, SQL, scikit-learn, treelite, JSON with NumPy alone."""

import ctypes
import runpy
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

import opttree
from opttree import export
from opttree.cli.main import main
from opttree.export import standalone
from opttree.model.files import as_saved
from opttree.tables.encoding import raw_columns
from tests.conftest import thinned
from tests.export_models import MODELS, answers, fitted

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
HARD_PLAIN = ["TAO, axis", "TAO, axis, classes", "forest, cart", "boosted, axis"]
ENCODED = [name for name in MODELS if name.startswith("table")]


def feeds(model, X, real=np.float64):
    """The inputs of a graph: the columns that the model reads."""
    encoding = as_saved(model, curves=True).encoding
    if encoding is None:
        return {"X": np.asarray(X, real)}
    found = {}
    for column in [encoding.columns[j] for j in sorted(encoding.read)]:
        own = X[column.name]
        if column.kind == "category":
            found[column.name] = np.array([["" if v is None or v != v else v] for v in own], object)
        elif column.kind == "date":
            days = (own - pd.Timestamp(0)).dt.total_seconds() / 86_400.0
            found[column.name] = days.to_numpy(real)[:, None]
        else:
            found[column.name] = own.to_numpy(real)[:, None]
    return found


@pytest.mark.parametrize("name", thinned(MODELS, 2))
def test_onnx_answers_alike(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    expected, labels, X = answers(name)
    model = fitted(name)[0]
    opttree.to_onnx(model, tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    found = session.run(None, feeds(model, X))
    np.testing.assert_allclose(found[-1], expected, **CLOSE)
    if labels is not None:
        assert np.array_equal(found[0], labels)
    single = opttree.to_onnx(model, dtype="float32").SerializeToString()
    session = runtime.InferenceSession(single, providers=["CPUExecutionProvider"])
    found = session.run(None, feeds(model, X, np.float32))[-1]
    close = np.isclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max()).all(axis=1)
    assert close.mean() > 0.98  # single precision: a few rows are beside a threshold


def compiled(model, folder, dtype="float64"):
    export.to_c(model, folder, dtype=dtype)
    done = subprocess.run(["make", "-C", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(Path(folder) / "libmodel.so"))


def test_a_makefile_of_others_stays(tmp_path, capsys):
    model = fitted("TAO, axis")[0]
    for _ in range(2):
        export.to_c(model, tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["Makefile", "model.c", "model.h"]
    (tmp_path / "Makefile").write_text("all: important\n")
    opttree.save(model, tmp_path / "saved.json")
    assert main(["export", str(tmp_path / "saved.json"), "--out", str(tmp_path / "model.c")]) == 0
    assert "model.h and model.mk" in capsys.readouterr().out
    assert (tmp_path / "Makefile").read_text() == "all: important\n"
    subprocess.run(["make", "-C", str(tmp_path), "-f", "model.mk"], capture_output=True, check=True)
    assert (tmp_path / "libmodel.so").exists()
    (tmp_path / "model.mk").write_text("all: important\n")
    with pytest.raises(ValueError, match=r"name must be one whose model\.mk is not there yet, beside a Makefile"):
        export.to_c(model, tmp_path)
    assert (tmp_path / "model.mk").read_text() == "all: important\n"


def in_c(library, Z, n_outputs, real=np.float64):
    Z = np.ascontiguousarray(Z, real)
    out = np.empty((len(Z), n_outputs), real)
    library.model_predict_rows(
        Z.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(Z)), out.ctypes.data_as(ctypes.c_void_p)
    )
    return out


@pytest.mark.parametrize("name", thinned(MODELS, 2))
def test_c_answers_alike(name, tmp_path):
    expected, labels, X = answers(name)
    model = fitted(name)[0]
    library = compiled(model, tmp_path)
    Z = as_saved(model, curves=True).table(X)
    np.testing.assert_allclose(in_c(library, Z, expected.shape[1]), expected, **CLOSE)
    if labels is not None:
        row = Z.ctypes.data
        picked = [library.model_class(ctypes.c_void_p(row + 8 * Z.shape[1] * i)) for i in range(len(Z))]
        assert np.array_equal(model.classes_[picked], labels)
    if name in ENCODED:
        check_encoder(library, as_saved(model, curves=True).encoding, X, Z)
    (tmp_path / "single").mkdir()
    library = compiled(model, tmp_path / "single", "float32")
    found = in_c(library, Z, expected.shape[1], np.float32)
    close = np.isclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max()).all(axis=1)
    assert close.mean() > 0.98


def check_encoder(library, encoding, X, Z):
    """The encoding in C of the first rows."""
    columns = [encoding.columns[j] for j in sorted(encoding.read)]
    kinds = [ctypes.c_char_p if column.kind == "category" else ctypes.c_double for column in columns]
    row_type = type("Row", (ctypes.Structure,), {"_fields_": [(f"f{k}", kind) for k, kind in enumerate(kinds)]})
    raw = raw_columns(X[[column.name for column in columns]], columns)
    for i in range(0, len(Z), 3):
        values = [
            (own[i].encode() or None) if column.kind == "category" else own[i]
            for own, column in zip(raw, columns, strict=True)
        ]
        row, out = row_type(*values), np.empty(Z.shape[1])
        library.model_encode(ctypes.byref(row), out.ctypes.data_as(ctypes.c_void_p))
        assert np.array_equal(out, Z[i])


def in_database(name, run):
    """Answers of a query: ``run(frame, query)`` gives a DataFrame."""
    expected, labels, X = answers(name)
    model = fitted(name)[0]
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame = frame.copy()
    if "since" in frame:
        frame["since"] = (frame["since"] - pd.Timestamp(0)).dt.total_seconds() / 86_400.0
    frame["key"] = np.arange(len(frame))
    found = run(frame, export.to_sql(model, "rows", keep=["key"])).sort_values("key").drop(columns="key")
    if labels is not None:
        assert np.array_equal(found.pop("prediction").to_numpy().astype(labels.dtype), labels)
    np.testing.assert_allclose(found.to_numpy(float), expected, **CLOSE)


@pytest.mark.parametrize("name", thinned(MODELS, 2))
def test_sqlite_answers_alike(name):
    def run(frame, query):
        with closing(sqlite3.connect(":memory:")) as database:
            frame.to_sql("rows", database, index=False)
            return pd.read_sql_query(query, database)

    in_database(name, run)


@pytest.mark.parametrize("name", thinned(MODELS, 3))
def test_duckdb_answers_alike(name):
    duckdb = pytest.importorskip("duckdb")

    def run(frame, query):
        with duckdb.connect() as database:
            database.register("rows", frame)
            return database.execute(query).df()

    in_database(name, run)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("ending", ["json", "npz"])
def test_model_files_answer_alike(name, ending, tmp_path):
    expected, labels, X = answers(name)
    model = fitted(name)[0]
    opttree.save(model, tmp_path / f"m.{ending}")
    loaded = opttree.load(tmp_path / f"m.{ending}")
    assert loaded.encoding == as_saved(model, curves=True).encoding
    found = loaded.predict(X).reshape(len(X), -1) if labels is None else loaded.predict_proba(X)
    np.testing.assert_array_equal(found, expected)
    if labels is not None:
        assert np.array_equal(loaded.predict(X), labels)


@pytest.mark.parametrize("name", thinned(MODELS, 2))
def test_numpy_alone_answers_alike(name, tmp_path, monkeypatch, capsys):
    expected, labels, X = answers(name)
    model = fitted(name)[0]
    opttree.save(model, tmp_path / "m.json")
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setattr(sys, "argv", [standalone.__file__, str(tmp_path / "m.json"), str(tmp_path / "rows.csv")])
    runpy.run_path(standalone.__file__, run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    if labels is not None:
        assert lines == [str(label) for label in labels]
    else:
        np.testing.assert_allclose(np.loadtxt(lines, ndmin=2), expected, rtol=1e-11, atol=1e-11)


def test_the_standalone_file_is_short_and_needs_numpy_only():
    text = Path(standalone.__file__).read_text()
    assert len(text.splitlines()) < 80
    assert "opttree" not in "".join(line for line in text.splitlines() if "import" in line)


@pytest.mark.parametrize("name", [*HARD_PLAIN, "table, axis", "table, classes"])
def test_scikit_learn_answers_alike(name):
    expected, labels, X = answers(name)
    model = fitted(name)[0]
    theirs = export.to_sklearn(model)
    found = theirs.predict(X).reshape(len(X), -1) if labels is None else theirs.predict_proba(X)
    close = np.isclose(found, expected, **CLOSE).all(axis=1)
    assert close.mean() > 0.998  # scikit-learn compares float32 numbers with thresholds, and ages are round
    if labels is not None:
        assert (theirs.predict(X) == labels)[close].all()


@pytest.mark.parametrize("name", [*HARD_PLAIN, "boosted, cart, classes", "table, axis", "table, boosted"])
def test_treelite_answers_alike(name):
    treelite = pytest.importorskip("treelite")
    expected, labels, X = answers(name)
    model = fitted(name)[0]
    Z = as_saved(model, curves=True).table(X)
    found = treelite.gtil.predict(export.to_treelite(model), Z).reshape(expected.shape)
    close = 1e-6 if "boosted" in name and labels is not None else 1e-11  # treelite's softmax is of single precision
    np.testing.assert_allclose(found, expected, rtol=close, atol=close)


def test_other_models_are_refused_by_name():
    pytest.importorskip("treelite")
    for write in (export.to_sklearn, export.to_treelite):
        with pytest.raises(ValueError, match="oblique splits"):
            write(fitted("TAO, oblique")[0])
        with pytest.raises(ValueError, match="linear leaves"):
            write(fitted("TAO, axis, linear")[0])
        with pytest.raises(ValueError, match="soft tree"):
            write(fitted("ORRT")[0])
        with pytest.raises(ValueError, match="class scores"):
            write(fitted("forest, cart, classes")[0])
    printed = opttree.SDTRRegressor(2, preset="paper", max_batches=50)
    with pytest.raises(ValueError, match="got one of scikit-learn's quantiles"):
        opttree.to_onnx(printed.fit(np.arange(40.0)[:, None], np.arange(40.0)))
    for write in (export.to_dot, export.to_rules, export.to_sklearn, export.to_html):
        with pytest.raises(ValueError, match="got one of their quantiles"):
            write(fitted("SDTR, curves")[0])
    leaf = opttree.SDTRRegressor(2, max_batches=50, quantile_transform=False, prediction="leaf")
    with pytest.raises(ValueError, match="prediction='leaf'"):
        opttree.to_onnx(leaf.fit(np.arange(40.0)[:, None], np.arange(40.0)))
    with pytest.raises(ValueError, match="identifier of C"):
        export.to_c(fitted("TAO, axis")[0], ".", name="a b")


@pytest.mark.parametrize("name", ["TAO, axis", "TAO-l, classes", "table, axis", "table, oblique"])
def test_rules_and_graphs_name_columns_and_cover_all_rows(name):
    model = fitted(name)[0]
    rules = export.to_rules(model)
    assert len(rules) == model.tree_.n_leaves
    assert rules["share"].sum() == pytest.approx(1.0)
    graph = export.to_dot(model)
    assert graph.count("->") == 2 * model.tree_.n_branches
    if name == "table, axis":
        assert "city in {" in "".join(rules["rule"])
        assert "score" in graph


@pytest.mark.parametrize("name", ["TAO, oblique", "forest, classes", "boosted, axis"])
def test_pipelines_convert(name):
    skl2onnx = pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    export.register_skl2onnx()
    estimator, make = MODELS[name]
    X, y = make(600)
    X = X.astype(np.float64)
    pipeline = make_pipeline(StandardScaler(), clone(estimator).set_params(random_state=0)).fit(X, y)
    options = {id(pipeline): {"zipmap": False}} if hasattr(pipeline, "classes_") else None
    proto = skl2onnx.to_onnx(pipeline, X[:1], target_opset={"": 18, "ai.onnx.ml": 3}, options=options)
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"X": X})
    expected = pipeline.predict_proba(X) if options else pipeline.predict(X).reshape(len(X), -1)
    np.testing.assert_allclose(found[-1], expected, rtol=1e-9, atol=1e-9)


def awkward(n, seed=0):
    """Categories that are stored as numbers and booleans, levels that look like numbers, names that outputs have."""
    rng = np.random.default_rng(seed)
    code, flag = rng.integers(0, 4, n).astype(float), rng.random(n) < 0.5
    X = pd.DataFrame(
        {
            "label": np.where(rng.random(n) < 0.2, np.nan, code),
            "Variable": flag,
            "a b": rng.choice(["1.0", "2.0", "u"], n),
            "a_b": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "NULL": rng.normal(size=n),
            'w*\\ int "x" */': rng.normal(size=n),
        }
    )
    y = np.nan_to_num(code, nan=9.0) + 3.0 * flag + 2.0 * (X["a b"] == "1.0") + np.nan_to_num(X["a_b"], nan=4.0)
    return X, y.to_numpy()


@pytest.mark.parametrize("splits", ["axis", "oblique"])
def test_awkward_tables_leave_intact(splits, tmp_path):
    duckdb, runtime = pytest.importorskip("duckdb"), pytest.importorskip("onnxruntime")
    X, y = awkward(500)
    model = opttree.TAORegressor(4, splits=splits, categorical_features=["label", "Variable"], random_state=0).fit(X, y)
    new = awkward(2000, 1)[0]
    expected = model.predict(new)
    query = export.to_sql(model, "rows", keep=["NULL"])
    with closing(sqlite3.connect(":memory:")) as database:
        new.to_sql("rows", database, index=False)
        found = pd.read_sql_query(query, database)
    order = np.argsort(new["NULL"].to_numpy())
    np.testing.assert_allclose(found.sort_values("NULL")["prediction"], expected[order], **CLOSE)
    with duckdb.connect() as database:
        database.register("rows", pa_table(new))  # NaN stays NaN
        found = database.execute(query).df()
    np.testing.assert_allclose(found.sort_values("NULL")["prediction"], expected[order], **CLOSE)
    session = runtime.InferenceSession(opttree.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    read = [model.tree_.encoding.columns[j] for j in sorted(model.tree_.encoding.read)]
    given = {
        column.name: np.array([v or np.nan for v in own] if column.kind == "code" else own, kind)[:, None]
        for column, own in zip(read, raw_columns(new[[column.name for column in read]], read), strict=True)
        for kind in [object if column.kind == "category" else np.float64]
    }
    np.testing.assert_allclose(session.run(None, given)[0][:, 0], expected, **CLOSE)
    library = compiled(model, tmp_path)
    np.testing.assert_allclose(in_c(library, as_saved(model, curves=True).table(new), 1)[:, 0], expected, **CLOSE)
    opttree.save(model, tmp_path / "m.json")
    new.to_csv(tmp_path / "rows.csv", index=False, na_rep="NA")
    command = [sys.executable, standalone.__file__, str(tmp_path / "m.json"), str(tmp_path / "rows.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(np.loadtxt(done.stdout.splitlines()), expected, rtol=1e-11, atol=1e-11)
    read = pd.read_csv(tmp_path / "rows.csv")
    np.testing.assert_allclose(opttree.load(tmp_path / "m.json").predict(read), expected, rtol=1e-12)
    numbers = new.assign(**{"a b": 1})  # where the other levels are absent, 1.0 is read as a number
    np.testing.assert_array_equal(model.predict(numbers), model.predict(new.assign(**{"a b": "1.0"})))


def pa_table(frame):
    """An Arrow table in which missing numbers are NaN."""
    import pyarrow

    return pyarrow.table({name: pyarrow.array(frame[name].to_numpy(), from_pandas=False) for name in frame})


def test_titles_and_labels_are_text(tmp_path):
    model = opttree.TAOClassifier(1, random_state=0).fit(np.arange(20.0)[:, None], np.repeat(["C:\\new", "b"], 10))
    assert "C:\\\\new" in export.to_dot(model)
    opttree.save(model, tmp_path / "m.json", target="DATA")
    page = export.to_html(opttree.load(tmp_path / "m.json"))
    assert "<h1>TAOClassifier for DATA</h1>" in page


@pytest.mark.parametrize("rows", [7, 900])  # fewer than leaves, and more
@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_leaves_of_large_trees_are_looked_up_in_the_order_of_the_rows(engine, rows):
    Z, y = make_friedman1(900, noise=0.3, random_state=0)
    names = [f"x{j}" for j in range(Z.shape[1])]
    both = np.column_stack([y, Z[:, 0] * y])
    labels = np.digitize(y, [12.0, 17.0])
    models = [
        opttree.TAOForestRegressor(3, kind="cart", random_state=0).fit(Z, both),
        opttree.TAOForestClassifier(3, kind="cart", leaves="constant", random_state=0).fit(Z, labels),
        opttree.BoostedTreesClassifier(base="axis", n_estimators=4, random_state=0).fit(Z, labels),
    ]
    frame = pd.DataFrame(Z[:rows], columns=names)
    for model in models:
        query = export.to_sql(model)
        assert query.count("VALUES") == len(model.forest_.trees)
        if engine == "sqlite":
            with closing(sqlite3.connect(":memory:")) as database:
                frame.to_sql("rows", database, index=False)
                found = pd.read_sql_query(query, database)
        else:
            duckdb = pytest.importorskip("duckdb")
            with duckdb.connect() as database:
                database.register("rows", frame)
                found = database.execute(query).df()
        if hasattr(model, "predict_proba"):
            np.testing.assert_array_equal(found.pop("prediction"), model.predict(Z[:rows]))
            np.testing.assert_allclose(found.to_numpy(float), model.predict_proba(Z[:rows]), **CLOSE)
        else:
            expected = model.predict(Z[:rows]).reshape(rows, -1)
            np.testing.assert_allclose(found.to_numpy(float), expected, rtol=1e-9)
