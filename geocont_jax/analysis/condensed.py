"""A sweep in small: the run-level means of its records, and how two such sweeps become one.

The unit of evidence is the run: tables, curves over training and their intervals ask only for means over the layers
or pairs of each run. `condense` keeps those, with the number of values that each is made of, so that a study fits
into a repository and a later session on another machine can add to it (`merge`). `expand` turns the means back into
records of the usual dimensions, for everything that reads those.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from geocont_jax.analysis.statistics import Average, nan_average
from geocont_jax.analysis.summary import by_run

CONDENSED_VERSION = 1

NUMBERS = "num_values"
AVERAGED = "averaged_over"
PER_LAYER = ("weight_v1_drift",)

# What costs much and is asked of few families: the end of a variable's name, and the families that keep it.
KEPT_OF = {
    r"[uv]_alignment_best": ("weight",),
    r"[uv]_alignment_(symmetric|full)": ("weight", "cumulative_gradient"),
    r"[uv]_overlap\d+": ("weight", "cumulative_gradient"),
    r"[uv]1_matrix": ("weight", "gradient", "cumulative_gradient"),
}

# Where runs differ in the dimension that chance depends on, the coordinate of this name holds it.
NULL_COORDINATE = "width"


def average(variable: xr.DataArray) -> Average:
    """Average a variable (run, record, ...) over all but run and record, in float64.

    Shapes: mean and number (run, record). The mean is NaN where nothing has a value.

    >>> found = average(xr.DataArray([[[0.25, np.nan, 0.75]]], dims=("run", "record", "pair")))
    >>> found.mean.tolist(), found.number.tolist()
    ([[0.5]], [[2]])
    """
    values = variable.transpose("run", "record", ...).values
    return nan_average(values, axis=tuple(range(2, values.ndim)))


def condense(dataset: xr.Dataset) -> xr.Dataset:
    """Return a sweep's records with layers and pairs averaged inside each run.

    Averages are float32 (run, record), and `num_values` (run, record, metric) says over how many values each is.
    Defects and the drift of v1 keep their layers, matrices of cosines are kept in half precision. Of lesser families
    some readings are left out (`KEPT_OF`).

    Args: `dataset`, the records of a sweep with dims run, record, pair, layer, other_layer.

    >>> condense(load_results("results/quickstart-1a2b3c")).weight_v1_cosine.dims  # doctest: +SKIP
    ('run', 'record')
    """
    variables = {name: dataset[name] for name in sorted(map(str, dataset.data_vars)) if _is_kept(name)}
    averages = {name: average(variable) for name, variable in variables.items() if _is_averaged(name, variable)}
    data: dict[str, Any] = {
        name: _averaged(variable, averages[name]) if name in averages else _halved(variable)
        for name, variable in variables.items()
    }
    data[NUMBERS] = _numbers(averages, dataset.sizes)
    sizes = {dim: size for dim, size in dataset.sizes.items() if dim not in ("run", "record")}
    attrs = {name: value for name, value in dataset.attrs.items() if name != "folder"}
    attrs |= {"condensed_version": CONDENSED_VERSION, "sizes": json.dumps(sizes, sort_keys=True)}
    return xr.Dataset(data, {**dataset.coords, "metric": ("metric", np.array(list(averages), np.str_))}, attrs)


def expand(condensed: xr.Dataset) -> xr.Dataset:
    """Return condensed records with the usual dimensions (run, record, pair or layer).

    An average over n values stands in the first n places of its axis, NaN in the others: means over layers, their
    numbers and so every interval and z come out as from the full records. Values of single layers do not, and the
    variable's attribute `averaged_over` says so. `condense` undoes this.

    >>> expand(condense(records)).weight_v1_cosine.dims  # doctest: +SKIP
    ('run', 'record', 'pair')
    """
    sizes = json.loads(condensed.attrs["sizes"])
    numbers = condensed[NUMBERS].transpose("run", "record", "metric")
    position = {name: i for i, name in enumerate(numbers["metric"].values.tolist())}
    data: dict[str, Any] = {}
    for name, variable in condensed.drop_vars([NUMBERS, "metric"]).data_vars.items():
        if name in position:
            dim = variable.attrs[AVERAGED]
            data[str(name)] = _repeated(variable, numbers.values[..., position[str(name)]], dim, sizes[dim])
        else:
            data[str(name)] = variable.astype(np.float32) if variable.dtype == np.float16 else variable
    return xr.Dataset(data, condensed.drop_vars(NUMBERS).drop_dims("metric").coords, condensed.attrs)


def merge(old: xr.Dataset, new: xr.Dataset, label: Callable[[Mapping[str, Any]], str]) -> xr.Dataset:
    """Return two condensed sweeps as one, run by run.

    A run that both hold is taken where it is finished, and from `new` where that does not decide; of two unfinished
    ones the further. Shorter schedules are padded (step -1, epoch and values NaN), and so is what one of them did
    not record. Axes are those of either and settings that have come to differ. The order is that of `new` where it
    holds all runs of `old`, and otherwise that of `old` with what is new behind it.

    Args: `label`, which makes a variant's label of its axis values by short name.
    """
    parts = [_by_run(part) for part in (old, new)]
    axes = _axes(parts)
    metrics = sorted(_union(part["metric"].values.tolist() for part in parts))
    parts = [part.drop_vars(_axes([part]), errors="ignore").reindex(metric=metrics, fill_value=0) for part in parts]
    rows = _chosen(*parts)
    sizes = {dim: max(part.sizes.get(dim, 0) for part in parts) for part in parts for dim in map(str, part.sizes)}
    data = {name: _joined(name, parts, sizes, rows) for name in sorted(_union(part.data_vars for part in parts))}
    coords = {name: _joined(name, parts, sizes, rows) for name in _shared_coordinates(parts)}
    sources, coords["source"] = _joined_sources(parts, rows)
    merged = xr.Dataset(data, {**coords, "metric": ("metric", np.array(metrics, np.str_))}, dict(new.attrs))
    merged.attrs |= {"axes": json.dumps(axes), "sizes": _joined_sizes(parts)} | source_attrs(sources)
    return _shared_schedule(_with_axes(merged, axes, label))


def sources_of(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """Return where the runs come from: an entry each with commit, date, machine, versions and command."""
    return list(json.loads(dataset.attrs.get("sources", "[]")))


def source_attrs(sources: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return sources as attributes: all of them, and what they say of commit, date, machine and versions to read."""
    told = {
        name: "; ".join(_union([str(source[name])] for source in sources if source.get(name)))
        for name in ("commit", "date", "machine")
    }
    versions = _union([json.dumps(source["versions"], sort_keys=True)] for source in sources if source.get("versions"))
    return {**told, "versions": "; ".join(versions), "sources": json.dumps(list(sources), sort_keys=True)}


