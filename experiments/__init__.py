"""Experiments: protocols, runs and benchmarks around opttree."""
