"""Pretrained checkpoints as the records of a sweep whose runs are models: what claims are decided on."""

import json
from collections.abc import Sequence

import numpy as np
import xarray as xr

from geocont_jax.geometry.null import NULLS

NAME = "pretrained"
NULL_DIMENSIONS = {"v": "d_in", "u": "d_out"}


def as_runs(datasets: Sequence[xr.Dataset]) -> xr.Dataset:
    """Return checkpoints as one dataset with a run for each model, in order of their names, and a single record.

    Variables (run, record, pair): `q_v1_cosine`, `q_u1_cosine`, ... for each projection; `q_v1_excess`, ..., the same
    minus its chance level, which depends on the model's dimensions; `q_matrix_cosine`, .... NaN where a model has no
    such pair. A model stands where a seed stands otherwise: it is the independent observation.

    Args: `datasets`, what `analyze` measured, with dims projection and pair.
    """
    models = sorted(datasets, key=lambda dataset: str(dataset.attrs["name"]))
    names = [str(model.attrs["name"]) for model in models]
    projections = list(dict.fromkeys(name for model in models for name in model["projection"].values.tolist()))
    most = max(model.sizes["pair"] for model in models)
    variables = {}
    for projection in projections:
        for quantity in ("v1_cosine", "u1_cosine", "v1_excess", "u1_excess", "matrix_cosine"):
            values = [_padded(_values(model, projection, quantity), most) for model in models]
            variables[f"{projection}_{quantity}"] = (("run", "record", "pair"), np.stack(values)[:, None])
    coordinates = {
        "model": ("run", names),
        "seed": ("run", np.arange(len(models))),
        "variant": ("run", names),
        "status": ("run", ["ok"] * len(models)),
        "settings": ("run", [json.dumps({"model": name}) for name in names]),
        "step": ("record", [0]),
        "epoch": ("record", [0.0]),
    }
    told = {
        key: "; ".join(dict.fromkeys(str(model.attrs[key]) for model in models if model.attrs.get(key)))
        for key in ("commit", "date", "machine", "geocont_jax", "folder")
    }
    return xr.Dataset(variables, coordinates, {"name": NAME, "axes": json.dumps(["model"]), **told})


def _values(model: xr.Dataset, projection: str, quantity: str) -> np.ndarray:
    """Return a quantity of a projection of a model (pair,)."""
    if projection not in model["projection"].values:
        return np.array([])
    one = model.sel(projection=projection)
    if not quantity.endswith("_excess"):
        return one[f"weight_{quantity}"].values
    chance = NULLS["cosine"].mean(float(one[NULL_DIMENSIONS[quantity[0]]]))
    return one[f"weight_{quantity.removesuffix('excess')}cosine"].values - chance


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([values, np.full(length - len(values), np.nan)]).astype(np.float64)
