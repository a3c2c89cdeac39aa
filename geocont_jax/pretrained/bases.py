"""The shared basis of a window of layers, layer by layer: a sum of Gram matrices is all that is kept of them."""

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geocont_jax.geometry.shared_basis import (
    Side,
    own_energy,
    random_frame,
    shared_basis,
    side_gram,
    unrelated_gram,
)

UNRELATED_SEED = 0
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
# Random frames up to this dimension are drawn once and kept; of wide models they would fill the memory.
KEPT_DIMENSION = 1024


class WindowSum(NamedTuple):
    """Sums over layers of a window: of Gram matrices, of those of unrelated layers, of what each keeps by itself."""

    number: int
    gram: Array
    unrelated: Array
    own: Array


def add_layer(total: WindowSum | None, matrix: np.ndarray, values: np.ndarray, side: Side) -> WindowSum:
    """Return the sums with a layer more; `values` are its singular values. None begins a window."""
    number = 0 if total is None else total.number
    dimension = matrix.shape[1] if side == "v" else matrix.shape[0]
    frame = _frame(number, len(values), dimension)
    gram, unrelated, own = _parts_of_layer(jnp.asarray(matrix), jnp.asarray(values), frame, side)
    if total is None:
        return WindowSum(1, gram, unrelated, own)
    return WindowSum(number + 1, total.gram + gram, total.unrelated + unrelated, total.own + own)


def energies(total: WindowSum, num_rows: int) -> dict[str, np.ndarray]:
    """Return what bases keep of a window by rank, mean over its layers, and `num_rows` rows of the shared one.

    By name: `shared`, each layer's `own`, `unrelated` (a basis fitted to unrelated layers with the same singular
    values), `random`; `ranks`, and `basis` (rank, d).
    """
    dimension = total.gram.shape[-1]
    ranks = np.array([rank for rank in RANKS if rank <= dimension])
    shared = shared_basis(total.gram / total.number)
    kept = {
        "shared": shared.kept,
        "own": total.own / total.number,
        "unrelated": shared_basis(total.unrelated / total.number).kept,
    }
    by_rank = {name: np.asarray(values)[ranks - 1] for name, values in kept.items()}
    return {**by_rank, "random": ranks / dimension, "ranks": ranks, "basis": np.asarray(shared.rows[:num_rows])}


@partial(jax.jit, static_argnames="side")
def _parts_of_layer(matrix: Array, values: Array, frame: Array, side: Side) -> tuple[Array, Array, Array]:
    gram = side_gram(matrix, side)
    return gram, unrelated_gram(values, frame), own_energy(values, gram.shape[-1])


def _frame(number: int, rank: int, dimension: int) -> Array:
    """Return the random frame of the layer of this number in its window, the same in every window and projection."""
    return (_kept_frame if dimension <= KEPT_DIMENSION else _drawn_frame)(number, rank, dimension)


def _drawn_frame(number: int, rank: int, dimension: int) -> Array:
    return random_frame(jax.random.fold_in(jax.random.key(UNRELATED_SEED), number), rank, dimension)


_kept_frame = lru_cache(maxsize=32)(_drawn_frame)
