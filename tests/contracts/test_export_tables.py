"""What exports make of a table: columns that are read and that are not, entries that `predict` refuses, and names."""

import ctypes
import json
import runpy
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import cache

import numpy as np
import pandas as pd
import pytest

import opttree
from opttree import export
from opttree.export import standalone
from opttree.model.files import as_saved
from opttree.tables.encoding import raw_columns

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


# ---- programs -------------------------------------------------------------------------------------------------------


def in_sqlite(frame, query, **options):
    """The rows of the answer; dates are stored as texts."""
    with closing(sqlite3.connect(":memory:")) as database:
        dates = frame.select_dtypes(["datetime", "datetimetz"])
        texts = {name: dates[name].dt.strftime("%Y-%m-%d %H:%M:%S.%f") for name in dates}  # pandas 2.1 stores numbers
        frame.assign(**texts).to_sql(options.pop("name", "rows"), database, index=False, **options)
        return pd.DataFrame(*_fetched(database.execute(query)))


def _fetched(cursor):
    return cursor.fetchall(), None, [entry[0] for entry in cursor.description]


def in_duckdb(frame, query, name="rows"):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.register(name, frame)
        return database.execute(query).df()


def rows_in(run, model, rows):
    """The answers (n,) of a database to rows of one table."""
    return run(rows, export.to_sql(model))["prediction"].to_numpy()


def in_onnx(model, frame, **options):
    runtime = pytest.importorskip("onnxruntime")
    graph = opttree.to_onnx(model, **options).SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    return session.run(None, feeds(model, frame, [given.name for given in session.get_inputs()]))


def feeds(model, frame, names):
    encoding = as_saved(model).encoding
    if encoding is None:
        return {"X": frame.to_numpy(np.float64)}
    columns = [column for column in encoding.columns if column.name in names]
    assert [column.name for column in columns] == names
    found = {}
    for column, own in zip(columns, raw_columns(frame[names], columns), strict=True):
        if column.kind == "code":
            own = pd.to_numeric(frame[column.name])
        found[column.name] = np.array(own, object if column.kind == "category" else np.float64)[:, None]
    return found


def in_c(model, frame, folder):
    """The outputs (n, K), by way of the structure where there is one, and the numbers of the classes."""
    folder.mkdir(exist_ok=True)
    export.to_c(model, folder)
    subprocess.run(["make", "-s", "-C", str(folder)], check=True)
    library = ctypes.CDLL(str(folder / "libmodel.so"))
    inside = as_saved(model).tree
    Z, out = np.full((len(frame), inside.n_features), np.nan), np.empty((len(frame), inside.n_outputs))
    if inside.encoding is None:
        Z[:] = frame.to_numpy(np.float64)
    else:
        columns = [inside.encoding.columns[j] for j in sorted(inside.encoding.read)]
        fed = feeds(model, frame, [column.name for column in columns])
        kinds = [ctypes.c_char_p if column.kind == "category" else ctypes.c_double for column in columns]
        row_type = type("Row", (ctypes.Structure,), {"_fields_": [(f"f{k}", kind) for k, kind in enumerate(kinds)]})
        for i in range(len(frame)):
            values = [own[i, 0].encode() if own.dtype == object else own[i, 0] for own in fed.values()]
            library.model_encode(ctypes.byref(row_type(*values)), ctypes.c_void_p(Z[i].ctypes.data))
    library.model_predict_rows(
        ctypes.c_void_p(Z.ctypes.data), ctypes.c_size_t(len(Z)), ctypes.c_void_p(out.ctypes.data)
    )
    if inside.classes is None:
        return out, None
    return out, [library.model_class(ctypes.c_void_p(row.ctypes.data)) for row in Z]


