"""Writes what type checkers are told of solvers and estimators, which are found when the packages run.

``python docs/tools/faces.py`` rewrites the lines under ``if _TYPE_CHECKING:`` in ``solvers/__init__.py`` and
``opttree/estimators/__init__.py``.
"""

import re
import subprocess
import sys
from pathlib import Path

import solvers
from opttree.methods.table import estimators
from solvers.core.discovery import solvers_in

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(if _TYPE_CHECKING:  # [^\n]*\n)(?:    [^\n]*\n)+")


def told(path: Path, lines: list[str]) -> None:
    """Replace the block of a file."""
    block = "".join(f"    {line}\n" for line in lines)
    path.write_text(BLOCK.sub(lambda found: found.group(1) + block, path.read_text(encoding="utf-8")), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "check", "--fix", "--quiet", path], check=True)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", path], check=True)


if __name__ == "__main__":
    kinds = solvers_in(solvers.__path__)
    told(ROOT / "solvers" / "__init__.py", [f"from {k.__module__} import {n} as {n}" for n, k in sorted(kinds.items())])
    modules = sorted(set(estimators().values()))
    told(ROOT / "opttree" / "estimators" / "__init__.py", [f"from {module} import *" for module in modules])
