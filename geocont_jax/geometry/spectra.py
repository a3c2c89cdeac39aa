"""Singular values and vectors of stacks of matrices.

The only place that decides algorithm, precision and sign. All of it runs in float32 whatever the training
precision (float64 stays float64), and none of it is ever differentiated.
"""

from enum import IntEnum
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from geocont_jax.lapack import matrix_by_matrix

HIGHEST = lax.Precision.HIGHEST

Method = Literal["exact", "gram"]
"""`exact`: an SVD of each matrix. `gram`: the eigenvectors of the Gram matrix of its smaller side."""


class Defect(IntEnum):
    """Why the leading singular vectors of a matrix mean nothing (0: they do mean something)."""

    NONE = 0
    ZERO = 1
    DEGENERATE = 2
    NON_FINITE = 3
    NOT_CONVERGED = 4


class Spectrum(NamedTuple):
    """The singular triplets of each matrix of a stack, `W = sum_i s_i u_i v_i^T`, `s_1 >= s_2 >= ...`.

    Rows of `v` (..., rank, d_in) and `u` (..., rank, d_out) are singular vectors, `s` (..., rank) their values;
    `defect` (...) says whether the first ones mean anything. All are NaN where a matrix is not finite. The sign of
    a singular vector is arbitrary: nothing here fixes it.
    """

    u: Array
    s: Array
    v: Array
    defect: Array

    @property
    def v1(self) -> Array:
        """The leading right singular vectors (..., d_in), NaN where `defect` is not 0."""
        return jnp.where(self.is_sound[..., None], self.v[..., 0, :], jnp.nan)

    @property
    def u1(self) -> Array:
        """The leading left singular vectors (..., d_out), NaN where `defect` is not 0."""
        return jnp.where(self.is_sound[..., None], self.u[..., 0, :], jnp.nan)

    @property
    def is_sound(self) -> Array:
        """Whether the leading direction of each matrix exists (...)."""
        return self.defect == Defect.NONE

    def gap(self, k: int = 1) -> Array:
        """Return `(s_k - s_{k+1}) / s_1` (...), NaN for a matrix that is zero or not finite."""
        return (self.s[..., k - 1] - self.s[..., k]) / jnp.where(self.s[..., 0] > 0, self.s[..., 0], jnp.nan)


def degenerate_gap(d_out: int, d_in: int) -> float:
    """Return the relative gap below which v1 is noise: `max(d_out, d_in)` float32 roundings.

    A backward-stable SVD solves a problem perturbed by at most about sqrt(d) roundings of s1, which turns v1 by
    up to sqrt(d) roundings / gap: at this gap by 1/sqrt(d), a random direction's share.

    >>> round(degenerate_gap(256, 256), 7)
    3.05e-05
    """
    return max(d_out, d_in) * float(jnp.finfo(jnp.float32).eps)


def decompose(matrices: Array, method: Method = "exact") -> Spectrum:
    """Return the singular triplets of every matrix of a stack.

    Non-finite matrices never reach LAPACK, which can hang on them; a leading value that is zero or not simple
    gives a `Defect`, never a made-up direction.

    `gram` takes the eigenvectors of `W W^T` (or `W^T W`, whichever is smaller) and the other side from `W v / |W v|`.
    Both methods solve the problem of a matrix that is perturbed by c roundings eps, c about sqrt(d). Here it is the
    Gram matrix, by `c eps s_1^2`, which turns v1 by `c eps s_1^2 / (s_1^2 - s_2^2) = c eps / (gap (2 - gap))` against
    `c eps / gap` of an SVD: squaring the singular values costs the *leading* direction nothing. It costs the small
    ones: `s_i^2` is known to `c eps s_1^2`, and directions with `s_i < sqrt(c eps) s_1` are mixed among themselves and
    with what the matrix does not use. They count as zero, which changes no share of the energy by more than `c eps`.

    Shapes: `matrices` (..., d_out, d_in), min(d_out, d_in) >= 2.

    >>> import jax.numpy as jnp
    >>> spectrum = decompose(jnp.array([[[0.0, 3.0], [1.0, 0.0]]]))
    >>> abs(spectrum.v1).round().tolist(), spectrum.s.round().tolist(), spectrum.defect.tolist()
    ([[0.0, 1.0]], [[3.0, 1.0]], [0])
    """
    matrices = at_precision(matrices)
    finite = is_finite(matrices)
    u, s, v = matrix_by_matrix(SOLVERS[method], finite.ndim, jnp.where(finite[..., None, None], matrices, 0.0))
    u, s, v = (nan_unless(finite, values) for values in (u, s, v))
    return Spectrum(u, s, v, leading_defect(finite, s, matrices.shape[-2:]))


