"""The residual MLP against NumPy, its closed form, and the distributions its weights are drawn from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geocont_jax.models.activations import ACTIVATIONS
from geocont_jax.models.initializers import INITIALIZERS
from geocont_jax.models.linear import linear
from geocont_jax.models.norms import NORMS
from geocont_jax.models.residual_mlp import ResidualMLP, measured_kernels


def hypers(activation="identity", norm="none", **values):
    numbers = {"residual": 1.0, "activation_scale": 1.0, "init_scale": 1.0, "init_std": 0.1} | values
    return {name: jnp.float32(value) for name, value in numbers.items()} | {
        "activation": jnp.int32(list(ACTIVATIONS).index(activation)),
        "norm": jnp.int32(list(NORMS).index(norm)),
    }


def network(depth=3, width=8, bias=False, initializer="normal", unroll=1):
    return ResidualMLP(5, depth, width, bias, initializer, unroll)


def init(module, values, seed=0):
    return module.init(jax.random.key(seed), jnp.zeros((1, 6)), values)["params"]


@pytest.mark.parametrize("residual", [1.0, 0.0, 0.5])
@pytest.mark.parametrize("bias", [False, True])
def test_linear_net_equals_its_closed_form(residual, bias):
    """With phi = identity the net is `x W_in prod_l (r I + W_l) W_out`, plus the biases carried along."""
    module, values = network(bias=bias), hypers(residual=residual, init_std=0.5)
    params = jax.tree.map(
        lambda x: np.random.default_rng(x.size).normal(size=x.shape).astype(np.float32), init(module, values)
    )
    x = np.random.default_rng(0).normal(size=(4, 6))
    p = {name: np.asarray(value, np.float64) for name, value in params.items()}
    expected = x @ p["input_kernel"] + p.get("input_bias", 0.0)
    for layer in range(3):
        expected = expected @ (residual * np.eye(8) + p["hidden_kernel"][layer])
        expected = expected + (p["hidden_bias"][layer] if bias else 0.0)
    expected = expected @ p["output_kernel"] + p.get("output_bias", 0.0)
    found = module.apply({"params": params}, jnp.asarray(x, jnp.float32), values)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("activation", "norm"), [(a, "none") for a in ACTIVATIONS] + [("silu", n) for n in NORMS if n != "none"]
)
def test_gradient_agrees_with_finite_differences(activation, norm):
    module, values = network(), hypers(activation, norm, init_std=0.4)
    params, x = init(module, values), jax.random.normal(jax.random.key(1), (4, 6))

    def scalar(params):
        return jnp.sum(jnp.square(module.apply({"params": params}, x, values)))

    direction = jax.tree.map(lambda p: jax.random.normal(jax.random.key(p.size), p.shape), params)
    slope = sum(
        jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (jax.grad(scalar)(params), direction)), strict=True)
    )
    with jax.enable_x64():
        wide = [jax.tree.map(lambda a: a.astype(jnp.float64), tree) for tree in (params, direction)]
        up, down = (scalar(jax.tree.map(lambda p, d, s=s: p + s * 1e-5 * d, *wide)) for s in (1, -1))
        expected = float(up - down) / 2e-5
    # float32 products of 8 terms through 5 layers: a few hundred roundings of the largest term.
    np.testing.assert_allclose(slope, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("unroll", [2, 3])
def test_unrolling_changes_nothing(unroll):
    values = hypers("relu", "layernorm")
    params = init(network(), values)
    x = jax.random.normal(jax.random.key(1), (4, 6))
    one, other = (network(unroll=u).apply({"params": params}, x, values) for u in (1, unroll))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_linear_has_the_gradient_of_a_product():
    x, kernel = jax.random.normal(jax.random.key(0), (7, 4)), jax.random.normal(jax.random.key(1), (4, 3))
    found = jax.grad(lambda *a: jnp.sum(jnp.sin(linear(*a))), (0, 1))(x, kernel)
    expected = jax.grad(lambda x, k: jnp.sum(jnp.sin(x @ k)), (0, 1))(x, kernel)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found, expected)


STANDARD_DEVIATIONS = {
    "torch_uniform": lambda d: 1 / np.sqrt(3 * d),
    "normal": lambda d: 0.1,
    "lecun": lambda d: 1 / np.sqrt(d),
    "he": lambda d: np.sqrt(2 / d),
    "orthogonal": lambda d: 1 / np.sqrt(d),
}


@pytest.mark.parametrize("name", INITIALIZERS)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_initial_matrices_have_the_stated_moments(name, scale):
    width, depth = 64, 8
    kernel = np.asarray(init(network(depth, width, initializer=name), hypers(init_scale=scale))["hidden_kernel"])
    expected, count = scale * STANDARD_DEVIATIONS[name](width), kernel.size
    # Five standard errors of a mean and of a standard deviation (kurtosis at most 3).
    assert abs(kernel.mean()) < 5 * expected / np.sqrt(count)
    assert abs(kernel.std() / expected - 1) < 5 / np.sqrt(2 * count)
    if name == "torch_uniform":
        assert np.abs(kernel).max() <= scale / np.sqrt(width)
    if name == "orthogonal":
        gram = kernel[0].T @ kernel[0] / scale**2
        np.testing.assert_allclose(gram, np.eye(width), atol=1e-5)


def test_init_scale_touches_only_the_hidden_matrices():
    one, other = (init(network(), hypers(init_scale=s)) for s in (1.0, 0.3))
    assert jnp.array_equal(one["input_kernel"], other["input_kernel"])
    assert jnp.array_equal(one["output_kernel"], other["output_kernel"])
    np.testing.assert_allclose(0.3 * one["hidden_kernel"], other["hidden_kernel"], rtol=1e-6)


def test_layers_differ_and_a_deeper_net_begins_with_the_same_ones():
    shallow, deep = (measured_kernels(init(network(depth), hypers()))["hidden"] for depth in (3, 5))
    assert jnp.array_equal(shallow, deep[:3])
    assert not jnp.array_equal(deep[0], deep[1])
