"""Distributions of the initial weight matrices, one entry each in `INITIALIZERS`.

Each maps `(key, shape, std)` to a float32 kernel of shape (d_in, d_out). `std` is the grid's `init_std`,
which only `normal` uses.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from geocont_jax.lapack import matrix_by_matrix

Initializer = Callable[[Array, tuple[int, int], Array], Array]


def torch_uniform(key: Array, shape: tuple[int, int], std: Array) -> Array:
    """Draw U(-1/sqrt(d_in), 1/sqrt(d_in)), the default of PyTorch's linear layer: sd 1/sqrt(3 d_in)."""
    bound = shape[0] ** -0.5
    return jax.random.uniform(key, shape, jnp.float32, -bound, bound)


def normal(key: Array, shape: tuple[int, int], std: Array) -> Array:
    """Draw N(0, std^2)."""
    return std * jax.random.normal(key, shape, jnp.float32)


def lecun(key: Array, shape: tuple[int, int], std: Array) -> Array:
    """Draw N(0, 1/d_in)."""
    return shape[0] ** -0.5 * jax.random.normal(key, shape, jnp.float32)


def he(key: Array, shape: tuple[int, int], std: Array) -> Array:
    """Draw N(0, 2/d_in)."""
    return (2.0 / shape[0]) ** 0.5 * jax.random.normal(key, shape, jnp.float32)


def orthogonal(key: Array, shape: tuple[int, int], std: Array) -> Array:
    """Draw a uniformly distributed matrix with orthonormal rows or columns, whichever are fewer."""
    draw = jax.nn.initializers.orthogonal()
    return matrix_by_matrix(lambda key: draw(key, shape, jnp.float32), 0, key)


INITIALIZERS: dict[str, Initializer] = {
    "torch_uniform": torch_uniform,
    "normal": normal,
    "lecun": lecun,
    "he": he,
    "orthogonal": orthogonal,
}
