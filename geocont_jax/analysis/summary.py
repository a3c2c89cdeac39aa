"""From records to a row per variant: mean, interval, n, chance and z of every metric at the last record."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from geocont_jax.analysis.statistics import Average, Description, describe, nan_average
from geocont_jax.files import write_whole
from geocont_jax.geometry.null import NULLS, z_score

Row = dict[str, Any]

STATISTICS = ("mean", "sd", "sem", "ci95_low", "ci95_high", "n")


def summarise(dataset: xr.Dataset) -> list[Row]:
    """Return a row per variant, in order of first appearance, at each run's last record.

    The unit is the seed: layers are averaged inside a run first. Runs that diverged or are not finished do not
    enter the means but are counted. Columns: the axes by short name, `variant`, `n_ok`, `n_diverged`, `n_pending`;
    for each metric `_mean`, `_sd`, `_sem`, `_ci95_low`, `_ci95_high` (`describe`) and `_n`, the runs that have a
    value; where there is a null distribution also `_chance` and `_z`.

    Args: `dataset`, the records of a sweep with dims run, record, pair, layer.

    >>> rows = summarise(load_results("results/quickstart-1a2b3c"))  # doctest: +SKIP
    >>> rows[0]["weight_v1_cosine_mean"]  # doctest: +SKIP
    """
    means = {name: run_means(dataset[name]) for name in metrics(dataset)}
    variants = np.array(dataset["variant"].values.tolist())
    return [_row(dataset, means, np.flatnonzero(variants == label)) for label in dict.fromkeys(variants.tolist())]


def metrics(dataset: xr.Dataset) -> list[str]:
    """Return the names of the recorded quantities that have a mean: not the codes of defects."""
    return [
        str(name)
        for name, variable in dataset.data_vars.items()
        if np.issubdtype(variable.dtype, np.floating) and {"run", "record"} <= set(variable.dims)
    ]


def axes_of(dataset: xr.Dataset) -> list[str]:
    """Return the short names of the grid's axes."""
    return list(json.loads(dataset.attrs["axes"]))


def run_steps(dataset: xr.Dataset | xr.DataArray) -> np.ndarray:
    """Return the steps of each run's records (run, record); padding of short schedules is -1."""
    return np.nan_to_num(by_run(dataset, "step"), nan=-1).astype(np.int64)


def by_run(dataset: xr.Dataset | xr.DataArray, name: str) -> np.ndarray:
    """Return `step` or `epoch` of each run's records (run, record), also where all runs have the same."""
    coordinate = dataset[name]
    own = coordinate.transpose("run", "record") if "run" in coordinate.dims else coordinate
    return np.broadcast_to(own.values, (dataset.sizes["run"], dataset.sizes["record"]))


def last_values(variable: xr.DataArray) -> np.ndarray:
    """Return a variable (run, record, ...) at each run's last record, the one of its largest step, as (run, ...)."""
    last = run_steps(variable).argmax(axis=1)
    return variable.transpose("run", "record", ...).values[np.arange(len(last)), last]


def run_means(variable: xr.DataArray) -> Average:
    """Average a variable over the layers or pairs of each run at its last record; NaN where none has a value."""
    values = last_values(variable)
    return nan_average(values, axis=tuple(range(1, values.ndim)))


def null_dimension(dataset: xr.Dataset, name: str, run: int) -> float:
    """Return the dimension that a metric's chance level depends on; NaN for metrics without one.

    The attribute `null_dimension` holds it, or names the coordinate that does where runs differ.
    """
    dimension = dataset[name].attrs.get("null_dimension", math.nan)
    return float(dataset[dimension].values[run] if isinstance(dimension, str) else dimension)


def chance_of(dataset: xr.Dataset, name: str, run: int) -> float:
    """Return a metric's mean for a run of unrelated layers; NaN for metrics without a null distribution."""
    dimension = null_dimension(dataset, name, run)
    if math.isnan(dimension):
        return math.nan
    null, k = _null(dataset, name)
    return NULLS[null].mean(dimension, k)


def write_summary(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as CSV, in one move: a reader sees the old file or the new one.

    Numbers that do not exist are empty, booleans are True and False: pandas reads back every label and type.
    """
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, list(rows[0]))
    table.writeheader()
    table.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    write_whole(path, text.getvalue())


def _cell(value: Any) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else value


def _row(dataset: xr.Dataset, means: Mapping[str, Average], members: np.ndarray) -> Row:
    first = int(members[0])
    status = np.array(dataset["status"].values.tolist())[members]
    # By tolist, which gives plain Python values for every dtype that a zarr reader may choose.
    row: Row = {name: dataset[name].values.tolist()[first] for name in [*axes_of(dataset), "variant"]}
    row |= {f"n_{name}": int((status == name).sum()) for name in ("ok", "diverged", "pending")}
    finished = members[status == "ok"]
    for name, (mean, number) in means.items():
        found = describe(mean[finished])
        row |= {f"{name}_{statistic}": getattr(found, statistic) for statistic in STATISTICS}
        row |= _against_chance(dataset, name, first, found, number[finished])
    return row


def _against_chance(dataset: xr.Dataset, name: str, run: int, found: Description, num_pairs: np.ndarray) -> Row:
    chance, dimension = chance_of(dataset, name, run), null_dimension(dataset, name, run)
    if math.isnan(chance):
        return {}
    z = z_score(found.mean, dimension, _harmonic_mean(num_pairs[num_pairs > 0]), found.n, *_null(dataset, name))
    return {f"{name}_chance": chance, f"{name}_z": z}


def _null(dataset: xr.Dataset, name: str) -> tuple[str, int]:
    """Return the kind of a metric's null distribution and its k; records of the first format name no kind."""
    attrs = dataset[name].attrs
    return attrs.get("null", "cosine"), int(attrs.get("null_k", 1))


def _harmonic_mean(numbers: np.ndarray) -> float:
    return len(numbers) / float((1.0 / numbers).sum()) if len(numbers) else 0.0
