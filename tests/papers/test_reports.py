"""Reports: ours beside the paper's, what races say, and the files that a report leaves."""

import json
import re
import subprocess
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments import index, pictures, report, tables
from experiments.planned import Method, Splits
from experiments.protocol import FOLDER, Protocol
from experiments.reading import read
from solvers.races.compare import Comparison
from solvers.races.page import Section
from solvers.races.runs import ROOT
from solvers.races.store import Store

FIT = Protocol(
    name="get_table7",
    title="A title with an & and 50 %",
    source="GET, Table 7",
    note="A note.",
    datasets=("airfoil", "space_ga", "abalone"),
    seeds=(0, 1),
    methods={
        "CART": Method("cart"),
        "GET": Method("get"),
        "RF": Method("random-forest"),
        "CART*": Method(best_of="CART"),
        "absent": Method("sdtr"),
    },
    metrics=("test_r2", "fit_seconds"),
    tests=("friedman", "paired_t", "wilcoxon", "mrr", "mrd"),
    baseline="RF",
    published="get_table7",
)
RACE = Protocol(
    name="race",
    title="Race",
    kind="solve",
    datasets=("one", "two"),
    depths=(2,),
    leaves=("constant",),
    methods={"fast": Method("CartInit()"), "good": Method("TAO()"), "slow": Method("GET()")},
    time_limit=10.0,
    limits=(1.0, 10.0),
)
# seconds and objectives of the steps of each solver on each problem
STEPS = {
    ("one", "fast"): [(0.001, 8.0)],
    ("one", "good"): [(0.01, 8.0), (0.5, 4.0), (4.0, 2.0)],
    ("one", "slow"): [(2.0, 8.0), (5.0, 2.0)],
    ("two", "fast"): [(0.001, 1.0)],
    ("two", "good"): [(0.01, 1.0), (0.1, 0.5)],
}


def fill(store: Store, stated: Protocol, outcome) -> None:
    """Rows of every run of a protocol; ``outcome(run)`` gives status, reason, row and trace."""
    session = {"session": "s", "jobs": 1, "threads": 2, "cpu": "a processor", "cores": 2, "memory_gb": 8.0}
    session |= {"system": "a system", "python": "3.11", "libraries": json.dumps({"numpy": "2"})}
    store.add_session(session)
    for one in stated.runs("1.0+abc"):
        store.add(one, outcome(one), "s")


@pytest.fixture
def fits(tmp_path) -> Store:
    """Test R2 .5 + .1 per method (CART, GET, RF), less .1 for seed 1; training R2 the other way round."""
    store = Store("get_table7", tmp_path / "store")
    level = {"CART": 0.5, "GET": 0.6, "RF": 0.7}

    def outcome(one):
        if one.label == "absent":
            return {"status": "skipped", "reason": "opttree has no SDTRRegressor in this version"}
        place = FIT.datasets.index(one.dataset)
        test = level[one.label] - 0.1 * one.seed + 0.01 * place * len(one.label)
        return {"status": "ok", "reason": "", "row": {"test_r2": test, "train_r2": 1 - test, "fit_seconds": 0.25}}

    fill(store, FIT, outcome)
    return store


@pytest.fixture
def races(tmp_path) -> Store:
    store = Store("race", tmp_path / "store")

    def outcome(one):
        steps = STEPS.get((one.dataset, one.label))
        if steps is None:
            return {"status": "skipped", "reason": "it cannot"}
        trace = pd.DataFrame(steps, columns=["seconds", "objective"])
        trace = trace.assign(step=range(len(trace)), phase="", best=trace["objective"].cummin(), bound=np.nan)
        row = {"objective": steps[-1][1], "fit_seconds": steps[-1][0], "termination": "LOCALLY_OPTIMAL"}
        row["constant_objective"] = 10.0
        return {"status": "ok", "reason": "", "row": row, "trace": trace}

    fill(store, RACE, outcome)
    return store


