"""How directions line up from each layer to the next."""

import jax.numpy as jnp
from jax import Array


def adjacent_cosines(directions: Array) -> Array:
    """Return |cos| between the unit directions of adjacent layers.

    `c_l = |v_l . v_{l+1}|`, l = 0..L-2; averaged over l it is the paper's continuity. NaN where either is NaN.
    Shapes: `directions` (..., layer, d), result (..., pair). Source: arXiv 2605.04971, Eq. 1.

    >>> import jax.numpy as jnp
    >>> adjacent_cosines(jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 0.0]
    """
    # A sum of products, not a matrix product: accelerators would round its operands to fewer bits.
    cosines = jnp.sum(directions[..., :-1, :] * directions[..., 1:, :], axis=-1)
    return jnp.minimum(jnp.abs(cosines), 1.0)


def frobenius_norm(matrices: Array) -> Array:
    """Return `|W|_F` of each matrix (..., d_out, d_in), without overflow where the entries are large."""
    largest = jnp.max(jnp.abs(matrices), axis=(-2, -1), keepdims=True)
    scale = jnp.where(largest > 0, largest, 1.0)
    return scale[..., 0, 0] * jnp.sqrt(jnp.sum(jnp.square(matrices / scale), axis=(-2, -1)))


def movement_ratio(moved: Array, initial: Array) -> Array:
    """Return `|W - W0|_F / |W0|_F` of each matrix.

    Shapes: `moved` (that is W - W0) and `initial` (..., d_out, d_in), result (...).
    """
    return frobenius_norm(moved) / frobenius_norm(initial)
