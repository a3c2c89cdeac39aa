"""All parts of an analysis as one labelled dataset, which xarray reads without this package."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from geocont_jax.geometry.heads import HeadMatch, head_cosines, match_heads
from geocont_jax.geometry.quantities import QUANTITIES
from geocont_jax.geometry.trajectory import trajectory
from geocont_jax.pretrained.parts import Parts
from geocont_jax.pretrained.projections import ROLES, SIDES
from geocont_jax.pretrained.roles import PretrainedModel
from geocont_jax.pretrained.streaming import LAYER_QUANTITIES, PAIR_QUANTITIES

STORE_VERSION = 1
KIND = "pretrained"
NUM_COMPONENTS = 3
NULL_DIMENSIONS = {"v": "d_in", "u": "d_out"}

BASES = {
    "shared": "one basis for all layers of the window",
    "own": "each layer's own best basis",
    "unrelated": "one basis for as many unrelated layers with the same singular values",
    "random": "a random basis",
}
HEAD_WORDS = {
    "same_index": "heads of the same index",
    "best": "heads of the best assignment",
    "best_chance": "the best assignment of unrelated heads",
}

Part = Mapping[str, np.ndarray]
Windows = Mapping[str, Sequence[tuple[int, ...]]]


def assemble(parts: Parts, model: PretrainedModel, windows: Windows, max_gap: int | None = None) -> xr.Dataset:
    """Return what was measured of the model's matrices, by projection and layer or pair.

    Dimensions: `projection` (by name), `layer` (its number), `pair` (the number of its first layer), `other_layer`,
    `k`, `component`, and `window` (the number of its first layer) with `rank`. NaN where a projection has no such
    matrix, and where two layers are more than `max_gap` apart. `windows` are layers that share a basis, by projection.
    """
    layers = sorted({ref.layer for refs in model.matrices.values() for ref in refs})
    kept = {
        name: {ref.layer: parts.read_layer(name, ref.layer) for ref in refs} for name, refs in model.matrices.items()
    }
    variables = _of_layers(kept, layers) | _of_pairs(kept, layers) | _of_directions(kept, layers, max_gap)
    variables |= _of_heads(kept, layers) | _of_windows(parts, windows)
    return xr.Dataset(variables, _coordinates(model, layers), _attributes(model))


def _coordinates(model: PretrainedModel, layers: Sequence[int]) -> dict[str, Any]:
    names = list(model.matrices)
    first = [model.matrices[name][0] for name in names]
    return {
        "projection": names,
        "role": ("projection", [ROLES[name] for name in names], {"long_name": "what it does with the residual stream"}),
        "side": ("projection", [SIDES[name] for name in names], {"long_name": "side of the residual stream, v: input"}),
        "d_out": ("projection", [ref.shape[0] for ref in first]),
        "d_in": ("projection", [ref.shape[1] for ref in first]),
        "layer": list(layers),
        "other_layer": list(layers),
        "pair": list(layers[:-1]),
    }


def _attributes(model: PretrainedModel) -> dict[str, Any]:
    return {
        "kind": KIND,
        "store_version": STORE_VERSION,
        "name": model.name,
        "architecture": model.architecture,
        "notes": list(model.notes),
    }


def _of_layers(kept: Mapping[str, Mapping[int, Part]], layers: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in LAYER_QUANTITIES:
        values = _table(kept, layers, f"layer.{name}", QUANTITIES[name].dtype)
        found[f"weight_{name}"] = (("projection", "layer"), values, {"long_name": QUANTITIES[name].description})
    most = max(len(part["s"]) for of in kept.values() for part in of.values())
    values = np.full((len(kept), len(layers), most), np.nan, np.float32)
    for place, of in enumerate(kept.values()):
        for layer, part in of.items():
            values[place, layers.index(layer), : len(part["s"])] = part["s"]
    found["singular_values"] = (("projection", "layer", "k"), values, {"long_name": "leading singular values"})
    return found


def _of_pairs(kept: Mapping[str, Mapping[int, Part]], layers: Sequence[int]) -> dict[str, Any]:
    found = {}
    for name in PAIR_QUANTITIES:
        values = _table(kept, layers, f"pair.{name}", np.float32)[:, 1:]
        found[f"weight_{name}"] = (("projection", "pair"), values, _pair_attributes(name))
    return found


def _pair_attributes(name: str) -> dict[str, Any]:
    if name not in QUANTITIES:
        return {"long_name": "cosine of adjacent layers' matrices, <W, W'>/(|W| |W'|)"}
    quantity = QUANTITIES[name]
    attributes: dict[str, Any] = {"long_name": quantity.description}
    if quantity.null is not None:
        attributes |= {"null": quantity.null, "null_dimension": NULL_DIMENSIONS[name[0]]}
    return attributes if quantity.k is None else attributes | {"null_k": quantity.k}


def _table(kept: Mapping[str, Mapping[int, Part]], layers: Sequence[int], key: str, dtype: type) -> np.ndarray:
    """Return a value of each matrix as (projection, layer), NaN (or 0 for codes) where there is none."""
    values: np.ndarray = np.full((len(kept), len(layers)), np.nan if np.issubdtype(dtype, np.floating) else 0, dtype)
    for place, of in enumerate(kept.values()):
        for layer, part in of.items():
            if key in part:
                values[place, layers.index(layer)] = part[key]
    return values


def _of_directions(
    kept: Mapping[str, Mapping[int, Part]], layers: Sequence[int], max_gap: int | None
) -> dict[str, Any]:
    """Return |cos| between every two layers on both sides, and the path of the direction on the residual side."""
    found: dict[str, Any] = {}
    gaps = np.abs(np.subtract.outer(layers, layers))
    near = gaps <= (gaps.max() if max_gap is None else max_gap)
    for side, word in {"v": "right", "u": "left"}.items():
        matrices = [np.where(near, _cosines(_directions(of, layers, side)), np.nan) for of in kept.values()]
        about = {"long_name": f"|cos| of the leading {word} singular vectors of every two layers"}
        values = np.array(matrices, np.float32)
        found[f"weight_{side}1_matrix"] = (("projection", "layer", "other_layer"), values, about)
    paths = [trajectory(_directions(of, layers, SIDES[name]), NUM_COMPONENTS) for name, of in kept.items()]
    points, shares = (np.array(values, np.float32) for values in zip(*paths, strict=True))
    about = {"long_name": "path of the sign-aligned leading direction on the residual side, principal components"}
    found["trajectory"] = (("projection", "layer", "component"), points, about)
    found["trajectory_share"] = (("projection", "component"), shares, {"long_name": "share of the path's variance"})
    return found


def _directions(of: Mapping[int, Part], layers: Sequence[int], side: str) -> np.ndarray:
    """Return the leading directions (layer, d), NaN where there is none, or where its dimension is another."""
    dimension = next(iter(of.values()))[side].shape[1]
    directions = np.full((len(layers), dimension), np.nan)
    for layer, part in of.items():
        if part["layer.defect"] == 0 and part[side].shape[1] == dimension:
            directions[layers.index(layer)] = part[side][0]
    return directions


def _cosines(directions: np.ndarray) -> np.ndarray:
    return np.minimum(np.abs(directions @ directions.T), 1.0)


def _of_windows(parts: Parts, windows: Windows) -> dict[str, Any]:
    """Return the energies that shared, own and random bases keep, mean over the layers of each window."""
    found = {}
    for name, of in windows.items():
        for window in of:
            part = parts.read_window(name, window)
            if part:
                found[name, window[0]] = part
    if not found:
        return {}
    names, firsts = list(windows), sorted({first for _, first in found})
    ranks = max((part["ranks"] for part in found.values()), key=len)
    variables: dict[str, Any] = {"rank": ("rank", ranks), "window": ("window", firsts)}
    for kind, words in BASES.items():
        values = np.full((len(names), len(firsts), len(ranks)), np.nan, np.float32)
        for (name, first), part in found.items():
            values[names.index(name), firsts.index(first), : len(part["ranks"])] = part[kind]
        about = {"long_name": f"share of |W|_F^2 kept on the residual side by {words}"}
        variables[f"{kind}_energy"] = (("projection", "window", "rank"), values, about)
    return variables


def _of_heads(kept: Mapping[str, Mapping[int, Part]], layers: Sequence[int]) -> dict[str, Any]:
    """Return how heads of adjacent layers match, where directions of heads were kept."""
    by_name = {name: of for name, of in kept.items() if any("heads" in part for part in of.values())}
    if not by_name:
        return {}
    most = max(part["heads"].shape[0] for of in by_name.values() for part in of.values())
    names, num_pairs = list(kept), len(layers) - 1
    cosines = np.full((len(names), num_pairs, most, most), np.nan, np.float32)
    matches = np.full((len(names), num_pairs, len(HeadMatch._fields)), np.nan, np.float32)
    for name, of in by_name.items():
        for place, (layer, following) in enumerate(pairwise(layers)):
            if layer in of and following in of:
                one, other = of[layer]["heads"], of[following]["heads"]
                found = head_cosines(one, other)
                cosines[names.index(name), place, : len(one), : len(other)] = found
                matches[names.index(name), place] = match_heads(found, one.shape[1])
    about = {"long_name": "|cos| of the leading residual-side direction of every two heads of adjacent layers"}
    variables: dict[str, Any] = {
        "weight_head_cosine": (("projection", "pair", "head", "other_head"), cosines, about),
    }
    for number, (field, words) in enumerate(HEAD_WORDS.items()):
        long_name = {"long_name": f"mean |cos| of adjacent layers' heads, {words}"}
        variables[f"weight_head_{field}"] = (("projection", "pair"), matches[:, :, number], long_name)
    return variables