def test_ours_stand_beside_the_papers(fits):
    lines = tables.long(FIT, tables.measured(FIT, fits.rows()))
    get = lines[(lines["method"] == "GET") & (lines["metric"] == "test_r2")].set_index("dataset")
    assert get.loc["airfoil", "ours"] == pytest.approx(0.55)
    assert get.loc["airfoil", "deviation"] == pytest.approx(np.sqrt(0.005))
    assert get.loc["airfoil", "paper"] == 0.8921
    assert get.loc["mean", "ours"] == pytest.approx(0.58)
    assert get.loc["mean", "paper"] == pytest.approx((0.8921 + 0.6207 + 0.5729) / 3)
    oc1 = lines[(lines["method"] == "OC1") & (lines["dataset"] == "airfoil")].iloc[0]
    assert np.isnan(oc1["ours"])
    assert oc1["paper"] == 0.8638


def test_like_stands_beside_like(tmp_path):
    """Columns: the paper's number once, then the paper's method, the library's, the default, each by its name."""
    chosen = {
        "GET": Method("get", options={"preset": "paper"}),
        "GET, default": Method("get", stands_for="GET"),
        "RF": Method("random-forest"),
        "GET, ten starts": Method("get", options={"n_starts": 10}, stands_for="GET"),
    }
    stated = replace(FIT, methods=chosen, tests=(), baseline="")
    store = Store("get_table7", tmp_path / "store")
    level = {"GET": 0.9, "GET, default": 0.5, "RF": 0.8, "GET, ten starts": 0.6}
    fill(
        store,
        stated,
        lambda one: {"status": "ok", "reason": "", "row": {"test_r2": level[one.label], "fit_seconds": 0.1}},
    )
    lines = tables.long(stated, tables.measured(stated, store.rows()))
    table = tables.beside(stated, lines, "test_r2")
    assert list(table.columns)[:6] == [
        "data set",
        "GET, paper (printed)",
        "GET, paper's method, ours",
        "GET, opttree's default",
        "GET, ten starts, variant",
        "RF, paper (printed)",
    ]
    assert "RF, library's, here" in table.columns
    assert table["GET, paper (printed)"].iloc[0].startswith("0.892")
    roles = lines.dropna(subset=["ours"]).set_index("method")["role"].to_dict()
    assert roles == {"GET": "printed", "GET, default": "default", "RF": "library", "GET, ten starts": "variant"}
    sections = report.write(stated, store, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "At least the paper's number in 3 of 3 pairs of a data set and a method: paper's method, ours." in text
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert (about["protocol"], about["runs"], about["wanted"]) == ("get_table7", 24, 24)
    assert sections


def test_a_method_that_a_budget_changes_is_reduced(tmp_path):
    path = tmp_path / "some.toml"
    path.write_text(
        "title = 't'\ndatasets = ['airfoil']\n[methods.GET]\nuse = 'get'\noptions = { preset = 'paper' }\n"
        "[budgets.few]\noptions.GET = { n_starts = 2 }\n"
    )
    assert tables.role(read(str(path)), "GET") == "printed"
    assert tables.role(read(str(path), "few"), "GET") == "reduced"


def test_a_papers_mean_stands_beside_ours_over_the_same_sets(fits):
    """Of the sets that ours is over, where the paper prints them; its printed mean only beside a mean over all."""
    few = replace(FIT, datasets=FIT.datasets[:2], budget="quick")
    lines = tables.long(few, tables.measured(few, fits.rows()))
    mean = lines[(lines["dataset"] == "mean") & (lines["method"] == "GET") & (lines["metric"] == "test_r2")].iloc[0]
    assert mean["paper"] == pytest.approx((0.8921 + 0.6207) / 2)
    only = replace(FIT, name="get_table8", published="get_table8", depths=(2,), metrics=("train_r2",), budget="quick")
    theirs = tables.published(only).rename(columns={"value": "paper", "method": "published"})
    ours = pd.DataFrame({"metric": "train_r2", "depth": 2, "dataset": FIT.datasets, "method": "GET", "ours": 0.5})
    assert tables._paper_means(only, theirs, ours).empty  # its means are over 16 sets, and these are three


def test_a_papers_printed_mean_is_kept_for_its_own_sets_alone():
    cells = {"airfoil": 0.9, "space_ga": 0.5, "abalone": 0.4, "mean": 0.65}
    theirs = pd.DataFrame({"dataset": cells.keys(), "paper": cells.values(), "published": "GET", "metric": "train_r2"})
    theirs["depth"] = 2
    ours = pd.DataFrame({"metric": "train_r2", "depth": 2, "dataset": FIT.datasets, "method": "GET", "ours": 0.5})
    stated = replace(FIT, depths=(2,), metrics=("train_r2",))
    assert tables._paper_means(stated, theirs, ours)["paper"].tolist() == [0.65]
    more = pd.concat([theirs, theirs.iloc[:1].assign(dataset="kin8nm")], ignore_index=True)  # its mean is over four
    assert tables._paper_means(stated, more, ours)["paper"].tolist() == [pytest.approx(0.6)]
    fewer = ours.iloc[:2].assign(method="RF", depth=np.nan)
    both = pd.concat([ours, fewer], ignore_index=True)
    assert tables._paper_means(stated, theirs, both)["paper"].tolist() == [pytest.approx(0.7)]


def test_means_have_confidence_intervals_over_seeds(fits):
    lines = tables.long(FIT, tables.measured(FIT, fits.rows()))
    mean = lines[(lines["method"] == "GET") & (lines["dataset"] == "mean") & (lines["metric"] == "test_r2")].iloc[0]
    values = np.array([0.63, 0.53])  # of the seeds, over the three data sets
    assert mean["ours"] == pytest.approx(values.mean())
    half = stats.t.ppf(0.975, 1) * values.std(ddof=1) / np.sqrt(2)
    assert mean["deviation"] == pytest.approx(half)


def test_means_of_groups_of_data_sets(fits):
    grouped = replace(FIT, groups={"mean_few": FIT.datasets[:2], "mean_all": FIT.datasets})
    lines = tables.long(grouped, tables.measured(grouped, fits.rows()))
    own = lines[(lines["method"] == "GET") & (lines["metric"] == "test_r2")].set_index("dataset")["ours"]
    assert own["mean_few"] == pytest.approx(own[list(FIT.datasets[:2])].mean())
    assert own["mean_all"] == pytest.approx(own[list(FIT.datasets)].mean())
    assert "mean" not in own


def test_improvements_and_paired_tests_are_metrics_too(fits):
    stated = replace(
        FIT,
        metrics=("test_r2", "test_r2_improvement", "seconds_reduction", "paired_t_p"),
        improvement="CART",
        baseline="RF",
    )
    lines = tables.long(stated, tables.measured(stated, fits.rows())).set_index(["metric", "dataset", "method"])["ours"]
    share = lines["test_r2", "airfoil", "GET"] / lines["test_r2", "airfoil", "CART"] - 1.0
    assert lines["test_r2_improvement", "airfoil", "GET"] == pytest.approx(share)
    assert lines["seconds_reduction", "airfoil", "GET"] == pytest.approx(0.0)
    assert 0.0 <= lines["paired_t_p", "mean", "GET"] < 0.05


def test_a_sweep_is_drawn(tmp_path):
    values = [1, 5, 10, 100]
    chosen = {f"RF, n_estimators={n}": Method("random-forest", options={"n_estimators": n}) for n in values}
    stated = replace(
        FIT, methods=chosen, tests=(), baseline="", published="", sweep="n_estimators, max_depth", metrics=("test_r2",)
    )
    store = Store("sweep", tmp_path / "store")
    fill(
        store,
        stated,
        lambda one: {"status": "ok", "reason": "", "row": {"test_r2": 0.1 * len(one.label), "fit_seconds": 0.1}},
    )
    report.write(stated, store, tmp_path / "out")
    assert (tmp_path / "out" / "sweep_n_estimators_test_r2.png").stat().st_size > 5000
    assert "sweep_n_estimators_test_r2.png" in (tmp_path / "out" / "report.md").read_text()
    assert not list((tmp_path / "out").glob("sweep_max_depth*"))  # no run has it yet
    lines = pictures.swept("n_estimators", tables.long(stated, tables.measured(stated, store.rows())))
    axes = pictures.sweep(stated, "n_estimators", lines, "R2").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "5", "10", "100"]  # as stated, not as text
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.1 * len(label) for label in chosen])


