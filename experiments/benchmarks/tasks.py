"""What the exact search proves beyond prediction, beside other programs: policies, survival times on the sets that
scikit-survival bundles, effects of a treatment on drawn data, clusters beside k-means, paths whose costs are predicted,
F1 beside pystreed.

Folds and draws are the same for all. Nothing is tuned by test rows: sizes of our trees are chosen by inner folds; those
of scikit-survival are its defaults, and of depth 3 with as many rows in a leaf as ours.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from experiments.benchmarks.common import Row, script
from experiments.statements import rewards_of
from opttree import (
    CausalTree,
    KMeansTree,
    PolicyTree,
    SplitPrice,
    SurvivalForest,
    SurvivalTree,
    TreeProblem,
    causal,
    survival,
)
from solvers import BranchAndBound, Ratio, solve

SURVIVAL = ("veterans_lung_cancer", "gbsg2", "whas500", "breast_cancer", "bmt", "cgvhd", "aids", "flchain")
INSTANCES = ("tic-tac-toe", "yeast", "diabetes", "primary-tumor", "kr-vs-kp", "hypothyroid")
KINDS = {"jump": 2, "smooth": 2, "jump of depth 3": 3}


def bundled(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """A set of scikit-survival's: blanks of categories are a level, times are above 0."""
    from sksurv import datasets as bundle

    X, y = getattr(bundle, f"load_{name}")()
    event, when = (y[part] for part in y.dtype.names)
    X = X[when > 0.0].reset_index(drop=True)
    for column in X.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in X.dtypes]]:
        X[column] = X[column].astype(object).where(X[column].notna(), "?").astype(str).astype("category")
    return X, survival.outcome(event[when > 0.0] > 0, when[when > 0.0])  # of several kinds of events, any


def models(n: int) -> dict[str, Callable[[], Any]]:
    """Ours and scikit-survival's, for so many rows."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.tree import SurvivalTree as Tree

    def encoded(model: Any) -> Any:
        indicators = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        columns = make_column_transformer(
            (indicators, make_column_selector(dtype_exclude="number")),
            (SimpleImputer(), make_column_selector(dtype_include="number")),
        )
        return make_pipeline(columns, model)

    return {
        "SurvivalTree": lambda: SurvivalTree(random_state=0),
        "sksurv tree": lambda: encoded(Tree(random_state=0)),
        "sksurv tree, depth 3": lambda: encoded(Tree(max_depth=3, min_samples_leaf=max(5, n // 50), random_state=0)),
        "SurvivalForest": lambda: SurvivalForest(random_state=0, n_jobs=1),
        "sksurv forest": lambda: encoded(RandomSurvivalForest(random_state=0, n_jobs=1)),
    }


def of_survival(names: tuple[str, ...]) -> Iterator[Row]:
    """C and integrated Brier score over five folds."""
    from sklearn.model_selection import KFold
    from sksurv.metrics import integrated_brier_score

    for name in names:
        X, y = bundled(name)
        for label, make in models(len(X)).items():
            found = []
            for train, test in KFold(5, shuffle=True, random_state=0).split(X):
                began = time.process_time()
                model = make().fit(X.iloc[train], y[train])
                seconds = time.process_time() - began
                c = survival.concordance(y[test], model.predict(X.iloc[test]))
                test = test[y["time"][test] < y["time"][train].max()]
                when = y["time"][test]
                ends = np.quantile(y["time"][train][y["event"][train]], [0.05, 0.85])
                times = np.linspace(max(ends[0], when.min() * 1.001), min(ends[1], when.max() * 0.999), 60)
                alive = np.array([function(times) for function in model.predict_survival_function(X.iloc[test])])
                found.append((c, integrated_brier_score(y[train], y[test], alive, times), seconds))
            c, brier, seconds = np.mean(found, axis=0)
            yield {"data": name, "rows": len(X), "model": label, "C": c, "Brier": brier, "cpu s": seconds}


def drawn(kind: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, treatments, outcomes and effects, by the effects of equations 46 and 47 of Athey and Wager (2021)."""
    X = rng.normal(size=(n, 10))
    treated = rng.random(n) < 1.0 / (1.0 + np.exp(-X[:, 2]))
    jump = np.sign(X[:, 0] * X[:, 1]) / 2.0
    effect = jump if kind.startswith("jump") else 0.5 * (np.maximum(X[:, 0], 0) + np.maximum(X[:, 1], 0) - 1.0)
    return X, treated, np.maximum(X[:, 2] + X[:, 3], 0.0) + treated * effect + rng.normal(size=n), effect


