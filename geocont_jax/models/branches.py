"""Choosing one of several functions by a traced index, without paying for the others."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import Array, lax

RowFunction = Callable[[Array, Array], Array]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def apply_branch(branches: tuple[RowFunction, ...], index: Array, x: Array, parameter: Array) -> Array:
    """Return `branches[index](x, parameter)` for a traced integer `index`.

    While `index` is a scalar (the engine keeps it one for all runs that stand abreast) only the chosen branch
    runs. The backward pass recomputes the branch from `x`: plain differentiation of a switch would store the
    intermediate values of *every* branch at every layer. `parameter` is a hyperparameter and has no gradient.

    Shapes: `x` (..., feature); the result has the shape of `x`.
    """
    return lax.switch(index, branches, x, parameter)


def _forward(
    branches: tuple[RowFunction, ...], index: Array, x: Array, parameter: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    return lax.switch(index, branches, x, parameter), (index, x, parameter)


def _backward(
    branches: tuple[RowFunction, ...], saved: tuple[Array, Array, Array], cotangent: Array
) -> tuple[Any, Array, Any]:
    index, x, parameter = saved
    pullbacks = [partial(_pullback, branch) for branch in branches]
    return None, lax.switch(index, pullbacks, x, parameter, cotangent), None


def _pullback(branch: RowFunction, x: Array, parameter: Array, cotangent: Array) -> Array:
    return jax.vjp(lambda rows: branch(rows, parameter), x)[1](cotangent)[0]


apply_branch.defvjp(_forward, _backward)
