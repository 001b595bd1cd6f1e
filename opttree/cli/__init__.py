"""The command line: ``opttree fit``, ``solve``, ``race``, ``compare`` and others; `main` runs it."""

from opttree.cli.main import main

__all__ = ["main"]
