"""Shared bases against float64 NumPy, closed forms, and what no basis can do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geocont_jax.geometry.shared_basis import own_energy, random_frame, shared_basis, side_gram, unrelated_gram

EPS = float(np.finfo(np.float32).eps)
D = 12
ROUNDING = 4 * D * EPS  # a share is a sum of up to D terms, each from products over D entries

GRAM = jax.jit(side_gram, static_argnames="side")


def share(matrices, side):
    """Return the basis that is fitted to layers."""
    return shared_basis(sum(GRAM(jnp.asarray(matrix, jnp.float32), side=side) for matrix in matrices) / len(matrices))


def frame(rng, d=D, rank=None):
    return np.linalg.qr(rng.normal(size=(d, rank or d)))[0].T


def kept_by(matrix, basis, side):
    """Return the energy that a basis of rows keeps of a matrix, by projecting it: the float64 oracle."""
    matrix, basis = np.asarray(matrix, np.float64), np.asarray(basis, np.float64)
    projected = matrix @ basis.T @ basis if side == "v" else basis.T @ basis @ matrix
    return np.sum(projected**2) / np.sum(matrix**2)


def best_basis(matrices, side):
    """Return the best shared basis by an SVD of the layers side by side, each over its norm; no Gram matrix."""
    facing = [np.asarray(m, np.float64) / np.linalg.norm(m) for m in matrices]
    return np.linalg.svd(np.concatenate([m if side == "v" else m.T for m in facing]))[2]


def layers(seed, count=3, other=7, side="v"):
    """Return layers of very different norms that share some directions and have a dimension D on a side."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(other, 3)) @ rng.normal(size=(3, D))
    found = [10.0 ** (3 * layer) * (common + rng.normal(size=(other, D))) for layer in range(count)]
    return np.stack(found if side == "v" else [matrix.T for matrix in found]).astype(np.float32)


@pytest.mark.parametrize("side", ["v", "u"])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_the_basis_keeps_what_that_of_the_oracle_keeps(side, seed):
    matrices = layers(seed, side=side)
    rows, kept = map(np.asarray, share(matrices, side))
    expected = best_basis(matrices, side)
    np.testing.assert_allclose(rows @ rows.T, np.eye(D), atol=ROUNDING)
    for rank in (1, 3, 5, D):
        own = np.mean([kept_by(matrix, rows[:rank], side) for matrix in matrices])
        # The mean over layers is at its maximum, where an error of the basis counts by its square.
        best = np.mean([kept_by(matrix, expected[:rank], side) for matrix in matrices])
        np.testing.assert_allclose([kept[rank - 1], own], best, atol=ROUNDING)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), spread=st.floats(0, 2), rank=st.integers(1, D))
def test_no_basis_keeps_more_and_none_more_than_each_layers_own(seed, spread, rank):
    rng = np.random.default_rng(seed)
    matrices = layers(seed)
    rows, kept = map(np.asarray, share(matrices, "v"))
    # Any other basis: a random one, or the shared one turned a little.
    other = np.linalg.qr((rows + spread * rng.normal(size=(D, D)) / D).T)[0].T
    assert np.mean([kept_by(matrix, other[:rank], "v") for matrix in matrices]) <= kept[rank - 1] + ROUNDING
    own = np.asarray(own_energy(np.linalg.svd(matrices, compute_uv=False), D)).mean(axis=0)
    assert (kept <= own + ROUNDING).all()
    assert (np.diff(kept) >= -ROUNDING).all()
    assert kept[-1] == pytest.approx(1.0, abs=ROUNDING)


def test_identical_layers_share_what_is_their_own():
    matrix = layers(1)[0]
    own = own_energy(jnp.asarray(np.linalg.svd(matrix, compute_uv=False)), D)
    np.testing.assert_allclose(share([matrix, -2 * matrix, matrix], "v").kept, own, atol=ROUNDING)


def test_layers_with_nothing_in_common_share_the_rank():
    """Three layers with flat spectra of rank 4, each on coordinates of its own: together they have r directions."""
    matrices = np.zeros((3, 4, D))
    for layer in range(3):
        matrices[layer, :, 4 * layer : 4 * layer + 4] = (layer + 1) * np.eye(4)
    np.testing.assert_allclose(share(matrices, "v").kept, np.arange(1, D + 1) / D, atol=ROUNDING)


