"""Nodes and leaves of many features, or of many outputs: few long products instead of loops over rows."""
