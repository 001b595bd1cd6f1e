"""opttree solve: proofs, programs that are written, models that are saved."""

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from opttree import MIPTreeProblem, ORTRegressor, TAORegressor, datasets, io, load, save
from opttree.cli.main import main


def test_writing_means_one_thing_in_python_and_on_the_command_line(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 2)).round(1), columns=["a", "b"]).assign(y=rng.normal(size=30))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for extra, complete in (([], True), (["--reduced"], False)):
        command = ["solve", str(tmp_path / "rows.csv"), "--target", "y", "--out", str(tmp_path / "out"), *extra]
        assert main([*command, "--write", str(tmp_path / "theirs.lp")]) == 0
        problem, _scaling = ORTRegressor(2, min_samples_leaf=1).state(
            frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
        )
        MIPTreeProblem(problem).write(tmp_path / "ours.lp", complete=complete)
        theirs, ours = ((tmp_path / name).read_text().splitlines() for name in ("theirs.lp", "ours.lp"))
        assert len(theirs) == len(ours)
        assert "reduced" in theirs[0] or complete


def test_building_and_writing_end_with_the_time_limit(tmp_path, auto_mpg, capsys):
    path = tmp_path / "large.mps"
    main(["solve", "friedman1", "--depth", "1", "--n-thresholds", "1", "--out", str(tmp_path)])  # compiles
    capsys.readouterr()
    began = time.perf_counter()
    code = main(
        ["solve", "auto_mpg", "--depth", "3", "--write", str(path), "--time-limit", "2", "--out", str(tmp_path)]
    )
    assert time.perf_counter() - began < 15.0
    out, err = capsys.readouterr()
    assert code == 2
    assert "--time-limit 2 was over before it was built and written" in err
    assert "incumbent" in out
    assert not list(tmp_path.glob("*.mps"))


def test_no_tree_is_said_on_the_command_line_with_a_code_of_its_own(tmp_path, capsys):
    command = ["solve", "friedman1", "--depth", "1", "--n-thresholds", "2", "--out", str(tmp_path)]
    assert main([*command, "--require", "x0", "--require", "x1"]) == 3
    assert "No tree satisfies the constraints" in capsys.readouterr().out
    assert main([*command, "--require", "x0", "--forbid", "x3"]) == 0
    assert "x0 <=" in capsys.readouterr().out
    assert main([*command, "--forbid", "y"]) == 2
    assert "--forbid must name a column" in capsys.readouterr().err


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["u", "v", "w"])
    frame["y"] = np.where(frame.u > 0, frame.v, 3.0)
    frame["label"] = np.where(frame.u + frame.v > 0, "up", "down")
    frame.drop(columns="label").to_csv(tmp_path / "number.csv", index=False)
    frame.drop(columns="y").to_csv(tmp_path / "label.csv", index=False)
    return tmp_path


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
        (["--depth", "0"], "--depth must be a whole number >= 1; got 0"),
        (
            ["--splits", "oblique", "--formulation", "hyperflow"],
            "oblique splits of 4 features have too many sides to list",
        ),
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


@pytest.mark.parametrize("level", ["1", "1.0", "1.5"])
def test_levels_that_look_like_numbers_are_known_where_others_are_missing(tmp_path, level):
    code = np.array([level, "2", "a"] * 20)
    y = np.where(code == level, 3.0, 0.0)
    pd.DataFrame({"code": code, "y": y}).to_csv(tmp_path / "all.csv", index=False)
    saved, out = str(tmp_path / "tree.json"), str(tmp_path / "out")
    main(["solve", str(tmp_path / "all.csv"), "--target", "y", "--depth", "1", "--save", saved, "--out", out])
    (tmp_path / "some.csv").write_text(f'code\n{level}\n2\n""\n{level}\n')  # pandas reads floats
    answers = io.load(saved).predict(datasets.read_csv(tmp_path / "some.csv"))
    np.testing.assert_allclose(answers, [3.0, 0.0, 0.0, 3.0], atol=1e-9)
    frame = pd.DataFrame({"a": ["b_c", "x"], "a_b": ["c", "y"]})
    with pytest.raises(ValueError, match=r"columns must have different names .* got 'a_b_c' twice"):
        datasets.Dataset(frame, pd.Series([1.0, 2.0]), "regression", "twice", "").encoded()


