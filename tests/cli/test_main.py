"""The command line, in process."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

import opttree
from opttree import TAORegressor, io, load, save
from opttree.cli.main import main
from tests.export_models import table_classes


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["u", "v", "w"])
    frame["y"] = np.where(frame.u > 0, frame.v, 3.0)
    frame["label"] = np.where(frame.u + frame.v > 0, "up", "down")
    frame.drop(columns="label").to_csv(tmp_path / "number.csv", index=False)
    frame.drop(columns="y").to_csv(tmp_path / "label.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    "method", ["tao", "tao-c", "tao-l", "tao-axis", "get", "get-linear", "srt", "orrt", "sdtr", "ort", "ort-l"]
)
@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_fit_predict_show(csv, capsys, method, suffix):
    model = str(csv / f"m.{suffix}")
    fit = ["fit", str(csv / "number.csv"), "--target", "y", "--method", method, "--depth", "2", "--out", model]
    assert main(fit) == 0
    assert "training R2" in capsys.readouterr().out
    assert main(["predict", model, str(csv / "number.csv"), "--out", str(csv / "p.csv")]) == 0
    predicted = pd.read_csv(csv / "p.csv")
    assert list(predicted.columns) == ["y"]
    frame = pd.read_csv(csv / "number.csv")
    np.testing.assert_allclose(predicted["y"], load(model).predict(frame), rtol=1e-12)
    assert main(["predict", model, str(csv / "number.csv")]) == 0
    assert capsys.readouterr().out.startswith("y\n")
    assert main(["show", model]) == 0
    assert "if " in capsys.readouterr().out
    assert main(["show", model, "--png", str(csv / "tree.png")]) == 0
    assert (csv / "tree.png").read_bytes().startswith(b"\x89PNG")


def test_classification_and_probabilities(csv, capsys):
    model = str(csv / "m.json")
    assert main(["fit", str(csv / "label.csv"), "--target", "label", "--out", model, "--verbose"]) == 0
    assert "training accuracy" in capsys.readouterr().out
    assert main(["predict", model, str(csv / "label.csv"), "--proba"]) == 0
    assert capsys.readouterr().out.startswith("p(down),p(up)\n")


@pytest.fixture
def raw(tmp_path):
    """A table with strings, blanks and dates, as CSV and as Parquet, and its rows."""
    X, y = table_classes(200)
    frame = X.assign(answer=y)
    frame.to_csv(tmp_path / "raw.csv", index=False)
    frame.to_parquet(tmp_path / "raw.parquet")
    return tmp_path, frame


@pytest.mark.parametrize(("suffix", "method"), [("csv", "tao-axis"), ("parquet", "boosted")])
def test_raw_tables_from_fit_to_explanation(raw, capsys, suffix, method):
    folder, frame = raw
    data, model = str(folder / f"raw.{suffix}"), str(folder / "m.json")
    fit = ["fit", data, "--target", "answer", "--method", method, "--depth", "3", "--out", model]
    assert main(fit) == 0
    out = capsys.readouterr().out
    assert "training accuracy" in out
    assert "held-out accuracy" in out
    assert "on 150 rows" in out
    assert "on 50 rows" in out
    assert main([*fit, "--test", "0"]) == 0
    assert "held-out" not in capsys.readouterr().out
    assert main(["predict", model, data, "--out", str(folder / "p.csv")]) == 0
    assert list(pd.read_csv(folder / "p.csv")["answer"]) == list(load(model).predict(frame))
    assert main(["explain", model, data, "--rows", "2"]) == 0
    explained = capsys.readouterr().out
    assert explained.count("answer = ") == 2
    for name in (
        "m.onnx",
        "m.sql",
        "code.c",
        "copy.json",
        *(["m.dot", "m.csv", "m.html"] if method == "tao-axis" else []),
    ):
        assert main(["export", model, "--out", str(folder / name)]) == 0, name
        assert (folder / name).stat().st_size > 500
    capsys.readouterr()
    if method == "tao-axis":
        assert main(["explain", model, data, "--rows", "1", "--counterfactual"]) == 0
        assert "nearest row with another answer: " in capsys.readouterr().out
    else:
        assert main(["explain", model, data, "--counterfactual"]) == 2
        assert main(["export", model, "--out", str(folder / "m.dot")]) == 2


@pytest.mark.filterwarnings("ignore::opttree.TableWarning")
def test_raw_tables_are_compared_and_solved(raw, capsys):
    folder, _frame = raw
    data, out = str(folder / "raw.csv"), str(folder / "out")
    compare = ["compare", data, "--target", "answer", "--methods", "cart,tao-axis", "--depth", "2", "--cv", "2"]
    assert main([*compare, "--out", out]) == 0
    table = pd.read_csv(folder / "out" / "compare_raw_depth2.csv", index_col=0)
    assert (table["test"] > 0.4).all()
    solve = ["solve", data, "--target", "answer", "--depth", "1", "--out", out, "--save", str(folder / "t.json")]
    assert main(solve) == 0
    assert "Proved optimal" in capsys.readouterr().out
    assert main(["show", str(folder / "t.json")]) == 0


def test_what_the_target_is_taken_for_is_said(tmp_path, capsys):
    frame = pd.DataFrame({"x": np.arange(40.0), "y": np.repeat([0, 1], 20)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    fit = ["fit", str(tmp_path / "a.csv"), "--target", "y", "--out", str(tmp_path / "m.json")]
    assert main(fit) == 0
    out = capsys.readouterr().out
    assert "y is 0 or 1: classification (--task regression for numbers)" in out
    assert "tao-c, classification" in out
    assert main([*fit, "--task", "regression"]) == 0
    assert "tao-c, regression" in capsys.readouterr().out
    codes = ["fit", str(tmp_path / "a.csv"), "--target", "y", "--categorical", "x", "--out", str(tmp_path / "m.json")]
    assert main(codes) == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ["fit", "{data}", "--target", "y", "--out", "{folder}/m.pkl"],
            "--out must end in .json or .npz: models are never",
        ),
        (["fit", "{data}", "--target", "y", "--out", "{folder}/m.json", "--test", "1"], "--test must be at least 0"),
        (["compare"], "compare takes a FILE with --target, or --data NAME; got neither"),
        (["compare", "{data}"], "--target must name the column"),
        (["compare", "{data}", "--target", "y", "--data", "iris"], "got both"),
        (["export", "{folder}/m.json", "--out", "{folder}/m.xyz"], "--out must end in one of"),
        (["explain", "{folder}/m.json", "{data}", "--rows", "0"], "--rows must be >= 1; got 0"),
        (["explain", "{folder}/m.json", "{folder}/absent.csv"], "must be a readable CSV file"),
    ],
)
def test_new_commands_refuse_in_one_sentence(csv, capsys, command, message):
    data = str(csv / "number.csv")
    main(["fit", data, "--target", "y", "--out", str(csv / "m.json")])
    capsys.readouterr()
    assert main([part.format(data=data, folder=csv) for part in command]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_datasets_are_listed(capsys, monkeypatch):
    monkeypatch.delenv("OPTTREE_DATA", raising=False)
    assert main(["datasets"]) == 0
    assert "diabetes" in capsys.readouterr().out


def write(path, text):
    path.write_text(text)
    return str(path)


def bad_commands(folder):
    fit = ["--target", "y", "--out", str(folder / "m.json")]
    number = str(folder / "number.csv")
    table = {"nan": "x,y\n1,2\n,3\n", "inf": "x,y\n1,2\ninf,3\n", "text": "x,y\na,2\nb,3\n", "one": "x,y\n1,2\n"}
    paths = {name: write(folder / f"{name}.csv", text) for name, text in table.items()}
    return {
        "inf": (["fit", paths["inf"], *fit], "X column 'x' must be finite"),
        "one row": (["fit", paths["one"], *fit], "at least two rows"),
        "empty": (["fit", write(folder / "none.csv", "x,y\n"), *fit], "at least one row"),
        "no name": (
            ["fit", write(folder / "wide.csv", "x,z,y\n1,2,3,4\n1,3,3,6\n"), *fit],
            "must have no more values in a row than names in its header",
        ),
        "huge depth": (
            ["fit", number, *fit, "--depth", "9" * 20],
            f"max_depth must be an integer of at most 64 bits; got {'9' * 20}",
        ),
        "no columns": (["fit", write(folder / "y.csv", "y\n1\n2\n"), *fit], "one column besides the target"),
        "no file": (["fit", str(folder / "absent.csv"), *fit], "must be a readable CSV file"),
        "unknown column": (["fit", number, "--target", "q", "--out", "m.json"], "--target must be a column"),
        "missing target": (["fit", write(folder / "t.csv", "x,y\n1,\n2,3\n"), *fit], "no missing values; got 1"),
        "depth 0": (["fit", number, *fit, "--depth", "0"], "--depth must be a whole number >= 1, or auto; got 0"),
        "no folder": (
            ["fit", number, "--target", "y", "--out", "absent/m.json"],
            "--out must be a file in an existing",
        ),
        "time limit": (["fit", number, *fit, "--time-limit", "0"], "time_limit must be > 0"),
        "no model": (["show", str(folder / "absent.json")], "no such file"),
        "not a model": (["show", number], "damaged or not a model"),
        "truncated": (["show", write(folder / "cut.json", '{"format": "optt')], "damaged or not a model"),
        "version": (
            ["show", write(folder / "old.json", '{"format": "opttree.Model", "version": 0}')],
            "must have model version 1",
        ),
        "unknown data": (["compare", "--data", "diabetis"], "near matches: diabetes"),
        "unknown method": (["compare", "--data", "iris", "--methods", "magic"], "--methods must be among"),
        "folds": (["compare", "--data", "iris", "--cv", "1"], "--cv must be >= 2; got 1"),
        "compare depth": (
            ["compare", "--data", "iris", "--depth", "0"],
            "--depth must be a whole number >= 1, or auto; got 0",
        ),
    }


def test_bad_input_is_one_sentence_and_exit_code_2(csv, capsys, monkeypatch):
    import sklearn.datasets

    def no_network(*args, **options):
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", no_network)
    for name, (command, message) in bad_commands(csv).items():
        assert main(command) == 2, name
        err = capsys.readouterr().err
        assert message in err, name
        assert err.startswith("opttree: ")
        assert len(err.splitlines()) == 1
    assert not (csv / "m.json").exists()


@pytest.mark.parametrize("column", ["x", "y"])
def test_no_row_may_be_infinite_held_out_or_not(tmp_path, capsys, column):
    """The model was saved, and then its score on the rows held out failed."""
    table = pd.DataFrame({"x": np.arange(8.0), "y": np.arange(8.0)})
    for row in (0, 3, 7):
        rows = table.copy()
        rows.loc[row, column] = -np.inf
        rows.to_csv(tmp_path / "rows.csv", index=False)
        out = str(tmp_path / "m.json")
        assert main(["fit", str(tmp_path / "rows.csv"), "--target", "y", "--out", out, "--test", "0.5"]) == 2
        assert f"column '{column}' must be finite" in capsys.readouterr().err
        assert not (tmp_path / "m.json").exists()


def test_prediction_names_a_missing_column(csv, capsys):
    model = str(csv / "m.json")
    main(["fit", str(csv / "number.csv"), "--target", "y", "--out", model])
    capsys.readouterr()
    assert main(["predict", model, write(csv / "few.csv", "q,r\n1,2\n")]) == 2
    assert "got none called 'u'" in capsys.readouterr().err


def test_predictions_and_pictures_are_left_at_an_interrupt(tmp_path, monkeypatch, capsys):
    X, y = make_friedman1(100, random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model, rows, out = (str(tmp_path / name) for name in ("model.json", "rows.csv", "out.png"))
    io.save(TAORegressor(2, random_state=0).fit(frame, y), model)
    ended = threading.Event()

    def forever(*_args, **_options):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(io.Model, "predict", forever)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", forever)
    for command in (["predict", model, rows, "--out", out], ["show", model, "--png", out]):
        ended.clear()
        assert main(command) == 130
        assert ended.wait(60.0)
        assert "interrupted" in capsys.readouterr().err
        assert sorted(file.name for file in tmp_path.iterdir()) == ["model.json", "rows.csv"]


def test_the_command_prints_costs(capsys):
    assert main(["cost", "10000", "20", "4", "get", "tao-c"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    cost = opttree.estimate_cost("get", 10_000, 20, 4)
    assert first.split() == ["get", f"{cost.seconds:.3g}", "s", f"{cost.bytes / 1e6:.3g}", "MB"]
    assert second.startswith("tao-c ")
    assert main(["cost", "0", "20", "4"]) == 2
    assert "n must be an integer >= 1; got 0" in capsys.readouterr().err


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


@pytest.fixture
def saved(table, tmp_path):
    save(TAORegressor(2, leaves="linear", random_state=0).fit(*table), tmp_path / "model.npz")
    save(TAORegressor(2, leaves="linear", random_state=0).fit(*table), tmp_path / "model.json")
    return tmp_path


@pytest.mark.parametrize("option", ["--depth", "--seed"])
def test_numbers_of_the_command_line_beyond_all_bounds(option, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("a,b,target\n1,2,3\n4,5,6\n7,8,1\n1,1,1\n")
    values = {"--depth": "9" * 20, "--seed": "-1"}
    words = {
        "--depth": "max_depth must be an integer of at most 64 bits",
        "--seed": "random_state must be an integer >= 0",
    }
    arguments = ["fit", str(tmp_path / "a.csv"), "--target", "target", "--out", str(tmp_path / "m.json")]
    assert main([*arguments, option, values[option]]) == 2
    assert words[option] in capsys.readouterr().err


def test_the_offending_text_is_shown_and_no_more_than_a_line_of_it(tmp_path, capsys):
    for text, shown in (("five", "'five'"), ("x" * 200_000, "xxx...")):
        (tmp_path / "a.csv").write_text("a,b,target\n1,2,3\n2,5,4\n1,8,9\n")
        (tmp_path / "b.csv").write_text(f"a,b,target\n1,2,3\n4,{text},6\n7,8,1\n")
        assert main(["fit", str(tmp_path / "a.csv"), "--target", "target", "--out", str(tmp_path / "m.json")]) == 0
        code = main(["predict", str(tmp_path / "m.json"), str(tmp_path / "b.csv")])
        message = capsys.readouterr().err
        assert code == 2
        assert "X column 'b' must hold numbers, as in training; got " in message
        assert shown in message
        assert len(message) < 250


def test_a_picture_that_cannot_be_drawn_leaves_nothing(saved, tmp_path, capsys):
    before = sorted(tmp_path.rglob("*"))
    assert main(["show", str(saved / "model.json"), "--png", str(tmp_path / "absent" / "tree.png")]) == 2
    assert main(["show", str(saved / "model.json"), "--png", str(tmp_path / "tree.xyz")]) == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_policies_and_survival_times_are_fitted(tmp_path, capsys, rng):
    X = rng.normal(size=(300, 2))
    table = pd.DataFrame({"a": X[:, 0], "kind": np.where(X[:, 1] > 0, "u", "v"), "r0": X[:, 0], "r1": -X[:, 0]})
    table["event"], table["time"] = X[:, 1] < 1.0, rng.exponential(np.exp(-X[:, 0]))
    table.drop(columns=["event", "time"]).to_csv(tmp_path / "rewards.csv", index=False)
    table.drop(columns=["r0", "r1"]).to_csv(tmp_path / "times.csv", index=False)
    data = {"policy": "rewards.csv", "survival": "times.csv"}
    for task, target, method in (
        ("policy", "r0,r1", []),
        ("survival", "event,time", []),
        ("survival", "event,time", ["--method", "forest", "--depth", "3"]),
    ):
        command = ["fit", str(tmp_path / data[task]), "--task", task, "--target", target, "--time-limit", "4", *method]
        assert main([*command, "--out", str(tmp_path / "model.json")]) == 0
        words = capsys.readouterr().out
        assert ("held-out mean reward" if task == "policy" else "held-out C index") in words
        answers = opttree.load(tmp_path / "model.json").predict(table[["a", "kind"]])
        assert answers.shape == (300,)
        if task == "policy":  # actions are called by their columns
            assert set(answers.tolist()) == {"r0", "r1"}
    table["event"] = table["time"] == table["time"].min()  # rows without an event are compared with none
    table[["a", "event", "time"]].to_csv(tmp_path / "one.csv", index=False)
    command = ["fit", str(tmp_path / "one.csv"), "--task", "survival", "--target", "event,time", "--time-limit", "4"]
    codes = [main([*command, "--out", str(tmp_path / "one.json"), "--seed", seed]) for seed in "0123"]
    assert 0 in codes  # others: no event among the rows that train
    assert "held-out C index none (y must have two rows that can be compared" in capsys.readouterr().out
    for task, target, words in (
        ("policy", "r0", "two or more rewards"),
        ("policy", "r0,nothing", "must be columns of"),
        ("survival", "time", "EVENT,TIME"),
    ):
        command = ["fit", str(tmp_path / data[task]), "--task", task, "--target", target]
        assert main([*command, "--out", str(tmp_path / "model.json")]) == 2
        assert words in capsys.readouterr().err


def test_labels_that_are_signs_come_back(tmp_path, capsys):
    table = pd.DataFrame({"a": np.arange(40.0), "sign": np.where(np.arange(40) < 20, "+", "-")})
    table["formula"] = np.where(np.arange(40) < 20, "low", "-high")
    table.to_csv(tmp_path / "rows.csv", index=False)
    model, out = str(tmp_path / "m.json"), tmp_path / "p.csv"
    for target in ("sign", "formula"):
        command = [
            "fit",
            str(tmp_path / "rows.csv"),
            "--target",
            target,
            "--drop",
            "formula" if target == "sign" else "sign",
        ]
        assert main([*command, "--method", "tao-axis", "--test", "0", "--out", model]) == 0
        capsys.readouterr()
        assert main(["predict", model, str(tmp_path / "rows.csv"), "--out", str(out)]) == 0
        said, found = capsys.readouterr().err, pd.read_csv(out, dtype=str)[target]
        if target == "sign":
            assert said == ""
            assert (found == table["sign"]).all()
        else:
            assert "'-high' is written as \"'-high\"" in said
            assert (found.str.removeprefix("'") == table["formula"]).all()
