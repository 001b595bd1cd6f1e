"""Where a TAO fit spends its time, to judge what a GPU could take over: the share of the node solves bounds the gain.

Per data set and kind of leaves: seconds of a fit (compiled code warm), the shares of its four costliest functions, and
how much faster the fit would be if the node solves (`fit_nodes`) took no time at all.
"""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter
from collections.abc import Iterator

from experiments.benchmarks.common import Row, load, script
from opttree import TAORegressor

COSTLIEST = 4


@script
def main(data: tuple[str, ...] = ("elevators", "ailerons"), depth: int = 8, threads: int = 2) -> Iterator[Row]:
    for name, leaves in ((name, leaves) for name in data for leaves in ("constant", "linear")):
        X, y = load(name)
        model = TAORegressor(depth, leaves=leaves, random_state=0, n_jobs=threads).fit(X, y)
        profile = cProfile.Profile()
        profile.runcall(model.fit, X, y)
        stats = pstats.Stats(profile)
        spent, solves = Counter[str](), 0.0
        for (_file, _line, function), (_calls, _all, alone, whole, _by) in stats.stats.items():  # type: ignore[attr-defined]
            spent[function] += alone
            solves += whole * (function == "fit_nodes")
        total = stats.total_tt  # type: ignore[attr-defined]
        most = ", ".join(f"{function} {seconds / total:.0%}" for function, seconds in spent.most_common(COSTLIEST))
        row = {"data": name, "leaves": leaves, "seconds": total, "gain at most": total / (total - solves)}
        yield row | {"shares": most}
