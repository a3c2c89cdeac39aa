"""Rules that decide: from the values of a statistic, one a seed, to a verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from geocont_jax.analysis.statistics import Description, describe, student_half_width

INFINITY = math.inf
NUM_PAPER_SEEDS = 3
"""How many seeds a published mean is taken to have; the paper says several."""


class Verdict(StrEnum):
    """What the records say of a claim, or of a part of it."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    SHOWN = "shown"
    """Of a part that decides nothing and is there to be seen."""


class Outcome(NamedTuple):
    """What a rule says: the verdict, the interval that it judged, and how clear it was.

    `clearance` counts half-widths between the interval and the nearest limit that it keeps away from; `note` is what
    there is to add.
    """

    verdict: Verdict
    low: float
    high: float
    clearance: float = INFINITY
    note: str = ""


class Rule(Protocol):
    """Decides on a sample of seeds; `words` says what it asks for, with the chance level where that is known."""

    def words(self, chance: float = math.nan) -> str:
        """Return what the statistic has to be."""

    def decide(self, values: Sequence[float], chance: float = math.nan) -> Outcome:
        """Return the verdict on values, one a seed; `chance` is the statistic's mean under the null."""


@dataclass(frozen=True)
class Region:
    """The statistic lies between `low` and `high`, counted from the chance level where `from_chance`.

    Supported where the 95 % t interval over seeds lies wholly inside, refuted where it lies wholly outside, otherwise
    undecided: also with a single seed, which has no interval. An interval that touches a limit decides nothing.

    >>> Region(low=0.5).decide([0.80, 0.82, 0.78]).verdict.value
    'supported'
    >>> Region(low=0.75).decide([0.80, 0.82, 0.78]).verdict.value  # the interval is 0.7503 to 0.8497
    'supported'
    >>> Region(low=0.76).decide([0.80, 0.82, 0.78]).verdict.value
    'undecided'
    """

    low: float = -INFINITY
    high: float = INFINITY
    from_chance: bool = False

    def words(self, chance: float = math.nan) -> str:
        """Return what the statistic has to be.

        >>> above_chance(0.05).words(0.0499)
        '> chance + 0.05 = 0.100'
        """
        origin = "chance" if self.from_chance else ""
        if self.low == -INFINITY or self.high == INFINITY:
            sign, limit = ("<", self.high) if self.low == -INFINITY else (">", self.low)
            known = f" = {chance + limit:.3f}" if self.from_chance and not math.isnan(chance) else ""
            return f"{sign} {_sum(origin, limit)}{known}"
        if self.from_chance and self.low == -self.high:
            return f"within {self.high:g} of chance"
        return f"between {_sum(origin, self.low)} and {_sum(origin, self.high)}"

    def decide(self, values: Sequence[float], chance: float = math.nan) -> Outcome:
        """Return the verdict on values, one a seed."""
        found = describe(values)
        if found.n and self.from_chance and math.isnan(chance):
            return Outcome(Verdict.UNDECIDED, found.ci95_low, found.ci95_high, note="its chance level is not known")
        origin = chance if self.from_chance else 0.0
        return self._judge(found, origin + self.low, origin + self.high)

    def _judge(self, found: Description, low: float, high: float) -> Outcome:
        interval = (found.ci95_low, found.ci95_high)
        if any(map(math.isnan, interval)):
            return Outcome(Verdict.UNDECIDED, *interval, note=_why_no_interval(found))
        half = (interval[1] - interval[0]) / 2
        inside = min(interval[0] - low, high - interval[1])
        outside = max(interval[0] - high, low - interval[1])
        verdict = Verdict.SUPPORTED if inside > 0 else Verdict.REFUTED if outside > 0 else Verdict.UNDECIDED
        return Outcome(verdict, *interval, clearance=max(inside, outside) / half if half > 0 else INFINITY)


def above(threshold: float) -> Region:
    """Return the rule: wholly above a threshold."""
    return Region(low=threshold)


def below(threshold: float) -> Region:
    """Return the rule: wholly below a threshold."""
    return Region(high=threshold)


def within(margin: float) -> Region:
    """Return the rule of equivalence with 0: wholly between -margin and margin."""
    return Region(-margin, margin)


def above_chance(margin: float) -> Region:
    """Return the rule: clear of chance, by more than a margin."""
    return Region(low=margin, from_chance=True)


def at_chance(margin: float) -> Region:
    """Return the rule of equivalence with chance: no further from it than a margin."""
    return Region(-margin, margin, from_chance=True)


