"""The price of a split, chosen on held-out rows: ``split_price="cv"``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from opttree.estimators.recipe import Estimator, Fit, Outcome
from opttree.estimators.steps.rows import encode
from opttree.estimators.steps.solve import run, solve_with_bound
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.clock import now
from opttree.statement import SplitPrice, TreeProblem
from opttree.statement.copies import different_rows, with_copies
from opttree.statement.pruning import with_splits
from opttree.tables.checks import TableWarning
from opttree.tables.encoder import check_table
from opttree.tables.encoding import rows_of

Floats = NDArray[np.float64]
# prices that are tried, of a constant's loss: at the last ones no split is worth its price
SHARES = (0.0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
FOLD_SECONDS = 2.0  # of a search in a fold
SEARCH_SHARE = 0.5  # of the time limit, for the folds

Refit = Callable[[TreeProblem, Tree], Tree]


def solve_priced(refit: Refit, folds: int = 5) -> Callable[[Estimator, Fit], Outcome]:
    """A run that keeps bound, gap and proof, after the price of a split has been chosen if it is "cv".

    ``refit(problem, tree)`` is the tree as it will predict, whose losses on held-out rows are compared.
    """

    def solve(options: Estimator, fit: Fit) -> Outcome:
        if options.split_price != "cv":
            return solve_with_bound(options, fit)
        began = now()
        price, table = choose_price(options, fit, refit, folds)
        left = None if fit.time_limit is None else max(fit.time_limit - (now() - began), 1e-3)
        problem = fit.problem.restated(penalties=(SplitPrice(price),)) if price else fit.problem
        outcome = solve_with_bound(options, replace(fit, problem=problem, time_limit=left))
        return replace(outcome, attributes={**outcome.attributes, "split_price_": price, "cv_results_": table})

    return solve


def choose_price(options: Estimator, fit: Fit, refit: Refit, folds: int) -> tuple[float, dict[str, Floats]]:
    """The price of the lowest mean loss on held-out rows, and the losses, per price and fold.

    In each fold one tree is found without a price, and then loses its weakest splits: of the trees on the way, the one
    that is best at a price stands for the best tree at this price. Folds in which no split was found in time do not
    count. Without any fold the price is 0 of few rows, and the middle one where the time was up.
    """
    problem, began = fit.problem, now()
    solver = options.recipe.solver(options, problem, None)
    prices = np.array(SHARES) * problem.mean_loss(problem.best_constant())
    losses: list[list[float]] = []
    first, copy = different_rows(problem.X, problem.Y)
    n_folds = min(folds, first.size // 2)
    shuffled = KFold(n_folds, shuffle=True, random_state=fit.seed).split(first) if n_folds > 1 else ()
    for k, (train, valid) in enumerate(with_copies(shuffled, copy)):
        left = np.inf if fit.time_limit is None else SEARCH_SHARE * fit.time_limit - (now() - began)
        if left <= 0.0:
            break
        part, held = halves(options, fit, train, valid)
        result = run(options, solver, part, None, fit.seed, min(FOLD_SECONDS, left / (n_folds - k)))
        trees = path(part, as_tree(result.tree))
        if len(trees) == 1 and result.termination.name == "TIME_LIMIT":
            continue  # without a split no price is better than another, and none was found in time
        costs = np.array([[part.mean_loss(tree), tree.n_branches] for tree in trees])
        errors = np.array([held.mean_loss(refit(part, tree)) for tree in trees])
        losses.append(errors[np.argmin(costs[:, :1] + prices * costs[:, 1:], axis=0)].tolist())
        if result.termination.name == "INTERRUPTED":
            break
    table = {"split_price": prices, "losses": np.array(losses).reshape(-1, prices.size).T}
    if not losses:
        return (float(prices[prices.size // 2]) if n_folds > 1 else 0.0), table
    means = table["losses"].mean(axis=1)
    return float(prices[np.flatnonzero(means <= means.min() * (1.0 + 1e-12))[-1]]), table


def halves(
    options: Estimator, fit: Fit, train: NDArray[np.intp], valid: NDArray[np.intp]
) -> tuple[TreeProblem, TreeProblem]:
    """The problem on some of its rows, and on others; of a table, with an encoding learnt from the first."""
    problem, table = fit.problem, fit.rows.table
    if table is None:
        return problem.sample(train), problem.sample(valid)
    used, y, weight = np.flatnonzero(fit.rows.weight), fit.rows.y, fit.rows.weight
    encoder = clone(options.encoder_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # the fit to all rows says it
        Z = encode(options, encoder, rows_of(table, used[train]), y[used[train]], weight[used[train]])
    features = Z, encoder.encoding_.transform(check_table(options, rows_of(table, used[valid]), reset=False))
    part, held = (
        problem.with_rows(X, problem.y[rows], np.asarray(problem.sample_weight)[rows], feature_names=None)
        for X, rows in zip(features, (train, valid), strict=True)
    )
    return part, held


def path(problem: TreeProblem, tree: Tree) -> list[Tree]:
    """A tree, and what is left as its weakest splits go, one by one or a tenth of many, down to one leaf."""
    found = [problem.live(tree)]
    while most := found[-1].n_branches:
        found.append(with_splits(problem, found[-1], most - 1 - most // 10))
    return found


def plain(problem: TreeProblem, tree: Tree) -> Tree:
    """The tree as it is."""
    return tree


def leaf_sums(problem: TreeProblem, tree: Tree, *columns: Any) -> list[Floats]:
    """Sums over the rows of each leaf (L,) of some columns (n,)."""
    leaf = problem.leaves_of(tree) - tree.n_branches
    return [np.bincount(leaf, column, minlength=tree.n_leaves).astype(np.float64) for column in columns]
