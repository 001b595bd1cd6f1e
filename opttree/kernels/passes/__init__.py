"""Passes of TAO over the nodes of a tree."""
