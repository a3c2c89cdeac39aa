"""Rules against calculations by hand, each in every direction."""

import doctest
import math

import numpy as np
import pytest
from scipy import stats

from geocont_jax.analysis.claims import rules
from geocont_jax.analysis.claims.rules import (
    SHOWN,
    PaperValue,
    Region,
    Verdict,
    above,
    above_chance,
    at_chance,
    below,
    prediction_interval,
    within,
)
from geocont_jax.analysis.statistics import describe

SUPPORTED, REFUTED, UNDECIDED = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.UNDECIDED
SEEDS = [0.80, 0.82, 0.78]  # mean 0.80, sd 0.02, sem 0.0115, t(0.975, 2) = 4.303: 0.7503 to 0.8497
NAN = math.nan


def test_examples():
    assert doctest.testmod(rules).failed == 0


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (above(0.7502), SUPPORTED), (above(0.7504), UNDECIDED), (above(0.8496), UNDECIDED), (above(0.8498), REFUTED),
        (below(0.8498), SUPPORTED), (below(0.8496), UNDECIDED), (below(0.7504), UNDECIDED), (below(0.7502), REFUTED),
        (within(0.8498), SUPPORTED), (within(0.8496), UNDECIDED), (within(0.7504), UNDECIDED),
        (within(0.7502), REFUTED), (Region(0.75, 0.85), SUPPORTED), (Region(0.76, 0.90), UNDECIDED),
        (Region(0.60, 0.75), REFUTED), (Region(0.85, 0.90), REFUTED),
    ],
    ids=str,
)  # fmt: skip
def test_an_interval_has_to_be_wholly_inside_or_wholly_outside(rule, verdict):
    found = rule.decide(SEEDS)
    assert found.verdict == verdict
    assert (found.low, found.high) == pytest.approx((0.7503, 0.8497), abs=5e-5)


@pytest.mark.parametrize(
    ("rule", "chance", "verdict"),
    [
        (above_chance(0.05), 0.70, SUPPORTED), (above_chance(0.05), 0.71, UNDECIDED),
        (above_chance(0.05), 0.81, REFUTED),
        (at_chance(0.06), 0.80, SUPPORTED), (at_chance(0.04), 0.80, UNDECIDED), (at_chance(0.05), 0.95, REFUTED),
        (at_chance(0.05), 0.65, REFUTED),
    ],
    ids=str,
)  # fmt: skip
def test_rules_that_count_from_chance(rule, chance, verdict):
    assert rule.decide(SEEDS, chance).verdict == verdict


def test_without_a_chance_level_nothing_is_clear_of_it():
    found = above_chance(0.05).decide(SEEDS)
    assert (found.verdict, found.note) == (UNDECIDED, "its chance level is not known")


@pytest.mark.parametrize("rule", [above(0.0), below(1.0), within(1.0), PaperValue(0.5, 2, 0.0)], ids=str)
@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([], "no finished run has a value"),
        ([0.5], "one seed has no interval"),
        ([0.5, math.inf], "a value is not finite"),
    ],
)
def test_what_has_no_interval_decides_nothing(rule, values, why):
    found = rule.decide(values)
    assert (found.verdict, found.note) == (UNDECIDED, why)


def test_values_that_are_all_the_limit_decide_nothing():
    for rule in (above(0.5), below(0.5)):
        assert rule.decide([0.5, 0.5, 0.5]).verdict == UNDECIDED
    assert above(0.4).decide([0.5, 0.5]).verdict == SUPPORTED
    assert above(0.6).decide([0.5, 0.5]).verdict == REFUTED


def test_clearance_counts_half_widths():
    half = 4.302652729911275 * 0.02 / math.sqrt(3)
    assert above(0.5).decide(SEEDS).clearance == pytest.approx((0.8 - half - 0.5) / half)
    assert above(0.9).decide(SEEDS).clearance == pytest.approx((0.9 - half - 0.8) / half)
    assert above(0.8).decide(SEEDS).clearance < 0
    assert above(0.4).decide([0.5, 0.5]).clearance == math.inf


def test_the_rule_of_an_interval_errs_as_often_as_it_says():
    # The truth is the limit itself: supported in 2.5 % of samples, refuted in 2.5 %.
    samples = np.random.default_rng(2).normal(size=(4000, 4))
    verdicts = [above(0.0).decide(sample).verdict for sample in samples]
    for verdict in (SUPPORTED, REFUTED):
        # Four standard errors of a share of 0.025 in 4,000 samples.
        share = verdicts.count(verdict) / len(verdicts)
        assert share == pytest.approx(0.025, abs=4 * math.sqrt(0.025 * 0.975 / 4000))


def test_a_prediction_interval_by_hand():
    # t(0.975, 2) sd sqrt(1/3 + 1/3) = 4.302653 x 0.02 x 0.816497
    low, high = prediction_interval(describe(SEEDS))
    assert (low, high) == pytest.approx((0.80 - 0.070262, 0.80 + 0.070262), abs=1e-6)
    assert all(map(math.isnan, prediction_interval(describe([0.5]))))


def test_a_prediction_interval_holds_other_means_in_95_of_100_cases():
    draw = np.random.default_rng(3)
    inside = 0
    for _ in range(4000):
        low, high = prediction_interval(describe(draw.normal(size=5)))
        inside += low < draw.normal(size=3).mean() < high
    # Four standard errors of a share of 0.95 in 4,000 samples.
    assert inside / 4000 == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))


# The prediction interval is 0.7297 to 0.8703.
@pytest.mark.parametrize(
    ("value", "decimals", "rival", "verdict"),
    [
        (0.85, 2, 0.05, SUPPORTED), (0.80, 2, 0.75, UNDECIDED), (0.60, 2, 0.05, REFUTED), (0.60, 2, 0.80, REFUTED),
        # Half a unit of the last digit: 0.875 - 0.0005 is outside, 0.87 - 0.005 and 0.9 - 0.05 are inside.
        (0.875, 3, 0.05, REFUTED), (0.87, 2, 0.05, SUPPORTED), (0.9, 1, 0.05, SUPPORTED), (0.725, 3, 0.05, REFUTED),
        (0.725, 2, 0.05, SUPPORTED), (0.7, 1, 0.05, SUPPORTED),
    ],
)  # fmt: skip
def test_a_published_value(value, decimals, rival, verdict):
    found = PaperValue(value, decimals, rival).decide(SEEDS)
    assert found.verdict == verdict
    assert f"ours minus the paper's: {0.80 - value:+.3f}" in found.note
    assert found.high - found.low == pytest.approx(2 * stats.t.ppf(0.975, 2) * 0.02 * math.sqrt(2 / 3), rel=1e-12)


def test_what_is_shown_decides_nothing():
    assert SHOWN.decide(SEEDS)[:3] == (Verdict.SHOWN, *describe(SEEDS)[4:])
    assert SHOWN.decide([]).verdict == Verdict.SHOWN


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (above(0.0), "> 0"), (below(0.1), "< 0.1"), (within(0.1), "between -0.1 and 0.1"),
        (at_chance(0.05), "within 0.05 of chance"), (above_chance(0.05), "> chance + 0.05"),
        (Region(high=-0.01, from_chance=True), "< chance - 0.01"), (SHOWN, "-"),
        (PaperValue(0.22, 2, 0.05), "the paper's 0.22 in the prediction interval, 0.05 outside"),
    ],
    ids=str,
)  # fmt: skip
def test_words(rule, words):
    assert rule.words() == words
