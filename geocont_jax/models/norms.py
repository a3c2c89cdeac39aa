"""Normalisations of the residual stream, without gain or bias: one entry each in `NORMS`.

They carry no parameters, so that switching one on changes nothing else about a run, and so that `rmsnorm`
stays equivariant under rotations (a learnt gain would break it) while `layernorm` singles out one direction.
Each maps `(x, epsilon)` to an array like `x` (..., feature).
"""

import jax.numpy as jnp
from jax import Array, lax

from geocont_jax.models.branches import RowFunction

EPSILON = 1e-5


def rmsnorm(x: Array, epsilon: Array) -> Array:
    """Return `x / sqrt(mean(x^2) + epsilon)` over the last axis."""
    return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + epsilon)


def layernorm(x: Array, epsilon: Array) -> Array:
    """Return `(x - mean(x)) / sqrt(var(x) + epsilon)` over the last axis."""
    return rmsnorm(x - jnp.mean(x, axis=-1, keepdims=True), epsilon)


NORMS: dict[str, RowFunction] = {
    "none": lambda x, epsilon: x,
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
}
