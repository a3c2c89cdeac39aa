import doctest
import math

import numpy as np
import pytest
from scipy import stats

from geocont_jax.analysis import statistics
from geocont_jax.analysis.statistics import describe


def test_examples():
    assert doctest.testmod(statistics).failed == 0


def test_three_seeds_by_hand():
    found = describe([0.80, 0.82, 0.78])
    assert found.n == 3
    # Rounding of a mean and of a sum of squares of numbers below 1.
    assert found.mean == pytest.approx(0.80, abs=1e-15)
    assert found.sd == pytest.approx(0.02, abs=1e-15)
    assert found.sem == pytest.approx(0.02 / math.sqrt(3), abs=1e-15)
    assert found.ci95_high - found.mean == pytest.approx(0.0497, abs=5e-5)
    assert found.mean - found.ci95_low == pytest.approx(found.ci95_high - found.mean, abs=1e-15)


def test_the_interval_is_scipys():
    sample = np.random.default_rng(0).normal(size=7)
    low, high = stats.t.interval(0.95, 6, loc=sample.mean(), scale=stats.sem(sample))
    assert describe(sample)[4:] == pytest.approx((low, high), rel=1e-12)


def test_the_interval_holds_the_true_mean_in_95_of_100_samples():
    samples = np.random.default_rng(1).normal(size=(4000, 3))
    inside = [found.ci95_low < 0 < found.ci95_high for found in map(describe, samples)]
    # Four standard errors of a share of 0.95 in 4,000 samples.
    assert np.mean(inside) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))


def test_nan_is_left_out_and_not_counted():
    assert describe([math.nan, 0.80, 0.82, math.nan, 0.78]) == describe([0.80, 0.82, 0.78])


@pytest.mark.parametrize("values", [[0.3], [math.nan, 0.3]])
def test_one_value_has_no_interval(values):
    found = describe(values)
    assert (found.n, found.mean) == (1, 0.3)
    assert all(map(math.isnan, found[2:]))


@pytest.mark.parametrize("values", [[], [math.nan], [math.nan, math.nan]])
def test_no_value_has_nothing(values):
    found = describe(values)
    assert found.n == 0
    assert all(map(math.isnan, found[1:]))


def test_equal_values_have_an_interval_of_width_zero():
    assert describe([0.5, 0.5]) == (2, 0.5, 0.0, 0.0, 0.5, 0.5)


def test_an_infinite_value_does_not_vanish():
    found = describe([math.inf, 1.0])
    assert (found.n, found.mean) == (2, math.inf)
    assert math.isnan(found.sd)
