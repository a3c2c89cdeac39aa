"""Rotations of the residual stream: which of them leave the function of a residual MLP as it is.

A network is given by its parameters, a Flax tree in the convention of `models.residual_mlp` (y = h K for a kernel K,
the transpose of the paper's W): `input_kernel` (feature, width), `hidden_kernel` (layer, width, width), `output_kernel`
(width, class) and, where there are biases, `input_bias` (width,), `hidden_bias` (layer, width), `output_bias`
(class,).
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from geocont_jax.errors import InputError

Params = Mapping[str, Array]
Apply = Callable[[Any, Array], Array]

HIGHEST = lax.Precision.HIGHEST


def rotate_stream(params: Params, rotation: Array) -> dict[str, Array]:
    """Return the parameters of the network whose hidden stream is `R h` wherever the given one's is `h`.

    `W_l -> R W_l R^T`, `W_in -> R W_in`, `W_out -> W_out R^T`, biases of the stream `b -> R b`. The function is
    unchanged if activation and norm commute with R: the shared rotation that the skip path leaves.

    Shapes: `rotation` (width, width), orthogonal. Raises InputError where it does not fit the network.
    Source: the symmetry argument of arXiv 2605.04971.

    >>> import jax.numpy as jnp
    >>> params = {"input_kernel": jnp.eye(2), "hidden_kernel": jnp.diag(jnp.array([1.0, 2.0]))[None]}
    >>> quarter_turn = jnp.array([[0.0, -1.0], [1.0, 0.0]])
    >>> rotate_stream(params | {"output_kernel": jnp.eye(2)}, quarter_turn)["hidden_kernel"].tolist()
    [[[2.0, 0.0], [0.0, 1.0]]]
    """
    num_places = params["hidden_kernel"].shape[0] + 1
    return rotate_layers(params, jnp.broadcast_to(rotation, (num_places, *rotation.shape)))


def rotate_layers(params: Params, rotations: Array) -> dict[str, Array]:
    """Return the parameters of the network whose hidden state is `R_l h_l` wherever the given one's is `h_l`.

    `W_l -> R_{l+1} W_l R_l^T`, `W_in -> R_0 W_in`, `W_out -> W_out R_L^T`, `b_l -> R_{l+1} b_l`. Without a skip path
    the function is unchanged if activation and norm commute with every R_l. With one the R_l must be equal: the path
    hands `R_l h_l` on where `R_{l+1} h_l` is wanted.

    Shapes: `rotations` (layer + 1, width, width), orthogonal: one before each hidden layer and one behind the last.
    Raises InputError where they do not fit the network. Source: the symmetry argument of arXiv 2605.04971.

    >>> import jax.numpy as jnp
    >>> params = {"input_kernel": jnp.eye(2), "hidden_kernel": jnp.diag(jnp.array([1.0, 2.0]))[None]}
    >>> turns = jnp.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, -1.0], [1.0, 0.0]]])
    >>> rotate_layers(params | {"output_kernel": jnp.eye(2)}, turns)["output_kernel"].tolist()
    [[0.0, -1.0], [1.0, 0.0]]
    """
    _check_fit(params, rotations)
    first, before, behind, last = rotations[0], rotations[:-1], rotations[1:], rotations[-1]
    rotated = dict(params)
    rotated["input_kernel"] = _product("fi,ji->fj", params["input_kernel"], first)
    rotated["hidden_kernel"] = _product("lai,lij,lbj->lab", before, params["hidden_kernel"], behind)
    rotated["output_kernel"] = _product("ij,jc->ic", last, params["output_kernel"])
    if "input_bias" in params:
        rotated["input_bias"] = _product("i,ji->j", params["input_bias"], first)
    if "hidden_bias" in params:
        rotated["hidden_bias"] = _product("li,lji->lj", params["hidden_bias"], behind)
    return rotated


def random_rotations(key: Array, dimension: int, count: int) -> Array:
    """Draw Haar-random rotations (count, d, d), of determinant 1.

    >>> import jax
    >>> random_rotations(jax.random.key(0), 5, 3).shape
    (3, 5, 5)
    """
    orthogonal = jax.random.orthogonal(key, dimension, (count,))
    # Turning the first column of the reflections makes them rotations, and leaves the distribution invariant.
    signs = jnp.sign(jnp.linalg.det(orthogonal))
    return orthogonal.at[..., 0].multiply(signs[:, None])


def random_rotations_about(key: Array, direction: Array, count: int) -> Array:
    """Draw Haar-random rotations (count, d, d) among those that leave a direction (d,) where it is.

    `H diag(1, Q) H`, with Q a random rotation of the d - 1 other dimensions and H the reflection that takes the first
    axis to the direction or its opposite.

    >>> import jax, jax.numpy as jnp
    >>> ones = jnp.ones(4)
    >>> bool(jnp.allclose(random_rotations_about(jax.random.key(0), ones, 1)[0] @ ones, ones, atol=1e-5))
    True
    """
    dimension = direction.shape[0]
    unit = direction / jnp.linalg.norm(direction)
    # Away from the nearer of the two signs: the normal of the mirror is then never short.
    normal = unit.at[0].add(jnp.where(unit[0] < 0, -1.0, 1.0))
    mirror = jnp.eye(dimension) - 2.0 * jnp.outer(normal, normal) / jnp.sum(jnp.square(normal))
    others = random_rotations(key, dimension - 1, count)
    blocks = jnp.broadcast_to(jnp.eye(dimension), (count, dimension, dimension)).at[:, 1:, 1:].set(others)
    return _product("ij,njk,kl->nil", mirror, blocks, mirror)


def function_change(apply: Apply, params: Params, changed: Params, x: Array) -> float:
    """Return how much another set of parameters changes the outputs: `max |f'(x) - f(x)| / max |f(x)|`.

    Args: `apply(params, x)`, the function; `x` (example, feature). NaN where all outputs are zero.

    >>> import jax.numpy as jnp
    >>> function_change(lambda params, x: params["a"] * x, {"a": 2.0}, {"a": 3.0}, jnp.ones((1, 2)))
    0.5
    """
    before, after = apply(params, x), apply(changed, x)
    return float(jnp.max(jnp.abs(after - before)) / jnp.max(jnp.abs(before)))


def _product(subscripts: str, *operands: Array) -> Array:
    return jnp.einsum(subscripts, *operands, precision=HIGHEST)


def _check_fit(params: Params, rotations: Array) -> None:
    num_layers, width, _ = params["hidden_kernel"].shape
    if rotations.shape != (num_layers + 1, width, width):
        raise InputError(
            f"rotations of shape {rotations.shape} for {num_layers} layers of {width}; "
            f"give {(num_layers + 1, width, width)}"
        )
