"""What a run carries from step to step. Plain arrays only: a checkpoint of it needs no special care."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from geocont_jax.geometry.leading import block_size, fresh_directions
from geocont_jax.optimizers.registry import OPTIMIZERS, build_optimizer
from geocont_jax.training.families import Kernels, families_of
from geocont_jax.training.program import Hypers, Program, Purpose, run_key

LEADING = 1  # triplets that the fast solver finds: what is recorded with it follows from the first


class Traces(NamedTuple):
    """What is remembered of a run's past, for the measured kernels only.

    `initial` is W0, `cumulative_gradient` the sum of the raw gradients up to the previous record, which was at
    step `recorded_at`, and `recent_gradient` the sum since then. Where all families are measured, `previous` is W at
    the previous record, and where weights decay apart from the optimiser's steps, too, `cumulative_step` is the sum
    of those steps (else it is W - W0); None where not needed. `reference` holds the weights' v1 and u1, (layer, d),
    at the reference record of the drift, NaN before it. `bases` (family, layer, block, d) are where the fast solver
    starts from, for each family of matrices that is decomposed; None where whole spectra are found.
    """

    initial: Kernels
    cumulative_gradient: Kernels
    recent_gradient: Kernels
    recorded_at: Array
    previous: Kernels | None
    cumulative_step: Kernels | None
    reference: dict[str, Array]
    bases: Array | None


class RunState(NamedTuple):
    """The state of one run.

    `diverged_at` is the step at which a non-finite loss or weight was first seen, -1 while there is none.
    """

    params: Any
    opt_state: Any
    traces: Traces
    diverged_at: Array


def init_state(program: Program, hypers: Hypers) -> RunState:
    """Return the state of a run at step 0, a function of its hyperparameters and seed alone."""
    x = jnp.zeros((1, program.num_features), jnp.float32)
    params = program.rolled_module.init(run_key(hypers, Purpose.INIT), x, hypers)["params"]
    return RunState(
        params=params,
        opt_state=build_optimizer(program.settings.training.optimizer, hypers).init(params),
        traces=_init_traces(program, program.kind.measured_kernels(params)),
        diverged_at=jnp.int32(-1),
    )


def _init_traces(program: Program, initial: Kernels) -> Traces:
    nothing = jax.tree.map(jnp.zeros_like, initial)
    (kernel,) = initial.values()
    layer, d_in, d_out = kernel.shape
    has_own_decay = OPTIMIZERS[program.settings.training.optimizer].decoupled
    return Traces(
        initial=initial,
        cumulative_gradient=nothing,
        recent_gradient=nothing,
        recorded_at=jnp.int32(0),
        previous=initial if program.measures_all else None,
        cumulative_step=nothing if program.measures_all and has_own_decay else None,
        bases=None if program.settings.measure.finds_spectra else _first_bases(program, jnp.swapaxes(kernel, -1, -2)),
        reference={"v1": jnp.full((layer, d_in), jnp.nan), "u1": jnp.full((layer, d_out), jnp.nan)},
    )


def _first_bases(program: Program, matrices: Array) -> Array:
    """Return where each family starts from: rows of the initial matrices (layer, d_out, d_in), each layer its own."""
    first = fresh_directions(matrices, block_size(LEADING, min(matrices.shape[-2:])))
    return jnp.broadcast_to(first, (len(families_of(program.settings.measure.families)), *first.shape))


def mark_diverged(state: RunState, step: Array, finite: Array) -> RunState:
    """Note the first step at which something was not finite."""
    first = (state.diverged_at < 0) & ~finite
    return state._replace(diverged_at=jnp.where(first, step, state.diverged_at))
