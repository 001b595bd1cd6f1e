"""Adam, QHAdam and L-BFGS on the smooth tree as compiled loops, since call overhead would dominate small problems."""

from collections import namedtuple

import numpy as np
from numba.extending import register_jitable

from opttree.kernels.losses.codes import LOG
from opttree.kernels.smooth.walk import add_chunks, alone, evaluate, unpack
from opttree.runtime.compiling.compiled import inner, kernel

MEMORY = 10  # pairs that L-BFGS keeps
MOST_TRIALS = 20
ARMIJO = 1e-4
CURVED = 1e-10
SETTLED = 1e-12  # relative descent at which L-BFGS stops
# Adam is nu1 = nu2 = 1 (Ma and Yarats, "Quasi-hyperbolic momentum and Adam", ICLR 2019, for the others)
Moments = namedtuple("Moments", "beta1 beta2 nu1 nu2 epsilon")
# number of steps before, for the bias correction of the moments; learning rate and gate scale of each step, (steps,)
# each; first and last block (exclusive) of each step (steps, 2)
Schedule = namedtuple("Schedule", "done rates alphas batches")


@kernel()
def best_constants(theta, gradient, mass, form, ridge):
    """Set the leaves' constants to their optimum for the gates at which ``gradient`` and ``mass`` were computed.

    Expected squared loss: ``dL/dh = 2 (h mass - sum P y)``, so that the optimum is one Newton step away, also under
    an l2 penalty ``ridge`` on the constants, of which the gradient is part; expected log
    loss: ``dL/dscore_k = mass p_k - sum P [y = k]`` gives the class shares. Empty leaves are unchanged.
    """
    values, slopes = unpack(theta, form)[2], unpack(gradient, form)[2]
    dtype = theta.dtype
    shares = np.empty(form.n_outputs, dtype)
    for leaf in range(values.shape[0]):
        if mass[leaf] + ridge <= 1e-9:
            continue
        if form.loss == LOG:
            top = values[leaf, 0]
            for k in range(1, form.n_outputs):
                top = max(top, values[leaf, k])
            total = dtype.type(0.0)
            for k in range(form.n_outputs):
                shares[k] = np.exp(values[leaf, k] - top)
                total += shares[k]
            for k in range(form.n_outputs):
                share = shares[k] / total - slopes[leaf, k] / mass[leaf]
                values[leaf, k] = np.log(max(share, dtype.type(1e-6)))
        else:
            for k in range(form.n_outputs):
                values[leaf, k] -= slopes[leaf, k] / (2 * (mass[leaf] + dtype.type(ridge)))


@kernel()
def adam_step(theta, gradient, first, second, step, rate, moments):
    """Step number ``step`` (from 1) of Adam, or of QHAdam, along ``gradient``; updates theta and its two moments."""
    dtype = theta.dtype
    one, rate = dtype.type(1.0), dtype.type(rate)
    beta1, beta2 = dtype.type(moments.beta1), dtype.type(moments.beta2)
    # double precision, as 1 - beta^step cancels, but with the rounded betas that weight the sums below
    scale1 = dtype.type(1.0 / (1.0 - np.float64(beta1) ** step))
    scale2 = dtype.type(1.0 / (1.0 - np.float64(beta2) ** step))
    nu1, nu2 = dtype.type(moments.nu1), dtype.type(moments.nu2)
    epsilon = dtype.type(moments.epsilon)
    for j in range(theta.size):
        g = gradient[j]
        first[j] = beta1 * first[j] + (one - beta1) * g
        second[j] = beta2 * second[j] + (one - beta2) * g * g
        mean = (one - nu1) * g + nu1 * first[j] * scale1
        square = (one - nu2) * g * g + nu2 * second[j] * scale2
        theta[j] -= rate * mean / (np.sqrt(square) + epsilon)


