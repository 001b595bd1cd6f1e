"""Linear leaves of many features or outputs: one Gram matrix and one factorisation for all outputs of a leaf, and what
leaves answer by products of matrices.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from opttree.kernels.algebra.quadratic import JITTER, RANK
from opttree.kernels.leaves import fit as narrow, outputs as row_outputs
from opttree.kernels.losses import rows as row_losses
from opttree.kernels.losses.codes import ABSOLUTE, IDENTITY, SMALLEST_PROBABILITY, SQUARED, TABLE, ZERO_ONE
from opttree.kernels.passes.reduced import group_rows
from opttree.kernels.records import Group, Leaves, Net, Rows
from opttree.kernels.routing import is_sparse
from opttree.kernels.wide.quadratic import minimise
from opttree.runtime.calm import calm_threads
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.threads import each
from opttree.wide.logistic import fit_logistic, step_by_gradients, step_on_some
from opttree.wide.rows import WIDE, Part, SparsePart, part_of
from opttree.wide.sparse import scaled, units

Floats = NDArray[np.float64]
MANY = 8  # outputs
FAR = 1e4  # means, squared, in variances, from which on features are centred before their products are formed
LARGEST_GRAM = 1500  # features, under an l1 penalty: with more, each output has a working set of its own
GRADIENT_TOLERANCE, NEWTON_ROUNDS = 1e-4, 50  # of scikit-learn's softmax scores on sparse tables
SPAN_ROWS = 500
LBFGS_STEPS, LBFGS_DECREASE, LBFGS_SLOPE = 300, 1e2, 1e-6  # of softmax scores; decrease in units of rounding
LEAST_SHARE = 1e-6  # of a class without rows
TINY = 1e-300  # a diagonal of zeros
LASSO_ROUNDS, LASSO_TOLERANCE = 30, 1e-9  # of working sets; decrease, relative to the loss of a constant
WORK = 2**15  # weights of a leaf (outputs times features) from which on answers are products of matrices


def takes(n_features: int, n_outputs: int) -> bool:
    """Whether linear leaves of this size are fitted here."""
    return n_features > WIDE or n_outputs > MANY


def fit_linear(
    X: Floats, rows: NDArray[np.integer], h: Floats, Y: Floats, l1: float, l2: float, value: Floats, coef: Floats
) -> None:
    """`opttree.kernels.leaves.fit.fit_linear` at any width: ``value (K,)`` and ``coef (K, p)`` are overwritten."""
    if not (is_sparse(X) or takes(X.shape[1], Y.shape[1])):
        narrow.fit_linear(X, rows, h, Y, l1, l2, value, coef)
        return
    part, mean = part_of(X, rows), None
    with calm_threads():
        if not h.sum() > 0.0:
            value[:], coef[:] = 0.0, 0.0
            return
        if not is_sparse(X) and (mean := _far(part, h)) is not None:
            own = X[rows] - mean
            own[:, np.abs(own).max(axis=0) <= narrow.CONSTANT * np.abs(mean)] = 0.0
            part = Part(own, np.arange(len(own), dtype=np.int32))
            value += coef @ mean
        if is_sparse(X) and part.p > LARGEST_GRAM and l1 == 0.0:
            for k in range(Y.shape[1]):
                v = _ridge_by_gradients(part, h, Y[:, k], l2)
                coef[k], value[k] = v[:-1], v[-1]
        elif l1 == 0.0 and part.p < part.size:
            coef[:], value[:] = ridge_by_sums(part.gram(h, np.arange(part.p)), part.moments(h, Y), l2)
        elif l1 == 0.0:
            coef[:], value[:] = _ridge_by_rows(part, h, Y, l2)
        elif part.p <= LARGEST_GRAM:
            _lasso(part, h, Y, l1, l2, value, coef)
        else:
            for k in range(Y.shape[1]):
                v = _lasso_by_sets(part, h, Y[:, k], l1, l2, np.append(coef[k], value[k]))
                coef[k], value[k] = v[:-1], v[-1]
    if mean is not None:
        value -= coef @ mean


def _far(part: Part, h: Floats) -> Floats | None:
    """The means of features, where one of them is far from zero for its spread."""
    mass = h.sum()
    mean, square = part.sums(h)[:-1] / mass, part.squares(h)[:-1] / mass
    return mean if np.any(np.square(mean) > FAR * (square - np.square(mean))) else None


def _start(h: Floats, y: Floats, answer: Floats, squares: Floats, v: Floats, l1: float, l2: float) -> Floats:
    """Weights and constant to start from: ``v (p + 1,)``, which ``answer``, with the best constant, unless a constant
    alone is better. Features without ``squares (p,)`` have the weight 0.
    """
    mass = float(h.sum())
    constant, missed = float(h @ y) / mass, y - answer
    left = float(h @ missed) / mass
    new = np.append(np.where(squares > 0.0, v[:-1], 0.0), v[-1] + left)
    price = l1 * np.abs(new[:-1]).sum() + l2 * (new[:-1] @ new[:-1])
    if not h @ np.square(missed - left) + price <= h @ np.square(y - constant):
        new[:-1], new[-1] = 0.0, constant
    return new


def _lasso(part: Part, h: Floats, Y: Floats, l1: float, l2: float, value: Floats, coef: Floats) -> None:
    """All outputs by coordinate descent on one Gram matrix, from ``value`` and ``coef`` and in place."""
    G, V = part.gram(h, np.arange(part.p)), np.column_stack([coef, value])
    answers = part.outputs(coef, value)
    V = np.array([_start(h, Y[:, k], answers[:, k], np.diag(G)[:-1], v, l1, l2) for k, v in enumerate(V)])
    H = 2.0 * G
    H[np.diag_indices_from(H)] += JITTER * np.diag(H) + np.append(np.full(part.p, 2.0 * l2), 0.0)
    minimise(H, -2.0 * part.moments(h, Y), l1, V)
    coef[:], value[:] = V[:, :-1], V[:, -1]


def ridge_by_sums(G: Floats, C: Floats, l2: float) -> tuple[Floats, Floats]:
    """Weights (K, p) and constants (K,) from the Gram matrix and the moments (K, p + 1): of several solutions that of
    least norm, in units of the features' standard deviations, see `opttree.kernels.algebra.quadratic.least_norm`.
    """
    from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh  # imported late: a tree that predicts needs none

    mass = G[-1, -1]
    mean, squares = G[-1, :-1] / mass, np.diag(G)[:-1]
    spread = squares - mass * np.square(mean)
    used = np.flatnonzero(spread > RANK * squares)
    unit = np.zeros(len(mean))
    unit[used] = np.sqrt((spread[used] + l2) / mass)
    scale = unit[used] * mass
    r = (C[:, used] - C[:, -1:] * mean[used]) / scale
    M = G[np.ix_(used, used)] - mass * np.outer(mean[used], mean[used])
    M[np.diag_indices_from(M)] += l2
    M /= np.outer(scale, unit[used])
    try:
        L = cholesky(M, lower=True, check_finite=False)
        if not np.square(np.diag(L)).min(initial=1.0) > RANK:
            raise LinAlgError
        v = cho_solve((L, True), r.T, check_finite=False).T
    except LinAlgError:
        size, axes = eigh(M, check_finite=False)
        kept = size > RANK * max(size.max(initial=0.0), 1.0)
        v = (r @ axes[:, kept] / size[kept]) @ axes[:, kept].T
    coef = np.zeros((len(C), len(unit)))
    coef[:, used] = v / unit[used]
    return coef, C[:, -1] / mass - coef @ mean


def _ridge_by_rows(part: Part, h: Floats, Y: Floats, l2: float) -> tuple[Floats, Floats]:
    """`ridge_by_sums` where there are no more rows than features, by their products."""
    from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh

    mass, every = h.sum(), np.arange(part.p)
    A = part.columns(every, np.ones(part.size), 0, part.size, np.float64)[:, :-1]
    mean = h @ A / mass
    A -= mean
    A *= np.sqrt(h)[:, None]
    A[:, np.abs(A).max(axis=0) <= narrow.CONSTANT * np.sqrt(h.max()) * np.abs(mean)] = 0.0
    unit = np.ones(part.p)
    if l2 == 0.0:
        unit = np.sqrt(np.square(A).sum(axis=0) / mass)
        A /= np.where(unit > 0.0, unit, np.inf)  # what is so small that its square is 0 counts as 0
    center = h @ Y / mass
    S = A @ A.T
    if not S.any():
        return np.zeros((Y.shape[1], part.p)), center
    S[np.diag_indices_from(S)] += l2 if l2 > 0.0 else 10.0 * RANK * max(np.trace(S), TINY) / len(S)
    r = np.sqrt(h)[:, None] * (Y - center)
    try:
        alpha = cho_solve((cholesky(S, lower=True, check_finite=False), True), r, check_finite=False)
    except LinAlgError:  # columns of very different size
        size, axes = eigh(S, check_finite=False)
        kept = size > RANK * max(size.max(initial=0.0), TINY)
        alpha = axes[:, kept] @ ((axes[:, kept].T @ r) / size[kept, None])
    coef = (alpha.T @ A) / np.where(unit > 0.0, unit, 1.0)
    return coef, center - coef @ mean


def _lasso_by_sets(part: Part, h: Floats, y: Floats, l1: float, l2: float, v: Floats) -> Floats:
    """Weights and constant of one output, by working sets that grow until no feature outside would gain."""
    center = float(h @ y) / float(h.sum())
    enough = LASSO_TOLERANCE * float(h @ np.square(y - center))
    v = _start(h, y, part.times(v), part.squares(h)[:-1], v, l1, l2)
    for _ in range(LASSO_ROUNDS):
        g = part.sums(-2.0 * h * (y - part.times(v)))
        new, whole = step_on_some(part, 2.0 * h, g, v, l1, l2)
        d = new - v
        gain = -float(g @ d + l2 * (new[:-1] @ new[:-1] - v[:-1] @ v[:-1]))
        gain -= l1 * float(np.abs(new[:-1]).sum() - np.abs(v[:-1]).sum())
        v = new
        if whole and gain <= enough:
            break
    return v


def _ridge_by_gradients(part: Part, h: Floats, y: Floats, l2: float) -> Floats:
    """Weights and constant of one output under a ridge, by conjugate gradients that start anew a few times."""
    center = float(h @ y) / float(h.sum())
    v = np.append(np.zeros(part.p), center)
    enough = LASSO_TOLERANCE * float(h @ np.square(y - center))
    for _ in range(LASSO_ROUNDS):
        g = part.sums(-2.0 * h * (y - part.times(v)))
        new = step_by_gradients(part, 2.0 * h, g, v, l2)
        d = new - v
        gain = -float(g @ d + l2 * (new[:-1] @ new[:-1] - v[:-1] @ v[:-1])) - float(h @ np.square(part.times(d)))
        v = new
        if gain <= enough:
            break
    return v


def fit_softmax(
    X: Any,
    rows: NDArray[np.integer],
    h: Floats,
    y: Floats,
    l1: float,
    l2: float,
    value: Floats,
    coef: Floats,
    end: float = np.inf,
) -> None:
    """The kernel `fit_softmax` for many features; ``value (K,)`` and ``coef (K, p)`` are overwritten; codes ``y``.

    After ``end``, by `opttree.runtime.clock.now`, a fit of several rounds ends where it is.
    """
    label = y.astype(np.intp)
    if value.size < 2:  # the probability of one class is 1
        return
    if is_sparse(X):
        _rounds(part_of(X, rows), h, label, l1, l2, value, coef, end)
        return
    mean = np.average(X[rows], axis=0, weights=h)
    own = X[rows] - mean
    largest = np.abs(own).max(axis=0)
    constant = largest <= np.maximum(narrow.CONSTANT * np.abs(mean), narrow.LEAST_SIZE)
    size = np.where(constant | (l1 > 0.0 or l2 > 0.0), 1.0, largest)
    own = np.ascontiguousarray(np.where(constant, 0.0, own / size))
    value += coef @ mean
    coef *= np.where(constant, 0.0, size)
    if l1 == 0.0 and l2 > 0.0 and np.unique(label).size > 2:
        _together(own, h, label, l2, value, coef, end)
    else:
        _rounds(Part(own, np.arange(len(own), dtype=np.int32)), h, label, l1, l2, value, coef, end)
    coef /= size
    value -= coef @ mean


def _together(
    X: Floats, h: Floats, label: NDArray[np.intp], l2: float, value: Floats, coef: Floats, end: float
) -> None:
    """Softmax scores of all classes that have rows together, under a ridge, by L-BFGS on features of like curvature.

    Of few rows, and fewer than features, in the span of the rows, where the scores of least penalty are.
    """
    from scipy.optimize import fmin_l_bfgs_b

    there, own = np.unique(label, return_inverse=True)
    spans = len(X) < min(X.shape[1], SPAN_ROWS)
    basis = np.linalg.svd(X, full_matrices=False)[2].T if spans else None
    Z = X if basis is None else X @ basis
    W = coef[there] if basis is None else coef[there] @ basis
    w = h / h.sum()
    if not coef.any():  # no step is uphill: the classes' shares are where it begins
        absent = np.delete(value, there)
        level = logsumexp(absent) - np.log(LEAST_SHARE) if absent.size else value.mean()
        value[there] = level + np.log(np.maximum(np.bincount(own, w), LEAST_SHARE))
    others = X @ np.delete(coef, there, axis=0).T + np.delete(value, there)
    largest = np.maximum(np.abs(Z).max(axis=0), TINY)
    strength = np.sqrt(l2 / h.sum())
    unit = np.hypot(0.5 * largest * np.sqrt(w @ np.square(Z / largest)), np.sqrt(2.0) * strength)
    Z = np.ascontiguousarray(Z / unit)
    ridge = np.square(strength / unit)
    rows = np.arange(len(own))
    lowest, best = np.inf, np.column_stack([W * unit, value[there]])

    def loss(v: Floats) -> tuple[float, Floats]:
        nonlocal lowest, best
        V = v.reshape(there.size, -1)
        score = np.hstack([Z @ V[:, :-1].T + V[:, -1], others])
        total = logsumexp(score, axis=1)
        found = float(w @ (total - score[rows, own]) + (np.square(V[:, :-1]) @ ridge).sum())
        if found < lowest:
            lowest, best = found, V.copy()
        if now() > end:
            raise TimeoutError
        chance = np.exp(score[:, : there.size] - total[:, None])
        chance[rows, own] -= 1.0
        chance *= w[:, None]
        slope = np.column_stack([chance.T @ Z + 2.0 * ridge * V[:, :-1], chance.sum(axis=0)])
        return found, slope.ravel()

    with suppress(TimeoutError):
        fmin_l_bfgs_b(loss, best.ravel(), m=20, factr=LBFGS_DECREASE, pgtol=LBFGS_SLOPE, maxiter=LBFGS_STEPS)
    W, value[there] = best[:, :-1] / unit, best[:, -1]
    coef[there] = W if basis is None else W @ basis.T


def _rounds(
    part: Part, h: Floats, label: NDArray[np.intp], l1: float, l2: float, value: Floats, coef: Floats, end: float
) -> None:
    """Rounds of logistic regressions, one class against the others; of a ridge on a sparse table, scikit-learn's."""
    if l1 == 0.0 and isinstance(part, SparsePart):
        _softmax_of_sparse(part, h, label, l2, value, coef)
        return

    def late() -> bool:
        return now() > end

    score, fresh = part.outputs(coef, value), not coef.any()
    for number in range(narrow.SOFTMAX_ROUNDS):
        change, top = 0.0, score.max(axis=1)
        odds = np.exp(score - top[:, None])
        for k in np.unique(label).tolist():
            if late():
                if number == 0 and fresh:
                    _no_worse_than_constants(h, label, score, value, coef)
                return
            with np.errstate(divide="ignore"):
                offset = -(top + np.log(odds[:, :k].sum(axis=1) + odds[:, k + 1 :].sum(axis=1)))
            lost = ~np.isfinite(offset)  # all others are far below
            if lost.any():
                others = np.delete(score[lost], k, axis=1)
                high = others.max(axis=1, keepdims=True)
                offset[lost] = -(high[:, 0] + np.log(np.exp(others - high).sum(axis=1)))
            u = np.where(label == k, h, -h)
            b, _steps = fit_logistic(
                part, u, offset, coef[k], -value[k], l1, l2, 1e-3, narrow.NEWTON_STEPS, late, False
            )
            value[k] = -b
            new = part.times(np.append(coef[k], value[k]))
            change = max(change, float(np.abs(new - score[:, k]).max()))
            score[:, k] = new
            odds[:, k] = np.exp(np.minimum(new - top, 600.0))
        if l1 > 0.0 or l2 > 0.0:
            shift = np.mean(coef, axis=0) if l2 > 0.0 else np.median(coef, axis=0)
            coef -= shift
            score -= part.times(np.append(shift, 0.0))[:, None]
        if change <= narrow.SOFTMAX_TOLERANCE:
            break


