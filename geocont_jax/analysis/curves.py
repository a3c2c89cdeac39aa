"""Curves with error bars: the mean over seeds and its interval, point by point, for each variant."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from geocont_jax.analysis.condensed import average
from geocont_jax.analysis.statistics import describe
from geocont_jax.analysis.summary import by_run, run_steps


class Curve(NamedTuple):
    """Points `x` with the mean over seeds, the ends of its 95 % interval and the number of seeds: each (point,)."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: np.ndarray


def curve(x: np.ndarray, values: np.ndarray) -> Curve:
    """Describe values (run, point) over runs at each of the points `x` (point,).

    >>> found = curve(np.array([0.0, 1.0]), np.array([[0.8, 0.8], [0.82, np.nan], [0.78, np.nan]]))
    >>> found.n.tolist(), bool(np.isnan(found.low[1]))
    ([3, 1], True)
    """
    points = [describe(column) for column in values.T]
    mean, low, high = (
        np.array([getattr(point, name) for point in points], float) for name in ("mean", "ci95_low", "ci95_high")
    )
    return Curve(x, mean, low, high, np.array([point.n for point in points], int))


def over_training(dataset: xr.Dataset, name: str) -> dict[str, Curve]:
    """Return a metric over training for each variant: finished runs only, layers averaged inside a run first.

    `x` is in the units of `clock`. A variant without a finished run has a curve without values.
    """
    means, times = average(dataset[name]).mean, run_times(dataset)
    curves = {}
    for variant, members in finished_runs(dataset).items():
        is_record = ~np.isnan(times[members[:1]].reshape(-1, times.shape[1])).any(axis=0)
        x = times[members[0], is_record] if len(members) else np.empty(0)
        curves[variant] = curve(x, means[members][:, is_record] if len(members) else np.empty((0, 0)))
    return curves


def finished_runs(dataset: xr.Dataset) -> dict[str, np.ndarray]:
    """Return the row numbers of each variant's finished runs, variants in order of first appearance."""
    variants = np.array(dataset["variant"].values.tolist())
    is_finished = np.array(dataset["status"].values.tolist()) == "ok"
    return {label: np.flatnonzero((variants == label) & is_finished) for label in dict.fromkeys(variants.tolist())}


def clock(dataset: xr.Dataset) -> str:
    """Return what time is told in: "epoch", or "step" where training is shorter than one epoch."""
    return "epoch" if float(dataset["epoch"].max()) >= 1 else "step"


def run_times(dataset: xr.Dataset) -> np.ndarray:
    """Return the time of each run's records (run, record) by the `clock`; padding of short schedules is NaN."""
    steps = run_steps(dataset)
    if clock(dataset) == "step":
        return np.where(steps >= 0, steps, np.nan)
    return np.where(steps >= 0, by_run(dataset, "epoch"), np.nan)
