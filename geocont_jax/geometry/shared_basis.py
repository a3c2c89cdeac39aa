"""One basis for several layers: how much of their matrices survives on the side that they share.

Layers whose leading directions line up can keep a common basis `B` (rank, d) of the space that they read from
(`W ~ W B^T B`) or write to (`W ~ B^T B W`). Everything follows from the Gram matrices of that side, one a layer, and
from one `eigh` of their sum: the best basis of rank r is the first r rows of that of rank r + 1.

What such a basis keeps means nothing by itself. A random basis keeps `r / d` on average, but a basis that is fitted to
unrelated layers keeps far more than that (`unrelated_energy`), and no basis more than each layer's own (`own_energy`).
Layers share as much as lies between the last two.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from geocont_jax.geometry.continuity import energy_shares, normalised
from geocont_jax.geometry.spectra import HIGHEST, at_precision

Side = Literal["v", "u"]


def side_gram(matrix: Array, side: Side) -> Array:
    """Return the Gram matrix of a side over its trace: `W^T W / |W|_F^2` (input, `v`) or `W W^T / |W|_F^2` (`u`).

    Shapes: `matrix` (..., d_out, d_in), result (..., d, d) with d of the side; NaN where the matrix is zero or not
    finite.

    >>> side_gram(jnp.array([[0.0, 3.0], [0.0, 0.0]]), "v").tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    scaled = normalised(at_precision(matrix))
    pattern = "...ka,...kb->...ab" if side == "v" else "...ak,...bk->...ab"
    return jnp.einsum(pattern, scaled, scaled, precision=HIGHEST)


def shared_basis(grams: Array) -> Array:
    """Return the orthonormal rows whose first r keep the largest share of all layers' `|W|_F^2`, for every r.

    The eigenvectors of `sum_l G_l`, largest value first: by Ky Fan's principle `sum_l tr(B G_l B^T)` is largest there.
    Where values tie at r the basis of rank r is one of many, but what it keeps of the sum is not. Layers whose Gram
    matrix is NaN have no say; without any other there is no basis, and all is NaN.

    Shapes: `grams` (layer, d, d) as `side_gram` makes them, result (rank, d) with rank = d.

    >>> shared_basis(jnp.stack([jnp.diag(jnp.array([0.25, 0.75])), jnp.diag(jnp.array([0.5, 0.5]))])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    sound = jnp.all(jnp.isfinite(grams), axis=(-2, -1))
    total = jnp.sum(jnp.where(sound[:, None, None], grams, 0.0), axis=0)
    return jnp.where(jnp.any(sound), jnp.linalg.eigh(total)[1][:, ::-1].T, jnp.nan)


def energy_kept(grams: Array, basis: Array) -> Array:
    """Return the share of each layer's `|W|_F^2` that the first r rows of a basis keep, for every r.

    `tr(B G_l B^T)`, which is `|W_l B^T|_F^2 / |W_l|_F^2` on the input side. Shapes: `grams` (layer, d, d), `basis`
    (rank, d) with orthonormal rows, result (layer, rank); NaN where a Gram matrix is.

    >>> energy_kept(jnp.diag(jnp.array([0.25, 0.75]))[None], jnp.eye(2)).tolist()
    [[0.25, 1.0]]
    """
    along = jnp.sum(jnp.einsum("rb,lba->lra", basis, grams, precision=HIGHEST) * basis[None], axis=-1)
    return jnp.clip(jnp.cumsum(along, axis=-1), 0.0, 1.0)


@jax.jit
def shared_energy(grams: Array) -> Array:
    """Return the share of each layer's `|W|_F^2` that the basis shared by all of them keeps, at every rank 1, 2, ... d.

    Shapes: `grams` (layer, d, d) as `side_gram` makes them, result (layer, d).

    >>> shared_energy(jnp.stack([jnp.diag(jnp.array([0.25, 0.75])), jnp.diag(jnp.array([0.5, 0.5]))])).tolist()
    [[0.75, 1.0], [0.5, 1.0]]
    """
    return energy_kept(grams, shared_basis(grams))


def own_energy(values: Array, dimension: int) -> Array:
    """Return the share of `|W|_F^2` that the best basis of a single layer keeps, at every rank 1, 2, ... `dimension`.

    `sum_{i <= r} s_i^2 / sum_i s_i^2`, 1 beyond the rank. Shapes: `values` (..., rank) of singular values, result
    (..., dimension).

    >>> own_energy(jnp.array([2.0, 2.0]), 3).tolist()
    [0.5, 1.0, 1.0]
    """
    shares = energy_shares(values)
    beyond = [(0, 0)] * (shares.ndim - 1) + [(0, dimension - shares.shape[-1])]
    return jnp.clip(jnp.cumsum(jnp.pad(shares, beyond), axis=-1), 0.0, 1.0)


@jax.jit(static_argnames="dimension")
def unrelated_energy(values: Array, dimension: int, key: Array) -> Array:
    """Return what a shared basis keeps of unrelated layers with the same singular values, at every rank.

    The chance level of `shared_energy`: each layer has a Haar-random frame of its own, one draw by `key`. One is enough
    for wide layers: at d = 576 with four layers, draws differ by less than 0.001.

    Shapes: `values` (layer, rank) of singular values, `dimension` that of the side, result (layer, dimension).

    >>> kept = unrelated_energy(jnp.ones((4, 1)), 64, jax.random.key(0))  # four random lines in 64 dimensions
    >>> [round(float(kept[:, rank - 1].mean()), 1) for rank in (1, 2, 4)]
    [0.3, 0.6, 1.0]
    """
    frames = jax.random.orthogonal(key, dimension, values.shape[:1], values.dtype, m=values.shape[-1])
    scaled = frames * jnp.sqrt(energy_shares(values))[:, None, :]
    return shared_energy(jnp.einsum("lak,lbk->lab", scaled, scaled, precision=HIGHEST))
