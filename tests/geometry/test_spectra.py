"""The leading spectrum against float64 NumPy, closed forms and matrices that have none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geocont_jax.geometry.continuity import adjacent_cosines, frobenius_norm, movement_ratio
from geocont_jax.geometry.spectra import SOLVERS, Defect, decompose, degenerate_gap, leading_residual

EPS = float(np.finfo(np.float32).eps)
METHODS = pytest.mark.parametrize("method", SOLVERS)


def oracle_cosines(matrices, side):
    """|cos| of adjacent leading singular vectors, one float64 SVD a layer."""
    vectors = []
    for matrix in np.asarray(matrices, np.float64):
        u, _, vh = np.linalg.svd(matrix)
        vectors.append(vh[0] if side == "v" else u[:, 0])
    return np.array([abs(a @ b) for a, b in zip(vectors[:-1], vectors[1:], strict=True)])


def oracle_gaps(matrices):
    values = [np.linalg.svd(np.asarray(m, np.float64), compute_uv=False) for m in matrices]
    return np.array([(s[0] - s[1]) / s[0] for s in values])


@METHODS
@pytest.mark.parametrize("shape", [(6, 32, 32), (6, 20, 32), (6, 32, 20), (3, 256, 256)])
def test_continuity_agrees_with_float64_svd(shape, method):
    matrices = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    spectrum = decompose(jnp.asarray(matrices), method)
    gaps = oracle_gaps(matrices)
    # Perturbation theory: float32 rounding turns a leading vector by about sqrt(d) eps / gap; 4 for two vectors.
    tolerance = 4 * np.sqrt(max(shape[1:])) * np.finfo(np.float32).eps / gaps.min()
    for side, vectors in (("v", spectrum.v1), ("u", spectrum.u1)):
        np.testing.assert_allclose(adjacent_cosines(vectors), oracle_cosines(matrices, side), atol=tolerance)
    np.testing.assert_allclose(spectrum.gap(), gaps, atol=1e-5)


@METHODS
def test_planted_direction_is_found_whatever_the_scale(method):
    rng = np.random.default_rng(1)
    v, u = (x / np.linalg.norm(x) for x in rng.normal(size=(2, 24)))
    planted = 10 * np.outer(u, v) + 0.1 * rng.normal(size=(24, 24))
    for scale in (1e-30, 1.0, 1e30):
        spectrum = decompose(jnp.asarray((scale * planted)[None], jnp.float32), method)
        assert spectrum.defect.tolist() == [Defect.NONE]
        assert abs(float(np.asarray(spectrum.v1[0], np.float64) @ v)) > 0.99
        assert abs(float(np.asarray(spectrum.u1[0], np.float64) @ u)) > 0.99


@METHODS
@pytest.mark.parametrize(
    ("matrix", "defect"),
    [
        (np.zeros((8, 8)), Defect.ZERO),
        (np.eye(8), Defect.DEGENERATE),
        (np.eye(8)[::-1], Defect.DEGENERATE),
        (np.full((8, 8), np.inf), Defect.NON_FINITE),
        (np.where(np.eye(8) > 0, np.nan, 1.0), Defect.NON_FINITE),
        (np.ones((8, 8)), Defect.NONE),
    ],
)
def test_a_matrix_without_a_leading_direction_gives_nan_and_a_reason(matrix, defect, method):
    sound = np.diag(np.arange(8.0, 0.0, -1.0))
    spectrum = decompose(jnp.asarray(np.stack([sound, matrix]), jnp.float32), method)
    assert spectrum.defect.tolist() == [Defect.NONE, defect]
    cosine = float(adjacent_cosines(spectrum.v1)[0])
    assert np.isnan(cosine) == (defect != Defect.NONE)


@METHODS
@pytest.mark.parametrize(("d_out", "d_in"), [(24, 24), (12, 40), (40, 12)])
def test_all_triplets_agree_with_float64(d_out, d_in, method):
    matrices = np.random.default_rng(3).normal(size=(2, d_out, d_in)).astype(np.float32)
    spectrum = decompose(jnp.asarray(matrices), method)
    values = np.array([np.linalg.svd(m.astype(np.float64), compute_uv=False) for m in matrices])
    np.testing.assert_allclose(spectrum.s, values, atol=50 * EPS * values.max())
    rebuilt = np.einsum("lk,lko,lki->loi", *(np.asarray(x, np.float64) for x in (spectrum.s, spectrum.u, spectrum.v)))
    np.testing.assert_allclose(rebuilt, matrices, atol=100 * EPS * values.max())
    np.testing.assert_array_less(leading_residual(jnp.asarray(matrices), spectrum), 50 * EPS)


@METHODS
def test_a_rank_deficient_matrix_has_zero_values_and_no_nan(method):
    rng = np.random.default_rng(4)
    matrix = (rng.normal(size=(30, 3)) * [4.0, 2.0, 1.0]) @ rng.normal(size=(3, 20))
    spectrum = decompose(jnp.asarray(matrix, jnp.float32)[None], method)
    values = np.linalg.svd(matrix, compute_uv=False)
    # What is left of the null space is an error of c roundings of s1, squared singular values or not.
    np.testing.assert_allclose(spectrum.s[0], values, atol=50 * EPS * values[0])
    assert all(np.isfinite(x).all() for x in (spectrum.u, spectrum.s, spectrum.v))
    shared = np.asarray(spectrum.v[0, :3], np.float64) @ np.linalg.svd(matrix)[2][:3].T
    np.testing.assert_allclose(np.sum(shared**2), 3.0, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), rotate=st.booleans())
def test_continuity_ignores_signs_and_shared_rotations(seed, rotate):
    rng = np.random.default_rng(seed)
    matrices = rng.normal(size=(3, 12, 12)) + 3 * np.outer(*rng.normal(size=(2, 12)))
    turned = -matrices
    if rotate:
        rotation = np.linalg.qr(rng.normal(size=(12, 12)))[0]
        turned = rotation @ matrices @ rotation.T
    before, after = (adjacent_cosines(decompose(jnp.asarray(m, jnp.float32)).v1) for m in (matrices, turned))
    tolerance = 40 * np.finfo(np.float32).eps / max(oracle_gaps(matrices).min(), 1e-3)
    np.testing.assert_allclose(before, after, atol=tolerance)


def test_transposing_swaps_the_sides():
    matrices = jnp.asarray(np.random.default_rng(2).normal(size=(4, 10, 14)), jnp.float32)
    one, other = decompose(matrices), decompose(jnp.swapaxes(matrices, 1, 2))
    np.testing.assert_allclose(adjacent_cosines(one.v1), adjacent_cosines(other.u1), atol=1e-4)


def test_degenerate_gap_grows_with_the_dimension():
    assert degenerate_gap(4096, 4096) > degenerate_gap(256, 64) == degenerate_gap(256, 256)


def test_norms_do_not_overflow():
    large = jnp.full((1, 4, 4), 1e25, jnp.float32)
    np.testing.assert_allclose(frobenius_norm(large), 4e25, rtol=1e-6)
    np.testing.assert_allclose(movement_ratio(large, 2 * large), 0.5, rtol=1e-6)
    assert frobenius_norm(jnp.zeros((1, 4, 4))).tolist() == [0.0]


def test_metrics_are_float32_whatever_the_training_precision():
    matrices = jnp.asarray(np.random.default_rng(5).normal(size=(3, 16, 16)), jnp.bfloat16)
    half, single = decompose(matrices), decompose(matrices.astype(jnp.float32))
    assert half.v1.dtype == half.s.dtype == jnp.float32
    np.testing.assert_array_equal(half.v1, single.v1)


def test_nothing_is_differentiated_through_an_svd():
    gradient = jax.grad(lambda m: jnp.sum(decompose(m).s))(jnp.eye(4)[None] + 1.0)
    assert not gradient.any()


def test_float64_stays_float64_where_it_is_on():
    with jax.enable_x64(True):
        matrices = jnp.asarray(np.random.default_rng(6).normal(size=(2, 12, 20)))
        spectrum = decompose(matrices, "gram")
    assert spectrum.s.dtype == np.float64
    exact = [np.linalg.svd(m, compute_uv=False) for m in np.asarray(matrices)]
    np.testing.assert_allclose(spectrum.s, exact, rtol=1e-12)
