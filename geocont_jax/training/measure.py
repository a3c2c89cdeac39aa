"""What is recorded of a run at a point in time."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geocont_jax.geometry.continuity import adjacent_cosines, movement_ratio
from geocont_jax.geometry.spectra import leading_triplet
from geocont_jax.models import paper_orientation
from geocont_jax.training.loss import TrainingData, cross_entropy
from geocont_jax.training.program import Hypers, Program
from geocont_jax.training.state import RunState, mark_diverged

Record = dict[str, Array]


@dataclass(frozen=True)
class Field:
    """A recorded quantity: the axes it has beside (run, record), and what it is."""

    axes: tuple[str, ...]
    long_name: str
    dtype: type = np.float32


FAMILIES = {
    "weight": "weight W",
    "update": "update W - W0",
    "gradient": "gradient on the fixed evaluation batch",
    "cumulative_gradient": "running sum of the raw gradients",
}

QUANTITIES = {
    "v1_cosine": Field(("pair",), "|cos| of adjacent layers' leading right singular vectors of the {}"),
    "u1_cosine": Field(("pair",), "|cos| of adjacent layers' leading left singular vectors of the {}"),
    "gap": Field(("layer",), "relative spectral gap (s1 - s2) / s1 of the {}"),
    "defect": Field(("layer",), "why v1 and u1 of the {} mean nothing (0: they do)", np.int8),
}

FIELDS: dict[str, Field] = {
    f"{family}_{quantity}": Field(field.axes, field.long_name.format(described), field.dtype)
    for family, described in FAMILIES.items()
    for quantity, field in QUANTITIES.items()
} | {
    "train_loss": Field((), "cross-entropy on the fixed evaluation batch of training examples, nats"),
    "test_loss": Field((), "cross-entropy on the test set, nats"),
    "test_accuracy": Field((), "share of the test set classified right"),
    "update_ratio": Field((), "|W - W0|_F / |W0|_F, mean over layers"),
}


def measure(
    program: Program, hypers: Hypers, state: RunState, data: TrainingData, step: Array
) -> tuple[RunState, Record]:
    """Measure a run; return it, marked as diverged if this record shows it, and the record.

    A record holds every name in `FIELDS`, NaN (and the defect 0) throughout for a run that has diverged.
    """
    module = program.rolled_module
    (train_loss, _), gradients = jax.value_and_grad(
        lambda params: cross_entropy(module, params, hypers, data.x_eval, data.y_eval, data), has_aux=True
    )(state.params)
    test_loss, test_accuracy = cross_entropy(module, state.params, hypers, data.x_test, data.y_test, data)
    kernels = program.kind.measured_kernels
    weight, initial = kernels(state.params), state.initial
    update = jax.tree.map(jnp.subtract, weight, initial)
    ratios = jnp.concatenate(jax.tree.leaves(jax.tree.map(movement_ratio, update, initial)))
    record = geometry_record(
        weight=weight,
        update=update,
        gradient=kernels(gradients),
        cumulative_gradient=state.cumulative_gradient,
    ) | {
        "train_loss": train_loss,
        "test_loss": test_loss,
        "test_accuracy": test_accuracy,
        "update_ratio": jnp.mean(ratios),
    }
    finite = jnp.isfinite(train_loss) & jnp.all(jnp.isfinite(ratios))
    state = mark_diverged(state, step, finite)
    return state, _blank(record, state.diverged_at >= 0)


def geometry_record(**families: dict[str, Array]) -> Record:
    """Return v1 and u1 cosines, gaps and defects of each family of Flax kernels (layer, d_in, d_out).

    All families go through one stacked SVD. That is not for speed: on a CPU a batched LAPACK call blocks a
    thread of XLA's pool until its share is done, and with one such call at a time per device a pool larger
    than the number of devices can never be blocked whole (docs/architecture.md, "The LAPACK deadlock").
    """
    stacks = [paper_orientation(kernels)["hidden"] for kernels in families.values()]
    triplet = leading_triplet(jnp.stack(stacks))
    quantities = {
        "v1_cosine": adjacent_cosines(triplet.v1),
        "u1_cosine": adjacent_cosines(triplet.u1),
        "gap": triplet.gap,
        "defect": triplet.defect,
    }
    return {f"{family}_{name}": values[i] for i, family in enumerate(families) for name, values in quantities.items()}


def _blank(record: Record, diverged: Array) -> Record:
    def blank(value: Array) -> Array:
        return jnp.where(diverged, jnp.zeros_like(value) if value.dtype == jnp.int8 else jnp.nan, value)

    return jax.tree.map(blank, record)
