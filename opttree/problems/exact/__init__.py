"""The problem of exact search, by blocks of equal rows and sorted features."""
