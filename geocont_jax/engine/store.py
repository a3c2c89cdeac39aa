"""The results folder: records that xarray reads without this package, and which runs they hold.

Each file of the store is replaced in one move, and a run's records are written before its status says so: a
process killed at any moment leaves a store that reads well and lacks only what was not yet written.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from geocont_jax.analysis.condensed import column, expand, record_coordinates
from geocont_jax.engine.zip_store import is_condensed, read_condensed
from geocont_jax.errors import InputError
from geocont_jax.experiment.grid import variant_label

STORE_VERSION = 2
RUNS_PER_FILE = 64

PENDING, OK, DIVERGED = "pending", "ok", "diverged"


@dataclass(frozen=True)
class Row:
    """One run of the store: `settings` by short name, and the steps at which it is measured."""

    identity: str
    seed: int
    settings: Mapping[str, Any]
    steps: tuple[int, ...]
    steps_per_epoch: int


@dataclass(frozen=True)
class Variable:
    """A recorded variable: its axes beside run, their sizes, its type and what it is.

    Without the axis `record` it holds what the latest record said.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: type
    attrs: Mapping[str, Any]


class RecordStore:
    """The records of a sweep on disk, open for writing; create with `open_store`."""

    def __init__(self, path: Path, rows: Sequence[str]) -> None:
        self._group = zarr.open_group(path, mode="r+")
        self._row = {identity: number for number, identity in enumerate(rows)}

    def write(self, runs: Sequence[str], first_record: int, records: Mapping[str, np.ndarray]) -> None:
        """Write `records[name]` (run, record, ...) of the named runs from `first_record` on."""
        rows = np.array([self._row[identity] for identity in runs])
        for name, values in records.items():
            inner = [slice(0, size) for size in values.shape[2:]]
            if "record" in self._group[name].attrs["_ARRAY_DIMENSIONS"]:
                places = slice(first_record, first_record + values.shape[1])
                self._group[name].oindex[(rows, places, *inner)] = values
            else:
                self._group[name].oindex[(rows, *inner)] = values[:, -1]

    def finish(self, runs: Sequence[str], diverged_at: Sequence[int]) -> None:
        """Mark the named runs as finished: diverged at a step, or ok where that is negative."""
        rows = np.array([self._row[identity] for identity in runs])
        steps = np.asarray(diverged_at, np.int32)
        self._group["diverged_at"].oindex[rows] = steps
        self._group["status"].oindex[rows] = np.where(steps < 0, OK, DIVERGED).astype("<U8")


def load_results(folder: str | Path) -> xr.Dataset:
    """Return the records in a sweep's results folder as an xarray Dataset, in memory.

    A condensed store, `NAME.zarr.zip`, comes with the same dimensions. Raises InputError where there are no records,
    or where another version wrote them.
    """
    folder = Path(folder)
    if is_condensed(folder):
        return expand(read_condensed(folder))
    path = folder if folder.suffix == ".zarr" else folder / "records.zarr"
    _restore_swapped(path)
    if not path.is_dir():
        raise InputError(f"{folder}: no records.zarr in it; give the folder that a sweep printed")
    try:
        dataset = xr.open_zarr(path).load()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: cannot be read ({_first_line(error)}); use another --out") from error
    found = dataset.attrs.get("store_version")
    if found != STORE_VERSION:
        raise InputError(
            f"{path}: written in store format {found}, this version reads {STORE_VERSION}; "
            f"use another --out, or the version that wrote it ({dataset.attrs.get('geocont_jax', 'unknown')})"
        )
    return dataset


def is_results(folder: Path) -> bool:
    """Return whether a folder holds records, also with the swap of an enlarged grid interrupted."""
    path = folder / "records.zarr"
    return path.is_dir() or _swapped(path).is_dir()


def select_runs(dataset: xr.Dataset, identities: Sequence[str]) -> xr.Dataset:
    """Return the dataset with just these runs, in this order."""
    row = {identity: number for number, identity in enumerate(dataset["identity"].values.tolist())}
    return dataset.isel(run=[row[identity] for identity in identities])


def open_store(
    folder: Path,
    rows: Sequence[Row],
    axes: Sequence[str],
    variables: Mapping[str, Variable],
    attrs: Mapping[str, Any],
) -> RecordStore:
    """Open the folder's store for these runs, making it or adding the runs that it lacks.

    Runs that are in it already keep their records, also those that are not asked for this time.
    """
    path = folder / "records.zarr"
    old = load_results(folder) if path.exists() or _swapped(path).exists() else None
    if old is None or not {row.identity for row in rows} <= set(old["identity"].values.tolist()):
        merged = [*rows, *_other_rows(old, {row.identity for row in rows})]
        _write_skeleton(path, _skeleton(merged, axes, variables, attrs), old)
    return RecordStore(path, load_results(folder)["identity"].values.tolist())


