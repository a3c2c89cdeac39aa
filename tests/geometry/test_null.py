"""The null distribution of |cos| against its exact form and against simulation."""

import doctest
import math

import numpy as np
import pytest

from geocont_jax.geometry import null
from geocont_jax.geometry.null import chance_level, chance_sd, z_score

DIMENSIONS = [16, 64, 256]


def exact_mean(dimension):
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


def random_directions(dimension, count, layers, seed):
    vectors = np.random.default_rng(seed).standard_normal((count, layers, dimension))
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def adjacent(directions):
    return np.abs((directions[:, :-1] * directions[:, 1:]).sum(axis=-1))


def test_examples():
    assert doctest.testmod(null).failed == 0


@pytest.mark.parametrize(("dimension", "share"), [(16, 0.0155), (256, 0.00098)])
def test_the_docstring_states_the_error_of_the_large_d_form(dimension, share):
    assert 1 - chance_level(dimension) / exact_mean(dimension) == pytest.approx(share, rel=5e-3)


@pytest.mark.parametrize(("dimension", "share"), [(16, 0.029), (256, 0.0017)])
def test_the_docstring_states_the_error_of_the_sd(dimension, share):
    exact = math.sqrt(1 / dimension - exact_mean(dimension) ** 2)
    assert chance_sd(dimension) / exact - 1 == pytest.approx(share, rel=2e-2)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_mean_and_sd_agree_with_simulation(dimension):
    count = 20_000
    cosines = adjacent(random_directions(dimension, count, 2, seed=dimension))[:, 0]
    sd = chance_sd(dimension)
    # Four standard errors of sampling, and the error of the large-d form: known for the mean, about 1/(2 d) for the sd.
    bias = exact_mean(dimension) - chance_level(dimension)
    assert cosines.mean() == pytest.approx(chance_level(dimension), abs=4 * sd / math.sqrt(count) + bias)
    # A half-normal's kurtosis is 3.87: the standard error of its sd is sd sqrt((3.87 - 1) / (4 n)).
    error = 4 * sd * math.sqrt(2.87 / (4 * count))
    assert cosines.std(ddof=1) == pytest.approx(sd, abs=error + 0.5 * sd / dimension)


def test_pairs_that_share_a_layer_are_uncorrelated_under_the_null():
    count = 20_000
    cosines = adjacent(random_directions(16, count, 3, seed=0))
    assert abs(np.corrcoef(cosines.T)[0, 1]) < 4 / math.sqrt(count)


def test_z_of_a_chance_mean_is_standard_normal():
    runs, pairs, trials, dimension = 3, 15, 800, 256
    means = adjacent(random_directions(dimension, runs * trials, pairs + 1, seed=1)).reshape(trials, -1).mean(axis=1)
    scores = np.array([z_score(mean, dimension, pairs, runs) for mean in means])
    # What the large-d form shifts z by: small for so few pairs.
    bias = (exact_mean(dimension) - chance_level(dimension)) / (chance_sd(dimension) / math.sqrt(runs * pairs))
    assert bias < 0.01
    assert scores.mean() == pytest.approx(0, abs=4 / math.sqrt(trials) + bias)
    # The large-d form makes the sd 0.17 % too large, and z as much too small.
    assert scores.std(ddof=1) == pytest.approx(1, abs=4 / math.sqrt(2 * trials) + 0.002)


def test_z_counts_pairs_and_runs_alike_and_is_nan_without_them():
    above = chance_level(64) + chance_sd(64)
    assert z_score(above, 64, 16, 1) == pytest.approx(4)
    assert z_score(above, 64, 4, 4) == pytest.approx(4)
    assert z_score(chance_level(64), 64, 15, 3) == 0
    assert math.isnan(z_score(0.5, 64, 15, 0))
    assert math.isnan(z_score(math.nan, 64, 0, 3))
