"""Three ideas for forests, judged on rows within the training part: a joint refit of all leaves (Ren et al. 2015),
forward selection of trees (Caruana et al. 2004), and robust leaves where outcomes are spoilt.

A quarter of the rows is set aside and never read. Of the others, three fifths grow a forest, a fifth chooses, and a
fifth judges; forests called "whole" are grown on the first two together. Numbers: R2; classes: accuracy; "robust": mean
absolute error as a share of y's deviation, for outcomes of which a tenth of the rows that train has normal noise of ten
deviations. Means over the seeds of the splits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import BaggingRegressor, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, script
from opttree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    TAOForestClassifier,
    TAOForestRegressor,
    TAORegressor,
    datasets,
)
from solvers.ensembles.joint import leaf_table, solved

NUMBERS = ("airfoil", "abalone", "cpu_act", "kin8nm", "housing")
CLASSES = ("german", "contraceptive", "spambase", "car", "segment")
MOST = 4000
STRENGTHS = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)  # of the refit, beside the share of rows in a leaf
Floats = NDArray[np.float64]


def parts(name: str, seed: int, classes: bool) -> list[tuple[Any, Any]]:
    """Rows that grow, choose and judge, with the outcomes."""
    X, y = datasets.load(name, as_arrays=True)
    X, _X, y, _y = train_test_split(X, y, random_state=seed, stratify=y if classes else None)
    X, y = X[:MOST], y[:MOST]
    X, judge, y, judge_y = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y if classes else None)
    grow, choose, grow_y, choose_y = train_test_split(
        X, y, test_size=0.25, random_state=seed, stratify=y if classes else None
    )
    return [(grow, grow_y), (choose, choose_y), (judge, judge_y)]


def leaves(model: Any, X: Floats) -> Any:
    """The table of the leaves of a fitted forest."""
    return leaf_table(model.forest_, model._validated(X))


def moves(table: Any, left: Floats, strength: float) -> Floats:
    """What is added to each leaf, as `solvers.JointForest` finds it."""
    return solved(table, left, np.full(len(left), 1.0 / len(left)), strength)


def refit(seed: int, grown: list[tuple[Any, Any]], classes: bool, kind: str) -> dict[str, float]:
    """A forest as it is, and with all leaves fitted anew together; strength by the rows that choose. The forest of both
    parts is fitted anew with the same strength.
    """
    (grow, grow_y), (choose, choose_y), (judge, judge_y) = grown
    both, both_y = np.concatenate([grow, choose]), np.concatenate([grow_y, choose_y])
    model, labels = forest(classes, seed, kind).fit(grow, grow_y), np.unique(both_y)

    def targets(y: Any) -> Floats:
        return (y[:, None] == labels).astype(float) if classes else np.asarray(y, float)[:, None]

    def answers(X: Any) -> Floats:
        return model.predict_proba(X) if classes else model.predict(X)[:, None]

    def score(outputs: Floats, y: Any) -> float:
        return judged(labels[np.argmax(outputs, axis=1)] if classes else outputs[:, 0], y, classes)

    scale = float(np.var(targets(both_y), axis=0).sum())
    Z, seen, chosen = leaves(model, grow), leaves(model, choose), {}
    for strength in STRENGTHS:
        delta = moves(Z, targets(grow_y) - answers(grow), strength)
        chosen[strength] = -float(np.sum((targets(choose_y) - answers(choose) - seen @ delta) ** 2)) / scale
    chosen[np.inf] = -float(np.sum((targets(choose_y) - answers(choose)) ** 2)) / scale
    best = max(chosen, key=lambda one: chosen[one])
    outputs = answers(judge)
    if np.isfinite(best):
        delta = moves(leaves(model, both), targets(both_y) - answers(both), best)
        outputs = outputs + leaves(model, judge) @ delta
    part, model = score(answers(judge), judge_y), forest(classes, seed, kind).fit(both, both_y)
    whole, again = answers(judge), answers(judge)
    if np.isfinite(best):
        delta = moves(leaves(model, both), targets(both_y) - answers(both), best)
        again = whole + leaves(model, judge) @ delta
    boosted = (BoostedTreesClassifier if classes else BoostedTreesRegressor)(random_state=seed).fit(both, both_y)
    return {
        "forest": part,
        "refitted": score(outputs, judge_y),
        "whole": score(whole, judge_y),
        "whole, refitted": score(again, judge_y),
        "boosted": judged(boosted.predict(judge), judge_y, classes),
        "left as it was": float(np.isinf(best)),
    }


def forward(seed: int, grown: list[tuple[Any, Any]], classes: bool, kind: str) -> dict[str, float]:
    """A forest as it is, and with trees that are chosen one after the other, with replacement."""
    (grow, grow_y), (choose, choose_y), (judge, judge_y) = grown
    model = forest(classes, seed, kind).fit(grow, grow_y)
    labels, trees = getattr(model, "classes_", None), model.forest_.trees

    def each(X: Any) -> Floats:
        return np.stack([tree.outputs(model._validated(X)) for tree in trees])

    on_choose, on_judge = each(choose), each(judge)
    target = (choose_y[:, None] == labels).astype(float) if classes else np.asarray(choose_y, float)[:, None]
    total, losses, picked = np.zeros_like(target), [], list[int]()
    for number in range(1, len(trees) + 1):
        loss = ((total + on_choose) / number - target) ** 2
        picked.append(int(np.argmin(loss.sum(axis=(1, 2)))))
        losses.append(float(loss[picked[-1]].sum()))
        total += on_choose[picked[-1]]
    picked = picked[: 1 + int(np.argmin(losses))]
    outputs = on_judge[picked].mean(axis=0)
    both, both_y = np.concatenate([grow, choose]), np.concatenate([grow_y, choose_y])
    whole = forest(classes, seed, kind).fit(both, both_y)
    return {
        "forest": judged(model.predict(judge), judge_y, classes),
        "selected": judged(
            labels[np.argmax(outputs, axis=1)] if labels is not None else outputs[:, 0], judge_y, classes
        ),
        "whole": judged(whole.predict(judge), judge_y, classes),
        "trees": float(len(set(picked))),
    }


def forest(classes: bool, seed: int, kind: str) -> Any:
    """A forest of a hundred trees."""
    if classes:
        return TAOForestClassifier(100, kind=kind, leaves="constant", random_state=seed)
    return TAOForestRegressor(100, kind=kind, random_state=seed)


def judged(answers: Any, y: Any, classes: bool) -> float:
    """Accuracy or R2."""
    return float(np.mean(answers == y)) if classes else float(1.0 - np.mean((answers - y) ** 2) / np.var(y))


def robust(seed: int, grown: list[tuple[Any, Any]], classes: bool, kind: str) -> dict[str, float]:
    """Mean absolute errors to outcomes as they are, of models fitted where a tenth of them is spoilt."""
    (grow, grow_y), (choose, choose_y), (judge, judge_y) = grown
    X, y = np.concatenate([grow, choose]), np.concatenate([grow_y, choose_y]).astype(float)
    rng, unit = np.random.default_rng(seed), float(np.std(y))
    bad = rng.random(len(y)) < 0.1
    y[bad] += 10.0 * unit * rng.normal(size=bad.sum())
    mean = TAOForestRegressor(30, kind=kind, keep_errors=True, random_state=seed).fit(X, y)
    tree = TAORegressor(loss="absolute", random_state=seed)
    models: dict[str, Callable[[], Floats]] = {
        "forest": lambda: mean.predict(judge),
        "its median": lambda: mean.predict_quantile(judge, 0.5)[:, 0],
        "trees of absolute loss": lambda: (
            BaggingRegressor(tree, 10, max_samples=0.9, bootstrap=False, random_state=seed).fit(X, y).predict(judge)
        ),
        "medians of leaves": lambda: of_medians(mean, X, y, judge),
        "boosted, absolute": lambda: BoostedTreesRegressor(loss="absolute", random_state=seed).fit(X, y).predict(judge),
        "histograms, absolute": lambda: (
            HistGradientBoostingRegressor(loss="absolute_error", random_state=seed).fit(X, y).predict(judge)
        ),
    }
    return {name: float(np.mean(np.abs(answer() - judge_y)) / unit) for name, answer in models.items()}


def of_medians(model: Any, X: Floats, y: Floats, judge: Floats) -> Floats:
    """Each leaf's answer is moved by the median of what it leaves of its rows' outcomes."""
    total = np.zeros(len(judge))
    for number, tree in enumerate(model.forest_.trees):
        reached, asked = model.apply(X)[:, number], model.apply(judge)[:, number]
        left = y - tree.outputs(model._validated(X))[:, 0]
        moved = np.zeros(tree.n_nodes)
        for node in np.unique(reached):
            moved[node] = np.median(left[reached == node])
        total += tree.outputs(model._validated(judge))[:, 0] + moved[asked]
    return total / len(model.forest_.trees)


IDEAS = {"refit": refit, "forward": forward, "robust": robust}


@script
def main(
    ideas: Annotated[tuple[str, ...], list(IDEAS)] = tuple(IDEAS),
    kinds: Annotated[tuple[str, ...], "of forests"] = ("oblique", "extra"),
    seeds: Annotated[int, "splits"] = 3,
    sets: Annotated[tuple[str, ...], "data sets; none: five of numbers, five of classes"] = (),
) -> Iterator[Row]:
    for idea in ideas:
        for kind in kinds[:1] if idea == "robust" else kinds:
            for name in sets or (*NUMBERS, *CLASSES):
                if idea == "robust" and name in CLASSES:
                    continue
                began, some = time.process_time(), list[dict[str, float]]()
                for seed in range(seeds):
                    grown = parts(name, seed, name in CLASSES)
                    some.append(IDEAS[idea](seed, grown, name in CLASSES, kind))
                means = {key: float(np.mean([one[key] for one in some])) for key in some[0]}
                yield {"idea": idea, "kind": kind, "data": name} | means | {"CPU s": time.process_time() - began}
