"""How the trees of a forest are grown."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.runtime.options import Checked, option

MOST_FEATURES = 64  # up to which trees are made sparse by default
SPLIT_LASSO = 0.001
Kind = Literal["auto", "oblique", "axis", "cart", "cart-constant", "extra", "cart-all", "cart-constant-all"]


@dataclass(frozen=True)
class GrowthOptions(Checked):
    """The options of a `TAOForest` that concern the growth of single trees."""

    n_trees: int = option(30, "T, 30 in the paper's tables.", least=1)
    kind: Kind = option(
        "auto",
        """"oblique" or "axis" TAO trees (axis-aligned ones start from randomised trees). "cart": randomised trees,
        grown on features in bins, with our leaf models and without TAO, to the depth limit of the problem;
        better where near neighbours predict better than trends. "extra": the same with one random
        threshold per feature and all features at each split (extremely randomised trees). "auto" grows some trees
        of the first kind, of "cart" and of "cart" with constant leaves on bootstrap samples, and takes one of the
        latter ("cart-constant" where leaves are linear) if its expected out-of-bag error is below .96 of the first's,
        .98 for 8,000 rows and so on; unless ``max_features`` is given, the better of the two is also grown with
        all features at each split ("cart-all", "cart-constant-all"), on bootstrap or smaller samples, and taken if
        its error is lower by a tenth and two standard errors than with half of them. For more than 8,000 rows five
        trees of each kind on half of so many are grown before, after which kinds that are three percent behind are
        given up. ``step.info["kind"]`` is the number of the kind in `KINDS`.""",
    )
    levels: int | None = option(
        None,
        """Depth of TAO trees, if the problem allows deeper trees for "cart"; None: the problem's depth.""",
        least=1,
    )
    sample: float | Literal["bootstrap"] = option(
        0.9,
        """Share of the rows in each tree's sample, drawn without replacement (0.9 in the paper), or "bootstrap".""",
        above=0,
        most=1,
    )
    max_iter: int = option(
        12,
        "Passes over each tree; 40 in the paper.",
        least=0,
    )
    constant_iterations: int = option(
        2,
        """Number of passes with constant leaves; none in the paper. Unless it is 0, all passes have constant leaves if
        a complete tree has less than one row per parameter of its linear leaves.""",
        least=0,
    )
    newton_steps: int = option(2, "Newton steps per node and pass.", least=1)
    ridge: float = option(
        10.0,
        """Shrinkage of leaves during the passes, in rows; larger if there are fewer rows than parameters. 0: each is
        fitted to its own rows alone, with the lasso of ``leaf_lasso`` if that is a number.""",
        least=0,
    )
    shrinkage: float | Literal["oob"] = option("oob", 'Weight of the parent\'s model in rows, or "oob".', above=0)
    max_features: float | None = option(
        None,
        """Number or share of random features per tree or node, see ``subsets``; None: all, as the paper recommends. In
        "axis" and "cart" it applies to each split of the randomised tree, by default half of the features; TAO passes
        use all features.""",
        test=lambda some: some is None or 0.0 < some <= 1.0 or (isinstance(some, (int, np.integer)) and some >= 1),
        words="an integer >= 1, a share above 0 and at most 1, or None",
    )
    subsets: Literal["global", "local"] = option(
        "global",
        """Whether random features are drawn per tree ("global") or per node ("local", section 5.5).""",
    )

    _: KW_ONLY
    start_threshold: Literal["median", "gaussian"] = option(
        "median",
        """Threshold of each random hyperplane of the start, which the paper does not specify: the median of its rows
        along it, or drawn from (0, 1) with its weights. For oblique trees.""",
    )
    split_lasso: float | None = option(
        None,
        """The l1 penalty on the weights of each split in its logistic regression, whose weights sum to one: unlike the
        statement's `L1`, it does not grow with the depth, where there are fewer rows. For oblique trees. None: .001 for
        at most 64 features, and none for more, since its fits take up to the fourth power of their number.""",
        least=0,
    )
    leaf_lasso: float | Literal["oob"] = option(
        "oob",
        """The l1 penalty on the weights of each linear leaf against half the mean squared error on its rows
        (scikit-learn's ``Lasso(alpha)``), in units of the outputs, after the last pass. "oob": the largest of
        `LASSOS` that raises the expected out-of-bag error by half a percent at most, in trees of TAO of at most 64
        features.""",
        least=0,
    )
    relaxed: bool = option(
        True,
        """Whether weights that the lasso of a leaf has chosen are then fitted without it (the relaxed lasso); not in
        the paper.""",
    )
    clip: bool = option(
        True,
        "Clip linear leaves to the range of y over the smallest subtree with ``2 (p + 1)`` rows; not in the paper.",
    )
    monotone: tuple[int, ...] | None = option(
        None,
        """For each feature 1, -1 or 0: predictions must increase with it, decrease or either (scikit-learn's
        ``monotonic_cst``). For "cart" and "extra", constant leaves and one output; leaves are then not shrunk.""",
        test=lambda signs: signs is None or all(sign in (-1, 0, 1) for sign in signs),
        words="a tuple of -1, 0 and 1, or None",
    )

    def l1_of_splits(self, n_features: int) -> float:
        """l1 penalty on splits: ``split_lasso``, or its default.

        Parameters
        ----------
        n_features : int
            Number of features.

        Returns
        -------
        float
            The penalty.
        """
        if self.split_lasso is not None:
            return float(self.split_lasso)
        return SPLIT_LASSO if n_features <= MOST_FEATURES else 0.0

    def masks(self, n_branches: int, p: int, rng: Rng) -> NDArray[np.bool_]:
        """Features that each node of a tree may use.

        Parameters
        ----------
        n_branches : int
            Number of branch nodes, B.
        p : int
            Number of features.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        ndarray of bool of shape (B, p)
            True where a node may use a feature; empty if all nodes may use all.
        """
        if self.max_features is None:
            return np.ones((0, 0), bool)
        count = (
            min(self.max_features, p)
            if isinstance(self.max_features, (int, np.integer))
            else max(round(self.max_features * p), 1)
        )
        sets = n_branches if self.subsets == "local" else 1
        ranks = rng.random((sets, p)).argsort(axis=1).argsort(axis=1)
        return np.repeat(ranks < count, n_branches // sets, axis=0)
