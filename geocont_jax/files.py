"""Files that others may read or write at the same time: written in one move, in folders that one process holds."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from geocont_jax.errors import InputError


def write_whole(path: Path, content: str | bytes) -> Path:
    """Put `content`, text as UTF-8, in the place of the file at `path`; return the path.

    A reader, or a process that is killed, sees the old file or the new one.
    """
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(partial, path)
    return path


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder, made where it is missing, for this process; raises InputError where another one does."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"{folder}: another process is writing here; wait for it, or use another --out") from None
    try:
        yield
    finally:
        lock.release()
