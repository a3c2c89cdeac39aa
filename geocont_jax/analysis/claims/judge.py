"""The verdict on a claim: its parts, decided one by one and put together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import xarray as xr

from geocont_jax.analysis.claims.model import Claim, Part
from geocont_jax.analysis.claims.rules import INFINITY, Outcome, Verdict
from geocont_jax.analysis.claims.sample import Sample, gather
from geocont_jax.errors import InputError


@dataclass(frozen=True)
class PartJudgement:
    """A part of a claim with its sample and what its rule says of it."""

    part: Part
    sample: Sample
    outcome: Outcome

    @property
    def is_missing(self) -> bool:
        """Whether its sweep is not there."""
        return not self.sample.num_seeds and not self.sample.problem

    @property
    def problem(self) -> str:
        """Why it has no number to decide on, empty where it has one."""
        return self.sample.problem


@dataclass(frozen=True)
class Judgement:
    """A claim with its verdict, and the part that the verdict hangs on (None where its sweep is missing)."""

    claim: Claim
    verdict: Verdict
    parts: tuple[PartJudgement, ...]
    pivot: PartJudgement | None

    @property
    def lost(self) -> dict[str, int]:
        """How many runs do not count, by reason, over all parts."""
        runs: dict[str, set[int]] = {}
        for judged in self.parts:
            for reason, numbers in judged.sample.lost.items():
                runs.setdefault(reason, set()).update(numbers)
        return {reason: len(numbers) for reason, numbers in sorted(runs.items())}


def by_sweep(datasets: Iterable[xr.Dataset], claims: Sequence[Claim]) -> dict[str, xr.Dataset]:
    """Return the data sets of the sweeps that claims ask for, by name.

    Raises InputError where two are of the same sweep: which of them is meant is not for a program to guess.
    """
    wanted = {claim.sweep.name for claim in claims}
    found: dict[str, xr.Dataset] = {}
    for dataset in datasets:
        name = dataset.attrs.get("name")
        if name not in wanted:
            continue
        if name in found:
            places = " and ".join(str(of.attrs.get("folder", "?")) for of in (found[name], dataset))
            raise InputError(f"{places} are both results of {name}; give only the one to judge, by its path")
        found[name] = dataset
    return found


def judge_claims(claims: Sequence[Claim], datasets: Mapping[str, xr.Dataset]) -> list[Judgement]:
    """Return the verdicts on claims, from the records of sweeps by name."""
    return [judge(claim, datasets.get(claim.sweep.name)) for claim in claims]


def judge(claim: Claim, dataset: xr.Dataset | None) -> Judgement:
    """Return the verdict on a claim from the records of its sweep; undecided where those are missing."""
    if dataset is None:
        parts = tuple(PartJudgement(part, Sample(), part.rule.decide(())) for part in claim.parts)
        return Judgement(claim, Verdict.UNDECIDED, parts, None)
    judged = tuple(_judge_part(part, claim, dataset) for part in claim.parts)
    verdict = combine([found.outcome.verdict for found in _of(judged, premise=True)],
                      [found.outcome.verdict for found in _of(judged, premise=False)])  # fmt: skip
    return Judgement(claim, verdict, judged, _pivot(judged, verdict))


def combine(premises: Iterable[Verdict], parts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a claim from those on its premises and on the parts that decide.

    Undecided where a premise is not met; refuted where any part is refuted; supported where all are.

    >>> combine([], [Verdict.SUPPORTED, Verdict.REFUTED, Verdict.UNDECIDED]).value
    'refuted'
    >>> combine([Verdict.REFUTED], [Verdict.SUPPORTED]).value
    'undecided'
    """
    found = set(parts) - {Verdict.SHOWN}
    if set(premises) - {Verdict.SUPPORTED} or not found:
        return Verdict.UNDECIDED
    if Verdict.REFUTED in found:
        return Verdict.REFUTED
    return Verdict.SUPPORTED if found == {Verdict.SUPPORTED} else Verdict.UNDECIDED


def _judge_part(part: Part, claim: Claim, dataset: xr.Dataset) -> PartJudgement:
    sample = gather(part.statistic, claim.sweep, dataset)
    outcome = part.rule.decide(sample.values, sample.chance)
    return PartJudgement(part, sample, outcome)


def _of(judged: Iterable[PartJudgement], premise: bool) -> list[PartJudgement]:
    """Return the premises, or the parts that decide."""
    return [one for one in judged if one.part.premise == premise and one.outcome.verdict != Verdict.SHOWN]


def _pivot(judged: Sequence[PartJudgement], verdict: Verdict) -> PartJudgement:
    """Return the part that the verdict hangs on.

    That is the first premise that is not met, or the clearest of the parts that refute, the least clear of those that
    support, the first that is undecided.
    """
    unmet = [one for one in _of(judged, premise=True) if one.outcome.verdict != Verdict.SUPPORTED]
    if unmet:
        return unmet[0]
    same = [one for one in _of(judged, premise=False) if one.outcome.verdict == verdict]
    if verdict == Verdict.REFUTED:
        return max(same, key=lambda one: one.outcome.clearance)
    if verdict == Verdict.SUPPORTED:
        return min(same, key=lambda one: (one.outcome.clearance, INFINITY))
    return same[0]