@dataclass(frozen=True)
class PaperValue:
    """A published mean could come from the distribution that our seeds come from.

    The 95 % prediction interval for the mean of `NUM_PAPER_SEEDS` other seeds is `mean -+ t(0.975, n - 1) sd
    sqrt(1/n + 1/3)`. Supported where the published value, widened by half a unit of its last digit, reaches into it
    and the `rival` is not in it: a value from which it has to be told apart. An interval that holds both says nothing
    (undecided); one that misses the value refutes it.

    >>> PaperValue(0.22, 2, rival=0.05).decide([0.20, 0.22, 0.25]).verdict.value
    'supported'
    >>> PaperValue(0.22, 2, rival=0.05).decide([0.10, 0.22, 0.35]).verdict.value
    'undecided'
    """

    value: float
    decimals: int
    rival: float

    def words(self, chance: float = math.nan) -> str:
        """Return what the statistic has to be."""
        return f"the paper's {self.value:.{self.decimals}f} in the prediction interval, {self.rival:g} outside"

    def decide(self, values: Sequence[float], chance: float = math.nan) -> Outcome:
        """Return the verdict on values, one a seed."""
        found = describe(values)
        low, high = prediction_interval(found)
        if math.isnan(low) or math.isnan(high):
            return Outcome(Verdict.UNDECIDED, low, high, note=_why_no_interval(found))
        difference = f"ours minus the paper's: {round(found.mean - self.value, 3) + 0.0:+.3f}"  # + 0.0: never -0
        half_unit = 0.5 * 10.0**-self.decimals
        if not low <= self.value + half_unit or not self.value - half_unit <= high:
            return Outcome(Verdict.REFUTED, low, high, note=difference)
        if low <= self.rival <= high:
            return Outcome(Verdict.UNDECIDED, low, high, note=f"{difference}; too wide to tell from {self.rival:g}")
        return Outcome(Verdict.SUPPORTED, low, high, note=difference)


@dataclass(frozen=True)
class Reading:
    """A published number of one and the same object, which has no sampling error, comes out again.

    Supported where the single value agrees to one unit of the published number's last digit, refuted where it does
    not; undecided without a value, or with several.

    >>> Reading(0.82, 2).decide([0.8241]).verdict.value, Reading(0.82, 2).decide([0.78]).verdict.value
    ('supported', 'refuted')
    """

    value: float
    decimals: int

    def words(self, chance: float = math.nan) -> str:
        """Return what the statistic has to be."""
        return f"the paper's {self.value:.{self.decimals}f}, to one unit of its last digit"

    def decide(self, values: Sequence[float], chance: float = math.nan) -> Outcome:
        """Return the verdict on the one value that there should be."""
        if len(values) != 1:
            note = "it was not measured" if not values else "more than one value of what should be one object"
            return Outcome(Verdict.UNDECIDED, math.nan, math.nan, note=note)
        difference = values[0] - self.value
        agrees = abs(difference) <= 10.0**-self.decimals
        note = f"ours minus the paper's: {round(difference, 3) + 0.0:+.3f}"
        return Outcome(Verdict.SUPPORTED if agrees else Verdict.REFUTED, math.nan, math.nan, note=note)


@dataclass(frozen=True)
class Shown:
    """Decides nothing: the number stands there for the reader."""

    def words(self, chance: float = math.nan) -> str:
        """Return that nothing is asked."""
        return "-"

    def decide(self, values: Sequence[float], chance: float = math.nan) -> Outcome:
        """Return the 95 % t interval."""
        found = describe(values)
        return Outcome(Verdict.SHOWN, found.ci95_low, found.ci95_high)


SHOWN = Shown()


def prediction_interval(found: Description, num_others: int = NUM_PAPER_SEEDS) -> tuple[float, float]:
    """Return the 95 % interval for the mean of `num_others` further values: `mean -+ t sd sqrt(1/n + 1/num_others)`.

    NaN below two values. Source: Student's t of the difference of two means with a common variance, estimated from
    the first sample alone.

    >>> low, high = prediction_interval(describe([0.80, 0.82, 0.78]))
    >>> round(low, 4), round(high, 4)
    (0.7297, 0.8703)
    """
    if found.n < 2:
        return math.nan, math.nan
    half = student_half_width(found.n - 1) * found.sd * math.sqrt(1 / found.n + 1 / num_others)
    return found.mean - half, found.mean + half


def _why_no_interval(found: Description) -> str:
    if found.n == 0:
        return "no finished run has a value"
    return "one seed has no interval" if found.n == 1 else "a value is not finite"


def _sum(origin: str, limit: float) -> str:
    if not origin:
        return f"{limit:g}"
    return f"{origin} {'-' if limit < 0 else '+'} {abs(limit):g}"
