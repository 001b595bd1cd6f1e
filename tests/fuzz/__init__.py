"""Fuzzing: random tables, options, problems, files and CSVs, and what must hold for each of them.

`strategies` draws, `properties` asserts, `test_fuzz` runs a minute of it in the suite, and ``python -m tests.fuzz`` a
campaign that writes a table.
"""
