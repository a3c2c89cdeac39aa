"""One basis for several layers: how much of their matrices survives on the side that they share.

Layers whose leading directions line up can keep a common basis `B` (rank, d) of the space that they read from
(`W ~ W B^T B`) or write to (`W ~ B^T B W`). Everything follows from the Gram matrices of that side, one a layer, and
from one `eigh` of their mean: the best basis of rank r is the first r rows of that of rank r + 1.

What such a basis keeps means nothing by itself. A random basis keeps `r / d` on average, but a basis that is fitted to
unrelated layers keeps far more than that (`unrelated_gram`), and no basis more than each layer's own (`own_energy`).
Layers share as much as lies between the last two.
"""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from geocont_jax.geometry.continuity import energy_shares, normalised
from geocont_jax.geometry.spectra import HIGHEST, at_precision

Side = Literal["v", "u"]


class SharedBasis(NamedTuple):
    """Orthonormal rows (rank, d), and the share of energy (rank,) that the first r of them keep, mean over layers."""

    rows: Array
    kept: Array


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


@jax.jit
def shared_basis(mean_gram: Array) -> SharedBasis:
    """Return the basis whose first r rows keep the largest share of `|W|_F^2` on average over layers, for every r.

    Its rows are the eigenvectors of the mean of the layers' Gram matrices, largest value first: by Ky Fan's principle
    `mean_l tr(B G_l B^T)` is largest there, and it is the sum of the r largest eigenvalues. Where values tie at r the
    basis of rank r is one of many, but what it keeps is not.

    Shapes: `mean_gram` (d, d), of `side_gram`s; results (rank, d) and (rank,) with rank = d, all NaN where it is.

    >>> found = shared_basis((jnp.diag(jnp.array([0.25, 0.75])) + jnp.diag(jnp.array([0.5, 0.5]))) / 2)
    >>> abs(found.rows).tolist(), found.kept.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [0.625, 1.0])
    """
    sound = jnp.all(jnp.isfinite(mean_gram))
    values, vectors = jnp.linalg.eigh(jnp.where(sound, mean_gram, 0.0))
    kept = jnp.clip(jnp.cumsum(values[::-1]), 0.0, 1.0)
    return SharedBasis(jnp.where(sound, vectors[:, ::-1].T, jnp.nan), jnp.where(sound, kept, jnp.nan))


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


@partial(jax.jit, static_argnames=("rank", "dimension"))
def random_frame(key: Array, rank: int, dimension: int) -> Array:
    """Return `rank` orthonormal rows, uniformly random: (rank, dimension)."""
    return jax.random.orthogonal(key, dimension, (), jnp.float32, m=rank).T


@jax.jit
def unrelated_gram(values: Array, frame: Array) -> Array:
    """Return the Gram matrix of a layer with these singular values that has nothing to do with others.

    What a shared basis keeps of such layers is chance: a basis that is fitted to layers keeps more of them than a
    random one, whatever they are. `frame` are its singular vectors, a `random_frame` of its own for each layer; one
    draw is enough for wide layers: at d = 576 with four layers, draws differ by less than 0.001.

    Shapes: `values` (rank,) of singular values, `frame` (rank, d), result (d, d); NaN for a zero layer.

    >>> keys = jax.random.split(jax.random.key(0), 4)  # four random lines in 64 dimensions
    >>> grams = [unrelated_gram(jnp.ones(1), random_frame(key, 1, 64)) for key in keys]
    >>> [round(float(shared_basis(sum(grams) / 4).kept[rank - 1]), 1) for rank in (1, 2, 4)]
    [0.3, 0.6, 1.0]
    """
    scaled = frame * jnp.sqrt(energy_shares(values))[:, None]
    return jnp.einsum("ka,kb->ab", scaled, scaled, precision=HIGHEST)
