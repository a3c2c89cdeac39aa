"""The paper's symmetry argument in numbers: what rotations do to a function, and how many directions are flat.

Shared by the tests, which check every number, and by docs/symmetry_argument.md, which shows them.
"""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geocont_jax.models.activations import ACTIVATIONS
from geocont_jax.models.norms import NORMS
from geocont_jax.models.residual_mlp import ResidualMLP
from geocont_jax.symmetry.rotation import (
    function_change,
    random_rotations,
    random_rotations_about,
    rotate_layers,
    rotate_stream,
)

# Whether phi(R x) = R phi(x) for every rotation R. A new activation or norm has to say which it is.
COMMUTES = {
    "relu": False,
    "gelu": False,
    "silu": False,
    "tanh": False,
    "leaky_relu": False,
    "identity": True,
    "radial": True,
}
NORM_COMMUTES = {"none": True, "layernorm": False, "rmsnorm": True}

# float64 products of 8 terms through 5 layers: a few hundred roundings.
ROUNDING = 1e-12

NUM_ROTATIONS = 3


def hypers(activation, norm, residual):
    return {
        "residual": np.float64(residual),
        "activation": np.int32(list(ACTIVATIONS).index(activation)),
        "activation_scale": np.float64(1.5),  # of the order of the norms here: radial is far from linear
        "norm": np.int32(list(NORMS).index(norm)),
        "init_scale": np.float64(1.0),
        "init_std": np.float64(1.0),
    }


def random_params(num_features, width, num_classes, depth, bias=False, seed=0):
    """Return parameters in general position: Gaussian, of size 1/sqrt(d_in)."""
    rng = np.random.default_rng(seed)
    params = {
        "input_kernel": rng.normal(size=(num_features, width)) / np.sqrt(num_features),
        "hidden_kernel": rng.normal(size=(depth, width, width)) / np.sqrt(width),
        "output_kernel": rng.normal(size=(width, num_classes)) / np.sqrt(width),
    }
    shapes = {"input_bias": (width,), "hidden_bias": (depth, width), "output_bias": (num_classes,)}
    return params | ({name: 0.5 * rng.normal(size=shape) for name, shape in shapes.items()} if bias else {})


@cache
def forward(width, num_classes, depth, bias):
    """Return the package's network as a compiled function of parameters, examples and hyperparameters."""
    module = ResidualMLP(num_classes, depth, width, bias, "normal")
    return jax.jit(lambda params, x, values: module.apply({"params": params}, x, values))


class Errors(NamedTuple):
    """Relative changes of the function under random rotations, a few of each kind."""

    shared: list[float]
    shared_about_ones: list[float]
    independent: list[float]
    independent_without_skip: list[float]


@cache
def rotation_errors(activation, norm, bias=False, width=8, depth=3):
    """Return how much rotations change the function of a random network, in float64."""
    params = random_params(6, width, 5, depth, bias)
    x = np.random.default_rng(1).normal(size=(20, 6))

    def changes(rotated, residual):
        def apply(params, x):
            return forward(width, 5, depth, bias)(params, x, hypers(activation, norm, residual))

        return [function_change(apply, params, other, x) for other in rotated]

    with jax.enable_x64():
        key = jax.random.key(0)
        turns = random_rotations(key, width, NUM_ROTATIONS)
        about = random_rotations_about(key, jnp.ones(width), NUM_ROTATIONS)
        layered = random_rotations(key, width, NUM_ROTATIONS * (depth + 1)).reshape(-1, depth + 1, width, width)
        apart = [rotate_layers(params, rotations) for rotations in layered]
        return Errors(
            shared=changes([rotate_stream(params, rotation) for rotation in turns], 1.0),
            shared_about_ones=changes([rotate_stream(params, rotation) for rotation in about], 1.0),
            independent=changes(apart, 1.0),
            independent_without_skip=changes(apart, 0.0),
        )


