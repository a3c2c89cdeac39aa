"""The values of a statistic over seeds: runs are found by their settings, and none drops out silently."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from geocont_jax.analysis.claims.model import Statistic, Sweep, Term
from geocont_jax.analysis.settings import meets
from geocont_jax.errors import InputError

OK = "ok"
NO_VALUE = "without a value"


@dataclass(frozen=True)
class Sample:
    """A value per seed, and what is missing.

    `num_seeds` counts the seeds that all variants of the statistic share, `lost` the runs of those that do not count,
    as their numbers in the data set by reason: diverged, pending, without a value. `chance` is the statistic's mean
    under the null (NaN where it has none), `problem` why there is no sample at all.
    """

    values: tuple[float, ...] = ()
    num_seeds: int = 0
    lost: Mapping[str, frozenset[int]] = field(default_factory=dict)
    chance: float = math.nan
    problem: str = ""


class NoRuns(Exception):
    """A variant has no runs in the data set, or too many of them."""


def gather(statistic: Statistic, sweep: Sweep, dataset: xr.Dataset) -> Sample:
    """Return a statistic's sample from the records of its sweep.

    The unit is the seed: each term is one number of a run, and terms are summed over runs of the same seed.

    Args: `dataset`, records with dims run and record and the coordinates settings, seed and status on run.
    Raises InputError where runs do not say what their settings are.
    """
    missing = [name for term in statistic.terms for name in term.measure.needs if name not in dataset]
    if missing:
        return Sample(problem=f"the records of {sweep.name} have no {missing[0]}: measure.families is all in its grid")
    try:
        settings = settings_of(dataset)
        measured = [_measure(term, sweep, dataset, settings) for term in statistic.terms]
    except NoRuns as error:
        return Sample(problem=str(error))
    seeds = sorted(set.intersection(*(set(term.runs) for term in measured)))
    if not seeds:
        return Sample(problem=f"the variants share no seed in {sweep.name}")
    values = [sum(term.at(seed) for term in measured) for seed in seeds]
    chance = statistic.terms[0].measure.chance(dataset, measured[0].runs[seeds[0]]) if statistic.is_single else math.nan
    counted = tuple(value for value in values if not math.isnan(value))
    return Sample(counted, len(seeds), _lost(measured, seeds, dataset), chance)


class Measured(NamedTuple):
    """A term's run of every seed, and its contribution by run: NaN where a run does not count."""

    runs: Mapping[int, int]
    values: np.ndarray

    def at(self, seed: int) -> float:
        """Return the contribution at a seed."""
        return float(self.values[self.runs[seed]])


def settings_of(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """Return the resolved settings of every run, by short name."""
    if "settings" not in dataset.coords:
        raise InputError(
            f"{dataset.attrs.get('folder', dataset.attrs.get('name'))}: the records do not say the settings of their "
            "runs; run the sweep again with this version"
        )
    return [json.loads(text) for text in dataset["settings"].values.tolist()]


def _measure(term: Term, sweep: Sweep, dataset: xr.Dataset, settings: Sequence[Mapping[str, Any]]) -> Measured:
    """Return what a term contributes, with the runs of its variant in the sweep."""
    conditions = {**sweep.settings, **term.variant.settings}
    found = [number for number, of_run in enumerate(settings) if meets(of_run, conditions)]
    if not found:
        raise NoRuns(_why_none(term, sweep, settings))
    seeds = dataset["seed"].values[found].tolist()
    if len(set(seeds)) < len(seeds):
        axis = _varying([settings[number] for number in found])
        raise NoRuns(f"{term.variant.name} is more than one variant of {sweep.name}: they differ in {axis}")
    finished = dataset["status"].values == OK
    values = np.where(finished, term.coefficient * term.measure.values(dataset), np.nan)
    return Measured(dict(zip(seeds, found, strict=True)), values)


def _lost(measured: Sequence[Measured], seeds: Sequence[int], dataset: xr.Dataset) -> dict[str, frozenset[int]]:
    """Return the runs that do not count, by reason."""
    status = dataset["status"].values.tolist()
    lost: dict[str, set[int]] = {}
    for term in measured:
        for run in (term.runs[seed] for seed in seeds):
            if np.isnan(term.values[run]):
                lost.setdefault(NO_VALUE if status[run] == OK else status[run], set()).add(run)
    return {reason: frozenset(runs) for reason, runs in sorted(lost.items())}


def _why_none(term: Term, sweep: Sweep, settings: Sequence[Mapping[str, Any]]) -> str:
    """Return why no run is of the term's variant: the first condition that none of them meets."""
    for name, wanted in {**sweep.settings, **term.variant.settings}.items():
        if not any(meets(of_run, {name: wanted}) for of_run in settings):
            there = dict.fromkeys(json.dumps(of_run.get(name)) for of_run in settings)
            return f"no run of {sweep.name} has {name} {json.dumps(wanted)}; there: {', '.join(there)}"
    return f"no run of {sweep.name} is {term.variant.name}"


def _varying(settings: Sequence[Mapping[str, Any]]) -> str:
    names = [name for name in settings[0] if len({json.dumps(of_run.get(name)) for of_run in settings}) > 1]
    return ", ".join(names) or "nothing that they say"
