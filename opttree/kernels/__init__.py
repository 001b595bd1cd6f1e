"""Numba functions on arrays and scalars. They check nothing; importing them compiles nothing."""
