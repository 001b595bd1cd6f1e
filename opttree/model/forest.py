"""`Forest`: trees whose predictions are averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opttree.kernels import records
from opttree.kernels.leaves import outputs
from opttree.model import entries
from opttree.model.tree import LINKS, Tree, names_of
from opttree.tables.curves import Curves
from opttree.tables.encoding import Encoding, check_encoding
from opttree.wide import sparse

Floats = NDArray[np.float64]
MANY_ROWS, DEEP = 10_000, 500  # rows, and branches of a tree, whose way is long
TINY_SHARE = 1e-12  # of a class that no tree has seen
FORMAT, VERSION = "opttree.Forest", 1
CURVED_VERSION = 2  # version of forests of features on curves, which version 1 does not have
NEEDED = ("n_outputs", "link", "layers")


def shares(scores: Floats) -> Floats:
    """Approximate class probabilities (n, K), clipped at zero and normalised to sum to one."""
    scores = np.maximum(scores, 0.0) + TINY_SHARE
    return scores / scores.sum(axis=1, keepdims=True)


def _is_proper(tree: Tree) -> bool:
    """Whether a classification tree answers with probabilities, each of them and in sum."""
    if tree.mixture or tree.link == "softmax":
        return True
    return not tree.linear_leaves and tree.values.min() >= 0.0 and bool(np.all(abs(tree.values.sum(axis=1) - 1) < 1e-9))


def _labels(tree: Tree) -> list[Any] | None:
    """Class labels of a tree."""
    return None if tree.classes is None else tree.classes.tolist()


def _starts(value: Any) -> tuple[tuple[int, Floats], ...]:
    """``starts`` of a forest from its list in a file."""
    pairs = [entries.items(pair, "an entry of starts") for pair in entries.items(value, "starts")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("starts must hold pairs of a number of trees and outputs; got others")
    return tuple((entries.whole(count, "starts", 1), entries.numbers(start, "starts")) for count, start in pairs)


def leaves_of(trees: Sequence[Tree], X: Any) -> NDArray[np.int32]:
    """The leaf (n, T) of each row in each tree, numbered over all trees."""
    first = np.cumsum([0] + [tree.n_leaves for tree in trees])
    found = [tree.apply(X) - tree.n_branches + at for tree, at in zip(trees, first[:-1], strict=True)]
    return np.stack(found, axis=1).astype(np.int32)


def _curves(value: Any) -> Curves:
    """``curves`` of a forest from its list in a file."""
    pairs = [entries.items(pair, "an entry of curves") for pair in entries.items(value, "curves")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("curves must hold pairs of knots and what they become; got others")
    return Curves([(entries.numbers(at, "curves"), entries.numbers(to, "curves")) for at, to in pairs])


@dataclass(frozen=True)
class Forest:
    """Layers of trees whose predictions (class probabilities in classification) are averaged. Immutable.

    The inputs of a layer's trees are the features, followed by the outputs of all trees of the layers before. The
    forest predicts the mean over the trees of all layers of their first ``n_outputs`` outputs (SDTR, section III-D).

    Parameters
    ----------
    layers : tuple of tuple of Tree
        Trees of each layer, in order.
    n_outputs : int
        Outputs of the forest, K; trees may have more, which only later layers use.
    outside : tuple[ndarray of shape (n, K), ndarray of int of shape (n,)] or None, default None
        Of each training row, the mean out-of-bag prediction (NaN if every tree has seen the row) and the number of
        out-of-bag trees. Ignored by ``==``.
    link : {"identity", "softmax"}, default "identity"
        "softmax" if the mean outputs are class scores (`solvers.Boosting`).
    feature_names : tuple of str or None, default None
        The p names for texts and pictures; None: the names in ``encoding``, or ``x0..``. Ignored by ``==``.
    encoding : Encoding or None, default None
        How the p features are made of the columns of a table. Ignored by ``==``.
    starts : tuple of tuple[int, ndarray of shape (K,)] or None, default None
        Of boosted trees: for each ensemble in turn, the number of its trees and the outputs from which it starts;
        `staged` needs them. Ignored by ``==``.
    curves : Curves or None, default None
        What the features become before any tree has them, see `opttree.preprocessing.Curves`.

    Raises
    ------
    ValueError
        If a tree has the wrong number of features, too few outputs, or other classes than the first.

    See Also
    --------
    Tree : one of them
    TAOForestRegressor, BoostedTreesRegressor : what makes forests

    Examples
    --------
    >>> from opttree import TAOForestRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> forest = TAOForestRegressor(3, kind="oblique", random_state=0).fit(X, y).forest_
    >>> len(forest.trees), forest.predict(X[:2]).shape
    (3, (2,))
    """

    layers: tuple[tuple[Tree, ...], ...]
    n_outputs: int
    outside: tuple[Floats, NDArray[np.int64]] | None = field(default=None, repr=False, compare=False)
    link: str = "identity"
    feature_names: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    encoding: Encoding | None = field(default=None, repr=False, compare=False)
    starts: tuple[tuple[int, Floats], ...] | None = field(default=None, repr=False, compare=False)
    curves: Curves | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(tuple(layer) for layer in self.layers))
        if not self.layers or not all(self.layers):
            raise ValueError("layers must hold a tree each; got an empty one")
        if not isinstance(self.n_outputs, (int, np.integer)) or self.n_outputs < 1:
            raise ValueError(f"n_outputs must be an integer >= 1; got {self.n_outputs}")
        if self.classes is not None and len(self.classes) != self.n_outputs:
            raise ValueError(f"n_outputs must be the number of classes, {len(self.classes)}; got {self.n_outputs}")
        counts = None if self.starts is None else [count for count, _start in self.starts]
        if self.starts is not None and (
            sum(counts or []) != len(self.trees)
            or min(counts or [0]) < 1
            or any(np.shape(start) != (self.n_outputs,) for _count, start in self.starts)
        ):
            raise ValueError(f"starts must count the {len(self.trees)} trees and have {self.n_outputs} numbers each")
        labels = _labels(self.layers[0][0])
        for tree in self.trees:
            if (other := _labels(tree)) != labels:
                raise ValueError(
                    f"trees must have the same classes, {entries.shown(labels)}; got {entries.shown(other)}"
                )
        width = self.n_features
        check_encoding(self.encoding, width)
        if self.curves is not None and len(self.curves.knots) != width:
            raise ValueError(f"curves must be of {width} features; got {len(self.curves.knots)}")
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", tuple(map(str, self.feature_names)))
            self.names(self.feature_names)
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
        """The trees of all layers."""
        return tuple(tree for layer in self.layers for tree in layer)

    @property
    def n_features(self) -> int:
        """Features of the rows."""
        return self.layers[0][0].n_features

    @property
    def n_parameters(self) -> int:
        """Sum of the trees' parameters."""
        return sum(tree.n_parameters for tree in self.trees)

    @property
    def classes(self) -> NDArray[Any] | None:
        """(K,) class labels, or None for regression."""
        return self.layers[0][0].classes

    def flops(self, X: ArrayLike) -> float:
        """Mean floating-point operations to predict a row, as in the TAO paper's tables: the sum over the trees.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        float
            Operations per row.

        Raises
        ------
        ValueError
            For several layers.
        """
        if len(self.layers) > 1:
            raise ValueError(f"flops counts one layer of trees; this forest has {len(self.layers)}")
        return sum(tree.flops(X) for tree in self.trees)

    @cached_property
    def is_proper(self) -> bool:
        """Whether the outputs of all trees are class probabilities, so that their means are."""
        return self.link == "identity" and all(_is_proper(tree) for tree in self.trees)

    @property
    def averages_outputs(self) -> bool:
        """Whether the outputs of hard trees are averaged as they are, and not class probabilities or in layers."""
        K = self.n_outputs
        return len(self.layers) == 1 and not any(
            t.mixture or t.link != "identity" or t.n_outputs > K for t in self.trees
        )

    @cached_property
    def _stacked(self) -> tuple[NDArray[Any], records.Tree, records.Leaves] | None:
        """The first branch of each tree and the concatenated arrays of all, for the kernel; None for soft trees or
        several layers, and where a tree keeps weights sparse.
        """
        trees = self.trees
        kept = [weights for tree in trees for weights in (tree.split_weights, tree.leaf_weights)]
        if not self.averages_outputs or any(map(sparse.is_sparse, kept)):
            return None
        linear = any(tree.linear_leaves for tree in trees)

        def whole(tree: Tree, name: str) -> Floats:
            shape = tree.values.shape
            if name == "coefs":
                return tree.leaf_arrays[1] if tree.linear_leaves else np.zeros((*shape, self.n_features * linear))
            bound = getattr(tree, name)
            return np.full(shape, -np.inf if name == "lower" else np.inf) if bound is None else bound

        branches = [np.concatenate(parts) for parts in zip(*(tree.branch_arrays for tree in trees), strict=True)]
        leaves = [np.concatenate([whole(tree, name) for tree in trees]) for name in ("coefs", "lower", "upper")]
        first = np.cumsum([0, *(tree.n_branches for tree in trees)])
        values = np.concatenate([tree.values for tree in trees])
        return first, records.Tree(*branches), records.Leaves(values, *leaves)

    def _is_deep(self, n_rows: int) -> bool:
        """Whether so many rows are answered faster tree by tree, several rows at a time: by large constant trees."""
        if n_rows < MANY_ROWS or any(tree.linear_leaves for tree in self.trees):
            return False
        return sum(tree.n_branches for tree in self.trees) >= DEEP * len(self.trees)

    def outputs(self, X: Any, answer: Callable[[Tree, Floats], Floats] | None = None) -> Floats:
        """Mean outputs of the trees.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.
        answer : callable or None, default None
            Function of a tree and rows that gives the outputs of the tree; None: class probabilities or values.

        Returns
        -------
        ndarray of shape (n, K)
            Outputs.
        """
        X = sparse.as_table(X)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X must have shape (n, {self.n_features}); got {X.shape}")
        X = X if self.curves is None else self.curves.transform(X)
        if answer is None:
            if self._stacked is not None and isinstance(X, np.ndarray) and not self._is_deep(len(X)):
                return outputs.forest_outputs(X, *self._stacked) / len(self.trees)
            answer = Tree.outputs if self.classes is None or self.averages_outputs else Tree.predict_proba
        total = np.zeros((X.shape[0], self.n_outputs))
        for number, layer in enumerate(self.layers):
            answers = []  # features of the next layer
            for tree in layer:
                own = answer(tree, X)
                total += own[:, : self.n_outputs]
                if number < len(self.layers) - 1:
                    answers.append(own)
            if answers:
                X = np.hstack([X, *answers])
        return total / len(self.trees)

    def staged(self, X: Any) -> Iterator[Floats]:
        """Outputs of the first tree, of the first two trees, and so on.

        Of boosted trees: of the first tree of every ensemble, of the first two, and so on, with the start of each.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Yields
        ------
        ndarray of shape (n, K)
            Outputs.

        Raises
        ------
        ValueError
            For several layers.
        """
        if len(self.layers) > 1:
            raise ValueError(f"staged is for one layer of trees; this forest has {len(self.layers)}")
        X = sparse.as_table(X)
        X = X if self.curves is None else self.curves.transform(X)
        answer = Tree.outputs if self.classes is None or self.averages_outputs else Tree.predict_proba
        if self.starts is None:
            total = np.zeros((X.shape[0], self.n_outputs))
            for number, tree in enumerate(self.trees, 1):
                total += answer(tree, X)
                yield total / number
            return
        R, whole = len(self.starts), len(self.trees)
        total = np.tile(np.mean([start for _count, start in self.starts], axis=0), (X.shape[0], 1))
        firsts = np.cumsum([0, *(count for count, _start in self.starts)])
        for step in range(max(count for count, _start in self.starts)):
            for first, (count, start) in zip(firsts, self.starts, strict=False):
                if step < count:
                    total += (self.trees[first + step].outputs(X) - start * (whole / (R * count))) / whole
            yield total.copy()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict each row.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Values, (n, K) for several outputs; class labels (n,) of classification trees.
        """
        scores = self.outputs(X)
        if self.classes is not None:
            return self.classes[np.argmax(scores, axis=1)]
        return scores[:, 0] if self.n_outputs == 1 else scores

    def answers(self, X: ArrayLike) -> Floats:
        """Predictions as numbers: values, or class probabilities.

        Leaves fitted to class indicators under squared loss need not predict numbers that sum to one; they are
        normalised.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
            Predictions.
        """
        return self.answers_of(self.outputs(X))

    def answers_of(self, scores: Floats) -> Floats:
        """`answers` from the outputs.

        Parameters
        ----------
        scores : ndarray of shape (n, K)
            What `outputs` returned.

        Returns
        -------
        ndarray of shape (n, K)
            Predictions.
        """
        if self.classes is None or self.is_proper:
            return scores
        if self.link == "softmax":
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return shares(scores)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Class probabilities of each row.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
            Probabilities in the order of ``classes``.

        Raises
        ------
        ValueError
            For a regression forest.
        """
        if self.classes is None:
            raise ValueError("predict_proba needs classification trees; these have no classes")
        return self.answers(X)

    def names(self, feature_names: Sequence[str] | None = None) -> list[str]:
        """Names of the features, as `Tree.names`.

        Parameters
        ----------
        feature_names : sequence of str or None, default None
            The p names in place of the forest's own.

        Returns
        -------
        list of str
            The names given, else the forest's own, else ``x0..``.
        """
        given = self.feature_names if feature_names is None else feature_names
        return names_of(given, self.encoding, self.n_features)

    def with_names(self, feature_names: Sequence[str] | None, encoding: Encoding | None = None) -> Forest:
        """The same forest with other names of its features.

        Parameters
        ----------
        feature_names : sequence of str or None
            The p names, or None for none.
        encoding : Encoding or None, default None
            How the features are made of the columns of a table.

        Returns
        -------
        Forest
            The forest.
        """
        return replace(self, feature_names=None if feature_names is None else tuple(feature_names), encoding=encoding)

    def joined(self, other: Forest) -> Forest:
        """The forest with the trees of both.

        Parameters
        ----------
        other : Forest
            A forest of one layer, as this one, grown on the same training rows.

        Returns
        -------
        Forest
            The joined forest.
        """
        trees = (*self.trees, *other.trees)
        outside = None
        if self.outside is not None and other.outside is not None:
            counts = self.outside[1] + other.outside[1]
            sums = sum(np.nan_to_num(mean) * number[:, None] for mean, number in (self.outside, other.outside))
            with np.errstate(invalid="ignore"):
                outside = sums / counts[:, None], counts
        return Forest((trees,), self.n_outputs, outside)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and scalars that `json` can write; `from_dict` reads them back exactly, without ``outside``."""
        layers = [[tree.to_dict() for tree in layer] for layer in self.layers]
        out = {"format": FORMAT, "version": VERSION, "n_outputs": int(self.n_outputs)}
        out |= {"link": self.link, "layers": layers}
        if self.feature_names is not None:
            out["feature_names"] = list(self.feature_names)
        if self.encoding is not None:
            out["encoding"] = self.encoding.to_dict()
        if self.starts is not None:
            out["starts"] = [[count, start.tolist()] for count, start in self.starts]
        if self.curves is not None:
            out |= {"version": CURVED_VERSION, "curves": self.curves.to_list()}
        return out

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Forest:
        """Forest from its dictionary.

        Parameters
        ----------
        data : mapping
            What `to_dict` returned.

        Returns
        -------
        Forest
            The forest.

        Raises
        ------
        ValueError
            For another format or version, or damaged content.
        """
        if data.get("format") != FORMAT or data.get("version") not in (VERSION, CURVED_VERSION):
            raise ValueError(
                f"format must be {FORMAT!r} of version {VERSION} or {CURVED_VERSION}; "
                f"got {entries.shown(data.get('format'))}"
            )
        missing = [name for name in NEEDED if name not in data]
        if missing:
            raise ValueError(f"a forest needs the entries {missing}; the data lack them")
        link = entries.text(data["link"], "link")
        if link not in LINKS:
            raise ValueError(f"link must be one of {sorted(LINKS)}; got {entries.shown(link)}")
        there = {name: value for name, value in data.items() if value is not None}
        layers = [entries.items(layer, "a layer") for layer in entries.items(data["layers"], "layers")]
        return Forest(
            tuple(tuple(Tree.from_dict(entries.entries(tree, "a tree")) for tree in layer) for layer in layers),
            entries.whole(data["n_outputs"], "n_outputs", 1),
            link=link,
            feature_names=entries.texts(there["feature_names"], "feature_names") if "feature_names" in there else None,
            encoding=Encoding.from_dict(there["encoding"]) if "encoding" in there else None,
            starts=_starts(there["starts"]) if "starts" in there else None,
            curves=_curves(there["curves"]) if "curves" in there else None,
        )

    def with_spread(self, spread: Floats) -> Forest:
        """The same forest with the standard deviations of its features stored in the first layer.

        Parameters
        ----------
        spread : ndarray of shape (p,)
            Standard deviations of the features.

        Returns
        -------
        Forest
            The forest.
        """
        first = tuple(tree.with_spread(spread) for tree in self.layers[0])
        return replace(self, layers=(first, *self.layers[1:]))

    def unscale(self, x_mean: Floats, x_scale: Floats, y_mean: ArrayLike = 0.0, y_scale: ArrayLike = 1.0) -> Forest:
        """The forest on raw data, if this one was trained on ``(x - x_mean) / x_scale`` and likewise for y.

        Parameters
        ----------
        x_mean, x_scale : ndarray of shape (p,)
            Origins and units of the features.
        y_mean, y_scale : array-like of shape (K,), default 0.0
            Origins and units of the outputs; numbers for all alike.

        Returns
        -------
        Forest
            The forest on raw features and outputs.
        """
        shift, unit = (np.broadcast_to(part, self.n_outputs).astype(np.float64) for part in (y_mean, y_scale))
        layers = []
        for layer in self.layers:
            extra = layer[0].n_outputs - self.n_outputs
            out = np.append(shift, np.zeros(extra)), np.append(unit, np.ones(extra))
            layers.append(tuple(tree.unscale(x_mean, x_scale, *out) for tree in layer))
            x_mean, x_scale = (
                np.append(part, np.tile(new, len(layer))) for part, new in zip((x_mean, x_scale), out, strict=True)
            )
        outside = None if self.outside is None else (self.outside[0] * unit + shift, self.outside[1])
        starts = self.starts
        if starts is not None:
            starts = tuple((count, start * unit + shift) for count, start in starts)
        return replace(self, layers=tuple(layers), outside=outside, starts=starts)
