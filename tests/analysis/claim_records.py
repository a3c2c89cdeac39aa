"""Synthetic records of the sweeps that claims ask for: a world in which a curve is known for every variant."""

import json

import numpy as np
import xarray as xr

from geocont_jax.analysis.claims.paper1 import TOY_CLAIMS

EPOCHS = 4
STEPS_PER_EPOCH = 468
PAIRS, LAYERS = 3, 4
WIDTH = 256
PAIRWISE = {
    "weight_v1_cosine": {"null": "cosine"},
    "weight_u1_cosine": {"null": "cosine"},
    "gradient_v1_cosine": {"null": "cosine"},
    "gradient_u1_cosine": {"null": "cosine"},
    "update_v1_cosine": {"null": "cosine"},
    "cumulative_gradient_v1_cosine": {"null": "cosine"},
    "weight_v_alignment": {"null": "alignment"},
    "weight_v_overlap1": {"null": "overlap", "null_k": 1},
    "weight_v_overlap16": {"null": "overlap", "null_k": 16},
    "coherence_gap": {},
}
LAYERWISE = ("weight_v1_drift", "preactivation_norm", "weight_gap")
SCALARS = ("test_accuracy", "update_ratio")
METRICS = (*PAIRWISE, *LAYERWISE, *SCALARS)

RISES = (0.05, 0.6, 0.8, 0.9, 0.92)
COLLAPSES = (0.05, 0.85, 0.6, 0.3, 0.22)
FLAT = (0.05,) * 5
NAN = float("nan")


def variants_of(sweep_name, claims=TOY_CLAIMS):
    """Return the settings of every variant that claims ask of a sweep, by the variant's name."""
    return {
        term.variant.name: {**claim.sweep.settings, **term.variant.settings}
        for claim in claims
        if claim.sweep.name == sweep_name
        for part in claim.parts
        for term in part.statistic.terms
    }


def store(sweep_name, curves, seeds=range(5), *, noise=0.004, status=None, claims=TOY_CLAIMS, attrs=()):
    """Return records of a sweep with all of its variants.

    `curves(settings, seed)` gives by metric a value per record, 0 to 4 epochs. Layers differ around their mean, and
    seeds by `noise` around the curve, otherwise for every variant.
    """
    cells = [(name, of_run, seed) for name, of_run in variants_of(sweep_name, claims).items() for seed in seeds]
    known = [curves(of_run, seed) for _, of_run, seed in cells]
    shift = np.random.default_rng(len(cells)).normal(0, noise, (len(cells), 1))
    data = {}
    for metric in METRICS:
        values = np.array([of_run.get(metric, FLAT) for of_run in known], float) + shift * _unit(metric)
        data[metric] = _variable(metric, values)
    steps = np.arange(EPOCHS + 1) * STEPS_PER_EPOCH
    coords = {
        "seed": ("run", np.array([seed for _, _, seed in cells])),
        "variant": ("run", np.array([name for name, _, _ in cells])),
        "status": ("run", np.array(status or ["ok"] * len(cells), "<U8")),
        "settings": ("run", np.array([json.dumps(of_run) for _, of_run, _ in cells])),
        "step": ("record", steps),
        "epoch": ("record", steps / STEPS_PER_EPOCH),
    }
    return xr.Dataset(data, coords, {"name": sweep_name, "axes": "[]", "spec_hash": "0a1b2c3d", **dict(attrs)})


def _unit(metric):
    """Return the size of a metric's numbers: what noise of 0.004 in a cosine is like there; none where it is exact."""
    return {"weight_v1_drift": 90.0, "preactivation_norm": 10.0, "update_ratio": 0.0}.get(metric, 1.0)


def _variable(metric, values):
    if metric in SCALARS:
        return ("run", "record"), values.astype(np.float32), {}
    dim, size = ("pair", PAIRS) if metric in PAIRWISE else ("layer", LAYERS)
    layers = values[..., None] + np.linspace(-0.02, 0.02, size)
    attrs = {**PAIRWISE.get(metric, {}), "null_dimension": WIDTH} if PAIRWISE.get(metric) else {}
    return ("run", "record", dim), layers.astype(np.float32), attrs


def constant(value):
    """Return a curve that stays where it is."""
    return (value,) * (EPOCHS + 1)


def paper_world(settings, seed=0):
    """Return the curves of a run if everything that the claims say were so."""
    curves = {metric: constant(0.5) for metric in METRICS}
    curves |= {"gradient_v1_cosine": constant(0.93 if settings["residual"] else 0.05)}
    curves |= {"test_accuracy": constant(0.97), "weight_v1_drift": (NAN, 0.0, 10.0, 20.0, 30.0)}
    curves |= {"preactivation_norm": constant(2.0), "update_ratio": (0.0, 0.2, 0.4, 1.0, 1.6)}
    curves |= {"weight_v1_cosine": RISES, "coherence_gap": (NAN, 0.5, 0.3, 0.04, 0.02)}
    curves |= {"cumulative_gradient_v1_cosine": (NAN, *constant(0.95)[1:])}
    curves |= {"weight_v_overlap1": constant(0.8), "weight_v_overlap16": constant(0.15)}
    curves |= {"weight_v_alignment": constant(0.249)}
    if not settings["residual"]:
        curves["weight_v1_cosine"] = FLAT
    elif settings["activation"] in ("identity", "radial"):
        curves |= _linear(settings["norm"])
    elif settings["norm"] == "layernorm":
        curves |= {"weight_v_overlap1": constant(0.75), "weight_v_overlap16": constant(0.2)}
    curves |= _at_scale(settings)
    return curves


def _linear(norm):
    if norm == "layernorm":
        return {
            "weight_v1_cosine": (0.05, 0.5, 0.7, 0.75, 0.74),
            "weight_v_overlap1": constant(0.5),
            "weight_v_overlap16": constant(0.4),
            "weight_v_alignment": constant(0.303),
        }
    return {
        "weight_v1_cosine": COLLAPSES,
        "weight_v1_drift": (NAN, 0.0, 40.0, 70.0, 80.0),
        "coherence_gap": (NAN, 0.3, 0.4, 0.6, 0.7),
    }


def _at_scale(settings):
    """Return what the initial scale changes in the sweep that is about it."""
    if settings.get("epochs") != 10 or settings["norm"] != "none" or settings["activation"] == "radial":
        return {}
    gap = {0.1: 0.02, 0.3: 0.05, 1.0: 0.4, 3.0: 0.8}[settings["init_scale"]]
    return {"coherence_gap": (NAN, gap, *constant(gap / 2)[2:]), "update_ratio": (0.0, *constant(2.0)[1:])}


def changed(world, *edits):
    """Return a world with other curves: each edit is a dict of settings to meet and a dict of curves."""

    def curves(settings, seed):
        found = world(settings, seed)
        for conditions, other in edits:
            if all(settings.get(name) == value for name, value in conditions.items()):
                found = {**found, **other}
        return found

    return curves


def mixed(one, other):
    """Return a world whose even seeds live in one and whose odd seeds live in another."""
    return lambda settings, seed: (one if seed % 2 == 0 else other)(settings, seed)