def alone(model, frame, folder, monkeypatch, capsys):
    """The lines of the file that needs NumPy only."""
    opttree.save(model, folder / "m.json")
    frame.to_csv(folder / "rows.csv", index=False)
    monkeypatch.setattr(sys, "argv", [standalone.__file__, str(folder / "m.json"), str(folder / "rows.csv")])
    runpy.run_path(standalone.__file__, run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_text_in_a_column_of_numbers_ends_the_file_alone_in_a_sentence(tmp_path, monkeypatch, capsys):
    table = pd.DataFrame({"city": ["a", "b"] * 20, "area": np.arange(40.0)})
    model = opttree.TAORegressor(1, splits="axis", random_state=0).fit(table, np.arange(40.0) > 20.0)
    wrong = pd.DataFrame({"city": ["a", "b"], "area": ["1.5", "abc"]})
    with pytest.raises(SystemExit, match="column 'area' must hold a number, and could not convert 'abc' of row 1"):
        alone(model, wrong, tmp_path, monkeypatch, capsys)


# ---- columns that are not read ----------------------------------------------------------------------------------


@cache
def keyed(kind):
    """A model, and a table of which it reads "age", "city" and "code" alone; or, constant, no column."""
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame(
        {
            "row_key": [f"K{i:05d}" for i in range(n)],
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40.0, 9.0, n)),
            "city": rng.choice(["Bonn", "Ulm", "Trier"], n),
            "unused_number": rng.normal(size=n),
            "code": rng.choice([-1.0, 0.0, 7.0], n),
            "useless_text": rng.choice(["uselessA", "uselessB"], n),
        }
    )
    y = 9.0 * (X["age"].fillna(60.0) > 45.0) + 5.0 * (X["city"] == "Ulm") + 3.0 * (X["code"] == 0.0)
    y = y.to_numpy() if kind != "constant" else np.full(n, 2.5)
    options = {"splits": "axis", "random_state": 0, "categorical_features": ["code"]}
    if kind == "classes":
        return opttree.TAOClassifier(5, **options).fit(X, np.where(y > 7.0, "high", "low")), X
    return opttree.TAORegressor(3, **options).fit(X, y), X


UNREAD = ["row_key", "unused_number", "useless_text"]


@pytest.fixture(autouse=True)
def quiet(recwarn):
    """Warnings that columns of keys are left out are no news here."""
    import warnings

    warnings.simplefilter("ignore", opttree.TableWarning)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_columns_that_are_not_read_are_not_needed(kind, tmp_path, monkeypatch, capsys):
    model, X = keyed(kind)
    assert [name for j, name in enumerate(X) if j not in model.tree_.encoding.read] == UNREAD
    rows = X.drop(columns=UNREAD)
    expected = model.predict(X)
    for run in (in_sqlite, in_duckdb):
        assert alike(rows_in(run, model, rows), expected)
    found = in_onnx(model, rows)
    assert alike(found[0].ravel(), expected)
    out, picked = in_c(model, rows, tmp_path)
    assert alike(out.ravel() if picked is None else model.classes_[picked], expected)
    lines = alone(model, rows, tmp_path, monkeypatch, capsys)
    assert alike(np.array(lines) if kind == "classes" else np.loadtxt(lines), expected)
    pipeline = export.to_sklearn(model)
    for table in (rows, X):
        assert alike(pipeline.predict(table), expected)
    assert list(pipeline.feature_names_in_) == list(rows)
    assert alike(opttree.load(tmp_path / "m.json").predict(rows), expected)


def alike(found, expected):
    if expected.dtype.kind == "f":
        return np.allclose(found.astype(float), expected, rtol=1e-9, atol=1e-9, equal_nan=True)
    return np.array_equal(found, expected)


def written(model, folder):
    """What every export of a single tree writes, as text."""
    (folder / "c").mkdir(exist_ok=True)
    header, source = export.to_c(model, folder / "c")
    texts = {"h": header.read_text(), "c": source.read_text(), "sql": export.to_sql(model), "dot": export.to_dot(model)}
    texts |= {"html": export.to_html(model), "rules": export.to_rules(model).to_csv()}
    return texts | {"onnx": opttree.to_onnx(model).SerializeToString().decode("latin-1")}


@pytest.mark.parametrize("kind", ["numbers", "classes", "constant"])
def test_columns_that_are_not_read_are_not_named(kind, tmp_path):
    model, _X = keyed(kind)
    for name, text in written(model, tmp_path).items():
        assert [word for word in (*UNREAD, "uselessA", "K0000") if word in text] == [], name


def test_encodings_of_older_files_are_cut_to_what_is_read(tmp_path):
    model, X = keyed("numbers")
    tree = model.tree_.with_names(None, model.encoder_.encoding_)
    assert len(tree.encoding.read) > 3
    for name, text in written(tree, tmp_path).items():
        assert [word for word in (*UNREAD, "uselessA") if word in text] == [], name
    assert alike(export.to_sklearn(tree).predict(X.drop(columns=UNREAD)), model.predict(X))


