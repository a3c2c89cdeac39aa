"""The fast solver against float64 SVDs: what it finds, what it hands on to the exact one, what it never makes up."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geocont_jax.geometry.leading import block_size, fresh_directions, leading_triplets, renewed
from geocont_jax.geometry.null import NULLS
from geocont_jax.geometry.spectra import Defect

PROMISED = 1e-4  # |cos| of layers whose gaps are above 1 %
GAP = 0.01
SOLVE = jax.jit(leading_triplets, static_argnames="k")


def solve(matrices, k=1, start=None, seed=7):
    matrices = jnp.asarray(matrices)
    smaller = min(matrices.shape[-2:])
    if start is None:
        shape = (*matrices.shape[:-2], block_size(k, smaller), smaller)
        start = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return SOLVE(matrices, jnp.asarray(start), k=k)


def cosines(vectors):
    vectors = np.asarray(vectors, np.float64)
    return np.abs(np.sum(vectors[:-1] * vectors[1:], axis=-1))


def exact(matrices):
    u, s, vh = np.linalg.svd(np.asarray(matrices, np.float64), full_matrices=False)
    return np.swapaxes(u, -1, -2), s, vh


def with_values(values, shape, seed):
    """Return a layer stack (layer, d_out, d_in) with the given singular values and random directions."""
    rng = np.random.default_rng(seed)
    layers, d_out, d_in = shape
    u = np.linalg.qr(rng.normal(size=(layers, d_out, d_out)))[0][..., : len(values)]
    v = np.linalg.qr(rng.normal(size=(layers, d_in, d_in)))[0][..., : len(values)]
    return ((u * values) @ np.swapaxes(v, -1, -2)).astype(np.float32)


def assert_as_promised(found, matrices):
    """Where both gaps are above 1 % the cosines are within 1e-4 of float64, v1 and u1 fit, and s is right to 1e-5."""
    u, s, v = exact(matrices)
    gap = 1 - s[:, 1] / s[:, 0]
    clear = (gap[:-1] > GAP) & (gap[1:] > GAP)
    for side, vectors in (("v1", v[:, 0]), ("u1", u[:, 0])):
        error = np.abs(cosines(getattr(found.spectrum, side)) - cosines(vectors))
        assert error[clear].max(initial=0.0) <= PROMISED, side
    np.testing.assert_allclose(found.spectrum.s[:, 0], s[:, 0], rtol=1e-5)
    assert np.asarray(found.residual).max() <= 1e-4


@pytest.mark.parametrize("shape", [(5, 64, 64), (5, 96, 40), (5, 40, 96)], ids=str)
@pytest.mark.parametrize("kind", ["random", "power law", "one stands out", "low rank"])
@pytest.mark.parametrize("k", [1, 4, 16])
def test_triplets_are_those_of_float64(shape, kind, k):
    rng = np.random.default_rng(1)
    rank = min(shape[1:])
    bulk = rng.uniform(-1, 1, size=shape).astype(np.float32) / np.sqrt(shape[2])
    matrices = {
        "random": bulk,
        "power law": with_values(3 * np.arange(1, rank + 1) ** -0.7, shape, 2),
        "one stands out": bulk + with_values([6.0], shape, 3),
        "low rank": with_values([3.0, 2.0, 1.0, 0.5, 0.2], shape, 4),
    }[kind]
    found = solve(matrices, k)
    assert found.spectrum.s.shape == (5, k + 1)
    assert found.basis.shape == (5, block_size(k, rank), rank)
    assert_as_promised(found, matrices)
    _, s, v = exact(matrices)
    clear = (s[:, k - 1] - s[:, k]) / s[:, 0] > GAP
    overlap = np.linalg.norm(np.asarray(found.spectrum.v, np.float64)[:, :k] @ np.swapaxes(v[:, :k], 1, 2), axis=(1, 2))
    np.testing.assert_allclose(overlap[clear] ** 2 / k, 1.0, atol=1e-5)  # SPACE_ANGLE squared, and rounding


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.0, 2.0), st.floats(0.0, 0.3), st.integers(-30, 30))
def test_any_spectrum_and_scale(seed, decay, gap, exponent):
    values = np.arange(1, 41) ** -decay
    values[1:] *= 1 - gap
    matrices = with_values(values, (4, 40, 40), seed) * np.float32(10.0) ** exponent
    found = solve(matrices, seed=seed)
    _, s, _ = exact(matrices)
    if (1 - s[:, 1] / s[:, 0]).min() > 1e-3:
        assert_as_promised(found, matrices)
        assert found.spectrum.defect.tolist() == [0] * 4


def test_random_layers_stay_at_chance_from_whatever_start():
    """A start that has not converged is a direction of its own: a shared one would look like continuity."""
    layers, width = 60, 48
    matrices = np.random.default_rng(5).normal(size=(layers, width, width)).astype(np.float32)
    null = NULLS["cosine"]
    shared = np.broadcast_to(np.random.default_rng(6).normal(size=(block_size(1, width), width)), (layers, 16, width))
    for start in (None, shared.astype(np.float32)):
        found = cosines(solve(matrices, start=start).spectrum.v1)
        # Neighbouring pairs share a layer, but their cosines are uncorrelated.
        assert abs(found.mean() - null.mean(width, 1)) < 4 * null.sd(width, 1) / np.sqrt(layers - 1)


@pytest.mark.parametrize(
    ("broken", "defect"), [(0.0, Defect.ZERO), (np.nan, Defect.NON_FINITE), (np.inf, Defect.NON_FINITE)]
)
def test_a_broken_matrix_is_named_and_spoils_no_other(broken, defect):
    matrices = with_values([3.0, 2.0, 1.0], (4, 24, 24), 8)
    sound = solve(matrices)
    matrices[2] = broken if broken == 0.0 else matrices[2]
    matrices[2, 3, 4] = broken
    found = solve(matrices)
    assert found.spectrum.defect.tolist() == [0, 0, defect, 0]
    assert np.isnan(found.spectrum.v1[2]).all()
    assert np.isfinite(found.basis).all()
    others = [0, 1, 3]
    np.testing.assert_allclose(abs(found.spectrum.v1[jnp.array(others)]), abs(sound.spectrum.v1[jnp.array(others)]),
                               atol=1e-6)  # fmt: skip


def test_a_degenerate_leading_value_has_no_direction():
    found = solve(with_values([2.0, 2.0, 1.0, 0.5], (3, 30, 30), 9))
    assert found.spectrum.defect.tolist() == [Defect.DEGENERATE] * 3
    assert np.isnan(found.spectrum.v1).all()


def test_what_does_not_converge_is_decomposed_exactly(monkeypatch):
    monkeypatch.setattr("geocont_jax.geometry.leading.MAX_ROUNDS", 2)
    rng = np.random.default_rng(10)
    matrices = rng.normal(size=(6, 80, 80)).astype(np.float32)
    matrices[1] += with_values([1e4], (1, 80, 80), 11)[0]  # this one converges soon
    found = jax.jit(partial(leading_triplets, k=1))(matrices, fresh_directions(rng.normal(size=(6, 80, 80)), 16))
    assert found.repeated.tolist() == [True, False, True, True, True, True]
    u, s, v = exact(matrices)
    np.testing.assert_allclose(found.spectrum.s[:, 0], s[:, 0], rtol=1e-5)
    for vectors, truth in ((found.spectrum.v, v), (found.spectrum.u, u)):
        np.testing.assert_allclose(abs(np.sum(vectors[:, 0] * truth[:, 0], axis=-1)), 1.0, atol=1e-5)
    np.testing.assert_allclose(abs(np.sum(found.basis[0] * v[0, :16], axis=-1)), 1.0, atol=1e-3)
    # Lanes with different numbers of failures: as many turns as the one with most of them.
    split = partial(jnp.reshape, shape=(3, 2, 80, 80))
    start = fresh_directions(split(matrices), 16)
    lanes = jax.jit(jax.vmap(partial(leading_triplets, k=1)))(split(matrices), start)
    assert lanes.repeated.any(axis=1).all()
    assert not lanes.repeated.all()
    np.testing.assert_allclose(abs(np.sum(lanes.spectrum.v1.reshape(6, 80) * v[:, 0], axis=-1)), 1.0, atol=1e-5)


def test_a_direction_that_appears_between_two_records_is_found():
    """Subspace iteration from the old basis alone never sees what is orthogonal to it."""
    values = [5.0, *np.linspace(2.0, 1.0, 40)]
    old = with_values(values, (1, 48, 48), 12)
    first = solve(old)
    _, _, v = exact(old)
    new = 9.0 * np.outer(exact(old)[0][0, -1], v[0, -1]).astype(np.float32)  # orthogonal to all that the basis knows
    basis = jnp.asarray(v[:, : first.basis.shape[1]], jnp.float32)
    fresh = jnp.asarray(np.random.default_rng(13).normal(size=basis.shape), jnp.float32)
    found = solve(old + new, start=renewed(basis, fresh))
    assert abs(float(found.spectrum.v1[0] @ v[0, -1])) > 1 - 1e-4


def test_a_warm_start_gives_what_a_cold_one_gives():
    matrices = with_values(3 * np.arange(1, 49) ** -0.5, (4, 48, 48), 14)
    moved = matrices + 0.01 * np.random.default_rng(15).normal(size=matrices.shape).astype(np.float32)
    cold = solve(moved)
    warm = solve(moved, start=renewed(solve(matrices).basis, jnp.asarray(matrices)))
    np.testing.assert_allclose(abs(np.sum(cold.spectrum.v1 * warm.spectrum.v1, axis=-1)), 1.0, atol=1e-6)


def test_stacks_of_stacks_and_vmap_are_the_same():
    matrices = np.random.default_rng(16).normal(size=(2, 3, 32, 32)).astype(np.float32)
    start = np.random.default_rng(17).normal(size=(2, 3, 16, 32)).astype(np.float32)
    together = solve(matrices, start=start)
    assert together.repeated.shape == (2, 3)
    apart = jax.vmap(partial(leading_triplets, k=1))(matrices, start)
    for found in (apart.spectrum.v1, apart.spectrum.u1):
        assert found.shape == (2, 3, 32)
    np.testing.assert_allclose(abs(np.sum(together.spectrum.v1 * apart.spectrum.v1, axis=-1)), 1.0, atol=1e-5)


def test_matrices_smaller_than_the_block_are_decomposed_too():
    matrices = np.random.default_rng(18).normal(size=(3, 5, 4)).astype(np.float32)
    found = solve(matrices, k=16)
    assert found.spectrum.s.shape == (3, 4)
    assert_as_promised(found, matrices)


def test_float64_stays_float64():
    with jax.enable_x64():
        matrices = with_values(np.arange(1, 31) ** -1.0, (3, 30, 30), 19).astype(np.float64)
        found = leading_triplets(jnp.asarray(matrices), jnp.asarray(matrices)[:, :16], 1)
        assert found.spectrum.v.dtype == jnp.float64
        np.testing.assert_allclose(cosines(found.spectrum.v1), cosines(exact(matrices)[2][:, 0]), atol=PROMISED)


@pytest.mark.parametrize("value", [5.1, 9.0])
def test_one_that_has_just_overtaken_is_found_from_a_basis_that_knows_nothing_of_it(value):
    values = [5.0, *np.linspace(2.0, 1.0, 40)]
    old = with_values(values, (1, 48, 48), 20)
    u, _, v = exact(old)
    basis = jnp.asarray(v[:, : block_size(1, 48)], jnp.float32)
    fresh = jnp.asarray(np.random.default_rng(21).normal(size=basis.shape), jnp.float32)
    found = solve(old + value * np.outer(u[0, -1], v[0, -1]).astype(np.float32), start=renewed(basis, fresh))
    # The residual test leaves an angle of ANGLE, whose cosine is 1 to float32.
    assert abs(float(found.spectrum.v1[0] @ v[0, -1])) > 1 - 1e-6


def test_sixteen_triplets_of_trained_matrices_need_no_exact_decomposition():
    """The sixteenth value is a quarter of the first, at the edge of what the network started from."""
    bulk = np.random.default_rng(22).uniform(-1 / 16, 1 / 16, size=(2, 256, 256)).astype(np.float32)
    matrices = bulk + with_values(4.0 / np.arange(1, 257), (2, 256, 256), 23)
    found = solve(matrices, k=16)
    assert not found.repeated.any()
    assert_as_promised(found, matrices)
    _, s, _ = exact(matrices)
    # Each value to a rounding of the largest square over its own: sqrt(d) eps s_1^2 / (2 s_i), with s_i > s_1 / 4.
    np.testing.assert_allclose(found.spectrum.s, s[:, :17], atol=2 * 16 * 1.2e-7 * s.max())


@pytest.mark.parametrize("cluster", [1e-2, 1e-3, 1e-4])
def test_clustered_values_are_told_apart_or_decomposed_exactly(cluster):
    matrices = with_values([2.0, *2.0 * (1 - cluster * np.arange(1, 8)), *np.ones(30)], (4, 40, 40), 24)
    found = solve(matrices)
    u, s, v = exact(matrices)
    gap = 1 - s[:, 1] / s[:, 0]
    # Off by the residual over the gap of the squares; held to the larger of ANGLE (where the gap is 1 %) and rounding.
    limit = max(4e-5 * 0.0199, 2 * np.sqrt(40) * 1.2e-7) / (gap * (2 - gap)) + 1e-6
    for vectors, truth in ((found.spectrum.v1, v), (found.spectrum.u1, u)):
        vectors = np.asarray(vectors, np.float64)
        sine = np.linalg.norm(vectors - np.sum(vectors * truth[:, 0], axis=-1, keepdims=True) * truth[:, 0], axis=-1)
        assert (sine <= limit).all()


def test_all_abreast_is_one_by_one(monkeypatch):
    """What devices other than a CPU do."""
    matrices = with_values(3 * np.arange(1, 33) ** -0.5, (3, 32, 32), 25)
    one_by_one = solve(matrices)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *args, cpu, default: default(*args))
    start = np.random.default_rng(7).normal(size=one_by_one.basis.shape).astype(np.float32)
    abreast = jax.jit(partial(leading_triplets, k=1))(matrices, start)
    assert len(set(abreast.rounds.tolist())) == 1  # they wait for each other
    assert (one_by_one.rounds <= abreast.rounds).all()
    np.testing.assert_allclose(abs(np.sum(one_by_one.spectrum.v1 * abreast.spectrum.v1, axis=-1)), 1.0, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 3])
def test_exact_decompositions_wait_for_a_failure(layers):
    """XLA moves what does not change out of a loop, whether or not the loop has a turn."""
    matrices = jnp.ones((layers, 32, 32))
    program = jax.jit(partial(leading_triplets, k=1)).lower(matrices, matrices[:, :16]).compile().as_text()
    assert "gesdd" in program
    assert "gesdd" not in program[program.index("ENTRY") :]
