"""Synthetic records with every variable of a sweep, and dynamics that look like training."""

import json

import numpy as np
import xarray as xr

FAMILIES = (
    "weight",
    "update",
    "gradient",
    "cumulative_gradient",
    "mean_gradient",
    "cumulative_step",
    "recent_update",
)
ALIGNMENTS = {"": "alignment", "_symmetric": "alignment", "_best": "alignment_best", "_full": "alignment_full"}
OVERLAPS = (1, 4, 16)
LAYERED = ("gap", "effective_rank", "stable_rank", "spectral_norm")
SCALARS = ("train_loss", "test_loss", "test_accuracy", "update_ratio")
SETTINGS = {
    "kind": "residual_mlp",
    "depth": 16,
    "width": 256,
    "residual": True,
    "activation": "relu",
    "activation_scale": 1.0,
    "norm": "none",
    "init_scale": 1.0,
    "name": "mnist",
    "batch_size": 128,
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "beta2": 0.999,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "epochs": 20,
}
STEPS_PER_EPOCH = 468

TABLE_1 = {
    "residual": [False, False, True, True, True, True, True, True, True, True, True],
    "activation": ["relu", "identity", "identity", "radial", "relu", "gelu", "silu", "tanh", "leaky_relu",
                   "identity", "relu"],
    "norm": ["none"] * 9 + ["layernorm"] * 2,
}  # fmt: skip

OPTIMIZERS = [
    ("adam", 1e-3, 0.0, 0.999, 0.0),
    ("adam", 1e-3, 0.0, 0.0, 0.0),
    ("sgd", 0.1, 0.0, 0.999, 0.0),
    ("sgd", 0.01, 0.9, 0.999, 0.0),
    ("adamw", 1e-3, 0.0, 0.999, 0.01),
    ("sign", 1e-4, 0.0, 0.999, 0.0),
    ("novograd", 1e-3, 0.0, 0.999, 0.0),
    ("muon", 0.02, 0.95, 0.999, 0.0),
]
SWEEPS = {
    "table1": TABLE_1,
    "optimizers": {
        "activation": ["identity", "relu", "radial"] * len(OPTIMIZERS),
        **{
            name: [row[i] for row in OPTIMIZERS for _ in range(3)]
            for i, name in enumerate(("optimizer", "learning_rate", "momentum", "beta2", "weight_decay"))
        },
    },
    "init_scale": {"activation": ["identity"] * 4 + ["relu"] * 4, "init_scale": [0.1, 0.3, 1.0, 3.0] * 2},
    "norms": {"norm": ["none"] * 2 + ["layernorm"] * 2 + ["rmsnorm"] * 2, "activation": ["identity", "relu"] * 3},
    "radial": {
        "activation": ["identity"] * 2 + ["radial"] * 4,
        "activation_scale": [1.0] * 4 + [16.0] * 2,
        "init_scale": [0.3, 1.0] * 3,
    },
    "drift": {"activation": ["identity", "radial", "relu"]},
    "one": {},
}


def full_records(
    axes,
    seeds=(0, 1, 2),
    *,
    name="synthetic",
    depth=16,
    width=256,
    epochs=4,
    families=FAMILIES,
    status=None,
    diverged_at=None,
    spec_hash="0a1b2c3d",
    dimension=None,
):
    """Return records of len(axes values) variants x seeds with every variable of the contract.

    A run's values depend on its settings and seed alone, whatever else is in the records. Runs that are not ok have
    values too, absurd ones: who lets them into a mean will see it.
    """
    variants = [dict(zip(axes, cell, strict=True)) for cell in zip(*axes.values(), strict=True)] if axes else [{}]
    cells = [(cell, seed) for cell in variants for seed in seeds]
    status = status or ["ok"] * len(cells)
    made = [_run({**SETTINGS, "depth": depth, "width": width, **cell}, seed, depth, epochs, families)
            for cell, seed in cells]  # fmt: skip
    data = {key: (dims, np.stack([run[key][1] for run in made]), attrs) for key, (dims, _, attrs) in made[0].items()}
    for _, values, _ in data.values():
        if np.issubdtype(values.dtype, np.floating):
            values[np.array(status) != "ok"] = 123.0
    for _, _, attrs in data.values():
        if "null_dimension" in attrs:
            attrs["null_dimension"] = dimension or width
    steps = np.arange(epochs + 1) * STEPS_PER_EPOCH
    coords = {key: ("run", np.array([cell[key] for cell, _ in cells])) for key in axes}
    settings = [{**SETTINGS, "depth": depth, "width": width, **cell} for cell, _ in cells]
    coords |= {
        "seed": ("run", np.array([seed for _, seed in cells])),
        "variant": ("run", np.array([label(cell) for cell, _ in cells])),
        "status": ("run", np.array(status, "<U8")),
        "diverged_at": ("run", np.array(diverged_at or [-1] * len(cells), np.int32)),
        "identity": ("run", np.array([identity(of_run, seed) for of_run, (_, seed) in
                                      zip(settings, cells, strict=True)])),
        "settings": ("run", np.array([json.dumps(of_run) for of_run in settings])),
        "steps_per_epoch": ("run", np.full(len(cells), STEPS_PER_EPOCH, np.int32)),
        "step": ("record", steps.astype(np.int32)),
        "epoch": ("record", steps / STEPS_PER_EPOCH),
    }  # fmt: skip
    attrs = {
        "name": name,
        "description": "Which ingredient lines layers up?",
        "spec_hash": spec_hash,
        "geocont_jax": "0.1.0",
        "axes": json.dumps(list(axes)),
        "store_version": 1,
    }
    return xr.Dataset(data, coords, attrs)


