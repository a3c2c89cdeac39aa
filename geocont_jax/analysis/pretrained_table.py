"""The tables that the analysis of a pretrained checkpoint prints."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from geocont_jax.analysis.columns import Column, numbers, text_table
from geocont_jax.analysis.statistics import nan_average
from geocont_jax.analysis.table import DEFECTS
from geocont_jax.geometry.null import NULLS, z_score

# Rows are grouped as the paper groups them, by what a matrix does with the residual stream; V reads, but apart.
ROLES = ("reads", "value", "writes")
SIDE_WORDS = {"v": "input", "u": "output"}
MOST_ALIKE = 8
GAPS = (1, 2, 4, 8, 16)
RANKS = (4, 16, 64)

LEGEND = """\
role: reads the residual stream, writes to it, or V, which reads it too but stands for itself.
v1, u1: mean over adjacent layers of |cos| between their leading right (input side) and left (output side) singular
vectors. *: the side that meets the residual stream. chance: sqrt(2/(pi d)) for the d of that side; z: how far the mean
lies above it, in standard errors of chance. alignment (sigma^2-weighted, over all singular vectors) and overlap16 (of
the leading 16) are of that side as well. matrix cos: cosine of the matrices themselves, for continuity is not
similarity. gap: (s1 - s2)/s1. eff. rank: exp of the entropy of sigma^2. One model has no interval: its layers are no
independent samples."""

LIKENESS = """\
Mean over projections. A ranking for pruning or sharing by weights alone: it says which layers read and write the same
directions, not what the network loses without one. That takes a forward pass."""


def format_pretrained(dataset: xr.Dataset) -> str:
    """Return the tables of one checkpoint: continuity by projection, by distance in depth, shared bases, like layers.

    Args: `dataset`, what `pretrained.walk.analyze` returned or `load_results` reads.
    """
    sections = [_title(dataset), continuity_table(dataset), LEGEND]
    for head, table in (
        ("by distance in depth (residual side)", gap_table(dataset)),
        (_bases_head(dataset), bases_table(dataset)),
        ("heads", heads_table(dataset)),
        ("layers most like the one after them", likeness_table(dataset)),
    ):
        if table:
            sections += [f"{head}\n\n{table}"]
    return "\n\n".join([*sections, *_remarks(dataset)])


def continuity_table(dataset: xr.Dataset) -> str:
    """Return the table of continuity: a line per projection, grouped by what it does with the residual stream."""
    names = ordered(dataset)
    labels = [
        Column("role", tuple(_roles(dataset, names))),
        Column("projection", tuple(names)),
        Column("shape", tuple(_shape(dataset, name) for name in names)),
        numbers("pairs", [float(_pairs(dataset, name, side_of(dataset, name))) for name in names], ".0f"),
    ]
    columns = [*(_cosines(dataset, names, side) for side in ("v", "u"))]
    columns += [
        numbers("chance", [chance_on(dataset, name) for name in names], ".3f"),
        numbers("z", [_z(dataset, name) for name in names], ".1f"),
        numbers("alignment", [residual_mean(dataset, name, "{side}_alignment") for name in names], ".3f"),
        numbers("overlap16", [residual_mean(dataset, name, "{side}_overlap16") for name in names], ".3f"),
        numbers("matrix cos", [residual_mean(dataset, name, "matrix_cosine") for name in names], ".3f"),
        numbers("gap", [residual_mean(dataset, name, "gap") for name in names], ".3f"),
        numbers("eff. rank", [residual_mean(dataset, name, "effective_rank") for name in names], ".0f"),
    ]
    return text_table(labels, columns, None)


def gap_table(dataset: xr.Dataset) -> str:
    """Return |cos| on the residual side between layers that lie 1, 2, 4, 8, 16 apart."""
    names, far = ordered(dataset), dataset.sizes["layer"] - 1
    gaps = [gap for gap in GAPS if gap <= far and np.isfinite([_at_gap(dataset, name, gap) for name in names]).any()]
    columns = [numbers(f"{gap} apart", [_at_gap(dataset, name, gap) for name in names], ".3f") for gap in gaps]
    return text_table([Column("projection", tuple(names))], columns, None) if len(gaps) > 1 else ""


def bases_table(dataset: xr.Dataset) -> str:
    """Return the energy that one basis for a window of layers keeps, beside each layer's own and a random one."""
    if "shared_energy" not in dataset:
        return ""
    names = ordered(dataset)
    columns = []
    for rank in (rank for rank in RANKS if rank in dataset["rank"].values):
        for kind in ("own", "shared", "unrelated", "random"):
            found = dataset[f"{kind}_energy"].sel(rank=rank)
            means = [float(nan_average(found.sel(projection=name).values, axis=0).mean) for name in names]
            columns.append(numbers(f"{kind} {rank}", means, ".2f"))
    return text_table([Column("projection", tuple(names))], columns, None)


def heads_table(dataset: xr.Dataset) -> str:
    """Return continuity by head: matched by index, by the best assignment, and what that assignment is by chance."""
    if "weight_head_same_index" not in dataset:
        return ""
    names = [
        name for name in ordered(dataset) if dataset["weight_head_same_index"].sel(projection=name).notnull().any()
    ]
    columns = [
        numbers(head, [residual_mean(dataset, name, variable) for name in names], ".3f")
        for head, variable in {
            "same index": "head_same_index",
            "best assignment": "head_best",
            "chance of that": "head_best_chance",
        }.items()
    ]
    return text_table([Column("projection", tuple(names))], columns, None)


