"""Parts of deviances of positive numbers, without cancellation where a number is near its prediction."""

import numpy as np

from opttree.runtime.compiling.compiled import kernel_without_refcounts

NEAR = 0.03  # relative difference below which ten terms of a series are exact
TERMS = range(2, 12)


@kernel_without_refcounts(error_model="numpy")
def gamma_part(off, ratio):
    """``r - 1 - log r`` for a ratio r, and r - 1, which is ``off``."""
    if abs(off) > NEAR:
        return off - np.log(ratio)
    total = 0.0
    for k in range(11, 1, -1):
        total = total * -off + 1.0 / k
    return total * off * off


@kernel_without_refcounts(error_model="numpy")
def poisson_part(off, ratio):
    """``r log r - r + 1`` for a ratio r, and r - 1, which is ``off``."""
    if ratio <= 0.0:
        return 1.0
    if abs(off) > NEAR:
        return ratio * np.log(ratio) - off
    total = 0.0
    for k in range(11, 1, -1):
        total = total * -off + 1.0 / (k * (k - 1))
    return total * off * off


def gamma_parts(off, ratio):
    """`gamma_part` of arrays."""
    near = np.abs(off) <= NEAR
    small = np.where(near, off, 0.0)
    series = small**2 * sum((-small) ** (k - 2) / k for k in TERMS)
    return np.where(near, series, off - np.log(np.where(near, 1.0, ratio)))


def poisson_parts(off, ratio):
    """`poisson_part` of arrays."""
    near = np.abs(off) <= NEAR
    small = np.where(near, off, 0.0)
    series = small**2 * sum((-small) ** (k - 2) / (k * (k - 1)) for k in TERMS)
    far = np.where(near | (ratio <= 0.0), 1.0, ratio)
    return np.where(near, series, np.where(ratio <= 0.0, 1.0, far * np.log(far) - off))
