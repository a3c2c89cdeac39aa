"""Singular values and leading singular vectors of stacks of matrices.

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


class LeadingTriplet(NamedTuple):
    """The leading singular triplet of each matrix of a stack.

    `v1` (..., d_in) and `u1` (..., d_out) are NaN where `defect` (...) is not 0; `norm` (...) is the spectral
    norm s1 and `gap` (...) is (s1 - s2) / s1. The sign of a singular vector is arbitrary: nothing here fixes it.
    """

    v1: Array
    u1: Array
    norm: Array
    gap: Array
    defect: Array


def degenerate_gap(d_out: int, d_in: int) -> float:
    """Return the relative gap below which v1 is noise: `max(d_out, d_in)` float32 roundings.

    A backward-stable SVD solves a problem perturbed by at most about sqrt(d) roundings of s1, which turns v1 by
    up to sqrt(d) roundings / gap: at this gap by 1/sqrt(d), a random direction's share.

    >>> round(degenerate_gap(256, 256), 7)
    3.05e-05
    """
    return max(d_out, d_in) * float(jnp.finfo(jnp.float32).eps)


def leading_triplet(matrices: Array) -> LeadingTriplet:
    """Return the leading singular triplet of every matrix of a stack, by an exact SVD.

    `W = sum_i s_i u_i v_i^T`, `s_1 >= s_2 >= ...`. Non-finite matrices never reach LAPACK, which can hang on
    them; a leading value that is zero or not simple gives NaN and a `Defect`, never a made-up direction.

    Shapes: `matrices` (..., d_out, d_in), min(d_out, d_in) >= 2.

    >>> import jax.numpy as jnp
    >>> triplet = leading_triplet(jnp.array([[[0.0, 3.0], [1.0, 0.0]]]))
    >>> abs(triplet.v1).round(3).tolist(), triplet.norm.tolist(), triplet.defect.tolist()
    ([[0.0, 1.0]], [3.0], [0])
    """
    matrices = lax.stop_gradient(matrices).astype(jnp.float32)
    finite = jnp.all(jnp.isfinite(matrices), axis=(-2, -1))
    u, s, vh = jnp.linalg.svd(jnp.where(finite[..., None, None], matrices, 0.0), full_matrices=False)
    norm = s[..., 0]
    gap = (norm - s[..., 1]) / jnp.where(norm > 0, norm, 1.0)
    defect = _defect(finite, norm, gap, degenerate_gap(*matrices.shape[-2:]))
    sound = defect == Defect.NONE
    return LeadingTriplet(
        v1=jnp.where(sound[..., None], vh[..., 0, :], jnp.nan),
        u1=jnp.where(sound[..., None], u[..., :, 0], jnp.nan),
        norm=jnp.where(finite, norm, jnp.nan),
        gap=jnp.where(finite & (norm > 0), gap, jnp.nan),
        defect=defect,
    )


def _defect(finite: Array, norm: Array, gap: Array, smallest_gap: float) -> Array:
    code = jnp.where(gap < smallest_gap, Defect.DEGENERATE, Defect.NONE)
    code = jnp.where(norm == 0, Defect.ZERO, code)
    code = jnp.where(jnp.isfinite(gap), code, Defect.NOT_CONVERGED)
    return jnp.where(finite, code, Defect.NON_FINITE).astype(jnp.int8)
