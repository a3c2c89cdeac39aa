"""Writing files in one move: a reader, or a process that is killed, sees the old file or the new one."""

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> Path:
    """Put `content`, text as UTF-8, in the place of the file at `path`; return the path."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(partial, path)
    return path
