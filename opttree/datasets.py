"""Data sets by name: generated, of scikit-learn, and from the folder in OPTTREE_DATA."""

from opttree.tables.datasets import (
    Dataset as Dataset,
    guess_task as guess_task,
    load as load,
    names as names,
    read_csv as read_csv,
)
from opttree.tables.reading import read_table as read_table

__all__ = ["Dataset", "guess_task", "load", "names", "read_csv", "read_table"]
