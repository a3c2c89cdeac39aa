"""GGUF files, whole or split: one tensor at a time is mapped into memory and dequantised by the `gguf` package."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from geocont_jax.errors import InputError
from geocont_jax.pretrained.gguf_header import Entry, read_header
from geocont_jax.pretrained.tensors import TensorInfo, check_layout, map_tensor
from geocont_jax.pretrained.untrusted import first_of

BLOCK_ELEMENTS = 2**18  # dequantised at a time: it takes several times the memory of its result
BYTES = np.dtype(np.uint8)


@dataclass(frozen=True)
class GgufCheckpoint:
    """An open GGUF checkpoint (`geocont_jax.pretrained.checkpoint.Checkpoint`); the config is its metadata."""

    path: Path
    tensors: Mapping[str, TensorInfo]
    config: Mapping[str, Any]
    format: ClassVar[str] = "gguf"

    def read(self, name: str, rows: slice = slice(None)) -> np.ndarray:
        """Return a tensor, or rows of its first axis, dequantised to float32; other rows are not touched.

        Raises InputError for types that the gguf package does not dequantise, KeyError for unknown names.
        """
        info = self.tensors[name]
        if len(info.shape) < 2:  # blocks of weights run along the only axis: dequantise first, then cut
            row = self._dequantize(name, (1, *(info.shape or (1,))), slice(None))
            return row.reshape(info.shape)[rows] if info.shape else row.reshape(())
        return self._dequantize(name, info.shape, rows)

    def _dequantize(self, name: str, shape: tuple[int, ...], rows: slice) -> np.ndarray:
        constants, quants = _package(self.path)
        info = self.tensors[name]
        kind = constants.GGMLQuantizationType[info.dtype]
        stored = map_tensor(info, BYTES, quants.quant_shape_to_byte_shape(shape, kind))[rows]
        found = np.empty((len(stored), *shape[1:]), np.float32)
        if found.size == 0:
            return found
        step = max(1, BLOCK_ELEMENTS // math.prod(shape[1:]))
        try:
            with np.errstate(all="ignore"):
                for first in range(0, len(found), step):
                    found[first : first + step] = quants.dequantize(stored[first : first + step], kind)
        except NotImplementedError:
            raise InputError(
                f"{info.file}: {name!r} is stored as {info.dtype}, which the installed gguf does not dequantise; "
                "update gguf, or take the model in another type"
            ) from None
        return found


def open_gguf(path: Path, files: Sequence[Path]) -> GgufCheckpoint:
    """Open a GGUF file, or all parts of a split one in their order; only headers are read.

    Raises InputError where the gguf package is not installed, and where a file is damaged or parts are missing.
    """
    constants, _ = _package(path)
    tensors: dict[str, TensorInfo] = {}
    config: dict[str, Any] = {}
    for file in files:
        header = read_header(file)
        config = config or header.metadata  # of the first part; the others have next to none
        if header.metadata.get("split.count", 1) not in (0, 1, len(files)):
            raise InputError(f"{file}: a part of a split model; put all parts beside it, named ...-00001-of-0000N.gguf")
        found = _describe(header.entries, header.end, file, constants)
        if twice := sorted(tensors.keys() & found):
            raise InputError(f"{file}: {first_of(twice)} are also in another part; download all parts again")
        tensors |= found
    if not tensors:
        raise InputError(f"{path}: holds no tensors; is it the right file?")
    return GgufCheckpoint(path, tensors, config)


def _describe(entries: Sequence[Entry], start: int, file: Path, constants: Any) -> dict[str, TensorInfo]:
    """Return the tensors of a file by name; raises InputError where a type is unknown or the file too short."""
    tensors, spans = {}, []
    for name, shape, number, offset in entries:
        try:
            kind = constants.GGMLQuantizationType(number)
        except ValueError:
            raise InputError(
                f"{file}: tensor {name!r} is of type {number}, unknown to the installed gguf; update gguf"
            ) from None
        block_weights, block_bytes = constants.GGML_QUANT_SIZES[kind]
        if (shape[-1] if shape else 1) % block_weights:
            raise InputError(f"{file}: tensor {name!r} of shape {shape} is not cut into blocks of {kind.name}; damaged")
        tensors[name] = TensorInfo(shape, kind.name, file, offset)
        spans.append((offset, offset + math.prod(shape) // block_weights * block_bytes, name))
    check_layout(spans, start, file)
    return tensors


def _package(path: Path) -> tuple[Any, Any]:
    """Return `constants` and `quants` of the gguf package; raises InputError where it is not installed."""
    try:
        from gguf import constants, quants
    except ImportError as error:
        raise InputError(
            f"{path}: reading GGUF needs {error.name}, which is not installed; pip install 'geocont_jax[gguf]'"
        ) from None
    return constants, quants