def unrelated(values, d, seed):
    """What a basis keeps that is fitted to unrelated layers with these singular values (layer, rank)."""
    keys = jax.random.split(jax.random.key(seed), len(values))
    grams = [
        unrelated_gram(jnp.asarray(s, jnp.float32), random_frame(key, len(s), d))
        for s, key in zip(values, keys, strict=True)
    ]
    return np.asarray(shared_basis(sum(grams) / len(grams)).kept)


def test_unrelated_layers_are_what_they_are_by_simulation():
    """Against layers drawn in float64 and shared by the oracle: means of many draws of either."""
    rng = np.random.default_rng(3)
    values = np.array([[3.0, 2.0, 1.0, 0.5], [1.0, 1.0, 0.2, 0.0], [5.0, 0.1, 0.1, 0.1]])
    ranks, draws = np.array([1, 4, 8]), 150
    expected = []
    for _ in range(draws):
        matrices = [values[layer][:, None] * frame(rng, rank=4) for layer in range(3)]
        basis = best_basis(matrices, "v")
        expected.append([np.mean([kept_by(m, basis[:rank], "v") for m in matrices]) for rank in ranks])
    found = np.array([unrelated(values, D, draw) for draw in range(draws)])[:, ranks - 1]
    spread = np.hypot(np.std(expected, axis=0), found.std(axis=0)) / np.sqrt(draws)
    assert (np.abs(found.mean(axis=0) - np.mean(expected, axis=0)) < 4 * spread).all()


def test_layers_that_share_directions_stand_out_from_unrelated_ones_and_others_do_not():
    rng = np.random.default_rng(4)
    d, rank = 96, 8
    values = 0.8 ** np.arange(24.0)
    chance = unrelated(np.tile(values, (4, 1)), d, 0)
    apart = [values[:, None] * frame(rng, d, 24) for _ in range(4)]
    common = frame(rng, d, 24)
    alike = [frame(rng, 24) @ (values[:, None] * common) for _ in range(4)]
    found = [float(share(matrices, "v").kept[rank - 1]) for matrices in (apart, alike)]
    assert found[0] == pytest.approx(float(chance[rank - 1]), abs=0.03)
    assert found[1] == pytest.approx(float(own_energy(jnp.asarray(values), d)[rank - 1]), abs=1e-5)
    assert found[1] > found[0] + 0.3


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_energies_do_not_depend_on_the_scale(scale):
    matrices = layers(5, count=2).astype(np.float64)
    scaled = share(scale * matrices / np.abs(matrices).max(), "v")
    np.testing.assert_allclose(scaled.kept, share(matrices, "v").kept, atol=ROUNDING)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_layer_without_energy_is_nan_and_so_is_a_basis_with_it(bad):
    matrices = np.zeros((2, 7, D))
    matrices[1] = layers(6)[0]
    matrices[0, 0, 0] = bad
    assert np.isnan(GRAM(matrices[0], side="v")).all()
    found = share(matrices, "v")
    assert np.isnan(found.kept).all()
    assert np.isnan(found.rows).all()
    assert np.isnan(unrelated_gram(jnp.zeros(3), random_frame(jax.random.key(0), 3, D))).all()


def test_the_sides_are_those_of_the_transposed_matrix():
    matrix = layers(7)[0]
    np.testing.assert_allclose(GRAM(matrix, side="v"), GRAM(matrix.T, side="u"), atol=ROUNDING)
    assert GRAM(matrix, side="u").shape == (7, 7)


def test_float64_stays_float64():
    with jax.enable_x64(True):
        matrices = layers(8).astype(np.float64)
        found = shared_basis(sum(GRAM(matrix, side="v") for matrix in matrices) / len(matrices)).kept
        assert found.dtype == jnp.float64
        best = np.mean([kept_by(m, best_basis(matrices, "v")[:3], "v") for m in matrices])
        assert float(found[2]) == pytest.approx(best, abs=1e-13)
