"""Options that several estimators share: each function makes one, with its rule and its line in the docstrings."""

from __future__ import annotations

from typing import Any

import numpy as np

from opttree.runtime.options import option
from opttree.statement import L1, L2

SPARSE_FROM = 2**22  # numbers of a sparse table, below which forests and boosting are faster, and better, on dense ones
Penalties = tuple[L1 | L2, ...]


def max_depth(default: Any = 6, doc: str | None = None, **rule: Any) -> Any:
    """The depth of a single tree."""
    usual = """Largest depth of the tree. "cv": the depth up to 12 with the best mean score on held-out rows (the search
        stops after 4 depths without improvement); each depth is warm-started from the one before, or at least no worse
        on its training rows. See ``best_depth_`` and ``cv_results_``. None is "cv"."""
    return option(default, doc or usual, **({"least": 1, "words": "an integer >= 1 or 'cv'"} | rule))


def auto_depth() -> Any:
    """The depth of a single tree, chosen by default."""
    doc = """Largest depth of the tree. "auto": chosen on held-out rows, with a ``floor``; where these are not used, the
        usual depth: 6, of soft trees 3, of GradTree 8. Of a table in parts, all rows choose that of TAO and GET, after
        "cv" among up to three levels more. "cv": the depth up to 12 with the best mean score on held-out rows (the
        search stops after 4 depths without improvement); each depth is warm-started from the one before, or at least no
        worse on its training rows. See ``best_depth_`` and ``cv_results_``. None is "cv"."""
    return option("auto", doc, least=1, words="an integer >= 1, 'auto' or 'cv'")


def y_unit() -> Any:
    """The unit in which the paper's penalty on leaves is read."""
    return option(
        None,
        """Under ``preset="paper"``: the unit of y in which trees are fitted; the penalty on linear leaves, alpha = .01,
        stands beside errors in it. 1: y as it is. None: the standard deviation of y.""",
        above=0,
    )


def floor() -> Any:
    """Whether a linear model and CART's tree are tried beside the method's."""
    return option(
        None,
        """Whether the tree is compared on rows held out with a ridge regression (of classes, a logistic one)
        and with CART's trees: in three folds, five of fewer than 2,000 rows, and of at most 10,000 rows.

        - Where the tree is not better than the linear model by more than a standard error, ``tree_`` is one leaf with
          that model and ``fallback_`` "linear"; where it is not better than CART's tree, by a standard error if this is
          not deeper, ``tree_`` is CART's and ``fallback_`` "cart". Otherwise ``fallback_`` is None.
        - In regression, trees of constant leaves are also tried on what the ridge regression leaves: ``tree_`` is then
          the sum, whose leaves are linear with the same slopes, and ``result_`` is of the tree alone.
        - Features with heavy tails are clipped, half a range beyond their first and last percentile, where that lowers
          the error by one percent: the model's encoding then clips new rows, too, and takes a missing number as the
          mean.
        - Targets with values that far off are clipped for the fit in the same way, where that lowers the error by one
          percent.
        - From ten features on, l1 penalties of .001 and .01 on the splits of TAO and GET trees are tried, unless
          ``split_penalty`` or ``l1_ratio`` is given; ``split_penalty_`` is the one that was taken, or None.
        - Linear leaves answer at most a tenth of the range of y beyond it, those of mixtures the range.

        ``floor_errors_`` has the errors. None: with ``max_depth="auto"``. There is none for losses other than
        "squared", "zero_one" and "log", for several outputs of labels, for a time limit below a second, for fewer than
        6 rows, in the paper's preset, and in `fit_chunks` and `partial_fit`.""",
    )


def cv() -> Any:
    """How rows are held out for the choice of a depth."""
    return option(
        4,
        """For ``max_depth="cv"``: number of folds, share of the rows that is held out once, or a splitter or splits as
        in scikit-learn.""",
        test=is_cv,
        words="an integer >= 2, a fraction between 0 and 1, or splits",
    )


def init(default: Any = None, doc: str | None = None) -> Any:
    """The start of a single tree."""
    return option(default, doc or "A tree on raw features to start from, such as another model's ``tree_``.")


def min_samples_leaf(default: Any = 1, doc: str = "Fewest training rows in a leaf.") -> Any:
    """The smallest leaf."""
    return option(default, doc, least=1)


def max_leaf_nodes() -> Any:
    """The largest number of leaves."""
    return option(
        None,
        """Largest number of leaves, or None. The weakest pairs of leaves are joined, those by which the objective rises
        least, and passes of TAO adapt the tree that is left: before TAO begins, and after other methods.""",
        least=2,
    )


def preset(
    doc: str = """"default": the best method we found. "paper": the method as printed, see ``paper`` of its solver;
        options that are None then have the paper's values.""",
) -> Any:
    """Our version of a paper's method, or the paper's."""
    return option("default", doc)


