"""Numbers in words."""

from itertools import pairwise

import numpy as np
import pytest

from opttree.runtime.words import threshold


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2007.5, "2007.5"),
        (0.5 * (52.5199 + 52.52), "52.51995"),
        (49_951.5, "49,951.5"),
        (1_234_567_890.5, "1,234,567,890.5"),
        (2.0**53 + 2.0, "9007199254740994"),
        (1.0 / 3.0, "0.333333"),
        (-0.0, "-0"),
        (1e300, "1e+300"),
    ],
)
def test_thresholds_are_written_as_long_as_they_need(value, words):
    assert threshold(value) == words


@pytest.mark.parametrize("decimals", [0, 1, 2, 4])
@pytest.mark.parametrize("largest", [3.0, 2100.0, 99_999.0])
def test_thresholds_lie_between_values_of_few_decimals(decimals, largest):
    values = np.unique(np.random.default_rng(0).uniform(0.0, largest, 200).round(decimals))
    for low, high in pairwise(values.tolist()):
        assert low < float(threshold(0.5 * (low + high)).replace(",", "")) < high