def test_names_travel_from_the_command_line_to_a_prediction(tmp_path, capsys):
    rng = np.random.default_rng(0)
    colour, size = rng.choice(["red", "blue green", ""], 80), rng.normal(size=80).round(2)
    y = np.where(colour == "red", 2.0, 0.0) + size
    frame = pd.DataFrame({"colour": colour, "size": np.where(rng.random(80) < 0.1, np.nan, size), "price": y})
    frame.to_csv(tmp_path / "raw.csv", index=False)
    raw, saved, out = (str(tmp_path / name) for name in ("raw.csv", "tree.json", "out"))
    assert main(["solve", raw, "--target", "price", "--save", saved, "--out", out]) == 0
    assert "colour in {" in capsys.readouterr().out
    names = json.loads(Path(saved).read_text())["feature_names"]
    assert names == ["mean(colour)", "size", "size"]  # missing sizes below and above all others
    assert main(["predict", saved, raw, "--out", str(tmp_path / "answers.csv")]) == 0
    answers = pd.read_csv(tmp_path / "answers.csv")
    assert list(answers.columns) == ["price"]
    model = io.load(saved)
    np.testing.assert_allclose(answers["price"], model.tree.predict(model.encoding.transform(frame)))
    for column in ("size", "colour"):
        with pytest.raises(ValueError, match=f"got none called '{column}'"):
            io.load(saved).predict(frame.drop(columns=column))
    with pytest.raises(ValueError, match="got none called 'size_max'"):
        io.Model(model.tree.with_names(None), ("size_max", "a", "b")).predict(frame)


def test_any_solver_loss_and_side_constraint(tmp_path, csv, capsys):
    out = ["--out", str(tmp_path / "out")]
    command = ["solve", str(csv / "number.csv"), "--target", "y", *out]
    assert main([*command, "--solver", "TAO(max_iter=2)", "--loss", "quantile", "--quantile", "0.9"]) == 0
    assert "Quantile(q=0.9)" in capsys.readouterr().out
    assert main([*command, "--solver", "TAO(max_iter=2)", "--gap", "0.1"]) == 2
    assert "--solver has its options in its own text" in capsys.readouterr().err
    assert main([*command, "--solver", "print(1)"]) == 2
    assert "--solver must state a solver" in capsys.readouterr().err
    for text, words in (
        ("Foo(1)", "--constraint must state a side constraint; got 'Foo(1)'"),
        ("ForbidSplit('nothing')", "a column must be one of u, v, w; got 'nothing'"),
        ("MaxSplits(1, k=2)", "multiple values for argument 'k'"),
    ):
        assert main([*command, "--constraint", text]) == 2
        assert words in capsys.readouterr().err
    assert main([*command, "--depth", "1", "--constraint", "ForbidSplit('u')", "--constraint", "MaxSplits(1)"]) == 0
    assert "u <=" not in capsys.readouterr().out
    assert main([*command, "--constraint", "FeatureCost({'u': 5.0, 'v': 1.0}, 2.0)", "--time-limit", "5"]) == 0
    assert "u <=" not in capsys.readouterr().out


