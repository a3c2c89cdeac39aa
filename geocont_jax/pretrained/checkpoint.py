"""An open checkpoint, whatever its format: tensors by name, read one at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from geocont_jax.pretrained.gguf_file import open_gguf
from geocont_jax.pretrained.locate import locate
from geocont_jax.pretrained.safetensors_files import open_safetensors
from geocont_jax.pretrained.tensors import TensorInfo


class Checkpoint(Protocol):
    """The weights of a model on disk; nothing but headers is read before it is asked for.

    `tensors` have shapes in numpy order, (d_out, d_in) for a linear layer that is stored as y = W x. `config` is
    config.json, or the metadata of a GGUF file by its own keys ("llama.block_count"), empty where there is none.
    """

    @property
    def path(self) -> Path:
        """What the user named, resolved."""

    @property
    def format(self) -> str:
        """safetensors or gguf."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """What is known of each tensor, by its name in the file."""

    @property
    def config(self) -> Mapping[str, Any]:
        """What the checkpoint says of its model."""

    def read(self, name: str, rows: slice = slice(None)) -> np.ndarray:
        """Return a tensor, or rows of its first axis, as float32.

        16-bit floats are widened exactly, quantised weights dequantised, non-finite values passed on.
        Raises InputError where a type cannot be read as weights, KeyError for an unknown name.
        """


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a folder, a .safetensors file, an index of shards (*.safetensors.index.json), a .gguf file, or hf:org/name.

    Raises InputError, one line with the file and the way out, for all that is missing, damaged or unsafe to open.

    >>> import tempfile
    >>> from safetensors.numpy import save_file
    >>> folder = Path(tempfile.mkdtemp())
    >>> save_file({"mlp.weight": np.eye(2, 3, dtype=np.float16)}, folder / "model.safetensors")
    >>> checkpoint = open_checkpoint(folder)
    >>> checkpoint.format, checkpoint.tensors["mlp.weight"].shape, checkpoint.tensors["mlp.weight"].dtype
    ('safetensors', (2, 3), 'F16')
    >>> checkpoint.read("mlp.weight", rows=slice(1, 2))
    array([[0., 1., 0.]], dtype=float32)
    """
    source = locate(path)
    if source.format == "gguf":
        return open_gguf(source.path, source.files)
    return open_safetensors(source.path, source.files)
