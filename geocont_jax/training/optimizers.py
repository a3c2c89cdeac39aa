"""Optimisers, built inside the trace from traced hyperparameters: one entry each in `OPTIMIZERS`.

Only their state is carried from step to step. In `adam` and `sgd` weight decay is an L2 term added to the
gradient, in `adamw` it is decoupled, all as in PyTorch; biases do not decay. 0 switches a term off exactly.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

Hypers = Mapping[str, Array]


def adam(hypers: Hypers) -> optax.GradientTransformation:
    """Adam with hyperparameters `beta1`, `beta2`, `weight_decay` (L2), `learning_rate`; epsilon 1e-8."""
    return optax.chain(
        _decay(hypers),
        optax.scale_by_adam(hypers["beta1"], hypers["beta2"]),
        optax.scale_by_learning_rate(hypers["learning_rate"]),
    )


def adamw(hypers: Hypers) -> optax.GradientTransformation:
    """Adam with decoupled weight decay: `W <- W - learning_rate (direction + weight_decay W)`."""
    return optax.chain(
        optax.scale_by_adam(hypers["beta1"], hypers["beta2"]),
        _decay(hypers),
        optax.scale_by_learning_rate(hypers["learning_rate"]),
    )


def sgd(hypers: Hypers) -> optax.GradientTransformation:
    """Gradient descent with `momentum`: `m <- momentum m + g`, `W <- W - learning_rate m`."""
    return optax.chain(
        _decay(hypers),
        optax.trace(hypers["momentum"]),
        optax.scale_by_learning_rate(hypers["learning_rate"]),
    )


OPTIMIZERS: dict[str, Callable[[Hypers], optax.GradientTransformation]] = {
    "adam": adam,
    "adamw": adamw,
    "sgd": sgd,
}


def build_optimizer(name: str, hypers: Hypers) -> optax.GradientTransformation:
    """Return the optimiser of that family behind a clip of the gradient's global norm at `grad_clip`."""
    return optax.chain(clip_by_global_norm(hypers["grad_clip"]), OPTIMIZERS[name](hypers))


def clip_by_global_norm(max_norm: Array) -> optax.GradientTransformation:
    """Scale gradients longer than `max_norm` back to it; a traced 0 means no clipping, exactly.

    (optax's own transformation would turn a `max_norm` of 0 into zero gradients.)
    """

    def update(gradients: Any, state: optax.EmptyState, params: Any = None) -> tuple[Any, optax.EmptyState]:
        norm = optax.tree.norm(gradients)
        factor = jnp.where((max_norm > 0) & (norm > max_norm), max_norm / norm, 1.0)
        return jax.tree.map(lambda g: g * factor, gradients), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _decay(hypers: Hypers) -> optax.GradientTransformation:
    return optax.add_decayed_weights(hypers["weight_decay"], mask=_is_kernel)


def _is_kernel(params: Any) -> Any:
    # By name: biases of stacked layers have two axes, so their number of axes says nothing.
    return jax.tree_util.tree_map_with_path(lambda path, _: "bias" not in jax.tree_util.keystr(path), params)
