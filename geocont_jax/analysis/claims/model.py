"""What a claim is: data, so that a new one is an entry in a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geocont_jax.analysis.claims.measures import Measured
from geocont_jax.analysis.claims.rules import Rule, Shown

COEFFICIENTS = {1.0: "+", -1.0: "-", 0.5: "+ 1/2", -0.5: "- 1/2"}


@dataclass(frozen=True)
class Sweep:
    """A sweep that tests claims: its name, and the settings that all of its runs have to share.

    A rule is fixed for these settings: runs of a shorter training, or on other data, are no evidence for it.
    `command` runs it; by default its grid has its name.
    """

    name: str
    settings: Mapping[str, Any]
    command: str = ""

    def __post_init__(self) -> None:
        if not self.command:
            object.__setattr__(self, "command", f"python -m geocont_jax.sweep sweeps/{self.name}.yaml")


@dataclass(frozen=True)
class Variant:
    """The runs that have these settings, by short name; a tuple lists values that all count. `name` is to be read."""

    name: str
    settings: Mapping[str, Any]

    def but(self, name: str, **settings: Any) -> "Variant":
        """Return the variant with further or other settings; `name` is put behind its own.

        >>> Variant("Res+ReLU", {"residual": True}).but("scale 0.3", init_scale=0.3).name
        'Res+ReLU scale 0.3'
        """
        return Variant(f"{self.name} {name}", {**self.settings, **settings})


@dataclass(frozen=True)
class Term:
    """A measure of a variant's runs, and the coefficient with which it enters a statistic."""

    measure: Measured
    variant: Variant
    coefficient: float = 1.0


@dataclass(frozen=True)
class Statistic:
    """A sum of terms over variants, taken at each seed: they share their seeds, so differences are paired.

    >>> from geocont_jax.analysis.claims.measures import END, Measure
    >>> relu, identity = (Variant(f"Res+{name}", {"activation": name}) for name in ("relu", "identity"))
    >>> difference(Measure("weight_v1_cosine", END), relu, identity).words
    'weight v1 at the end: Res+relu - Res+identity'
    """

    terms: tuple[Term, ...]

    @property
    def words(self) -> str:
        """What it is, to be read: a measure that all terms have in common stands in front."""
        measures = dict.fromkeys(term.measure.words for term in self.terms)
        if len(measures) == 1:
            return f"{next(iter(measures))}: {self._sum([term.variant.name for term in self.terms])}"
        return self._sum([f"{term.measure.words} ({term.variant.name})" for term in self.terms])

    @property
    def is_single(self) -> bool:
        """Whether it is one measure of one variant, so that it has a chance level of its own."""
        return len(self.terms) == 1 and self.terms[0].coefficient == 1.0

    def _sum(self, names: list[str]) -> str:
        signs = [COEFFICIENTS.get(term.coefficient, f"{term.coefficient:+g} x") for term in self.terms]
        return " ".join(f"{sign} {name}" for sign, name in zip(signs, names, strict=True)).removeprefix("+ ")


@dataclass(frozen=True)
class Part:
    """One statistic with the rule that decides on it, fixed before the runs, and the reasoning (`why`).

    A `premise` is a condition under which the claim speaks: where it is not met, the claim stays undecided.
    """

    statistic: Statistic
    rule: Rule
    why: str
    premise: bool = False


@dataclass(frozen=True)
class Claim:
    """A claim: what it says, where it stands and how that reached us (`via`), and the parts that decide on it.

    Refuted where a part is refuted, supported where all are supported, otherwise undecided.
    """

    id: str
    text: str
    source: str
    via: str
    sweep: Sweep
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if all(part.premise or isinstance(part.rule, Shown) for part in self.parts):
            raise ValueError(f"claim {self.id}: no part of it decides")


def single(measure: Measured, variant: Variant) -> Statistic:
    """Return a measure of a variant as a statistic."""
    return Statistic((Term(measure, variant),))


def difference(measure: Measured, one: Variant, other: Variant) -> Statistic:
    """Return the paired difference of a measure between two variants."""
    return contrast(measure, (1.0, one), (-1.0, other))


def contrast(measure: Measured, *terms: tuple[float, Variant]) -> Statistic:
    """Return a sum of one measure over variants, each with its coefficient."""
    return Statistic(tuple(Term(measure, variant, coefficient) for coefficient, variant in terms))
