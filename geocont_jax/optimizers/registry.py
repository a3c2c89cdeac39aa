"""Optimisers, built inside the trace from traced hyperparameters: one entry each in `OPTIMIZERS`.

Only their state is carried from step to step. Biases do not decay. 0 switches a term off exactly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from optax.contrib import MuonDimensionNumbers, scale_by_muon

Hypers = Mapping[str, Array]


@dataclass(frozen=True)
class Optimizer:
    """An optimiser: `direction(hypers)` turns gradients into the direction that `learning_rate` multiplies.

    Weight decay is an L2 term added to the gradient, or, where `decoupled`, taken off the weights themselves:
    `W <- W - learning_rate (direction + weight_decay W)`; both as in PyTorch. `equivariant` says whether the
    direction turns with the gradient, `direction(R G S) = R direction(G) S` for rotations R and S: only then has
    the training a rotation symmetry that the loss has.
    """

    direction: Callable[[Hypers], optax.GradientTransformation]
    description: str
    decoupled: bool = False
    equivariant: bool = False


def adam_direction(hypers: Hypers) -> optax.GradientTransformation:
    """Adam's direction with `beta1`, `beta2`; epsilon 1e-8."""
    return optax.scale_by_adam(hypers["beta1"], hypers["beta2"])


def momentum_direction(hypers: Hypers) -> optax.GradientTransformation:
    """Return gradient descent's direction with `momentum`: `m <- momentum m + g`."""
    return optax.trace(hypers["momentum"])


def sign_direction(hypers: Hypers) -> optax.GradientTransformation:
    """Return the sign of every entry of the momentum (of the gradient where `momentum` is 0)."""
    return optax.chain(optax.trace(hypers["momentum"]), optax.scale_by_sign())


def novograd_direction(hypers: Hypers) -> optax.GradientTransformation:
    """Return NovoGrad's direction with `beta1`, `beta2`: Adam with one second moment for a whole array.

    The stacked hidden matrices share theirs. Being a scalar, it commutes with rotations.
    """
    return optax.scale_by_novograd(hypers["beta1"], hypers["beta2"])


def muon_direction(hypers: Hypers) -> optax.GradientTransformation:
    """Return Muon's direction: the momentum with its singular values pushed to 1; biases follow the plain momentum.

    `momentum` is the average's decay (0.95 is usual). Newton-Schulz iterations are polynomials in G G^T times G, so
    that they turn with G.
    """
    kernels = scale_by_muon(
        beta=hypers["momentum"],
        weight_dimension_numbers=lambda tree: jax.tree.map(lambda _: MuonDimensionNumbers(-2, -1), tree),
    )
    return optax.partition({True: kernels, False: optax.trace(hypers["momentum"])}, _is_kernel)


OPTIMIZERS: dict[str, Optimizer] = {
    "adam": Optimizer(adam_direction, "Adam; weight decay as L2"),
    "adamw": Optimizer(adam_direction, "Adam with decoupled weight decay", decoupled=True),
    "sgd": Optimizer(momentum_direction, "gradient descent with momentum", equivariant=True),
    "sign": Optimizer(sign_direction, "sign descent: the sign of the momentum"),
    "novograd": Optimizer(novograd_direction, "Adam with one second moment an array", equivariant=True),
    "muon": Optimizer(muon_direction, "orthogonalised momentum", equivariant=True),
}


def build_optimizer(name: str, hypers: Hypers) -> optax.GradientTransformation:
    """Return the optimiser of that name but for decoupled decay, behind a clip of the gradient's global norm.

    Its updates are the steps that the optimiser makes of gradients, `-learning_rate` included.
    """
    optimizer = OPTIMIZERS[name]
    return optax.chain(
        clip_by_global_norm(hypers["grad_clip"]),
        optax.identity() if optimizer.decoupled else _add_decay(hypers),
        optimizer.direction(hypers),
        optax.scale_by_learning_rate(hypers["learning_rate"]),
    )


def decay_weights(name: str, hypers: Hypers, params: Any) -> Any:
    """Return the parameters after decoupled weight decay, `W (1 - learning_rate weight_decay)`, where there is any."""
    if not OPTIMIZERS[name].decoupled:
        return params
    shrinkage = hypers["learning_rate"] * hypers["weight_decay"]
    return jax.tree.map(lambda w, decays: w - shrinkage * w if decays else w, params, _is_kernel(params))


def clip_by_global_norm(max_norm: Array) -> optax.GradientTransformation:
    """Scale gradients longer than `max_norm` back to it; a traced 0 means no clipping, exactly.

    (optax's own transformation would turn a `max_norm` of 0 into zero gradients.)
    """

    def update(gradients: Any, state: optax.EmptyState, params: Any = None) -> tuple[Any, optax.EmptyState]:
        norm = optax.tree.norm(gradients)
        factor = jnp.where((max_norm > 0) & (norm > max_norm), max_norm / norm, 1.0)
        return jax.tree.map(lambda g: g * factor, gradients), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _add_decay(hypers: Hypers) -> optax.GradientTransformation:
    return optax.add_decayed_weights(hypers["weight_decay"], mask=_is_kernel)


def _is_kernel(params: Any) -> Any:
    # By name: biases of stacked layers have two axes, so their number of axes says nothing.
    return jax.tree_util.tree_map_with_path(lambda path, _: "bias" not in jax.tree_util.keystr(path), params)
