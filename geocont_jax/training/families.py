"""The families of matrices that are measured of a run: one entry each in `FAMILIES`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

if TYPE_CHECKING:
    from geocont_jax.training.state import Traces

Kernels = dict[str, Array]
"""Measured kernels (layer, d_in, d_out) by projection."""


class Moment(NamedTuple):
    """A run at a record: its weights, W - W0 and gradient, the traces of its past, and the step."""

    weight: Kernels
    update: Kernels
    gradient: Kernels
    traces: "Traces"
    step: Array


@dataclass(frozen=True)
class Family:
    """A family of matrices to measure; those that are not `basic` only where the grid asks for all."""

    description: str
    kernels: Callable[[Moment], Kernels]
    basic: bool = False


def difference(a: Kernels, b: Kernels) -> Kernels:
    """Return `a - b`, kernel by kernel."""
    return jax.tree.map(jnp.subtract, a, b)


def total_gradient(traces: "Traces") -> Kernels:
    """Return the sum of all raw gradients so far."""
    return jax.tree.map(jnp.add, traces.cumulative_gradient, traces.recent_gradient)


def _mean_gradient(now: Moment) -> Kernels:
    steps = jnp.maximum(now.step - now.traces.recorded_at, 1).astype(jnp.float32)
    return jax.tree.map(lambda g: g / steps, now.traces.recent_gradient)


def _cumulative_step(now: Moment) -> Kernels:
    return now.update if now.traces.cumulative_step is None else now.traces.cumulative_step


FAMILIES: dict[str, Family] = {
    "weight": Family("weight W", lambda now: now.weight, basic=True),
    "update": Family("update W - W0", lambda now: now.update, basic=True),
    "gradient": Family("gradient on the fixed evaluation batch", lambda now: now.gradient, basic=True),
    "cumulative_gradient": Family(
        "running sum of the raw gradients", lambda now: total_gradient(now.traces), basic=True
    ),
    "mean_gradient": Family("mean of the raw gradients since the previous record", _mean_gradient),
    "cumulative_step": Family("running sum of the optimiser's steps without decoupled weight decay", _cumulative_step),
    "recent_update": Family(
        "update W - W at the previous record",
        lambda now: difference(now.weight, now.traces.previous),  # type: ignore[arg-type]
    ),
}
"""Every family by its name in the records, in front of the quantity's: `weight_v1_cosine`."""


def families_of(choice: str) -> dict[str, Family]:
    """Return the families that `measure.families` stands for."""
    return {name: family for name, family in FAMILIES.items() if family.basic or choice == "all"}
