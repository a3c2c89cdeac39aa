"""The model kinds a grid file can name: one entry each in `MODELS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from geocont_jax.models import residual_mlp

Params = Mapping[str, Any]


@dataclass(frozen=True)
class ModelKind:
    """How to build a model of one kind, and which of its matrices are measured.

    `build(section, num_features, num_classes, unroll)` returns a Flax module called as `(x, hypers)`;
    `measured_kernels(params)` the stacks of Flax kernels (layer, d_in, d_out) to measure, by projection name.
    """

    build: Callable[[Any, int, int, int], nn.Module]
    measured_kernels: Callable[[Params], dict[str, Array]]


def paper_orientation(kernels: Mapping[str, Array]) -> dict[str, Array]:
    """Turn Flax kernels (layer, d_in, d_out) into the paper's matrices `y = W x` (layer, d_out, d_in)."""
    return {name: jnp.swapaxes(kernel, -1, -2) for name, kernel in kernels.items()}


MODELS: dict[str, ModelKind] = {
    "residual_mlp": ModelKind(residual_mlp.build, residual_mlp.measured_kernels),
}
