"""exp(-|z|) over a block, written so that the compiler vectorises it: numba's own calls the scalar function."""

import numpy as np
from numba import njit

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490
LN2_LOW = 1.90821492927058770002e-10


@njit(cache=True, nogil=True, fastmath={"contract"})  # reassociation would undo the reduction's two-part ln 2
def exp_minus_abs(z, start, width, bits, out):
    """``out[r] = exp(-|z[start + r]|)`` for r < ``width``, to a few units in the last place; below e^-700 it is e^-700.

    ``bits`` is an int64 scratch array: the powers of two are made by writing exponents into it (Cody and Waite's
    reduction, then the Taylor polynomial on [-ln2/2, ln2/2]).
    """
    powers = bits.view(np.float64)
    for r in range(width):
        x = max(-abs(z[start + r]), -700.0)
        n = np.floor(x * LOG2_E + 0.5)
        bits[r] = (np.int64(n) + 1023) << 52
        f = (x - n * LN2_HIGH) - n * LN2_LOW
        p = 1.0 / 479001600.0
        p = p * f + 1.0 / 39916800.0
        p = p * f + 1.0 / 3628800.0
        p = p * f + 1.0 / 362880.0
        p = p * f + 1.0 / 40320.0
        p = p * f + 1.0 / 5040.0
        p = p * f + 1.0 / 720.0
        p = p * f + 1.0 / 120.0
        p = p * f + 1.0 / 24.0
        p = p * f + 1.0 / 6.0
        p = p * f + 0.5
        p = p * f + 1.0
        out[r] = p * f + 1.0
    for r in range(width):
        out[r] *= powers[r]
