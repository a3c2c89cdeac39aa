"""A run from one step to another: two nested loops, epochs and the steps of each.

Loop bounds are traced, so that no schedule of records, checkpoints or progress reports compiles anything.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from geocont_jax.data.batches import batch_indices, epoch_order
from geocont_jax.optimizers.registry import build_optimizer, decay_weights
from geocont_jax.training.loss import TrainingData, cross_entropy
from geocont_jax.training.measure import Record, measure
from geocont_jax.training.program import Hypers, Program, Purpose, run_key
from geocont_jax.training.state import Kernels, RunState, Traces, init_state, mark_diverged


def advance(
    program: Program,
    hypers: Hypers,
    state: RunState,
    data: TrainingData,
    start: Array,
    stop: Array,
    is_record: Array,
) -> tuple[RunState, Record]:
    """Train a run from step `start` to step `stop`, then measure it if `is_record`.

    At step 0 a run *is* its initial state, so with `start == 0` the given state is replaced by it. Where
    `is_record` is false the record is zeros. The three must not be batched under vmap: as scalars they make
    real branches, and a record costs nothing where there is none.
    """
    state = lax.cond(start == 0, lambda: init_state(program, hypers), lambda: state)
    state = train_steps(program, hypers, state, data, start, stop)

    def measured(state: RunState) -> tuple[RunState, Record]:
        return measure(program, hypers, state, data, stop)

    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(measured, state)[1])
    return lax.cond(is_record, measured, lambda state: (state, blank), state)


def train(program: Program, hypers: Hypers, data: TrainingData) -> Record:
    """Run a whole training; return its records, each with a leading axis (record,).

    A pure function of its arguments: the engine does the same through `advance`, with pauses to save.
    """
    steps = jnp.array(program.record_steps)

    def to_record(state: RunState, bounds: tuple[Array, Array]) -> tuple[RunState, Record]:
        return advance(program, hypers, state, data, *bounds, jnp.bool_(True))

    starts = jnp.concatenate([jnp.zeros(1, steps.dtype), steps[:-1]])
    return lax.scan(to_record, init_state(program, hypers), (starts, steps))[1]


def train_steps(
    program: Program, hypers: Hypers, state: RunState, data: TrainingData, start: Array, stop: Array
) -> RunState:
    """Take the steps `start`, ..., `stop - 1`, epoch by epoch, each epoch in its own shuffled order."""
    per_epoch, batch_size = program.steps_per_epoch, program.settings.data.batch_size
    key = run_key(hypers, Purpose.BATCHES)

    def train_epoch(epoch: Array, state: RunState) -> RunState:
        order = epoch_order(key, epoch, program.num_train)

        def one_step(step: Array, state: RunState) -> RunState:
            indices = batch_indices(order, step - epoch * per_epoch, batch_size)
            return train_step(program, hypers, state, data, indices, step)

        first = jnp.maximum(start, epoch * per_epoch)
        return lax.fori_loop(first, jnp.minimum(stop, (epoch + 1) * per_epoch), one_step, state)

    return lax.fori_loop(start // per_epoch, (stop + per_epoch - 1) // per_epoch, train_epoch, state)


def train_step(
    program: Program, hypers: Hypers, state: RunState, data: TrainingData, indices: Array, step: Array
) -> RunState:
    """Take one step on the training examples `indices` (example,)."""
    pixels, labels = data.x_train[indices], data.y_train[indices]
    (loss, _), gradients = jax.value_and_grad(
        lambda params: cross_entropy(program.module, params, hypers, pixels, labels, data), has_aux=True
    )(state.params)
    name = program.settings.training.optimizer
    steps, opt_state = build_optimizer(name, hypers).update(gradients, state.opt_state, state.params)
    moved = state._replace(
        params=optax.apply_updates(decay_weights(name, hypers, state.params), steps),
        opt_state=opt_state,
        traces=_remember(program, state.traces, gradients, steps),
    )
    return mark_diverged(moved, step, jnp.isfinite(loss))


def _remember(program: Program, traces: Traces, gradients: Any, steps: Any) -> Traces:
    kernels = program.kind.measured_kernels

    def add(total: Kernels, new: Any) -> Kernels:
        return jax.tree.map(jnp.add, total, kernels(new))

    taken = traces.cumulative_step
    return traces._replace(
        recent_gradient=add(traces.recent_gradient, gradients),
        cumulative_step=None if taken is None else add(taken, steps),
    )
