"""The command line, in process and, once, as a command."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from opttree import load
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


def test_compare_prints_a_table_and_draws_a_figure(tmp_path, capsys):
    for name in ("diabetes", "iris"):
        assert main(["compare", "--data", name, "--depth", "2", "--cv", "2", "--out", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        for word in ("cart", "rf", "tao-c", "tao-l", "train", "test", "objective", "seconds", "parameters"):
            assert word in out
        table = pd.read_csv(tmp_path / f"compare_{name}_depth2.csv", index_col=0)
        assert table.loc["tao-c", "objective"] > 0
        assert np.isnan(table.loc["rf", "objective"])
        assert (tmp_path / f"compare_{name}_depth2.png").exists()


def test_forests_can_be_compared_and_saved(csv, tmp_path, capsys):
    assert main(["compare", "--data", "diabetes", "--methods", "forest", "--cv", "2", "--out", str(tmp_path)]) == 0
    assert pd.read_csv(tmp_path / "compare_diabetes_depth4.csv", index_col=0).loc["forest", "parameters"] > 1000
    model = str(csv / "m.json")
    assert main(["fit", str(csv / "number.csv"), "--target", "y", "--method", "forest", "--out", model]) == 0
    assert "30 trees" in capsys.readouterr().out
    assert main(["predict", model, str(csv / "number.csv"), "--out", str(csv / "p.csv")]) == 0
    frame = pd.read_csv(csv / "number.csv")
    np.testing.assert_allclose(pd.read_csv(csv / "p.csv")["y"], load(model).predict(frame))
    assert main(["show", model]) == 0
    assert "a forest of 30 trees" in capsys.readouterr().out
    assert main(["show", model, "--tree", "3"]) == 0
    assert "if " in capsys.readouterr().out
    assert main(["show", model, "--tree", "30"]) == 2


@pytest.fixture
def raw(tmp_path):
    """A table with strings, blanks and dates, as CSV and as Parquet, and its rows."""
    X, y = table_classes(200)
    frame = X.assign(answer=y)
    frame.to_csv(tmp_path / "raw.csv", index=False)
    frame.to_parquet(tmp_path / "raw.parquet")
    return tmp_path, frame


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("method", ["tao-axis", "boosted"])
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
        "depth 0": (["fit", number, *fit, "--depth", "0"], "max_depth must be an integer >= 1 or 'cv'; got 0"),
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
        "compare depth": (["compare", "--data", "iris", "--depth", "0"], "--depth must be >= 1; got 0"),
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


def test_prediction_names_a_missing_column(csv, capsys):
    model = str(csv / "m.json")
    main(["fit", str(csv / "number.csv"), "--target", "y", "--out", model])
    capsys.readouterr()
    assert main(["predict", model, write(csv / "few.csv", "u,v\n1,2\n")]) == 2
    assert "got none called 'w'" in capsys.readouterr().err


def test_as_a_command(csv):
    command = [sys.executable, "-m", "opttree.cli"]
    bad = subprocess.run([*command, "show", "absent.json"], capture_output=True, text=True, check=False)
    assert (bad.returncode, len(bad.stderr.splitlines())) == (2, 1)
    assert subprocess.run([*command, "fit"], capture_output=True, check=False).returncode == 2
    assert "opttree" in subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("formulation", ["hyperflow", "flow"])
def test_solve_prints_a_proof_and_saves_the_trace(csv, capsys, formulation):
    out, model = csv / "out", str(csv / "tree.json")
    program = csv / "program.mps"
    command = ["solve", str(csv / "number.csv"), "--target", "y", "--depth", "1", "--n-thresholds", "4"]
    command += ["--formulation", formulation, "--loss", "absolute", "--out", str(out), "--save", model]
    assert main([*command, "--write", str(program)]) == 0
    text = capsys.readouterr().out
    for word in ("incumbent", "bound", "gap", "Proved optimal.", "Candidate splits: at most 4 per feature"):
        assert word in text
    frame = pd.read_csv(out / "solve_number_depth1.csv")
    assert {"seconds", "best", "bound", "nodes"} <= set(frame.columns)
    assert (out / "solve_number_depth1.png").read_bytes().startswith(b"\x89PNG")
    assert "ROWS" in program.read_text()
    assert load(model).predict(pd.read_csv(csv / "number.csv")).shape == (120,)


def test_solve_takes_labels_names_and_limits(csv, capsys, tmp_path):
    label = ["solve", str(csv / "label.csv"), "--target", "label", "--out", str(tmp_path), "--cp", "0.01"]
    assert main([*label, "--method", "local"]) == 0
    assert "bound none" in capsys.readouterr().out
    assert main([*label, "--method", "local+mip", "--max-splits", "2"]) == 0
    assert "Proved optimal" in capsys.readouterr().out
    assert main(["solve", "iris", "--max-features", "1", "--out", str(tmp_path)]) == 0
    assert "Candidate splits" in capsys.readouterr().out  # of the MIP: branch and bound has no such limit
    assert main(["solve", "iris", "--depth", "3", "--out", str(tmp_path)]) == 0
    assert "bound 0.0066666667, gap 0 %" in (printed := capsys.readouterr().out)
    assert "Proved optimal." in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--depth", "0"], "max_depth must be an integer >= 1"),
        (["--splits", "oblique"], "oblique splits of 4 features have too many sides to list"),
        (["--n-thresholds", "0"], "n_thresholds must be an integer >= 1 or 'all'; got 0"),
        (["--n-thresholds", "some"], "n_thresholds must be an integer >= 1 or 'all'; got 'some'"),
        (["--leaves", "linear"], "--leaves must be constant for classification"),
        (["--write", "model.txt"], "must end in .lp or .mps"),
        (["--method", "local", "--max-features", "1"], "--max-features is for --method mip; got 1 for local"),
        (["--method", "bnb", "--max-features", "1"], "--max-features is not for --method bnb; got 1"),
        (["--method", "bnb", "--splits", "oblique"], "bnb cannot solve this problem: its splits are oblique"),
        (["--gap", "-1"], "gap must be a finite number >= 0"),
        (["--time-limit", "0"], "time_limit must be > 0"),
        (["--target", "x", "--save", "no/where.json"], "--save must be a file in an existing folder"),
    ],
)
def test_solve_refuses_in_one_sentence(options, message, capsys, tmp_path):
    assert main(["solve", "iris", "--out", str(tmp_path), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert main(["solve", "no-such-file.csv", "--target", "y"]) == 2
