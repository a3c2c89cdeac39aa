"""The null distributions against their exact forms and against simulation with random frames."""

import doctest
import math

import numpy as np
import pytest

from geocont_jax.geometry import null
from geocont_jax.geometry.null import NULLS, chance_level, chance_sd, z_score

DIMENSIONS = [16, 64, 256]

# Products V^T V' of independent Haar frames are Haar-random themselves; QR takes 10 ms each at d = 256.
NUM_FRAMES = {16: 4000, 64: 800, 256: 80}


def exact_mean(dimension):
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


def random_directions(dimension, count, layers, seed):
    vectors = np.random.default_rng(seed).standard_normal((count, layers, dimension))
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def random_frames(dimension, shape, seed, k=None):
    """Return Haar-random frames (*shape, d, k): the Q of a Gaussian, with the signs that make it unique."""
    gaussian = np.random.default_rng(seed).standard_normal((*shape, dimension, k or dimension))
    q, r = np.linalg.qr(gaussian)
    return q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]


def spectrum_shares(dimension, decay):
    """Return shares p_i of a geometric spectrum: decay 1 is flat, decay 0 a single direction."""
    shares = float(decay) ** np.arange(dimension)
    return shares / shares.sum()


MEASURES = {
    "cosine": lambda m, p, q, k: np.abs(m[..., 0, 0]),
    "alignment": lambda m, p, q, k: np.abs(np.diagonal(m, axis1=-2, axis2=-1)) @ p,
    "alignment_best": lambda m, p, q, k: np.abs(m).max(axis=-1) @ p,
    "alignment_full": lambda m, p, q, k: np.square(m) @ q @ p,
    "overlap": lambda m, p, q, k: np.square(m[..., :k, :k]).sum(axis=(-2, -1)) / k,
}
"""Each kind of measure, of products `m = V^T V'` (..., d, d) and shares p of V and q of V'."""


def large_d_bias(kind, dimension):
    """Return what `chance_level` leaves out of the mean."""
    return exact_mean(dimension) - chance_level(dimension) if kind in ("cosine", "alignment") else 0.0


def errors(values):
    """Return the standard errors of the mean and of the sd of a sample, from its own sd and kurtosis."""
    sd, count = values.std(), len(values)
    kurtosis = np.mean((values - values.mean()) ** 4) / sd**4
    return sd / math.sqrt(count), sd * math.sqrt((kurtosis - 1) / (4 * count))


def test_examples():
    assert doctest.testmod(null).failed == 0


def test_every_null_is_simulated():
    assert set(MEASURES) == set(NULLS)


@pytest.mark.parametrize(("dimension", "share"), [(16, 0.0155), (256, 0.00098)])
def test_the_docstring_states_the_error_of_the_large_d_form(dimension, share):
    assert 1 - chance_level(dimension) / exact_mean(dimension) == pytest.approx(share, rel=5e-3)


@pytest.mark.parametrize(("dimension", "share"), [(16, 0.029), (256, 0.0017)])
def test_the_docstring_states_the_error_of_the_sd(dimension, share):
    exact = math.sqrt(1 / dimension - exact_mean(dimension) ** 2)
    assert chance_sd(dimension) / exact - 1 == pytest.approx(share, rel=2e-2)


@pytest.mark.parametrize("decay", [1.0, 0.8])
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_means_agree_with_simulation_and_no_sd_is_understated(dimension, decay):
    count = NUM_FRAMES[dimension]
    frames = random_frames(dimension, (count,), seed=dimension)
    p, q = spectrum_shares(dimension, decay), spectrum_shares(dimension, 0.9)
    for kind, measure in MEASURES.items():
        for k in (1, 4, 15) if kind == "overlap" else (1,):
            values, of_pair = measure(frames, p, q, k), NULLS[kind]
            of_mean, of_sd = errors(values)
            # Four standard errors, and rounding where nothing is random: the full sum with flat weights is 1/d always.
            expected = of_pair.mean(dimension, k) + large_d_bias(kind, dimension)
            assert values.mean() == pytest.approx(expected, abs=4 * of_mean + 1e-12), kind
            assert values.std() < of_pair.sd(dimension, k) + 4 * of_sd, kind


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_sds_are_those_of_a_single_direction(dimension):
    """With all weight on one direction each alignment has the sd that bounds it."""
    count = 20_000 if dimension < 256 else 8_000
    x = random_directions(dimension, count, 1, seed=dimension)[:, 0]
    singles = {
        "cosine": np.abs(x[:, 0]),
        "alignment": np.abs(x[:, 0]),
        "alignment_best": np.abs(x).max(axis=-1),
        "alignment_full": np.square(x[:, 0]),
    }
    for kind, values in singles.items():
        mean, sd = NULLS[kind].mean(dimension), NULLS[kind].sd(dimension)
        of_mean, of_sd = errors(values)
        bias = large_d_bias(kind, dimension)
        assert values.mean() == pytest.approx(mean + bias, abs=4 * of_mean), kind
        # The large-d form of the mean makes the sd larger by 1/(2 d) of it (tested above).
        assert values.std() == pytest.approx(sd, abs=4 * of_sd + (0.5 * sd / dimension if bias else 0.0)), kind


