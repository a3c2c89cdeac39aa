"""Measures that need no singular vectors: matrices entry by entry, Gram matrices by the smaller product."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geocont_jax.geometry.continuity import full_alignment, gram_alignment, matrix_cosine
from geocont_jax.geometry.spectra import decompose

EPS = float(np.finfo(np.float32).eps)
COSINE = jax.jit(matrix_cosine)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), mix=st.floats(-1, 1), scale=st.sampled_from([1e-30, 1.0, 1e30]))
def test_matrix_cosines_agree_with_float64(seed, mix, scale):
    matrices = np.random.default_rng(seed).normal(size=(3, 6, 9))
    matrices[1] += 3 * mix * matrices[0]
    single = (np.array([scale, 1.0, -scale])[:, None, None] * matrices).astype(np.float32)
    flat = single.astype(np.float64).reshape(3, -1)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    np.testing.assert_allclose(COSINE(single), [unit[0] @ unit[1], unit[1] @ unit[2]], atol=6 * 9 * EPS)


def test_the_sign_and_nothing_but_the_angle_counts():
    one = np.random.default_rng(0).normal(size=(6, 9))
    found = COSINE(jnp.asarray(np.stack([one, 5 * one, -one]), jnp.float32))
    np.testing.assert_allclose(found, [1.0, -1.0], atol=10 * EPS)


def test_layers_with_the_same_leading_directions_need_not_be_similar():
    """v1 agrees and u1 does not: continuity is 1, and the matrices are orthogonal."""
    one, other = np.zeros((2, 4, 4))
    one[0, 0] = other[1, 0] = 1.0
    assert COSINE(jnp.asarray(np.stack([one, other]), jnp.float32)).tolist() == [0.0]


def test_independent_matrices_have_the_chance_level_of_the_docstring():
    d_out, d_in, pairs = 12, 20, 2000
    matrices = np.random.default_rng(1).normal(size=(2, pairs, d_out, d_in)).astype(np.float32)
    cosines = np.asarray(jax.jit(jax.vmap(matrix_cosine, in_axes=1))(matrices))
    sd = 1 / np.sqrt(d_out * d_in)
    assert abs(cosines.mean()) < 4 * sd / np.sqrt(pairs)  # four standard errors, of the sd as well
    assert cosines.std() == pytest.approx(sd, rel=4 / np.sqrt(2 * pairs))


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_matrix_without_a_norm_has_no_cosine(bad):
    matrices = np.random.default_rng(2).normal(size=(4, 6, 9)).astype(np.float32)
    matrices[1] = 0.0
    matrices[1, 2, 3] = bad
    assert np.isnan(COSINE(matrices)).tolist() == [True, True, False]


@pytest.mark.parametrize("shape", [(2, 5, 40), (2, 40, 5)])
def test_the_gram_matrix_of_the_larger_side_is_never_formed(shape):
    """A projection of a 70-billion-parameter model is 28672 x 8192: one product must do, and the smaller."""
    program = jax.jit(gram_alignment).lower(jnp.zeros(shape)).as_text()
    assert "5x5x" in program
    assert "40x40x" not in program


@pytest.mark.parametrize("shape", [(3, 6, 15), (3, 15, 6), (3, 8, 8)])
def test_either_product_and_the_spectra_give_the_same_alignment(shape):
    matrices = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    grams = [m.T @ m / np.trace(m.T @ m) for m in matrices.astype(np.float64)]
    expected = [np.sum(grams[0] * grams[1]), np.sum(grams[1] * grams[2])]
    np.testing.assert_allclose(gram_alignment(jnp.asarray(matrices)), expected, rtol=20 * EPS)
    spectrum = decompose(jnp.asarray(matrices))
    np.testing.assert_allclose(full_alignment(spectrum.v, spectrum.s), expected, rtol=20 * EPS)
