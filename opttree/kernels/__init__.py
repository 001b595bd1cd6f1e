"""Numba functions on arrays and scalars. They do not check their arguments; importing them compiles nothing."""
