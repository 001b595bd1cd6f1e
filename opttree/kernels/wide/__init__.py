"""Kernels for many features: products with rows in place, and quadratic programs by coordinates."""
