"""Losses of a row, their codes, and entropies."""