def test_constant_models_need_no_column(tmp_path, monkeypatch, capsys):
    model, X = keyed("constant")
    rows = X[["row_key"]]
    for run in (in_sqlite, in_duckdb):
        assert rows_in(run, model, rows).tolist() == [2.5] * len(X)
        assert run(rows, export.to_sql(model, keep=["row_key"])).columns.tolist() == ["row_key", "prediction"]
    assert in_onnx(model, rows)[0].tolist() == [[2.5]]
    assert in_c(model, rows, tmp_path)[0].ravel().tolist() == [2.5] * len(X)
    assert alone(model, rows, tmp_path, monkeypatch, capsys) == ["2.5"] * len(X)
    assert export.to_sklearn(model).predict(rows).tolist() == [2.5] * len(X)
    assert export.to_rules(model)["rule"].tolist() == ["always"]
    written(model, tmp_path)
    if pytest.importorskip("treelite"):
        assert export.to_treelite(model).num_tree == 1


def test_models_of_numbers_name_the_columns_in_sql_that_they_read(tmp_path, monkeypatch, capsys):
    model, X = plain("numbers")
    assert '"rate"' not in export.to_sql(model)
    rows = X.drop(columns="rate")
    for run in (in_sqlite, in_duckdb):
        assert alike(rows_in(run, model, rows), model.predict(X))
    assert alike(np.loadtxt(alone(model, rows, tmp_path, monkeypatch, capsys)), model.predict(X))


@pytest.mark.parametrize("given", ["table", "read", "renamed"])
def test_pipelines_take_all_columns_or_those_that_are_read(given):
    skl2onnx, runtime = pytest.importorskip("skl2onnx"), pytest.importorskip("onnxruntime")
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    export.register_skl2onnx()
    model, X = keyed("classes")
    kinds = {"row_key": StringTensorType, "city": StringTensorType, "useless_text": StringTensorType}
    kinds["code"] = Int64TensorType
    names = list(X) if given == "table" else ["code", "age", "city"] if given == "read" else ["age", "city", "code"]
    shown = {name: f"in_{name}" if given == "renamed" else name for name in names}
    types = [(shown[name], kinds.get(name, DoubleTensorType)([None, 1])) for name in names]
    options = {"initial_types": types, "options": {id(model): {"zipmap": False}}}
    proto = skl2onnx.to_onnx(model, target_opset={"": 18, "ai.onnx.ml": 3}, **options)
    session = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    table = X.assign(code=X["code"].astype(np.int64))
    fed = {shown[name]: table[[name]].to_numpy() for name in names if shown[name] in wanted}
    labels, shares = session.run(None, fed)
    assert np.array_equal(labels, model.predict(X))
    np.testing.assert_allclose(shares, model.predict_proba(X), **CLOSE)
    wrong = {**options, "initial_types": [(f"in {name}", kind) for name, kind in types[:2]]}
    with pytest.raises(ValueError, match="needs 3 inputs, one for each column that it reads, or 6"):
        skl2onnx.to_onnx(model, target_opset={"": 18, "ai.onnx.ml": 3}, **wrong)


# ---- what predict refuses ---------------------------------------------------------------------------------------