def _no_worse_than_constants(h: Floats, label: NDArray[np.intp], score: Floats, value: Floats, coef: Floats) -> None:
    """The scores of the classes' shares, where those of a first round that was cut short are worse."""
    mass = np.bincount(label, h, minlength=value.size)
    shares = np.where(mass > 0.0, mass, LEAST_SHARE * mass.sum()) / mass.sum()
    own = score[np.arange(len(label)), label] - logsumexp(score, axis=1)
    if h @ own < h @ np.log(shares[label]):
        value[:], coef[:] = np.log(shares), 0.0


def _softmax_of_sparse(
    part: SparsePart, h: Floats, label: NDArray[np.intp], l2: float, value: Floats, coef: Floats
) -> None:
    """Softmax scores of all classes together, under a ridge, by scikit-learn; those without a row stay as they are."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    there = np.unique(label)
    if there.size < 2:
        return
    mass = float(h.sum())
    two = there.size == 2  # are one score w, of which either class has half: the penalties add to half of w's
    unit = np.ones(part.p) if l2 > 0.0 else units(part.S)
    with np.errstate(divide="ignore"):
        C = float(np.divide(1.0 if two else 0.5, l2 / mass))
    model = LogisticRegression(C=C, solver="newton-cg", tol=GRADIENT_TOLERANCE, max_iter=NEWTON_ROUNDS, warm_start=True)
    model.coef_, model.intercept_ = coef[there] * unit, value[there]
    if two:
        model.coef_, model.intercept_ = np.diff(model.coef_, axis=0), np.diff(model.intercept_)
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".*line search")  # that says the same, of columns of very different size
        warnings.filterwarnings("ignore", "Setting penalty=None")  # scikit-learn 1.8 of an infinite C
        model.fit(scaled(part.S, unit), label, sample_weight=h / mass)
    if not (np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()):  # a ridge on columns of 1e100
        return
    halves = np.array([-0.5, 0.5])
    coef[there] = (halves[:, None] * model.coef_ if two else model.coef_) / unit
    value[there] = halves * model.intercept_ if two else model.intercept_


def fit_leaves(kernel: Any, rows: Rows, group: Group, net: Net, min_rows: int, values: Floats, coefs: Floats) -> None:
    """`opttree.kernels.leaves.fit.fit_linear_leaves`; leaves of many features or outputs are fitted here."""
    softmax, p, end = kernel is narrow.softmaxes_range, coefs.shape[2], now() + seconds_left()
    linear = kernel is narrow.least_squares_range
    if not (is_sparse(rows.X) or (p > WIDE if softmax else linear and takes(p, rows.Y.shape[1]))):
        narrow.fit_linear_leaves(kernel, rows, group, net, min_rows, values, coefs)
        return

    def fit(leaf: int) -> None:
        own = group.order[group.start[leaf] : group.start[leaf + 1]]
        where = values[leaf], coefs[leaf]
        if own.size >= min_rows and softmax:
            fit_softmax(rows.X, own, rows.weight[own], rows.Y[own, 0], net.l1, net.l2, *where, end)
        elif own.size >= min_rows:
            fit_linear(rows.X, own, rows.weight[own], rows.Y[own], net.l1, net.l2, *where)
        elif own.size:
            coefs[leaf] = 0.0

    with calm_threads():
        each(fit, range(len(values)))


def at_means(X: Any, weight: Floats, group: Group, coefs: Floats) -> Floats:
    """(L, K) what the linear terms of leaves add at the weighted means of their rows; 0 of leaves without rows."""
    added = np.zeros(coefs.shape[:2])
    for leaf in np.flatnonzero(coefs.any(axis=(1, 2)) & (np.diff(group.start) > 0)).tolist():
        rows = group.order[group.start[leaf] : group.start[leaf + 1]]
        h = weight[rows]
        added[leaf] = coefs[leaf] @ (part_of(X, rows).sums(h)[:-1] / max(h.sum(), TINY))
    return added


def by_products(X: Any, leaves: Leaves) -> bool:
    """Whether answers of these leaves are worth products of matrices, as those of linear ones to sparse rows are."""
    return bool(leaves.coefs.shape[1] * leaves.coefs.shape[2] >= (1 if is_sparse(X) else WORK))


def answers(X: Any, leaf: NDArray[np.integer], leaves: Leaves) -> Iterator[tuple[int, NDArray[np.int32], Floats]]:
    """For each leaf with rows: its number, the rows, and its answers (m, K) to them, by the features that it uses.

    ``leaf (n,)`` holds numbers of leaves, negative for rows that are left out. In parallel, some leaves at a time.
    """
    n_leaves = len(leaves.values)
    order, start = group_rows(leaf, n_leaves, np.ones(len(leaf)))

    def answer(number: int) -> tuple[int, NDArray[np.int32], Floats]:
        rows = order[start[number] : start[number + 1]]
        out = part_of(X, rows).outputs(leaves.coefs[number], leaves.values[number])
        if leaves.lower.size:
            np.clip(out, leaves.lower[number], leaves.upper[number], out=out)
        return number, rows, out

    with calm_threads():
        some = np.flatnonzero(np.diff(start)).tolist()
        for first in range(0, len(some), 8):
            yield from each(answer, some[first : first + 8])


def unread(X: Any) -> Any:
    """The table as kernels take it for constant leaves, which do not read a sparse one."""
    return np.empty((X.shape[0], 0)) if is_sparse(X) else X


def outputs_at(X: Any, node: NDArray[np.integer], leaves: Leaves) -> Floats:
    """Answers (n, K) to rows whose leaf nodes are known, by products of matrices where they are worth it."""
    if not by_products(X, leaves):
        found: Floats = row_outputs.outputs(unread(X), node, leaves)
        return found
    return outputs(X, node - (len(leaves.values) - 1), leaves)


def outputs(X: Any, leaf: NDArray[np.integer], leaves: Leaves) -> Floats:
    """(n, K) answers to rows of known leaves, ``leaf (n,)`` the numbers of the leaves."""
    out = np.empty((X.shape[0], leaves.values.shape[1]))
    for _number, rows, answer in answers(X, leaf, leaves):
        out[rows] = answer
    return out


def losses_at(rows: Rows, node: NDArray[np.integer], leaves: Leaves, code: int, link: int) -> Floats:
    """Losses (n,) of rows whose leaf nodes are known, by products of matrices where they are worth it."""
    if code == TABLE or not by_products(rows.X, leaves):
        return row_losses.losses(rows._replace(X=unread(rows.X)), node, leaves, code, link)
    return losses(rows, node - (len(leaves.values) - 1), leaves, code, link)


def losses(rows: Rows, leaf: NDArray[np.integer], leaves: Leaves, code: int, link: int) -> Floats:
    """(n,) losses at leaves of known numbers, as `opttree.kernels.losses.rows.losses`; 0 where they are negative."""
    if not leaves.coefs.shape[2]:
        at = np.maximum(leaf, 0) + len(leaves.values) - 1
        found = row_losses.losses(rows._replace(X=unread(rows.X)), at, leaves, code, link)
        return np.where(leaf >= 0, found, 0.0)
    out = np.zeros(rows.X.shape[0])
    for _number, some, answer in answers(rows.X, leaf, leaves):
        out[some] = _losses(rows.Y[some], answer, code, link)
    return out


def _losses(Y: Floats, answer: Floats, code: int, link: int) -> Floats:
    if code in (SQUARED, ABSOLUTE):
        r = Y - answer
        return np.sum(np.square(r, out=r) if code == SQUARED else np.abs(r, out=r), axis=1)
    label, every = Y[:, 0].astype(np.intp), np.arange(len(Y))
    own = answer[every, label]
    if code == ZERO_ONE:
        return (answer.argmax(axis=1) != label).astype(np.float64)
    if link == IDENTITY:
        return -np.log(np.clip(own, SMALLEST_PROBABILITY, 1.0))
    odds = np.exp(np.minimum(answer - own[:, None], 700.0)).sum(axis=1)
    return np.minimum(np.log(odds), -np.log(SMALLEST_PROBABILITY))


def output_ranges(rows: Rows, group: Group, values: Floats, coefs: Floats) -> tuple[Floats, Floats]:
    """`opttree.kernels.leaves.fit.output_ranges`, by products of matrices where they are worth it."""
    plain = Leaves(values, coefs, np.zeros((0, 0)), np.zeros((0, 0)))
    if not by_products(rows.X, plain):
        return narrow.output_ranges(rows, group, values, coefs)
    lower, upper = values.copy(), values.copy()
    leaf = np.full(rows.X.shape[0], -1)
    leaf[group.order] = np.repeat(np.arange(len(values)), np.diff(group.start))
    for number, some, answer in answers(rows.X, leaf, plain):
        Y = rows.Y[some]
        low, high = Y.min(axis=0), Y.max(axis=0)
        lower[number] = np.minimum(np.maximum(low, answer.min(axis=0)), high)
        upper[number] = np.maximum(np.minimum(high, answer.max(axis=0)), low)
    return lower, upper