def label(cell):
    """Return a variant's label, as the grid writes it."""
    return " ".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in cell.items()) or "base"


def identity(settings, seed):
    """Return a name that settings and seed share with no other run."""
    return f"{sum(map(ord, json.dumps(settings, sort_keys=True))) * 31 + seed:016x}"


def _run(settings, seed, depth, epochs, families):
    rng = np.random.default_rng([seed, *json.dumps(settings, sort_keys=True).encode()])
    of_variant = np.random.default_rng(list(json.dumps(settings, sort_keys=True).encode()))
    end, speed, kept = of_variant.uniform(0.3, 0.95), of_variant.uniform(0.3, 1.5), of_variant.uniform(0.0, 1.0)
    time = np.linspace(0, 1, epochs + 1)
    rise = end * (1 - np.exp(-4 * speed * time)) * (1 - (1 - kept) * time**2) + 0.05
    run = {}
    for number, family in enumerate(families):
        centre = rise if family == "weight" else np.full(epochs + 1, min(0.97, end + 0.02 * number + 0.05))
        run |= _family(rng, family, centre, depth)
    run |= {key: (("run", "record"), _noisy(rng, 0.5 + 0.4 * time, ()), {}) for key in SCALARS}
    run["update_ratio"] = (("run", "record"), (speed * time * rng.normal(1, 0.02)).astype(np.float32), {})
    if "cumulative_gradient" in families and "weight" in families:
        gap = run["cumulative_gradient_v1_cosine"][1] - run["weight_v1_cosine"][1]
        run["coherence_gap"] = (("run", "record", "pair"), gap, {})
    for side in ("v1", "u1"):
        angles = 85 * (1 - kept) * np.maximum(time - time[1], 0)[:, None] * np.linspace(0.4, 1, depth)
        angles = angles + np.abs(rng.normal(0, 1.5, angles.shape))
        angles[0], angles[1] = np.nan, 0
        run[f"weight_{side}_drift"] = (("run", "record", "layer"), angles.astype(np.float32), {})
    run["preactivation_norm"] = (("run", "record", "layer"), _noisy(rng, 15 + 0 * time, (depth,)), {})
    return run


def _family(rng, family, centre, depth):
    moves = family not in ("weight", "gradient")  # a zero matrix at step 0
    made = {}

    def put(quantity, values, dims, **attrs):
        values[:1] = np.where(moves, np.nan, values[:1])
        made[f"{family}_{quantity}"] = (
            ("run", "record", dims),
            values,
            {"long_name": f"{quantity} of {family}"} | attrs,
        )

    for side in ("v", "u"):
        put(f"{side}1_cosine", _noisy(rng, centre, (depth - 1,)), "pair", null="cosine", null_dimension=256)
        for reading, null in ALIGNMENTS.items():
            values = _noisy(rng, centre / 3, (depth - 1,))
            put(f"{side}_alignment{reading}", values, "pair", null=null, null_dimension=256)
        for k in OVERLAPS:
            values = _noisy(rng, centre**2, (depth - 1,))
            put(f"{side}_overlap{k}", values, "pair", null="overlap", null_k=k, null_dimension=256)
        distance = np.abs(np.subtract.outer(np.arange(depth), np.arange(depth)))
        matrix = np.clip(centre[-1] ** distance + rng.normal(0, 0.02, distance.shape), 0, 1)
        matrix = np.where(distance == 0, 1, (matrix + matrix.T) / 2).astype(np.float32)
        made[f"{family}_{side}1_matrix"] = (("run", "layer", "other_layer"), matrix, {"null_dimension": 256})
    for quantity in LAYERED:
        put(quantity, _noisy(rng, 1 + centre, (depth,)), "layer")
    defect = np.zeros((len(centre), depth), np.int8)
    defect[0] = moves
    made[f"{family}_defect"] = (("run", "record", "layer"), defect, {})
    return made


def _noisy(rng, centre, inner):
    """Return values around a curve: a shift of the seed's own and noise in every layer."""
    shift = rng.normal(0, 0.015)
    centre = centre.reshape(-1, *[1] * len(inner))
    return np.clip(centre + shift + rng.normal(0, 0.03, (len(centre), *inner)), 0, None).astype(np.float32)