def _is_kept(name: str) -> bool:
    for ending, families in KEPT_OF.items():
        found = re.fullmatch(rf"(.+)_{ending}", name)
        if found:
            return found[1] in families
    return True


def _is_averaged(name: str, variable: xr.DataArray) -> bool:
    inner = set(variable.dims) - {"run", "record"}
    return (
        "record" in variable.dims
        and len(inner) == 1
        and np.issubdtype(variable.dtype, np.floating)
        and name not in PER_LAYER
    )


def _averaged(variable: xr.DataArray, found: Average) -> tuple[Any, ...]:
    (dim,) = (str(dim) for dim in variable.dims if dim not in ("run", "record"))
    return ("run", "record"), found.mean.astype(np.float32), {**variable.attrs, AVERAGED: dim}


def _halved(variable: xr.DataArray) -> xr.DataArray:
    """Return a matrix of cosines in half precision, 11 bits: what is drawn, not what enters a table."""
    is_matrix = "record" not in variable.dims and np.issubdtype(variable.dtype, np.floating)
    return variable.astype(np.float16) if is_matrix else variable


def _numbers(averages: Mapping[str, Average], sizes: Mapping[Any, int]) -> tuple[Any, ...]:
    shape = (sizes["run"], sizes["record"])
    numbers = [found.number for found in averages.values()] or [np.zeros((*shape, 0))]
    values = np.stack(numbers, axis=-1) if averages else numbers[0]
    attrs = {"long_name": "layers or pairs that an average is over"}
    return ("run", "record", "metric"), values.astype(np.int16), attrs


