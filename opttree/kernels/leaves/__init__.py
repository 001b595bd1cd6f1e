"""The best leaves of a tree for the rows in each."""
