"""Races: solvers on problems under one clock, what came out of it, and how it is shown (extra ``experiments``).

| module | what it holds |
| --- | --- |
| `runs`, `plans` | a run, the version of its code; all runs of a race |
| `execute`, `sandbox`, `runner` | one run; in a process of its own, ended at its limits; all that are missing |
| `store`, `system` | rows, traces and sessions as files; what a session ran on |
| `compare`, `profiles`, `proofs`, `statistics` | gaps, times and bounds of all runs, and tests over problems |
| `figures`, `sections`, `page` | pictures; what a report of a race says; how a page is written |
| `race`, `entries`, `benchopt` | `opttree.race`; solvers as texts; export to benchopt |

Solvers know nothing of it. `experiments` stands on it, with data sets, estimators and protocols.
"""
