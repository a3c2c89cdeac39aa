"""What is read off a run: a recorded quantity, averaged over layers, at a moment that the run itself may choose."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import xarray as xr

from geocont_jax.analysis.condensed import average
from geocont_jax.analysis.summary import by_run, chance_of, run_steps

NAN = float("nan")
NO_RECORD = -1

WORDS = {
    "weight_v1_cosine": "weight v1",
    "weight_u1_cosine": "weight u1",
    "gradient_v1_cosine": "gradient v1",
    "gradient_u1_cosine": "gradient u1",
    "mean_gradient_v1_cosine": "epoch-mean gradient v1",
    "cumulative_gradient_v1_cosine": "cumulative gradient v1",
    "update_v1_cosine": "update v1",
    "weight_v_alignment": "weight sigma^2 alignment",
    "weight_v_overlap1": "weight overlap of the leading 1",
    "weight_v_overlap16": "weight overlap of the leading 16",
    "weight_v1_drift": "rotation of weight v1 in degrees",
    "update_ratio": "|W-W0|/|W0|",
    "preactivation_norm": "pre-activation norm",
}
"""Recorded quantities in words; others are called by their name."""


class Series(NamedTuple):
    """A quantity over time, each (run, record): layer means, steps (-1: padding), epochs and |W-W0|/|W0|."""

    values: np.ndarray
    step: np.ndarray
    epoch: np.ndarray
    ratio: np.ndarray


@dataclass(frozen=True)
class When:
    """A record of each run: `choose` maps a `Series` to its number (run,), -1 where there is none such.

    `needs` names the recorded quantities that the choice looks at.
    """

    words: str
    choose: Callable[[Series], np.ndarray]
    needs: tuple[str, ...] = ()


class Measured(Protocol):
    """What makes one number of every run of a data set."""

    @property
    def words(self) -> str:
        """What it is, to be read."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the recorded quantities that it reads."""

    def values(self, dataset: xr.Dataset) -> np.ndarray:
        """Return a number per run (run,), NaN where it has none."""

    def chance(self, dataset: xr.Dataset, run: int) -> float:
        """Return its mean under the null of unrelated layers, NaN where it has no null."""


@dataclass(frozen=True)
class Measure:
    """A recorded quantity at a moment, its layers or pairs averaged inside the run.

    >>> Measure("weight_v1_cosine", END).words
    'weight v1 at the end'
    """

    metric: str
    when: When

    @property
    def words(self) -> str:
        """What it is, to be read."""
        return f"{WORDS.get(self.metric, self.metric.replace('_', ' '))} {self.when.words}".rstrip()

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the recorded quantities that it reads."""
        return (self.metric, *self.when.needs)

    def values(self, dataset: xr.Dataset) -> np.ndarray:
        """Return a number per run (run,), NaN where there is no such record or no layer with a value."""
        series = series_of(dataset, self.metric)
        return at(series.values, self.when.choose(series))

    def chance(self, dataset: xr.Dataset, run: int) -> float:
        """Return the quantity's mean under the null of unrelated layers, NaN where it has no null."""
        return chance_of(dataset, self.metric, run)


