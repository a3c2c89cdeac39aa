"""How directions, subspaces and whole spectra line up from each layer to the next."""

import jax.numpy as jnp
from jax import Array

from geocont_jax.geometry.spectra import HIGHEST, degenerate_gap


def adjacent_cosines(directions: Array) -> Array:
    """Return |cos| between the unit directions of adjacent layers.

    `c_l = |v_l . v_{l+1}|`, l = 0..L-2; averaged over l it is the paper's continuity. NaN where either is NaN.
    Shapes: `directions` (..., layer, d), result (..., pair). Source: arXiv 2605.04971, Eq. 1.

    >>> import jax.numpy as jnp
    >>> adjacent_cosines(jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 0.0]
    """
    return jnp.minimum(jnp.abs(_row_dots(directions[..., :-1, :], directions[..., 1:, :])), 1.0)


def cosine_matrix(directions: Array) -> Array:
    """Return |cos| between the unit directions of every two layers.

    Shapes: `directions` (..., layer, d), result (..., layer, other_layer), 1 on the diagonal; NaN where either is.
    """
    cosines = jnp.einsum("...id,...jd->...ij", directions, directions, precision=HIGHEST)
    return jnp.minimum(jnp.abs(cosines), 1.0)


def index_matched_alignment(vectors: Array, values: Array) -> Array:
    """Return the sigma^2-weighted alignment of adjacent layers, vectors matched by their place in the spectrum.

    `sum_i p_i^l |v_i^l . v_i^{l+1}|`, `p_i = s_i^2 / sum_j s_j^2`: the reading of Eq. 2 under which the paper's
    numbers come out. Shapes: `vectors` (..., layer, rank, d), `values` (..., layer, rank), result (..., pair).
    Source: arXiv 2605.04971, Eq. 2.
    """
    return jnp.sum(energy_shares(values)[..., :-1, :] * _matched_cosines(vectors), axis=-1)


def symmetric_alignment(vectors: Array, values: Array) -> Array:
    """Return the index-matched alignment with the weights of both layers, `(p_i^l + p_i^{l+1}) / 2`."""
    shares = energy_shares(values)
    return jnp.sum((shares[..., :-1, :] + shares[..., 1:, :]) / 2 * _matched_cosines(vectors), axis=-1)


def best_match_alignment(vectors: Array, values: Array) -> Array:
    """Return `sum_i p_i^l max_j |v_i^l . v_j^{l+1}|`: every vector against the one most like it.

    Over the j whose singular value is more than rounding: the others are any basis of what the matrix does not use.
    """
    floor = degenerate_gap(vectors.shape[-1], vectors.shape[-1])
    used = values[..., 1:, :] > floor * values[..., 1:, :1]
    best = jnp.max(jnp.where(used[..., None, :], jnp.abs(_all_cosines(vectors)), 0.0), axis=-1)
    return jnp.sum(energy_shares(values)[..., :-1, :] * jnp.minimum(best, 1.0), axis=-1)


def full_alignment(vectors: Array, values: Array) -> Array:
    """Return the full double sum of Eq. 2, `sum_ij p_i^l p_j^{l+1} (v_i^l . v_j^{l+1})^2`.

    Whatever basis a degenerate spectrum comes with, the sum is the same: it has a value where the others have none.
    Takes whole spectra; it shares its products with `best_match_alignment`. `gram_alignment` is the same without them.
    """
    shares = energy_shares(values)
    squared = jnp.square(_all_cosines(vectors))
    return jnp.einsum("...i,...ij,...j->...", shares[..., :-1, :], squared, shares[..., 1:, :], precision=HIGHEST)


def gram_alignment(matrices: Array) -> Array:
    """Return the full double sum of Eq. 2, the normalised inner product of adjacent layers' Gram matrices.

    `sum_ij p_i^l p_j^{l+1} (v_i^l . v_j^{l+1})^2 = <G_l, G_{l+1}>_F / (tr G_l tr G_{l+1})`, `G = W^T W`. Needs no
    SVD, and has a value for degenerate spectra too; NaN where a matrix is zero or not finite. For the left side
    give the transposed matrices. Shapes: `matrices` (..., layer, d_out, d_in), result (..., pair).
    """
    scaled = normalised(matrices)
    if matrices.shape[-2] < matrices.shape[-1]:  # |W W'^T|_F^2 is the same, and forms the smaller product
        cross = jnp.einsum("...ak,...bk->...ab", scaled[..., :-1, :, :], scaled[..., 1:, :, :], precision=HIGHEST)
        return jnp.sum(jnp.square(cross), axis=(-2, -1))
    gram = jnp.einsum("...ka,...kb->...ab", scaled, scaled, precision=HIGHEST)
    return jnp.sum(gram[..., :-1, :, :] * gram[..., 1:, :, :], axis=(-2, -1))


