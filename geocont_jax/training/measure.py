"""What is recorded of a run at a point in time."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from geocont_jax.experiment.sections import MeasureSection
from geocont_jax.geometry.continuity import movement_ratio, rotation_angle
from geocont_jax.geometry.leading import fresh_directions, leading_triplets, renewed
from geocont_jax.geometry.quantities import Layers, blank_broken, decompose_layers, measure_layers, quantities_of
from geocont_jax.geometry.spectra import leading_residual
from geocont_jax.models import paper_orientation
from geocont_jax.training.families import Kernels, Moment, difference, families_of, total_gradient
from geocont_jax.training.loss import TrainingData, cross_entropy, preactivation_norms
from geocont_jax.training.program import Hypers, Program
from geocont_jax.training.state import LEADING, RunState, Traces, mark_diverged

Record = dict[str, Array]


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

OF_LEADING: dict[str, Field] = {
    "svd_residual": Field(
        ("record",), "largest residual |W v1 - s1 u1| / s1 or |W^T u1 - s1 v1| / s1 of all measured matrices"
    ),
    "svd_repeated": Field(("record",), "measured matrices whose leading vectors needed an exact SVD"),
}
"""What is recorded where only leading singular vectors are looked for: how well they were found."""


def triplets_of(section: MeasureSection) -> float:
    """Return how many singular triplets of each matrix are found."""
    return math.inf if section.finds_spectra else LEADING + 1


def fields_of(section: MeasureSection) -> dict[str, Field]:
    """Return every recorded variable by name, for a `measure` section of a grid."""
    return {
        f"{family}_{name}": Field(
            quantity.axes if quantity.latest_only else ("record", *quantity.axes),
            f"{quantity.description}, of the {described.description}",
            quantity.dtype,
            quantity.null,
            quantity.k,
        )
        for family, described in families_of(section.families).items()
        for name, quantity in quantities_of(triplets_of(section)).items()
    } | (OF_RUN if section.finds_spectra else OF_RUN | OF_LEADING)


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
    now = Moment(weights, difference(weights, state.traces.initial), kernels(gradients), state.traces, step)
    geometry, weight, bases = _geometry(program, now)
    ratios = _movement(now)
    traces = _close_interval(program, now, weight)._replace(bases=bases)
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


def _geometry(program: Program, now: Moment) -> tuple[Record, Layers, Array | None]:
    """Return every quantity of every family, the layers of the weight, and where to start from the next time.

    All families go through one stacked decomposition, so that what measures them is compiled once.
    """
    kernels = {name: family.kernels(now) for name, family in families_of(program.settings.measure.families).items()}
    # Families that are the same matrices are decomposed once: the cumulative step is most often the update.
    distinct = {id(of_family): of_family for of_family in kernels.values()}
    place = {key: i for i, key in enumerate(distinct)}
    stack = jnp.stack([_hidden(of_family) for of_family in distinct.values()])
    layers, bases, how_well = _decompose(program, stack, now.traces)
    quantities = measure_layers(layers, triplets_of(program.settings.measure))
    record = {
        f"{family}_{name}": values[place[id(of_family)]]
        for family, of_family in kernels.items()
        for name, values in quantities.items()
    }
    return record | how_well, jax.tree.map(lambda values: values[place[id(now.weight)]], layers), bases


def _decompose(program: Program, stack: Array, traces: Traces) -> tuple[Layers, Array | None, Record]:
    """Return a stack (family, layer, d_out, d_in) with its spectrum, the next bases, and how well it was found."""
    bases, repeated = traces.bases, jnp.int32(0)
    if bases is not None and program.solver == "fast":
        fresh = fresh_directions(_hidden(traces.initial), bases.shape[-2])
        starts = renewed(bases[: len(stack)], jnp.broadcast_to(fresh, bases[: len(stack)].shape))
        found = leading_triplets(stack, starts, LEADING)
        bases, repeated = bases.at[: len(stack)].set(found.basis), jnp.sum(found.repeated)
        layers, residual = Layers(blank_broken(stack), found.spectrum), found.residual
    else:
        layers = decompose_layers(stack, "gram" if program.solver == "gram" else "exact")
        residual = leading_residual(*layers)
    if program.settings.measure.finds_spectra:
        return layers, bases, {}
    return layers, bases, {"svd_residual": jnp.nanmax(residual), "svd_repeated": repeated.astype(jnp.float32)}


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
        cumulative_gradient=total_gradient(traces),
        recent_gradient=jax.tree.map(jnp.zeros_like, traces.recent_gradient),
        recorded_at=now.step,
        previous=now.weight if program.measures_all else None,
        reference=jax.tree.map(lambda new, old: jnp.where(is_reference, new, old), found, traces.reference),
    )


def _blank(record: Record, diverged: Array) -> Record:
    def blank(value: Array) -> Array:
        return jnp.where(diverged, jnp.zeros_like(value) if value.dtype == jnp.int8 else jnp.nan, value)

    return jax.tree.map(blank, record)
