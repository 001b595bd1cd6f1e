"""Soft forests: value and gradient."""
