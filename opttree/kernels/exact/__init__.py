"""Optimal axis-aligned trees over all thresholds, by branch and bound on intervals of thresholds."""