def _repeated(variable: xr.DataArray, number: np.ndarray, dim: str, size: int) -> tuple[Any, ...]:
    means = variable.transpose("run", "record").values[..., None]
    values = np.where(np.arange(size) < number[..., None], means, np.float32(np.nan))
    return ("run", "record", dim), values.astype(np.float32), variable.attrs


def _union(lists: Iterable[Iterable[Any]]) -> list[Any]:
    """Return what is in any of the lists, once, in order of first appearance."""
    return list(dict.fromkeys(item for items in lists for item in items))


def _by_run(part: xr.Dataset) -> xr.Dataset:
    """Return a sweep whose `step` and `epoch` are those of each run: (run, record)."""
    return part.assign_coords({name: (("run", "record"), by_run(part, name)) for name in ("step", "epoch")})


def _run_first(variable: xr.DataArray) -> xr.DataArray:
    return variable.transpose("run", ...) if "run" in variable.dims else variable


def _chosen(old: xr.Dataset, new: xr.Dataset) -> list[int]:
    """Return the rows to keep, counted through the runs of `old` and on through those of `new`."""
    best: dict[str, tuple[tuple[bool, int], int]] = {}
    standing = [*_standing(old), *_standing(new)]
    for row, (identity, rank) in enumerate(standing):
        if identity not in best or rank >= best[identity][0]:
            best[identity] = (rank, row)
    known, asked = (part["identity"].values.tolist() for part in (old, new))
    order = asked if set(known) <= set(asked) else [*known, *asked]
    return [best[identity][1] for identity in dict.fromkeys(order)]


def _standing(part: xr.Dataset) -> list[tuple[str, tuple[bool, int]]]:
    """Return each run's identity, whether it is finished, and how far an unfinished one came."""
    finished = [status != "pending" for status in part["status"].values.tolist()]
    reached = np.zeros(part.sizes["run"], int)
    for variable in part.data_vars.values():
        if variable.dims == ("run", "record") and np.issubdtype(variable.dtype, np.floating):
            reached = np.maximum(reached, np.isfinite(variable.values).sum(axis=1))
    ranks = ((done, 0 if done else int(count)) for done, count in zip(finished, reached, strict=True))
    return list(zip(part["identity"].values.tolist(), ranks, strict=True))


def _joined(
    name: str, parts: Sequence[xr.Dataset], sizes: Mapping[str, int], rows: Sequence[int]
) -> tuple[tuple[str, ...], np.ndarray, dict[str, Any]]:
    """Return a variable of both parts, padded to common sizes, at the chosen rows."""
    holders = [_run_first(part[name]) for part in parts if name in part.variables]
    dims, dtype = tuple(map(str, holders[-1].dims)), holders[-1].dtype
    blank = xr.DataArray(np.empty((0,) * len(dims), dtype), dims=dims)
    padded = [
        _padded(
            _run_first(part[name]) if name in part.variables else blank,
            (part.sizes["run"], *(sizes[dim] for dim in dims[1:])),
            -1 if name == "step" else 0,
        )
        for part in parts
    ]
    return dims, np.concatenate(padded)[rows], _joined_attrs([holder.attrs for holder in holders])


