"""The header of a GGUF file: metadata, and name, shape, type and place of each tensor.

It is walked here because `gguf.GGUFReader` takes seconds for the vocabulary of a real file, maps all of the file,
and loops for as long as a damaged header tells it to. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import mmap
import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

from geocont_jax.errors import InputError
from geocont_jax.pretrained.tensors import is_shape
from geocont_jax.pretrained.untrusted import read_head

MAGIC = b"GGUF"
HEADER_LIMIT = 100_000_000  # bytes; the vocabulary and merges of the largest tokenizers take about 20 million
KEPT_ITEMS = 1024  # of an array: one value a layer is kept, a vocabulary is not
MAX_DIMENSIONS = 4
DEFAULT_ALIGNMENT = 32

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9


class Entry(NamedTuple):
    """A tensor as the header describes it: shape in numpy order, number of its type, first byte in the file."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


class Header(NamedTuple):
    """What a file says of itself: metadata by key without long arrays, tensors, and the first byte after it."""

    metadata: dict[str, Any]
    entries: list[Entry]
    end: int


def read_header(path: Path) -> Header:
    """Return the header of a file.

    Raises InputError where the file is not GGUF or its header is damaged. Whatever counts a header claims, no more
    than its own bytes are walked.
    """
    head = read_head(path)
    if not head.startswith(MAGIC):
        raise InputError(f"{path}: not GGUF, it begins with {head[:4]!r}; download it again")
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        with mmap.mmap(file.fileno(), min(size, HEADER_LIMIT), access=mmap.ACCESS_READ) as data:
            try:
                return _walk(_Cursor(data))
            except struct.error:
                end = "is too long" if size > HEADER_LIMIT else "does not end"
                raise InputError(f"{path}: truncated or damaged, its header {end}; download it again") from None
            except ValueError as error:
                raise InputError(f"{path}: {error}; download it again") from None


def _walk(cursor: "_Cursor") -> Header:
    cursor.skip(len(MAGIC))
    _check_version(cursor.number("<I"))
    num_tensors, num_values = cursor.number("<Q"), cursor.number("<Q")
    metadata: dict[str, Any] = {}
    for _ in range(num_values):
        key = cursor.string()
        if key in metadata:
            raise ValueError(f"metadata {key!r} is given twice")
        metadata[key] = cursor.value(cursor.number("<I"))
    entries = [_read_entry(cursor) for _ in range(num_tensors)]
    if len({entry.name for entry in entries}) < len(entries):
        raise ValueError("a tensor is given twice")
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise ValueError(f"general.alignment must be a power of two, got {alignment!r:.40}")
    end = cursor.place + -cursor.place % alignment
    known = {key: value for key, value in metadata.items() if value is not None}
    return Header(known, [entry._replace(offset=end + entry.offset) for entry in entries], end)


def _check_version(version: int) -> None:
    if version & 0xFFFF == 0:
        raise ValueError("its bytes are in big-endian order (gguf-convert-endian turns them)")
    if version not in (2, 3):
        raise ValueError(f"GGUF version {version}, and only 2 and 3 are read")


def _read_entry(cursor: "_Cursor") -> Entry:
    name = cursor.string()
    if (dimensions := cursor.number("<I")) > MAX_DIMENSIONS:
        raise ValueError(f"tensor {name!r} has {dimensions:,} dimensions")
    extents = [cursor.number("<Q") for _ in range(dimensions)]
    if not is_shape(extents):
        raise ValueError(f"tensor {name!r}: no array has the shape {extents}")
    return Entry(name, tuple(reversed(extents)), cursor.number("<I"), cursor.number("<Q"))


class _Cursor:
    """A place in a header that is read from front to back; raises struct.error where it would leave the header."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.place = 0

    def skip(self, length: int) -> int:
        """Move on by `length` bytes; return the place before."""
        before = self.place
        if length > len(self._data) - before:
            raise struct.error
        self.place += length
        return before

    def number(self, code: str) -> Any:
        return struct.unpack_from(code, self._data, self.skip(struct.calcsize(code)))[0]

    def string(self) -> str:
        start = self.skip(self.number("<Q"))
        return self._data[start : self.place].decode(errors="replace")

    def value(self, kind: int) -> Any:
        """Return a value of metadata, None in place of a long array."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self._array(self.number("<I"), self.number("<Q"))
        raise ValueError(f"metadata of unknown type {kind}")

    def _array(self, kind: int, count: int) -> list[Any] | None:
        if kind != STRING and kind not in SCALARS:
            raise ValueError(f"metadata of unknown type, an array of {kind}")
        if count <= KEPT_ITEMS:
            return [self.value(kind) for _ in range(count)]
        if kind == STRING:
            for _ in range(count):
                self.skip(self.number("<Q"))
        else:
            self.skip(count * struct.calcsize(SCALARS[kind]))
        return None
