"""GET beside its authors' own package, `get-oblique` on the Python package index, on five cases in one run.

`train_test_split(test_size=.25, random_state=0)`; features and outputs are scaled to [0, 1] for the package, as in the
paper, which gets 2 starts of 3000 epochs (one of its starts is CART's tree) and seed 0. Ours is the default preset, the
median of some seeds. The package needs numpy < 2, so it runs in an environment of its own, made by

    python -m venv ENV; ENV/bin/pip install torch "numpy<2" "scikit-learn<1.7" pandas h5py
    ENV/bin/pip install --no-deps get-oblique==0.1.1

python -m experiments.benchmarks.get_cases [--authors ENV/bin/python] [--seeds 5]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from opttree import GETRegressor, datasets

CASES = (("airfoil", 2), ("airfoil", 4), ("kin8nm", 2), ("kin8nm", 4), ("elevators", 4))
STARTS, EPOCHS = 2, 3000
THEIRS = """
import importlib.metadata, json, sys, time
import numpy as np, torch
from GET import GETRegressor
parts = np.load(sys.argv[1])
depth, starts, epochs = map(int, sys.argv[2:])
low, high = parts["train"].min(axis=0), parts["train"].max(axis=0)
unit = np.where(high > low, high - low, 1.0)
train, test = (torch.tensor((parts[k] - low) / unit, dtype=torch.float32) for k in ("train", "test"))
floor, span = parts["y_train"].min(), np.ptp(parts["y_train"])
torch.manual_seed(0)
np.random.seed(0)
model = GETRegressor(treeDepth=depth, epochNum=epochs, startNum=starts)
began = time.perf_counter()
model.fit(train, torch.tensor((parts["y_train"] - floor) / span, dtype=torch.float32))
seconds = time.perf_counter() - began
scores = []
for X, y in ((train, parts["y_train"]), (test, parts["y_test"])):
    answer = model.predict(X).numpy().ravel() * span + floor
    scores.append(float(1.0 - np.mean((answer - y) ** 2) / y.var()))
version = importlib.metadata.version("get-oblique")
print(json.dumps({"train": scores[0], "test": scores[1], "seconds": seconds, "version": version,
                  "torch": torch.__version__, "threads": torch.get_num_threads()}))
"""


def authors(python: str, depth: int, **parts: np.ndarray) -> dict[str, float]:
    """Scores and seconds of the authors' package under the interpreter ``python``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "parts.npz"
        np.savez(path, **parts)  # type: ignore[arg-type]
        command = [python, "-c", THEIRS, str(path), str(depth), str(STARTS), str(EPOCHS)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--authors", metavar="PYTHON", help="interpreter of an environment with get-oblique")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    for name, depth in CASES:
        X, y = datasets.load(name, as_arrays=True)
        train, test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
        theirs = None
        if args.authors:
            theirs = authors(args.authors, depth, train=train, test=test, y_train=y_train, y_test=y_test)
            print(
                f"{name:10s} depth {depth}: get-oblique {theirs['version']}, torch {theirs['torch']}, "
                f"{theirs['threads']} threads, train / test R2 {theirs['train']:.3f} / {theirs['test']:.3f} in "
                f"{theirs['seconds']:.1f} s",
                flush=True,
            )
        GETRegressor(depth, random_state=0).fit(train, y_train)  # compile off the clock
        rows = []
        for seed in range(args.seeds):
            began = time.perf_counter()
            model = GETRegressor(depth, random_state=seed).fit(train, y_train)
            taken = time.perf_counter() - began
            rows.append((model.score(train, y_train), model.score(test, y_test), taken))
        found = np.array(rows)
        median, lowest = np.median(found, axis=0), found.min(axis=0)
        faster = "" if theirs is None else f" ({theirs['seconds'] / median[2]:.0f}x)"
        print(
            f"{name:10s} depth {depth}: ours, median of {args.seeds} seeds, train / test R2 {median[0]:.3f} / "
            f"{median[1]:.3f} in {median[2]:.3f} s{faster}, lowest train {lowest[0]:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
