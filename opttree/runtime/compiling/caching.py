"""Where compiled kernels are kept: beside what numba keeps, with another stamp, and in folders that come with a wheel.

Numba stamps a cache with the time and size of a function's own file. A kernel holds copies of the kernels that it
calls, so that it is stale, too, where one of theirs has changed: here the stamp is made of the text of a file and of
all files of ours that it imports, and survives a copy.

A wheel may bring kernels that were compiled for a usual processor (`LEVELS`), in ``PREBUILT``. They are used where this
machine has all that such a processor has, and where it has no kernels of its own yet.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba.core import caching

HOME = Path(__file__).parents[2]
PREBUILT = HOME / "prebuilt"
SHIPS = "OPTTREE_PREBUILT"  # the environment variable that names a level in a process that fills `PREBUILT`
LEVELS: dict[str, tuple[str, str, tuple[str, ...]]] = {  # name: machine, processor of LLVM, what it must have
    "x86-64-v3": ("x86_64", "x86-64-v3", ("avx2", "fma", "bmi", "bmi2", "lzcnt", "movbe", "f16c", "popcnt")),
    "arm64": ("aarch64", "generic", ("neon",)),
}
IMPORTS = re.compile(r"^\s*from (opttree[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


@cache
def stamp(module: str) -> str:
    """A digest of the text of a module and of all modules of ours that it imports, one through another."""
    texts: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if name in texts or path is None:
            continue
        texts[name] = path.read_text(encoding="utf-8")
        for package, names in IMPORTS.findall(texts[name]):
            waiting += [package, *(f"{package}.{one}" for one in re.findall(r"\w+", names))]
    together = "\n".join(f"{name}\n{texts[name]}" for name in sorted(texts))
    return hashlib.sha256(together.encode()).hexdigest()


def _file_of(module: str) -> Path | None:
    """The file of a module of opttree, or None."""
    inside = HOME.parent.joinpath(*module.split("."))
    return next((p for p in (inside.with_suffix(".py"), inside / "__init__.py") if p.is_file()), None)


@cache
def usable_level() -> str | None:
    """The level of which kernels may come with the package, and whose demands this machine meets, or None."""
    has = binding.get_host_cpu_features()
    for level, (machine, _processor, needed) in LEVELS.items():
        if platform.machine() == machine and all(has.get(one, False) for one in needed) and (PREBUILT / level).is_dir():
            return level
    return None


class KernelCache(caching.FunctionCache):
    """The cache of one kernel."""

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        module = py_func.__module__ or ""
        own = module.startswith(("opttree.", "solvers.")) and _file_of(module) is not None
        self._stamp = stamp(module) if own else self._impl.locator.get_source_stamp()
        self._cache_file = self._in(self._cache_path)

    def _in(self, folder: str) -> Any:
        return caching.IndexDataCacheFile(
            cache_path=folder, filename_base=self._impl.filename_base, source_stamp=self._stamp
        )

    def _shipped(self, level: str) -> Any:
        """The kernel's file for a level: each module has a folder, and each version of Python."""
        version = f"{sys.implementation.name}{sys.version_info.major}{sys.version_info.minor}"
        return self._in(str(PREBUILT / level / version / self._py_func.__module__))

    def _shipped_key(self, signature: Any, codegen: Any, level: str) -> Any:
        found, (triple, *_processor), digests = self._index_key(signature, codegen)
        return found, triple, level, digests

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        level = usable_level()
        if found is not None or level is None or not self._enabled:
            return found
        data = self._shipped(level).load(self._shipped_key(sig, target_context.codegen(), level))
        return None if data is None else self._impl.rebuild(target_context, data)

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Whether the kernel is compiled for arguments of these types, here or in the wheel."""
        codegen, level = target_context.codegen(), usable_level()
        if self._index_key(sig, codegen) in self._cache_file._load_index():
            return True
        return level is not None and self._shipped_key(sig, codegen, level) in self._shipped(level)._load_index()

    def _save_overload(self, sig: Any, data: Any) -> None:
        super()._save_overload(sig, data)
        level = os.environ.get(SHIPS)
        if level is None or not self._enabled or not self._impl.check_cachable(data):
            return
        file = self._shipped(level)
        Path(file._cache_path).mkdir(parents=True, exist_ok=True)
        file.save(self._shipped_key(sig, data.codegen, level), self._impl.reduce(data))


def environment(level: str) -> dict[str, str]:
    """Environment variables of a process that compiles for a level alone, into `PREBUILT`."""
    _machine, processor, needed = LEVELS[level]
    return {SHIPS: level, "NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ",".join(f"+{one}" for one in needed)}


def keep(dispatcher: Any) -> Any:
    """Give a compiled function its cache; RuntimeError where nothing can be written."""
    if hasattr(dispatcher, "py_func"):  # else numba is told not to compile
        dispatcher._cache = KernelCache(dispatcher.py_func)
    return dispatcher
