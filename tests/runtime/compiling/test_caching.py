"""The cache of kernels: stamped by the text of all that a kernel calls, and shipped with a wheel."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import opttree
from opttree.runtime.compiling import caching

HOME = Path(opttree.__file__).parent
ASK = """
import json
from opttree.kernels.probe_outer import outer
answer = outer(1.0)
print(json.dumps([answer, sum(outer.stats.cache_hits.values()), sum(outer.stats.cache_misses.values())]))
"""
INNER = "from opttree.runtime.compiling.compiled import inner\n@inner()\ndef step(x):\n    return x + {}\n"
OUTER = """from opttree.kernels.probe_inner import step
from opttree.runtime.compiling.compiled import kernel
@kernel()
def outer(x):
    return 10.0 * step(x)
"""


@pytest.fixture
def package(tmp_path):
    """A copy of opttree with two kernels of its own, and a function that asks the outer one in a new process."""
    skipped = shutil.ignore_patterns("__pycache__", "prebuilt")
    shutil.copytree(HOME, tmp_path / "opttree", ignore=skipped)
    kernels = tmp_path / "opttree" / "kernels"
    (kernels / "probe_inner.py").write_text(INNER.format(1.0))
    (kernels / "probe_outer.py").write_text(OUTER)

    def ask(cache="cache", **environment):
        there = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / cache), **environment}
        done = subprocess.run([sys.executable, "-c", ASK], env=there, cwd=tmp_path, check=True, capture_output=True)
        return json.loads(done.stdout)

    return kernels, ask


def test_a_changed_inner_kernel_changes_its_caller(package):
    kernels, ask = package
    assert ask() == [20.0, 0, 1]
    assert ask() == [20.0, 1, 0]
    times = os.stat(kernels / "probe_inner.py")
    (kernels / "probe_inner.py").write_text(INNER.format(2.0))
    os.utime(kernels / "probe_inner.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert ask() == [30.0, 0, 1]
    for path in kernels.glob("probe*"):  # as an installation does
        os.utime(path, (1, 1))
    assert ask() == [30.0, 1, 0]


def test_kernels_that_come_with_the_package(package, monkeypatch):
    level = next((name for name, (machine, *_rest) in caching.LEVELS.items() if machine == platform.machine()), None)
    if level is None:
        pytest.skip("no level for this machine")
    kernels, ask = package
    assert ask("empty", **caching.environment(level)) == [20.0, 0, 1]
    prebuilt = kernels.parent / "prebuilt" / level
    assert len(list(prebuilt.glob("*/opttree.kernels.probe_outer/*.nbc"))) == 1
    monkeypatch.setattr(caching, "PREBUILT", prebuilt.parent)
    caching.usable_level.cache_clear()
    usable = caching.usable_level()
    caching.usable_level.cache_clear()
    assert ask("other") == ([20.0, 1, 0] if usable else [20.0, 0, 1])
    (kernels / "probe_inner.py").write_text(INNER.format(5.0))
    assert ask("other") == [60.0, 0, 1]  # those of another version are not used