def likeness_table(dataset: xr.Dataset) -> str:
    """Return the pairs of adjacent layers that share most of their residual-side spaces, the most alike first."""
    likeness = layer_likeness(dataset)
    first = [pair for pair in np.argsort(-likeness, kind="stable")[:MOST_ALIKE] if not np.isnan(likeness[pair])]
    if not first:
        return ""
    layers = dataset["pair"].values
    labels = [Column("layers", tuple(f"{layers[pair]}, {layers[pair] + 1}" for pair in first))]
    table = text_table(labels, [numbers("overlap16 above chance", [float(likeness[pair]) for pair in first], ".3f")])
    return f"{table}\n{LIKENESS}"


def layer_likeness(dataset: xr.Dataset) -> np.ndarray:
    """Return, by pair, the mean over projections of the residual-side overlap of the leading 16 above its chance."""
    above = []
    for name in ordered(dataset):
        variable = dataset[f"weight_{side_of(dataset, name)}_overlap16"]
        above.append(variable.sel(projection=name).values - NULLS["overlap"].mean(dimension_of(dataset, name), k=16))
    return nan_average(np.array(above), axis=0).mean


def pair_rows(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """Return everything that is measured of pairs as a row each, for a CSV file."""
    names = [str(name) for name, variable in dataset.data_vars.items() if variable.dims == ("projection", "pair")]
    rows = []
    for projection in dataset["projection"].values.tolist():
        one = dataset[names].sel(projection=projection)
        about = {name: one[name].item() for name in ("role", "side", "d_out", "d_in")}
        for place, layer in enumerate(dataset["pair"].values.tolist()):
            values = {name.removeprefix("weight_"): float(one[name].values[place]) for name in names}
            rows.append({"projection": projection, **about, "layer": layer, "next_layer": layer + 1, **values})
    return rows


def ordered(dataset: xr.Dataset) -> list[str]:
    """Return the projections as the paper groups them: readers, value, writers."""
    role = dict(zip(dataset["projection"].values.tolist(), dataset["role"].values.tolist(), strict=True))
    return [name for group in ROLES for name in role if role[name] == group]


def residual_mean(dataset: xr.Dataset, name: str, variable: str) -> float:
    """Return a projection's mean of a variable over pairs or layers; `{side}` in its name is the residual side."""
    values = dataset[f"weight_{variable.format(side=side_of(dataset, name))}"].sel(projection=name).values
    return float(nan_average(values, axis=0).mean)


def side_of(dataset: xr.Dataset, name: str) -> str:
    """Return the side of a projection that meets the residual stream: `v` (input) or `u` (output)."""
    return str(dataset["side"].sel(projection=name).item())


def dimension_of(dataset: xr.Dataset, name: str) -> int:
    """Return the dimension of that side."""
    return int(dataset["d_in" if side_of(dataset, name) == "v" else "d_out"].sel(projection=name))


def _cosines(dataset: xr.Dataset, names: Sequence[str], side: str) -> Column:
    means = [residual_mean(dataset, name, f"{side}1_cosine") for name in names]
    marks = ["*" if side_of(dataset, name) == side else " " for name in names]
    cells = numbers(f"{side}1", means, ".3f").cells
    return Column(f"{side}1", tuple(cell + mark for cell, mark in zip(cells, marks, strict=True)))


def chance_on(dataset: xr.Dataset, name: str) -> float:
    """Return what |cos| is by chance on a projection's residual side."""
    return NULLS["cosine"].mean(dimension_of(dataset, name))


def _z(dataset: xr.Dataset, name: str) -> float:
    pairs = _pairs(dataset, name, side_of(dataset, name))
    return z_score(residual_mean(dataset, name, "{side}1_cosine"), dimension_of(dataset, name), pairs, 1)


def _pairs(dataset: xr.Dataset, name: str, side: str) -> int:
    return int(dataset[f"weight_{side}1_cosine"].sel(projection=name).notnull().sum())


def _at_gap(dataset: xr.Dataset, name: str, gap: int) -> float:
    matrix = dataset[f"weight_{side_of(dataset, name)}1_matrix"].sel(projection=name).values
    return float(nan_average(np.diagonal(matrix, gap), axis=0).mean)


def _shape(dataset: xr.Dataset, name: str) -> str:
    d_out, d_in = (int(dataset[size].sel(projection=name)) for size in ("d_out", "d_in"))
    return f"{d_out} x {d_in}"


def _roles(dataset: xr.Dataset, names: Iterable[str]) -> Iterable[str]:
    """Return each group's role in the first of its rows."""
    told = set()
    for name in names:
        role = str(dataset["role"].sel(projection=name).item())
        yield "" if role in told else role
        told.add(role)


def _title(dataset: xr.Dataset) -> str:
    attrs = dataset.attrs
    return f"{attrs['name']}: {attrs['architecture']}, {dataset.sizes['layer']} layers, {attrs['format']}"


def _bases_head(dataset: xr.Dataset) -> str:
    size = dataset.attrs.get("window", 0)
    return (
        f"energy |W B^T|^2/|W|^2 that a basis of the residual side keeps, by rank: each layer's own best,\n"
        f"one for {size} layers (shared), one for {size} unrelated layers with the same spectra, a random one"
    )


def _remarks(dataset: xr.Dataset) -> list[str]:
    codes = dataset["weight_defect"].values
    bad = {word: int((codes == code).sum()) for code, word in DEFECTS.items()}
    lines = [f"matrices without a leading direction: {count} {word}." for word, count in bad.items() if count]
    lines += [f"note: {note}" for note in dataset.attrs["notes"]]
    return ["\n".join(lines)] if lines else []
