"""Every activation and norm, by one list: values, derivatives, and the switch between them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

from geocont_jax.models.activations import ACTIVATIONS
from geocont_jax.models.branches import apply_branch
from geocont_jax.models.norms import EPSILON, NORMS

ORACLES = {
    "relu": lambda x, c: np.maximum(x, 0),
    "gelu": lambda x, c: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "silu": lambda x, c: x / (1 + np.exp(-x)),
    "tanh": lambda x, c: np.tanh(x),
    "leaky_relu": lambda x, c: np.where(x > 0, x, 0.01 * x),
    "identity": lambda x, c: x,
    "radial": lambda x, c: x * np.tanh(np.linalg.norm(x, axis=-1, keepdims=True) / c),
    "none": lambda x, c: x,
    "layernorm": lambda x, c: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + c),
    "rmsnorm": lambda x, c: x / np.sqrt((x**2).mean(-1, keepdims=True) + c),
}
CASES = [(name, fn, 2.0) for name, fn in ACTIVATIONS.items()] + [(name, fn, EPSILON) for name, fn in NORMS.items()]


@pytest.mark.parametrize(("name", "fn", "parameter"), CASES)
def test_value_agrees_with_float64(name, fn, parameter):
    x = np.random.default_rng(0).normal(size=(5, 7))
    np.testing.assert_allclose(fn(jnp.asarray(x, jnp.float32), parameter), ORACLES[name](x, parameter), atol=2e-6)


@pytest.mark.parametrize(("name", "fn", "parameter"), CASES)
def test_derivative_is_finite_everywhere_and_right(name, fn, parameter):
    def scalar(x):
        return jnp.sum(jnp.sin(fn(x, jnp.float32(parameter))))

    for x in (jnp.zeros((2, 4)), jnp.full((2, 4), -1e-20), jnp.full((2, 4), 1e4)):
        assert jnp.isfinite(jax.grad(scalar)(x)).all()
    x = np.random.default_rng(1).normal(size=(2, 4))
    gradient, step = jax.grad(scalar)(jnp.asarray(x, jnp.float32)), 1e-6
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        difference = sum(s * np.sum(np.sin(ORACLES[name](y, parameter))) for s, y in ((1, up), (-1, down)))
        np.testing.assert_allclose(gradient[i], difference / (2 * step), atol=2e-4)


@pytest.mark.parametrize("table", [ACTIVATIONS, NORMS])
def test_the_switch_chooses_value_and_derivative_by_index(table):
    branches = tuple(table.values())
    x = jax.random.normal(jax.random.key(0), (3, 5))
    weights = jnp.arange(15.0).reshape(3, 5)
    for index, fn in enumerate(branches):

        def through(f, x=x):
            return jax.value_and_grad(lambda x: jnp.sum(weights * f(x)))(x)

        chosen = jax.jit(lambda i: through(lambda x: apply_branch(branches, i, x, jnp.float32(0.7))))(index)
        direct = through(lambda x, fn=fn: fn(x, jnp.float32(0.7)))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), chosen, direct)


def test_radial_and_rmsnorm_are_rotation_equivariant_and_relu_is_not():
    rng = np.random.default_rng(3)
    rotation = jnp.asarray(np.linalg.qr(rng.normal(size=(6, 6)))[0], jnp.float32)
    x = jnp.asarray(rng.normal(size=(4, 6)), jnp.float32)

    def deviation(fn):
        return float(jnp.max(jnp.abs(fn(x @ rotation, 1.5) - fn(x, 1.5) @ rotation)))

    assert deviation(ACTIVATIONS["radial"]) < 1e-5
    assert deviation(NORMS["rmsnorm"]) < 1e-5
    assert deviation(ACTIVATIONS["relu"]) > 0.1
    assert deviation(NORMS["layernorm"]) > 0.01


def test_radial_saturates_to_the_identity_where_the_norm_is_large():
    x = jnp.asarray(np.random.default_rng(4).normal(size=(3, 256)), jnp.float32)
    assert jnp.array_equal(ACTIVATIONS["radial"](x, 1.0), x)
