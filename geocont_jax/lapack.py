"""How LAPACK is called on a CPU: one matrix at a time, by the thread that asks.

JAX hands the matrices of a stack to XLA's pool of threads and blocks one of them until the last is done. Where several
devices, whose programs run on that very pool, do so at once, all threads can be blocked with nobody left to work, and
the process sleeps for ever (docs/architecture.md, "The LAPACK deadlock"). A stack of one is done by whoever asks.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax import Array, lax
from jax.custom_batching import sequential_vmap

Result = TypeVar("Result")


def matrix_by_matrix(solve: Callable[..., Result], num_axes: int, *arrays: Array) -> Result:
    """Return `solve(*arrays)`, arrays and results with the same first `num_axes` axes, those of a stack.

    On a CPU `solve` gets the entries of the stack one after the other, under `vmap` too; elsewhere all at once. What a
    matrix needs stays in its core's cache then, so that this is also the quicker way where each core has a device.

    >>> import jax.numpy as jnp
    >>> matrix_by_matrix(jnp.linalg.inv, 1, jnp.array([[[2.0]], [[4.0]]])).ravel().tolist()
    [0.5, 0.25]
    """

    def in_turn(*arrays: Array) -> Result:
        stack = arrays[0].shape[:num_axes]
        flat = [x.reshape(-1, *x.shape[num_axes:]) for x in arrays]
        found: Any = jax.vmap(sequential_vmap(solve))(*flat)
        return jax.tree.map(lambda x: x.reshape(*stack, *x.shape[1:]), found)

    return lax.platform_dependent(*arrays, cpu=in_turn, default=solve)
