"""What is known of a stored tensor before it is read, and its bytes as an array that is paged in when touched."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from geocont_jax.errors import InputError

MAX_DIMENSIONS = 64  # of a numpy array
MAX_ELEMENTS = 2**58


class TensorInfo(NamedTuple):
    """A tensor as its file describes it: shape in numpy order, type as the format names it, first byte in the file."""

    shape: tuple[int, ...]
    dtype: str
    file: Path
    offset: int = 0


def is_shape(numbers: Sequence[int]) -> bool:
    """Return whether an array may have this shape: what a file claims of an empty tensor is bound by nothing else.

    >>> is_shape((2, 3)), is_shape((0, 2**62)), is_shape((-1,))
    (True, False, False)
    """
    fits = len(numbers) <= MAX_DIMENSIONS and all(0 <= number <= MAX_ELEMENTS for number in numbers)
    return fits and math.prod(max(number, 1) for number in numbers) <= MAX_ELEMENTS


def map_tensor(info: TensorInfo, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return the stored bytes of a tensor as a read-only array of `dtype` and `shape`.

    Only the tensor's own part of the file is mapped, so that a file may be larger than the address space allowed.
    Raises InputError where the file is not what it was when it was opened.
    """
    if 0 in shape:
        return np.empty(shape, dtype)
    try:
        return np.memmap(info.file, dtype, "r", info.offset, shape)
    except (OSError, ValueError) as error:
        raise InputError(f"{info.file}: cannot be read any more ({error}); was it changed? Start again") from None


def check_layout(spans: Iterable[tuple[int, int, str]], start: int, path: Path) -> None:
    """Check that tensors, as (first byte, byte after the last, name), lie behind the header and apart from each other.

    Raises InputError where one begins before `start`, shares bytes with another, or ends after the file.
    """
    size = path.stat().st_size
    end, before = start, "the header"
    for first, after, name in sorted(spans):
        if after > size:
            raise InputError(f"{path}: truncated, {name!r} should end at byte {after:,} of {size:,}; download it again")
        if first < end:
            raise InputError(f"{path}: damaged, {name!r} overlaps with {before}; download it again")
        end, before = after, repr(name)
