"""The training loss and what is reported of it."""

from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
import optax
from jax import Array

from geocont_jax.data.batches import standardise
from geocont_jax.training.program import Hypers


class TrainingData(NamedTuple):
    """The data a program takes as arguments, the same for all runs: arrays on the host or the devices, or shapes.

    Pixels (example, feature) as stored, uint8 or float32, labels (example,) int32. `x_eval`, `y_eval` are the
    fixed training examples on which gradients and the training loss are measured.
    """

    x_train: Any
    y_train: Any
    x_eval: Any
    y_eval: Any
    x_test: Any
    y_test: Any
    mean: Any
    std: Any


def preactivation_norms(module: nn.Module, params: Any, hypers: Hypers, pixels: Array, data: TrainingData) -> Array:
    """Return the mean length (layer,) of what each layer's activation gets, `|W norm(h)|`, over raw pixels."""
    x = standardise(pixels, data.mean, data.std)
    return module.apply({"params": params}, x, hypers, method="preactivation_norms")


def cross_entropy(
    module: nn.Module, params: Any, hypers: Hypers, pixels: Array, labels: Array, data: TrainingData
) -> tuple[Array, Array]:
    """Return the mean cross-entropy in nats and the accuracy of a batch of raw pixels (example, feature)."""
    x = standardise(pixels, data.mean, data.std)
    logits = module.apply({"params": params}, x, hypers)
    loss = jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))
    return loss, jnp.mean(jnp.argmax(logits, axis=-1) == labels)
