"""Draws the pictures of the site and the README; ``python -m docs.tools.pictures`` writes them to ``_static``."""

import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, cross_val_score

import opttree
from docs import generate
from opttree import TAOClassifier, TAORegressor, TreeProblem, datasets
from opttree.plotting import plot_partition, plot_tree
from solvers import BranchAndBound, CartInit, LocalSearch

STATIC = Path(__file__).parent.parent / "_static"
BOARD = "leaderboard_regression_default"
OURS = ("forest", "boosting", "AutoTree")
KINDS = {
    "one feature in each split": {"splits": "axis"},
    "hyperplanes": {"splits": "oblique"},
    "hyperplanes, linear leaves": {"leaves": "linear"},
}


def hero() -> None:
    """A tree that one can show, and the leaderboard's means: single trees, forests and boosting beside their rivals."""
    data = datasets.load("titanic")
    labels = np.where(np.asarray(data.y).astype(int) == 1, "survived", "died")
    tree = TAOClassifier(max_depth=3, splits="axis", random_state=0)
    score = cross_val_score(tree, data.X, labels, cv=StratifiedKFold(5, shuffle=True, random_state=0)).mean()
    figure = plt.figure(figsize=(9.0, 6.6))
    left, right = figure.add_axes((0.0, 0.42, 1.0, 0.53)), figure.add_axes((0.3, 0.02, 0.6, 0.34))
    plot_tree(tree.fit(data.X, labels), ax=left, fontsize=8.5)
    left.set_title(f"Titanic, depth 3: {100 * score:.0f} % right in five-fold cross-validation", fontsize=12)
    numbers = pd.read_csv(generate.RESULTS / BOARD / "numbers.csv")
    means = numbers[(numbers["metric"] == "test_r2") & (numbers["dataset"] == "mean")].set_index("method")["ours"]
    named = {label: means[method] for method, label in generate.LEADERS[BOARD].items()}
    order = sorted(named, key=lambda label: named[label])
    colors = ["#c0562f" if label.split(" (")[0] in OURS else "#9aa7b4" for label in order]
    bars = right.barh(order, [named[label] for label in order], color=colors, height=0.7)
    right.bar_label(bars, [f"{named[label]:.3f}".lstrip("0") for label in order], padding=3, fontsize=9)
    right.set_xlim(0.0, 1.0)
    right.set_title("Forests, boosting and rivals: mean test R2 on 26 data sets, default settings", fontsize=12, x=0.3)
    right.tick_params(labelsize=9, length=0)
    right.set_xticks([])
    right.spines[["top", "right", "bottom"]].set_visible(False)
    figure.savefig(STATIC / "hero.png", dpi=110)


def rentals() -> None:
    """The tree of the start page, without its last level."""
    flats = pd.read_csv(STATIC.parent / "rentals.csv")
    model = TAORegressor(max_depth=4, splits="axis", random_state=0)
    model.fit(flats.drop(columns="rent")[:900], flats["rent"][:900])
    plot_tree(model, max_depth=3).figure.savefig(STATIC / "rentals.png", dpi=100)


def kinds() -> None:
    """Three trees of depth 2 on one function of two features."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1500, 2))
    y = np.abs(X[:, 0] + X[:, 1]) + 0.5 * X[:, 1] + 0.05 * rng.normal(size=1500)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained", sharey=True)
    for ax, (kind, options) in zip(axes, KINDS.items(), strict=True):
        model = TAORegressor(max_depth=2, leaf_shrinkage=0.0, random_state=0, **options).fit(X[:1000], y[:1000])
        plot_partition(model.tree_, X[:300], y[:300], ax=ax)
        ax.set_title(f"{kind}: R2 {model.score(X[1000:], y[1000:]):.2f}")
    figure.savefig(STATIC / "kinds.png", dpi=110)


def profile() -> None:
    """The performance profile of the race on the start page."""
    problems = {}
    for name in ("diabetes", "friedman1"):
        X, y = datasets.load(name, as_arrays=True)
        problems[name] = TreeProblem.standardized(X[:300], y[:300], depth=2, splits="axis")
    entrants = {"CART": CartInit(), "local search": LocalSearch(), "branch and bound": BranchAndBound()}
    with tempfile.TemporaryDirectory() as folder:
        opttree.race(problems, entrants, time_limit=5).plot(folder)
        (STATIC / "profile.png").write_bytes((Path(folder) / "performance_profile.png").read_bytes())


if __name__ == "__main__":
    mpl.use("Agg")
    hero()
    kinds()
    rentals()
    profile()