def of_effects(draws: int) -> Iterator[Row]:
    """Root mean square errors of effects, and how often intervals of leaves have their mean effects."""
    from sklearn.tree import DecisionTreeRegressor

    for kind, depth in KINDS.items():
        errors: dict[str, list[float]] = {}
        inside: list[bool] = []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            X, treated, outcome, _effect = drawn(kind, 2000, rng)
            X_test, _treated, _outcome, effect = drawn(kind, 4000, rng)
            y, t = causal.residuals(X, treated, outcome)
            cart = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=50).fit(X, y / t, sample_weight=t * t)
            whole = CausalTree(depth, honest=False, random_state=0).fit(X, treated, outcome)
            honest = CausalTree(depth, random_state=0).fit(X, treated, outcome)
            for label, answers in (
                ("one effect", np.full(len(effect), np.sum(t * y) / np.sum(t * t))),
                ("CART", cart.predict(X_test)),
                ("CausalTree(honest=False)", whole.predict(X_test)),
                ("CausalTree", honest.predict(X_test)),
            ):
                errors.setdefault(label, []).append(float(np.sqrt(np.mean((answers - effect) ** 2))))
            leaf, interval = honest.apply(X_test), honest.effect_interval(X_test)
            for node in np.unique(leaf):
                low, high = interval[leaf == node][0]
                inside.append(bool(low <= effect[leaf == node].mean() <= high))
        for label, values in errors.items():
            covered = float(np.mean(inside)) if label == "CausalTree" else None
            yield {"effect": kind, "model": label, "error": float(np.mean(values)), "covered, of 95 %": covered}


def of_clusters() -> Iterator[Row]:
    """Sums of squares over those of k-means."""
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine
    from sklearn.preprocessing import StandardScaler

    tables = {
        "iris": load_iris().data,
        "wine, scaled": StandardScaler().fit_transform(load_wine().data),
        "breast cancer, scaled": StandardScaler().fit_transform(load_breast_cancer().data),
    }
    for name, k in (("iris", 3), ("iris", 4), ("wine, scaled", 3), ("wine, scaled", 5), ("breast cancer, scaled", 2)):
        began = time.perf_counter()
        model = KMeansTree(k).fit(tables[name])
        seconds = time.perf_counter() - began
        free = KMeans(k, n_init=20, random_state=0).fit(tables[name])
        yield {
            "data": name,
            "k": k,
            "over k-means": model.inertia_ / free.inertia_,
            "gap": model.gap_,
            "seconds": seconds,
        }


def of_ratios() -> Iterator[Row]:
    """F1 of the training rows, with its bound, and that of pystreed."""
    from pystreed import STreeDClassifier
    from sklearn.metrics import f1_score

    for name in INSTANCES:
        table = pd.read_csv(Path(os.environ["OPTTREE_DATA"]) / "exact" / f"dl_{name}.csv.gz").to_numpy()
        X, y = table[:, :-1].astype(float), (table[:, -1] == table[:, -1].max()).astype(int)
        for depth in (2, 3):
            began = time.perf_counter()
            last = solve(TreeProblem(X, y, depth, "axis", loss="zero_one"), Ratio("f1")).trace.rows[-1].info
            ours, began = time.perf_counter() - began, time.perf_counter()
            peer = STreeDClassifier("f1-score", max_depth=depth, max_num_nodes=2**depth - 1).fit(X.astype(int), y)
            seconds = time.perf_counter() - began
            yield {
                "data": name,
                "depth": depth,
                "F1": last["ratio"],
                "at most": last["bound"],
                "pystreed": f1_score(y, peer.predict(X.astype(int))),
                "s": ours,
                "pystreed s": seconds,
            }


def of_policies(draws: int) -> Iterator[Row]:
    """True values of policies on 20,000 new rows, learnt from doubly robust scores: ours, and econml's greedy trees.

    Rewards of three actions in three regions (Zhou, Athey and Wager, 2023, section 6.4.1); scores are the same for
    both, and leaves have 5 rows at least.
    """
    from econml.policy import PolicyTree as Greedy
    from sklearn.linear_model import LinearRegression, LogisticRegression

    models = {"outcome_model": LinearRegression(), "propensity_model": LogisticRegression(max_iter=1000)}
    for n, depth in ((500, 2), (2000, 2), (8000, 2), (500, 3), (2000, 3)):
        found: dict[str, list[list[float]]] = {}
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            X, X_test = rng.uniform(size=(n, 10)), rng.uniform(size=(20000, 10))
            mean, new = rewards_of(X), rewards_of(X_test)
            arm = rng.integers(3, size=n)
            scores = causal.scores(X, arm, mean[np.arange(n), arm] + 2.0 * rng.normal(size=n), **models)
            for label, make in (
                ("PolicyTree", lambda: PolicyTree(depth, min_samples_leaf=5)),  # noqa: B023 (used at once)
                ("PolicyTree, split_price='cv'", lambda: PolicyTree(depth, min_samples_leaf=5, split_price="cv")),  # noqa: B023
                ("econml", lambda: Greedy(max_depth=depth, min_samples_leaf=5, random_state=0)),  # noqa: B023
            ):
                began = time.perf_counter()
                model = make().fit(X, scores)
                seconds = time.perf_counter() - began
                action = np.asarray(model.predict(X_test))
                action = action.argmax(axis=1) if action.ndim == 2 else action
                value = new[np.arange(len(action)), action].mean()
                found.setdefault(label, []).append([value, float(getattr(model, "is_optimal_", 0.0)), seconds])
        for label, rows in found.items():
            value, proved, seconds = np.mean(rows, axis=0)
            yield {
                "rows": n,
                "depth": depth,
                "policy": label,
                "value": value,
                "proved": proved if label != "econml" else None,
                "s": seconds,
            }


