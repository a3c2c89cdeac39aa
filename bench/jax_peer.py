"""The plain JAX peer: run after run, the steps between two records as one jitted scan. A process of its own."""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax

from bench.contender import FAMILIES, batches, examples, serve

Weights = dict[str, Array]
ADAM = optax.adam(1e-3)


def init(key: Array, network: Mapping[str, int]) -> Weights:
    """Draw the weights from U(+-1/sqrt(d_in))."""
    width = network["width"]
    shapes = {
        "input": (network["features"], width),
        "hidden": (network["depth"], width, width),
        "output": (width, network["classes"]),
    }
    keys = jax.random.split(key, len(shapes))
    return {
        name: jax.random.uniform(key, shape, jnp.float32, -(shape[-2] ** -0.5), shape[-2] ** -0.5)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def loss_of(weights: Weights, x: Array, y: Array) -> Array:
    """Return the mean cross-entropy."""
    h = lax.scan(lambda h, w: (h + jax.nn.relu(h @ w), None), x @ weights["input"], weights["hidden"])[0]
    return optax.softmax_cross_entropy_with_integer_labels(h @ weights["output"], y).mean()


@partial(jax.jit, static_argnames="with_history", donate_argnums=0)
def train(state: Any, x: Array, y: Array, indices: Array, with_history: bool) -> Any:
    """Take a step for each row of `indices` (step, example)."""

    def step(state: Any, chosen: Array) -> tuple[Any, None]:
        weights, opt_state, cumulative = state
        gradients = jax.grad(loss_of)(weights, x[chosen], y[chosen])
        updates, opt_state = ADAM.update(gradients, opt_state)
        summed = cumulative + gradients["hidden"] if with_history else cumulative
        return (optax.apply_updates(weights, updates), opt_state, summed), None

    return lax.scan(step, state, indices)[0]


@jax.jit
def measure(weights: Weights, initial: Array, cumulative: Array, x: Array, y: Array) -> dict[str, Array]:
    """Return continuity (pair,) of the four families and the loss."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    families = jnp.stack([weights["hidden"], weights["hidden"] - initial, gradients["hidden"], cumulative])
    left, _, right = jnp.linalg.svd(families, full_matrices=False)
    # Kernels are (in, out), so the input space is on the left.
    sides = {"v1": left[..., 0], "u1": right[..., 0, :]}
    cosines = {side: jnp.abs((v[:, 1:] * v[:, :-1]).sum(-1)) for side, v in sides.items()}
    return {f"{family}_{side}": values[i] for side, values in cosines.items() for i, family in enumerate(FAMILIES)} | {
        "train_loss": loss
    }


class Sequential:
    """One run after another."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.network = asked["network"]
        self.data = jax.device_put({name: _int32(values) for name, values in examples().items()})

    def begin(self, seeds: Sequence[int]) -> None:
        """Start anew with one seed."""
        (seed,) = seeds
        weights = init(jax.random.key(seed), self.network)
        self.initial = jnp.copy(weights["hidden"])
        self.state = weights, ADAM.init(weights), jnp.zeros_like(self.initial)
        rng, count = np.random.default_rng(seed), len(self.data["x_train"])
        self.indices = batches(lambda: rng.permutation(count), count, self.network["batch_size"])

    def train(self, steps: int, with_history: bool) -> None:
        """Take so many steps; another number of them is compiled anew."""
        indices = np.stack(list(itertools.islice(self.indices, steps)))
        self.state = train(self.state, self.data["x_train"], self.data["y_train"], indices, with_history)
        jax.block_until_ready(self.state)

    def measure(self) -> dict[str, np.ndarray]:
        """Return continuity of the four families and the loss."""
        weights, _, cumulative = self.state
        found = measure(weights, self.initial, cumulative, self.data["x_eval"], self.data["y_eval"])
        return {name: np.asarray(values)[None] for name, values in found.items()}


def _int32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int32) if values.dtype == np.int64 else values


if __name__ == "__main__":
    serve(Sequential)
