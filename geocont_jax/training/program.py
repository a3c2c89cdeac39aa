"""The static half of a run: everything that changes the compiled program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal

import flax.linen as nn
import jax
import numpy as np
from jax import Array

from geocont_jax.data.batches import steps_per_epoch
from geocont_jax.experiment.settings import BRANCHES, TRACED, Settings
from geocont_jax.models import MODELS, ModelKind

Hypers = Mapping[str, Array]
"""The traced half of a run: scalars by their short name in the grid file, and its `seed`."""

HYPER_TYPES: dict[str, Any] = (
    dict.fromkeys(TRACED, np.float32) | dict.fromkeys(BRANCHES, np.int32) | {"seed": np.uint32}
)


Solver = Literal["exact", "gram", "fast"]
"""`exact` and `gram`: `geometry.spectra.decompose`; `fast`: `geometry.leading.leading_triplets`."""


class Purpose(IntEnum):
    """What a stream of random numbers is for; folded into the run's key, so never renumber."""

    INIT = 0
    BATCHES = 1


@dataclass(frozen=True)
class Program:
    """The static settings of a run and the sizes of its data; hashable, one compiled program each.

    `unroll` is how many layers the compiler sees in a row, `solver` how singular vectors are found: they change speed
    and rounding, not the result.
    """

    settings: Settings
    num_train: int
    num_features: int
    num_classes: int
    unroll: int = 1
    solver: Solver = "exact"

    @cached_property
    def kind(self) -> ModelKind:
        """The model kind's functions."""
        return MODELS[self.settings.model.kind]

    @cached_property
    def module(self) -> nn.Module:
        """The Flax module, called as `module.apply({"params": params}, x, hypers)`."""
        return self._build(self.unroll)

    @cached_property
    def rolled_module(self) -> nn.Module:
        """The same module with a loop over layers: slower, quicker to compile; for what is done once a record."""
        return self._build(1)

    def _build(self, unroll: int) -> nn.Module:
        return self.kind.build(self.settings.model, self.num_features, self.num_classes, unroll)

    @cached_property
    def steps_per_epoch(self) -> int:
        """Whole batches in an epoch; the rest of the epoch's order is left out."""
        return steps_per_epoch(self.num_train, self.settings.data.batch_size)

    @cached_property
    def reference_step(self) -> int:
        """The first record at or after this step is the one that rotation drift is measured from."""
        reference = self.settings.measure.reference
        return self.steps_per_epoch if reference == "epoch" else int(reference)

    @property
    def measures_all(self) -> bool:
        """Whether all families of matrices are measured."""
        return self.settings.measure.families == "all"

    @cached_property
    def record_steps(self) -> tuple[int, ...]:
        """The steps after which a run is measured: 0, then every `measure.every`, and the last one."""
        training, every = self.settings.training, self.settings.measure.every
        total = training.steps or (training.epochs or 0) * self.steps_per_epoch
        interval = self.steps_per_epoch if every == "epoch" else int(every)
        return (*range(0, total, interval), total)


def run_key(hypers: Hypers, purpose: Purpose) -> Array:
    """Return the key of one purpose of a run: the same for every variant with the same seed."""
    return jax.random.fold_in(jax.random.key(hypers["seed"]), purpose)


def encode_hypers(traced: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Stack runs' traced settings and seeds into host arrays (run,) of the types in `HYPER_TYPES`."""
    values = {name: [settings[name] for settings in traced] for name in HYPER_TYPES if name != "seed"}
    return {name: np.array(column, HYPER_TYPES[name]) for name, column in (values | {"seed": seeds}).items()}
