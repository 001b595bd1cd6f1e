"""Draws the pictures of the start page and the README; ``python docs/tools/pictures.py`` writes them to ``_static``."""

import tempfile
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import opttree
from opttree import TAORegressor, TreeProblem, datasets
from opttree.plotting import plot_partition
from solvers import BranchAndBound, CartInit, LocalSearch

STATIC = Path(__file__).parent.parent / "_static"
KINDS = {
    "one feature in each split": {"splits": "axis"},
    "hyperplanes": {"splits": "oblique"},
    "hyperplanes, linear leaves": {"leaves": "linear"},
}


def hero() -> None:
    """Three trees of depth 2 on one function of two features."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1500, 2))
    y = np.abs(X[:, 0] + X[:, 1]) + 0.5 * X[:, 1] + 0.05 * rng.normal(size=1500)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained", sharey=True)
    for ax, (kind, options) in zip(axes, KINDS.items(), strict=True):
        model = TAORegressor(max_depth=2, leaf_shrinkage=0.0, random_state=0, **options).fit(X[:1000], y[:1000])
        plot_partition(model.tree_, X[:300], y[:300], ax=ax)
        ax.set_title(f"{kind}: R2 {model.score(X[1000:], y[1000:]):.2f}")
    figure.savefig(STATIC / "hero.png", dpi=110)


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
    profile()
