"""Seconds of the tests, by file and, from one second on, by function: what the runs of the suite are shared out by.

``make test`` leaves a report, and has ``python -m tests.durations build/tests.xml`` print the seconds of each ring;
``--write`` writes the record, ``tests/durations.json``.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
LEAST = 1.0  # seconds of a function that is named
RINGS = ("rooms", "contracts", "pages", "system")


def read(path: Path) -> Counter[str]:
    """Seconds by test, ``file::function[case]``, from a report of pytest in JUnit's format."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(path).iter("testcase"):
        place, name = case.get("classname", "").replace(".", "/"), case.get("name", "")
        file = place.removesuffix("/md") + (".md" if place.endswith("/md") else ".py")
        seconds[f"{file}::{name}"] += float(case.get("time", 0.0))
    return seconds


def ring(file: str) -> str:
    """The ring of a file: pages, contracts, system, or else rooms."""
    top, _, rest = file.partition("/")
    if top != "tests":
        return "pages"
    room = rest.partition("/")[0]
    return room if room in RINGS else "rooms"


def main() -> None:
    tests = read(Path(sys.argv[1]))
    files: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    rings: Counter[str] = Counter()
    for test, seconds in tests.items():
        file = test.partition("::")[0]
        files[file] += seconds
        functions[test.partition("[")[0]] += seconds
        rings[ring(file)] += seconds
    record = files | Counter({name: seconds for name, seconds in functions.items() if seconds >= LEAST})
    if "--write" in sys.argv:
        rounded = {name: round(record[name], 1) for name in sorted(record)}
        (ROOT / "tests" / "durations.json").write_text(json.dumps(rounded, indent=0) + "\n")
    for name in RINGS:
        print(f"{name:10s} {sum(ring(test) == name for test in tests):5d} tests {rings[name]:7.1f} s")


if __name__ == "__main__":
    main()
