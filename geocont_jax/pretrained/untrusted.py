"""Files that somebody else wrote: none outside the folder is opened, and each that is not what its name says is named.

Checkpoints come from strangers. What is found in a folder may be a link, what an index names may be a path, and what
was downloaded may be a pointer or a web page; every reader of this room opens files through these checks.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geocont_jax.errors import InputError

JSON_LIMIT = 100_000_000  # bytes; also the limit of a safetensors header


def find_inside(folder: Path, name: str) -> Path | None:
    """Return the file called `name` in a folder, or None where there is none.

    Raises InputError where a link or the name itself leads out of the folder. The cache of the Hugging Face Hub is
    made of links into its own `blobs`, and they are followed.
    """
    path = folder / name
    try:
        home, target = folder.resolve(), path.resolve(strict=True)
        if not target.is_file():  # a folder, or a pipe that would be waited for
            return None
    except (OSError, ValueError, RuntimeError):  # absent, too long, not encodable, a link to itself
        return None
    blobs = [above.parent / "blobs" for above in (home, *home.parents) if above.name == "snapshots"]
    if not any(target.is_relative_to(root) for root in (home, *blobs)):
        raise InputError(f"{path}: leads out of its folder and is not opened; name the folder that it leads to")
    return path


def find_all(folder: Path, names: Sequence[str], asked_by: Path) -> tuple[Path, ...]:
    """Return the files with these names in a folder; raises InputError, which says how many and which are missing."""
    found = [find_inside(folder, name) for name in names]
    missing = [name for name, path in zip(names, found, strict=True) if path is None]
    if missing:
        raise InputError(
            f"{asked_by}: {len(missing)} of {len(names)} files are missing in {folder} ({first_of(missing)}); "
            "download them into it"
        )
    return tuple(path for path in found if path is not None)


def read_head(path: Path, length: int = 512) -> bytes:
    """Return the first bytes of a file; raises InputError where it is empty, a git-lfs pointer or a web page."""
    try:
        with open(path, "rb") as file:
            head = file.read(length)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None
    if not head:
        raise InputError(f"{path}: empty; download it again")
    if head.startswith(b"version https://git-lfs"):
        raise InputError(f"{path}: a git-lfs pointer, not the file itself; run git lfs pull in its folder")
    if head.lstrip().lower().startswith((b"<!doctype", b"<html")):
        raise InputError(f"{path}: a web page, not the file itself; download it again, from the file's own address")
    return head


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; raises InputError where there is none."""
    read_head(path)
    if (size := path.stat().st_size) > JSON_LIMIT:
        raise InputError(f"{path}: {size:,} bytes are too many for a JSON file; is it the right one?")
    return parse_json(path.read_bytes(), str(path))


def parse_json(text: bytes, place: str) -> dict[str, Any]:
    """Return the JSON object in a text; raises InputError, which begins with `place`, where it is none.

    NaN and a name given twice are refused. Infinity passes, no JSON either: transformers writes it into configs.
    """
    try:
        found = json.loads(text.decode(), object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: bad JSON ({error}); download it again, or correct it") from None
    if not isinstance(found, dict):
        raise InputError(f"{place}: must be a JSON object, got {type(found).__name__}; download it again")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice")
        found[name] = value
    return found


def _constant(word: str) -> float:
    if word == "NaN":
        raise ValueError("NaN is no number in JSON")
    return float(word)


def first_of(names: Sequence[str], limit: int = 5) -> str:
    """Return names for people, the first few of them.

    >>> first_of(["b", "a"]), first_of(list("abcdefgh"))
    ("'b', 'a'", "'a', 'b', 'c', 'd', 'e' and 3 more")
    """
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(repr, names[:limit])) + more