def of_sparse(limit: float) -> Iterator[Row]:
    """Sparse trees of any depth, a price for each split: objective and seconds beside GOSDT and pystreed."""
    from gosdt import GOSDTClassifier
    from pystreed import STreeDClassifier

    for name in INSTANCES:
        table = pd.read_csv(Path(os.environ["OPTTREE_DATA"]) / "exact" / f"dl_{name}.csv.gz").to_numpy()
        X, y = table[:, :-1], table[:, -1].astype(int)
        for price in (0.05, 0.02, 0.01):
            problem = TreeProblem(X.astype(float), y, 16, "axis", loss="zero_one", penalties=(SplitPrice(price),))
            ours = BranchAndBound()
            row: Row = {"data": name, "price": price}
            began = time.perf_counter()
            if ours.refusal(problem) is None:
                result = solve(problem, ours, time_limit=limit)
                row |= {"objective": result.objective, "bound": result.bound, "s": time.perf_counter() - began}
            began = time.perf_counter()
            peer = GOSDTClassifier(regularization=price, time_limit=int(limit)).fit(pd.DataFrame(X == 1), pd.Series(y))
            found = peer.result_
            row |= {
                "GOSDT": found.upperbound - price,
                "its bound": found.lowerbound - price,
                "GOSDT s": time.perf_counter() - began,
            }
            began = time.perf_counter()
            other = STreeDClassifier("cost-complex-accuracy", max_depth=16, cost_complexity=price, time_limit=limit)
            other.fit(X.astype(int), y)
            errors = float(np.mean(other.predict(X.astype(int)) != y))
            objective = errors + price * (other.get_n_leaves() - 1)
            row |= {"pystreed": objective, "pystreed s": time.perf_counter() - began}
            yield row


def paths(size: int) -> np.ndarray:
    """(K, E) the edges of all shortest paths through a grid of ``size`` x ``size`` nodes, as 0 and 1."""
    steps = size - 1
    found = []
    for right in combinations(range(2 * steps), steps):
        used, row, column = np.zeros(2 * size * steps), 0, 0
        for k in range(2 * steps):
            if k in right:
                used[row * steps + column] = 1.0
                column += 1
            else:
                used[size * steps + column * steps + row] = 1.0
                row += 1
        found.append(used)
    return np.array(found)


def of_decisions(draws: int) -> Iterator[Row]:
    """Extra cost of paths over the best ones, on new rows: by trees of costs of paths, and by trees of costs of edges.

    The generator of Elmachtoub and Grigas, "Smart predict, then optimize" (2022): 200 rows of five features, edges of
    a grid of 4 x 4 nodes whose costs are polynomials of a degree, with noise of a quarter.
    """
    decisions = paths(4)
    for degree, depth in ((2, 1), (2, 2), (6, 1), (6, 2)):
        extra: dict[str, list[float]] = {}
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            B = rng.integers(2, size=(decisions.shape[1], 5))

            def rows(n: int, rng: np.random.Generator = rng, B: np.ndarray = B) -> tuple[np.ndarray, np.ndarray]:
                X = rng.normal(size=(n, 5))
                edges = ((X @ B.T) / np.sqrt(5.0) + 3.0) ** degree / 3.5**degree + 1.0  # noqa: B023 (used at once)
                return X, edges * rng.uniform(0.75, 1.25, size=edges.shape)

            (X, edges), (X_test, new) = rows(200), rows(5000)
            costs, new_costs = edges @ decisions.T, new @ decisions.T
            squared = solve(TreeProblem(X, edges, depth, "axis", min_leaf=5), BranchAndBound()).tree
            chosen = {
                "costs of paths": PolicyTree(depth, min_samples_leaf=5, solver="bnb").fit(X, -costs).predict(X_test),
                "squared loss of edges": np.argmin(squared.predict(X_test) @ decisions.T, axis=1),
            }
            best = new_costs.min(axis=1).mean()
            for label, action in chosen.items():
                paid = new_costs[np.arange(len(action)), action].mean()
                extra.setdefault(label, []).append(paid / best - 1.0)
        for label, values in extra.items():
            yield {"degree": degree, "depth": depth, "tree of": label, "extra cost": float(np.mean(values))}


@script
def main(
    what: Annotated[str, "survival, effects, clusters, decisions, ratios, policies or sparse"],
    names: Annotated[tuple[str, ...], "sets of survival"] = SURVIVAL,
    draws: Annotated[int, "of effects and decisions"] = 10,
    limit: Annotated[float, "seconds, of sparse trees"] = 30.0,
) -> Iterator[Row]:
    warnings.simplefilter("ignore")
    parts = {
        "survival": lambda: of_survival(names),
        "effects": lambda: of_effects(draws),
        "clusters": of_clusters,
        "decisions": lambda: of_decisions(draws),
        "ratios": of_ratios,
        "policies": lambda: of_policies(draws),
        "sparse": lambda: of_sparse(limit),
    }
    yield from parts[what]()