def test_the_index_says_what_was_run_and_where_we_fall_short(fits, tmp_path):
    report.write(FIT, fits, tmp_path / "get_table7_full")
    empty = tmp_path / "get_table8_full"  # a report without a number has no means
    empty.mkdir()
    about = json.loads((tmp_path / "get_table7_full" / "about.json").read_text())
    (empty / "about.json").write_text(json.dumps(about | {"protocol": "get_table8"}))
    header = (tmp_path / "get_table7_full" / "numbers.csv").read_text().splitlines()[0]
    (empty / "numbers.csv").write_text(f"{header}\n")
    text = index.index(tmp_path)
    assert "(get_table8_full/report.md)" in text
    assert "\n| get_table8 |" not in text
    assert "| GET | Table 7 | get_table7 | run, 18 of 24 runs | 0.00 | [full](get_table7_full/report.md) |" in text
    assert "| TAO | Table 3 |  | no protocol: experiments/benchmarks/digits.py" in text
    assert "| SRT | Table 2 | srt_table2 | not run |" in text
    line = next(line for line in text.splitlines() if line.startswith("| get_table7 | test_r2 |"))
    assert line.split("|")[5:8] == [" 3 of 16 ", " 0.695 [1.059] ", "  "]
    # of 1 - R2, GET's .42 by default is 1.5 times the forest's .28 here, and the paper's less than its forest's
    assert line.split("|")[8:10] == [" 0.580 ± 0.635 [1.272] ", " space_ga, abalone "]
    assert index.state([]) == "not run"
    assert index.state([{"budget": "quick", "runs": 3, "wanted": 4}]) == "quick, 3 of 4 runs"


