"""The leading singular triplets of stacks of matrices, by products alone and from where they were the time before.

A block of directions goes through a polynomial of the Gram matrix of the smaller side, which is never formed, and is
made orthonormal again (Chebyshev-filtered subspace iteration); Rayleigh-Ritz in the block gives the triplets and their
residuals. What does not pass is decomposed exactly, so that nothing that is returned is a guess.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from geocont_jax.geometry.spectra import (
    HIGHEST,
    Spectrum,
    at_precision,
    decompose,
    leading_defect,
    leading_residual,
    nan_unless,
)
from geocont_jax.lapack import matrix_by_matrix

# Directions beyond the wanted ones. A block converges the faster the wider it is, and the time of a product hardly
# depends on how wide a thin block is. The last ones begin anew each time, from directions that know nothing of
# the past.
EXTRA = 14
RENEWED = 3
DEGREE = 3
# What the filter may grow directions by in a round: two passes of Cholesky QR in float32 part what is as close as one
# to this. Leaks below the smallest are not told from rounding.
GROWTH, SPREAD = 1000.0, 3.65  # T_3(2 SPREAD - 1) is GROWTH
SMALLEST_LEAK, SMALLEST_SHARE = 1e-3, 1e-6
MAX_ROUNDS = 12  # more would take as long as the exact decomposition
# Largest error of v1 as an angle where the gap is 1 % or more: |cos| of two layers is then within 1e-4. Overlaps of the
# spaces of k vectors are less sharp.
ANGLE, SPACE_ANGLE = 4e-5, 1e-3
SMALLEST_GAP = 0.01
NEXT_ERROR = 3e-4  # residual of triplet k + 1, of which the value alone is wanted: wrong by the square over a distance


class Leading(NamedTuple):
    """The leading k + 1 triplets of each matrix of a stack, as a `Spectrum` with that many.

    `residual` (...) is that of the first one, relative to s_1; `repeated` (...) says which matrices needed the exact
    decomposition; `basis` (..., block, d) are the directions to start from the next time, d the smaller side;
    `rounds` (...) says how many a matrix took.
    """

    spectrum: Spectrum
    residual: Array
    repeated: Array
    basis: Array
    rounds: Array


class _Ritz(NamedTuple):
    """Rayleigh-Ritz in a block: rows `near` (..., block, d) orthonormal, `far` = A near, `image` = A^T far.

    `squares` (..., block) are the Ritz values of `A^T A`, largest first.
    """

    near: Array
    far: Array
    image: Array
    squares: Array


class _Found(NamedTuple):
    """Where the iteration stands: which matrices (...) have passed, and after how many rounds."""

    ritz: _Ritz
    passed: Array
    rounds: Array


def block_size(k: int, smaller_side: int) -> int:
    """Return how many directions a block has to find k triplets and the value after them."""
    return min(k + 1 + EXTRA, smaller_side)


def fresh_directions(matrices: Array, block: int) -> Array:
    """Return rows (..., block, d) to start from, d the smaller side, made of as many rows or columns of matrices.

    Of initial matrices, drawn independently, they are independent of what training does and of each other's.
    """
    is_wide = matrices.shape[-2] < matrices.shape[-1]
    return (jnp.swapaxes(matrices, -1, -2) if is_wide else matrices)[..., :block, :]


def renewed(basis: Array, fresh: Array) -> Array:
    """Return where to start from (..., block, d): the basis of the time before, its last directions exchanged.

    Subspace iteration never finds a direction that its start is orthogonal to; one that has become the leading one
    since is found because of `fresh` (..., at least block, d), which must not depend on the past, nor on a neighbour
    layer: a start that layers share would make them look alike before it has converged.
    """
    block = basis.shape[-2]
    kept = max(block - RENEWED, 0)
    return jnp.concatenate([basis[..., :kept, :], fresh[..., kept:block, :]], axis=-2)


def leading_triplets(matrices: Array, start: Array, k: int) -> Leading:
    """Return the k leading singular triplets of every matrix of a stack, and the value after them.

    A round is a Chebyshev polynomial of `A^T A`, then Rayleigh-Ritz. A Ritz vector x of `A^T A` with value theta and
    `r = |A^T A x - theta x| / theta_1` is off by an angle of about `r / (g (2 - g))`, g the relative gap
    `(s_1 - s_2) / s_1`: r up to `ANGLE g (2 - g)` leaves |cos| of two layers within 1e-4 of the truth where the gap is
    1 % or more; smaller gaps are held to the same. Nothing less than `2 sqrt(d) eps` is asked, the rounding of r
    itself, which an SVD of the same precision has as well: it points everywhere alike, so that only about
    1 / sqrt(d) of it turns v1 towards a neighbour. The space of the first k is off by about
    `|R_k|_F / (theta_k - theta_{k+1})`, which is held to `SPACE_ANGLE` likewise. An eigenvalue lies within its residual
    of every Ritz value: while one of the others may reach theta_1 that way, the first is not believed either. The value
    after the first k is wrong by about the square of its residual, held to `NEXT_ERROR`. Rounds go on until all pass,
    `MAX_ROUNDS` at most; those that fail are then decomposed exactly, one after the other.

    Shapes: `matrices` (..., d_out, d_in), `start` (..., block, d) with `block_size(k, d)` rows, d the smaller side,
    that need not be orthonormal. Zero and non-finite matrices have a defect as in `decompose`.

    >>> import jax
    >>> matrices = jax.random.normal(jax.random.key(0), (3, 40, 30)).at[:, 0].mul(9.0)
    >>> found = leading_triplets(matrices, jax.random.normal(jax.random.key(1), (3, block_size(2, 30), 30)), k=2)
    >>> exact = decompose(matrices)
    >>> found.spectrum.s.shape, bool(abs(found.spectrum.s / exact.s[:, :3] - 1)[:, :2].max() < 1e-5)
    ((3, 3), True)
    """
    matrices = at_precision(matrices)
    is_wide = matrices.shape[-2] < matrices.shape[-1]
    a = jnp.swapaxes(matrices, -1, -2) if is_wide else matrices  # (..., larger side, smaller side)
    scale = jnp.max(jnp.abs(a), axis=(-2, -1))  # not finite where the matrix is not
    finite = jnp.isfinite(scale)
    has_none = ~finite | (scale == 0)
    scale = jnp.where(has_none, 1.0, scale)
    ritz, passed, rounds = _iterate(a, scale, start.astype(a.dtype), k, has_none)
    found = _repeat_failed(a, scale, _triplets(ritz, k), passed)
    u, v = (found.near, found.far) if is_wide else (found.far, found.near)
    u, s, v, residual = (nan_unless(finite, values) for values in (u, found.s * scale[..., None], v, found.residual))
    spectrum = Spectrum(u, s, v, leading_defect(finite, s, matrices.shape[-2:]))
    basis = jnp.where(finite[..., None, None], found.basis, start)
    return Leading(spectrum, residual, ~passed, basis, rounds)


class _Triplets(NamedTuple):
    """What is known of each scaled matrix: k + 1 triplets, the residual of the first, the block they are from."""

    near: Array
    s: Array
    far: Array
    residual: Array
    basis: Array


def _iterate(a: Array, scale: Array, start: Array, k: int, has_none: Array) -> _Found:
    """Return the last Rayleigh-Ritz, and which matrices (...) passed, those among them that have no direction.

    On a CPU a matrix stays in its core's cache through all of its rounds, which are no more than it needs.
    """
    return matrix_by_matrix(partial(_rounds, k=k), has_none.ndim, a, scale, start, has_none)


def _rounds(a: Array, scale: Array, start: Array, has_none: Array, *, k: int) -> _Found:
    def one_round(found: _Found) -> _Found:
        # Twice, as its rounding is the square of the growth times eps.
        near = _orthonormal(_orthonormal(_filtered(a, scale, found.ritz)))
        ritz = _rayleigh_ritz(a, scale, near)
        return _Found(ritz, has_none | _passes(ritz, k), found.rounds + 1)

    def goes_on(found: _Found) -> Array:
        return ~jnp.all(found.passed) & (jnp.max(found.rounds) < MAX_ROUNDS)

    # No start passes as it is: a Ritz vector may be right and yet no longer the leading one, and it takes a round for
    # the renewed directions to show it. So the first round does without Rayleigh-Ritz: rows as they are, each with its
    # Rayleigh quotient.
    near = _orthonormal(start)
    far, image = _gram_product(a, scale, near)
    first = _Ritz(near, far, image, jnp.sum(jnp.square(far), axis=-1))
    return lax.while_loop(goes_on, one_round, one_round(_Found(first, has_none, jnp.zeros(has_none.shape, jnp.int32))))


def _gram_product(a: Array, scale: Array, x: Array) -> tuple[Array, Array]:
    """Return rows `A x / scale` and `A^T A x / scale^2`, neither of which leaves the range of float32."""
    far = jnp.einsum("...bj,...ij->...bi", x / scale[..., None, None], a, precision=HIGHEST)
    image = jnp.einsum("...bi,...ij->...bj", far / scale[..., None, None], a, precision=HIGHEST)
    return far, image


def _filtered(a: Array, scale: Array, ritz: _Ritz) -> Array:
    """Return `T_3(2 A^T A / c - 1) x` of every row x of `ritz.near`: small below c, large above.

    The Chebyshev polynomial grows fastest of all that stay below 1 there. c is the block's smallest value, or more.
    """
    half = _positive(_cut(ritz))[..., None, None] / 2
    before, now = ritz.near, ritz.image / half - ritz.near
    for _ in range(DEGREE - 1):
        before, now = now, 2 * (_gram_product(a, scale, now)[1] / half - now) - before
    return now


def _cut(ritz: _Ritz) -> Array:
    """Return below what (...) the filter damps: the smallest value of the block that lets no direction drown the rest.

    A row is off by an angle of about its error over its distance from the least of the block: the other rows have as
    much of the true direction (`leak`, 1 at most). It drowns them if it grows by more than `GROWTH / leak`, which no
    direction does where the cut is 1 / `SPREAD` of the largest.
    """
    largest = _positive(jnp.max(ritz.squares, axis=-1, keepdims=True))
    shares = jnp.maximum(ritz.squares / largest, SMALLEST_SHARE)
    distance = shares - jnp.min(shares, axis=-1, keepdims=True)
    leak = jnp.clip(_errors(ritz) / jnp.maximum(distance, SMALLEST_LEAK), SMALLEST_LEAK, 1.0)
    argument = 2 * shares[..., None, :] / shares[..., :, None] - 1  # of the row (last axis) if this value is the cut
    growth = jnp.cosh(DEGREE * jnp.arccosh(jnp.maximum(argument, 1.0)))
    drowns = jnp.max(growth * leak[..., None, :], axis=-1) > GROWTH
    return largest[..., 0] * jnp.min(jnp.where(drowns, jnp.maximum(shares, 1 / SPREAD), shares), axis=-1)


def _orthonormal(x: Array) -> Array:
    """Return orthonormal rows that span those of x (..., block, d), each made from the ones before it (Cholesky QR).

    Rows of length 1 first: images of Ritz vectors are then nearly orthogonal, their Gram matrix is nearly the identity,
    and its Cholesky factor loses no digits. The shift is the Gram matrix's rounding.
    """
    norm = jnp.linalg.norm(x, axis=-1, keepdims=True)
    x = x / jnp.where(norm > 0, norm, 1.0)
    gram = jnp.einsum("...bi,...ci->...bc", x, x, precision=HIGHEST)
    identity = jnp.broadcast_to(jnp.eye(x.shape[-2], dtype=x.dtype), gram.shape)
    factor = jnp.linalg.cholesky(gram + x.shape[-1] ** 0.5 * jnp.finfo(x.dtype).eps * identity)
    # A small inverse and a product: the triangular solver is slow on thin rows.
    inverse = lax.linalg.triangular_solve(factor, identity, left_side=True, lower=True)
    return jnp.einsum("...cb,...bi->...ci", inverse, x, precision=HIGHEST)


def _rayleigh_ritz(a: Array, scale: Array, near: Array) -> _Ritz:
    far, image = _gram_product(a, scale, near)
    squares, turn = jnp.linalg.eigh(jnp.einsum("...bi,...ci->...bc", far, far, precision=HIGHEST))
    turn = turn[..., ::-1]
    near, far, image = (jnp.einsum("...bc,...bi->...ci", turn, x, precision=HIGHEST) for x in (near, far, image))
    return _Ritz(near, far, image, squares[..., ::-1])


def _errors(ritz: _Ritz) -> Array:
    """Return `|A^T A x - theta x| / theta_1` of every Ritz vector (..., block)."""
    off = ritz.image - ritz.squares[..., None] * ritz.near
    return jnp.linalg.norm(off, axis=-1) / _positive(ritz.squares[..., :1])


def _passes(ritz: _Ritz, k: int) -> Array:
    """Return whether the leading triplet and the space of the first k are found (...)."""
    errors, smallest = _errors(ritz), SMALLEST_GAP * (2 - SMALLEST_GAP)
    rounding = 2 * ritz.near.shape[-1] ** 0.5 * jnp.finfo(errors.dtype).eps
    shares = ritz.squares / _positive(ritz.squares[..., :1])
    passed = errors[..., 0] <= jnp.maximum(ANGLE * jnp.maximum(1 - shares[..., 1], smallest), rounding)
    passed &= jnp.all((shares + errors)[..., 1:] <= 1 + rounding, axis=-1)
    passed &= errors[..., min(k, errors.shape[-1] - 1)] <= NEXT_ERROR
    if k == 1 or k >= shares.shape[-1]:
        return passed
    distance = jnp.maximum(shares[..., k - 1] - shares[..., k], smallest)
    return passed & (jnp.linalg.norm(errors[..., :k], axis=-1) <= SPACE_ANGLE * distance)


def _positive(values: Array) -> Array:
    return jnp.where(values > 0, values, 1.0)


def _triplets(ritz: _Ritz, k: int) -> _Triplets:
    s = jnp.sqrt(jnp.maximum(ritz.squares[..., : k + 1], 0.0))
    far = ritz.far[..., : k + 1, :] / jnp.where(s > 0, s, jnp.inf)[..., None]
    # The left half of a triplet's residual, A v - s u, is zero by construction; this is the right one.
    return _Triplets(ritz.near[..., : k + 1, :], s, far, _errors(ritz)[..., 0], ritz.near)


def _repeat_failed(a: Array, scale: Array, found: _Triplets, passed: Array) -> _Triplets:
    """Exchange the triplets of the matrices that did not pass for exact ones, matrix by matrix."""
    stack = passed.shape

    def flat(tree: Any) -> Any:
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[len(stack) :]), tree)

    matrices, scales, failed = flat(a), flat(scale), jnp.argsort(flat(passed), stable=True)  # those that failed first

    def repeat(turn: Array, found: _Triplets) -> _Triplets:
        place = failed[turn]
        # Of a stack of one the matrix is the same at every turn: without the barrier, XLA decomposes it before it knows
        # whether there is a turn at all.
        matrix, _ = lax.optimization_barrier((matrices[place] / scales[place], turn))
        exact = decompose(matrix)
        number, block = found.s.shape[-1], found.basis.shape[-2]
        residual = leading_residual(matrix, exact)
        new = _Triplets(exact.v[:number], exact.s[:number], exact.u[:number], residual, exact.v[:block])
        return jax.tree.map(lambda old, x: lax.dynamic_update_index_in_dim(old, x, place, 0), found, new)

    found = lax.fori_loop(0, jnp.sum(~passed), repeat, flat(found))
    return jax.tree.map(lambda x: x.reshape(*stack, *x.shape[1:]), found)
