"""Vectorised exp and sigmoid over a block; numba's own exp is a scalar call."""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from opttree.runtime.compiling.compiled import kernel

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490
LN2_LOW = 1.90821492927058770002e-10


@kernel(fastmath={"contract"})  # reassociation would undo the reduction's two-part ln 2
def exp_minus_abs(z, start, width, bits, out):
    """``out[r] = exp(-|z[start + r]|)`` for r < ``width``, to a few units in the last place; below e^-700 it is e^-700.

    ``bits`` is an int64 scratch array: powers of two are formed by writing exponent bits into it (Cody and Waite's
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


@intrinsic
def power_of_two(typingctx, n):
    """``2^n`` for an integer-valued float ``n`` in the range of the type's exponents, by writing exponent bits."""
    bits, mantissa, bias = (32, 23, 127) if n == types.float32 else (64, 52, 1023)

    def codegen(context, builder, signature, args):
        kind = ir.IntType(bits)
        exponent = builder.add(builder.fptosi(args[0], kind), ir.Constant(kind, bias))
        return builder.bitcast(builder.shl(exponent, ir.Constant(kind, mantissa)), args[0].type)

    return n(n), codegen


def exp2_fraction(f):
    """``2^f`` for ``|f| <= 1/2`` to the precision of the type: the Taylor polynomial (below, for numba)."""


@overload(exp2_fraction, inline="always")
def _exp2_fraction(f):
    if f == types.float32:
        c0, c1, c2, c3, c4, c5, c6 = (np.float32(c) for c in _taylor(6))

        def single(f):
            return ((((((c6 * f + c5) * f + c4) * f + c3) * f + c2) * f + c1) * f) + c0

        return single
    d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12 = _taylor(12)

    def double(f):
        high = (((((d12 * f + d11) * f + d10) * f + d9) * f + d8) * f + d7) * f + d6
        return ((((((high * f) + d5) * f + d4) * f + d3) * f + d2) * f + d1) * f + d0

    return double


def _taylor(degree):
    """Coefficients of ``2^f``, constant term first."""
    return tuple(math.log(2.0) ** k / math.factorial(k) for k in range(degree + 1))


@kernel(fastmath={"contract", "nsz", "arcp"}, error_model="numpy")
def sigmoid(Z, i, width=-1):
    """Replace ``Z[i]``, float32 or float64, by ``1 / (1 + exp(-Z[i]))``; ``|z|`` is clamped at 40.

    If ``width`` is given, only the first ``width`` numbers.
    """
    dtype = Z.dtype.type
    one, half, limit, scale = dtype(1.0), dtype(0.5), dtype(40.0 * LOG2_E), dtype(-LOG2_E)
    for r in range(Z.shape[1] if width < 0 else width):
        x = min(max(Z[i, r] * scale, -limit), limit)
        n = np.floor(x + half)
        Z[i, r] = one / (one + exp2_fraction(x - n) * power_of_two(n))