def _padded(variable: xr.DataArray, shape: tuple[int, ...], no_number: int) -> np.ndarray:
    if variable.shape == shape:
        return variable.values
    fill = np.nan if np.issubdtype(variable.dtype, np.floating) else no_number
    values = np.full(shape, fill, variable.dtype)
    values[tuple(slice(0, size) for size in variable.shape)] = variable.values
    return values


def _joined_attrs(attrs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    dimensions = _union([entry["null_dimension"]] for entry in attrs if "null_dimension" in entry)
    return {**attrs[-1], **({"null_dimension": NULL_COORDINATE} if len(dimensions) > 1 else {})}


def _joined_sizes(parts: Sequence[xr.Dataset]) -> str:
    sizes = [json.loads(part.attrs["sizes"]) for part in parts]
    return json.dumps({dim: max(size.get(dim, 0) for size in sizes) for dim in _union(sizes)}, sort_keys=True)


def _joined_sources(parts: Sequence[xr.Dataset], rows: Sequence[int]) -> tuple[list[dict[str, Any]], tuple[Any, ...]]:
    """Return the sources that the chosen runs come from, and each run's number in that list."""
    texts = [json.dumps(sources_of(part)[number], sort_keys=True) for part in parts for number in part["source"].values]
    chosen = [texts[row] for row in rows]
    used = list(dict.fromkeys(chosen))
    return [json.loads(text) for text in used], ("run", np.array([used.index(text) for text in chosen], np.int32))


def _shared_coordinates(parts: Sequence[xr.Dataset]) -> list[str]:
    first, second = (set(map(str, part.coords)) - {"metric", "source", "variant"} for part in parts)
    return sorted(first & second)


def _axes(parts: Sequence[xr.Dataset]) -> list[str]:
    """Return the axes of the parts and the settings, known to all runs, that differ between runs."""
    axes = _union(json.loads(part.attrs["axes"]) for part in parts)
    if len(parts) == 1:
        return axes
    settings = [json.loads(text) for part in parts for text in part["settings"].values.tolist()]
    known = [name for name in settings[0] if all(name in of_run for of_run in settings)]
    return _union([axes, (name for name in known if len({json.dumps(of_run[name]) for of_run in settings}) > 1)])


def _with_axes(merged: xr.Dataset, axes: Sequence[str], label: Callable[[Mapping[str, Any]], str]) -> xr.Dataset:
    """Return the sweep with a coordinate per axis, and labels that name all of them."""
    settings = [json.loads(text) for text in merged["settings"].values.tolist()]
    cells = [{name: of_run.get(name) for name in axes} for of_run in settings]
    coords: dict[str, Any] = {name: ("run", column([cell[name] for cell in cells])) for name in axes}
    return merged.assign_coords(coords | {"variant": ("run", column([label(cell) for cell in cells]))})


def column(values: Sequence[Any]) -> np.ndarray:
    """Return values as an array of bool, number or fixed-width text: the types every zarr reader knows."""
    kinds = {type(value) for value in values}
    if kinds == {bool} or kinds <= {int, float}:
        return np.array(values)
    if kinds <= {int, float, bool}:
        return np.array(values, float)
    return np.array(["" if value is None else str(value) for value in values], np.str_)


def _shared_schedule(merged: xr.Dataset) -> xr.Dataset:
    """Return the sweep with one `step` and `epoch` for all runs, where they have the same."""
    return merged.assign_coords(record_coordinates(by_run(merged, "step"), by_run(merged, "epoch")))


def record_coordinates(step: np.ndarray, epoch: np.ndarray) -> dict[str, Any]:
    """Return `step` and `epoch`, given as (run, record), on record alone where all runs have the same."""
    if (step == step[0]).all() and np.array_equal(epoch, np.broadcast_to(epoch[0], epoch.shape), equal_nan=True):
        return {"step": ("record", step[0]), "epoch": ("record", epoch[0])}
    return {"step": (("run", "record"), step), "epoch": (("run", "record"), epoch)}