def _other_rows(old: xr.Dataset | None, known: set[str]) -> Iterable[Row]:
    if old is None:
        return
    steps = old["step"].broadcast_like(old["status"].expand_dims(record=old.sizes["record"])).transpose("run", "record")
    for i, identity in enumerate(old["identity"].values.tolist()):
        if identity not in known:
            run_steps = tuple(int(step) for step in steps.values[i] if step >= 0)
            settings = json.loads(str(old["settings"].values[i]))
            yield Row(
                identity,
                int(old["seed"].values[i]),
                settings,
                run_steps,
                int(old["steps_per_epoch"].values[i]),
            )


def _skeleton(
    rows: Sequence[Row], axes: Sequence[str], variables: Mapping[str, Variable], attrs: Mapping[str, Any]
) -> xr.Dataset:
    """Return a dataset of the right shape with every coordinate and nothing recorded yet."""
    num_records = max(len(row.steps) for row in rows)
    data = {
        name: (
            ("run", *variable.axes),
            _blank((len(rows), *_shape(variable, num_records)), variable.dtype),
            dict(variable.attrs),
        )
        for name, variable in variables.items()
    }
    axes = [*axes, *(name for name in _varying(rows) if name not in axes)]
    coords = {name: ("run", column([row.settings[name] for row in rows])) for name in axes}
    coords |= {
        "seed": ("run", np.array([row.seed for row in rows], np.int64)),
        "variant": ("run", column([variant_label({name: row.settings[name] for name in axes}) for row in rows])),
        "status": ("run", np.full(len(rows), PENDING, "<U8")),
        "diverged_at": (
            "run",
            np.full(len(rows), -1, np.int32),
            {"long_name": "step of divergence, -1: none"},
        ),
        "identity": ("run", column([row.identity for row in rows])),
        "settings": ("run", column([json.dumps(dict(row.settings)) for row in rows])),
        "steps_per_epoch": ("run", np.array([row.steps_per_epoch for row in rows], np.int32)),
    } | _record_coordinates(rows, num_records)
    return xr.Dataset(data, coords, {**attrs, "store_version": STORE_VERSION, "axes": json.dumps(list(axes))})


def _shape(variable: Variable, num_records: int) -> tuple[int, ...]:
    """Return the variable's shape with records enough for runs that the store held before."""
    sizes = zip(variable.axes, variable.shape, strict=True)
    return tuple(num_records if axis == "record" else size for axis, size in sizes)


def _varying(rows: Sequence[Row]) -> list[str]:
    def distinct(name: str) -> int:
        return len({json.dumps(row.settings.get(name)) for row in rows})

    return [name for name in rows[0].settings if distinct(name) > 1]


def _record_coordinates(rows: Sequence[Row], num_records: int) -> dict[str, Any]:
    """Return `step` and `epoch` on record, or on (run, record) where schedules differ; -1 and NaN are padding."""
    steps = np.full((len(rows), num_records), -1, np.int32)
    for i, row in enumerate(rows):
        steps[i, : len(row.steps)] = row.steps
    epochs = np.where(steps >= 0, steps / np.array([[row.steps_per_epoch] for row in rows]), np.nan)
    return record_coordinates(steps, epochs)


def _blank(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return np.full(shape, np.nan, dtype) if np.issubdtype(dtype, np.floating) else np.zeros(shape, dtype)


def _write_skeleton(path: Path, skeleton: xr.Dataset, old: xr.Dataset | None) -> None:
    """Put the skeleton, with what the old store held, in the old store's place."""
    new, swapped = path.with_suffix(".new"), _swapped(path)
    shutil.rmtree(new, ignore_errors=True)
    if old is not None:
        _carry_over(skeleton, old)
    encoding = {
        name: {"chunks": (min(RUNS_PER_FILE, skeleton.sizes["run"]), *variable.shape[1:])}
        for name, variable in skeleton.data_vars.items()
    }
    skeleton.to_zarr(new, mode="w", zarr_format=2, consolidated=True, encoding=encoding)
    if path.exists():
        path.rename(swapped)
    new.rename(path)
    shutil.rmtree(swapped, ignore_errors=True)


def _carry_over(skeleton: xr.Dataset, old: xr.Dataset) -> None:
    row = {identity: i for i, identity in enumerate(skeleton["identity"].values.tolist())}
    rows = np.array([row[identity] for identity in old["identity"].values.tolist()])
    recorded = (str(name) for name in skeleton.data_vars if name in old)
    for name in ("status", "diverged_at", *recorded):
        places: tuple[Any, ...] = (rows, *(slice(0, size) for size in old[name].shape[1:]))
        skeleton[name].values[places] = old[name].values


def _swapped(path: Path) -> Path:
    return path.with_suffix(".old")


def _restore_swapped(path: Path) -> None:
    """Undo a swap that a kill interrupted between its two moves."""
    if not path.exists() and _swapped(path).exists():
        _swapped(path).rename(path)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
