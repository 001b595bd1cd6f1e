"""Benchmarks: each module is a script, ``python -m experiments.benchmarks.NAME``, that prints its table."""