class Case(NamedTuple):
    """A small network, the number of its flat directions as a formula of n, d, c, L and k = min(n, d, c), and why."""

    activation: str
    residual: float
    formula: str
    why: str
    norm: str = "none"
    bias: bool = False
    sizes: tuple[int, int, int, int] = (5, 4, 5, 2)  # features n, width d, classes c, depth L

    @property
    def label(self):
        skip = "Res" if self.residual else "NoRes"
        return "+".join([skip, self.activation, *([self.norm] * (self.norm != "none")), *["bias"] * self.bias])

    @property
    def expected(self):
        n, d, c, depth = self.sizes
        return int(eval(self.formula, {"n": n, "d": d, "c": c, "L": depth, "k": min(n, d, c)}))


PRODUCT = "the function is a product of L + 2 matrices: GL(d) at each of the L + 1 places between them"
NARROW = "products of rank up to k = min(n, d, c) have k (n + c - k) dimensions"
STREAM = "a rotation of the stream: the skip path couples all layers"
ENTRY = "input map and first layer enter as a product: GL(d)"
SCALES = "a positive scale per neuron"
MEAN = "layer norm kills the mean: its row in each of the L layers is free"

CASES = [
    Case("identity", 1.0, "(L+1)*d**2", PRODUCT),
    Case("identity", 0.0, "(L+1)*d**2", PRODUCT),
    Case("identity", 1.0, "(L+1)*d**2 + (L+1)*d", f"{PRODUCT}; of the biases only their sum counts", bias=True),
    Case("identity", 1.0, "n*d + L*d**2 + d*c - k*(n+c-k)", NARROW, sizes=(5, 4, 2, 2)),
    Case("identity", 1.0, "n*d + L*d**2 + d*c - k*(n+c-k)", NARROW, sizes=(3, 4, 3, 3)),
    Case("radial", 1.0, "d*(d-1)/2", STREAM),
    Case("radial", 1.0, "d*(d-1)/2 + d", f"{STREAM}; and a shift of it, which biases make up for", bias=True),
    Case("tanh", 1.0, "d", "a shift of the stream, which biases make up for", bias=True),
    Case("radial", 1.0, "d*(d-1)/2 + (d-c)*(d-c-1)/2",
         f"{STREAM}; the last branch alone also in the kernel of the output map", sizes=(5, 4, 2, 2)),
    Case("radial", 0.0, "d**2 + L*d*(d-1)/2", f"{ENTRY}; a rotation of its own behind each layer"),
    *(Case(name, 1.0, "d", f"{SCALES}, the same in all layers") for name in ("relu", "leaky_relu")),
    *(Case(name, 0.0, "d**2 + L*d", f"{ENTRY}; {SCALES} of each layer") for name in ("relu", "leaky_relu")),
    *(Case(name, 1.0, "0", "no continuous symmetry") for name in ("gelu", "silu", "tanh")),
    *(Case(name, 0.0, "d**2", ENTRY) for name in ("gelu", "silu", "tanh")),
    *(Case(name, 1.0, "d*(d-1)/2", STREAM, norm="rmsnorm") for name in ("identity", "radial")),
    Case("relu", 1.0, "0", "no continuous symmetry: scales change the norm, a common one by its epsilon alone",
         norm="rmsnorm"),
    Case("identity", 1.0, "(d-1)*(d-2)/2 + d + L*d",
         f"a rotation that fixes the mean; the mean, only read out, can be scaled and sheared; {MEAN}",
         norm="layernorm"),
    Case("radial", 1.0, "(d-1)*(d-2)/2 + L*d", f"a rotation that fixes the mean; {MEAN}", norm="layernorm"),
    Case("relu", 1.0, "L*d", MEAN, norm="layernorm"),
]  # fmt: skip


def errors_table():
    """Return the Markdown table of what rotations change."""
    heads = ["activation", "norm", *(name.replace("_", " ") for name in Errors._fields)]
    rows = [
        [activation, norm, *map(_cell, rotation_errors(activation, norm))] for activation in COMMUTES for norm in NORMS
    ]
    return _table(heads, rows)


def counts_table():
    """Return the Markdown table of flat directions."""
    heads = ["network", "n, d, c, L", "flat directions", "number", "why"]
    rows = [
        [case.label, ", ".join(map(str, case.sizes)), f"`{case.formula}`", str(case.expected), case.why]
        for case in CASES
    ]
    return _table(heads, rows)


def _cell(errors):
    return "0" if max(errors) < ROUNDING else f"{min(errors):.2f}"


def _table(heads, rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads), *rows])
