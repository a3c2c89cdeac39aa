"""Shared bases and heads against float64 NumPy and closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geocont_jax.geometry.continuity import matrix_cosine
from geocont_jax.geometry.heads import assignment_chance, head_cosines, head_directions, match_heads
from geocont_jax.geometry.null import chance_level
from geocont_jax.geometry.shared_basis import own_energy, shared_energy, side_gram


def oracle_shared(matrices, side, rank):
    """Energy that the best common basis keeps of each layer, by an SVD of the normalised layers in one."""
    facing = [m if side == "v" else m.T for m in np.asarray(matrices, np.float64)]
    stacked = np.concatenate([m / np.linalg.norm(m) for m in facing])
    basis = np.linalg.svd(stacked, full_matrices=False)[2][:rank]
    return np.array([np.sum((m @ basis.T) ** 2) / np.sum(m**2) for m in facing])


@pytest.mark.parametrize("side", ["v", "u"])
def test_shared_bases_agree_with_one_svd_of_all_layers(side):
    matrices = np.random.default_rng(0).normal(size=(3, 10, 14)) + 2 * np.ones((10, 14))
    kept = shared_energy(jnp.stack([side_gram(jnp.asarray(m, jnp.float32), side) for m in matrices]))
    for rank in (1, 2, 5, 10):
        np.testing.assert_allclose(kept[:, rank - 1], oracle_shared(matrices, side, rank), atol=1e-5)


def test_identical_layers_share_what_each_keeps_of_itself():
    matrix = np.random.default_rng(1).normal(size=(12, 8))
    kept = shared_energy(jnp.stack([side_gram(jnp.asarray(matrix, jnp.float32), "v")] * 3))
    own = own_energy(jnp.asarray(np.linalg.svd(matrix, compute_uv=False), jnp.float32), 8)
    np.testing.assert_allclose(kept, np.tile(own, (3, 1)), atol=1e-5)


def test_layers_without_a_direction_in_common_take_turns():
    one, other = np.zeros((2, 4, 4))
    one[:2, :2], other[2:, 2:] = np.diag([2.0, 1.0]), np.diag([2.0, 1.0])
    kept = shared_energy(jnp.stack([side_gram(jnp.asarray(m, jnp.float32), "v") for m in (one, other)]))
    np.testing.assert_allclose(kept.mean(axis=0), [0.4, 0.8, 0.9, 1.0], atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), num_layers=st.integers(1, 4))
def test_shared_bases_keep_no_more_than_own_ones_and_no_less_than_random_ones(seed, num_layers):
    matrices = np.random.default_rng(seed).normal(size=(num_layers, 6, 9)).astype(np.float32)
    kept = np.asarray(shared_energy(jnp.stack([side_gram(m, "v") for m in matrices])))
    own = own_energy(jnp.stack([np.linalg.svd(m, compute_uv=False) for m in matrices]), 9)
    assert (kept <= np.asarray(own) + 1e-5).all()
    assert (kept.mean(axis=0) >= np.arange(1, 10) / 9 - 1e-5).all()
    assert (np.diff(kept, axis=1) >= -1e-6).all()


def test_a_zero_layer_has_no_energy_to_keep():
    assert np.isnan(side_gram(jnp.zeros((3, 4)), "v")).all()


def test_matrix_cosine_is_the_cosine_of_the_entries():
    matrices = np.random.default_rng(2).normal(size=(4, 5, 7))
    flat = [m.ravel() / np.linalg.norm(m) for m in matrices]
    expected = [a @ b for a, b in zip(flat[:-1], flat[1:], strict=True)]
    np.testing.assert_allclose(matrix_cosine(jnp.asarray(matrices, jnp.float32)), expected, atol=1e-6)
    scaled = jnp.asarray(matrices, jnp.float32) * jnp.asarray([1e-25, 1e25, 1.0, -1.0])[:, None, None]
    np.testing.assert_allclose(matrix_cosine(scaled)[:2], expected[:2], atol=1e-6)


def planted_heads(rng, directions, head_dim):
    """Heads (head, head_dim, d), each with a leading direction that was chosen."""
    heads = []
    for direction in directions:
        inner = rng.normal(size=head_dim)
        noise = 0.01 * rng.normal(size=(head_dim, len(direction)))
        heads.append(np.outer(inner / np.linalg.norm(inner), direction) + noise)
    return jnp.asarray(np.stack(heads), jnp.float32)


def test_permuted_heads_are_found_by_assignment_and_not_by_index():
    rng = np.random.default_rng(3)
    directions = np.linalg.qr(rng.normal(size=(40, 6)))[0].T
    order = np.array([2, 0, 5, 1, 3, 4])
    one, other = (np.asarray(head_directions(planted_heads(rng, d, 4))) for d in (directions, directions[order]))
    cosines = head_cosines(one, other)
    np.testing.assert_array_equal(cosines.argmax(axis=0), order)
    found = match_heads(cosines, 40)
    assert found.best > 0.99
    assert found.same_index < 0.1


def test_a_layer_with_fewer_heads_is_matched_with_some_of_the_next():
    rng = np.random.default_rng(4)
    directions = np.linalg.qr(rng.normal(size=(30, 5)))[0].T
    found = match_heads(head_cosines(directions[3:], directions), 30)
    assert found.best == pytest.approx(1.0)


def test_chance_of_the_best_assignment_is_above_that_of_a_pair_and_repeatable():
    chance = assignment_chance(8, 8, 64)
    assert chance > 1.5 * chance_level(64)
    assignment_chance.cache_clear()
    assert assignment_chance(8, 8, 64) == chance
    # One head against one: the best assignment is the only one. 200 draws of an sd of 0.075 have an error of 0.0053.
    assert assignment_chance(1, 1, 64) == pytest.approx(chance_level(64), abs=4 * 0.0053)


def test_a_head_without_a_direction_has_no_match():
    cosines = np.array([[0.5, np.nan], [0.5, np.nan]])
    assert all(np.isnan(value) for value in match_heads(cosines, 8))
