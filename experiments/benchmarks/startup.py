"""Seconds to import opttree and to fit a first model in a fresh process, with a cold and with a warm numba cache.

python -m experiments.benchmarks.startup [--repeats 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

IMPORT = "import time; t = time.perf_counter(); import opttree; print(time.perf_counter() - t)"
FIT = """
import time; t = time.perf_counter()
from opttree import {kind}
from sklearn.datasets import load_diabetes
X, y = load_diabetes(return_X_y=True)
{kind}(4, {options}).fit(X, y > 140 if {kind}.__name__ == "TAOClassifier" else y)
print(time.perf_counter() - t)
"""


def run(code: str, environment: dict[str, str]) -> float:
    """Seconds that ``code`` prints in a fresh process."""
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return float(out.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    imports = [run(IMPORT, dict(os.environ)) for _ in range(args.repeats)]
    print(f"import opttree: {statistics.median(imports):.3f} s")
    linear = 'leaves="linear"'
    for kind, options in (
        ("TAORegressor", ""),
        ("TAORegressor", linear),
        ("TAOClassifier", ""),
        ("GETRegressor", ""),
        ("GETRegressor", linear),
    ):
        code = FIT.format(kind=kind, options=options)
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            cold = run(code, environment)
            warm = [run(code, environment) for _ in range(args.repeats)]
        print(
            f"{kind}({options}): first fit cold {cold:.1f} s, warm {statistics.median(warm):.2f} s (imports included)"
        )


if __name__ == "__main__":
    main()
