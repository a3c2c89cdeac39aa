"""What a run carries from step to step. Plain arrays only: a checkpoint of it needs no special care."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from geocont_jax.training.optimizers import build_optimizer
from geocont_jax.training.program import Hypers, Program, Purpose, run_key


class RunState(NamedTuple):
    """The state of one run.

    `initial` and `cumulative_gradient` hold, for the measured kernels only, W0 and the running sum of the raw
    gradients, (layer, d_in, d_out) by projection. `diverged_at` is the step at which a non-finite loss or
    weight was first seen, -1 while there is none.
    """

    params: Any
    opt_state: Any
    initial: dict[str, Array]
    cumulative_gradient: dict[str, Array]
    diverged_at: Array


def init_state(program: Program, hypers: Hypers) -> RunState:
    """Return the state of a run at step 0, a function of its hyperparameters and seed alone."""
    x = jnp.zeros((1, program.num_features), jnp.float32)
    params = program.rolled_module.init(run_key(hypers, Purpose.INIT), x, hypers)["params"]
    initial = program.kind.measured_kernels(params)
    return RunState(
        params=params,
        opt_state=build_optimizer(program.settings.training.optimizer, hypers).init(params),
        initial=initial,
        cumulative_gradient=jax.tree.map(jnp.zeros_like, initial),
        diverged_at=jnp.int32(-1),
    )


def mark_diverged(state: RunState, step: Array, finite: Array) -> RunState:
    """Note the first step at which something was not finite."""
    first = (state.diverged_at < 0) & ~finite
    return state._replace(diverged_at=jnp.where(first, step, state.diverged_at))
