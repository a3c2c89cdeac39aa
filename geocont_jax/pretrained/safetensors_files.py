"""safetensors files, single and sharded: the headers are checked, then one tensor at a time is mapped into memory.

The format is eight bytes with the length of a JSON header, the header (name -> dtype, shape, first and last byte), and
the bytes. It is read here because the `safetensors` library accepts a name that is given twice in silence and maps
whole files, which a limit on memory may not allow.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from geocont_jax.errors import InputError
from geocont_jax.pretrained.tensors import TensorInfo, check_layout, is_shape, map_tensor
from geocont_jax.pretrained.untrusted import (
    JSON_LIMIT,
    find_all,
    find_inside,
    first_of,
    parse_json,
    read_head,
    read_json,
)

INDEX_SUFFIX = ".safetensors.index.json"

WEIGHT_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
DTYPE_BITS = {
    **{name: 8 * dtype.itemsize for name, dtype in WEIGHT_DTYPES.items()},
    **dict.fromkeys(("C64", "I64", "U64"), 64),
    **dict.fromkeys(("I32", "U32"), 32),
    **dict.fromkeys(("I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


@dataclass(frozen=True)
class SafetensorsCheckpoint:
    """An open checkpoint of one or more safetensors files (`geocont_jax.pretrained.checkpoint.Checkpoint`)."""

    path: Path
    tensors: Mapping[str, TensorInfo]
    config: Mapping[str, Any]
    format: ClassVar[str] = "safetensors"

    def read(self, name: str, rows: slice = slice(None)) -> np.ndarray:
        """Return a tensor, or rows of its first axis, as float32; non-finite values are passed on.

        Raises InputError for types that are no weights (integers, 8-bit floats), KeyError for unknown names.
        """
        info = self.tensors[name]
        if info.dtype not in WEIGHT_DTYPES:
            raise InputError(
                f"{info.file}: {name!r} is stored as {info.dtype}, and only {', '.join(WEIGHT_DTYPES)} are read as "
                "weights; convert the checkpoint to BF16 first"
            )
        stored = map_tensor(info, WEIGHT_DTYPES[info.dtype], info.shape)
        with np.errstate(all="ignore"):
            return np.array(stored[rows] if stored.ndim else stored, np.float32)


def open_safetensors(path: Path, files: Sequence[Path]) -> SafetensorsCheckpoint:
    """Open an index with its shards (`files` is the index alone) or files that share no tensor; only headers are read.

    Raises InputError where a file is missing or damaged, lies elsewhere than beside the index, or repeats a tensor.
    """
    is_index = files[0].name.endswith(INDEX_SUFFIX)
    tensors = _tensors_of_index(files[0]) if is_index else _tensors_of_files(files)
    if not tensors:
        raise InputError(f"{files[0]}: holds no tensors; is it the right file?")
    config = find_inside(files[0].parent, "config.json")
    return SafetensorsCheckpoint(path, tensors, read_json(config) if config else {})


def read_weight_map(index: Path) -> dict[str, str]:
    """Return the shard of each tensor, by an index; raises InputError where a shard is not a plain file name."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise InputError(f"{index}: must have a weight_map from tensors to files; download it again")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or shard in ("", ".", "..") or set(shard) & set("/\\"):
            raise InputError(f"{index}: {name!r} is in {shard!r:.80}, which names no file beside it; download it again")
    return weight_map


def _tensors_of_index(index: Path) -> dict[str, TensorInfo]:
    weight_map = read_weight_map(index)
    shards = sorted(set(weight_map.values()))
    paths = find_all(index.parent, shards, index)
    headers = {shard: read_header(path) for shard, path in zip(shards, paths, strict=True)}
    absent = [name for name, shard in weight_map.items() if name not in headers[shard]]
    if absent:
        raise InputError(
            f"{index}: {len(absent)} of {len(weight_map)} tensors are not in their shards "
            f"({first_of(absent)}); index and shards do not belong together, download all of them again"
        )
    return {name: headers[shard][name] for name, shard in weight_map.items()}


def _tensors_of_files(files: Sequence[Path]) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for file in files:
        found = read_header(file)
        if twice := sorted(tensors.keys() & found):
            raise InputError(f"{file}: {first_of(twice)} are also in {tensors[twice[0]].file.name}; name one file")
        tensors |= found
    return tensors


def read_header(path: Path) -> dict[str, TensorInfo]:
    """Return the tensors of a file by name; raises InputError where the header or the size of the file is wrong."""
    length = int.from_bytes(read_head(path)[:8], "little")
    size = path.stat().st_size
    start = 8 + length
    if size < 8 or length > JSON_LIMIT:
        raise InputError(f"{path}: not safetensors, its header would have {length:,} bytes; download it again")
    if start > size:
        raise InputError(f"{path}: truncated, its header ends at byte {start:,} of {size:,}; download it again")
    with open(path, "rb") as file:
        file.seek(8)
        header = parse_json(file.read(length), f"{path}: header")
    header.pop("__metadata__", None)
    tensors, spans = {}, []
    for name, entry in header.items():
        try:
            tensors[name], stored = _read_entry(entry, path, start)
        except ValueError as error:
            raise InputError(f"{path}: tensor {name!r}: {error}; download it again") from None
        spans.append((tensors[name].offset, tensors[name].offset + stored, name))
    check_layout(spans, start, path)
    return tensors


def _read_entry(entry: Any, path: Path, start: int) -> tuple[TensorInfo, int]:
    """Return a tensor and how many bytes it has; raises ValueError where its description contradicts itself."""
    if not isinstance(entry, dict):
        raise ValueError("must have dtype, shape and data_offsets")
    dtype = entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise ValueError(f"unknown dtype {dtype!r:.40}, only {', '.join(DTYPE_BITS)} are known")
    shape, offsets = _integers(entry, "shape"), _integers(entry, "data_offsets")
    if not is_shape(shape):
        raise ValueError(f"no array has the shape {shape!s:.80}")
    if len(offsets) != 2 or 8 * (offsets[1] - offsets[0]) != math.prod(shape) * DTYPE_BITS[dtype]:
        raise ValueError(f"{dtype} of shape {shape} does not take the bytes of its data_offsets {offsets!s:.80}")
    return TensorInfo(tuple(shape), dtype, path, start + offsets[0]), offsets[1] - offsets[0]


def _integers(entry: dict[str, Any], key: str) -> list[int]:
    numbers = entry.get(key)
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ValueError(f"{key} must be a list of integers, got {numbers!r:.40}")
    return numbers
