"""Numbers of flat directions against what the symmetries explain, one derivation a case (`argument.CASES`)."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geocont_jax import InputError
from geocont_jax.models.activations import ACTIVATIONS
from geocont_jax.symmetry.flat_directions import flat_directions
from geocont_jax.symmetry.rotation import function_change
from tests.symmetry.argument import CASES, ROUNDING, forward, hypers, random_params

# A singular value that symmetry makes zero is so up to rounding. The least clear case, three layers of radial, has
# nonzero ones down to 1e-9 of the largest.
CLEAR_GAP = 1e4


def active(case, params, x):
    """Return which neurons are on, (layer, example, width), in a network without norm and bias."""
    h, found = x @ params["input_kernel"], []
    for kernel in params["hidden_kernel"]:
        before = h @ kernel
        found.append(before > 0)
        h = case.residual * h + np.asarray(ACTIVATIONS[case.activation](jnp.asarray(before), 1.5))
    return np.stack(found)


def is_in_general_position(case, params, x):
    """Return whether each neuron is off for an example, and on together with each neuron of the next layer.

    A neuron that never switches is linear (or dead) for all the data, and a weight between two neurons that are never
    on together is never used: both add flat directions of their own, of a relu net without skip path above all.
    """
    on = active(case, params, x)
    together = on[:-1].swapaxes(1, 2).astype(int) @ on[1:].astype(int)
    return bool((~on).any(axis=1).all() and (together > 0).all())


def point_and_data(case):
    """Return parameters and examples, the first draw in general position."""
    n, d, c, depth = case.sizes
    x = np.random.default_rng(2).normal(size=(120, n))
    for seed in range(20):
        params = random_params(n, d, c, depth, case.bias, seed)
        if case.norm != "none" or case.bias or is_in_general_position(case, params, x):
            return params, x
    raise AssertionError("no point in general position found")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.label}-{'x'.join(map(str, case.sizes))}")
def test_the_symmetries_explain_every_flat_direction(case):
    _, d, c, depth = case.sizes
    values = hypers(case.activation, case.norm, case.residual)
    params, x = point_and_data(case)
    found = flat_directions(lambda p, x: forward(d, c, depth, case.bias)(p, x, values), params, x)
    assert found.num_flat == case.expected, found
    assert found.gap > CLEAR_GAP
    assert found.num_params == sum(value.size for value in params.values()) == found.rank + found.num_flat


def test_every_activation_has_a_case_with_and_without_the_skip_path():
    assert {(case.activation, case.residual) for case in CASES} == {(a, r) for a in ACTIVATIONS for r in (0.0, 1.0)}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_positive_scale_per_neuron_is_a_symmetry_of_homogeneous_activations_only(name):
    """`W_l -> D W_l D^-1` with D diagonal and positive, the continuous symmetry that a residual relu net does have."""
    params = random_params(6, 8, 5, 3)
    scales = np.exp(np.random.default_rng(4).normal(size=8))
    scaled = {
        "input_kernel": params["input_kernel"] * scales,
        "hidden_kernel": params["hidden_kernel"] * scales / scales[:, None],
        "output_kernel": params["output_kernel"] / scales[:, None],
    }
    x, values = np.random.default_rng(5).normal(size=(20, 6)), hypers(name, "none", 1.0)
    with jax.enable_x64():
        change = function_change(lambda p, x: forward(8, 5, 3, False)(p, x, values), params, scaled, x)
    assert change < ROUNDING if name in ("identity", "relu", "leaky_relu") else change > 0.1


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
@pytest.mark.parametrize("name", ["identity", "relu"])
def test_only_epsilon_breaks_a_common_scale_of_normed_layers(name, norm):
    """Scaling all of the stream by a, and the layers with it, leaves norm(h) as it is but for epsilon = 1e-5."""
    params = random_params(6, 8, 5, 3)
    scaled = {name: value * factor for (name, value), factor in zip(params.items(), (2.0, 2.0, 0.5), strict=True)}
    x, values = np.random.default_rng(5).normal(size=(20, 6)), hypers(name, norm, 1.0)
    with jax.enable_x64():
        change = function_change(lambda p, x: forward(8, 5, 3, False)(p, x, values), params, scaled, x)
    assert ROUNDING < change < 1e-4


def test_the_rank_is_read_off_at_a_gap():
    """Three parameters, of which the function sees a, and 1e-3 and 1e-12 times b and c."""

    def apply(params, x):
        return x[:, :1] * params["a"] + x[:, 1:2] * 1e-3 * params["b"] + x[:, 2:] * 1e-12 * params["c"]

    params, x = {"a": 1.0, "b": 1.0, "c": 1.0}, np.eye(3)
    found = flat_directions(apply, params, x)
    assert found[:3] == (3, 2, 1)
    assert found.gap == pytest.approx(1e9)
    assert flat_directions(apply, params, x, 1e-14) == (3, 3, 0, math.inf)
    assert flat_directions(apply, params, x, 1e-2)[1:3] == (1, 2)


def test_a_constant_is_flat_throughout():
    assert flat_directions(lambda p, x: 0.0 * x * p["a"], {"a": 1.0}, np.ones((2, 1))) == (1, 0, 1, math.inf)


def test_float64_whatever_the_precision_outside():
    """Squares of differences of 1e-9 are below float32's resolution of 1, not below float64's."""
    found = flat_directions(
        lambda p, x: (x + p["a"]) ** 2 + 1e-6 * p["b"], {"a": np.float32(1.0), "b": 0.0}, np.array([[0.0], [1e-3]])
    )
    assert found.num_flat == 0
    assert not jax.config.jax_enable_x64


def test_too_few_examples_are_refused():
    with pytest.raises(InputError, match="2 outputs for 3 parameters; give more examples"):
        flat_directions(lambda p, x: x @ p, np.ones(3), np.ones((2, 3)))
