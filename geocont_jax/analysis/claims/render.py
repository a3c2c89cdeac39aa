"""The scoreboard: verdicts on claims as Markdown, the same text for the same records."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import xarray as xr

from geocont_jax.analysis.claims.judge import Judgement, PartJudgement, by_sweep, judge_claims
from geocont_jax.analysis.claims.model import Claim
from geocont_jax.analysis.claims.paper1 import PAPER_1
from geocont_jax.analysis.claims.rules import PaperValue, Shown, Verdict
from geocont_jax.analysis.markdown import markdown_table
from geocont_jax.analysis.statistics import describe

NO_VALUE = "-"
DECIDED = (Verdict.SUPPORTED, Verdict.REFUTED, Verdict.UNDECIDED)

INTRODUCTION = """\
# Claims

Written by `python -m geocont_jax.claims RESULTS --out docs/claims.md` from the records of sweeps; do not edit.

A claim is decided by its parts. Each is a statistic with a rule that was fixed before the runs, with its reasons
beside it (a trial with one seed was known; it helped to choose settings, no margin). The unit of evidence is the
seed: layers are averaged inside a run, variants are compared at the same seed, and the interval is Student's at 95 %
over seeds. *Supported*: the interval lies wholly where the claim wants it; *refuted*: wholly outside; *undecided*:
across the limit, or there is too little to say. One refuted part refutes a claim, and only all of them support it; a
premise that is not met leaves it undecided. A published value is held against the 95 % prediction interval for the
mean of three other seeds. Of pretrained models the unit is the model, and a published value is read off the one model
that it is of. Runs that diverged, are not finished or have no value do not count and are named. Every interval stands
for itself: of the {intervals} that decide here, about one in twenty may be expected to miss the truth."""

PROVENANCE = """\
## Where the numbers come from

The runs that were read, by sweep. Other settings are in `spec.yaml` beside them."""


def scoreboard(datasets: Iterable[xr.Dataset], claims: Sequence[Claim] = PAPER_1) -> str:
    """Return the scoreboard of claims as Markdown, from the records of sweeps in any order.

    Claims whose sweep is missing are undecided and name the command that runs it.

    Args: `datasets`, each with dims run, record, ... and the attribute `name`, that of its grid.
    Raises InputError where two data sets are of the same sweep, or do not say the settings of their runs.

    >>> print(scoreboard([])[:8])
    # Claims
    """
    found = by_sweep(datasets, claims)
    judged = judge_claims(claims, found)
    intervals = sum(not isinstance(part.rule, Shown) for claim in claims for part in claim.parts)
    return "\n\n".join(
        [
            INTRODUCTION.format(intervals=intervals),
            _counts(judged),
            markdown_table(["claim", "verdict", "why"], [_verdict_row(one) for one in judged]),
            *(_section(one) for one in judged),
            PROVENANCE,
            _provenance(found),
        ]
    )


def _counts(judged: Sequence[Judgement]) -> str:
    count = Counter(one.verdict for one in judged)
    return f"{len(judged)} claims: " + ", ".join(f"{count[verdict]} {verdict}" for verdict in DECIDED) + "."


def _verdict_row(judged: Judgement) -> list[str]:
    return [f"[{judged.claim.id}](#{judged.claim.id})", judged.verdict, _reason(judged)]


def _reason(judged: Judgement) -> str:
    """Return why the verdict is what it is, in a line with numbers."""
    claim, pivot = judged.claim, judged.pivot
    if pivot is None:
        return f"{claim.sweep.name} is missing: `{claim.sweep.command}`"
    reason = _of_part(pivot)
    if pivot.part.premise:
        reason = f"premise not met: {reason}"
    elif judged.verdict == Verdict.SUPPORTED:
        number = sum(one.outcome.verdict == Verdict.SUPPORTED for one in judged.parts)
        all_of = {1: "", 2: "both parts, the less clear: "}.get(number, f"all {number} parts, the least clear: ")
        reason = all_of + reason
    return "; ".join([reason, *_losses(judged.lost)])


def _of_part(judged: PartJudgement) -> str:
    """Return a part's statistic, numbers and rule in a line."""
    words = judged.part.statistic.words
    if judged.problem:
        return f"{words}: {judged.problem}"
    note = f" ({judged.outcome.note})" if judged.outcome.note else ""
    numbers = " ".join(filter(lambda text: text != NO_VALUE, [_estimate(judged), _interval(judged)]))
    return f"{words} is {numbers or 'unknown'}, asked: {_rule(judged)}{note}; n = {len(judged.sample.values)}"


