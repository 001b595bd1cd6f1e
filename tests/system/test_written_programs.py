"""Programs, starts and solutions as files: what SCIP makes of them, and trees read back."""

import numpy as np
import pytest

from opttree import L1, MIPTreeProblem, SplitPrice, TreeProblem
from solvers import MIP, CartInit, solve
from tests.conftest import regression_problem

pyscipopt = pytest.importorskip("pyscipopt")
pytestmark = pytest.mark.long

CASES = [
    (form, loss, leaves)
    for form in ("hyperflow", "flow", "big-m")
    for loss, leaves in (
        ("squared", "constant"),
        ("absolute", "constant"),
        ("zero_one", "constant"),
        ("log", "constant"),
        ("squared", "linear"),
        ("absolute", "linear"),
    )
    if not (loss == "log" and form != "hyperflow")  # neither linear nor quadratic
]
SEEDS = 2  # per case and file; `python -m tests.system.test_written_programs` runs 30


def instance(seed, loss, leaves):
    rng = np.random.default_rng(seed)
    n, p = (6, 1) if leaves == "linear" else (int(rng.integers(5, 8)), 2)
    X = rng.integers(0, 4, size=(n, p)).astype(float)
    X[:2, 0] = 0.0, 3.0
    y = rng.integers(0, 3, n) if loss in ("zero_one", "log") else rng.integers(0, 5, n).astype(float)
    price = (SplitPrice(0.05),) if rng.random() < 0.5 else ()
    penalties = (*price, L1(leaves=0.01)) if leaves == "linear" else price
    depth = 1 if leaves == "linear" else 2
    return TreeProblem(X, y, depth=depth, splits="axis", loss=loss, leaves=leaves, penalties=penalties)


def by_scip(path, start=None, gap=1e-7):
    model = pyscipopt.Model()
    model.hideOutput()
    model.readProblem(str(path))
    model.setParam("limits/gap", gap)
    model.setParam("limits/time", 60)
    model.setParam("numerics/feastol", 1e-9)  # with big-M constants, 1e-6 shows in the fourth digit
    # where a sum of binary variables is at most 1, SCIP 10.0 may take fractional values for a solution (squared loss,
    # linear leaves, instance 18 of flow)
    model.setParam("constraints/linear/upgrade/setppc", False)
    if start is not None:
        solution = model.readSolFile(str(start))
        assert model.checkSol(solution, printreason=False, original=True)
        assert model.addSol(solution)
    model.optimize()
    return model


def check(form, loss, leaves, seed, folder, suffix):
    """Write, solve by SCIP from a start, and read back."""
    problem = instance(seed, loss, leaves)
    stated = MIPTreeProblem(problem, form)
    program, start, found = (folder / f"{form}_{loss}_{leaves}_{seed}{end}" for end in (suffix, ".start", ".sol"))
    stated.write(program)
    cart = stated.snap(solve(problem, CartInit(), random_state=0).tree)
    stated.write_start(start, cart)
    squares = loss == "squared" and form != "hyperflow"  # for these SCIP has a variable of its own
    model = by_scip(program, None if squares else start)
    model.writeBestSol(str(found))
    truth = solve(problem, MIP("hyperflow")).objective
    tolerance = 1e-5 * max(abs(truth), 1.0)
    assert model.getObjVal() == pytest.approx(truth, abs=tolerance), (form, loss, leaves, seed)
    assert problem.objective(stated.read_solution(found)) == pytest.approx(truth, abs=tolerance)


@pytest.mark.parametrize(("form", "loss", "leaves"), CASES)
def test_scip_finds_the_statements_optimum_in_the_written_program(form, loss, leaves, tmp_path):
    for seed in range(SEEDS):
        check(form, loss, leaves, seed, tmp_path, ".lp" if seed % 2 == 0 else ".mps")


