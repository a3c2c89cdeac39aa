import doctest
import math

import numpy as np
import pytest

from geocont_jax.analysis import curves
from geocont_jax.analysis.curves import clock, finished_runs, over_training, run_times
from geocont_jax.analysis.statistics import describe
from tests.analysis.records import sweep_records

TWO = {"activation": ["relu", "gelu"]}


def test_examples():
    assert doctest.testmod(curves).failed == 0


def test_a_curve_is_the_statistics_of_run_means_at_every_record():
    records = sweep_records(TWO, pairs=4)
    values = np.random.default_rng(0).uniform(size=records.weight_v1_cosine.shape).astype(np.float32)
    values[0, 1, :3] = np.nan
    records.weight_v1_cosine.values[:] = values
    found = over_training(records, "weight_v1_cosine")
    for variant, runs in zip(found, ([0, 1, 2], [3, 4, 5]), strict=True):
        curve = found[variant]
        assert curve.x.tolist() == [0, 1, 2]
        for record in range(3):
            expected = describe([float(np.nanmean(values[run, record].astype(float))) for run in runs])
            point = (curve.n[record], curve.mean[record], curve.low[record], curve.high[record])
            # Two ways to sum a few numbers below 1 in float64.
            assert point == pytest.approx((expected.n, expected.mean, expected.ci95_low, expected.ci95_high), rel=1e-12)


def test_only_finished_runs_enter():
    records = sweep_records(TWO, status=["ok", "diverged", "pending", "ok", "ok", "ok"])
    records.train_loss.values[1:3] = 99.0
    found = over_training(records, "train_loss")
    assert found["activation=relu"].n.tolist() == [1, 1, 1]
    assert found["activation=relu"].mean.tolist() == [0.5, 0.5, 0.5]
    assert [members.tolist() for members in finished_runs(records).values()] == [[0], [3, 4, 5]]


def test_a_variant_without_a_finished_run_has_an_empty_curve():
    records = sweep_records(TWO, status=["diverged"] * 3 + ["ok"] * 3)
    empty, full = over_training(records, "train_loss").values()
    assert (len(empty.x), len(empty.mean)) == (0, 0)
    assert len(full.x) == 3


def test_short_schedules_end_where_they_end():
    records = sweep_records({"epochs": [1, 2]}, seeds=(0, 1))
    steps = np.array([[0, 4, -1]] * 2 + [[0, 4, 8]] * 2)
    padded = records.drop_vars(["step", "epoch"]).assign_coords(
        step=(("run", "record"), steps), epoch=(("run", "record"), np.where(steps < 0, np.nan, steps / 4))
    )
    short, long = over_training(padded, "train_loss").values()
    assert (short.x.tolist(), long.x.tolist()) == ([0, 1], [0, 1, 2])
    assert np.isnan(run_times(padded)[0]).tolist() == [False, False, True]


def test_time_is_told_in_steps_before_the_first_epoch():
    assert clock(sweep_records({})) == "epoch"
    short = sweep_records({}, steps=(0, 1, 3))
    assert clock(short) == "step"
    (curve,) = over_training(short, "train_loss").values()
    assert curve.x.tolist() == [0, 1, 3]


def test_one_seed_has_a_mean_and_no_interval():
    (curve,) = over_training(sweep_records({}, seeds=(0,)), "train_loss").values()
    assert curve.mean.tolist() == [0.5] * 3
    assert all(map(math.isnan, curve.low))
