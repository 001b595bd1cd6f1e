"""Instances with known optima, and the check of claims about them."""

import json

import numpy as np
import pytest

from opttree import L2, TreeProblem
from opttree.cli import main
from opttree.constraints import MaxFeatures
from solvers import BranchAndBound, claim, instances, solve, verify

X = np.array([[0.0, 3.0], [1.0, 1.0], [2.0, 2.0], [3.0, 0.0]])
Y = np.array([0, 1, 1, 0])
TREE = {"feature": 0, "threshold": 0.5, "left": {"value": 0}, "right": {"value": 1}}
CLAIM = {"depth": 1, "loss": "zero_one", "objective": 1, "bound": 1, "tree": TREE}


def table(n=60, loss="zero_one"):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 6, (n, 3)).astype(float)
    return X, rng.integers(0, 3, n) if loss == "zero_one" else rng.normal(size=n)


@pytest.mark.parametrize("loss", ["zero_one", "squared"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_what_a_proof_claims_holds(loss, depth):
    X, y = table(loss=loss)
    problem = TreeProblem(X, y, depth, splits="axis", loss=loss)
    result = solve(problem, BranchAndBound())
    stated = json.loads(json.dumps(claim("drawn", problem, result)))
    found = verify(stated, X, y, stated["objective"])
    assert found.holds, found.faults
    assert found.objective == pytest.approx(len(X) * result.objective)
    assert len(found.findings) == 5


def test_nodes_of_other_programs_are_read():
    found = verify(CLAIM, X, Y, 1)
    assert (found.objective, found.holds) == (1.0, True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"objective": 0}, "the tree has 1 errors; the claim is 0"),
        ({"depth": 0}, "the tree has 1 levels; the claim is 0"),
        ({"bound": 2}, "the bound 2 is above the tree's 1"),
    ],
)
def test_a_false_claim_is_found(changes, words):
    assert words in verify(CLAIM | changes, X, Y).faults


def test_known_optima_tell_more():
    assert "the bound 1 is above the known optimum 0" in verify(CLAIM, X, Y, 0).faults
    assert "the known optimum 2 is above the tree's" in verify(CLAIM, X, Y, 2).faults


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loss": "log"}, "loss of a claim must be one of"),
        ({"objective": "few"}, "objective must be a finite number"),
        ({"tree": {"feature": 7, "threshold": 0, "left": {}, "right": {}}}, "feature must be a number of 0 to 1"),
        ({"tree": {"feature": 0}}, "a node of a claim needs"),
        ({"tree": 3}, "must be a mapping"),
        ({"depth": True}, "depth of a claim must be a whole number"),
        ({"bound": 10**400}, "bound must be a finite number"),
        ({"tree": TREE | {"feature": True}}, "feature must be a number of 0 to 1"),
        ({"tree": TREE | {"threshold": [0.0, 1.0, 2.0, 3.0]}}, "threshold must be a finite number"),
        ({"tree": TREE | {"left": 5}}, "nodes of a claim must be mappings"),
        ({"tree": TREE | {"left": {"value": [1, 2]}}}, "values of one shape"),
        ({"loss": "squared", "tree": TREE | {"left": {"value": "a"}}}, "must hold numbers"),
    ],
)
def test_a_claim_of_another_form_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        verify(CLAIM | changes, X, Y)


def test_claims_are_of_the_loss_alone():
    X, y = table(loss="squared")
    problem = TreeProblem(X, y, 1, splits="axis", penalties=(L2(leaves=0.1),))
    with pytest.raises(ValueError, match="squared or 0/1 loss alone"):
        claim("drawn", problem, solve(problem, BranchAndBound()))


def test_claims_are_about_all_trees():
    X, y = table()
    options = {"splits": "axis", "loss": "zero_one"}
    for more in ({"min_leaf": 5}, {"constraints": [MaxFeatures(1)]}):
        problem = TreeProblem(X, y, 2, **options, **more)
        with pytest.raises(ValueError, match="all axis-aligned trees"):
            claim("drawn", problem, solve(problem, BranchAndBound()))


def test_all_instances_are_stated():
    known = instances()
    assert len(known) >= 50
    for one in known.values():
        assert one.loss in ("zero_one", "squared")
        values = [one.optima[depth] for depth in sorted(one.optima)]
        assert values == sorted(values, reverse=True), one.name


@pytest.mark.parametrize("name", ["bank", "dl_primary-tumor", "fish", "concreteslump"])
def test_known_optima_are_proved_again(name):
    known = instances()[name]
    try:
        X, y = known.load()
    except ValueError:
        pytest.skip("the file is not here")
    result = solve(known.problem(2), BranchAndBound())
    assert verify(claim(name, known.problem(2), result), X, y, known.optima[2]).holds
    assert known.n * result.objective == pytest.approx(known.optima[2], rel=1e-6)


def test_files_are_found_by_their_names(tmp_path):
    known = instances()["dl_primary-tumor"]
    (tmp_path / "primary-tumor.txt").write_text("0 1 0\n1 0 0\n")
    with pytest.raises(ValueError, match="must have 336 rows and 31 features that vary; got 2 and 1"):
        known.load(tmp_path)
    with pytest.raises(ValueError, match="needs a file"):
        known.load(tmp_path / "nowhere")


def test_the_command_line_writes_and_checks_claims(tmp_path, capsys):
    X, y = table()
    file, stated = tmp_path / "table.csv", tmp_path / "claim.json"
    rows = [",".join(f"{x:g}" for x in row) + f",{label}" for row, label in zip(X, y, strict=True)]
    file.write_text("\n".join(["a,b,c,label", *rows]))
    solving = ["solve", str(file), "--target", "label", "--task", "classification", "--out", str(tmp_path)]
    assert main([*solving, "--claim", str(stated)]) == 0
    check = ["verify", str(stated), "--data", str(file), "--target", "label"]
    assert main([*check, "--prove", "10"]) == 0
    assert "holds: the tree has" in capsys.readouterr().out
    for option in (["--max-splits", "1"], ["--min-leaf", "9"], ["--forbid", "a"], ["--loss", "log"]):
        assert main([*solving, "--claim", str(tmp_path / "other.json"), *option]) == 2
        assert "--claim is" in capsys.readouterr().err
    false = json.loads(stated.read_text())
    false["bound"] = false["objective"] = false["objective"] - 1
    stated.write_text(json.dumps(false))
    assert main(check) == 4
    assert "false: the tree has" in capsys.readouterr().out
    assert main(["verify", str(stated)]) == 2
    assert "must name one of" in capsys.readouterr().err
    solving[3] = "c"
    file.write_text("a,c\n1,1\n2,0.5\n3,0.25\n4,0.5\n")
    assert main([*solving[:4], "--task", "regression", "--out", str(tmp_path), "--claim", str(stated)]) == 0
    assert main(["verify", str(stated), "--data", str(file), "--target", "c", "--prove", "10"]) == 0