def split_penalty(default: float = 1e-4, doc: str | None = None) -> Any:
    """The penalty on splits."""
    usual = """Penalty on the weights of the splits, in units of the mean loss on scaled features and outputs. With
        ``l1_ratio=1`` the objective is ``mean loss + split_penalty * sum_t |a_t|_1 + leaf_penalty * |coefs|_1``, where
        a_t are the weights of split t scaled to unit length (axis-aligned splits are not penalised). The alpha or
        lambda of a paper, for a sum over n rows, is ``alpha / n`` here, so that its meaning depends neither on the
        number of rows nor on the scale of the sample weights."""
    return option(default, doc or usual, least=0)


def l1_ratio(default: float = 1.0) -> Any:
    """The mixture of penalties."""
    doc = "1: l1 penalties (lasso); 0: ``penalty * |.|_2^2`` (ridge); between: a mixture of both."
    return option(default, doc, least=0, most=1)


def leaf_shrinkage() -> Any:
    """The strength by which leaves are shrunk after a fit."""
    return option(
        None,
        """Weight of the parent's model in a leaf's, in rows, from the root down (hierarchical shrinkage): ``tree_`` has
        the shrunk leaves, ``result_.tree`` those of least objective.

        - A number is the strength.
        - "cv" chooses the strength, of 0, .3, 1, 3, 10, 30 and 100, by the squared error (of probabilities in
          classification) on held-out rows: three folds of at most 20,000 rows in all, with trees of their own. 0 is
          chosen unless another is better by more than a standard error, for a time limit below a second, and after
          Ctrl-C. With ``max_depth="cv"`` depth and strength are chosen together, by the mean score on its folds.
        - None is "cv" for constant leaves and for classes, and 0 for linear leaves of numbers; of `RADDTRegressor` and
          `DTSemNetRegressor` it is 0.

        The choice is ``leaf_shrinkage_``. With it, probabilities p of constant leaves become p^(1 / T), normalised,
        with the T of the lowest held-out log loss, ``leaf_temperature_``, unless the depth is searched; no label
        changes. Scores of linear leaves of classes are divided by one plus the strength instead, of 0, .5, 1, 2 and 4
        that with the lowest log loss. Copies of a row count once, unless most rows with equal features differ in y.
        Shrunk linear leaves of numbers are dense, however few rows they have. Never shrunk are medians, leaves of other
        losses, linear leaves of very many features, and trees that go on learning from chunks of rows.""",
        least=0,
    )


def mixed(ratio: float, splits: float, leaves: float) -> Penalties:
    """l1 and l2 penalties mixed in the ratio ``ratio`` to ``1 - ratio``; penalties of strength zero are left out."""
    l1 = L1(splits=splits * ratio, leaves=leaves * ratio)
    l2 = L2(splits=splits * (1 - ratio), leaves=leaves * (1 - ratio))
    return tuple(q for q in (l1, l2) if q.splits > 0 or q.leaves > 0)


def split_penalties(options: Any, leaves: float = 0.0) -> Penalties:
    """The penalties that ``split_penalty`` and ``l1_ratio`` state, with ``leaves`` the strength on linear leaves."""
    return mixed(options.l1_ratio, options.split_penalty if options.splits == "oblique" else 0.0, leaves)


def check_penalties(options: Any) -> None:
    """ValueError for a penalty beside the one that the paper's preset has of its own, and for its unit without it."""
    if options.preset != "paper":
        if (unit := getattr(options, "y_unit", None)) is not None:
            raise ValueError(f"y_unit must be None without preset='paper'; got {unit!r}")
        return
    if getattr(options, "y_unit", None) is not None and options.loss != "squared":
        raise ValueError(f"y_unit must be None for a loss other than 'squared'; got loss={options.loss!r}")
    for name, default in ((f.name, f.default) for f in options.__dataclass_fields__.values()):
        if name in ("split_penalty", "leaf_penalty", "l1_ratio") and getattr(options, name) != default:
            raise ValueError(
                f"{name} must be left at its default for preset='paper', whose penalty is its own; "
                f"got {getattr(options, name)!r}"
            )


def check_reading(options: Any, usual: str) -> None:
    """ValueError for another ``reading`` of a paper than the usual one without its preset."""
    if options.reading != usual and options.preset != "paper":
        raise ValueError(f"reading must be left at its default without preset='paper'; got {options.reading!r}")


def is_cv(cv: Any) -> bool:
    """Whether ``cv`` is a number of folds, a share of the rows, or a splitter or splits."""
    fraction = isinstance(cv, (float, np.floating)) and 0.0 < cv < 1.0
    folds = isinstance(cv, (int, np.integer)) and cv >= 2
    return bool(fraction or folds or hasattr(cv, "split") or np.iterable(cv))
