"""Where a TAO fit spends its time, to judge what a GPU could take over: the share of the node solves bounds the gain.

Per data set and kind of leaves: seconds of a fit at depth 8 (compiled code warm), the shares of its four costliest
functions, and how much faster the fit would be if the node solves (`fit_nodes`) took no time at all.

    python -m experiments.benchmarks.tao_shares [--data elevators,ailerons] [--depth 8] [--threads 2]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections import Counter

import pandas as pd

from opttree import TAORegressor, datasets

COSTLIEST = 4


def shares(name: str, leaves: str, depth: int, threads: int) -> dict[str, object]:
    """One row of the table."""
    X, y = datasets.load(name, as_arrays=True)
    model = TAORegressor(depth, leaves=leaves, random_state=0, n_jobs=threads)
    model.fit(X, y)
    profile = cProfile.Profile()
    profile.runcall(model.fit, X, y)
    stats = pstats.Stats(profile)
    own: Counter[str] = Counter()
    for (_file, _line, function), (_calls, _primitive, seconds, *_rest) in stats.stats.items():  # type: ignore[attr-defined]
        own[function] += seconds
    total = stats.total_tt  # type: ignore[attr-defined]
    most = ", ".join(f"{function} {seconds / total:.0%}" for function, seconds in own.most_common(COSTLIEST))
    gain = total / (total - own["fit_nodes"])
    return {"data": name, "leaves": leaves, "seconds": total, "gain at most": gain, "shares": most}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="elevators,ailerons")
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    kinds = [(name, leaves) for name in args.data.split(",") for leaves in ("constant", "linear")]
    rows = [shares(name, leaves, args.depth, args.threads) for name, leaves in kinds]
    print(pd.DataFrame(rows).to_string(index=False, float_format=lambda v: f"{v:.3g}"))


if __name__ == "__main__":
    main()
