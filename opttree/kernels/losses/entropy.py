"""The lowest capped log loss of a constant leaf.

The log loss of a row is capped at ``-log(1e-6)``. Frequencies are the best leaf but for rare classes, of a share below
about ``e * 1e-6``: their rows cost the cap either way, and probability 0 for them leaves more to the others.
"""

import numpy as np

from opttree.kernels.losses.codes import SMALLEST_PROBABILITY
from opttree.runtime.compiling.compiled import kernel_without_refcounts

CAP = -np.log(SMALLEST_PROBABILITY)
RARE = 3.0 * SMALLEST_PROBABILITY  # share above which giving a class up does not pay


@kernel_without_refcounts(error_model="numpy")
def log_cost(counts, first):
    """The lowest log loss of rows of the classes' weights ``counts[first:]`` as one leaf."""
    best, limit = np.inf, 0.0
    while True:
        given = other = top = 0.0
        least = np.inf
        for k in range(first, counts.size):
            c = counts[k]
            if c > limit:
                other += min(top, c)
                top = max(top, c)
                least = min(least, c)
            else:
                given += max(c, 0.0)
        if top == 0.0:
            return min(best, given * CAP)
        # of the largest class without the difference of its share from 1
        rest, own, seen = top + other, given * CAP + top * np.log1p(other / top), False
        for k in range(first, counts.size):
            c = counts[k]
            if c > limit and (seen or c < top):
                own += c * np.log(rest / c)
            elif c == top:
                seen = True
        best = min(best, own)
        if not least < RARE * rest:
            return best
        limit = least


def give_up_rare(shares):
    """Class frequencies (L, K), changed in place to the best leaves: 0 for classes that are better given up."""
    for leaf in np.flatnonzero(np.any((shares > 0.0) & (shares < RARE), axis=1)):
        own, options = shares[leaf].copy(), []
        for least in np.unique(np.append(own[own < RARE], 0.0)):
            kept = np.where(own > least, own, 0.0)
            p = kept / kept.sum()
            options.append((np.sum(own * np.minimum(-np.log(np.maximum(p, 1e-300)), CAP)), p))
        shares[leaf] = min(options, key=lambda option: option[0])[1]
