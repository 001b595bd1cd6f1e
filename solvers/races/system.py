"""What a session ran on: processor, memory, versions of Python and of the libraries that methods come from."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from solvers.races.runs import ROOT

LIBRARIES = (
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "pandas",
    "highspy",
    "pyomo",
    "xgboost",
    "xgboost-cpu",
    "lightgbm",
    "catboost",
    "pystreed",
    "linear-tree",
    "joblib",
    "distributed",
)


def info() -> dict[str, Any]:
    """Scalars for a row of the sessions table."""
    return {
        "cpu": _cpu(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "threads_of_machine": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": json.dumps({name: version for name in LIBRARIES if (version := _version(name))}),
        "commit": _commit(),
    }


def _cpu() -> str:
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """The commit, with a plus where files differ from it; empty outside a repository."""
    try:
        said = [
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said[0] + ("+" if said[1] else "")