def matrix_cosine(matrices: Array) -> Array:
    """Return the cosine of adjacent layers' matrices as they stand, entry by entry.

    `<W_l, W_{l+1}>_F / (|W_l|_F |W_{l+1}|_F)`, -1 to 1: layers whose leading directions agree need not be similar, and
    this says whether they are. For independent random matrices the mean is 0 and the standard deviation
    `1 / sqrt(d_out d_in)`. Shapes: `matrices` (..., layer, d_out, d_in), result (..., pair); NaN where one is zero.

    >>> import jax.numpy as jnp
    >>> layers = jnp.stack([jnp.eye(2), -3 * jnp.eye(2), jnp.ones((2, 2))])
    >>> [round(float(cosine), 2) for cosine in matrix_cosine(layers)]
    [-1.0, -0.71]
    """
    scaled = normalised(matrices)
    return jnp.sum(scaled[..., :-1, :, :] * scaled[..., 1:, :, :], axis=(-2, -1))


def subspace_overlap(vectors: Array) -> Array:
    """Return how much of the space of k orthonormal vectors adjacent layers share, 0 to 1.

    `|V_l^T V_{l+1}|_F^2 / k`, the mean squared cosine of the principal angles; k = 1 gives cos^2.
    Shapes: `vectors` (..., layer, k, d), result (..., pair).
    """
    return jnp.sum(jnp.square(_all_cosines(vectors)), axis=(-2, -1)) / vectors.shape[-2]


def energy_shares(values: Array) -> Array:
    """Return `p_i = s_i^2 / sum_j s_j^2` (..., rank), each singular vector's share of the squared Frobenius norm."""
    largest = jnp.max(values, axis=-1, keepdims=True)
    squared = jnp.square(values / jnp.where(largest > 0, largest, jnp.nan))
    return squared / jnp.sum(squared, axis=-1, keepdims=True)


def effective_rank(values: Array) -> Array:
    """Return `exp(-sum_i p_i log p_i)`, 1 to the rank; NaN for zero. Source: arXiv 2605.04971, Eq. 3.

    Shapes: `values` (..., rank) of singular values, result (...).

    >>> import jax.numpy as jnp
    >>> effective_rank(jnp.array([2.0, 2.0, 0.0])).round(4).tolist()
    2.0
    """
    shares = energy_shares(values)
    entropy = -jnp.sum(jnp.where(shares > 0, shares * jnp.log(jnp.where(shares > 0, shares, 1.0)), 0.0), axis=-1)
    return jnp.where(jnp.isnan(shares[..., 0]), jnp.nan, jnp.exp(entropy))


def stable_rank(norm: Array, largest: Array) -> Array:
    """Return `|W|_F^2 / s_1^2`, 1 to the rank, from the Frobenius and spectral norms (...); NaN for zero."""
    return jnp.square(norm / jnp.where(largest > 0, largest, jnp.nan))


def rotation_angle(direction: Array, reference: Array) -> Array:
    """Return the angle between two unit directions in degrees, 0 to 90, whatever their signs.

    `atan2(|a - (a . b) b|, |a . b|)`, exact near 0 where arccos of a rounded cosine is not.
    Shapes: both (..., d), result (...); NaN where either is. Source: arXiv 2605.04971, Fig. 2a.

    >>> import jax.numpy as jnp
    >>> rotation_angle(jnp.array([0.0, -1.0]), jnp.array([0.0, 1.0])).tolist()
    0.0
    """
    cosine = _row_dots(direction, reference)
    across = direction - cosine[..., None] * reference
    return jnp.rad2deg(jnp.arctan2(jnp.sqrt(_row_dots(across, across)), jnp.abs(cosine)))


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


def normalised(matrices: Array) -> Array:
    """Return each matrix over its Frobenius norm, NaN where it is zero."""
    norm = frobenius_norm(matrices)[..., None, None]
    return matrices / jnp.where(norm > 0, norm, jnp.nan)


def _row_dots(a: Array, b: Array) -> Array:
    # A sum of products, not a matrix product: accelerators would round its operands to fewer bits.
    return jnp.sum(a * b, axis=-1)


def _matched_cosines(vectors: Array) -> Array:
    return jnp.minimum(jnp.abs(_row_dots(vectors[..., :-1, :, :], vectors[..., 1:, :, :])), 1.0)


def _all_cosines(vectors: Array) -> Array:
    return jnp.einsum("...id,...jd->...ij", vectors[..., :-1, :, :], vectors[..., 1:, :, :], precision=HIGHEST)