def test_rows_without_a_target_may_be_left_out(tmp_path, capsys):
    frame = pd.DataFrame({"a": np.arange(40.0), "y": [None, None, *(np.arange(38) // 10 + 0.5)]})
    frame.to_csv(tmp_path / "blank.csv", index=False)
    out, saved = ["--out", str(tmp_path / "out")], str(tmp_path / "tree.json")
    command = ["solve", str(tmp_path / "blank.csv"), "--target", "y", "--depth", "1", "--save", saved, *out]
    assert main(command) == 2
    assert "--skip-blank-targets leaves these rows out" in capsys.readouterr().err
    assert main([*command, "--skip-blank-targets"]) == 0
    certify = ["certify", saved, str(tmp_path / "blank.csv"), "--target", "y", "--skip-blank-targets"]
    assert main([*certify, "--out", str(tmp_path / "told.json")]) == 0
    assert "Proved optimal" in capsys.readouterr().out


def test_constraints_are_of_all_features_of_a_column(tmp_path, capsys):
    """A column with blanks makes two features of its name, a text column another name."""
    rng = np.random.default_rng(0)
    n = 120
    test, age = np.where(rng.random(n) < 0.4, np.nan, rng.integers(1, 4, n)), rng.integers(20, 60, n)
    city = rng.choice(["Bonn", "Ulm", "Kiel"], n)
    y = 40.0 * np.isnan(test) + 10.0 * (city == "Ulm") + 0.01 * age
    pd.DataFrame({"test": test, "age": age, "city": city, "y": y}).to_csv(tmp_path / "f.csv", index=False)
    command = ["solve", str(tmp_path / "f.csv"), "--target", "y", "--depth", "1", "--out", str(tmp_path / "out")]
    for options, split in (
        ([], "test missing"),
        (["--forbid", "test"], "city in"),
        (["--constraint", "FeatureCost({'test': 9}, 0)"], "city in"),
        (["--forbid", "test", "--constraint", "ForbidSplit('city')"], "age <="),
        (["--constraint", "Monotone('test')", "--require", "city"], "city in"),
    ):
        assert main([*command, *options]) == 0
        assert f"if {split}" in capsys.readouterr().out
    for options, words in (
        (["--require", "test"], "makes the features 0 and 1, and RequireSplit is for one of them"),
        (["--constraint", "PathCost({'test': 1}, 3)"], "each of which would be charged"),
        (["--constraint", "Monotone('city')"], "Monotone must be of a column of numbers; 'city' holds categories"),
    ):
        assert main([*command, *options]) == 2
        assert words in capsys.readouterr().err


def test_certify_says_how_far_a_saved_tree_is_from_the_best(tmp_path, csv, capsys):
    saved, told = tmp_path / "tree.json", tmp_path / "told.json"
    table = [str(csv / "number.csv"), "--target", "y"]
    command = ["solve", *table, "--depth", "2", "--constraint", "MaxFeatures(1)", "--out", str(tmp_path / "out")]
    assert main([*command, "--save", str(saved)]) == 0
    incumbent = capsys.readouterr().out.split("incumbent ")[1].split(",")[0]
    assert main(["certify", str(saved), *table, "--constraint", "MaxFeatures(1)", "--out", str(told)]) == 0
    out = capsys.readouterr().out
    assert f"this tree {float(incumbent):.8g}" in out
    found = json.loads(told.read_text())
    assert found["objective"] == pytest.approx(found["bound"], rel=1e-6)
    assert main(["certify", str(saved), *table, "--out", str(told)]) == 0
    assert "a better tree" in capsys.readouterr().out
    free = json.loads(told.read_text())
    assert free["objective"] == pytest.approx(found["objective"])
    assert free["bound"] < found["bound"]
    assert main(["certify", str(saved), *table, "--depth", "1"]) == 2
    assert "--depth must be at least that of the tree, 2; got 1" in capsys.readouterr().err
    assert main(["certify", str(saved), "diabetes"]) == 2
    assert "DATA must have the model's columns, u, v, w; got none called 'u'" in capsys.readouterr().err
    shuffled = tmp_path / "shuffled.csv"
    pd.read_csv(csv / "number.csv").assign(more=1.5)[["w", "y", "more", "u", "v"]].to_csv(shuffled, index=False)
    assert main(["certify", str(saved), str(shuffled), "--target", "y", "--out", str(told)]) == 0
    assert json.loads(told.read_text())["bound"] == pytest.approx(free["bound"])
    blank = pd.read_csv(csv / "number.csv")
    blank.loc[3, "v"] = np.nan
    blank.to_csv(shuffled, index=False)
    assert main(["certify", str(saved), str(shuffled), "--target", "y"]) == 2
    assert "column 'v' must have no blanks" in capsys.readouterr().err
    assert main(["certify", str(saved), str(csv / "label.csv"), "--target", "label"]) == 2
    assert "DATA must have a target as the tree's" in capsys.readouterr().err


def test_certify_says_that_its_rivals_keep_the_order_of_levels(tmp_path, capsys):
    kind = np.tile(["red", "green", "blue", "grey"], 30)
    frame = pd.DataFrame({"kind": kind, "x": np.random.default_rng(1).normal(size=120).round(1)})
    frame.assign(y=(kind == "red") * 2.0).to_csv(tmp_path / "one.csv", index=False)
    worth = {"red": 1.3, "grey": 1.0, "green": 0.0, "blue": 0.1}
    frame.assign(y=[worth[name] for name in kind]).to_csv(tmp_path / "other.csv", index=False)
    saved, out = str(tmp_path / "tree.json"), ["--out", str(tmp_path / "out")]
    assert main(["solve", str(tmp_path / "one.csv"), "--target", "y", "--depth", "1", "--save", saved, *out]) == 0
    capsys.readouterr()
    assert main(["certify", saved, str(tmp_path / "other.csv"), "--target", "y", "--refit"]) == 0
    said = capsys.readouterr().out
    assert "Of trees that keep the model's order of the levels of kind: Proved optimal among such trees." in said
    assert main(["solve", str(tmp_path / "other.csv"), "--target", "y", "--depth", "1", *out]) == 0
    best = float(capsys.readouterr().out.split("incumbent ")[1].split(",")[0])
    assert best < 0.2 * float(said.split("bound ")[1].split(",")[0])


def test_certify_takes_splits_and_leaves_from_the_tree(tmp_path, capsys):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(24, 2)), columns=["u", "v"])
    step = np.where(frame.u + frame.v > 0, 1.0, 0.0)
    frame.assign(y=step).to_csv(tmp_path / "step.csv", index=False)
    frame.assign(y=np.where(frame.u > 0.0, frame.v, -frame.v)).to_csv(tmp_path / "bent.csv", index=False)
    table, saved = str(tmp_path / "step.csv"), str(tmp_path / "tree.json")
    save(TAORegressor(1, floor=False, random_state=0).fit(frame, step), saved)
    assert main(["certify", saved, table, "--target", "y", "--task", "regression", "--time-limit", "5"]) == 0
    assert "oblique splits, constant leaves" in capsys.readouterr().out
    linear = ORTRegressor(1, leaves="linear").fit(frame, np.where(frame.u > 0.0, frame.v, -frame.v))
    save(linear, saved)
    assert main(["certify", saved, str(tmp_path / "bent.csv"), "--target", "y", "--time-limit", "5"]) == 0
    assert "axis splits, linear leaves" in capsys.readouterr().out


def test_formulations_are_chosen_by_the_side_constraints(tmp_path, csv, capsys):
    command = ["solve", str(csv / "number.csv"), "--target", "y", "--depth", "1", "--out", str(tmp_path / "out")]
    assert main([*command, "--constraint", "Monotone('u')", "--n-thresholds", "3", "--time-limit", "20"]) == 0
    assert "incumbent" in capsys.readouterr().out
    assert main([*command, "--solver", "TAO()", "--formulation", "flow"]) == 2
    assert "--solver goes with --formulation" in capsys.readouterr().err
    assert main(["certify", "nothing.json", "diabetes"]) == 2


def test_certify_reads_text_as_the_tree_does(tmp_path, capsys):
    rng = np.random.default_rng(1)
    kind = rng.choice(["red", "green", "blue"], 90)
    frame = pd.DataFrame({"kind": kind, "x": rng.normal(size=90).round(1)})
    frame.assign(y=(kind == "red") * 2.0 + frame["x"]).to_csv(tmp_path / "rows.csv", index=False)
    table, saved = [str(tmp_path / "rows.csv"), "--target", "y"], str(tmp_path / "tree.json")
    assert main(["solve", *table, "--depth", "2", "--save", saved, "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["certify", saved, *table]) == 0
    assert "Proved optimal among such trees" in capsys.readouterr().out
