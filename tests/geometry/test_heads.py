"""Heads of adjacent layers: planted permutations, closed forms, and chance by two simulations."""

from itertools import permutations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from geocont_jax.geometry.heads import assignment_chance, head_cosines, head_directions, match_heads
from geocont_jax.geometry.null import chance_level, chance_sd

EPS = float(np.finfo(np.float32).eps)
HEADS, HEAD_DIM, D = 5, 4, 24


def unit(directions):
    return directions / np.linalg.norm(directions, axis=-1, keepdims=True)


def heads_along(rng, directions):
    """Return heads (head, head_dim, d) with given leading directions (head, d) and values 2 and at most 1."""
    inner = unit(rng.normal(size=(len(directions), HEAD_DIM)))
    heads = rng.normal(size=(len(directions), HEAD_DIM, directions.shape[1]))
    heads -= inner[..., None] * (inner[:, None, :] @ heads)
    heads -= (heads @ directions[..., None]) * directions[:, None, :]
    heads /= np.linalg.norm(heads, ord=2, axis=(1, 2), keepdims=True)
    return heads + 2 * inner[..., None] * directions[:, None, :]


def directions_of(heads):
    return np.asarray(head_directions(jnp.asarray(heads, jnp.float32)))


def test_directions_of_heads_are_those_that_were_planted():
    rng = np.random.default_rng(0)
    planted = unit(rng.normal(size=(HEADS, D)))
    found = directions_of(heads_along(rng, planted))
    np.testing.assert_allclose(np.abs(np.sum(found * planted, axis=1)), 1.0, atol=10 * EPS)


def test_a_rotation_inside_a_head_changes_nothing():
    rng = np.random.default_rng(1)
    heads = heads_along(rng, unit(rng.normal(size=(HEADS, D))))
    turned = np.linalg.qr(rng.normal(size=(HEADS, HEAD_DIM, HEAD_DIM)))[0] @ heads
    cosines = head_cosines(directions_of(heads), directions_of(turned))
    np.testing.assert_allclose(np.diagonal(cosines), 1.0, atol=10 * EPS)


def test_a_head_without_a_direction_is_nan_and_left_out():
    rng = np.random.default_rng(2)
    planted = unit(rng.normal(size=(HEADS, D)))
    one, other = heads_along(rng, planted), heads_along(rng, planted)
    one[1], other[3] = 0.0, np.eye(HEAD_DIM, D)
    one[2, 0, 0] = np.inf
    cosines = head_cosines(directions_of(one), directions_of(other))
    assert np.isnan(cosines).all(axis=1).tolist() == [False, True, True, False, False]
    assert np.isnan(cosines).all(axis=0).tolist() == [False, False, False, True, False]
    match = match_heads(cosines, D)
    assert match.same_index == pytest.approx(1.0, abs=10 * EPS)  # heads 0 and 4
    rest = np.delete(np.delete(cosines, [1, 2], axis=0), 3, axis=1)
    best = max(sum(rest[head, other] for head, other in enumerate(order)) for order in permutations(range(4), 3))
    assert match.best == pytest.approx(best / 3)
    assert match.best_chance == assignment_chance(3, 4, D).mean


def test_without_heads_there_is_nothing_to_match():
    assert np.isnan(match_heads(np.full((2, 2), np.nan), D)).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), noise=st.floats(0.0, 0.03))
def test_a_planted_permutation_is_the_best_assignment(seed, noise):
    rng = np.random.default_rng(seed)
    one = np.linalg.qr(rng.normal(size=(D, HEADS)))[0].T
    order = rng.permutation(HEADS)
    other = unit(one[order] + noise * rng.normal(size=one.shape)) * rng.choice([-1, 1], size=(HEADS, 1))
    cosines = head_cosines(one, other)
    match = match_heads(cosines, D)
    assert match.best == pytest.approx(cosines[order, np.arange(HEADS)].mean())
    assert match.same_index == pytest.approx(np.diagonal(cosines).mean())


def test_layers_with_other_numbers_of_heads_have_no_same_index():
    cosines = np.array([[0.1, 0.9, 0.3], [0.8, 0.2, 0.1]])
    match = match_heads(cosines, D)
    assert np.isnan(match.same_index)
    assert match.best == pytest.approx(0.85)
    assert match == pytest.approx(match_heads(cosines.T, D), nan_ok=True)


def test_the_chance_of_a_single_head_is_that_of_a_single_pair():
    chance = assignment_chance(1, 1, 64)
    assert chance.mean == pytest.approx(chance_level(64) * (1 + 1 / 256), abs=4 * chance.error)  # its large-d form
    assert chance.sd == pytest.approx(chance_sd(64), rel=0.15)


@pytest.mark.parametrize(("num_heads", "num_others", "dimension"), [(9, 9, 48), (3, 5, 16), (6, 4, 4), (5, 5, 3)])
def test_chance_is_that_of_directions_drawn_in_full(num_heads, num_others, dimension):
    rng = np.random.default_rng(5)
    found = []
    for _ in range(500):
        cosines = head_cosines(*(unit(rng.normal(size=(number, dimension))) for number in (num_heads, num_others)))
        found.append(cosines[linear_sum_assignment(-cosines)].mean())
    chance = assignment_chance(num_heads, num_others, dimension)
    error = np.hypot(chance.error, np.std(found) / np.sqrt(500))
    assert chance.mean == pytest.approx(np.mean(found), abs=4 * error)
    assert chance.sd == pytest.approx(np.std(found), rel=4 * np.hypot(1 / np.sqrt(1000), 1 / np.sqrt(2000)))


def test_the_best_assignment_of_unrelated_heads_is_chosen_among_many():
    assert assignment_chance(32, 32, 256).mean > 1.5 * chance_level(256)
    assert assignment_chance(32, 32, 256) == assignment_chance(32, 32, 256)
