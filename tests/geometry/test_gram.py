"""The Gram method against float64 NumPy and the exact SVD, within the errors that its docstring derives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geocont_jax.geometry.quantities import QUANTITIES, decompose_layers, measure_layers
from geocont_jax.geometry.spectra import Defect, decompose, degenerate_gap, leading_residual

EPS = float(np.finfo(np.float32).eps)
SHAPES = [(24, 24), (20, 28), (28, 20)]  # the same few throughout: each is compiled once

DECOMPOSE = jax.jit(decompose, static_argnames="method")
RESIDUAL = jax.jit(leading_residual)
MEASURE = jax.jit(lambda stack, method: measure_layers(decompose_layers(stack, method)), static_argnames="method")


def by_gram(matrices):
    return jax.tree.map(np.asarray, DECOMPOSE(jnp.asarray(matrices, jnp.float32), method="gram"))


def with_spectrum(seed, values, shape):
    """Return a float32 matrix with given singular values and random singular vectors."""
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.normal(size=(d, len(values))))[0] for d in shape)
    return (u * values @ v.T).astype(np.float32)


def planted(shape, gap):
    """Return a spectrum with a given relative gap, the rest of it crowded below the second value."""
    return np.r_[1.0, (1 - gap) * 0.95 ** np.arange(min(shape) - 1)]


def roundings(shape):
    """Return c, with which the Gram matrix and its eigenvectors are off by `c eps s_1^2`: sqrt(d), of which it is
    a half in practice."""
    return np.sqrt(max(shape))


def sine(one, other):
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return np.linalg.norm(one - (one @ other) * other)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), exponent=st.floats(-3, -0.05))
def test_the_leading_direction_turns_by_c_roundings_over_the_gap(shape, seed, exponent):
    matrix = with_spectrum(seed, planted(shape, 10**exponent), shape)
    u, s, vh = np.linalg.svd(matrix.astype(np.float64), full_matrices=False)
    found = by_gram(matrix[None])
    gap = (s[0] - s[1]) / s[0]
    assert found.defect.tolist() == [Defect.NONE]
    for direction, expected in ((found.v1[0], vh[0]), (found.u1[0], u[:, 0])):
        assert sine(direction, expected) <= roundings(shape) * EPS / (gap * (2 - gap)) + 2 * EPS


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), ratio=st.floats(0.2, 1.0), rank=st.integers(1, 20))
def test_squares_of_values_are_known_to_c_roundings_of_the_largest(shape, seed, ratio, rank):
    """Random, crowded, steep and rank-deficient spectra; those below rounding are zero and not something."""
    matrix = with_spectrum(seed, ratio ** np.arange(rank), shape)
    s = np.linalg.svd(matrix.astype(np.float64), compute_uv=False)
    found = by_gram(matrix[None])
    values = found.s[0].astype(np.float64)
    assert (np.diff(values) <= 0).all()
    assert np.abs(values**2 - s**2).max() <= 4 * roundings(shape) * EPS * s[0] ** 2
    near, far = (found.u[0], found.v[0]) if shape[0] <= shape[1] else (found.v[0], found.u[0])
    np.testing.assert_allclose(near @ near.T, np.eye(min(shape)), atol=4 * roundings(shape) * EPS)
    # Vectors of the other side are W v / s, and as orthogonal as the Gram matrix is diagonal in those of this one.
    used = values > 0
    scale = np.outer(values, values)[np.ix_(used, used)] / values[0] ** 2
    assert (np.abs(far[used] @ far[used].T - np.eye(used.sum())) <= 4 * roundings(shape) * EPS / scale).all()
    assert not far[~used].any()


@pytest.mark.parametrize("shape", SHAPES)
def test_directions_below_rounding_count_as_unused_and_span_no_subspace(shape):
    """Values of 0.3^i: from i = 7 their squares are less than roundings of the largest, and any order is as good."""
    found = by_gram(stack_of(shape, 0, 0.3 ** np.arange(min(shape))))
    assert (found.s[:, :6] > 0).all()
    assert (found.s[:, 8:] == 0).all()
    assert (np.asarray(found.gap(16)) < degenerate_gap(*shape)).all()


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), gap=st.sampled_from([0.0, 1e-8, 1e-3, 0.5]), count=st.integers(2, 20))
def test_no_direction_is_made_up_where_leading_values_cluster(shape, seed, gap, count):
    values = 0.5 * np.ones(min(shape))
    values[:count] = 1.0
    values[0] += gap
    defect = by_gram(with_spectrum(seed, values, shape)[None]).defect.tolist()
    assert defect == [Defect.NONE if gap > degenerate_gap(*shape) else Defect.DEGENERATE]


@pytest.mark.parametrize("dimension", [2, 24, 96])
def test_matrices_without_a_leading_direction_have_a_reason(dimension):
    rng = np.random.default_rng(dimension)
    bad = np.ones((dimension, dimension))
    matrices = {
        Defect.ZERO: [0 * bad],
        Defect.DEGENERATE: [np.eye(dimension), np.eye(dimension)[::-1], np.linalg.qr(rng.normal(size=bad.shape))[0]],
        Defect.NON_FINITE: [np.where(np.eye(dimension) > 0, odd, 1.0) for odd in (np.nan, np.inf, -np.inf)],
        Defect.NONE: [bad],
    }
    expected = [defect for defect, of in matrices.items() for _ in of]
    found = by_gram(np.stack([matrix for of in matrices.values() for matrix in of]))
    assert found.defect.tolist() == expected
    for values in (found.v1, found.u1):
        assert np.isnan(values).all(axis=-1).tolist() == [defect != Defect.NONE for defect in expected]
    for values in (found.u, found.s, found.v):
        assert np.isnan(values).reshape(len(expected), -1).any(axis=1).tolist() == [
            defect == Defect.NON_FINITE for defect in expected
        ]


def test_eigenvectors_that_did_not_converge_have_a_reason(monkeypatch):
    monkeypatch.setattr(jnp.linalg, "eigh", lambda gram: (gram[..., 0] * jnp.nan, gram * jnp.nan))
    assert jax.jit(decompose, static_argnums=1)(jnp.eye(3)[None], "gram").defect.tolist() == [Defect.NOT_CONVERGED]


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("shape", SHAPES)
def test_squares_neither_overflow_nor_underflow(shape, scale):
    matrix = with_spectrum(0, planted(shape, 0.1), shape)
    plain, scaled = by_gram(matrix[None]), by_gram((scale * matrix.astype(np.float64))[None])
    assert scaled.defect.tolist() == [Defect.NONE]
    assert sine(scaled.v1[0], plain.v1[0]) < 2 * roundings(shape) * EPS / 0.1
    np.testing.assert_allclose(scaled.s / scale, plain.s, atol=4 * roundings(shape) * EPS)


def stack_of(shape, seed, values):
    return np.stack([with_spectrum(seed + layer, values, shape) for layer in range(3)])


SPECTRA = {
    "geometric": lambda rank: 0.8 ** np.arange(rank),
    "rank-deficient": lambda rank: np.r_[0.8 ** np.arange(rank // 2), np.zeros(rank - rank // 2)],
    "rank 1": lambda rank: np.r_[1.0, np.zeros(rank - 1)],
    "tie below the first": lambda rank: np.r_[1.0, 0.5 * np.ones(rank - 1)],
    "zero": np.zeros,
}


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_quantities_are_those_of_the_exact_method(shape, spectrum):
    stack = jnp.asarray(stack_of(shape, 7, SPECTRA[spectrum](min(shape))))
    exact, gram = (MEASURE(stack, method=method) for method in ("exact", "gram"))
    for name in QUANTITIES:
        one, other = np.asarray(exact[name]), np.asarray(gram[name])
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other), err_msg=name)
        if spectrum == "tie below the first" and "alignment" in name and "full" not in name:
            continue  # any basis of the tied directions is right
        np.testing.assert_allclose(other, one, atol=tolerance(name, shape), err_msg=name)


def tolerance(name, shape):
    """Return what two float32 methods may differ by on `SPECTRA`, as in test_quantities with gaps of 0.2 s_i.

    The subspace of k turns by c roundings over `(s_k^2 - s_{k+1}^2) / s_1^2`.
    """
    base = 4 * roundings(shape) * EPS
    if "overlap" in name:
        return 2 * base / (0.8 ** (2 * QUANTITIES[name].k) * 0.36)
    return base * (max(shape) if "rank" in name else 1 / 0.2**2)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_residual_tells_a_wrong_direction_on_either_side(shape):
    matrix = with_spectrum(3, planted(shape, 0.2), shape)[None]
    spectrum = DECOMPOSE(jnp.asarray(matrix), method="gram")
    assert RESIDUAL(matrix, spectrum)[0] < 2 * roundings(shape) * EPS
    for side in "uv":
        vectors = getattr(spectrum, side)
        turned = vectors.at[0, 0].set((vectors[0, 0] + 0.01 * vectors[0, 5]) / np.sqrt(1.0001))
        assert RESIDUAL(matrix, spectrum._replace(**{side: turned}))[0] > 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_the_residual_tells_wrong_eigenvectors(shape):
    """The other side fits a wrong v1 by construction, `u1 = W v1 / |W v1|`: one equation of the two says nothing."""
    matrix = with_spectrum(3, planted(shape, 0.2), shape)
    spectrum = DECOMPOSE(jnp.asarray(matrix)[None], method="gram")
    near, far = ("u", "v") if shape[0] <= shape[1] else ("v", "u")
    wrong = getattr(spectrum, near)[0, 0] + 0.01 * getattr(spectrum, near)[0, 5]
    wrong /= jnp.linalg.norm(wrong)
    fitting = wrong @ matrix if near == "u" else matrix @ wrong
    s1 = jnp.linalg.norm(fitting)
    spoilt = spectrum._replace(
        s=spectrum.s.at[0, 0].set(s1),
        **{near: getattr(spectrum, near).at[0, 0].set(wrong), far: getattr(spectrum, far).at[0, 0].set(fitting / s1)},
    )
    assert RESIDUAL(matrix[None], spoilt)[0] > 1e-3


def test_zero_has_no_residual():
    matrix = jnp.zeros((1, *SHAPES[0]))
    assert np.isnan(RESIDUAL(matrix, DECOMPOSE(matrix, method="gram"))).all()


@pytest.mark.parametrize("method", ["exact", "gram"])
def test_float64_stays_float64(method):
    shape = SHAPES[1]
    matrix = with_spectrum(5, planted(shape, 0.1), shape).astype(np.float64)
    u, s, vh = np.linalg.svd(matrix, full_matrices=False)
    with jax.enable_x64(True):
        found = DECOMPOSE(jnp.asarray(matrix)[None], method=method)
        assert found.v.dtype == found.s.dtype == np.float64
        assert max(sine(found.v1[0], vh[0]), sine(found.u1[0], u[:, 0])) < 1e-13
        np.testing.assert_allclose(found.s[0], s, atol=1e-13)


def test_leading_axes_are_batch_axes():
    stack = stack_of((20, 28), 11, planted((20, 28), 0.1))
    together, alone = by_gram(stack[:, None]), by_gram(stack[1:2])
    assert together.v.shape == (3, 1, 20, 28)
    np.testing.assert_allclose(together.s[1], alone.s, atol=4 * roundings((20, 28)) * EPS)
    assert sine(together.v1[1, 0], alone.v1[0]) < 2 * roundings((20, 28)) * EPS / 0.1
