"""Ranks of methods over data sets: Friedman's and Nemenyi's tests, means of ranks and of differences to the best.

Tables have a row per problem (a data set, or one at one depth) and a column per method, without gaps.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from solvers.races.statistics import settled

HIGHER_IS_BETTER = ("r2", "f1", "accuracy")


def lower_is_better(metric: str) -> bool:
    """Whether smaller values of a metric are better: all but R2, F1 and accuracy."""
    return not metric.endswith(HIGHER_IS_BETTER)


def ranks(table: pd.DataFrame, *, lower: bool) -> pd.DataFrame:
    """Rank of each method on each problem, 1 the best; ties share the mean of their ranks."""
    return settled(table).rank(axis=1, ascending=lower)


def friedman(table: pd.DataFrame, *, lower: bool) -> tuple[pd.Series, float, float]:
    """Average ranks, in order, and the statistic and p-value of Friedman's test that all methods rank alike.

    The test needs three methods, two problems and a difference; both numbers are NaN without.
    """
    table = settled(table)
    mean = ranks(table, lower=lower).mean().sort_values()
    if table.shape[1] < 3 or table.shape[0] < 2 or (table.nunique(axis=1) == 1).all():
        return mean, np.nan, np.nan
    statistic, p = stats.friedmanchisquare(*(table[name] for name in table))
    return mean, float(statistic), float(p)


def mean_reciprocal_rank(table: pd.DataFrame, *, lower: bool) -> pd.DataFrame:
    """Mean and deviation over problems of 1 / rank (GradTree, Tables 1 and 2); equal methods share the better rank."""
    reciprocal = 1.0 / settled(table).rank(axis=1, ascending=lower, method="min")
    return pd.DataFrame({"MRR": reciprocal.mean(), "deviation": reciprocal.std()}).sort_values("MRR", ascending=False)


def mean_relative_difference(table: pd.DataFrame, *, lower: bool) -> pd.DataFrame:
    """Mean and deviation over problems of |best - value| / value (GradTree, Tables 1 and 2).

    The paper does not define it; its printed means and deviations follow from its printed F1 by this formula.
    """
    best = table.min(axis=1) if lower else table.max(axis=1)
    difference = table.rsub(best, axis=0).abs() / table
    return pd.DataFrame({"MRD": difference.mean(), "deviation": difference.std()}).sort_values("MRD")


def nemenyi(table: pd.DataFrame, *, lower: bool, alpha: float = 0.05) -> tuple[pd.Series, pd.DataFrame, float]:
    """Average ranks, p-values of Nemenyi's test for each pair, and the critical difference of average ranks."""
    import scikit_posthocs

    n, k = table.shape
    signed = table if lower else -table
    p = scikit_posthocs.posthoc_nemenyi_friedman(signed.to_numpy())
    p.index = p.columns = table.columns
    critical = stats.studentized_range.ppf(1.0 - alpha, k, np.inf) / np.sqrt(2.0) * np.sqrt(k * (k + 1) / (6.0 * n))
    return ranks(table, lower=lower).mean(), p, float(critical)
