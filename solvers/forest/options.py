"""How the trees of a forest are grown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.options import Checked, option


@dataclass(frozen=True)
class GrowthOptions(Checked):
    """What the growth of one tree reads of the options of a `TAOForest`."""

    n_trees: int = option(30, "T, 30 in the paper's tables.", least=1)
    kind: Literal["auto", "oblique", "axis", "cart"] = option(
        "auto",
        """"oblique" or "axis" trees of TAO (the latter start from scikit-learn's trees of random features). "cart":
        scikit-learn's randomised trees as they are, whose leaves alone are ours, to the depth that the problem
        allows: no TAO, but better where near rows say more than trends. "auto" grows eight trees of each on
        bootstrap samples, to compare them, and takes "cart" where its expected error, by the rows left out, is
        below .96 of the other's. ``step.info["kind"]`` is the number of the kind in `KINDS`.""",
    )
    levels: int | None = option(
        None,
        """Depth of the trees of TAO where the problem allows deeper ones, which are for "cart"; None: the
        problem's.""",
        least=1,
    )
    sample: float | Literal["bootstrap"] = option(
        0.9,
        """Share of the rows that each tree gets, drawn without replacement (0.9 in the paper), or "bootstrap".""",
        above=0,
        most=1,
    )
    max_iter: int = option(
        8,
        "Passes over each tree; 40 in the paper, 7 to 10 do in a forest.",
        least=0,
    )
    constant_iterations: int = option(
        2,
        """How many of the passes have constant leaves; none in the paper. All have, where a complete tree has less than
        a row per parameter of its linear leaves.""",
        least=0,
    )
    newton_steps: int = option(2, "Newton steps per node and pass.", least=1)
    ridge: float = option(
        10.0,
        "Shrinkage of leaves during the passes, in rows; more where there are fewer rows than parameters.",
        above=0,
    )
    max_features: float | None = option(
        None,
        """How many features, or which share of them, a tree or a node gets, see ``subsets``; None for all, as the
        paper recommends. In "axis" and "cart" each split of scikit-learn's tree chooses from so many, by default
        half of them; TAO's passes choose from all.""",
        test=lambda some: some is None or 0.0 < some <= 1.0 or (isinstance(some, (int, np.integer)) and some >= 1),
        words="an integer >= 1, a share above 0 and at most 1, or None",
    )
    subsets: Literal["global", "local"] = option(
        "global",
        """Whether random features are drawn for a tree ("global") or for each of its nodes ("local", section 5.5).""",
    )

    def masks(self, n_branches: int, p: int, rng: Rng) -> NDArray[np.bool_]:
        """Features (B, p) that each node of a tree may use; empty for all."""
        if self.max_features is None:
            return np.ones((0, 0), bool)
        count = (
            min(self.max_features, p)
            if isinstance(self.max_features, (int, np.integer))
            else max(round(self.max_features * p), 1)
        )
        sets = n_branches if self.subsets == "local" else 1
        ranks = rng.random((sets, p)).argsort(axis=1).argsort(axis=1)
        return np.ascontiguousarray(np.broadcast_to(ranks < count, (n_branches, p)))
