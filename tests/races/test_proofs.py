"""Experiments on proofs: what a report says of bounds, and other libraries' exact trees on the same statement."""

import numpy as np
import pandas as pd
import pytest

from experiments.planned import Method
from experiments.protocol import Protocol
from opttree import TreeProblem
from solvers import external
from solvers.races.compare import Comparison
from solvers.races.proofs import Proofs

SOLVERS = ("ours", "wrong", "slow", "heuristic")


def stated(covers=False):
    """Rows and traces of one proof, one wrong proof, one bound and one heuristic, on two problems."""
    rows, traces = [], []
    for number, name in enumerate(("one", "two")):
        outcomes = {
            "ours": (2.0, 2.0, "OPTIMAL", 0.5),
            "wrong": (2.2, 2.2, "OPTIMAL", 0.1),
            "slow": (2.0, 1.0, "TIME_LIMIT", 10.0),
            "heuristic": (2.5, np.nan, "LOCALLY_OPTIMAL", 0.2),
        }
        for method, (objective, bound, termination, seconds) in outcomes.items():
            key = f"{name}-{method}"
            rows.append(
                {
                    "key": key,
                    "dataset": name,
                    "depth": 2,
                    "leaves": "constant",
                    "seed": 0,
                    "split": 0,
                    "method": method,
                    "objective": objective,
                    "bound": bound,
                    "termination": termination,
                    "fit_seconds": seconds,
                    "constant_objective": 5.0,
                    "test_r2": 0.8 - 0.1 * (method == "heuristic") - 0.05 * number,
                    "nodes": 7.0 if method == "ours" else np.nan,
                    "covers": covers,
                }
            )
            for at, best, low in ((0.0, 5.0, 0.0), (seconds, objective, bound)):
                traces.append({"key": key, "seconds": at, "best": best, "bound": low})
    protocol = Protocol(
        name="proofs",
        title="proofs",
        kind="solve",
        datasets=("one", "two"),
        depths=(2,),
        leaves=("constant",),
        metrics=("objective",),
        time_limit=10,
        limits=(1, 10),
        methods={name: Method("CartInit()") for name in SOLVERS},
    )
    return Proofs(Comparison(protocol, pd.DataFrame(rows), pd.DataFrame(traces)))


def test_proofs_are_counted_and_refuted_by_better_trees():
    proofs = stated()
    lines = proofs.summary().set_index("solver")
    assert list(lines.index) == ["ours", "wrong", "slow"]
    assert lines["proved, every seed"].tolist() == [2, 0, 0]
    assert lines["refuted bounds"].tolist() == [0, 2, 0]
    assert lines["runs out of time"].tolist() == [0, 0, 2]
    assert lines.loc["ours", "seconds to proof, common"] == pytest.approx(0.5)
    assert lines.loc["wrong", "seconds to proof, common"] == pytest.approx(10.0)
    assert lines.loc["wrong", ["PAR-2", "PAR-10"]].tolist() == [20.0, 100.0]
    assert lines.loc["slow", "mean gap % at 1 s, common"] == pytest.approx(100.0)
    assert lines.loc["slow", "mean gap % at 10 s, common"] == pytest.approx(50.0)
    assert lines.loc["ours", "mean gap % at 1 s, common"] == pytest.approx(0.0)
    fallen = proofs.refutations()
    assert fallen["solver"].tolist() == ["wrong"] * 2
    assert fallen["a tree of"].isin(["ours", "slow"]).all()
    table = proofs.table()
    assert table["ours"].tolist() == ["0.5 s, 7 nodes"] * 2
    assert table["wrong"].tolist() == ["refuted"] * 2
    assert table["slow"].tolist() == ["gap 50 %"] * 2


def test_profiles_and_integrals_of_proofs():
    proofs = stated()
    assert proofs.time_profile()["ours"].iloc[-1] == 1.0
    assert proofs.performance_profile()["slow"].iloc[-1] == 0.0
    gaps = proofs.gap_profile()
    assert gaps.loc[0.0].to_dict() == {"ours": 1.0, "wrong": 1.0, "slow": 0.0}
    assert gaps.loc[0.5, "slow"] == 1.0
    # "slow": the reference 2 and the bound 0 for 10 s; its own tree 5 and the bound 0
    assert proofs.dual_integrals()["slow"].tolist() == pytest.approx([1.0, 1.0])
    assert proofs.primal_dual_integrals()["slow"].tolist() == pytest.approx([1.0, 1.0])
    # "ours": both closed after .5 of 10 s
    assert proofs.dual_integrals()["ours"].tolist() == pytest.approx([0.05, 0.05])
    assert proofs.primal_dual_integrals()["ours"].tolist() == pytest.approx([0.05, 0.05])
    faster = proofs.speedups("ours")
    assert faster["solved by both"].tolist() == [0, 0]
    assert faster["by ours alone"].tolist() == [2, 2]


def test_a_bound_by_rounding_is_not_refuted_and_a_bound_of_some_trees_is_its_own():
    proofs = stated()
    rows = proofs.race.rows
    rows.loc[rows["method"] == "ours", "bound"] = 2.0 * (1 + 1e-12)
    rows.loc[rows["method"] == "slow", "bound"] = 2.0 * (1 + 1e-6)  # of some trees alone, and it claims no proof
    assert Proofs(proofs.race).summary().set_index("solver")["refuted bounds"].tolist() == [0, 2, 0]
    rows["covers"] = True  # of all trees
    assert Proofs(proofs.race).summary().set_index("solver")["refuted bounds"].tolist() == [0, 2, 2]


def test_distances_are_to_the_proved_optimum():
    lines = stated(covers=True).distances().set_index("solver")
    assert lines["runs at the optimum"].tolist() == [2, 0, 2, 0]
    assert lines.loc["heuristic", "mean % above it"] == pytest.approx(20.0)
    assert lines.loc["wrong", "mean % above it"] == pytest.approx(100.0 * 0.2 / 2.2)
    assert lines.loc["heuristic", "test score less the best tree's, points"] == pytest.approx(-10.0)


def test_peers_are_asked_for_nothing_that_they_lack():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    problem = TreeProblem(X, y, depth=2, splits="axis", loss="zero_one")
    weighted = problem.with_rows(X, y, rng.uniform(0.5, 1.0, 60))
    for peer in (external.ConTree(), external.PyTrees(), external.PyTrees("dl85"), external.STreeD()):
        assert "equal weight" in peer.refusal(weighted)
        assert "axis-aligned splits" in peer.refusal(problem.restated(splits="oblique"))
    assert "smallest leaf" in str(external.ConTree().refusal(problem.restated(min_leaf=3))) or not _has("pycontree")
    many = TreeProblem(rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000), depth=2, splits="axis", loss="zero_one")
    assert "5998 thresholds, more than 4000" in external.STreeD().refusal(many)


def _has(library):
    import importlib.util

    return importlib.util.find_spec(library) is not None
