"""Memory that this process can still get."""

from __future__ import annotations

import os
from pathlib import Path


def available_memory() -> float | None:
    """Bytes that this process can still get, swap included, by the system, its container's control group and its own
    limit (``ulimit -v``); None where nothing says.
    """
    known = [free for free in (_of_the_system(), _of_the_process(), *map(_of_a_group, GROUPS)) if free is not None]
    return min(known, default=None)


GROUPS = (  # folder, limit, use, and the prefix of page-cache entries, which give way: versions 2 and 1
    ("/sys/fs/cgroup", "memory.max", "memory.current", ""),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)


def _of_the_system() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        return 1024.0 * (sizes["MemAvailable"] + sizes.get("SwapFree", 0))
    except (OSError, KeyError):  # not Linux: all memory is the best that is known
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return None


def _of_the_process() -> float | None:
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, AttributeError, OSError):  # not Unix, not Linux
        return None
    return None if most == resource.RLIM_INFINITY else max(float(most - pages * os.sysconf("SC_PAGE_SIZE")), 0.0)


def _of_a_group(group: tuple[str, str, str, str]) -> float | None:
    folder, limit, use, prefix = Path(group[0]), *group[1:]
    try:
        most, used = float((folder / limit).read_text()), float((folder / use).read_text())
        pairs = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group, or "max": no limit
        return None
    gives_way = (f"{prefix}inactive_file", f"{prefix}active_file", "slab_reclaimable")
    return most - used + sum(float(size) for name, size in pairs if name in gives_way)
