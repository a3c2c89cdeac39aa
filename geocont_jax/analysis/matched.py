"""Comparison at matched movement: a metric as a function of how far the weights have come, `|W - W0| / |W0|`.

Variants move at different speeds, and continuity follows movement: at the same epoch a fast variant lines up more
for that reason alone. At the same ratio they can be compared.
"""

import numpy as np
import xarray as xr

from geocont_jax.analysis.condensed import average
from geocont_jax.analysis.curves import Curve, curve, finished_runs

RATIO = "update_ratio"
NUM_POINTS = 61
LEAST = 0.01


def at_ratios(ratio: np.ndarray, values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return a run's metric at the first time that its ratio passes each point of `grid`.

    Between records both are taken as linear in time: `v_i + (g - r_i) / (r_(i+1) - r_i) (v_(i+1) - v_i)` for the
    first i whose ratios enclose g. NaN where the run never passes g, and where the value on either side is NaN.

    Shapes: `ratio`, `values` (record,), `grid` and result (point,).

    >>> at_ratios(np.array([0.0, 1.0, 3.0]), np.array([0.1, 0.5, 0.9]), np.array([0.5, 2.0, 4.0])).round(3)
    array([0.3, 0.7, nan])
    """
    # The last record once more: a segment of no length, which a single record and a run's end need.
    start, end = ratio, np.append(ratio[1:], ratio[-1:])
    before, after = values, np.append(values[1:], values[-1:])
    encloses = (np.minimum(start, end) <= grid[:, None]) & (grid[:, None] <= np.maximum(start, end))
    if not encloses.size:
        return np.full(len(grid), np.nan)
    first = encloses.argmax(axis=1)
    length = (end - start)[first]
    share = np.divide(grid - start[first], length, out=np.zeros(len(grid)), where=length != 0)
    # A share of 0 or 1 is a record: the value on the other side, perhaps NaN, has no part in it.
    inside = before[first] + share * (after - before)[first]
    found = np.select([share == 0, share == 1], [before[first], after[first]], inside)
    return np.where(encloses.any(axis=1), found, np.nan)


def ratio_grid(dataset: xr.Dataset, num_points: int = NUM_POINTS) -> np.ndarray:
    """Return ratios, equally spaced in their logarithm, from the least to the largest of finished runs' records.

    Less than `LEAST` counts as no movement, unless no run comes that far; empty where nothing moved at all.
    """
    ratios = average(dataset[RATIO]).mean[np.array(dataset["status"].values.tolist()) == "ok"]
    moved = ratios[np.isfinite(ratios) & (ratios > 0)]
    far = moved[moved >= LEAST] if (moved >= LEAST).any() else moved
    return np.geomspace(far.min(), far.max(), num_points) if len(far) else np.empty(0)


def matched_runs(dataset: xr.Dataset, name: str, grid: np.ndarray) -> np.ndarray:
    """Return a metric of every run, layers averaged, at the ratios of `grid`: (run, point)."""
    ratios, means = average(dataset[RATIO]).mean, average(dataset[name]).mean
    rows = [at_ratios(ratio, values, grid) for ratio, values in zip(ratios, means, strict=True)]
    return np.array(rows).reshape(len(rows), len(grid))


def matched(dataset: xr.Dataset, name: str, grid: np.ndarray) -> dict[str, Curve]:
    """Return a metric as a function of the ratio for each variant: mean and interval over its finished seeds.

    Only where all of them pass the ratio: a mean over ever fewer seeds would bend for that reason alone.

    >>> matched(records, "weight_v1_cosine", ratio_grid(records))  # doctest: +SKIP
    """
    values = matched_runs(dataset, name, grid)
    return {
        variant: curve(grid, np.where(np.isnan(values[members]).any(axis=0), np.nan, values[members]))
        for variant, members in finished_runs(dataset).items()
    }