@register_jitable
def take_steps(chunks, theta, state, schedule, moments, closed_leaves, objective):
    """`descend`, by `add_chunks` or its address: see `opttree.runtime.compiling.calls`."""
    done, rates, alphas, batches = schedule
    form = objective.form
    gradient = np.empty_like(theta)
    mass = np.empty(1 << form.depth, theta.dtype)
    losses = np.empty(rates.size)
    for i in range(rates.size):
        losses[i] = evaluate(chunks, theta, alphas[i], batches[i], objective, gradient, mass)
        ridge = objective.penalty.l2_constants
        update(theta, gradient, mass, state, done + i + 1, rates[i], moments, closed_leaves, form, ridge)
    return losses


take_steps_alone = kernel()(take_steps)


@kernel()
def update(theta, gradient, mass, state, step, rate, moments, closed_leaves, form, ridge):
    """Step number ``step`` (from 1) of `descend`."""
    moved = theta.size  # entries before the leaves' constants, if these are in closed form
    rest = theta.size
    if closed_leaves:
        best_constants(theta, gradient, mass, form, ridge)
        moved = ((1 << form.depth) - 1) * (form.n_features + 1)
        rest = moved + (1 << form.depth) * form.n_outputs
    first, second = state[0], state[1]
    adam_step(theta[:moved], gradient[:moved], first[:moved], second[:moved], step, rate, moments)
    adam_step(theta[rest:], gradient[rest:], first[rest:], second[rest:], step, rate, moments)


def descend(theta, state, schedule, moments, closed_leaves, objective):
    """Take the steps of a `Schedule` by Adam from ``theta``, which is overwritten, as is ``state (2, size)``.

    Parameters
    ----------
    closed_leaves : set the leaves' constants to their optimum for the gates of each step, see `best_constants`, instead
        of gradient steps.

    Returns
    -------
    (steps,) objectives on each step's batch, before the step.
    """
    arguments = theta, state, schedule, moments, closed_leaves, objective
    address = alone(theta, schedule.batches[0], objective)
    return take_steps(add_chunks, *arguments) if address is None else take_steps_alone(address, *arguments)


@inner()
def lbfgs_direction(g, steps, changes, rho, held):
    """Descent direction and its slope from the last `MEMORY` of ``held`` pairs (two-loop recursion)."""
    weight = np.empty(MEMORY)
    d = -g.astype(np.float64)
    for j in range(min(held, MEMORY)):
        i = (held - 1 - j) % MEMORY
        weight[i] = rho[i] * np.sum(steps[i] * d)
        d -= weight[i] * changes[i]
    if held:
        last = (held - 1) % MEMORY
        d /= rho[last] * np.sum(changes[last] * changes[last])
    for j in range(max(0, held - MEMORY), held):
        i = j % MEMORY
        d += (weight[i] - rho[i] * np.sum(changes[i] * d)) * steps[i]
    return d, np.sum(g * d)


@inner()
def lbfgs_keep(step, change, steps, changes, rho, held):
    """Store a pair, unless its curvature is negative; returns the number of pairs stored so far."""
    curvature = np.sum(step * change)
    if curvature > CURVED * np.sum(change * change):
        i = held % MEMORY
        steps[i], changes[i], rho[i] = step, change, 1.0 / curvature
        held += 1
    return held


@inner()
def shortened(t, slope, rise):
    """The next step length after one that raised the objective, by safeguarded quadratic interpolation."""
    return t * min(max(-0.5 * t * slope / (rise - t * slope), 0.1), 0.5)


def lbfgs_memory(size):
    """Storage for the pairs of L-BFGS: steps and changes (MEMORY, size), the inverses of their products, their
    number.
    """
    return np.empty((MEMORY, size)), np.empty((MEMORY, size)), np.empty(MEMORY), np.zeros(1, np.int64)


# theta and its gradient g, the next point and its gradient, the direction, scalars by the indices below, the pairs
LBFGS = namedtuple("LBFGS", "theta g new new_g direction numbers memory")
VALUE, SLOPE, LENGTH, TRIAL, LEFT, EVALUATIONS, ENDED, LEAST = range(8)