def test_the_best_of_the_starts_is_chosen_by_training(fits):
    lines = tables.long(FIT, tables.measured(FIT, fits.rows())).set_index(["metric", "method", "dataset"])
    assert lines.loc[("test_r2", "CART*", "airfoil"), "ours"] == pytest.approx(0.4)  # seed 1's training R2 is higher


def test_of_several_methods_the_one_with_the_lowest_validation_loss_is_taken(tmp_path):
    chosen = {"a": Method("cart"), "b": Method("get"), "tuned": Method(best_of=["a", "b"])}
    stated = replace(FIT, methods=chosen, tests=(), baseline="")
    store = Store("get_table7", tmp_path)

    def outcome(one):
        if one.label == "b" and one.dataset == "abalone":
            return {"status": "skipped", "reason": "no"}
        better = (one.label == "a") == (one.seed == 0)
        return {"status": "ok", "reason": "", "row": {"test_r2": 0.5, "validation_loss": 0.1 if better else 0.2}}

    fill(store, stated, outcome)
    kept = tables.measured(stated, store.rows())
    tuned = kept[kept["method"] == "tuned"]
    assert set(tuned["dataset"]) == {"airfoil", "space_ga"}  # one of them has no row on abalone
    assert list(tuned.sort_values(["dataset", "seed"])["run_id"]) == [
        one.run_id
        for one in sorted(stated.runs(""), key=lambda one: (one.dataset, one.seed))
        if one.dataset != "abalone" and (one.label == "a") == (one.seed == 0)
    ]
    rows = store.rows().drop(columns="validation_loss")
    assert "tuned" not in set(tables.measured(stated, rows)["method"])


