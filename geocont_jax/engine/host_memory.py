"""The host's memory: what a process may still take, what it holds, and giving back what it freed.

CPU devices work in it, so there it is what a sweep is sized by.
"""

import resource
import sys
from collections.abc import Iterator
from pathlib import Path

UNKNOWN_FREE = 4 * 2.0**30
# A control group without a limit says "max", or in version 1 a number of pages near 2^63.
NO_LIMIT = 2.0**60
# Of version 2, whose one hierarchy names no controllers, and 1: where groups lie, limit, use, and the cache in it.
GROUP_FILES = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def free_bytes(root: Path = Path("/")) -> float:
    """Return how much more this process can take: what the system has, or less where a container sets a limit.

    `root` is where `proc` and `sys` are found.
    """
    return min(_system_free_bytes(root), *_group_free_bytes(root), NO_LIMIT)


def resident_bytes() -> int:
    """Return what this process holds now, 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def peak_resident_bytes() -> int:
    """Return the most that this process has held, 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def give_back_freed() -> None:
    """Hand memory that was freed back to the system. glibc keeps it otherwise: compiling leaves hundreds of MiB.

    Does nothing where there is no glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


def _system_free_bytes(root: Path) -> float:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return UNKNOWN_FREE


def _group_free_bytes(root: Path) -> Iterator[float]:
    """Yield what each control group around this process leaves free, those above it too: any of them may be full."""
    try:
        entries = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return
    for _, controllers, name in entries:
        if controllers not in GROUP_FILES:
            continue
        mount, *files = GROUP_FILES[controllers]
        top = root / "sys/fs/cgroup" / mount
        inner = top / name.strip("/")
        # Inside a container the group's own folder is often mounted at the top, and `name` is not there.
        for folder in [inner, *inner.parents]:
            yield _left(folder, *files)
            if folder == top:
                break


def _left(group: Path, limit: str, used: str, cache: str) -> float:
    """Return a group's limit less what is in use; the cache of files in it can be dropped and counts as free."""
    try:
        allowed = (group / limit).read_text().strip()
        if allowed == "max":
            return NO_LIMIT
        lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
        droppable = next((int(value) for key, value in lines if key == cache), 0)
        return float(max(int(allowed) - int((group / used).read_text()) + droppable, 0))
    except (OSError, ValueError):
        return NO_LIMIT