@cache
def plain(kind):
    """A model without an encoding, of "age" and "income", and its table."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["age", "income", "rate"])
    y = np.where(X["age"] > 0.0, 10.0, 20.0) + np.where(X["income"] > 0.0, 3.0, 0.0)
    options = {"random_state": 0}
    if kind == "numbers":
        return opttree.TAORegressor(3, splits="axis", **options).fit(X, y), X
    if kind == "oblique":
        return opttree.TAORegressor(3, leaves="linear", **options).fit(X, y), X
    if kind == "soft":
        return opttree.ORRTRegressor(2, max_iter=20, **options).fit(X, y), X
    if kind == "boosted":
        return opttree.BoostedTreesClassifier("cart", n_estimators=3, **options).fit(X, (y > 15.0).astype(int)), X
    return opttree.TAOClassifier(3, splits="axis", **options).fit(X, np.where(y > 15.0, "yes", "no")), X


ODD = [None, np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("kind", ["numbers", "oblique", "soft", "boosted", "classes"])
def test_no_program_answers_what_predict_refuses(kind, tmp_path):
    model, _X = plain(kind)
    rows = pd.DataFrame({"age": [0.5, *ODD, 0.5], "income": [0.5] * 6, "rate": [1.0] * 6})
    with pytest.raises(ValueError, match="missing"):
        model.predict(rows.iloc[1:2])
    good = np.array([True, False, False, False, False, True])
    is_class = hasattr(model, "classes_")
    expected = model.predict_proba(rows[good]) if is_class else model.predict(rows[good])[:, None]
    for run in (in_sqlite, in_duckdb):
        found = run(rows, export.to_sql(model))
        assert found.isna().all(axis=1).tolist() == (~good).tolist(), run
        assert found.notna().all(axis=1).tolist() == good.tolist(), run
        numbers = found.drop(columns="prediction") if is_class else found
        np.testing.assert_allclose(numbers[good].to_numpy(float), expected, rtol=1e-9)
    found = in_onnx(model, rows.astype(float))
    np.testing.assert_allclose(found[-1][good], expected, rtol=1e-9)
    assert np.isnan(found[-1][~good]).all()
    if is_class:
        none = "" if found[0].dtype == object else np.iinfo(np.int64).min
        assert (found[0] == none).tolist() == (~good).tolist()
        assert found[0][good].tolist() == model.predict(rows[good]).tolist()
    out, picked = in_c(model, rows.astype(float), tmp_path)
    np.testing.assert_allclose(out[good], expected, rtol=1e-9)
    assert np.isnan(out[~good]).all()
    assert picked is None or [k == -1 for k in picked] == (~good).tolist()


@pytest.mark.parametrize("mark", ["", "inf", "abc", "1,5"])
def test_the_file_that_needs_numpy_only_refuses(mark, tmp_path, monkeypatch, capsys):
    model, X = plain("numbers")
    with pytest.raises((SystemExit, ValueError), match=r"finite|could not convert"):
        alone(model, X.head(3).astype(object).assign(age=["1.0", mark, "2"]), tmp_path, monkeypatch, capsys)
    encoded, table = keyed("numbers")
    if mark != "":
        with pytest.raises((SystemExit, ValueError), match=r"finite|could not convert"):
            alone(encoded, table.head(3).assign(age=["1.0", mark, "2"]), tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("of", ["plain", "encoded"])
def test_text_in_a_column_of_numbers_has_no_answer(of):
    """SQLite keeps texts in columns of any type, and takes 'abc' for 0; '1.5' is text, too."""
    model, _X = plain("classes") if of == "plain" else keyed("classes")
    entries = ["abc", "1,5", "1.5", " ", "0x10", b"1", "inf"]
    for column in ("age", "age REAL", "age TEXT"):
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute(f"CREATE TABLE rows ({column}, income, city, code)")
            database.executemany("INSERT INTO rows VALUES (?, 0.5, 'Ulm', 0.0)", [(v,) for v in (1.5, *entries)])
            found = pd.DataFrame(database.execute(export.to_sql(model)).fetchall())
        numbers = [column != "age TEXT", *(entry == "1.5" and column == "age REAL" for entry in entries)]
        assert found.isna().all(axis=1).tolist() == [not is_number for is_number in numbers]
        assert found.notna().all(axis=1).tolist() == numbers
    rows = pd.DataFrame({"age": ["1.5", "abc", "1,5", ""], "income": 0.5, "city": "Ulm", "code": 0.0})
    found = in_duckdb(rows, export.to_sql(model))
    missing = of == "encoded"  # an empty text is a missing value
    assert found.isna().all(axis=1).tolist() == [True, True, True, not missing]


def test_infinity_is_refused_and_what_is_missing_is_not(tmp_path):
    model, _X = keyed("numbers")
    rows = pd.DataFrame({"age": [50.0, np.nan, np.inf, -np.inf], "city": ["Ulm"] * 4, "code": [0.0] * 4})
    answered = [True, True, False, False]
    full = rows.reindex(columns=_X.columns).assign(row_key="", useless_text="", unused_number=0.0)
    expected = model.predict(full[answered])
    assert np.unique(expected).size == 2 or expected.size == 2
    for run in (in_sqlite, in_duckdb):
        found = rows_in(run, model, rows).astype(float)
        assert np.isfinite(found).tolist() == answered
        np.testing.assert_allclose(found[answered], expected, **CLOSE)
    # the other programs get the numbers as they are
    rows_ = rows.assign(age=rows["age"])
    encoded = {"age": rows_["age"].to_numpy()[:, None], "city": rows_[["city"]].to_numpy(), "code": np.zeros((4, 1))}
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(opttree.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, encoded)[0][:, 0]
    assert np.isfinite(found).tolist() == answered
    np.testing.assert_allclose(found[answered], expected, **CLOSE)


@pytest.mark.parametrize("name", ["rowid", "oid", "age", "it's"])
@pytest.mark.parametrize("run", [in_sqlite, in_duckdb])
def test_an_absent_column_is_an_error(run, name):
    """SQLite takes a quoted name that is no column for a text, and has hidden columns called rowid and oid."""
    _model, X = plain("numbers")
    table = X.rename(columns={"age": name})
    y = np.where(X["age"] > 0.0, 10.0, 20.0)
    model = opttree.TAORegressor(1, splits="axis", random_state=0).fit(table, y)
    assert alike(rows_in(run, model, table), model.predict(table))
    with pytest.raises(Exception, match=r"(?i)column|not found"):
        run(table.rename(columns={name: "years"}), export.to_sql(model))
    with pytest.raises(Exception, match=r"(?i)column|not found"):
        run(table, export.to_sql(model, keep=["years"]))
    gaps = table.assign(**{name: table[name].where(table[name].abs() > 0.1)})
    encoded = opttree.TAORegressor(1, splits="axis", random_state=0).fit(gaps, y)
    with pytest.raises(Exception, match=r"(?i)column|not found"):
        run(table.rename(columns={name: "years"}), export.to_sql(encoded))


# ---- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [in_sqlite, in_duckdb])
@pytest.mark.parametrize("table", ["step_0", "opttree_step_0", "OPTTREE_STEP_1", "opttree_step__0", 'a "b"', "select"])
def test_tables_may_have_any_name(run, table):
    model, X = plain("numbers")
    found = run(X, export.to_sql(model, table), name=table)
    assert alike(found["prediction"].to_numpy(), model.predict(X))


@pytest.mark.parametrize("run", [in_sqlite, in_duckdb])
def test_answers_differ_in_name(run):
    _model, X = plain("numbers")
    y = np.array(["a", "A", "it's", 'say "x"'])[(X["age"] > 0.0).astype(int) + 2 * (X["income"] > 0.0)]
    model = opttree.TAOClassifier(3, splits="axis", random_state=0).fit(X, y)
    table = X.assign(prediction=1.0, P_A="kept", opttree_x0=2.0)
    found = run(table, export.to_sql(model, keep=["prediction", "P_A", "P_A", "opttree_x0"]))
    assert found.columns.tolist() == [
        "prediction", "P_A", "P_A_2", "opttree_x0", "prediction_2", "p_A_3", "p_a_4", "p_it's", 'p_say "x"'
    ]  # fmt: skip
    assert found["prediction_2"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(found.iloc[:, -4:].to_numpy(float), model.predict_proba(X), **CLOSE)


def test_columns_that_differ_in_case_alone_are_refused_by_sql():
    _model, X = plain("numbers")
    table = X.rename(columns={"income": "AGE"})
    model = opttree.TAORegressor(1, splits="axis", random_state=0).fit(table, np.where(X["age"] > 0.0, 1.0, 2.0))
    with pytest.raises(ValueError, match="differ in more than case; got 'age' and 'AGE'"):
        export.to_sql(model)


def test_columns_may_be_called_as_the_inside_of_a_graph():
    _model, X = plain("numbers")
    names = {"age": "opttree constant 0", "income": "label", "rate": "label_of_model"}
    table = X.rename(columns=names).assign(label=np.where(X["income"] > 0.0, "x", "y"))
    y = np.where(X["age"] > 0.0, "p", "q") + table["label"] + np.where(X["rate"] > 0.0, "r", "s")
    model = opttree.TAOClassifier(4, splits="axis", random_state=0).fit(table, y)
    assert len(model.tree_.encoding.read) == 3
    assert in_onnx(model, table)[0].tolist() == model.predict(table).tolist()
    graph = opttree.to_onnx(model)
    assert [out.name for out in graph.graph.output] == ["label_of_model_of_model", "probabilities"]


# ---- levels -----------------------------------------------------------------------------------------------------


@cache
def coded():
    """A model of a category whose levels are numbers, and rows: levels in all forms, some unseen, some missing."""
    code = np.array([-3.0, 0.0, 1.0, 2.5, 1e16, np.nan] * 30)
    table = pd.DataFrame({"code": code, "other": np.arange(180.0)})
    y = np.array([10.0, 90.0, 30.0, 40.0, 70.0, 20.0] * 30)
    model = opttree.TAORegressor(6, splits="axis", random_state=0, categorical_features=["code"]).fit(table, y)
    rows = pd.DataFrame({"code": [0.0, -0.0, 1.0, -3.0, 2.5, 1e16, np.nan, 1.5, 7.0, np.inf], "other": 0.0})
    assert len(set(model.predict(rows))) >= 6
    return model, rows


def test_codes_are_numbers_in_all_programs(tmp_path, monkeypatch, capsys):
    model, rows = coded()
    expected = model.predict(rows)
    assert alike(rows_in(in_sqlite, model, rows), expected)
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"code": pyarrow.array(rows["code"].to_numpy(), from_pandas=False)})  # NaN stays NaN
    assert alike(rows_in(in_duckdb, model, table), expected)
    graph = opttree.to_onnx(model)
    assert [given.type.tensor_type.elem_type for given in graph.graph.input] == [11]  # doubles
    assert alike(in_onnx(model, rows)[0][:, 0], expected)
    single = opttree.to_onnx(model, dtype="float32").SerializeToString()
    session = pytest.importorskip("onnxruntime").InferenceSession(single, providers=["CPUExecutionProvider"])
    found = session.run(None, {"code": rows[["code"]].to_numpy(np.float32)})[0][:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert alike(in_c(model, rows, tmp_path)[0][:, 0], expected)
    lines = alone(model, rows, tmp_path, monkeypatch, capsys)
    assert alike(np.loadtxt(lines), expected)


@pytest.mark.parametrize("kind", ["BIGINT", "REAL", "VARCHAR", "DECIMAL(5,1)", "TINYINT", "FLOAT"])
def test_codes_may_be_stored_in_any_way(kind):
    model, _rows = coded()
    codes = [0.0, 1.0, -3.0, 7.0] if "INT" in kind else [0.0, -0.0, 1.0, -3.0, 2.5, 7.0]
    expected = model.predict(pd.DataFrame({"code": codes, "other": 0.0}))
    values = ", ".join(
        f"(CAST('{code:.0f}' AS {kind}))" if code != 2.5 else f"(CAST('2.5' AS {kind}))" for code in codes
    )
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE rows AS SELECT * FROM (VALUES {values}) AS v(code)")
        assert alike(database.execute(export.to_sql(model)).df()["prediction"].to_numpy(), expected)
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE rows (code {kind})")
        database.executemany("INSERT INTO rows VALUES (?)", [(code,) for code in codes])
        assert alike(np.array(database.execute(export.to_sql(model)).fetchall())[:, 0], expected)


def test_words_for_missing_are_levels_where_they_are_texts(tmp_path, monkeypatch, capsys):
    words = ["nan", "NA", "NULL", "None", "=1+1", "1", "-5"]
    table = pd.DataFrame({"word": pd.Series([*words, None] * 30, dtype=object)})
    y = np.array([10.0, 90.0, 30.0, 50.0, 70.0, 20.0, 60.0, 40.0] * 30)
    model = opttree.TAORegressor(7, splits="axis", random_state=0).fit(table, y)
    rows = pd.DataFrame({"word": pd.Series([*words, None, "", "1.0", "-5.0", "NaN", "true"], dtype=object)})
    expected = model.predict(rows)
    assert len(set(expected)) >= 8
    for run in (in_sqlite, in_duckdb):
        assert alike(rows_in(run, model, rows), expected)
    assert alike(in_onnx(model, rows)[0][:, 0], expected)
    texts = np.array([["" if word is None else word] for word in rows["word"]], object)
    session = pytest.importorskip("onnxruntime").InferenceSession(
        opttree.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert alike(session.run(None, {"word": texts})[0][:, 0], expected)
    found = in_c(model, rows, tmp_path)[0][:, 0]
    assert alike(found, expected)
    lines = alone(model, rows[:-2], tmp_path, monkeypatch, capsys)  # "NaN", no level, is missing in a file
    assert alike(np.loadtxt(lines), expected[:-2])


def test_booleans_are_told_from_texts():
    rng = np.random.default_rng(0)
    flag, text = rng.random(200) < 0.5, rng.choice(["True", "1"], 200)
    table = pd.DataFrame({"flag": flag, "text": text})
    y = 4.0 * flag + 2.0 * (text == "True")
    options = {"splits": "axis", "random_state": 0}
    for chosen in ({}, {"categorical_features": ["flag"]}):
        model = opttree.TAORegressor(2, **options, **chosen).fit(table, y)
        for run in (in_sqlite, in_duckdb):
            assert alike(rows_in(run, model, table), model.predict(table))


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ", "VARCHAR", "days", "sqlite"])
def test_dates_of_databases_are_dates(kind):
    rng = np.random.default_rng(0)
    days = pd.to_timedelta(rng.integers(-9000, 20000, 400), unit="D")
    since = pd.Timestamp("2000-02-20") + days + pd.to_timedelta(rng.integers(0, 86_400_000, 400), unit="ms")
    since = since.normalize() if kind == "DATE" else since
    table = pd.DataFrame({"since": pd.Series(since).where(rng.random(400) < 0.9)})
    y = np.sin(np.arange(400.0)) + (since.month > 6) * (since.year % 3)
    model = opttree.TAORegressor(6, splits="axis", random_state=0).fit(table, y)
    expected = model.predict(table)
    if kind == "sqlite":
        assert alike(rows_in(in_sqlite, model, table), expected)
        return
    if kind == "days":
        numbers = (table["since"] - pd.Timestamp(0)).dt.total_seconds() / 86_400.0
        for run in (in_sqlite, in_duckdb):
            assert alike(rows_in(run, model, numbers.to_frame()), expected)
        return
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.register("frame", table)
        database.execute("SET TimeZone = 'UTC'")
        database.execute(f"CREATE TABLE rows AS SELECT CAST(since AS {kind}) AS since FROM frame")
        found = database.execute(export.to_sql(model)).df()["prediction"].to_numpy()
        assert alike(found, expected)
        database.execute(
            "CREATE TABLE others AS SELECT * FROM (VALUES ('soon'), ('2020-13-01'), ('20-01-01')) v(since)"
        )
        assert database.execute(export.to_sql(model, "others")).fetchall() == [(None,)] * 3


# ---- texts ------------------------------------------------------------------------------------------------------


def test_no_text_of_a_table_is_a_formula_or_ends_its_place(tmp_path):
    evil = '=cmd|" /C calc"!A0'
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {f"{evil}\x1b[2J": rng.normal(size=200), "@x</script>*/\n#error": rng.choice(["-1+1", '"];b'], 200)}
    )
    inside = (table.iloc[:, 0] > 0.0).astype(int) + 2 * (table.iloc[:, 1] == "-1+1")
    model = opttree.TAOClassifier(3, splits="axis", random_state=0).fit(
        table, np.array(["+a", "\x1bb", "@c", "=d"])[inside]
    )
    rules = export.record.exporters()["rules"]
    rules.write(as_saved(model), tmp_path / "rules.csv", None)
    read = pd.read_csv(tmp_path / "rules.csv")
    for text in [*read.columns, *read["rule"], *read["prediction"]]:
        assert text[0] not in "=+-@\t\r"
    assert any(text[0] == "'" for text in read["rule"])
    graph, page = export.to_dot(model), export.to_html(model, title="\x1b]0;x\x07 <b>")
    assert "\x1b" not in graph + page
    assert all(line.count('"') - line.count('\\"') in (0, 2, 4) for line in graph.splitlines())
    assert page.count("</script>") == 1
    data = page[page.index("const model = ") + 14 :].split(";\nconst nodes")[0]
    assert json.loads(data)["nodes"]
    _out, picked = in_c(model, table.head(20), tmp_path / "c")
    assert model.classes_[picked].tolist() == model.predict(table.head(20)).tolist()


TIMES = (
    "2020-01-31T23:00", "2020-01-31 23", "2020-01-31", "2020-02-29", "2021-02-29", "2020-02-31", "2020-03-01 junk",
    "2020-03-01T25:00:00", "2020-03-01T23:60", "2020-03-01T23:59:60", "2020-03-01T23:59:59.123", "2020-03-01T23:59:59.",
    "2020-03-01T23:59:59.1x2", "2020-03-01T23:59:59Z", "2020-03-01 23:59:59+02:00", "2020-03-01 23:59:59+00",
    "2020-00-10", "2020-13-10", "2020-04-31", "0000-01-01", "2020-03-01T10:0", "2020-03-01T", "2100-02-29", "2020-3-1",
)  # fmt: skip


def test_texts_of_times_are_read_alike_in_sql():
    """Times without seconds were midnight, and days that there are not had answers."""
    dates = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(400) * 5, unit="h")
    table = pd.DataFrame({"date": dates, "z": np.arange(400) % 7})
    model = opttree.TAORegressor(1, leaves="linear", leaf_shrinkage=0.0, floor=False, random_state=0)
    query = export.to_sql(model.fit(table, np.arange(400.0) ** 1.5))
    for text in TIMES:
        rows = pd.DataFrame({"date": [text], "z": [1.0]})
        try:
            expected = model.predict(rows)[0]
        except ValueError:
            expected = np.nan
        for run in (in_sqlite, in_duckdb):
            found = run(rows, query).iloc[0, 0]
            np.testing.assert_allclose(np.nan if found is None else found, expected, rtol=1e-9, err_msg=text)


def test_levels_that_programs_cannot_tell_apart_are_refused(tmp_path):
    """Whole numbers beyond 2**53 had the answer of another level."""
    ids = 2**53 + np.arange(4)
    table = pd.DataFrame({"id": np.tile(ids, 100), "z": np.arange(400.0) % 7})
    model = opttree.TAORegressor(2, splits="axis", random_state=0, categorical_features=["id"])
    model.fit(table, np.tile([0.0, 5.0, -3.0, 9.0], 100))
    fast, rows = opttree.compile(model), table[:4]
    assert fast.backend == "numba"
    np.testing.assert_allclose([fast.predict_one(row) for row in rows.to_dict("records")], model.predict(rows), **CLOSE)
    for write in (lambda: export.to_c(model, tmp_path), lambda: opttree.compile(model, "c")):
        with pytest.raises(ValueError, match="column 'id' must have whole numbers that double precision has"):
            write()
    half = np.array(["a", "bad\ud800"], object)
    table = pd.DataFrame({"text": half[np.arange(40) % 2], "z": np.arange(40.0)}, dtype=object)
    model = opttree.TAORegressor(1, splits="axis", random_state=0).fit(table, np.arange(40.0) % 2)
    assert opttree.compile(model).predict_one({"text": half[1], "z": 0.0}) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="column 'text' must have levels that UTF-8 can write"):
        export.to_c(model, tmp_path)
    table["text"] = np.where(table["text"] == "a", "a", "b\0c")
    model.fit(table, np.arange(40.0) % 2)
    with pytest.raises(ValueError, match="no names and levels with a zero byte for SQL"):
        export.to_sql(model)


def test_rules_have_brackets_around_or():
    table = pd.DataFrame({"a": [1.0, None, 3.0, 4.0] * 10, "b": np.tile([0.0, 0.0, 1.0, 1.0], 10)})
    model = opttree.TAORegressor(2, splits="axis", random_state=0).fit(table, table["a"].fillna(0.0) * table["b"])
    rules = export.to_rules(model)["rule"]
    assert any("(a <= 3.5 or missing)" in rule for rule in rules)


def test_durations_are_read_alike():
    table = pd.DataFrame({"d": pd.to_timedelta(np.arange(100), unit="h")})
    model = opttree.TAORegressor(1, splits="axis", random_state=0).fit(table, np.arange(100) > 50)
    fast = opttree.compile(model)
    assert [fast.predict_one({"d": d}) for d in table["d"][::9]] == pytest.approx(model.predict(table[::9]))


def test_saved_models_refuse_the_numbers_that_estimators_refuse(tmp_path):
    a = np.random.default_rng(0).normal(size=100)
    model = opttree.TAORegressor(2, random_state=0).fit(np.c_[a, a**2], np.where(a > 0.0, 1.0, 3.0))
    opttree.save(model, tmp_path / "model.json")
    for there in (model, opttree.load(tmp_path / "model.json")):
        with pytest.raises(ValueError, match=r"X must hold numbers of at most 1e\+150 in size; got 1e\+308"):
            there.predict([[1e308, 1.0]])
    named = opttree.TAORegressor(2, random_state=0).fit(pd.DataFrame({"a": a, "b": a**2}), a)
    with pytest.raises(ValueError, match="X column 'b' must hold numbers of at most"):
        named.predict(pd.DataFrame({"a": [0.0], "b": [1e308]}))
    table = pd.DataFrame({"a": [1.0, None] * 20, "id": 2**53 + np.arange(40), "city": ["u", "v"] * 20})
    with pytest.raises(ValueError, match="X column 'id' must vary by more than 1e-12"):
        opttree.TAORegressor(1).fit(table, a[:40])


def test_names_of_features_differ():
    table = pd.DataFrame({"a": [1.0, np.nan] * 20, "a=missing": np.arange(40.0)})
    names = opttree.TableEncoder().fit(table, np.arange(40.0)).get_feature_names_out().tolist()
    assert names == ["a", "a=missing'", "a=missing"]
