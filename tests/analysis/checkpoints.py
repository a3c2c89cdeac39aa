"""What an analysis of a checkpoint leaves behind, made up: the continuity of each projection is given."""

import numpy as np
import xarray as xr

from geocont_jax.geometry.quantities import QUANTITIES

ROLES = {"q": "reads", "k": "reads", "v": "value", "o": "writes", "gate": "reads", "up": "reads", "down": "writes"}
RANKS = [1, 2, 4, 8, 16]


def checkpoint(name="toy", num_layers=6, dimension=64, cosines=None, matrix_cosine=0.0, notes=()):
    """Return a dataset with `cosines[projection] = (v1, u1)` for every pair of adjacent layers."""
    cosines = cosines or dict.fromkeys(ROLES, (0.8, 0.1))
    names, layers = list(cosines), np.arange(num_layers)
    pairs = ("projection", "pair")
    per_pair = (len(names), num_layers - 1)
    v1, u1 = (np.array([cosines[projection][side] for projection in names]) for side in (0, 1))
    path = np.stack([layers, layers**2, 0 * layers], axis=1).astype(float)
    decay = np.abs(layers[:, None] - layers[None, :])
    variables = {
        "weight_v1_cosine": (pairs, np.repeat(v1[:, None], num_layers - 1, 1)),
        "weight_u1_cosine": (pairs, np.repeat(u1[:, None], num_layers - 1, 1)),
        "weight_matrix_cosine": (pairs, np.full(per_pair, matrix_cosine)),
        "weight_v1_matrix": (("projection", "layer", "other_layer"), v1[:, None, None] ** decay),
        "weight_u1_matrix": (("projection", "layer", "other_layer"), u1[:, None, None] ** decay),
        "trajectory": (("projection", "layer", "component"), np.tile(path, (len(names), 1, 1))),
        "trajectory_share": (("projection", "component"), np.tile([0.7, 0.2, 0.1], (len(names), 1))),
        "singular_values": (("projection", "layer", "k"), np.ones((len(names), num_layers, 4))),
    }  # fmt: skip
    for quantity in QUANTITIES:
        if f"weight_{quantity}" not in variables and QUANTITIES[quantity].axes == ("pair",):
            variables[f"weight_{quantity}"] = (pairs, np.linspace(0.1, 0.6, num_layers - 1) * np.ones(per_pair))
        elif QUANTITIES[quantity].axes == ("layer",):
            value = 0 if quantity == "defect" else 0.25
            variables[f"weight_{quantity}"] = (("projection", "layer"), np.full((len(names), num_layers), value))
    for kind, scale in {"shared": 0.8, "own": 1.0, "unrelated": 0.3, "random": 0.1}.items():
        kept = scale * np.sqrt(np.array(RANKS) / 16)
        variables[f"{kind}_energy"] = (("projection", "window", "rank"), np.tile(kept, (len(names), 2, 1)))
    coordinates = {
        "projection": names,
        "role": ("projection", [ROLES[projection] for projection in names]),
        "side": ("projection", ["u" if ROLES[projection] == "writes" else "v" for projection in names]),
        "d_out": ("projection", [dimension] * len(names)),
        "d_in": ("projection", [dimension] * len(names)),
        "layer": layers,
        "other_layer": layers,
        "pair": layers[:-1],
        "window": [0, 3],
        "rank": RANKS,
    }
    attrs = {
        "kind": "pretrained",
        "store_version": 1,
        "name": name,
        "architecture": "llama",
        "format": "safetensors",
        "notes": list(notes),
        "window": 3,
    }
    return xr.Dataset(variables, coordinates, attrs)
