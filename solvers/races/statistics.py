"""Paired tests of methods over problems.

Tables have a row per problem and a column per method, without gaps.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats


def paired(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Paired t-test and Wilcoxon's signed-rank test of each method against ``baseline``, over the problems.

    Parameters
    ----------
    table : pandas.DataFrame
        Problems x methods, without gaps.
    baseline : str
        Name of the method to compare with.

    Returns
    -------
    pandas.DataFrame
        Indexed by method: mean difference (method less baseline), t, p of t, wins, ties, losses in value (more is
        counted as a win, whatever the metric), p of Wilcoxon, and that p by Holm's step-down over the methods.
    """
    rows = {}
    table = settled(table)
    for name in table.columns.drop(baseline):
        difference = table[name] - table[baseline]
        equal = not difference.any() or len(difference) < 2
        t, p = (0.0, 1.0) if equal else stats.ttest_rel(table[name], table[baseline])
        rows[name] = {
            "difference": difference.mean(),
            "t": float(t),
            "p (t)": float(p),
            "more": int((difference > 0).sum()),
            "equal": int((difference == 0).sum()),
            "less": int((difference < 0).sum()),
            "p (Wilcoxon)": 1.0 if equal else float(stats.wilcoxon(difference, zero_method="zsplit").pvalue),
        }
    out = pd.DataFrame.from_dict(rows, orient="index")
    if len(out):
        out["p (Wilcoxon, Holm)"] = holm(out["p (Wilcoxon)"])
    return out


def settled(table: pd.DataFrame) -> pd.DataFrame:
    """The values with twelve digits, so that those that differ by rounding are equal."""
    return table.map(lambda value: float(f"{value:.12g}"))


def holm(p: pd.Series) -> pd.Series:
    """P-values corrected by Holm's step-down for their number."""
    ordered = p.sort_values()
    corrected = (ordered * np.arange(len(p), 0, -1)).cummax().clip(upper=1.0)
    return corrected.reindex(p.index)
