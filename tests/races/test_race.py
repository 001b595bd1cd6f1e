"""`opttree.race`: problems and solvers as objects, files or names; resumable; tables, pictures, a page, benchopt."""

import runpy
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import opttree
from experiments import protocol as protocols, reading
from opttree import SplitPrice, TreeProblem
from opttree.cli.main import main
from opttree.statement.constraints import ForbidSplit, MaxDifference, MaxSplits, RequireSplit
from solvers import (
    MIP,
    TAO,
    BranchAndBound,
    CartInit,
    Chain,
    LocalSearch,
    RandomInit,
    Solver,
    Step,
    Termination,
    external,
)
from solvers.races.benchopt import export
from solvers.races.plans import fingerprint
from solvers.races.race import problems_of, solvers_of
from solvers.races.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_sandbox")]


def problem(seed=0, n=60, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).round(1)
    return TreeProblem(X, X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n), **{"depth": 2, "splits": "axis"} | options)


PROBLEMS = {"one": problem(0), "two": problem(1)}


@pytest.fixture(scope="module")
def race():
    entrants = {
        "cart": CartInit(),
        "exact": BranchAndBound(),
        "local": LocalSearch(n_starts=2),
        "peer": external.STreeD(),
    }
    return opttree.race(PROBLEMS, entrants, 5.0, n_jobs=2)


def test_tables_say_what_the_reference_is(race):
    frame = race.to_frame()
    assert len(frame) == 8
    assert set(frame["status"]) <= {"ok", "skipped"}
    exact = frame[frame["solver"] == "exact"]
    assert (exact["termination"] == "OPTIMAL").all()
    assert (frame["reference_is"] == "proved optimum").all()
    assert exact["gap"].max() < 1e-9
    assert race.gaps().index.get_level_values("gap to").tolist() == ["proved optimum"] * 2
    # in the order of the data sets, and of the ends of the runs
    assert sorted(race.references()["reference"]) == pytest.approx(sorted(exact["objective"]))
    assert race.gaps()["exact"].max() == 0.0 < race.gaps()["cart"].max()


def test_profiles_and_integrals(race):
    assert race.performance_profile().iloc[-1]["exact"] == 1.0
    assert race.data_profile()["exact"].is_monotonic_increasing
    assert (race.primal_integrals() <= 5.0).all(axis=None)
    assert "4 solvers on 2 problems" in repr(race) or "3 solvers on 2 problems" in repr(race)


@pytest.mark.long
def test_four_pictures_and_a_page(race, tmp_path):
    assert len(race.plot(tmp_path / "pictures")) == 4
    assert len(list((tmp_path / "pictures").glob("*.png"))) == 4
    page = race.to_html(tmp_path / "race.html")
    assert (tmp_path / "race.html").read_text() == page
    assert "proved optimum" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert page.count("data:image/png") >= 5


