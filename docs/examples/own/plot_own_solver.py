"""
A solver of your own
====================

A frozen dataclass and a generator: clock, limits, best tree, trace and Ctrl-C come from the driver.
"""

# %%
# Simulated annealing of thresholds: move one threshold of an axis-aligned tree to another value of its feature, and
# accept what is worse with a probability that falls.
from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np

from opttree import TreeProblem, datasets
from opttree.plotting import plot_trace
from solvers import BranchAndBound, CartInit, Chain, LocalSearch, Solver, Step, Termination, solve


@dataclass(frozen=True)
class Jumping(Solver):
    """Simulated annealing of features and thresholds."""

    moves: int = 3000
    heat: float = 0.003

    def _refusal(self, problem):
        return None if problem.splits == "axis" else "it moves thresholds of single features; use splits='axis'"

    def steps(self, problem, start, rng):
        """A step for every tree that is taken, None for others, so that the driver can stop in between."""
        tree = start if start is not None else CartInit().build(problem, rng)
        value = problem.objective(tree)
        yield Step(tree, value)
        for move in range(self.moves):
            trial = problem.trim(problem.fit_leaves(self.neighbour(problem, tree, rng)))
            new = problem.objective(trial)
            heat = self.heat * (1 - move / self.moves) + 1e-12
            if trial.n_branches and (new < value or rng.random() < np.exp((value - new) / heat)):
                tree, value = trial, new
                yield Step(tree, value)
            else:
                yield None
        return Termination.ITERATION_LIMIT

    def neighbour(self, problem, tree, rng):
        """The tree with another feature, or another threshold, at one branch."""
        A, b = tree.A.copy(), tree.b.copy()
        t = rng.integers(tree.n_branches)
        j = rng.integers(problem.n_features) if rng.random() < 0.3 else int(np.flatnonzero(A[t])[0])
        A[t], A[t, j] = 0.0, 1.0
        b[t] = problem.X[rng.integers(len(problem.X)), j]
        return replace(tree, A=A, b=b)


# %%
# It runs under the same driver as all others, and chains with them.
X, y = datasets.load("friedman1", as_arrays=True)
problem = TreeProblem.standardized(X[:400], y[:400], depth=3, splits="axis")
entrants = {
    "CART": CartInit(),
    "Jumping": Jumping(),
    "Jumping, then local search": Chain(Jumping(), LocalSearch(n_starts=1)),
    "LocalSearch": LocalSearch(),
}
results = {name: solve(problem, solver, time_limit=5, random_state=0) for name, solver in entrants.items()}
optimum = solve(problem, BranchAndBound()).objective
for name, result in results.items():
    print(
        f"{name:28s} {100 * (result.objective / optimum - 1):6.2f} % above the proved optimum, {result.seconds:.2f} s"
    )

# %%
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot_trace(results, ax=ax)
ax.axhline(optimum, color="0.5", ls=":")
ax.set_ylim(0.99 * optimum, 1.15 * optimum)

# %%
# The sentence to cite:
import opttree

own = results["Jumping"]
print(
    f"We wrote simulated annealing as a solver of opttree {opttree.__version__} and gave it the clock and the "
    f"objective of the others: with seed 0 it ended {100 * (own.objective / optimum - 1):.1f} % above the optimum "
    f"after {own.seconds:.1f} s."
)

# %%
# What it cannot treat, it says in a sentence, and ``check_solver`` runs on it what our own solvers are tested by:
from solvers import check_solver

print(Jumping().refusal(problem.restated(splits="oblique")))
print(len(check_solver(Jumping(moves=20))), "kinds of problems refused, with a reason")
