"""What is recorded of a run at a point in time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geocont_jax.geometry.continuity import movement_ratio, rotation_angle
from geocont_jax.geometry.quantities import QUANTITIES, Layers, decompose_layers, measure_layers
from geocont_jax.models import paper_orientation
from geocont_jax.training.loss import TrainingData, cross_entropy, preactivation_norms
from geocont_jax.training.program import Hypers, Program
from geocont_jax.training.state import Kernels, RunState, Traces, mark_diverged

Record = dict[str, Array]


class Moment(NamedTuple):
    """A run at a record: its weights, W - W0 and gradient, the traces of its past, and the step."""

    weight: Kernels
    update: Kernels
    gradient: Kernels
    traces: Traces
    step: Array


@dataclass(frozen=True)
class Family:
    """A family of matrices to measure; those that are not `basic` only where the grid asks for all."""

    description: str
    kernels: Callable[[Moment], Kernels]
    basic: bool = False


def _minus(a: Kernels, b: Kernels) -> Kernels:
    return jax.tree.map(jnp.subtract, a, b)


def _total_gradient(traces: Traces) -> Kernels:
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
        "running sum of the raw gradients", lambda now: _total_gradient(now.traces), basic=True
    ),
    "mean_gradient": Family("mean of the raw gradients since the previous record", _mean_gradient),
    "cumulative_step": Family("running sum of the optimiser's steps without decoupled weight decay", _cumulative_step),
    "recent_update": Family(
        "update W - W at the previous record",
        lambda now: _minus(now.weight, now.traces.previous),  # type: ignore[arg-type]
    ),
}
"""Every family by its name in the records, in front of the quantity's: `weight_v1_cosine`."""


@dataclass(frozen=True)
class Field:
    """A recorded variable: the axes it has beside run, what it is, and its null distribution, if it has one."""

    axes: tuple[str, ...]
    long_name: str
    dtype: type = np.float32
    null: str | None = None
    k: int | None = None


OF_RUN: dict[str, Field] = {
    "train_loss": Field(("record",), "cross-entropy on the fixed evaluation batch of training examples, nats"),
    "test_loss": Field(("record",), "cross-entropy on the test set, nats"),
    "test_accuracy": Field(("record",), "share of the test set classified right"),
    "update_ratio": Field(("record",), "|W - W0|_F / |W0|_F, mean over layers"),
    "coherence_gap": Field(("record", "pair"), "Delta_GW: |cos| of v1 of the cumulative gradient minus of the weight"),
    "weight_v1_drift": Field(("record", "layer"), "angle of the weight's v1 to that at the reference record, degrees"),
    "weight_u1_drift": Field(("record", "layer"), "angle of the weight's u1 to that at the reference record, degrees"),
    "preactivation_norm": Field(("record", "layer"), "mean length of what the activation gets, |W norm(h)|"),
}  # fmt: skip
"""What is recorded beside the quantities of the families."""


def families_of(choice: str) -> dict[str, Family]:
    """Return the families that `measure.families` stands for."""
    return {name: family for name, family in FAMILIES.items() if family.basic or choice == "all"}


def fields_of(choice: str) -> dict[str, Field]:
    """Return every recorded variable by name, for a choice of `measure.families`."""
    return {
        f"{family}_{name}": Field(
            quantity.axes if quantity.latest_only else ("record", *quantity.axes),
            f"{quantity.description}, of the {described.description}",
            quantity.dtype,
            quantity.null,
            quantity.k,
        )
        for family, described in families_of(choice).items()
        for name, quantity in QUANTITIES.items()
    } | OF_RUN


