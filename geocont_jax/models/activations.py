"""Activation functions, one entry each: add a line to `ACTIVATIONS` and the grid file knows it.

Each maps `(x, scale)` to an array like `x`: `x` (..., feature), `scale` the positive scalar `activation_scale`,
which only `radial` uses. All have finite derivatives everywhere, at 0 above all.
"""

import jax
import jax.numpy as jnp
from jax import Array

from geocont_jax.models.branches import RowFunction


def radial(x: Array, scale: Array) -> Array:
    r"""Return `x tanh(|x| / scale)`, nonlinear and yet equivariant under rotations: phi(Rx) = R phi(x).

    `|x|` is the Euclidean norm over the last axis. With `scale` far below the typical norm (the paper's
    `scale = 1` at width 256) tanh saturates and the function is the identity to rounding.
    Source: arXiv 2605.04971, section 4.3.

    >>> import jax.numpy as jnp
    >>> radial(jnp.array([3.0, 4.0]), 1e-3).tolist()
    [3.0, 4.0]
    """
    return x * jnp.tanh(vector_norm(x) / scale)


def vector_norm(x: Array) -> Array:
    """Return `|x|` over the last axis, (..., 1), with the derivative 0 at 0."""
    squared = jnp.sum(jnp.square(x), axis=-1, keepdims=True)
    # sqrt has an infinite derivative at 0: the inner where keeps it out of the backward pass.
    positive = squared > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)


def _elementwise(function) -> RowFunction:  # type: ignore[no-untyped-def]
    return lambda x, scale: function(x)


ACTIVATIONS: dict[str, RowFunction] = {
    "relu": _elementwise(jax.nn.relu),
    "gelu": _elementwise(lambda x: jax.nn.gelu(x, approximate=False)),
    "silu": _elementwise(jax.nn.silu),
    "tanh": _elementwise(jnp.tanh),
    "leaky_relu": _elementwise(jax.nn.leaky_relu),
    "identity": _elementwise(lambda x: x),
    "radial": radial,
}
