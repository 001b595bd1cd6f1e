"""Compiles the kernels of ``dense.cu`` for a formulation, and launches them: the GPU version of `dense`."""

from collections import namedtuple
from functools import cache

import numpy as np

from opttree.kernels.losses.codes import MACROS
from opttree.kernels.smooth.fused import source

NAMES = ("prepare", "descend", "update", "judge")
WIDTH = 128  # threads of a block
JUDGING = 64  # blocks of threads per start in validation, at most

# kernels, and their outputs for batches of a given largest size: features (S, B), weights (S, B, p); of the rows, leaf,
# derivatives by gates and by scores, losses; sums of losses
Space = namedtuple("Space", "prepare descend update judge feature weights leaf along slope loss sums")


def program(form, dtype):
    """The source of a form's kernels."""
    macros = {
        **MACROS,
        "real": "double" if dtype == "float64" else "float",
        "DEPTH": form.depth,
        "P": form.n_features,
        "K": form.n_outputs,
        "LOSS": form.loss,
        "INDEX": form.index,
    }
    return source(macros, ["../dense/dense.cu"])


@cache
def kernels(cp, device, form, dtype):
    """Compiled kernels of a form, in the order of `NAMES`; ``device``: number of the current device."""
    module = cp.RawModule(code=program(form, dtype))
    return tuple(map(module.get_function, NAMES))


def needed(form, dtype, n_starts, n_batch):
    """Bytes of a `Space`, and of theta with its moments and a few copies."""
    item, n_branches = np.dtype(dtype).itemsize, (1 << form.depth) - 1
    theta = 2 * n_branches * form.n_features + (n_branches + 1) * form.n_outputs
    rows = n_batch * ((form.depth + form.n_outputs) * item + 12)
    return n_starts * (n_branches * (form.n_features * item + 4) + 10 * theta * item + rows)


def space(cp, form, dtype, n_starts, n_batch):
    """A `Space` for ``n_starts`` thetas and batches of up to ``n_batch`` rows."""
    n_branches = (1 << form.depth) - 1
    return Space(
        *kernels(cp, cp.cuda.Device().id, form._replace(gamma=0.0, epsilon=0.0), dtype),
        cp.empty((n_starts, n_branches), np.int32),
        cp.empty((n_starts, n_branches, form.n_features), dtype),
        cp.empty((n_starts, n_batch), np.int32),
        cp.empty((n_starts, n_batch, form.depth), dtype),
        cp.empty((n_starts, n_batch, form.n_outputs), dtype),
        cp.empty((n_starts, n_batch), np.float64),
        cp.empty((n_starts, JUDGING), np.float64),
    )


def prepare(own, theta, seeds, step, temperature, noisy):
    """Features of the largest logits (with noise if ``noisy``), and the feature weights for the gradient."""
    n_starts, n_branches = own.feature.shape
    grid = -(-n_branches * 32 // WIDTH), n_starts
    scale = theta.dtype.type(1.0 / temperature)
    own.prepare(grid, (WIDTH,), (theta, seeds, np.int64(step), scale, np.int32(noisy), own.feature, own.weights))


def descend_step(own, theta, state, data, batch, seeds, form, update):
    """One step of Adam for all starts, as in `dense.descend`, without waiting.

    Parameters
    ----------
    theta : (S, size); state : its two moments. All are overwritten.
    data : X (n, p), Y (n, K or 1), w (n,) in float64.
    batch : order (S, m) int32, begin and count of the batch in it, and (S,) float64 sums of its weights.
    seeds : (S,) int64; update : number of the step, from 1, learning rates, temperature and `Moments`.
    """
    step, rates, temperature, moments = update
    X, Y, w = data
    order, begin, count, weight = batch
    real, n_starts, n = theta.dtype.type, theta.shape[0], np.int32(order.shape[1])
    begin, rows = np.int32(begin), np.int32(count)
    prepare(own, theta, seeds, step, temperature, True)
    gamma, epsilon = np.float64(form.gamma), np.float64(form.epsilon)
    found = own.leaf, own.along, own.slope
    own.descend(
        (-(-count // WIDTH), n_starts),
        (WIDTH,),
        (theta, own.feature, own.weights, X, Y, w, order, n, begin, rows, weight, gamma, epsilon, *found, own.loss),
    )
    scales = (1.0 / (1.0 - float(real(beta)) ** step) for beta in (moments.beta1, moments.beta2))
    numbers = (1.0 / temperature, *rates, *moments, *scales)
    items = 2 * own.feature.shape[1] + 1
    own.update(
        (-(-items * 32 // WIDTH), n_starts),
        (WIDTH,),
        (theta, *state, own.feature, own.weights, X, order, n, begin, rows, *found, *map(real, numbers)),
    )


def losses(own, theta, seeds, data, form):
    """Weighted losses of the hard trees of theta, as partial sums over rows: (S, parts), on the device."""
    X, Y, w = data
    prepare(own, theta, seeds, 0, 1.0, False)
    numbers = np.int32(X.shape[0]), np.float64(form.gamma), np.float64(form.epsilon)
    own.judge(
        (JUDGING, theta.shape[0]),
        (WIDTH,),
        (theta, own.feature, X, Y, w, *numbers, own.sums),
        shared_mem=8 * WIDTH,
    )
    return own.sums
