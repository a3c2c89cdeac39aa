"""A checkpoint that was never on disk."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from geocont_jax.pretrained.tensors import TensorInfo


@dataclass
class MemoryCheckpoint:
    """Tensors by name, as any format would give them."""

    arrays: dict[str, np.ndarray]
    config: dict[str, Any] = field(default_factory=dict)
    format: str = "safetensors"
    path: Path = Path("/models/tiny")

    @property
    def tensors(self):
        return {name: TensorInfo(array.shape, "F32", self.path) for name, array in self.arrays.items()}

    def read(self, name, rows=slice(None)):
        return np.array(self.arrays[name][rows], np.float32)
