"""Along how many directions the parameters can move without changing the function at all."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from geocont_jax.errors import InputError

Apply = Callable[[Any, Array], Array]

RELATIVE_TOLERANCE = 1e-10


class FlatDirections(NamedTuple):
    """The flat directions at a point: `num_flat = num_params - rank` of them.

    `gap` is the smallest singular value that counts as nonzero over the largest that does not, infinite where none
    is left out. A rank is trustworthy where the gap is many orders of magnitude.
    """

    num_params: int
    rank: int
    num_flat: int
    gap: float


def flat_directions(
    apply: Apply, params: Any, x: Array, relative_tolerance: float = RELATIVE_TOLERANCE
) -> FlatDirections:
    """Return the number of directions in which the outputs on the examples `x` do not change to first order.

    `num_params - rank J`, J the Jacobian of all outputs with respect to all parameters, in float64. The rank is the
    number of singular values above `relative_tolerance` times the largest. At a generic point that is the dimension of
    the set of parameters with the same function, if there are enough examples in general position.

    Args: `apply(params, x)`, the function, for any tree of parameters; `x` (example, feature).
    Raises InputError if there are fewer outputs on all examples than parameters: the data would limit the rank.

    >>> import numpy as np
    >>> product = lambda params, x: x * params["a"] * params["b"]  # only the product counts
    >>> flat_directions(product, {"a": 2.0, "b": 3.0}, np.array([[1.0], [2.0]])).num_flat
    1
    """
    with jax.enable_x64():
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), params)
        flat, unravel = ravel_pytree(wide)
        examples = jnp.asarray(np.asarray(x, np.float64))
        # Reverse mode: the networks' own derivative rules exist in this direction only.
        jacobian = np.asarray(jax.jacrev(lambda vector: apply(unravel(vector), examples).reshape(-1))(flat))
    if jacobian.shape[0] < jacobian.shape[1]:
        raise InputError(f"{jacobian.shape[0]} outputs for {jacobian.shape[1]} parameters; give more examples")
    return _split(np.linalg.svd(jacobian, compute_uv=False), relative_tolerance)


def _split(values: np.ndarray, relative_tolerance: float) -> FlatDirections:
    rank = int(np.sum(values > relative_tolerance * values[0]))
    counted, left_out = values[:rank], values[rank:]
    clear = rank == 0 or left_out.size == 0 or left_out[0] == 0
    gap = math.inf if clear else float(counted[-1] / left_out[0])
    return FlatDirections(len(values), rank, len(left_out), gap)
