"""Synthetic records of a sweep, with known answers."""

import json

import numpy as np
import xarray as xr

FAMILIES = ("weight", "update", "gradient", "cumulative_gradient")
SCALARS = ("train_loss", "test_loss", "test_accuracy", "update_ratio")


def sweep_records(
    axes,
    seeds=(0, 1, 2),
    *,
    pairs=15,
    steps=(0, 4, 8),
    dimension=256,
    status=None,
    diverged_at=None,
    fill=0.5,
):
    """Return records of len(axes values) variants x seeds, every metric `fill` everywhere, at every record."""
    names = list(axes)
    variants = list(zip(*axes.values(), strict=True)) if axes else [()]
    labels = [
        " ".join(f"{n}={str(v).lower()}" for n, v in zip(names, cell, strict=True)) or "base" for cell in variants
    ]
    runs = len(variants) * len(seeds)
    data = {}
    for family in FAMILIES:
        for side in ("v1", "u1"):
            values = np.full((runs, len(steps), pairs), fill, np.float32)
            attrs = {"null": "cosine", "null_dimension": dimension}
            data[f"{family}_{side}_cosine"] = (("run", "record", "pair"), values, attrs)
        data[f"{family}_gap"] = (("run", "record", "layer"), np.full((runs, len(steps), pairs + 1), fill, np.float32))
        data[f"{family}_defect"] = (("run", "record", "layer"), np.zeros((runs, len(steps), pairs + 1), np.int8))
    data |= {name: (("run", "record"), np.full((runs, len(steps)), fill, np.float32)) for name in SCALARS}
    coords = {name: ("run", np.repeat(np.array(axes[name]), len(seeds))) for name in names}
    coords |= {
        "seed": ("run", np.tile(np.array(seeds), len(variants))),
        "variant": ("run", np.repeat(np.array(labels), len(seeds))),
        "status": ("run", np.array(status or ["ok"] * runs)),
        "diverged_at": ("run", np.array(diverged_at or [-1] * runs, np.int32)),
        "identity": ("run", np.array([f"{i:08x}" for i in range(runs)])),
        "step": ("record", np.array(steps)),
        "epoch": ("record", np.array(steps) / 4),
    }
    return xr.Dataset(data, coords, {"name": "synthetic", "axes": json.dumps(names), "spec_hash": "0"})


def set_last(records, name, per_run):
    """Put a value per run at the last record of a metric, in every layer or pair."""
    values = np.asarray(per_run, np.float32)
    records[name].values[:, -1] = values.reshape(-1, *[1] * (records[name].ndim - 2))
    return records
