"""The steps of a fit: rows of a table, units, statement, depth, solve, shrink, model; `steps.fit` is the list."""
