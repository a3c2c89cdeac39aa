"""What runs are: their resolved settings by short name, and whether they meet conditions."""

import json
from collections.abc import Mapping
from typing import Any

import xarray as xr

from geocont_jax.analysis.summary import axes_of


def meets(settings: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Return whether settings say all that the conditions ask for; a tuple lists values that all count.

    >>> meets({"width": 256, "norm": "none"}, {"width": 256}), meets({"width": 64}, {"width": (128, 256)})
    (True, False)
    """
    return all(name in settings and _agrees(settings[name], wanted) for name, wanted in conditions.items())


def variant_cells(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Return the axis values of each variant, variants in order of first appearance."""
    columns = {name: dataset[name].values.tolist() for name in axes_of(dataset)}
    cells: dict[str, dict[str, Any]] = {}
    for row, variant in enumerate(dataset["variant"].values.tolist()):
        cells.setdefault(variant, {name: column[row] for name, column in columns.items()})
    return cells


def variant_settings(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Return each variant's resolved settings; its axes alone where the records hold no more."""
    if "settings" not in dataset.coords:
        return variant_cells(dataset)
    variants, settings = dataset["variant"].values.tolist(), dataset["settings"].values.tolist()
    return {variant: json.loads(text) for variant, text in zip(variants, settings, strict=True)}


def _agrees(found: Any, wanted: Any) -> bool:
    return found in wanted if isinstance(wanted, tuple) else found == wanted
