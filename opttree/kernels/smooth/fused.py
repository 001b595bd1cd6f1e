"""Compiles ``smooth_parts.cu`` and ``smooth.cu`` and launches their kernels: the GPU's `smooth` and `first_order`."""

from collections import namedtuple
from functools import cache
from pathlib import Path

import numpy as np

from opttree.kernels.losses.codes import MACROS, MIXTURE, SQUARED, TABLE
from opttree.kernels.smooth.vectors import BLOCK

COMMON = "common.cu"
SOURCES = ("smooth_parts.cu", "smooth.cu")
NAMES = ("lay_out", "walk", "gather", "adam")
WIDTH = 256  # threads per block in elementwise kernels
WAVES = 8  # blocks of threads per multiprocessor, about, over rows x starts
ORDINARY_SHARED = 48 << 10  # shared memory, in bytes, that a kernel gets without asking for it
SHARED_FEATURES = 96 << 10  # largest rows, in bytes, that go to shared memory; larger ones rely on the caches
PARTS = 1 << 29  # largest size, in bytes, of the partial gradients

# sizes in `smooth.cu`: tiles; numbers of splits, leaves and gradients per start; bytes of shared memory
Sizes = namedtuple("Sizes", "levels n_tiles pad q rows splits leaves part theta shared features_shared")
# kernels, sizes, chunks of rows, and their outputs: laid-out splits and leaves, gradients and losses of the chunks,
# rows that are not in shared memory, gradient (S, size), masses (S, L)
Space = namedtuple("Space", "lay_out walk gather adam sizes chunks W C parts values scratch gradient mass")


def most_levels(form, dtype):
    """Most levels of a tile: few enough that none spills at default options, by `experiments.benchmarks.registers`."""
    if form.linear:
        return 3 if form.n_outputs <= 2 else 2
    return 4 if form.loss == TABLE or (form.loss == SQUARED and dtype == "float32") else 3


