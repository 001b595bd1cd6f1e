"""A soak: mixed fits and predictions in one process, and the memory, threads and files that it holds, drawn.

``python -m tests.system.faults.soak --minutes 120``
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import opttree
from solvers.races.runs import code_version

REPORT = Path(__file__).parents[3] / "experiments" / "results" / "reliability"
WARM = 0.2  # share of the time after which growth counts

REGRESSORS = (
    ("TAORegressor", {"max_depth": 4}), ("TAORegressor", {"max_depth": 4, "leaves": "linear"}),
    ("GETRegressor", {"max_depth": 3}), ("SRTRegressor", {"max_depth": 3}), ("ORRTRegressor", {"max_depth": 3}),
    ("SDTRRegressor", {"max_depth": 3, "max_batches": 200}), ("ORTRegressor", {"max_depth": 3}),
    ("GradTreeRegressor", {"max_depth": 4, "epochs": 30}), ("HRTRegressor", {"max_depth": 3}),
    ("RADDTRegressor", {"max_depth": 3, "epochs": 20}), ("DTSemNetRegressor", {"max_depth": 3, "epochs": 5}),
    ("TAOForestRegressor", {"n_estimators": 5}), ("BoostedTreesRegressor", {"n_estimators": 10}),
)  # fmt: skip
CLASSIFIERS = (
    ("TAOClassifier", {"max_depth": 4}), ("GETClassifier", {"max_depth": 3}), ("SRTClassifier", {"max_depth": 2}),
    ("SDTRClassifier", {"max_depth": 3, "max_batches": 200}), ("OCTClassifier", {"max_depth": 2}),
    ("GradTreeClassifier", {"max_depth": 4, "epochs": 30}), ("TAOForestClassifier", {"n_estimators": 5}),
)  # fmt: skip


def state() -> dict[str, float]:
    """What the process holds: resident memory in MB, threads, open files."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return {"MB": resident, "threads": len(os.listdir("/proc/self/task")), "files": len(os.listdir("/proc/self/fd"))}


def one(rng: np.random.Generator) -> None:
    """A fit, and predictions of one row, a hundred and all."""
    n, p = int(rng.integers(50, 1500)), int(rng.integers(2, 12))
    X = rng.normal(size=(n, p))
    classes = rng.random() < 0.35
    name, options = (CLASSIFIERS if classes else REGRESSORS)[rng.integers(len(CLASSIFIERS if classes else REGRESSORS))]
    y = X[:, 0] * X[:, -1] + 0.1 * rng.normal(size=n)
    model = getattr(opttree, name)(**options, random_state=int(rng.integers(1000)), time_limit=5.0)
    model.fit(X, np.digitize(y, [-0.3, 0.3]) if classes else y)
    for rows in (1, 100, n):
        assert len(model.predict(X[:rows])) == min(rows, n)


def main() -> None:
    """The soak, its table and its picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--out", type=Path, default=REPORT)
    args = parser.parse_args()
    rng, began, fits, rows = np.random.default_rng(0), time.time(), 0, []
    while time.time() - began < 60.0 * args.minutes:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one(rng)
        fits += 1
        if fits % 20 == 1:
            rows.append({"minutes": (time.time() - began) / 60.0, "fits": fits, **state()})
    frame = pd.DataFrame(rows)
    args.out.mkdir(parents=True, exist_ok=True)
    frame.to_csv(args.out / "soak.csv", index=False, float_format="%.2f")
    late = frame[frame["minutes"] >= WARM * args.minutes]
    growth = np.polyfit(late["fits"], late["MB"], 1)[0] * 1000.0
    words = (
        f"# Soak\n\n`python -m tests.system.faults.soak --minutes {args.minutes:g}`, version {code_version()}: "
        f"{fits} fits in one process; memory {late['MB'].iloc[0]:.0f} MB after a fifth of the time, "
        f"{late['MB'].iloc[-1]:.0f} MB at the end "
        f"({growth:+.2f} MB per 1000 fits), at most {frame['MB'].max():.0f}; threads {late['threads'].min():.0f} to "
        f"{late['threads'].max():.0f}, open files {late['files'].min():.0f} to {late['files'].max():.0f}.\n\n"
        "![memory](soak.png)\n"
    )
    (args.out / "soak.md").write_text(words)
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    _figure, axes = plt.subplots(figsize=(7, 3.5))
    axes.plot(frame["fits"], frame["MB"])
    axes.set(xlabel="fits", ylabel="resident memory, MB", ylim=(0, None))
    axes.grid(alpha=0.3)
    plt.savefig(args.out / "soak.png", dpi=120, bbox_inches="tight")
    print(words)


if __name__ == "__main__":
    main()