@pytest.mark.long
def test_a_benchmark_for_benchopt(race, tmp_path):
    files = race.to_benchopt(tmp_path / "bench")
    assert "patience=10**6" in next(path for path in files if path.parent.name == "solvers").read_text()
    names = {path.relative_to(tmp_path / "bench").as_posix() for path in files}
    assert {"objective.py", "datasets/problems.py", "solvers/exact.py", "problems/0_one.pkl"} <= names
    pytest.importorskip("benchopt")
    command = [sys.executable, "-m", "benchopt", "run", str(tmp_path / "bench"), "--no-plot", "-n", "3", "-s", "exact"]
    done = subprocess.run([*command, "-d", "problems[problem=one]"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    with pytest.raises(ValueError, match="solvers must be ones that a text states"):
        opttree.race(PROBLEMS, {"own": Own()}, 1.0).to_benchopt(tmp_path / "own")


@dataclass(frozen=True)
class Own(Solver):
    """A solver that only this file knows."""

    def steps(self, problem, start, rng):
        yield Step(problem.best_constant())


def test_a_race_goes_on_where_it_was(tmp_path):
    first = opttree.race(PROBLEMS, [CartInit()], 2.0, store=tmp_path)
    began = time.perf_counter()
    again = opttree.race(PROBLEMS, [CartInit(), Own()], 2.0, store=tmp_path, seeds=[0])
    assert time.perf_counter() - began < 60.0
    rows = Store("race", tmp_path).rows()
    assert len(rows) == 4
    pd.testing.assert_frame_equal(
        first.to_frame().drop(columns=["reference", "gap"]),
        again.to_frame().query("solver == 'CartInit()'").reset_index(drop=True).drop(columns=["reference", "gap"]),
    )


def test_refusals_and_failures_are_rows(tmp_path):
    race = opttree.race({"oblique": problem(splits="oblique")}, [BranchAndBound(), TAO()], 2.0)
    frame = race.to_frame().set_index("solver")
    assert frame.loc["BranchAndBound()", "status"] == "skipped"
    assert "oblique" in frame.loc["BranchAndBound()", "reason"]
    assert frame.loc["TAO()", "reference_is"] == "best known"
    with pytest.raises(ValueError, match="no run ended well: its splits are oblique"):
        opttree.race({"oblique": problem(splits="oblique")}, BranchAndBound(), 1.0)


def test_a_proof_over_some_trees_is_no_proved_optimum():
    few = [MIP(n_thresholds=2), BranchAndBound(max_splits=1), external.STreeD(), Chain(CartInit(), Own())]
    race = opttree.race({"one": problem()}, few, 5.0)
    assert race.references()["is"].tolist() == ["best known"]
    whole = opttree.race({"one": problem()}, [*few, Chain(CartInit(), MIP())], 5.0)
    assert whole.references()["is"].tolist() == ["proved optimum"]
    assert whole.references()["reference"].item() < race.references()["reference"].item() + 1e-12


@pytest.mark.long
def test_labels_may_hold_any_sign(tmp_path):
    entrants = {"TAO+": CartInit(), "TAO-": CartInit(min_rows=3), "$_{": RandomInit(), "_x": LocalSearch(n_starts=1)}
    race = opttree.race({"../a/b $": problem()}, entrants, 1.0)
    assert "<html" in race.to_html()
    files = race.to_benchopt(tmp_path / "inner" / "bench")
    assert len(set(files)) == len(files) >= 8
    assert {path.name for path in tmp_path.iterdir()} == {"inner"}
    assert {path.name for path in (tmp_path / "inner").iterdir()} == {"bench"}


MARKS = ['"""', "'''", "\\", "\n", "{0!r}", '"""\nraise SystemExit(1)\n"""', "%s", "#"]


def test_labels_are_no_code(tmp_path):
    pytest.importorskip("benchopt")
    entrants = {f"a{mark}": CartInit() for mark in MARKS}
    problems = {f"p{mark}": PROBLEMS["one"] for mark in MARKS}
    written = [path for path in export(problems, entrants, tmp_path) if path.suffix == ".py"]
    shown = [runpy.run_path(str(path))["Solver"] for path in written if path.parent.name == "solvers"]
    assert set(entrants) <= {one.name for one in shown}
    assert [one.__doc__ for one in shown] == [f"{one.name}, from its first tree to its end." for one in shown]
    dataset = runpy.run_path(str(tmp_path / "datasets" / "problems.py"))["Dataset"]
    assert dataset.parameters == {"problem": list(problems)}


def test_no_file_of_a_benchmark_takes_the_place_of_another(tmp_path):
    files = export(PROBLEMS, {"a_3": CartInit(), "a": RandomInit(), "A!": TAO(), "a?": LocalSearch()}, tmp_path)
    assert len(set(files)) == len(files)
    texts = [path.read_text() for path in files if path.parent.name == "solvers"]
    assert all(any(f"name = {label!r}\n" in text for text in texts) for label in ("a_3", "a", "A!", "a?"))


def test_problems_and_solvers_are_checked():
    for given, words in (
        ({}, "problems must hold at least one problem"),
        ({"a": 1}, "problems must be of TreeProblem; got 1 for 'a'"),
    ):
        with pytest.raises(ValueError, match=words):
            problems_of(given, None, {})
    with pytest.raises(ValueError, match="depth is for data sets and files"):
        problems_of(PROBLEMS, None, {"depth": 2})
    assert list(solvers_of("GET();Chain(TAO(),LocalSearch(n_starts=2))")) == [
        "GET()",
        "Chain(TAO(), LocalSearch(n_starts=2))",
    ]
    for given, words in (
        ("", "solvers must hold at least one solver"),
        ([TAO(), TAO()], r"solvers must be different; got 'TAO\(\)' twice"),
        ([TAO], "solvers must be instances of solvers"),
    ):
        with pytest.raises(ValueError, match=words):
            solvers_of(given)
    with pytest.raises(ValueError, match="time_limit must be > 0"):
        opttree.race(PROBLEMS, [TAO()], 0)
    with pytest.raises(ValueError, match=r"seeds must be a sequence of integers, such as range\(3\); got 0"):
        opttree.race(PROBLEMS, [TAO()], 1.0, seeds=0)
    for seeds in ([], [1, 1]):
        with pytest.raises(ValueError, match=r"seeds must hold at least one integer, and each once; got \["):
            opttree.race(PROBLEMS, [TAO()], 1.0, seeds=seeds)
    with pytest.raises(ValueError, match="memory_limit must be > 0 MB; got 0"):
        opttree.race(PROBLEMS, [TAO()], 1.0, memory_limit=0)


def test_the_hash_is_of_the_whole_statement():
    base = problem()
    others = [
        problem(1),
        problem(depth=1),
        problem(penalties=[SplitPrice(0.1)]),
        problem(constraints=[MaxSplits(1)]),
        problem(constraints=[MaxDifference(np.arange(60) % 2, 0.1)]),
        problem(constraints=[MaxDifference(np.arange(60) % 3, 0.1)]),
        problem(sample_weight=np.arange(1.0, 61.0)),
    ]
    marks = [fingerprint(p) for p in (base, *others)]
    assert len(set(marks)) == len(marks)
    assert fingerprint(problem()) == marks[0]


@pytest.mark.long
def test_the_command_races_files(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        X = rng.normal(size=(80, 2))
        pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "y": X[:, 0] > X[:, 1]}).to_csv(tmp_path / f"{name}.csv", index=False)
    out = tmp_path / "out"
    command = ["race", str(tmp_path), "--target", "y", "--solvers", "CartInit();BranchAndBound()", "--time-limit", "2"]
    assert main([*command, "--depth", "2", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "2 optima proved" in printed
    assert "proved optimum" in printed
    assert {"race.html", "race.csv", "performance_profile.png"} <= {path.name for path in out.iterdir()}
    for text, words in (("nonsense", "use must state a solver"), ("GET(**{'n_starts': 1})", "without * and **")):
        assert main(["race", str(tmp_path), "--solvers", text, "--time-limit", "2"]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert len(said.splitlines()) == 1


def test_protocols_may_lie_anywhere(tmp_path):
    shipped = protocols.FOLDER / "protocols" / "smoke.toml"
    path = tmp_path / "mine.toml"
    path.write_text(shipped.read_text())
    read = reading.read(str(path), "quick") if "quick" in reading.read("smoke").budgets else reading.read(str(path))
    assert read.name == read.store == "mine"
    with pytest.raises(ValueError, match=r"or a \.toml file; got"):
        reading.read(str(tmp_path / "none.toml"))


@pytest.mark.long
def test_a_problem_has_one_reference_whatever_the_seeds():
    """Each seed had one of its own, to which every randomised solver's gap was 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=300)
    stated = TreeProblem.standardized(X, y, depth=3)
    race = opttree.race({"a": stated}, {"tao": TAO(init=RandomInit()), "cart": CartInit()}, 5, seeds=[0, 1, 2])
    frame = race.to_frame()
    own = frame[frame["solver"] == "tao"]["objective"]
    assert own.nunique() == 3
    assert frame["reference"].nunique() == 1
    assert frame["reference"].iloc[0] == own.min()
    assert len(race.problems) == len(race.gaps()) == 1
    assert race.gaps()["tao"].iloc[0] == pytest.approx((own.median() - own.min()) / own.median())
    assert race.reached()["tao"].iloc[0] == pytest.approx(1 / 3)
    spread = race.spread()["tao"].iloc[0]
    assert spread.tolist() == pytest.approx([own.min(), own.median(), own.max()])
    assert (frame["cpu_seconds"] > 0.0).all()
    assert "3 runs" in race.to_html() or "Runs" in race.to_html()


@dataclass(frozen=True)
class Liar(Solver):
    """A solver whose bound is too high."""

    def covers(self, problem):
        return True

    def steps(self, problem, start, rng):
        tree = CartInit().build(problem, rng)
        yield Step(tree, bound=problem.objective(tree))
        return Termination.OPTIMAL


@dataclass(frozen=True)
class Late(Solver):
    """A solver that has no tree before the limit of its first run, which compiles."""

    ran: ClassVar[list[None]] = []

    def steps(self, problem, start, rng):
        self.ran.append(None)
        if len(self.ran) > 1:
            yield Step(problem.best_constant())


def test_a_run_that_compiles_may_end_without_a_tree():
    assert opttree.race(PROBLEMS, Late(), 5.0).to_frame()["status"].tolist() == ["ok", "ok"]


@pytest.mark.long
def test_a_bound_above_any_tree_is_refuted_and_said():
    race = opttree.race(PROBLEMS, {"liar": Liar(), "exact": BranchAndBound()}, 5.0)
    fallen = race.proofs.refutations()
    assert set(fallen["solver"]) == {"liar"}
    assert set(fallen["a tree of"]) == {"exact"}
    assert race.proved.all()  # by the other one
    assert "liar" in race.to_html()


@pytest.mark.long
def test_no_tree_is_a_status_of_a_race():
    none = problem().restated(constraints=[RequireSplit(0), ForbidSplit(0)])
    race = opttree.race({"none": none, "one": PROBLEMS["one"]}, {"mip": MIP(), "cart": CartInit()}, 20.0)
    frame = race.to_frame().set_index(["problem", "solver"])
    assert frame.loc[("none", "mip"), "termination"] == "INFEASIBLE"
    assert frame.loc[("none", "mip"), "status"] == "ok"
    assert frame.loc[("none", "mip"), "reference_is"] == "proved infeasible"
    assert frame.loc[("none", "cart"), "status"] == "skipped"
    assert race.counts().loc["cart", ["ran", "refused"]].tolist() == [1, 1]
    assert race.gaps()["mip"].dropna().tolist() == [0.0]
    assert race.to_html()


def test_tests_and_times_of_a_race(race):
    table = race.compare("cart")
    assert "p (Wilcoxon)" in table
    assert (table["difference"] <= 0.0).all()
    with pytest.raises(ValueError, match="baseline must be one of cart"):
        race.compare("nobody")
    assert race.par(10.0)["exact"] < 5.0 < race.par(10.0)["cart"] or race.par(10.0)["cart"] <= 50.0
    faster = race.speedups("cart")
    assert set(faster.columns) >= {"solved by both", "times faster"}
    assert (race.counts().sum(axis=1) == 2).all()


def test_a_solver_of_a_script_races_and_failures_are_named(tmp_path):
    """A class of __main__ is another one in the process of a run, and so is what its options lack."""
    script = tmp_path / "script.py"
    script.write_text(
        "from dataclasses import dataclass\n"
        "import numpy as np, opttree\n"
        "from opttree import TreeProblem\n"
        "from solvers import RandomInit, Solver, Termination\n"
        "@dataclass(frozen=True)\n"
        "class Best(Solver):\n"
        "    trials: int = 20\n"
        "    def steps(self, problem, start, rng):\n"
        "        if self.trials < 0:\n"
        "            raise RuntimeError\n"
        "        for _ in range(self.trials):\n"
        "            yield from RandomInit().steps(problem, None, rng)\n"
        "        return Termination.ITERATION_LIMIT\n"
        "X = np.random.default_rng(0).normal(size=(50, 2))\n"
        "race = opttree.race({'a': TreeProblem(X, X[:, 0], 1)}, {'mine': Best(5), 'bad': Best(-1)}, time_limit=2)\n"
        "print(race, race.counts()['ran'].to_dict())\n"
    )
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    assert "failed, see the reasons in to_frame(): bad" in done.stdout
    assert "{'mine': 1, 'bad': 0}" in done.stdout


def test_files_are_read_as_fits_read_them(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b", "c"]).round(2)
    frame.to_csv(tmp_path / "semicolons.csv", index=False, sep=";", decimal=",")
    frame.to_parquet(tmp_path / "rows.parquet")
    one, two = problems_of(tmp_path, "c", {"depth": 1}).values()
    np.testing.assert_allclose(one.X, two.X)
    np.testing.assert_allclose(one.Y, two.Y)
    with pytest.raises(ValueError, match=r"options must be those of race or of TreeProblem, .*; got 'seed'"):
        problems_of(tmp_path, "c", {"seed": 1})
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="problems must be folders of CSV or Parquet files"):
        problems_of(tmp_path / "empty", None, {})
