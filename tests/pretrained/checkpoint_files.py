"""Small checkpoints on disk: what the tests of this room write, by the libraries that others write them with."""

import importlib.util
import json
import struct
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

SHARED = Path(__file__).parents[3] / "shared" / "data"
STORED_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}


def shared(name):
    """Return a file or folder of the shared data, or skip."""
    if not (SHARED / name).exists():
        pytest.skip(f"the shared data ({name}) are not on this machine")
    return SHARED / name


def packaged(package, name):
    """Return a file or folder in a package of weights, found without importing it, or skip."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0]) / name


def write_safetensors(folder, tensors, *, shards=1, dtype="F32", config=None):
    """Write tensors (name -> array) as model.safetensors, or as shards with their index; return the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stored = {name: np.asarray(array, STORED_DTYPES[dtype], order="C") for name, array in tensors.items()}
    if shards == 1:
        save_file(stored, folder / "model.safetensors", {"format": "pt"})
    else:
        weight_map = {}
        for number in range(shards):
            file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
            names = list(stored)[number::shards]
            save_file({name: stored[name] for name in names}, folder / file)
            weight_map |= dict.fromkeys(names, file)
        write_index(folder, weight_map)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_index(folder, weight_map):
    """Write model.safetensors.index.json; return its path."""
    path = Path(folder) / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map}))
    return path


def raw_safetensors(header, data=b""):
    """Return the bytes of a safetensors file with any header, text or JSON, right or wrong."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + data


def write_gguf(path, tensors, *, arch="llama", metadata=None, quantization=None):
    """Write tensors (name -> array in numpy order) as one GGUF file; return its path.

    `metadata` are plain values by their own keys. `quantization`, "Q8_0" say, is of the matrices; vectors stay F32.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, arch)
    for key, value in (metadata or {}).items():
        _add_value(writer, key, value)
    for name, array in tensors.items():
        array = np.ascontiguousarray(array, np.float32)
        if quantization is None or array.ndim < 2:
            writer.add_tensor(name, array)
        else:
            kind = gguf.GGMLQuantizationType[quantization]
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_value(writer, key, value):
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def raw_gguf(*, values=(), tensors=(), num_values=None, num_tensors=None, version=3, data=b""):
    """Return the bytes of a GGUF file, right or wrong.

    `values` are (key, number of the type, bytes of the value), `tensors` (name, extents innermost first, number of
    the type, offset).
    """
    counts = (len(tensors) if num_tensors is None else num_tensors, len(values) if num_values is None else num_values)
    header = b"GGUF" + struct.pack("<IQQ", version, *counts)
    for key, kind, value in values:
        header += gguf_string(key) + struct.pack("<I", kind) + value
    for name, extents, kind, offset in tensors:
        header += gguf_string(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, offset)
    return header + bytes(-len(header) % 32) + data


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text.encode()
