"""Codes of losses, aggregations and choices, shared by the compiled kernels, the array functions and CUDA."""

SQUARED, ABSOLUTE, ZERO_ONE, LOG, GIVEN = range(5)  # GIVEN: Y holds the losses of the leaves
EXPECTED, MIXTURE = range(2)
ENTMAX, GUMBEL, SOFT = range(3)  # straight-through entmax, straight-through Gumbel softmax, entmax without the hardmax

# as CUDA's sources read them
MACROS = {"SQUARED": SQUARED, "LOG": LOG, "GIVEN": GIVEN, "ENTMAX": ENTMAX, "GUMBEL": GUMBEL, "SOFT": SOFT}

IDENTITY, SOFTMAX = range(2)  # how scores become probabilities
SMALLEST_PROBABILITY = 1e-6  # the log loss of a row is capped at -log of this