def nan_unless(sound: Array, values: Array) -> Array:
    """Return `values` (..., more axes), NaN where `sound` (...) is false."""
    return jnp.where(sound.reshape(sound.shape + (1,) * (values.ndim - sound.ndim)), values, jnp.nan)


def at_precision(matrices: Array) -> Array:
    """Return matrices in the precision of measurements, cut off from gradients: float64 stays, the rest is float32."""
    matrices = jnp.asarray(matrices)
    return lax.stop_gradient(matrices if matrices.dtype == jnp.float64 else matrices.astype(jnp.float32))


def leading_residual(matrices: Array, spectrum: Spectrum) -> Array:
    """Return how well the leading triplet fits: `max(|W v_1 - s_1 u_1|, |W^T u_1 - s_1 v_1|) / s_1` (...).

    Both, because one of them is rounding by construction where one side was computed from the other. It turns v1 and u1
    by about itself over the gap. NaN where a matrix (..., d_out, d_in) is zero or not finite.
    """
    s1, u1, v1 = spectrum.s[..., :1], spectrum.u[..., 0, :], spectrum.v[..., 0, :]
    left = jnp.einsum("...ij,...j->...i", matrices, v1, precision=HIGHEST) - s1 * u1
    right = jnp.einsum("...ij,...i->...j", matrices, u1, precision=HIGHEST) - s1 * v1
    scale = jnp.where(s1 > 0, s1, jnp.nan)
    return jnp.maximum(jnp.linalg.norm(left / scale, axis=-1), jnp.linalg.norm(right / scale, axis=-1))


Triplets = tuple[Array, Array, Array]


def _by_svd(matrices: Array) -> Triplets:
    u, s, vh = jnp.linalg.svd(matrices, full_matrices=False)
    return jnp.swapaxes(u, -1, -2), s, vh


def _by_gram(matrices: Array) -> Triplets:
    is_wide = matrices.shape[-2] <= matrices.shape[-1]
    scale = jnp.max(jnp.abs(matrices), axis=(-2, -1), keepdims=True)  # squares stay in range
    scaled = matrices / jnp.where(scale > 0, scale, 1.0)
    scaled = scaled if is_wide else jnp.swapaxes(scaled, -1, -2)
    gram = jnp.einsum("...ik,...jk->...ij", scaled, scaled, precision=HIGHEST)
    near = jnp.swapaxes(jnp.linalg.eigh(gram)[1], -1, -2)
    far = jnp.einsum("...ij,...jk->...ik", near, scaled, precision=HIGHEST)
    s = jnp.linalg.norm(far, axis=-1)
    order = jnp.argsort(-s, axis=-1)
    near, far = (jnp.take_along_axis(vectors, order[..., None], axis=-2) for vectors in (near, far))
    s = jnp.take_along_axis(s, order, axis=-1)
    # Roundings of the Gram matrix are as large as such squares: the vector may as well be of the null space.
    rounding = max(matrices.shape[-2:]) ** 0.5 * jnp.finfo(matrices.dtype).eps
    s = jnp.where(jnp.square(s) <= rounding * jnp.square(s[..., :1]), 0.0, s)
    far = far / jnp.where(s > 0, s, jnp.inf)[..., None]
    return (near, s * scale[..., 0], far) if is_wide else (far, s * scale[..., 0], near)


SOLVERS = {"exact": _by_svd, "gram": _by_gram}


def is_finite(matrices: Array) -> Array:
    """Return whether all entries of each matrix (..., d_out, d_in) are finite, as (...)."""
    return jnp.all(jnp.isfinite(matrices), axis=(-2, -1))


def leading_defect(finite: Array, s: Array, shape: tuple[int, ...]) -> Array:
    """Return the `Defect` (...) of matrices of a shape (d_out, d_in) from their leading singular values (..., value).

    Two values are enough; `finite` (...) says which matrices are finite.
    """
    norm = s[..., 0]
    gap = (norm - s[..., 1]) / jnp.where(norm > 0, norm, 1.0)
    code = jnp.where(gap < degenerate_gap(*shape), Defect.DEGENERATE, Defect.NONE)
    code = jnp.where(norm == 0, Defect.ZERO, code)
    code = jnp.where(jnp.isfinite(gap), code, Defect.NOT_CONVERGED)
    return jnp.where(finite, code, Defect.NON_FINITE).astype(jnp.int8)