@kernel()
def lbfgs_begin(theta, iterations, memory, least):
    """State of up to ``iterations`` iterations of L-BFGS (Nocedal and Wright, algorithm 7.5), which updates ``theta``.

    Evaluate the objective at ``state.new`` and its gradient into ``state.new_g``, and pass the value to `lbfgs_take`,
    until ``state.numbers[ENDED]``. Steps are shortened by Armijo's rule with quadratic interpolation; pairs of negative
    curvature are skipped. ``memory``, see `lbfgs_memory`, holds the pairs of earlier iterations and is updated, so that
    splitting a run into parts does not change it. Where the gradient's norm at the start is at most ``least``, nothing
    is done.
    """
    numbers = np.zeros(8)
    numbers[LEFT] = iterations
    numbers[LEAST] = least
    d = np.empty(theta.size)
    return LBFGS(theta, np.empty_like(theta), theta.copy(), np.empty_like(theta), d, numbers, memory)


@kernel()
def lbfgs_take(state, value):
    """Process the objective at ``state.new``, and set the next point to evaluate, or the end."""
    theta, g, new, new_g, d, numbers, memory = state
    steps, changes, rho, number = memory
    numbers[EVALUATIONS] += 1
    if numbers[EVALUATIONS] > 1:
        rise = value - numbers[VALUE]
        t, slope = numbers[LENGTH], numbers[SLOPE]
        if not rise <= ARMIJO * t * slope:
            numbers[TRIAL] += 1
            numbers[ENDED] = numbers[TRIAL] == MOST_TRIALS
            numbers[LENGTH] = shortened(t, slope, rise)
            new[:] = theta + (numbers[LENGTH] * d).astype(theta.dtype)
            return
        number[0] = lbfgs_keep(new - theta, new_g - g, steps, changes, rho, number[0])
        theta[:] = new
        numbers[LEFT] -= 1
        numbers[ENDED] = numbers[VALUE] - value <= SETTLED * max(abs(value), 1e-300)
    elif np.sum(new_g * new_g) <= numbers[LEAST] * abs(numbers[LEAST]):
        numbers[ENDED] = 1
    g[:] = new_g
    numbers[VALUE] = value
    if numbers[ENDED] or numbers[LEFT] <= 0:
        numbers[ENDED] = 1
        return
    held = number[0]
    d[:], slope = lbfgs_direction(g, steps, changes, rho, held)
    if not slope < 0.0:
        numbers[ENDED] = 1
        return
    numbers[SLOPE], numbers[TRIAL] = slope, 0
    numbers[LENGTH] = 1.0 if held else min(1.0, 1.0 / np.sqrt(-slope))
    new[:] = theta + (numbers[LENGTH] * d).astype(theta.dtype)


@register_jitable
def iterate(chunks, theta, alpha, objective, iterations, memory, least):
    """`lbfgs`, by `add_chunks` or its address: see `opttree.runtime.compiling.calls`."""
    blocks = np.array([0, objective.data.w.shape[0]])
    mass = np.empty(1 << objective.form.depth, theta.dtype)
    state = lbfgs_begin(theta, iterations, memory, least)
    while not state.numbers[ENDED]:
        value = evaluate(chunks, state.new, alpha, blocks, objective, state.new_g, mass)
        lbfgs_take(state, value)
    return state.numbers[VALUE], int(state.numbers[EVALUATIONS])


iterate_alone = kernel()(iterate)


def lbfgs(theta, alpha, objective, iterations, memory, least=-1.0):
    """A complete L-BFGS run on the smooth tree, see `lbfgs_begin`; returns the objective and the number of
    evaluations.
    """
    arguments = theta, alpha, objective, iterations, memory, least
    address = alone(theta, (0, objective.data.w.shape[0]), objective)
    return iterate(add_chunks, *arguments) if address is None else iterate_alone(address, *arguments)


def lbfgs_elsewhere(theta, value_and_gradient, iterations, memory, least=-1.0):
    """A complete L-BFGS run on an objective given as a Python function, ``value_and_gradient(theta)``."""
    state = lbfgs_begin(theta, iterations, memory, least)
    while not state.numbers[ENDED]:
        value, state.new_g[:] = value_and_gradient(state.new)
        lbfgs_take(state, value)
    return state.numbers[VALUE], int(state.numbers[EVALUATIONS])
