"""`Forest`: trees whose answers are averaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opttree.tree import Tree

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Forest:
    """Regression trees whose answers are averaged, in one layer or in several. Immutable.

    The trees of a layer read the features and, after them, all that the layers before have put out, tree by tree. The
    forest's answer is the mean over the trees of all layers of their first ``n_outputs`` outputs (SDTR, section III-D).

    Parameters
    ----------
    layers : the trees of each layer, in order.
    n_outputs : K, numbers that the forest answers with; trees may put out more, for later layers alone.

    Raises
    ------
    ValueError
        If a tree does not read what is there, or puts out too little.
    """

    layers: tuple[tuple[Tree, ...], ...]
    n_outputs: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(tuple(layer) for layer in self.layers))
        if not self.layers or not all(self.layers):
            raise ValueError("layers must hold a tree each; got an empty one")
        if self.n_outputs < 1:
            raise ValueError(f"n_outputs must be >= 1; got {self.n_outputs}")
        width = self.n_features
        for number, layer in enumerate(self.layers):
            for tree in layer:
                if tree.n_features != width:
                    raise ValueError(f"layers[{number}] must hold trees of {width} features; got {tree.n_features}")
                if not self.n_outputs <= tree.n_outputs == layer[0].n_outputs:
                    raise ValueError(
                        f"layers[{number}] must hold trees of as many outputs, {self.n_outputs} or more; "
                        f"got {tree.n_outputs}"
                    )
            width += sum(tree.n_outputs for tree in layer)

    @property
    def trees(self) -> tuple[Tree, ...]:
        """All trees, layer by layer."""
        return tuple(tree for layer in self.layers for tree in layer)

    @property
    def n_features(self) -> int:
        """Features of the rows."""
        return self.layers[0][0].n_features

    @property
    def n_parameters(self) -> int:
        """Sum of the trees' parameters."""
        return sum(tree.n_parameters for tree in self.trees)

    def outputs(self, X: ArrayLike, answer: Callable[[Tree, Floats], Floats] = Tree.outputs) -> Floats:
        """Mean answers (n, K) to rows ``X (n, p)``; ``answer(tree, X)`` is how each tree answers."""
        X = np.asarray(X, np.float64)
        total = np.zeros((X.shape[0], self.n_outputs))
        for number, layer in enumerate(self.layers):
            answers = [answer(tree, X) for tree in layer]
            for own in answers:
                total += own[:, : self.n_outputs]
            if number < len(self.layers) - 1:
                X = np.hstack([X, *answers])
        return total / len(self.trees)

    def predict(self, X: ArrayLike) -> Floats:
        """Predictions: (n,) or, with several outputs, (n, K)."""
        scores = self.outputs(X)
        return scores[:, 0] if self.n_outputs == 1 else scores

    def unscale(self, x_mean: Floats, x_scale: Floats, y_mean: ArrayLike = 0.0, y_scale: ArrayLike = 1.0) -> Forest:
        """The forest for raw data, of one for ``(X - x_mean) / x_scale`` and ``(y - y_mean) / y_scale``."""
        shift, unit = (np.broadcast_to(part, self.n_outputs).astype(np.float64) for part in (y_mean, y_scale))
        layers = []
        for layer in self.layers:
            extra = layer[0].n_outputs - self.n_outputs
            out = np.append(shift, np.zeros(extra)), np.append(unit, np.ones(extra))
            layers.append(tuple(tree.unscale(x_mean, x_scale, *out) for tree in layer))
            x_mean, x_scale = (
                np.append(part, np.tile(own, len(layer))) for part, own in zip((x_mean, x_scale), out, strict=True)
            )
        return Forest(tuple(layers), self.n_outputs)
