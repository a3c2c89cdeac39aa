"""One projection, layer after layer, with two of its matrices in memory.

A model is measured as a stack of two layers at a time, by the quantities that also measure the toy networks
(`geometry.quantities`): a pair of a 70-billion-parameter model and a pair of a residual MLP mean the same thing.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geocont_jax.geometry.continuity import matrix_cosine
from geocont_jax.geometry.quantities import QUANTITIES, Layers, decompose_layers, measure_layers
from geocont_jax.geometry.spectra import Method, leading_residual

# |W v1 - s1 u1| / s1 is some ten float32 roundings where the eigenvectors are good; far above, they did not converge.
LARGEST_RESIDUAL = 1e-4

Values = Mapping[str, np.ndarray]


class Measured(NamedTuple):
    """What is kept of one matrix.

    Its singular values `s` (rank,) and leading vectors `v` (k, d_in), `u` (k, d_out); its quantities `of_layer`, and
    `of_pair` those it has with the layer before it, empty for the first.
    """

    s: np.ndarray
    v: np.ndarray
    u: np.ndarray
    of_layer: Values
    of_pair: Values


def decompose_matrix(matrix: np.ndarray) -> Layers:
    """Return a matrix (d_out, d_in) as a stack of one with its spectrum.

    By the Gram matrix of its smaller side; where the leading triplet misses `LARGEST_RESIDUAL`, by an exact SVD.
    """
    stack = jnp.asarray(matrix)[None]
    layers, residual = _decompose(stack, "gram")
    return layers if not np.asarray(residual)[0] > LARGEST_RESIDUAL else _decompose(stack, "exact")[0]


def measure_next(previous: Layers | None, current: Layers, top_k: int) -> Measured:
    """Return what is kept of the current layer, and of its pair with the previous one where there is one.

    Layers of different shapes have no pair quantities but the cosines of the sides that agree.
    """
    s, v, u = (np.asarray(values[0]) for values in (current.spectrum.s, current.spectrum.v, current.spectrum.u))
    like_before = previous is not None and previous.matrices.shape == current.matrices.shape
    found = _measure(previous if previous is not None and like_before else current, current)
    both = {name: np.asarray(values) for name, values in found.items()}
    of_layer = {name: both[name][-1] for name in LAYER_QUANTITIES}
    of_pair: Values = {}
    if like_before:
        of_pair = {name: both[name][0] for name in PAIR_QUANTITIES}
    elif previous is not None:
        of_pair = _pair_of_unlike(previous, current)
    return Measured(s, v[:top_k], u[:top_k], of_layer, of_pair)


LAYER_QUANTITIES = tuple(name for name, quantity in QUANTITIES.items() if quantity.axes == ("layer",))
PAIR_QUANTITIES = (*(name for name, quantity in QUANTITIES.items() if quantity.axes == ("pair",)), "matrix_cosine")


@partial(jax.jit, static_argnames="method")
def _decompose(stack: Array, method: Method) -> tuple[Layers, Array]:
    layers = decompose_layers(stack, method)
    return layers, leading_residual(*layers)


@jax.jit
def _measure(previous: Layers, current: Layers) -> dict[str, Array]:
    """Return the quantities of two layers that have no other axis than `layer` or `pair`."""
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), previous, current)
    found = measure_layers(both) | {"matrix_cosine": matrix_cosine(both.matrices)}
    return {name: found[name] for name in (*LAYER_QUANTITIES, *PAIR_QUANTITIES)}


def _pair_of_unlike(previous: Layers, current: Layers) -> Values:
    pair = {name: np.full((), np.nan, np.float32) for name in PAIR_QUANTITIES}
    for name, side in {"v1_cosine": "v1", "u1_cosine": "u1"}.items():
        a, b = (np.asarray(getattr(layers.spectrum, side)[0]) for layers in (previous, current))
        if a.shape == b.shape:
            pair[name] = np.minimum(np.abs(a @ b), 1.0)
    return pair