@dataclass(frozen=True)
class Combination:
    """A sum of measures of the same run, each with its coefficient; `words` says what it is.

    >>> start, end = Measure("weight_v1_cosine", START), Measure("weight_v1_cosine", END)
    >>> Combination("change of weight v1", ((1.0, end), (-1.0, start))).needs
    ('weight_v1_cosine', 'weight_v1_cosine')
    """

    words: str
    measures: tuple[tuple[float, Measured], ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the recorded quantities that it reads."""
        return tuple(name for _, measure in self.measures for name in measure.needs)

    def values(self, dataset: xr.Dataset) -> np.ndarray:
        """Return a number per run (run,), NaN where a measure has none."""
        return np.sum([factor * measure.values(dataset) for factor, measure in self.measures], axis=0)

    def chance(self, dataset: xr.Dataset, run: int) -> float:
        """Return NaN: a sum of dependent measures has no null that is known."""
        return NAN


@dataclass(frozen=True)
class PassingTime:
    """The epoch of the first record at which `metric` is at least `share` of `reference`.

    A run that never gets there counts with its last epoch, which is a lower bound: differences between the times of
    two runs are then too small, never too large, where they are positive.
    """

    metric: str
    reference: str
    share: float

    @property
    def words(self) -> str:
        """What it is, to be read."""
        names = [WORDS.get(name, name) for name in self.needs]
        return f"epoch at which {names[0]} reaches {self.share:g} of {names[1]}"

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the recorded quantities that it reads."""
        return (self.metric, self.reference)

    def values(self, dataset: xr.Dataset) -> np.ndarray:
        """Return the epochs (run,)."""
        series = series_of(dataset, self.metric)
        reached = series.values >= self.share * layer_means(dataset, self.reference)
        first, last = _first(reached), END.choose(series)
        return at(series.epoch, np.where(first == NO_RECORD, last, first))

    def chance(self, dataset: xr.Dataset, run: int) -> float:
        """Return NaN: a time has no null."""
        return NAN


def series_of(dataset: xr.Dataset, metric: str) -> Series:
    """Return a recorded quantity over time, its layers or pairs averaged; padding is NaN."""
    step = run_steps(dataset)
    ratio = layer_means(dataset, "update_ratio") if "update_ratio" in dataset else np.full(step.shape, np.nan)
    values = np.where(step >= 0, layer_means(dataset, metric), np.nan)
    return Series(values, step, by_run(dataset, "epoch").astype(np.float64), ratio)


def layer_means(dataset: xr.Dataset, metric: str) -> np.ndarray:
    """Return a quantity averaged over layers or pairs (run, record); NaN where none has a value."""
    return average(dataset[metric]).mean


def at(values: np.ndarray, record: np.ndarray) -> np.ndarray:
    """Return values (run, record) at a record of each run (run,), NaN where there is none."""
    return np.where(record == NO_RECORD, np.nan, values[np.arange(len(record)), record])


def _first(condition: np.ndarray) -> np.ndarray:
    return np.where(condition.any(axis=1), condition.argmax(axis=1), NO_RECORD)


def _last(condition: np.ndarray) -> np.ndarray:
    from_the_end = condition[:, ::-1].argmax(axis=1)
    return np.where(condition.any(axis=1), condition.shape[1] - 1 - from_the_end, NO_RECORD)


def _extreme(values: np.ndarray) -> np.ndarray:
    """Return the record of the largest value that is a number."""
    exists = ~np.isnan(values)
    return np.where(exists.any(axis=1), np.where(exists, values, -np.inf).argmax(axis=1), NO_RECORD)


def _is_number(series: Series) -> np.ndarray:
    return ~np.isnan(series.values)


def _times(share: float) -> str:
    return "" if share == 1 else f"{share:g} "


START = When("at step 0", lambda series: _first(series.step == 0))
END = When("at the end", lambda series: series.step.argmax(axis=1))
LARGEST = When("at its largest", lambda series: _extreme(series.values))
SMALLEST = When("at its smallest", lambda series: _extreme(-series.values))


def after_epoch(number: int) -> When:
    """Return the first record at or after the end of an epoch, counted from 1."""
    return When(f"after epoch {number}", lambda series: _first(series.epoch >= number))


def before_moving(share: float) -> When:
    """Return the last record at which |W-W0| is still below `share` of |W0| and the quantity has a value."""
    return When(
        f"at the last record with |W-W0| < {_times(share)}|W0|",
        lambda series: _last((series.ratio < share) & _is_number(series)),
        ("update_ratio",),
    )


def once_moved(share: float) -> When:
    """Return the first record at which |W-W0| has reached `share` of |W0| and the quantity has a value."""
    return When(
        f"at the first record with |W-W0| >= {_times(share)}|W0|",
        lambda series: _first((series.ratio >= share) & _is_number(series)),
        ("update_ratio",),
    )
