"""Singular values and vectors of stacks of matrices.

The only place that decides algorithm, precision and sign. All of it runs in float32 whatever the training
precision, and none of it is ever differentiated.
"""

from enum import IntEnum
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax


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


def decompose(matrices: Array) -> Spectrum:
    """Return the singular triplets of every matrix of a stack, by an exact SVD.

    Non-finite matrices never reach LAPACK, which can hang on them; a leading value that is zero or not simple
    gives a `Defect`, never a made-up direction.

    Shapes: `matrices` (..., d_out, d_in), min(d_out, d_in) >= 2.

    >>> import jax.numpy as jnp
    >>> spectrum = decompose(jnp.array([[[0.0, 3.0], [1.0, 0.0]]]))
    >>> abs(spectrum.v1).round().tolist(), spectrum.s.round().tolist(), spectrum.defect.tolist()
    ([[0.0, 1.0]], [[3.0, 1.0]], [0])
    """
    matrices = lax.stop_gradient(matrices).astype(jnp.float32)
    finite = is_finite(matrices)
    u, s, vh = jnp.linalg.svd(jnp.where(finite[..., None, None], matrices, 0.0), full_matrices=False)

    def masked(values: Array) -> Array:
        return jnp.where(finite.reshape(finite.shape + (1,) * (values.ndim - finite.ndim)), values, jnp.nan)

    defect = _defect(finite, s, degenerate_gap(*matrices.shape[-2:]))
    return Spectrum(masked(jnp.swapaxes(u, -1, -2)), masked(s), masked(vh), defect)


def is_finite(matrices: Array) -> Array:
    """Return whether all entries of each matrix (..., d_out, d_in) are finite, as (...)."""
    return jnp.all(jnp.isfinite(matrices), axis=(-2, -1))


def _defect(finite: Array, s: Array, smallest_gap: float) -> Array:
    norm = s[..., 0]
    gap = (norm - s[..., 1]) / jnp.where(norm > 0, norm, 1.0)
    code = jnp.where(gap < smallest_gap, Defect.DEGENERATE, Defect.NONE)
    code = jnp.where(norm == 0, Defect.ZERO, code)
    code = jnp.where(jnp.isfinite(gap), code, Defect.NOT_CONVERGED)
    return jnp.where(finite, code, Defect.NON_FINITE).astype(jnp.int8)
