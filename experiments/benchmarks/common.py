"""What the benchmark scripts share: standardised problems."""

from __future__ import annotations

from opttree import TAORegressor, TreeProblem, datasets


def standardised(name: str, depth: int, leaves: str = "constant", split_penalty: float = 1e-4) -> TreeProblem:
    """The problem that `TAORegressor` states on all rows of a data set."""
    X, y = datasets.load(name, as_arrays=True)
    model = TAORegressor(depth, leaves=leaves, split_penalty=split_penalty)
    problem, _scaling = model.state(X, y)
    return problem