@pytest.mark.parametrize(("dimension", "k"), [(16, 1), (16, 4), (16, 12), (64, 4), (64, 16), (256, 4), (256, 16)])
def test_the_variance_of_an_overlap_is_exact(dimension, k):
    # One subspace may as well be that of the first k coordinates: only the other's k x k block matters.
    count = 20_000 if dimension == 16 else 2_000
    block = random_frames(dimension, (count,), seed=k, k=k)[..., :k, :]
    values = np.square(block).sum(axis=(-2, -1)) / k
    of_mean, of_sd = errors(values)
    assert values.mean() == pytest.approx(k / dimension, abs=4 * of_mean)
    assert values.std() == pytest.approx(NULLS["overlap"].sd(dimension, k), abs=4 * of_sd)


def test_the_best_match_in_two_dimensions_has_a_closed_form():
    """In the plane the best of two is within 45 degrees: mean cos = 2 sqrt(2)/pi, mean cos^2 = 1/2 + 1/pi."""
    mean = 2 * math.sqrt(2) / math.pi
    assert NULLS["alignment_best"].mean(2) == pytest.approx(mean, abs=1e-12)
    assert NULLS["alignment_best"].sd(2) == pytest.approx(math.sqrt(0.5 + 1 / math.pi - mean**2), abs=1e-9)


def test_a_flat_spectrum_averages_out_far_below_the_bound():
    """The bound on an alignment's sd is loose by about sqrt(d) there: its z is a lower bound, by as much."""
    frames = random_frames(64, (400,), seed=0)
    spread = MEASURES["alignment"](frames, spectrum_shares(64, 1.0), None, 1).std()
    assert 4 < chance_sd(64) / spread < 16


@pytest.mark.parametrize("kind", NULLS)
def test_pairs_that_share_a_layer_are_uncorrelated_under_the_null(kind):
    count, dimension = 4_000, 16
    frames = random_frames(dimension, (3, count), seed=1)
    p, q = spectrum_shares(dimension, 0.5), spectrum_shares(dimension, 0.7)
    products = np.swapaxes(frames[:-1], -1, -2) @ frames[1:]
    pairs = [MEASURES[kind](product, p, q, 4) for product in products]
    assert abs(np.corrcoef(pairs)[0, 1]) < 4 / math.sqrt(count)
    # Independent is more than uncorrelated: large deviations on either side do not come together.
    squares = [np.square(values - values.mean()) for values in pairs]
    assert abs(np.corrcoef(squares)[0, 1]) < 4 / math.sqrt(count)


def test_z_of_a_chance_mean_is_standard_normal():
    runs, pairs, trials, dimension = 3, 15, 800, 256
    directions = random_directions(dimension, runs * trials, pairs + 1, seed=1)
    cosines = np.abs((directions[:, :-1] * directions[:, 1:]).sum(axis=-1))
    scores = np.array([z_score(mean, dimension, pairs, runs) for mean in cosines.reshape(trials, -1).mean(axis=1)])
    # What the large-d form shifts z by: small for so few pairs.
    bias = large_d_bias("cosine", dimension) / (chance_sd(dimension) / math.sqrt(runs * pairs))
    assert bias < 0.01
    assert scores.mean() == pytest.approx(0, abs=4 / math.sqrt(trials) + bias)
    # The large-d form makes the sd 0.17 % too large, and z as much too small.
    assert scores.std(ddof=1) == pytest.approx(1, abs=4 / math.sqrt(2 * trials) + 0.002)


@pytest.mark.parametrize(("kind", "k"), [(kind, k) for kind in NULLS for k in (1, 16)])
def test_z_counts_pairs_and_runs_alike_and_is_nan_without_them(kind, k):
    mean, sd = NULLS[kind].mean(64, k), NULLS[kind].sd(64, k)
    assert z_score(mean + sd, 64, 16, 1, kind, k) == pytest.approx(4)
    assert z_score(mean + sd, 64, 4, 4, kind, k) == pytest.approx(4)
    assert z_score(mean, 64, 15, 3, kind, k) == 0
    assert math.isnan(z_score(0.5, 64, 15, 0, kind, k))
    assert math.isnan(z_score(math.nan, 64, 0, 3, kind, k))


def test_only_overlaps_depend_on_k_and_the_whole_space_has_no_z():
    for kind, of_pair in NULLS.items():
        assert (of_pair.mean(64, 1) == of_pair.mean(64, 4)) == (kind != "overlap")
        assert (of_pair.sd(64, 1) == of_pair.sd(64, 4)) == (kind != "overlap")
    for k in (8, 16):
        assert NULLS["overlap"].mean(8, k) == 1
        assert math.isnan(z_score(1.0, 8, 15, 3, "overlap", k))


def test_z_of_a_cosine_is_the_default():
    assert z_score(0.1, 256, 15, 3) == z_score(0.1, 256, 15, 3, "cosine")
    with pytest.raises(KeyError):
        z_score(0.1, 256, 15, 3, "sine")