def _section(judged: Judgement) -> str:
    claim = judged.claim
    facts = [
        f"- Source: {claim.source}",
        f"- How it is known: {claim.via}",
        f"- Sweep: {claim.sweep.name}, `{claim.sweep.command}`",
        f"- Verdict: **{judged.verdict}**: {_reason(judged)}",
    ]
    parts = markdown_table(
        ["statistic", "asked", "mean", "95 % interval", "n", "chance", "verdict"],
        [_part_row(one) for one in judged.parts],
    )
    return "\n\n".join([f"## {claim.id}", claim.text, "\n".join(facts), parts, _reasons(judged.parts)])


def _part_row(judged: PartJudgement) -> list[str]:
    sample = judged.sample
    verdict: str = judged.outcome.verdict
    if judged.part.premise:
        verdict = f"premise: {verdict}"
    details = "" if judged.is_missing else judged.problem or judged.outcome.note
    return [
        judged.part.statistic.words,
        _rule(judged),
        _estimate(judged),
        _interval(judged),
        _count(judged),
        _number(sample.chance),
        f"{verdict} ({details})" if details else verdict,
    ]


def _reasons(parts: Sequence[PartJudgement]) -> str:
    """Return the reasoning behind the rules, each said once."""
    said: dict[str, list[str]] = {}
    for judged in parts:
        rules = said.setdefault(judged.part.why, [])
        words = judged.part.rule.words()
        if words not in rules:
            rules.append(words)
    lines = [f"- `{'`, `'.join(rules)}`: {why}" for why, rules in said.items() if rules != [NO_VALUE]]
    return "\n".join(["Why these rules:", "", *lines])


def _rule(judged: PartJudgement) -> str:
    return judged.part.rule.words(judged.sample.chance)


def _estimate(judged: PartJudgement) -> str:
    return _number(describe(judged.sample.values).mean)


def _interval(judged: PartJudgement) -> str:
    low, high = judged.outcome.low, judged.outcome.high
    if math.isnan(low) or math.isnan(high):
        return NO_VALUE
    kind = " (prediction)" if isinstance(judged.part.rule, PaperValue) else ""
    return f"[{_number(low)}, {_number(high)}]{kind}"


def _count(judged: PartJudgement) -> str:
    """Return how many seeds count, of how many, and what the others lack."""
    sample = judged.sample
    if judged.problem:
        return "0"
    number = len(sample.values)
    if number == sample.num_seeds:
        return str(number)
    losses = _losses({reason: len(runs) for reason, runs in sample.lost.items()})
    return f"{number} of {sample.num_seeds} ({', '.join(losses)})"


def _losses(lost: Mapping[str, int]) -> list[str]:
    return [f"{count} {'run' if count == 1 else 'runs'} {reason}" for reason, count in lost.items()]


def _number(value: float) -> str:
    """Return a number with three decimals, with one where it is ten or more; never -0.

    >>> _number(-0.0001), _number(87.13), _number(float("nan"))
    ('0.000', '87.1', '-')
    """
    if math.isnan(value):
        return NO_VALUE
    text = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _provenance(found: Mapping[str, xr.Dataset]) -> str:
    if not found:
        return "No sweep that a claim asks for was among the results."
    rows = [[column(found[name]) for column in PROVENANCE_COLUMNS.values()] for name in sorted(found)]
    return markdown_table(list(PROVENANCE_COLUMNS), rows)


def _runs(dataset: xr.Dataset) -> str:
    count = Counter(dataset["status"].values.tolist())
    return ", ".join(f"{number} {status}" for status, number in sorted(count.items()))


def _range(values: np.ndarray) -> str:
    numbers = sorted(set(values.ravel().tolist()))
    if not numbers:
        return NO_VALUE
    first, last = (f"{number:g}" for number in (numbers[0], numbers[-1]))
    return first if len(numbers) == 1 else f"{first} to {last}"


def _last_epochs(dataset: xr.Dataset) -> str:
    return _range(np.atleast_1d(dataset["epoch"].max("record").values))


def _attribute(name: str) -> Callable[[xr.Dataset], str]:
    return lambda dataset: str(dataset.attrs.get(name, NO_VALUE))


PROVENANCE_COLUMNS: dict[str, Callable[[xr.Dataset], str]] = {
    "sweep": _attribute("name"),
    "spec hash": _attribute("spec_hash"),
    "runs": _runs,
    "seeds": lambda dataset: _range(dataset["seed"].values),
    "epochs": _last_epochs,
    **{name: _attribute(name) for name in ("geocont_jax", "commit", "date", "machine")},
}
"""What is said of a sweep's records, by the head of the column."""
