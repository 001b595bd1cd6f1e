"""Statements beyond prediction that solve protocols name as data sets: policies, costs, survival times, effects.

Rows are all rows, in their own units; nothing is held out. Drawn ones are the same for every seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split

from opttree import causal, datasets
from opttree.losses import Exponential
from opttree.tables.survival import nelson_aalen, steps_at

Floats = np.ndarray
MISSED = 5.0  # times as dear is the second class taken for the first, in german's own cost matrix


class Stated(NamedTuple):
    """Features, outcomes, the loss, and weights of the rows or None."""

    X: Floats
    y: Floats
    loss: Any
    weight: Floats | None = None


def _table(name: str, **how: Any) -> Floats:
    return np.loadtxt(Path(os.environ["OPTTREE_DATA"]) / "tasks" / name, **how)


def _rewards(X: Floats, rewards: Floats) -> Stated:
    return Stated(X, rewards.max(axis=1, keepdims=True) - rewards, "cost")


def policytree() -> Stated:
    """The data of policytree's tests."""
    X, rewards = (_table(f"policytree_{name}.csv.gz", delimiter=",", skiprows=1) for name in ("X", "rewards"))
    return _rewards(X, rewards)


def warfarin(teacher: str, scores: str) -> Stated:
    """Doses of warfarin, by scores of pystreed's file of predictions."""
    table = _table(f"train_rf_dt_{teacher}_0_0.csv.gz")
    arm, rows, expected = table[:, 1].astype(int), np.arange(len(table)), table[:, 4:7]
    found = np.zeros_like(expected) if scores == "ipw" else expected.copy()
    found[rows, arm] += (table[:, 2] - (expected[rows, arm] if scores == "dr" else 0.0)) / table[:, 3]
    return _rewards(table[:, 11:], found)


def rewards_of(X: np.ndarray) -> np.ndarray:
    """(n, 3) expected rewards: 3 for the action of a row's region, 1 for the others."""
    box = (X[:, 4] > 0.6) | (X[:, 6] < 0.35)
    inside = (X[:, 4] / 0.6) ** 2 + (X[:, 6] / 0.35) ** 2 < 1.0
    region = np.where(inside, 2, np.where(box, 0, 1))
    return np.where(region[:, None] == np.arange(3), 3.0, 1.0)


def mapl(n: int) -> Stated:
    """Rewards of three actions in three regions, with noise (Zhou, Athey and Wager, section 6.4.1), and doubly robust
    scores of them.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 10))
    arm = rng.integers(3, size=n)
    outcome = rewards_of(X)[np.arange(n), arm] + 2.0 * rng.normal(size=n)
    models = {"outcome_model": LinearRegression(), "propensity_model": LogisticRegression(max_iter=1000)}
    return _rewards(X, causal.scores(X, arm, outcome, random_state=0, **models))


def maxsat() -> Stated:
    """Seconds of eight solvers on instances of MAXSAT, the training rows of pystreed's example."""
    table = _table("maxsat21-32f.txt.gz")
    X, costs = train_test_split(table[:, 9:], table[:, 1:9], test_size=0.2, random_state=42)[::2]
    return Stated(X, costs, "cost")


def matrix(name: str, ratio: float) -> Stated:
    """Classes of a data set, where taking the last for another costs ``ratio`` times as much as other errors."""
    X, y = datasets.load(name, as_arrays=True)
    code = np.unique(y, return_inverse=True)[1]
    costs = 1.0 - np.eye(code.max() + 1)
    costs[-1] *= ratio
    return Stated(X, costs[code], "cost")


def survival_times(name: str) -> Stated:
    """Cumulative hazards of pystreed's survival files, signed: below zero where no event was seen."""
    table = _table(f"{name}_binary.txt.gz")
    event = table[:, 1] > 0.0
    steps = nelson_aalen(event, table[:, 0], np.ones(len(table)))
    hazard = steps_at(*steps, table[:, 0], steps[1][0])
    return Stated(table[:, 2:], np.where(event, hazard, -hazard), Exponential())


def drawn_times(n: int) -> Stated:
    """Exponential times whose hazard depends on two of six features, half of them cut off."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    time, end = rng.exponential(size=(2, n)) * np.stack([np.exp(X[:, 0] * (X[:, 1] > 0.0)), np.ones(n)])
    return Stated(X, np.where(time < end, time, -end), Exponential())


def effect(kind: str, n: int) -> Stated:
    """The R-loss of effects: residuals of outcomes over those of treatments, weighted by their squares."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    treated = rng.random(n) < 1.0 / (1.0 + np.exp(-X[:, 2]))
    jump = np.sign(X[:, 0] * X[:, 1]) / 2.0
    size = jump if kind == "jump" else 0.5 * (np.maximum(X[:, 0], 0) + np.maximum(X[:, 1], 0) - 1.0)
    outcome = np.maximum(X[:, 2] + X[:, 3], 0.0) + treated * size + rng.normal(size=n)
    models = {"outcome_model": LinearRegression(), "propensity_model": LogisticRegression()}
    y, t = causal.residuals(X, treated, outcome, random_state=0, **models)
    return Stated(X, y / t, "squared", t * t)


STATEMENTS: dict[str, Callable[[], Stated]] = {
    "policytree": policytree,
    "mapl_500": partial(mapl, 500),
    "mapl_2000": partial(mapl, 2000),
    **{f"warfarin_{t}_{s}": partial(warfarin, t, s) for t in ("0.06", "random") for s in ("ipw", "dr")},
    "maxsat": maxsat,
    "german_cost": partial(matrix, "german", MISSED),
    "breast_cancer_cost": partial(matrix, "breast_cancer_wisconsin", 20.0),
    "heart_disease_cost": partial(matrix, "heart_disease", 3.0),
    "car_cost": partial(matrix, "car", 10.0),
    "glass_cost": partial(matrix, "glass", 4.0),
    "colon": partial(survival_times, "colon"),
    "acath": partial(survival_times, "acath"),
    "times_500": partial(drawn_times, 500),
    "times_2000": partial(drawn_times, 2000),
    "jump_1000": partial(effect, "jump", 1000),
    "smooth_1000": partial(effect, "smooth", 1000),
    "jump_5000": partial(effect, "jump", 5000),
}


@lru_cache(maxsize=2)
def stated(name: str) -> Stated:
    """A statement by its name."""
    return STATEMENTS[name]()
