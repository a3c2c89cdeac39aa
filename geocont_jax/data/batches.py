"""Which examples make up a batch: a function of (seed, purpose, epoch), the same in whatever company a run is.

The seed and the purpose are in the key, the epoch is folded into it; nothing is drawn from a state that is
threaded along. Everything here works with traced keys, epochs and steps, under jit, vmap and loops.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax

from geocont_jax.errors import InputError


def steps_per_epoch(num_examples: int, batch_size: int) -> int:
    """Return the number of whole batches in an epoch.

    Raises InputError where there is not even one.

    >>> steps_per_epoch(60_000, 128)
    468
    """
    if not 1 <= batch_size <= num_examples:
        raise InputError(
            f"data.batch_size: {batch_size} is not between 1 and {num_examples}, the number of training examples"
        )
    return num_examples // batch_size


def epoch_order(key: Array, epoch: Array, num_examples: int) -> Array:
    """Return the order (num_examples,) int32 in which an epoch goes through the training examples.

    A function of (seed, purpose, epoch) alone: runs with the same key go through the same batches.
    """
    return jax.random.permutation(jax.random.fold_in(key, epoch), jnp.arange(num_examples, dtype=jnp.int32))


def batch_indices(order: Array, step_in_epoch: Array, batch_size: int) -> Array:
    """Return the examples (batch_size,) of one step of an epoch, counted from 0 to `steps_per_epoch - 1`."""
    return lax.dynamic_slice_in_dim(order, step_in_epoch * batch_size, batch_size)


def standardise(pixels: Array, mean: Array, std: Array) -> Array:
    """Return pixels as float32 with the training set's mean 0 and standard deviation 1.

    `(x / 255 - mean) / std` for uint8 pixels, `(x - mean) / std` for floats.
    """
    # Scale and offset are scalars, so a pixel costs a multiplication and an addition, not a division.
    values = pixels.astype(jnp.float32)
    return (values / 255.0 if pixels.dtype == jnp.uint8 else values) * (1.0 / std) - mean / std
