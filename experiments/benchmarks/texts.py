"""Texts told apart: trees and forests on a sparse table of words beside a logistic regression and other libraries.

The texts are docstrings of the packages that are installed here, of which the package is to be told, without its name;
features are the term frequencies (TF-IDF) of single words and of pairs. What they are depends on the versions of the
packages: compare numbers of one run. Models are fitted to three quarters of the texts; the strength of the logistic
regression is chosen by cross-validation, the others have their defaults. Seconds are the processor's.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from experiments.benchmarks.common import Row, peak, script
from opttree import BoostedTreesClassifier, TAOClassifier, TAOForestClassifier

FEWEST, MOST, WORDS = 400, 700, 12  # texts of a package that is taken; of those, how many; words of a text
STRENGTHS = (1.0, 10.0, 100.0)


def texts(rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Docstrings, and the packages that they are from."""
    import sklearn

    found: list[str] = []
    labels: list[str] = []
    for package in sorted(path for path in Path(sklearn.__file__).parents[1].iterdir() if path.is_dir()):
        own: dict[str, None] = {}
        for file in sorted(package.rglob("*.py")):
            try:
                tree = ast.parse(file.read_text(errors="ignore"))
            except (SyntaxError, ValueError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                    text = (ast.get_docstring(node) or "").replace(package.name, "")
                    if len(text.split()) >= WORDS:
                        own[text] = None
        if len(own) >= FEWEST:
            some = list(own)
            found += [some[k] for k in rng.permutation(len(some))[:MOST]]
            labels += [package.name] * min(len(some), MOST)
    return found, np.array(labels)


def models(trees: int) -> dict[str, Any]:
    """What is compared; LightGBM where it is installed."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.tree import DecisionTreeClassifier

    found: dict[str, Any] = {
        "logistic": LogisticRegressionCV(
            Cs=STRENGTHS,
            l1_ratios=(0.0,),
            cv=3,
            scoring="neg_log_loss",
            solver="newton-cg",
            use_legacy_attributes=False,
        ),
        "TAO": TAOClassifier(random_state=0),
        "TAO, depth 8": TAOClassifier(8, random_state=0),
        "TAO, axis, depth 8": TAOClassifier(8, splits="axis", random_state=0),
        "CART, depth 8": DecisionTreeClassifier(max_depth=8, random_state=0),
        "CART": DecisionTreeClassifier(random_state=0),
        "forest": TAOForestClassifier(trees, random_state=0),
        "random forest": RandomForestClassifier(trees, random_state=0, n_jobs=-1),
        "boosted": BoostedTreesClassifier("cart", n_estimators=trees, random_state=0),
    }
    try:
        from lightgbm import LGBMClassifier
    except ModuleNotFoundError:
        return found
    return found | {"LightGBM": LGBMClassifier(n_estimators=trees, random_state=0, verbose=-1)}


@script
def main(
    rows: Annotated[int, "texts, at most"] = 13_000,
    features: Annotated[int, "words and pairs of words"] = 50_000,
    trees: Annotated[int, "of the ensembles"] = 100,
    seed: Annotated[int, "of the split"] = 0,
) -> Iterator[Row]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import train_test_split

    rng = np.random.default_rng(seed)
    found, labels = texts(rng)
    some = rng.permutation(len(found))[:rows]
    parts = train_test_split([found[k] for k in some], labels[some], test_size=0.25, random_state=seed)
    words = TfidfVectorizer(ngram_range=(1, 2), max_features=features, sublinear_tf=True)
    X, Z = words.fit_transform(parts[0]), words.transform(parts[1])
    for name, model in models(trees).items():
        cpu, wall = time.process_time(), time.perf_counter()
        model.fit(X, parts[2])
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        yield {
            "model": name,
            "rows": X.shape[0],
            "columns": X.shape[1],
            "classes": len(set(labels)),
            "accuracy": float(np.mean(model.predict(Z) == parts[3])),
            "cpu s": cpu,
            "wall s": wall,
            "MB": peak(),
            "kind": getattr(model, "fallback_", None) or getattr(model, "kind_", None),
        }