def test_solutions_of_other_optimizers_are_read(tmp_path):
    problem = instance(3, "absolute", "constant")
    stated = MIPTreeProblem(problem, "flow")
    tree = solve(problem, MIP()).tree
    stated.write_start(tmp_path / "plain.sol", tree)
    values = dict(line.split() for line in (tmp_path / "plain.sol").read_text().splitlines())
    forms = {
        "scip": "solution status: optimal\nobjective value: 1\n"
        + "\n".join(f"{name}  {value} \t(obj:0)" for name, value in values.items()),
        "gurobi": "# Objective value = 1\n" + "\n".join(f"{name} {value}" for name, value in values.items()),
        "highs": "Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective 1\n# Columns 9\n"
        + "\n".join(f"{name} {value}" for name, value in values.items())
        + "\n# Rows 1\nr_1 7\n# Dual solution values\nFeasible\n# Columns 9\n"
        + "\n".join(f"{name} 0" for name in values),
        "cplex": '<?xml version = "1.0"?>\n<variables>\n'
        + "\n".join(f'  <variable name="{name}" index="0" value="{value}"/>' for name, value in values.items()),
        "cbc": "Optimal - objective value 1.0\n"
        + "\n".join(f"      {k} {name}    {value}    0" for k, (name, value) in enumerate(values.items())),
    }
    for name, text in forms.items():
        path = tmp_path / f"{name}.sol"
        path.write_text(text)
        assert problem.objective(stated.read_solution(path)) == pytest.approx(problem.objective(tree)), name
    (tmp_path / "other.sol").write_text("nothing 1\n")
    with pytest.raises(ValueError, match="names none of its variables"):
        stated.read_solution(tmp_path / "other.sol")


def test_names_are_kept(tmp_path):
    stated = MIPTreeProblem(instance(0, "absolute", "constant"), "flow")
    stated.write(tmp_path / "program.lp")
    text = (tmp_path / "program.lp").read_text()
    assert "split(0_0_" in text
    assert "flow(" in text


@pytest.mark.parametrize("optimizer", ["scip", "appsi_highs"])
@pytest.mark.parametrize("form", ["flow", "big-m", "hyperflow"])
def test_other_optimizers_prove_the_same(optimizer, form):
    for loss in ("squared", "absolute", "zero_one"):
        problem = instance(1, loss, "constant")
        result = solve(problem, MIP(form, optimizer=optimizer, init=None), time_limit=60)
        truth = solve(problem, MIP("hyperflow")).objective
        assert result.objective == pytest.approx(truth, rel=2e-4, abs=1e-6)
        assert result.bound <= truth + 1e-6
        assert result.termination.name == "OPTIMAL"


def test_an_optimizer_that_is_not_there_is_named():
    problem = instance(1, "absolute", "constant")
    with pytest.raises(ValueError, match="got 'nonsense', which it does not"):
        solve(problem, MIP(optimizer="nonsense"))
    result = solve(instance(5, "squared", "constant"), MIP("flow", optimizer="scip"), time_limit=1e-3)
    assert result.termination.name in ("TIME_LIMIT", "OPTIMAL")


@pytest.mark.parametrize("formulation", ["hyperflow", "flow", "big-m"])
@pytest.mark.parametrize("suffix", ["lp", "mps"])
def test_a_written_program_has_the_optimum_of_the_statement(tmp_path, formulation, suffix):
    pyscipopt = pytest.importorskip("pyscipopt")
    problem = regression_problem(40, p=2, depth=1, splits="axis", penalties=())
    path = tmp_path / f"model.{suffix}"
    MIPTreeProblem(problem, formulation=formulation, n_thresholds=4).write(path)
    model = pyscipopt.Model()
    model.hideOutput()
    model.readProblem(str(path))
    model.optimize()
    assert model.getStatus() == "optimal"
    assert model.getObjVal() == pytest.approx(solve(problem, MIP(n_thresholds=4)).objective, rel=1e-5)
    assert list(tmp_path.iterdir()) == [path]


if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as place:
        for case in CASES:
            for number in range(30):
                check(*case, number, Path(place), ".lp" if number % 2 == 0 else ".mps")
            print(*case, "30 instances equal the statement's optimum", flush=True)