def sizes(form, dtype, limit):
    """The `Sizes` of a form for floats of ``dtype`` on a device with ``limit`` bytes of shared memory for a block."""
    depth, p, K, linear = form.depth, form.n_features, form.n_outputs, form.linear
    n_tiles = -(-depth // most_levels(form, dtype))
    levels = -(-depth // n_tiles)
    pad = levels * n_tiles - depth
    q, item = -(-(p + 1) // 4) * 4, np.dtype(dtype).itemsize
    rows = 16 // item
    exits, bottom, n_leaves = 1 << levels, 1 << (depth - levels), 1 << depth
    slots = max(4, exits)
    splits = (1 + sum(1 << (levels * m - pad) for m in range(1, n_tiles))) * q * slots
    leaves = bottom * K * slots * (q if linear else 1)
    sums = 0 if form.loss == TABLE else exits * (1 if linear else K + 1)
    part = splits + (leaves if linear else 0) + bottom * sums
    theta = (n_leaves - 1) * (p + 1) + n_leaves * K * (p + 1 if linear else 1)
    features = q * (BLOCK + rows) * item
    shared = slots * (BLOCK + rows) * item + -(-sums // 32) * (BLOCK // rows) * item
    features_shared = features <= min(SHARED_FEATURES, limit - shared)
    return Sizes(
        levels, n_tiles, pad, q, rows, splits, leaves, part, theta, shared + features * features_shared, features_shared
    )


def shared_limit(cp):
    """Largest shared memory, in bytes, of a block of threads on the current device."""
    attributes = cp.cuda.Device().attributes
    return attributes.get("MaxSharedMemoryPerBlockOptin") or attributes["MaxSharedMemoryPerBlock"]


def own_sizes(cp, form, dtype):
    """The `Sizes` of a form on the current device."""
    return sizes(form, dtype, shared_limit(cp))


def program(form, size, dtype):
    """The source of a form's kernels, see `source`."""
    double = dtype == "float64"
    macros = {
        **MACROS,
        "real": "double" if double else "float",
        "ROWS": size.rows,
        "BLOCK": BLOCK,
        "DEPTH": form.depth,
        "LEVELS": size.levels,
        "TILES": size.n_tiles,
        "PAD": size.pad,
        "P": form.n_features,
        "Q": size.q,
        "K": form.n_outputs,
        "LOSS": form.loss,
        "MIXTURE": int(form.aggregation == MIXTURE),
        "LINEAR": form.linear,
        "X_SHARED": int(size.features_shared),
        **({"DOUBLE": 1} if double else {}),
    }
    return source(macros, SOURCES)


def source(macros, names):
    """C of `COMMON` and the files ``names`` of this folder, after definitions of ``macros``.

    They stand in the source since options of the compiler would reach the headers that HIP includes before it.
    """
    defined = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    return defined + "".join((Path(__file__).parent / name).read_text() for name in (COMMON, *names))


@cache
def kernels(cp, device, form, dtype):
    """Compiled kernels of a form, in the order of `NAMES`; ``device``: number of the current device.

    CuPy caches them on disk.
    """
    size = own_sizes(cp, form, dtype)
    module = cp.RawModule(code=program(form, size, dtype))
    own = dict(zip(NAMES, map(module.get_function, NAMES), strict=True))
    if size.shared > ORDINARY_SHARED and not cp.cuda.runtime.is_hip:  # HIP gives it without being asked
        own["walk"].max_dynamic_shared_size_bytes = size.shared
    return tuple(own.values())


def n_chunks(cp, form, dtype, n_starts, n_blocks):
    """Number of chunks of rows with separate gradients: enough to keep the device busy, if memory allows."""
    size = own_sizes(cp, form, dtype)
    busy = -(-WAVES * cp.cuda.Device().attributes["MultiProcessorCount"] // n_starts)
    fit = PARTS // (n_starts * size.part * np.dtype(dtype).itemsize)
    return max(1, min(n_blocks, busy, fit))


def needed(cp, form, dtype, n_starts, n_blocks):
    """Bytes of a `Space` and of the state of a descent."""
    size = own_sizes(cp, form, dtype)
    chunks = n_chunks(cp, form, dtype, n_starts, n_blocks)
    scratch = 0 if size.features_shared else chunks * size.q * (BLOCK + size.rows)
    each = size.splits + size.leaves + chunks * size.part + scratch + 5 * size.theta
    return n_starts * each * np.dtype(dtype).itemsize


def space(cp, form, dtype, n_starts, n_blocks):
    """A `Space` for ``n_starts`` thetas on up to ``n_blocks`` blocks of rows."""
    size = own_sizes(cp, form, dtype)
    chunks = n_chunks(cp, form, dtype, n_starts, n_blocks)
    return Space(
        *kernels(cp, cp.cuda.Device().id, form._replace(eps=0.0, levels=0), dtype),
        size,
        chunks,
        cp.empty((n_starts, size.splits), dtype),
        cp.empty((n_starts, max(size.leaves, 1)), dtype),
        cp.empty((n_starts, chunks, size.part), dtype),
        cp.empty((n_starts, chunks), np.float64),
        cp.empty(1 if size.features_shared else n_starts * chunks * size.q * (BLOCK + size.rows), dtype),
        cp.empty((n_starts, size.theta), dtype),
        cp.empty((n_starts, 1 << form.depth), dtype),
    )


def features(X, q, dtype):
    """``X (n, p)`` in the kernels' format (n, q): the features, a constant 1, then zeros."""
    padded = np.zeros((X.shape[0], q), dtype)
    padded[:, : X.shape[1]] = X
    padded[:, X.shape[1]] = 1.0
    return padded


def evaluate(own, theta, alpha, data, rows, weight, form, penalty):
    """Compute gradients, masses and the chunks' summed losses into ``own``, without waiting.

    Parameters
    ----------
    own : a `Space`.
    theta : (S, size); alpha : (S,) gate scales.
    data : X (n, q), see `features`; Y (n, K), class codes (n, 1), or losses of the leaves (n, L); w (n,).
    rows : (blocks, BLOCK) int32 numbers of rows, -1 where there is none, and (S, 2) the blocks of each start.
    weight : (S,) sums of the weights of the rows; penalty : (S, 6) strengths, as in `smooth.Penalty`.
    """
    real, size, n_starts = theta.dtype.type, own.sizes, theta.shape[0]
    cut = real(form.eps / BLOCK)  # limit for each row, so that the sum over a skipped block is below eps
    own.lay_out((-(-max(size.splits, size.leaves) // WIDTH), n_starts), (WIDTH,), (theta, alpha, own.W, own.C))
    own.walk(
        (own.chunks, n_starts),
        (BLOCK // size.rows,),
        (*data, *rows, own.W, own.C, cut, own.scratch, own.parts, own.values),
        shared_mem=size.shared,
    )
    own.gather(
        (-(-size.part // WIDTH), n_starts),
        (WIDTH,),
        (own.parts, np.int32(own.chunks), theta, alpha, weight, penalty, own.gradient, own.mass),
    )


def adam_step(own, theta, state, step, rate, moments, closed_leaves, penalty):
    """`first_order.adam_step` for all starts, along the gradient of ``own``; see `first_order.descend`."""
    real, size = theta.dtype.type, own.sizes
    scales = (1.0 / (1.0 - float(real(beta)) ** step) for beta in (moments.beta1, moments.beta2))
    numbers = (rate, moments.beta1, moments.beta2, moments.nu1, moments.nu2, moments.epsilon, *scales)
    own.adam(
        (-(-size.theta // WIDTH), theta.shape[0]),
        (WIDTH,),
        (theta, own.gradient, own.mass, *state, *map(real, numbers), np.int32(closed_leaves), penalty),
    )
