"""Sentences of the pages, each held by a small run or by the committed result that it quotes."""

import runpy
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import opttree
import solvers
from opttree import TreeProblem, datasets
from opttree.problems import ExactTreeProblem
from opttree.statement.constraints import (
    DifferentLeaf,
    SameLeaf,
)
from solvers import MIP, BranchAndBound, CartInit, ObliqueBranchAndBound, certify, solve
from solvers.conformance import example_solvers
from solvers.exact.early import blocks_bounds, equal_rows_bound, outputs_bound

ROOT = Path(__file__).parents[2]


RESULTS = ROOT / "experiments" / "results"


def page(name: str) -> str:
    """The text of a page, on one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def numbers(protocol: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / protocol / "numbers.csv")


def board(protocol: str) -> pd.DataFrame:
    """The first metric of a leaderboard: data sets by methods, those that all methods have."""
    found = numbers(protocol)
    own = found[(found["metric"] == found["metric"].iloc[0]) & (found["dataset"] != "mean")]
    return own.pivot_table(index="dataset", columns="method", values="ours").dropna()


def drawn(n: int = 60, p: int = 2, **options: object) -> TreeProblem:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)
    return TreeProblem(**{"X": X, "y": y, "depth": 2, "splits": "axis"} | options)


@pytest.mark.parametrize(
    "solver", [BranchAndBound(), MIP(), MIP("flow"), MIP("big-m")], ids=["search", "hyperflow", "flow", "big-m"]
)
def test_a_bound_is_for_thresholds_between_any_two_different_numbers(solver):
    X = np.array([[1.0], [np.nextafter(1.0, 2.0)]] * 3)
    result = solve(TreeProblem(X, X[:, 0] > 1.0, depth=1, splits="axis", loss="zero_one"), solver, random_state=0)
    assert (result.termination.name, result.objective, result.bound) == ("OPTIMAL", 0.0, 0.0)


def test_where_rounding_hides_a_separation_the_bound_rises_no_more():
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 1.0, 12)
    X = np.column_stack([t, t + 1e-12 * rng.normal(size=12)])
    problem = TreeProblem(X, rng.normal(size=12), depth=1)
    result = solve(problem, ObliqueBranchAndBound(), random_state=0)
    assert result.termination.name == "STALLED"
    assert result.bound < result.objective
    assert ObliqueBranchAndBound().covers(problem)
    assert not MIP("big-m").covers(problem)  # trees with its margin alone


def test_clipped_leaves_may_lie_below_the_bound():
    X = np.linspace(-1.0, 1.0, 20)[:, None]
    problem = TreeProblem(X, np.tanh(8.0 * X[:, 0]), depth=1, splits="axis", leaves="linear", min_leaf=10)
    result = solve(problem, BranchAndBound(), random_state=0)
    assert result.termination.name == "OPTIMAL"
    assert problem.objective(problem.fit_leaves(result.tree)) < 0.95 * result.bound


def test_half_of_the_gap_asked_for_is_taken_off_the_bound_of_a_program():
    problem = drawn(20, depth=1, loss="absolute")
    optimum = solve(problem, MIP(n_thresholds=3), random_state=0).objective
    bound = solve(problem, MIP("flow", n_thresholds=3, gap=0.2), random_state=0).bound
    assert 0.89 * optimum < bound <= 0.9 * optimum  # HiGHS has proved the optimum


def test_a_restricted_program_covers_its_own_candidates_only():
    problem = drawn()
    for solver in (MIP(n_thresholds=4), MIP(max_splits=2), MIP(max_features=1), BranchAndBound(max_splits=2)):
        assert not solver.covers(problem)
    assert all(solver.covers(problem) for solver in (MIP(), MIP("flow"), MIP("big-m"), BranchAndBound()))


def test_a_statement_without_a_tree_is_infeasible():
    problem = drawn(12, constraints=[SameLeaf(0, 1), DifferentLeaf(0, 1)])
    for options, bound in (({}, np.inf), ({"n_thresholds": 2}, None)):
        result = solve(problem, MIP(**options), random_state=0)
        assert (result.termination.name, result.tree) == ("INFEASIBLE", None)
        assert (result.objective, result.bound, result.gap) == (np.inf, bound, None)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_early_bounds_are_bounds(loss):
    problem = drawn(200, loss=loss)
    optimum = solve(problem, BranchAndBound(), random_state=0).objective
    assert 0.0 < outputs_bound(problem, 3) < optimum
    assert 0.0 < max(blocks_bounds(problem, None, 5.0, np.random.default_rng(0))) <= optimum * (1.0 + 1e-9)
    rng = np.random.default_rng(0)
    rows = TreeProblem(
        rng.integers(0, 3, size=(200, 2)), rng.random(200) < 0.4, depth=2, splits="axis", loss="zero_one"
    )
    optimum = solve(rows, BranchAndBound(), random_state=0).objective
    assert 0.0 < equal_rows_bound(ExactTreeProblem(rows)) <= optimum * (1.0 + 1e-9)


def test_proofs_take_longer_where_the_features_tell_hardly_anything():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(1500, 3)), rng.normal(size=1500)
    work = []
    for y in (np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * noise, 0.025 * X[:, 0] + noise):
        result = solve(TreeProblem(X, y, depth=2, splits="axis"), BranchAndBound(), random_state=0)
        assert result.termination.name == "OPTIMAL"
        work.append(result.trace.to_frame()["evaluations"].max())
    assert work[1] > 3 * work[0]


def test_cart_is_a_few_percent_from_the_optimum():
    X, y = datasets.load("diabetes", as_arrays=True)
    problem = TreeProblem.standardized(X, y, depth=3, splits="axis")
    assert round(100.0 * certify(problem, solve(problem, CartInit())).gap, 1) == 3.5


@pytest.mark.skipif(find_spec("ortools") is None, reason="CPSAT refuses all without it")
def test_the_table_of_constraints_is_what_solvers_say():
    takes = runpy.run_path(str(ROOT / "docs/tools/takes.py"))
    assert "\n".join(takes["table"]()) in (ROOT / "docs/research/constraints.md").read_text(encoding="utf-8")
    stated = {type(constraint) for constraint, _words in takes["EXAMPLES"].values()}
    every = (kind for kind in vars(opttree.constraints).values() if isinstance(kind, type))
    kinds = {kind for kind in every if issubclass(kind, opttree.constraints.Constraint)}
    assert stated == {kind for kind in kinds if kind.kind}


def test_all_but_two_solvers_take_a_smallest_leaf():
    refused = set()
    for solver in example_solvers({name: getattr(solvers, name) for name in solvers.__all__}):
        for splits in ("axis", "oblique"):
            problem = drawn(splits=splits)
            if solver.refusal(problem) is None and solver.refusal(problem.restated(min_leaf=5)) is not None:
                refused.add(type(solver).__name__)
    assert refused == {"ORRT", "SDTR"}


def test_which_method_quotes_the_leaderboards():
    text = page("docs/which.md")
    default, tuned = board("leaderboard_regression_default"), board("leaderboard_regression_tuned")
    assert default.mean().sort_values(ascending=False).index[:2].tolist() == ["forest", "boosted"]
    assert f"first and second of {default.shape[1]} methods on {default.shape[0]} data sets" in text
    words = {10: "ten", 11: "eleven", 12: "twelve"}
    alike = [method for method in tuned if method.endswith("*")]
    assert f"rows and {words[len(alike)]} methods tuned alike" in text
    assert tuned[alike].mean().idxmax() == "forest*"
    told = (f"{tuned.mean()[method]:.3f}".lstrip("0") for method in ("forest*", "forest"))
    assert "({}; {} by default)".format(*told) in text
    better = (default["boosted"] > default["forest"]).sum(), (tuned["boosted*"] > tuned["forest*"]).sum()
    sets = default.shape[0]
    told = f"boosting is more accurate than the forest on {better[0]} of the {sets} data sets; with both tuned, on"
    assert f"{told} {better[1]}" in text
    lightgbm, linear, catboost = (
        (default["forest"] > default[rival]).sum() for rival in ("lightgbm", "lightgbm-linear", "catboost")
    )
    assert f"LightGBM on {lightgbm} of the {sets} data sets, than LightGBM with linear leaves on {linear}" in text
    assert f"than CatBoost on {catboost}." in text
    assert f"{(tuned['catboost*'] > tuned['forest*']).sum()} of {sets}" in text
    paired = pd.read_csv(RESULTS / "leaderboard_regression_default" / "paired.csv").set_index("method")
    assert f"(p = {paired.loc['catboost', 'p (Wilcoxon, Holm)']:.3f}".replace("0.", ".") in text
    classes = board("leaderboard_classification_default").mean()
    told = ", ".join(f"{classes[key]:.3f}".lstrip("0") for key in ("forest", "boosted", "catboost"))
    assert f"({told}); CatBoost has the best mean rank" in text
    classes = board("leaderboard_classification_tuned")
    told = [f"{classes.mean()[key]:.3f}".lstrip("0") for key in ("catboost*", "rf*", "forest*", "boosted*")]
    sentence = "CatBoost {}, scikit-learn's random forest {}, the forest {}, boosting {}.".format(*told)
    assert f"on {len(classes)} sets, it leads by little: {sentence}" in " ".join(text.split())
    (more, less), (above, below) = (
        ((classes["catboost*"] > classes[ours]).sum(), (classes["catboost*"] < classes[ours]).sum())
        for ours in ("forest*", "boosted*")
    )
    assert f"than the forest on {more} sets and less on {less}, than boosting on {above} and on {below}." in text
    newer = board("leaderboard_classification_ours").mean()
    told = [f"{newer[key]:.3f}".lstrip("0") for key in ("forest*", "forest", "boosted*", "lightgbm-linear*")]
    sentence = "the forest has {} tuned and {} by default, boosting {}, LightGBM with linear leaves {}".format(*told)
    assert sentence in " ".join(text.split())
    ranks = pd.read_csv(RESULTS / "leaderboard_classification_default" / "friedman.csv", index_col=0)
    assert ranks.iloc[:, 0].idxmin() == "catboost"
    for method in ("cart", "tao", "tao-linear"):
        assert f"{default[method].mean():.3f}".lstrip("0") in text
    soft = default[["orrt", "srt", "sdtr"]].mean()
    assert soft.idxmax() == "orrt"


def test_which_method_quotes_the_races():
    text = page("docs/which.md")
    pairs = [pd.read_csv(RESULTS / "race_full" / f"portfolios_{limit}s.csv").iloc[0] for limit in (10, 60)]
    assert {pair["portfolio"] for pair in pairs} == {"(TAO, LocalSearch) restarts + GET, LocalSearch"}
    assert "{:.1f} % at 10 s, {:.1f} % at 60 s".format(*(pair["mean gap %"] for pair in pairs)) in text
    assert len(set(pd.read_csv(RESULTS / "race_full" / "by_depth.csv")["best"])) > 1  # none leads everywhere
    far = pd.read_csv(RESULTS / "optimality_full" / "distances.csv").query("depth == 3").set_index("solver")
    cart, tao, local = (far.loc[name, "mean % above it"] for name in ("CART", "TAO", "LocalSearch"))
    told = f"CART is {cart:.0f} % above the proved optima of depth 3, TAO from random trees {tao:.0f} %, local search"
    assert f"{told} {local:.2f} %".replace(" 0.", " .") in text


def test_pages_of_methods_quote_their_reports():
    lines = numbers("srt_readings_evening").query("metric == 'test_r2' and dataset not in ('mean', 'puma32H')")
    readings = lines[lines["depth"].isna() | (lines["depth"] == 3)].groupby("method")[["ours"]].mean()
    printed = pd.read_csv(ROOT / "experiments/published/srt_table2.csv").query(
        "method == 'ORRT' and metric == 'test_r2'"
    )
    readings.loc["ORRT", "paper"] = printed[printed["dataset"].isin(lines["dataset"])]["value"].mean()
    text = page("docs/methods/srt.md")
    assert f"is {readings.loc['ORRT', 'paper']:.3f}".replace("0.", ".") in text
    few = [readings.loc[name, "ours"] for name in ("ORRT, 10 iterations", "ORRT, 30 iterations", "ORRT")]
    assert "gives {:.3f} and {:.3f} there, after 100 {:.3f}".format(*few).replace(" 0.", " .") in text
    assert f"linear regression alone gives {readings.loc['linear regression', 'ours']:.3f}".replace("0.", ".") in text
    at_two = numbers("srt_readings_evening").query("metric == 'test_r2' and depth == 2")
    constants = at_two[at_two["dataset"] == "mean"].set_index("method")["ours"]
    free, held = (f"{constants[name]:.3f}".lstrip("0") for name in ("SRT-l2, constants free", "SRT-l2"))
    assert f"much as it is: {free} in place of {held} at depth 2" in text
    at_two = at_two.query("dataset not in ('mean', 'computer_hardware')").groupby("method")["ours"].mean()
    named = ("SRT, 3 iterations", "SRT", "SRT, 10 iterations", "SRT, 20 iterations", "SRT, mean")
    three, five, *others = (f"{at_two[name]:.2f}".lstrip("0") for name in named)
    assert three == five
    told = "has a mean R2 of {} after three and five iterations of the sum, {} after ten, {} after twenty, and {} where"
    assert told.format(three, *others) in text
    for protocol, depth in (("srt_tableC4", 2), ("srt_table2", 3)):
        own = numbers(f"{protocol}_full").query(
            "metric == 'test_r2' and dataset not in ('mean', 'airfoil', 'computer_hardware')"
        )
        for method in ("SRT", "SRT-l2"):
            printed = own[own["published"] == method].drop_duplicates("dataset")["paper"].mean()
            means = own.groupby("method")["ours"].mean()
            runs = pd.read_csv(RESULTS / f"{protocol}_full" / "runs.csv").query("method == 'SRT, to the letter'")
            runs = runs[runs["dataset"].isin(own["dataset"]) & (runs["test_r2"] > -100.0)]
            means["SRT, to the letter"] = runs.groupby("dataset")["test_r2"].mean().mean()
            cells = [printed, *(means[name] for name in (method, f"{method}, to the letter", f"{method}, default"))]
            line = " | ".join(f"{cell:.3f}".lstrip("0") for cell in cells)
            assert f"| {method}, depth {depth} | {line} |" in text
    text, told = page("docs/methods/gradtree.md"), []
    for table in (1, 2):
        means = numbers(f"gradtree_table{table}_evening").query("dataset == 'mean'")
        means = means[means["metric"] == means["metric"].iloc[0]].set_index("method")["ours"]
        told += [f"{means[name]:.3f}".lstrip("0") for name in ("CART", "CART, tuned")]
        assert means["CART"] > means[["GradTree", "GradTree, default"]].max()
    assert "{} untuned and {} searched with 20 trials on table 1, {} and {} on table 2".format(*told) in text
    wine = numbers("sdtr_table2_full").query("dataset == 'wine_red' and metric == 'test_mse'")
    wine = wine.set_index("method")["ours"]
    soft = wine[[name for name in wine.index if name.startswith("SDTR")]]
    assert soft.idxmin() == "SDTR-Shallow, default"
    assert max(wine["CatBoost"], wine["RF"]) < soft.min() < wine["XGBoost-Tuned"]
    for name in ("CatBoost", "RF", "SDTR-Shallow, default", "XGBoost-Tuned"):
        assert f"({wine[name]:.3f})".replace("0.", ".") in page("docs/methods/sdtr.md")


def test_leave_one_out_codes_cost_what_their_docstring_says():
    text = " ".join((opttree.preprocessing.LeaveOneOutMeans.__doc__ or "").split())
    with_codes = numbers("gradtree_encoding_quick").query("method == 'CART' and metric == 'test_f1'")
    with_means = numbers("gradtree_table1_evening").query("method == 'CART' and metric == 'test_f1'")
    shown = []
    for frame in (with_codes, with_means):
        own = frame.set_index("dataset")["ours"]
        shown += [f"{own[name]:.2f}".lstrip("0") for name in ("titanic", "german")]
    assert f"was {shown[0]} with such codes on titanic and {shown[1]} on german" in text
    assert f"{shown[2]} and {shown[3]} with means" in text


def test_the_made_up_flats_are_as_many_as_the_page_says():
    assert f"a table of {len(pd.read_csv(ROOT / 'docs/rentals.csv')):,} made-up flats" in page("docs/start.md")
