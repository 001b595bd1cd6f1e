"""Errors relative to those of one method on the same split: what can be compared with print where splits differ."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments import ranks

RULED = ("r2", "f1", "accuracy", "rmse", "mse")  # ends of names of metrics of errors and scores
KEYS = ["metric", "depth", "dataset"]


def relative(lines: pd.DataFrame, ruler: str) -> pd.DataFrame:
    """The lines of `tables.long` of single data sets with the columns "ours" and "paper" divided by those of the method
    ``ruler``: errors as they are, of scores what they are below one. NaN where the ruler has no number; means of data
    sets, and metrics that are neither errors nor scores, are left out.
    """
    known = lines[lines["metric"].astype(str).str.endswith(RULED) & ~lines["dataset"].str.startswith("mean")]
    errors = known.assign(**{of: _errors(known, of) for of in ("ours", "paper")})
    own = errors[errors["published"] == ruler]
    if own.empty:
        return errors.assign(ours=np.nan, paper=np.nan)
    unit = own.groupby(KEYS, dropna=False)[["ours", "paper"]].first()
    everywhere = own.groupby(["metric", "dataset"], dropna=False)[["ours", "paper"]].first()  # a ruler without depth
    found = errors.copy()
    for of in ("ours", "paper"):
        at = pd.Series([unit[of].get(tuple(key), np.nan) for key in errors[KEYS].to_numpy()], errors.index)
        wide = [everywhere[of].get(tuple(key), np.nan) for key in errors[["metric", "dataset"]].to_numpy()]
        found[of] = errors[of] / at.fillna(pd.Series(wide, errors.index)).where(lambda unit: unit > 0.0)
    return found


def _errors(lines: pd.DataFrame, of: str) -> pd.Series:
    scores = ~lines["metric"].map(ranks.lower_is_better)
    errors: pd.Series = lines[of].where(~scores, 1.0 - lines[of])
    return errors
