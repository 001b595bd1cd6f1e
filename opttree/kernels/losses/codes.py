"""Codes of losses, aggregations and choices, shared by the compiled kernels, the array functions and CUDA."""

SQUARED, ABSOLUTE, ZERO_ONE, LOG, TABLE = range(5)  # TABLE: losses are precomputed, Y[i, leaf]
POISSON, GAMMA, EXPONENTIAL, HUBER, OWN = range(5, 10)  # of the exact search alone
SUMS = 10  # a function of the summed statistics of rows, see `opttree.kernels.exact.statistics`
EXPECTED, MIXTURE = range(2)
ENTMAX, GUMBEL, SOFT = range(3)  # straight-through entmax, straight-through Gumbel softmax, entmax without the hardmax

# as CUDA's sources read them
MACROS = {"SQUARED": SQUARED, "LOG": LOG, "TABLE": TABLE, "ENTMAX": ENTMAX, "GUMBEL": GUMBEL, "SOFT": SOFT}

IDENTITY, SOFTMAX = range(2)  # how scores become probabilities
SMALLEST_PROBABILITY = 1e-6  # the log loss of a row is capped at -log of this
