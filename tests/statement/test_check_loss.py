"""`check_loss` accepts what ships and refuses what is wrong."""

from dataclasses import dataclass

import numpy as np
import pytest

from opttree.losses import (
    ActionCost,
    Exponential,
    Gamma,
    Huber,
    Loss,
    Poisson,
    Quantile,
    Squared,
    ZeroOne,
    check_loss,
)

DRAWN = np.random.default_rng(0)
Y = DRAWN.normal(size=200)
TIMES = (DRAWN.exponential(size=200) + 0.1) * np.where(DRAWN.random(200) < 0.7, 1.0, -1.0)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (Squared(), Y), (Huber(0.7), Y), (Quantile(0.8), Y), (Poisson(), DRAWN.poisson(2.0, 200)),
        (Gamma(), np.abs(TIMES)), (Exponential(), TIMES), (ActionCost(), DRAWN.exponential(size=(200, 4))),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_ships_is_right(loss, y):
    check_loss(loss, y)


@dataclass(frozen=True)
class Right(Loss):
    """Squared error, all that a loss may define."""

    def value(self, y, prediction):
        return (y - prediction) ** 2

    def constant(self, y, w):
        return float(np.sum(w * y) / w.sum())

    def statistics(self, y):
        return np.column_stack([np.ones_like(y), y, y**2])

    @staticmethod
    def cost(s):
        return max(s[2] - s[1] ** 2 / s[0], 0.0)

    def gradient(self, y, prediction):
        return 2.0 * (prediction - y)

    def curvature(self, y, prediction):
        return np.full_like(y - prediction, 2.0)


WRONG = {
    "value": [lambda self, y, f: y - f, lambda self, y, f: np.sum((y - f) ** 2, axis=1)],
    "constant": [
        lambda self, y, w: float(np.median(y)),
        lambda self, y, w: float(np.sum(w * y)),
        lambda self, y, w: float("nan"),
    ],
    "cost": [
        staticmethod(lambda s: 0.5 * max(s[2] - s[1] ** 2 / s[0], 0.0)),
        staticmethod(lambda s: max(s[2] / s[0] - (s[1] / s[0]) ** 2, 0.0)),
        staticmethod(lambda s: -1.0),
    ],
    "statistics": [lambda self, y: np.column_stack([np.ones_like(y), y + 1.0, y**2]), lambda self, y: y],
    "least": [lambda self, y: y**2 + 1.0, lambda self, y: -np.ones(len(y))],
    "gradient": [lambda self, y, f: y - f, lambda self, y, f: f - y],
    "curvature": [lambda self, y, f: np.full_like(y - f, 0.5), lambda self, y, f: np.full_like(y - f, -2.0)],
    "pseudo": [lambda self, y: (y[:-1], np.ones(len(y))), lambda self, y: (y, -np.ones(len(y)))],
}


@pytest.mark.parametrize(("name", "method"), [(name, method) for name, methods in WRONG.items() for method in methods])
def test_what_is_wrong_is_named(name, method):
    check_loss(Right(), Y)
    wrong = type("Wrong", (Right,), {name: method})()
    with pytest.raises(ValueError, match="must") as caught:
        check_loss(wrong, Y)
    assert ("cost" if name == "statistics" else name) in str(caught.value) or name in str(caught.value)


def test_what_has_no_numbers_is_refused():
    with pytest.raises(ValueError, match="y must hold numbers of one output"):
        check_loss(ZeroOne(), np.arange(9) % 2)
    with pytest.raises(ValueError, match="y must hold numbers of one output"):
        check_loss(Huber(), np.ones((9, 2)))
