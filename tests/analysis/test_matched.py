import doctest
import math

import numpy as np
import pytest

from geocont_jax.analysis import matched as module
from geocont_jax.analysis.matched import LEAST, at_ratios, matched, matched_runs, ratio_grid
from geocont_jax.analysis.statistics import describe
from tests.analysis.records import sweep_records

NAN = math.nan


def slow(ratio, values, g):
    """Walk along training until the ratio passes g."""
    for i in range(len(ratio)):
        if ratio[i] == g:
            return values[i]
        if i + 1 < len(ratio) and (ratio[i] - g) * (ratio[i + 1] - g) < 0:
            share = (g - ratio[i]) / (ratio[i + 1] - ratio[i])
            return (1 - share) * values[i] + share * values[i + 1]
    return NAN


def test_examples():
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("rising", [True, False])
def test_the_slow_walk_agrees(rising):
    rng = np.random.default_rng(rising)
    for _ in range(50):
        ratio = rng.uniform(0, 3, 9)
        ratio = np.sort(ratio) if rising else ratio
        values = rng.uniform(0, 1, 9)
        values[rng.integers(9)] = NAN
        grid = np.append(rng.uniform(-0.5, 3.5, 40), ratio[[0, 4, 8]])
        expected = [slow(ratio, values, g) for g in grid]
        # A linear interpolation of numbers below 1 in float64.
        np.testing.assert_allclose(at_ratios(ratio, values, grid), expected, rtol=0, atol=1e-14)


def test_a_metric_that_is_linear_in_the_ratio_comes_out_exactly():
    ratio = np.array([0.0, 0.5, 1.0, 4.0])
    grid = np.array([0.0, 0.25, 0.75, 2.0, 4.0])
    assert at_ratios(ratio, 0.125 + ratio / 8, grid).tolist() == (0.125 + grid / 8).tolist()


def test_the_first_crossing_counts():
    # Rises to 2, falls back to 1, rises again: 1.5 is passed three times.
    found = at_ratios(np.array([0.0, 2.0, 1.0, 3.0]), np.array([0.0, 0.4, 0.8, 0.2]), np.array([1.5, 2.5]))
    np.testing.assert_allclose(found, [0.3, 0.35], rtol=1e-15)


@pytest.mark.parametrize(
    ("ratio", "values", "grid", "expected"),
    [
        ([0.0, 1.0], [0.2, 0.4], [-0.1, 1.1], [NAN, NAN]),
        ([0.0, NAN, 2.0], [0.1, 0.2, 0.3], [1.0, 2.0], [NAN, 0.3]),
        ([0.0, 1.0, 2.0], [NAN, 0.2, 0.3], [0.5, 1.0, 1.5], [NAN, 0.2, 0.25]),
        ([1.0], [0.7], [0.9, 1.0], [NAN, 0.7]),
        ([1.0, 1.0], [0.7, 0.9], [1.0], [0.7]),
        ([NAN, NAN], [0.7, 0.9], [1.0], [NAN]),
        ([], [], [1.0], [NAN]),
        ([0.0, 1.0], [0.2, 0.4], [], []),
    ],
    ids=["outside", "no ratio", "no value", "one record", "stands still", "nothing", "no record", "no grid"],
)
def test_degenerate_cases(ratio, values, grid, expected):
    found = at_ratios(np.array(ratio), np.array(values), np.array(grid))
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def moving(final, status=None):
    """Return records of one variant whose run i moves to final[i] and has v1 = ratio / 8 + i / 16."""
    records = sweep_records({}, seeds=range(len(final)), pairs=3, status=status)
    ratio = np.array(final)[:, None] * np.array([0, 0.5, 1])
    records["update_ratio"].values[:] = ratio
    shift = np.arange(len(final))[:, None] / 16
    records["weight_v1_cosine"].values[:] = (ratio / 8 + shift)[..., None]
    return records


def test_mean_and_interval_are_those_of_the_runs_at_that_ratio():
    records, grid = moving([1.0, 2.0, 4.0]), np.array([0.25, 0.5, 1.0])
    (curve,) = matched(records, "weight_v1_cosine", grid).values()
    for i, g in enumerate(grid):
        expected = describe(g / 8 + np.arange(3) / 16)
        # The records are float32.
        found = (curve.mean[i], curve.low[i], curve.high[i])
        assert found == pytest.approx((expected.mean, expected.ci95_low, expected.ci95_high), abs=1e-6)
    assert curve.n.tolist() == [3, 3, 3]


def test_only_where_all_seeds_come():
    (curve,) = matched(moving([1.0, 2.0]), "weight_v1_cosine", np.array([0.5, 1.5])).values()
    assert curve.n.tolist() == [2, 0]
    assert math.isnan(curve.mean[1])


def test_diverged_and_unfinished_runs_do_not_enter():
    records, grid = moving([1.0, 2.0, 0.25], ["ok", "ok", "pending"]), np.array([0.5])
    (curve,) = matched(records, "weight_v1_cosine", grid).values()
    assert curve.n.tolist() == [2]
    assert curve.mean[0] == pytest.approx(0.5 / 8 + 0.5 / 16, abs=1e-6)
    assert ratio_grid(records).max() == 2.0


def test_a_single_seed_has_no_interval():
    (curve,) = matched(moving([1.0]), "weight_v1_cosine", np.array([0.5])).values()
    assert curve.n.tolist() == [1]
    assert math.isnan(curve.low[0])


def test_every_run_has_a_row_at_the_grid():
    assert matched_runs(moving([1.0, 2.0]), "weight_v1_cosine", np.array([0.5, 1.0, 1.5])).shape == (2, 3)


def test_the_grid_spans_the_movement_and_leaves_standstill_out():
    grid = ratio_grid(moving([1.0, 4.0, 1e-6]), 5)
    assert (grid[0], grid[-1], len(grid)) == (0.5, 4.0, 5)
    assert np.diff(np.log(grid)) == pytest.approx(math.log(8) / 4)
    tiny = ratio_grid(moving([LEAST / 10]))
    # float32 records
    assert tiny[[0, -1]] == pytest.approx([LEAST / 20, LEAST / 10], rel=1e-6)
    assert len(ratio_grid(moving([0.0]))) == 0