def test_of_two_versions_the_newest_row_counts(fits):
    one = next(FIT.runs("2.0+def"))
    fits.add(one, {"status": "ok", "reason": "", "row": {"test_r2": 0.9, "train_r2": 0.0, "fit_seconds": 1.0}}, "s")
    rows = fits.rows().assign(finished=lambda f: f["finished"].where(f["code_version"] != "2.0+def", "2999"))
    kept = tables.measured(FIT, rows)
    again = kept[(kept["dataset"] == one.dataset) & (kept["method"] == one.label) & (kept["seed"] == one.seed)]
    assert list(again["test_r2"]) == [0.9]


def test_a_report_leaves_tables_figures_and_a_page(fits, tmp_path):
    folder = tmp_path / "report"
    written = {path.name for path in report.write(FIT, fits, folder)}
    assert {"report.md", "report.html", "numbers.csv", "test_r2.csv", "test_r2.tex"} <= written
    assert {"ranks.png", "ranks.pdf", "published.png", "paired.csv", "mrr.tex"} <= written
    text = (folder / "report.md").read_text()
    assert "0.550 ± 0.071" in text
    assert "0.892" in text
    assert "opttree has no SDTRRegressor in this version" in text
    assert "1.0+abc" in text
    page = (folder / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert page.count("data:image/png;base64,") == 2
    assert "A title with an &amp; and 50 %" in page
    tex = (folder / "test_r2.tex").read_text()
    assert r"space\_ga" in tex
    assert r"$\pm$" in tex


def test_the_tables_of_a_report_are_latex(fits, tmp_path):
    """Every LaTeX table has as many cells in each line as columns, and no character that LaTeX would take amiss."""
    report.write(FIT, fits, tmp_path / "report")
    paths = list((tmp_path / "report").glob("*.tex"))
    assert {"test_r2.tex", "mrr.tex"} <= {path.name for path in paths}
    for path in paths:
        text = path.read_text()
        columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", text)[1])
        lines = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert lines, path
        assert all(len(re.findall(r"(?<!\\)&", line)) == columns - 1 for line in lines), path
        assert not re.search(r"(?<!\\)[%_#]", text), path


def test_any_reason_is_valid_latex_and_markdown():
    assert tables._tex(r"a_b {x} $y \foo <1 ~^") == (
        r"a\_b \{x\} \$y \textbackslash{}foo $<$1 \textasciitilde{}\textasciicircum{}"
    )
    section = Section("s", table=pd.DataFrame({"reason": ["a|b"]}))
    assert r"a\|b" in report.markdown(FIT, [section])


def test_runs_that_are_missing_are_counted(fits):
    rows = fits.rows().iloc[:-4]
    assert "4 of 24 runs have not been done yet." in report._missing(FIT, rows).text


def test_a_summary_counts_its_data_sets(fits, tmp_path):
    summary = replace(FIT, summary=True)
    report.write(summary, fits, tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert "mean of 3" in text
    report.write(replace(summary, datasets=("airfoil",)), fits, tmp_path / "report")
    assert "there are fewer" in (tmp_path / "report" / "report.md").read_text()


def test_a_metric_that_no_row_has_is_no_error(fits, tmp_path):
    report.write(replace(FIT, metrics=("test_f1", "test_r2")), fits, tmp_path / "report")
    assert "0.550" in (tmp_path / "report" / "report.md").read_text()


def test_other_files_of_the_folder_stay(fits, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    report.write(FIT, fits, tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_race_by_hand(races):
    race = Comparison(RACE, tables.measured(RACE, races.rows()), races.traces())
    assert list(race.best) == [2.0, 0.5]
    at = race.at(1.0).droplevel(["depth", "leaves", "split", "rows"])
    assert at.loc["one"].to_dict() == {"fast": 8.0, "good": 4.0, "slow": np.inf}
    assert race.gaps(1.0)["good"].tolist() == [0.5, 0.0]
    assert race.gaps(10.0)["fast"].tolist() == [0.75, 0.5]
    assert np.isnan(race.gaps(10.0)["slow"].iloc[1])  # it did not run there
    seconds = race.seconds_to(0.01)
    assert seconds["good"].tolist() == [4.0, 0.1]
    assert seconds["fast"].tolist() == [np.inf, np.inf]
    # on the problem that all ran "good" has the best objective of all by 1 s; the reference, 2.0, it finds after 4 s
    wanted = ["problems", "best by then", "reference, every seed", "reference, some seed"]
    assert race.summary(1.0).loc["good", wanted].tolist() == [2, 1, 0, 0]
    late = race.summary(10.0)
    assert late.loc["good", wanted].tolist() == [2, 1, 1, 1]
    assert late.loc["slow", "problems"] == 1
    assert late.loc["fast", "mean gap %"] == pytest.approx(75.0)  # and not over problems that "slow" lacks
    # good on "one": gap 1 for .01 s, .75 for .49, .5 for 3.5, 0 after; on "two": 1 for .01, .5 for .09
    integrals = race.integrals()["good"]
    assert integrals.tolist() == pytest.approx([(0.01 + 0.75 * 0.49 + 0.5 * 3.5) / 10, (0.01 + 0.5 * 0.09) / 10])


def test_a_portfolio_shares_the_time(races):
    race = Comparison(RACE, tables.measured(RACE, races.rows()), races.traces())
    portfolios = race.portfolios(10.0).set_index("portfolio")["mean gap %"]
    assert portfolios["good"] == 0.0
    assert portfolios["fast + good"] == 0.0  # 5 s suffice for it
    assert race.portfolios(4.0).set_index("portfolio").loc["fast + good", "mean gap %"] == pytest.approx(50.0)


def test_a_race_report_has_profiles(races, tmp_path):
    written = {path.name for path in report.write(RACE, races, tmp_path / "report")}
    assert {
        "performance_10_per_mille.png",
        "data_1_per_mille.pdf",
        "gap_constant_leaves.png",
        "within_1s.csv",
    } <= written
    assert "it cannot" in (tmp_path / "report" / "report.md").read_text()


def test_committed_reports_are_small_and_name_their_code():
    pages = list((FOLDER / "results").glob("*/report.md"))
    assert pages
    for page in pages:
        assert sum(path.stat().st_size for path in page.parent.iterdir()) < 4_000_000, page
        assert "Code version: " in page.read_text()
    tracked = subprocess.run(["git", "ls-files", "*.parquet"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert tracked.stdout == ""


def test_a_split_is_told_in_words():
    kfold = Protocol(name="k", title="", datasets=("a",), methods={"c": Method("cart")}, splits=Splits("kfold", k=4))
    assert report._splits(kfold) == "4-fold, new folds for every seed"
    assert report._splits(FIT) == "random, 75 % of the rows for training"


def test_no_two_methods_look_alike_against_the_published():
    table = pd.DataFrame({"method": [f"m{i:02d}" for i in range(20)], "ours": 0.5, "paper": np.linspace(0.4, 0.6, 20)})
    drawn = pictures.against_published(table, "R2").axes[0].lines[:20]
    assert len({(line.get_marker(), line.get_color()) for line in drawn}) == 20


def test_one_failure_does_not_hide_the_other_marks():
    table = pd.DataFrame({"method": "m", "ours": [0.5, 0.6, -1900.0], "paper": [0.5, 0.6, 0.9]})
    axes = pictures.against_published(table, "R2").axes[0]
    assert axes.get_ylim()[0] > -0.1
    assert axes.get_ylabel() == "R2, here (1 beyond)"
