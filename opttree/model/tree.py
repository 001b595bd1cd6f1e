"""`Tree`: the decision-tree model that solvers return."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace as changed
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opttree.kernels import records, routing
from opttree.kernels.losses import codes
from opttree.kernels.passes.thresholds import between
from opttree.kernels.smooth import subtree
from opttree.kernels.wide import sparse as routes
from opttree.model import dictionary
from opttree.model.html import picture
from opttree.model.late import late
from opttree.model.structure import breadth_first, check_children, grafted, kept, links, read_only, writable
from opttree.model.text import tree_text
from opttree.tables.encoding import Encoding, check_encoding
from opttree.wide import leaves as wide, sparse

PACKED, MANY, DENSITY = 2**18, 1000, 0.1  # weights and features from which on splits are kept sparse; share not zero
LINKS = {"identity": codes.IDENTITY, "softmax": codes.SOFTMAX}
CANCELLED = 16.0 * float(np.finfo(np.float64).eps)  # of the terms of a sum: what rounding leaves of a sum of 0

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree with oblique or axis-aligned splits and constant or linear leaves. Immutable.

    Branch nodes are numbered 0..B-1 and leaves B..2B, each breadth-first (heap order in a complete tree). Row x goes
    left at branch t where ``A[t] . x <= b[t]`` and gets the prediction of the leaf it reaches. A soft tree also stores
    the scale of the gates it was trained with: x goes left with probability ``1 / (1 + exp(-gate (b[t] - A[t] . x)))``;
    as a ``mixture`` it predicts the probability-weighted mean over all leaves (SRT paper, eq. 4).

    Parameters
    ----------
    children : ndarray of int of shape (B, 2)
        The left and the right child node of each branch.
    A : ndarray of shape (B, p)
        Weights of the splits. A row with one nonzero entry is an axis-aligned split. Many weights of which few are not
        zero are kept sparse, see `split_weights`; ``A`` is then made dense whenever it is read. SciPy's sparse rows are
        taken, too.
    b : ndarray of shape (B,)
        Thresholds of the splits.
    values : ndarray of shape (B + 1, K)
        Constant term of each leaf: K outputs, or K class scores.
    coefs : ndarray of shape (B + 1, K, p) or None, default None
        Linear terms of the leaves; None, or an array of shape (B + 1, K, 0), means constant leaves. Many of them, few
        of which are not zero, are kept sparse, see `leaf_weights`, and made dense whenever ``coefs`` is read. SciPy's
        sparse rows of shape ((B + 1) K, p) are taken, too.
    lower, upper : ndarray of shape (B + 1, K) or None, default None
        Bounds to which the output of a linear leaf is clipped.
    classes : ndarray of shape (K,) or None, default None
        Class labels of a classification tree; None for regression.
    link : {"identity", "softmax"}, default "identity"
        How class scores become probabilities; "identity": they are probabilities.
    share : ndarray of shape (2 B + 1,) or None, default None
        Share of the training weight that reaches each node. Ignored by ``==``.
    gate : float or None, default None
        Scale of the gates, > 0; None for a hard tree.
    mixture : bool, default False
        Whether `predict`, `outputs` and `predict_proba` mix all leaves.
    spread : ndarray of shape (p,) or None, default None
        Standard deviation of each feature in training. Plots and `opttree.interpret` compare features by weight times
        spread. Ignored by ``==``.
    feature_names : tuple of str or None, default None
        The p names for texts and pictures; None: the names in ``encoding``, or ``x0..``. Ignored by ``==``.
    encoding : Encoding or None, default None
        How the p features are made of the columns of a table. Ignored by ``==``.

    See Also
    --------
    Forest : a sum of trees
    save, load : files
    plotting.plot_tree : a picture

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import Tree
    >>> children, values = np.array([[1, 2]]), np.array([[1.0], [3.0]])
    >>> tree = Tree(children, A=np.array([[1.0, 0.0]]), b=np.array([0.5]), values=values)
    >>> tree.predict(np.array([[0.2, 9.0], [0.7, 9.0]])).ravel().tolist()
    [1.0, 3.0]
    >>> print(tree.to_text())
    if x0 <= 0.5:
        1
    else:  # x0 > 0.5
        3
    """

    children: NDArray[np.int32]
    A: Floats
    b: Floats
    values: Floats
    coefs: Floats | None = field(default_factory=lambda: None)  # no default of the class, see `__getattr__`
    lower: Floats | None = None
    upper: Floats | None = None
    classes: NDArray[Any] | None = None
    link: str = "identity"
    share: Floats | None = field(default=None, repr=False)
    gate: float | None = None
    mixture: bool = False
    spread: Floats | None = field(default=None, repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    encoding: Encoding | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        n_branches = np.shape(self.b)[0]
        shapes: dict[str, tuple[int, ...]] = {
            "children": (n_branches, 2),
            "A": (n_branches, np.shape(self.A)[-1]),
            "b": (n_branches,),
            "values": (n_branches + 1, np.shape(self.values)[-1]),
        }
        n_outputs = shapes["values"][1]
        if self.__dict__["coefs"] is None:
            object.__setattr__(self, "coefs", np.zeros((n_branches + 1, n_outputs, 0)))
        width = np.shape(self.__dict__["coefs"])[-1]
        if width not in (0, shapes["A"][1]):
            raise ValueError(f"coefs must have p = {shapes['A'][1]} or 0 terms per output; got {width}")
        shapes["coefs"] = (n_branches + 1, n_outputs, width)
        shapes["lower"] = shapes["upper"] = (n_branches + 1, n_outputs)
        shapes["classes"] = (n_outputs,)
        shapes["share"] = (2 * n_branches + 1,)
        shapes["spread"] = (shapes["A"][1],)
        self._pack("A", shapes["A"], shapes["A"][1] >= MANY)
        self._pack("coefs", shapes["coefs"], n_outputs * width >= wide.WORK)
        for name, shape in shapes.items():
            value = self.__dict__.get(name)
            if value is None:
                continue
            dtype = {"children": np.int32, "classes": None}.get(name, np.float64)
            array = np.array(value, dtype=dtype, order="C")
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}; got {array.shape}")
            object.__setattr__(self, name, read_only(array))
        if self.feature_names is not None:
            names = tuple(str(name) for name in self.feature_names)
            if len(names) != shapes["A"][1]:
                raise ValueError(f"feature_names must have p = {shapes['A'][1]} entries; got {len(names)}")
            object.__setattr__(self, "feature_names", names)
        check_encoding(self.encoding, shapes["A"][1])
        if self.link not in LINKS:
            raise ValueError(f"link must be one of {sorted(LINKS)}; got {self.link!r}")
        if (self.lower is None) != (self.upper is None):
            raise ValueError("lower and upper must be given together; got one of them")
        if self.gate is not None and not (np.isfinite(self.gate) and self.gate > 0.0):
            raise ValueError(f"gate must be finite and > 0, or None; got {self.gate}")
        if self.mixture and self.gate is None:
            raise ValueError("mixture needs the scale of the gates; got gate=None")
        check_children(self.children)

    def _pack(self, name: str, shape: tuple[int, ...], wide_enough: bool) -> None:
        """Keep the weights ``name`` as sparse rows where they are many and few of them are not zero."""
        weights, flat = self.__dict__[name], (math.prod(shape[:-1]), shape[-1])
        given, size = sparse.is_given_sparse(weights), math.prod(shape)
        many = size >= PACKED and wide_enough
        if not given and many:
            weights = np.asarray(weights, np.float64)
        if given or (many and weights.shape == shape and np.count_nonzero(weights) <= DENSITY * size):
            rows = sparse.as_rows(weights.copy() if given else sparse.packed(weights.reshape(flat)), name)
            if rows.shape != flat:
                raise ValueError(f"{name} must have shape {flat}; got {rows.shape}")
            if many:
                self.__dict__["_packed_" + name] = rows
                del self.__dict__[name]
            else:
                object.__setattr__(self, name, rows.toarray().reshape(shape))

    if not TYPE_CHECKING:  # where unknown attributes are to be found

        def __getattr__(self, name: str) -> Any:
            """``A`` and ``coefs`` where they are kept sparse; nothing else is not found in the usual way."""
            if name in ("A", "coefs") and (rows := self.__dict__.get("_packed_" + name)) is not None:
                shape = rows.shape if name == "A" else (*self.values.shape, rows.shape[1])
                dense = np.empty(shape, rows.dtype)  # not a view, of which `writable` would take the base
                rows.toarray(out=dense.reshape(rows.shape))
                return read_only(dense)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def split_weights(self) -> Any:
        """``A`` as it is kept: an array, or a SciPy array of compressed rows; do not modify."""
        return self.__dict__.get("_packed_A", self.__dict__.get("A"))

    @property
    def leaf_weights(self) -> Any:
        """``coefs`` as they are kept: an array, or a SciPy array of compressed rows, ((B + 1) K, p). Do not modify."""
        return self.__dict__.get("_packed_coefs", self.__dict__.get("coefs"))

    @staticmethod
    def constant(value: ArrayLike, n_features: int, classes: ArrayLike | None = None) -> Tree:
        """One-leaf tree.

        Parameters
        ----------
        value : array-like of shape (K,)
            What it predicts everywhere; a number for one output.
        n_features : int
            Number of features, p.
        classes : array-like of shape (K,) or None, default None
            Class labels of a classification tree.

        Returns
        -------
        Tree
            The tree.
        """
        return Tree(
            children=np.zeros((0, 2), np.int32),
            A=np.zeros((0, n_features)),
            b=np.zeros(0),
            values=np.atleast_2d(np.asarray(value, np.float64)),
            classes=None if classes is None else np.asarray(classes),
        )

    @staticmethod
    def complete(A: Floats, b: Floats, n_outputs: int, classes: NDArray[Any] | None = None) -> Tree:
        """Complete tree with zero leaves, from its splits in heap order.

        Parameters
        ----------
        A : ndarray of shape (2^D - 1, p)
            Weights of the splits.
        b : ndarray of shape (2^D - 1,)
            Thresholds of the splits.
        n_outputs : int
            Number of outputs or classes, K.
        classes : ndarray of shape (K,) or None, default None
            Class labels of a classification tree.

        Returns
        -------
        Tree
            The tree, of depth D.
        """
        n_branches = b.size
        t = np.arange(n_branches)
        return Tree(
            children=np.stack([2 * t + 1, 2 * t + 2], axis=1),
            A=A,
            b=b,
            values=np.zeros((n_branches + 1, n_outputs)),
            classes=classes,
        )

    @staticmethod
    def from_links(
        left: NDArray[np.integer],
        right: NDArray[np.integer],
        A: Floats,
        b: Floats,
        values: Floats,
        classes: NDArray[Any] | None = None,
    ) -> Tree:
        """Tree with constant leaves, from nodes in any numbering whose root is 0.

        Parameters
        ----------
        left, right : ndarray of int of shape (nodes,)
            Children of each node; -1 at leaves.
        A : ndarray of shape (nodes, p)
            Weights of the splits, read at branches.
        b : ndarray of shape (nodes,)
            Thresholds of the splits, read at branches.
        values : ndarray of shape (nodes, K)
            Outputs or class scores, read at leaves.
        classes : ndarray of shape (K,) or None, default None
            Class labels of a classification tree.

        Returns
        -------
        Tree
            The tree, its nodes numbered breadth-first.
        """
        branches, leaves, children = breadth_first(0, left, right)
        return Tree(children=children, A=A[branches], b=b[branches], values=values[leaves], classes=classes)

    @staticmethod
    def from_sklearn(model: Any) -> Tree:
        """The `Tree` of a fitted scikit-learn ``DecisionTreeRegressor`` or ``DecisionTreeClassifier``.

        scikit-learn routes float32 inputs: a value within float32 rounding of a threshold may take the other side.

        Parameters
        ----------
        model : DecisionTreeRegressor or DecisionTreeClassifier
            A fitted tree of scikit-learn.

        Returns
        -------
        Tree
            The same tree.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> theirs = DecisionTreeRegressor(max_depth=2).fit(X, y)
        >>> bool(abs(opttree.Tree.from_sklearn(theirs).predict(X) - theirs.predict(X)).max() < 1e-9)
        True
        """
        from scipy.sparse import csr_array

        nodes = model.tree_
        branch = nodes.children_left >= 0
        start, shape = np.concatenate([[0], np.cumsum(branch)]), (nodes.node_count, nodes.n_features)
        A = csr_array((np.ones(start[-1]), nodes.feature[branch], start), shape=shape)
        classes = getattr(model, "classes_", None)
        values = nodes.value[:, 0, :] if classes is not None else nodes.value[:, :, 0]
        return Tree.from_links(nodes.children_left, nodes.children_right, A, nodes.threshold, values, classes)

    # ---- shape ----------------------------------------------------------------------------------------------------

    @property
    def n_branches(self) -> int:
        """Number of branch nodes, B."""
        return int(self.b.size)

    @property
    def n_leaves(self) -> int:
        """Number of leaves, B + 1."""
        return self.n_branches + 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes, 2 B + 1."""
        return 2 * self.n_branches + 1

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.split_weights.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs or classes, K."""
        return int(self.values.shape[1])

    @property
    def linear_leaves(self) -> bool:
        """Whether leaves hold linear predictors."""
        return np.shape(self.leaf_weights)[-1] > 0

    @cached_property
    def parents(self) -> NDArray[np.int64]:
        """(2 B + 1,) branch above each node; -1 of the root."""
        parent = np.full(self.n_nodes, -1)
        parent[self.children.ravel()] = np.repeat(np.arange(self.n_branches), 2)
        return read_only(parent)

    @cached_property
    def node_depth(self) -> NDArray[np.int64]:
        """(2 B + 1,) depth of each node; the root is at 0."""
        depth = np.zeros(self.n_nodes, np.int64)
        level, below = self.children[:1].ravel(), 1
        while level.size:
            depth[level] = below
            level, below = self.children[level[level < self.n_branches]].ravel(), below + 1
        return read_only(depth)

    @property
    def depth(self) -> int:
        """Largest depth of a leaf; 0 for a one-leaf tree."""
        return int(self.node_depth.max())

    @cached_property
    def feature(self) -> NDArray[np.int32]:
        """(B,) the only feature of each axis-aligned split, -1 for oblique ones."""
        packed = self.__dict__.get("_packed_A")
        if packed is None:
            return read_only(routing.single_features(self.A))
        feature, single = np.full(self.n_branches, -1, np.int32), self._nonzeros == 1
        feature[single] = packed.indices[packed.indptr[:-1][single]]
        return read_only(feature)

    @property
    def _nonzeros(self) -> NDArray[np.intp]:
        """(B,) weights of each split that are not zero."""
        packed = self.__dict__.get("_packed_A")
        return np.count_nonzero(self.A, axis=1) if packed is None else np.diff(packed.indptr)

    @cached_property
    def _of_features(self) -> Floats:
        """(B,) weights of the features that axis-aligned splits test."""
        if (packed := self.__dict__.get("_packed_A")) is not None:
            return sparse.entries(packed, np.arange(self.n_branches), np.maximum(self.feature, 0))
        found: Floats = self.A[np.arange(self.n_branches), np.maximum(self.feature, 0)]
        return found

    @property
    def is_axis_aligned(self) -> bool:
        """Whether every split tests a single feature."""
        return bool(np.all(self.feature >= 0))

    @cached_property
    def n_parameters(self) -> int:
        """Number of parameters as the tables of the TAO paper count them: nonzero weights and the constants.

        ``nnz(A[t]) + 1`` per branch (2 for an axis-aligned one), ``K + nnz(coefs)`` per leaf.
        """
        return int(self._nonzeros.sum() + self.n_branches + self.values.size + np.sum(self._leaf_terms))

    @property
    def _leaf_terms(self) -> NDArray[np.int64]:
        """Weights of each leaf that are not zero (B + 1,)."""
        kept = self.leaf_weights
        if sparse.is_sparse(kept):
            return np.diff(kept.indptr).reshape(self.values.shape).sum(axis=1).astype(np.int64)
        return np.count_nonzero(kept, axis=(1, 2))

    @property
    def _coefs(self) -> Floats:
        coefs = self.coefs
        assert coefs is not None  # set by __post_init__
        return coefs

    # ---- using it -------------------------------------------------------------------------------------------------

    def _check(self, X: Any) -> Any:
        X = sparse.as_table(X)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X must have shape (n, {self.n_features}); got {X.shape}")
        return X

    @property
    def branch_arrays(self) -> records.Tree:
        """``children, A, b, feature`` as the kernels take them; do not modify. Made anew where ``A`` is kept sparse."""
        return self._branch_arrays if "A" in self.__dict__ else self._as_record()

    @cached_property
    def _branch_arrays(self) -> records.Tree:
        return self._as_record()

    def _as_record(self) -> records.Tree:
        return records.Tree(writable(self.children), writable(self.A), writable(self.b), writable(self.feature))

    @property
    def leaf_arrays(self) -> records.Leaves:
        """``values, coefs, lower, upper`` as the kernels take them (empty bounds for none); do not modify.

        They are made anew where ``coefs`` are kept sparse.
        """
        kept = self.kept_leaves
        return kept._replace(coefs=writable(self._coefs)) if sparse.is_sparse(self.leaf_weights) else kept

    @cached_property
    def kept_leaves(self) -> records.Leaves:
        """As `leaf_arrays`, with weights that are kept sparse as they are, for `opttree.wide.leaves` alone."""
        bounds = (np.zeros((0, 0)) if v is None else writable(v) for v in (self.lower, self.upper))
        kept = self.leaf_weights
        coefs = sparse.Stacked(kept, self.values.shape) if sparse.is_sparse(kept) else writable(kept)
        return records.Leaves(writable(self.values), coefs, *bounds)

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Leaf that each row reaches.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of int of shape (n,)
            Leaf nodes, numbered B..2B.
        """
        return self._leaf_of(self._check(X))

    def _leaf_of(self, X: Any) -> NDArray[np.int32]:
        packed, by_entries = self.__dict__.get("_packed_A"), sparse.is_sparse(X)
        if packed is None or not (by_entries or self.is_axis_aligned):
            found: NDArray[np.int32] = routing.route(X, self.branch_arrays)
            return found
        weights = packed.data, packed.indices, packed.indptr
        return routes.route_packed(X, weights, writable(self.children), writable(self.b))

    def decision_path(self, X: ArrayLike) -> Any:
        """Nodes on the path of each row, the leaf included.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n, 2 B + 1)
            1 for each node on the path of a row.
        """
        from scipy.sparse import csr_matrix

        leaf = self.apply(X)
        parent = self.parents
        paths = []
        for node in range(self.n_branches, self.n_nodes):
            path = [node]
            while parent[path[-1]] >= 0:
                path.append(int(parent[path[-1]]))
            paths.append(np.array(path[::-1]))
        length = np.array([p.size for p in paths])[leaf - self.n_branches]
        indices = np.concatenate([paths[v - self.n_branches] for v in leaf]) if leaf.size else np.zeros(0, int)
        indptr = np.concatenate([[0], np.cumsum(length)])
        return csr_matrix((np.ones(indices.size, np.int64), indices, indptr), shape=(leaf.size, self.n_nodes))

    def outputs(self, X: Any, leaf: NDArray[np.int32] | None = None) -> Floats:
        """Outputs for each row.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.
        leaf : ndarray of int of shape (n,), optional
            What `apply` says of them, where it is known.

        Returns
        -------
        ndarray of shape (n, K)
            Values or class scores of the leaf of each row; values or probabilities of a mixture.
        """
        X = self._check(X)
        if self.mixture:
            return self._mixed(X)
        leaf = self._leaf_of(X) if leaf is None else leaf
        return wide.outputs_at(X, leaf, self.kept_leaves)

    def leaf_proba(self, X: Any) -> Floats:
        """Probability of each leaf under the gates.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n, B + 1)
            Probabilities; each row sums to 1.

        Raises
        ------
        ValueError
            For a hard tree.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> tree = opttree.ORRTRegressor(max_depth=2, random_state=0).fit(X, y).tree_
        >>> tree.leaf_proba(X).sum(axis=1).round(9).min()
        np.float64(1.0)
        """
        if self.gate is None:
            raise ValueError("leaf_proba needs a soft tree; this one has no gates")
        X = self._check(X)
        if sparse.is_sparse(X):
            raise ValueError(f"X must be dense for a soft tree; got a sparse one of shape {X.shape}: give it toarray()")
        return subtree.leaf_shares(X, *self.branch_arrays[:3], float(self.gate))

    def likeliest(self, X: ArrayLike) -> Floats:
        """Prediction of the most probable leaf of each row (SDTR, section III-A).

        This may differ from the leaf of `apply`, which follows the more probable branch at each node.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
            Values or probabilities.

        Raises
        ------
        ValueError
            For a hard tree.
        """
        leaf = (np.argmax(self.leaf_proba(X), axis=1) + self.n_branches).astype(np.int32)
        return self._probabilities(wide.outputs_at(self._check(X), leaf, self.kept_leaves))

    def _mixed(self, X: Floats) -> Floats:
        share = self.leaf_proba(X)
        if not self.linear_leaves:
            return np.einsum("il,lk->ik", share, self._probabilities(self.values))
        mixed: Floats = subtree.mixture(X, share, self.leaf_arrays, self.link == "softmax")
        return mixed

    def _probabilities(self, scores: Floats) -> Floats:
        if self.link == "identity":
            return scores
        from scipy.special import softmax

        return softmax(scores, axis=1)

    @property
    def as_mixture(self) -> Tree:
        """The soft tree that predicts with all leaves, weighted by their probabilities."""
        return replace(self, mixture=True)

    @property
    def as_hard(self) -> Tree:
        """The tree that predicts with one leaf per row."""
        return replace(self, mixture=False)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict each row.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Values, (n, K) for several outputs; class labels (n,) of a classification tree.
        """
        scores = self.outputs(X)
        if self.classes is not None:
            return self.classes[np.argmax(scores, axis=1)]
        return scores[:, 0] if self.n_outputs == 1 else scores

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
            For a regression tree.
        """
        if self.classes is None:
            raise ValueError("predict_proba needs a classification tree; this one has no classes")
        scores = self.outputs(X)
        return scores if self.mixture else self._probabilities(scores)

    def flops(self, X: ArrayLike) -> float:
        """Mean floating-point operations to predict a row, counted as in the TAO paper's tables.

        One comparison per axis-aligned split; ``2 nnz`` (products, sums and the comparison) per oblique one;
        ``2 nnz(coefs)`` at a linear leaf. For a mixture, all nodes count; exponentials are not counted.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        float
            Operations per row.
        """
        nonzero = self._nonzeros
        if self.mixture:
            return float(2 * nonzero.sum() + 2 * self._leaf_terms.sum() + 2 * self.values.size)
        cost = np.zeros(self.n_nodes)
        for t in range(self.n_branches):
            cost[self.children[t]] = cost[t] + (1 if self.feature[t] >= 0 else 2 * nonzero[t])
        cost[self.n_branches :] += 2 * self._leaf_terms
        return float(cost[self.apply(X)].mean())

    def node_share(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Floats:
        """Share of the rows, or of their weight, that passes each node.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.
        sample_weight : array-like of shape (n,) or None, default None
            Weights of the rows; None: all equal.

        Returns
        -------
        ndarray of shape (2 B + 1,)
            Shares; the root has 1.
        """
        leaf = self.apply(X)
        weight = np.ones(leaf.size) if sample_weight is None else np.asarray(sample_weight, np.float64)
        share = np.bincount(leaf, weights=weight, minlength=self.n_nodes) / weight.sum()
        for t in range(self.n_branches - 1, -1, -1):
            share[t] = share[self.children[t]].sum()
        return share

    # ---- new trees from this one ----------------------------------------------------------------------------------

    def prune_dead(self, X: ArrayLike) -> Tree:
        """The same tree on X without the branches that send all rows of X one way (TAO paper, section 3.2).

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        Tree
            The smaller tree.
        """
        counts = np.bincount(self.apply(X), minlength=self.n_nodes)
        return self.keep(counts[self.n_branches :] > 0)

    def keep(self, leaf_mask: NDArray[np.bool_]) -> Tree:
        """Prune the tree to some of its leaves; a branch with one remaining child is replaced by this child.

        Nodes are renumbered breadth-first.

        Parameters
        ----------
        leaf_mask : ndarray of bool of shape (B + 1,)
            True for each leaf that stays, at least one.

        Returns
        -------
        Tree
            The pruned tree.

        Raises
        ------
        ValueError
            If no leaf stays.
        """
        return self._of(*breadth_first(*kept(self.children, leaf_mask)))

    def _of(self, branches: NDArray[np.intp], leaves: NDArray[np.intp], children: NDArray[np.int32]) -> Tree:
        """The tree of some of the nodes, see `breadth_first`."""
        rows = leaves - self.n_branches
        return replace(
            self,
            children=children,
            A=self.split_weights[branches],
            b=self.b[branches],
            **{name: value[rows] for name, value in self._leaf_fields().items()},
            share=None if self.share is None else self.share[np.concatenate([branches, leaves])],
        )

    def subtree(self, node: int) -> Tree:
        """Subtree below a node.

        Parameters
        ----------
        node : int
            Number of the node that becomes the root.

        Returns
        -------
        Tree
            The subtree.
        """
        return replace(self._of(*breadth_first(node, *links(self.children))), share=None)

    def graft(self, subtrees: Mapping[int, Tree]) -> Tree:
        """Replace the subtrees at some nodes.

        Parameters
        ----------
        subtrees : mapping of int to Tree
            New subtrees by the number of their node, none above another, with leaves of this tree's form.

        Returns
        -------
        Tree
            The new tree.
        """
        trees = [self, *subtrees.values()]
        branches, leaves, children = grafted([tree.children for tree in trees], list(subtrees))
        stacked: dict[str, Any] = {
            name: np.concatenate([t._leaf_fields()[name] for t in trees]) for name in self._leaf_fields()
        }
        return replace(
            self,
            children=children,
            A=np.concatenate([tree.A for tree in trees])[branches],
            b=np.concatenate([tree.b for tree in trees])[branches],
            share=None,
            **{name: value[leaves] for name, value in stacked.items()},
        )

    def _leaf_fields(self) -> dict[str, Any]:
        """The arrays with one row per leaf."""
        fields = {"values": self.values, "coefs": self._coefs, "lower": self.lower, "upper": self.upper}
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def canonical(self) -> Tree:
        """The same tree with every axis-aligned split in the form "feature <= threshold": "-x <= -b" is flipped.

        Rows that lie exactly on such a threshold change sides; solvers put thresholds between data points.
        """
        flipped = (self.feature >= 0) & (self._of_features < 0.0)
        sign = np.where(flipped, -1.0, 1.0)
        children = np.where(flipped[:, None], self.children[:, ::-1], self.children)
        turned = replace(self, children=children, A=sparse.rows_times(self.split_weights, sign), b=self.b * sign)
        return turned.keep(np.ones(self.n_leaves, bool))

    def routing(self, X: Floats, leaf: NDArray[np.integer]) -> Tree:
        """`canonical`, of axis-aligned splits, with thresholds that send given rows to given leaves.

        Only those thresholds are moved by which rounding would send rows elsewhere.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Rows.
        leaf : ndarray of int of shape (n,)
            Leaf node of each row in this tree.

        Returns
        -------
        Tree
            The tree.
        """
        number = self.branches_only.canonical.values[:, 0]
        new = np.empty(self.n_leaves, np.int32)
        new[number.astype(np.intp)] = np.arange(self.n_branches, self.n_nodes)
        tree, goal = self.canonical, new[leaf - self.n_branches]
        if np.array_equal(tree.apply(X), goal):
            return tree
        parent = np.zeros(self.n_nodes, np.intp)
        parent[tree.children] = np.arange(self.n_branches)[:, None]
        low, high = np.full(self.n_branches, -np.inf), np.full(self.n_branches, np.inf)
        rows, node = np.arange(X.shape[0]), goal
        while (
            inside := node > 0
        ).any():  # from the leaves up, the largest value on the left and the least on the right
            rows, node = rows[inside], node[inside]
            up = parent[node]
            x, left = sparse.entries(X, rows, tree.feature[up]), tree.children[up, 0] == node
            np.maximum.at(low, up[left], x[left])
            np.minimum.at(high, up[~left], x[~left])
            node = up
        wrong = (low < high) & ~((low <= tree.b) & (tree.b < high))
        b = np.where(np.isneginf(low), np.nextafter(high, low), np.where(np.isposinf(high), low, between(low, high)))
        return replace(tree, b=np.where(wrong, b, tree.b))

    @property
    def branches_only(self) -> Tree:
        """The same splits over leaves that hold their own number, 0 to B."""
        return Tree(self.children, self.split_weights, self.b, np.arange(self.n_leaves, dtype=np.float64)[:, None])

    def with_share(self, share: Floats) -> Tree:
        """The same tree with another ``share``.

        Parameters
        ----------
        share : ndarray of shape (2 B + 1,)
            Share of the training weight at each node.

        Returns
        -------
        Tree
            The tree.
        """
        return replace(self, share=share)

    def with_spread(self, spread: Floats) -> Tree:
        """The same tree with another ``spread``.

        Parameters
        ----------
        spread : ndarray of shape (p,)
            Standard deviations of the features.

        Returns
        -------
        Tree
            The tree.
        """
        return replace(self, spread=spread)

    def with_names(self, feature_names: Sequence[str] | None, encoding: Encoding | None = None) -> Tree:
        """The same tree with other names of its features.

        Parameters
        ----------
        feature_names : sequence of str or None
            The p names, or None for none.
        encoding : Encoding or None, default None
            How the features are made of the columns of a table.

        Returns
        -------
        Tree
            The tree.
        """
        return replace(self, feature_names=None if feature_names is None else tuple(feature_names), encoding=encoding)

    def unscale(self, x_mean: Floats, x_scale: Floats, y_mean: ArrayLike = 0.0, y_scale: ArrayLike = 1.0) -> Tree:
        """The tree on raw data, if this one was trained on ``(x - x_mean) / x_scale`` and likewise for y.

        Axis-aligned splits get weight 1, except in a soft tree, whose weights are the steepness of the gates.

        Parameters
        ----------
        x_mean, x_scale : ndarray of shape (p,)
            Origins and units of the features.
        y_mean, y_scale : array-like of shape (K,), default 0.0
            Origins and units of the outputs; numbers for all alike.

        Returns
        -------
        Tree
            The tree on raw features and outputs.
        """
        y_mean, y_scale = np.asarray(y_mean, np.float64), np.asarray(y_scale, np.float64)
        A = sparse.columns_times(self.split_weights, 1.0 / np.broadcast_to(x_scale, self.n_features))
        b = self.b + A @ np.broadcast_to(x_mean, self.n_features)
        if self.gate is None:
            single = self.feature >= 0
            weight = np.ones(self.n_branches)
            weight[single] = np.abs(
                self._of_features[single] / np.broadcast_to(x_scale, self.n_features)[self.feature[single]]
            )
            A, b = sparse.rows_times(A, 1.0 / weight), b / weight
        coefs = self._coefs
        values, terms = self.values * y_scale + y_mean, np.abs(y_mean)
        if self.linear_leaves:
            coefs = coefs * np.reshape(y_scale, (-1, 1)) / x_scale
            moved = coefs @ x_mean
            values, terms = values - moved, terms + np.abs(moved)
        values = np.where(np.abs(values) <= CANCELLED * terms, 0.0, values)
        bounds = [None if v is None else v * y_scale + y_mean for v in (self.lower, self.upper)]
        bounds = [None if v is None else np.where(np.abs(v) <= CANCELLED * np.abs(y_mean), 0.0, v) for v in bounds]
        spread = None if self.spread is None else self.spread * np.abs(x_scale)
        return replace(self, A=A, b=b, values=values, coefs=coefs, lower=bounds[0], upper=bounds[1], spread=spread)

    def scale(self, x_mean: Floats, x_scale: Floats, y_mean: ArrayLike = 0.0, y_scale: ArrayLike = 1.0) -> Tree:
        """The inverse of `unscale`: the tree on ``(x - x_mean) / x_scale`` and likewise for y, of one on raw data.

        Parameters
        ----------
        x_mean, x_scale : ndarray of shape (p,)
            Origins and units of the features.
        y_mean, y_scale : array-like of shape (K,), default 0.0
            Origins and units of the outputs; numbers for all alike.

        Returns
        -------
        Tree
            The tree on scaled features and outputs.
        """
        y_mean, y_scale = np.asarray(y_mean, np.float64), np.asarray(y_scale, np.float64)
        return self.unscale(-x_mean / x_scale, 1.0 / x_scale, -y_mean / y_scale, 1.0 / y_scale)

    # ---- in and out -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and scalars that `json` can write; `from_dict` reads them back exactly."""
        return dictionary.to_dict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Tree:
        """Tree from its dictionary.

        Parameters
        ----------
        data : mapping
            What `to_dict` returned.

        Returns
        -------
        Tree
            The tree.

        Raises
        ------
        ValueError
            For another format or version, or damaged content.
        """
        return Tree(**dictionary.from_dict(data))

    def to_text(
        self, feature_names: Sequence[str] | None = None, digits: int = 4, most_terms: int | None = None
    ) -> str:
        """The tree as indented text: splits as inequalities, leaves as constants or equations.

        Splits on a feature of a table say what they mean for its column, unless other names are given.

        Parameters
        ----------
        feature_names : sequence of str or None, default None
            The p names in place of the tree's own.
        digits : int, default 4
            Significant digits of numbers; thresholds have more where these are needed.
        most_terms : int or None, default None
            Terms of a split or of a linear leaf that are shown, by their weight times ``spread``; None: all.

        Returns
        -------
        str
            Lines of text.
        """
        return tree_text(self, self.names(feature_names), digits, most_terms, in_words=feature_names is None)

    def to_html(self, **options: Any) -> str:
        """Page of HTML that shows the tree in a browser.

        Parameters
        ----------
        **options : Any
            Options of `opttree.export.to_html`.

        Returns
        -------
        str
            The page.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
        >>> model.tree_.to_html()[:15]
        '<!DOCTYPE html>'
        """
        page: str = late("html")(self, **options)
        return page

    def _repr_html_(self) -> str:
        """The picture of the tree, down to depth 4, for notebooks."""
        return picture(late("plot_tree"), self, max_depth=4)

    def names(self, feature_names: Sequence[str] | None = None) -> list[str]:
        """Names of the features.

        Parameters
        ----------
        feature_names : sequence of str or None, default None
            The p names in place of the tree's own.

        Returns
        -------
        list of str
            The names given, else the tree's own, else ``x0..``.

        Raises
        ------
        ValueError
            For a wrong number of names.
        """
        given = self.feature_names if feature_names is None else feature_names
        return names_of(given, self.encoding, self.n_features)

    # ---- equality -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Same structure and, to a relative 1e-9 (absolute 1e-12), the same numbers."""
        if not isinstance(other, Tree):
            return NotImplemented
        if any(getattr(self, name) != getattr(other, name) for name in ("link", "gate", "mixture")):
            return False
        if not np.array_equal(self.children, other.children):
            return False
        if (self.classes is None) != (other.classes is None) or (self.lower is None) != (other.lower is None):
            return False
        if self.classes is not None and not np.array_equal(self.classes, other.classes):  # type: ignore[arg-type]
            return False
        pairs = [(self.A, other.A), (self.b, other.b)]
        pairs += list(zip(self.leaf_arrays, other.leaf_arrays, strict=True))
        return all(x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {"A": self.split_weights, "coefs": self.leaf_weights}
        return Tree, tuple(kept[f.name] if f.name in kept else getattr(self, f.name) for f in fields(self))


def replace(tree: Tree, **changes: Any) -> Tree:
    """`dataclasses.replace`, which leaves weights sparse that are kept so."""
    return changed(tree, **{"A": tree.split_weights, "coefs": tree.leaf_weights, **changes})


def names_of(feature_names: Sequence[str] | None, encoding: Encoding | None, n_features: int) -> list[str]:
    """Names of features: those given, else those of an encoding, else ``x0..``; ValueError for a wrong number."""
    if feature_names is None and encoding is not None:
        feature_names = encoding.names
    if feature_names is None:
        return [f"x{j}" for j in range(n_features)]
    if len(feature_names) != n_features:
        raise ValueError(f"feature_names must have {n_features} entries; got {len(feature_names)}")
    return [str(name) for name in feature_names]