def measure(
    program: Program, hypers: Hypers, state: RunState, data: TrainingData, step: Array
) -> tuple[RunState, Record]:
    """Measure a run; return it, with its traces brought up to this record, and the record.

    A record holds every name of `fields_of`, NaN (and the defect 0) throughout for a run that has diverged. The
    run is marked as diverged if this record shows it.
    """
    module = program.rolled_module
    (train_loss, _), gradients = jax.value_and_grad(
        lambda params: cross_entropy(module, params, hypers, data.x_eval, data.y_eval, data), has_aux=True
    )(state.params)
    test_loss, test_accuracy = cross_entropy(module, state.params, hypers, data.x_test, data.y_test, data)
    kernels = program.kind.measured_kernels
    weights = kernels(state.params)
    now = Moment(weights, _minus(weights, state.traces.initial), kernels(gradients), state.traces, step)
    geometry, weight = _geometry(program, now)
    ratios = _movement(now)
    traces = _close_interval(program, now, weight)
    record = geometry | {
        "train_loss": train_loss,
        "test_loss": test_loss,
        "test_accuracy": test_accuracy,
        "update_ratio": jnp.mean(ratios),
        "coherence_gap": geometry["cumulative_gradient_v1_cosine"] - geometry["weight_v1_cosine"],
        "weight_v1_drift": rotation_angle(weight.spectrum.v1, traces.reference["v1"]),
        "weight_u1_drift": rotation_angle(weight.spectrum.u1, traces.reference["u1"]),
        "preactivation_norm": preactivation_norms(module, state.params, hypers, data.x_eval, data),
    }
    finite = jnp.isfinite(train_loss) & jnp.all(jnp.isfinite(ratios))
    state = mark_diverged(state._replace(traces=traces), step, finite)
    return state, _blank(record, state.diverged_at >= 0)


def _geometry(program: Program, now: Moment) -> tuple[Record, Layers]:
    """Return every quantity of every family, and the layers of the weight.

    All families go through one stacked SVD. That is not for speed: on a CPU a batched LAPACK call blocks a
    thread of XLA's pool until its share is done, and with one such call at a time per device a pool larger
    than the number of devices can never be blocked whole (docs/architecture.md, "The LAPACK deadlock").
    """
    kernels = {name: family.kernels(now) for name, family in families_of(program.settings.measure.families).items()}
    # Families that are the same matrices are decomposed once: the cumulative step is most often the update.
    distinct = {id(of_family): of_family for of_family in kernels.values()}
    place = {key: i for i, key in enumerate(distinct)}
    layers = decompose_layers(jnp.stack([_hidden(of_family) for of_family in distinct.values()]))
    quantities = measure_layers(layers)
    record = {
        f"{family}_{name}": values[place[id(of_family)]]
        for family, of_family in kernels.items()
        for name, values in quantities.items()
    }
    return record, jax.tree.map(lambda values: values[place[id(now.weight)]], layers)


def _hidden(kernels: Kernels) -> Array:
    return paper_orientation(kernels)["hidden"]


def _movement(now: Moment) -> Array:
    """Return `|W - W0|_F / |W0|_F` of every layer (layer,)."""
    ratios = jax.tree.map(movement_ratio, now.update, now.traces.initial)
    return jnp.concatenate(jax.tree.leaves(ratios))


def _close_interval(program: Program, now: Moment, weight: Layers) -> Traces:
    """Return the traces as they begin the interval after this record."""
    traces, reference_step = now.traces, program.reference_step
    is_reference = (now.step >= reference_step) & (traces.recorded_at < reference_step)
    found = {"v1": weight.spectrum.v1, "u1": weight.spectrum.u1}
    return traces._replace(
        cumulative_gradient=_total_gradient(traces),
        recent_gradient=jax.tree.map(jnp.zeros_like, traces.recent_gradient),
        recorded_at=now.step,
        previous=now.weight if program.measures_all else None,
        reference=jax.tree.map(lambda new, old: jnp.where(is_reference, new, old), found, traces.reference),
    )


def _blank(record: Record, diverged: Array) -> Record:
    def blank(value: Array) -> Array:
        return jnp.where(diverged, jnp.zeros_like(value) if value.dtype == jnp.int8 else jnp.nan, value)

    return jax.tree.map(blank, record)
