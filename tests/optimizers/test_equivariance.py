"""Which optimisers turn with the gradient: only under those has training the rotation symmetry that a loss has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geocont_jax.optimizers.registry import OPTIMIZERS, build_optimizer

SHAPE = (3, 6, 6)
HYPERS = {
    name: jnp.float32(value)
    for name, value in {
        "learning_rate": 0.1,
        "beta1": 0.9,
        "beta2": 0.99,
        "momentum": 0.9,
        "weight_decay": 0.1,
        "grad_clip": 1.0,
    }.items()
}


def rotation(seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=SHAPE[1:]))[0]


def steps(name, turn):
    """Take three steps on given gradients, of parameters and gradients that `turn` has turned."""
    rng = np.random.default_rng(0)
    params = {"hidden_kernel": jnp.asarray(turn(rng.normal(size=SHAPE)), jnp.float32)}
    optimizer = build_optimizer(name, HYPERS)
    state, update = optimizer.init(params), jax.jit(optimizer.update)
    for _ in range(3):
        gradients = {"hidden_kernel": jnp.asarray(turn(rng.normal(size=SHAPE)), jnp.float32)}
        step, state = update(gradients, state, params)
        params = jax.tree.map(jnp.add, params, step)
    return np.asarray(params["hidden_kernel"], np.float64)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimiser_turns_with_rotations_or_does_not_as_its_entry_says(name):
    left, right = rotation(1), rotation(2)
    turned = steps(name, lambda matrices: left @ matrices @ right)
    expected = left @ steps(name, lambda matrices: matrices) @ right
    difference = np.abs(turned - expected).max() / np.abs(expected).max()
    # float32 rounding of entries of order 1, which Muon's five polynomials of slope 3.4 can make 500 times larger.
    assert difference < 1e-4 if OPTIMIZERS[name].equivariant else difference > 1e-2
