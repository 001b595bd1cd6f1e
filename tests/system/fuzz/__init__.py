"""Fuzzing: random tables, options, problems, files and CSVs, and what must hold for each of them.

`strategies` draws, `properties` asserts, `test_fuzz` runs a minute of it in the suite, and a campaign,
``python -m tests.system.fuzz``, writes a table.
"""
