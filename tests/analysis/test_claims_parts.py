"""Measures at their moments, samples over seeds, and how parts make a verdict."""

import doctest
import json
import math

import numpy as np
import pytest

from geocont_jax.analysis.claims import judge as judge_module
from geocont_jax.analysis.claims import measures, model
from geocont_jax.analysis.claims.judge import by_sweep, combine, judge
from geocont_jax.analysis.claims.measures import (
    END,
    LARGEST,
    SMALLEST,
    START,
    Combination,
    Measure,
    PassingTime,
    after_epoch,
    before_moving,
    once_moved,
)
from geocont_jax.analysis.claims.model import (
    Claim,
    Part,
    Statistic,
    Sweep,
    Term,
    Variant,
    contrast,
    difference,
    single,
)
from geocont_jax.analysis.claims.rules import SHOWN, Verdict, above, above_chance, below
from geocont_jax.analysis.claims.sample import gather
from geocont_jax.errors import InputError
from geocont_jax.geometry.null import chance_level
from tests.analysis.claim_records import STEPS_PER_EPOCH, constant, store

SWEEP = Sweep("toy", {"depth": 16})
RELU, IDENTITY = (Variant(f"Res+{name}", {"residual": True, "activation": name}) for name in ("relu", "identity"))
WEIGHT = "weight_v1_cosine"
WEIGHT_END = Measure(WEIGHT, END)
NAN = math.nan


def claim_of(*parts):
    return Claim("toy-claim", "It is so.", "nowhere", "nobody", SWEEP, parts)


def part(statistic, rule, premise=False):
    return Part(statistic, rule, "because", premise)


ASKS_FOR_BOTH = (claim_of(part(difference(WEIGHT_END, RELU, IDENTITY), above(0.0))),)


def toy(relu, identity=None, *, metric=WEIGHT, **options):
    """Return records in which the metric's curves are those of relu and identity, or what they give for a seed."""

    def curves(settings, seed):
        curve = relu if settings["activation"] == "relu" else identity or relu
        return {metric: curve(seed) if callable(curve) else curve}

    return store("toy", curves, claims=ASKS_FOR_BOTH, **{"noise": 0.0, "seeds": range(3), **options})


@pytest.mark.parametrize("module", [measures, model, judge_module])
def test_examples(module):
    assert doctest.testmod(module).failed == 0


# --- Measures ------------------------------------------------------------------------------------------------------

CURVE = (0.1, 0.5, 0.9, 0.3, 0.2)


@pytest.mark.parametrize(
    ("when", "value"),
    [(START, 0.1), (END, 0.2), (LARGEST, 0.9), (SMALLEST, 0.1), (after_epoch(1), 0.5), (after_epoch(3), 0.3),
     (after_epoch(5), NAN)],
    ids=lambda value: getattr(value, "words", value),
)  # fmt: skip
def test_a_measure_is_the_layers_mean_at_its_moment(when, value):
    found = Measure(WEIGHT, when).values(toy(CURVE))
    assert found == pytest.approx([value] * 6, rel=1e-6, nan_ok=True)  # float32


def test_records_without_a_value_are_passed_over_by_extremes_and_not_by_moments():
    records = toy((NAN, 0.5, 0.9, 0.3, NAN))
    assert Measure(WEIGHT, LARGEST).values(records) == pytest.approx([0.9] * 6)
    assert Measure(WEIGHT, SMALLEST).values(records) == pytest.approx([0.3] * 6)
    assert np.isnan(Measure(WEIGHT, START).values(records)).all()
    assert np.isnan(Measure(WEIGHT, END).values(records)).all()
    assert np.isnan(Measure(WEIGHT, LARGEST).values(toy(constant(NAN)))).all()


def test_pairs_without_a_direction_are_left_out_of_the_runs_mean():
    records = toy(CURVE)
    records[WEIGHT].values[0, -1] = [0.25, NAN, 0.75]
    assert WEIGHT_END.values(records)[0] == 0.5


def test_a_run_with_a_shorter_schedule_ends_where_it_ends():
    records = toy(CURVE)
    steps = np.tile(np.arange(5) * STEPS_PER_EPOCH, (6, 1))
    steps[0, 3:] = -1
    padded = records.drop_vars(["step", "epoch"]).assign_coords(
        step=(("run", "record"), steps), epoch=(("run", "record"), np.where(steps < 0, NAN, steps / STEPS_PER_EPOCH))
    )
    assert WEIGHT_END.values(padded) == pytest.approx([0.9, *[0.2] * 5])
    padded[WEIGHT].values[0, 3:] = 1.0  # what stands in padding is nothing
    assert Measure(WEIGHT, LARGEST).values(padded) == pytest.approx([0.9] * 6)


def test_there_is_no_start_where_step_0_was_not_recorded():
    records = toy(CURVE)
    records = records.assign_coords(step=records["step"] + 1)
    assert np.isnan(Measure(WEIGHT, START).values(records)).all()


def moving(ratio, gap):
    records = toy(gap, metric="coherence_gap")
    records["update_ratio"].values[:] = np.array(ratio, np.float32)
    return records


def test_moments_before_and_after_moving():
    records = moving((0.0, 0.2, 0.4, 0.8, 1.2), (NAN, 0.5, 0.4, 0.3, 0.1))
    assert Measure("coherence_gap", before_moving(0.5)).values(records)[0] == pytest.approx(0.4)
    assert Measure("coherence_gap", once_moved(1.0)).values(records)[0] == pytest.approx(0.1)
    assert Measure("coherence_gap", once_moved(0.8)).values(records)[0] == pytest.approx(0.3)
    assert np.isnan(Measure("coherence_gap", once_moved(2.0)).values(records)).all()
    # The gap has no value at step 0, so there is no record before moving in a run that moves at once.
    at_once = moving((0.0, 2.0, 2.0, 2.0, 2.0), (NAN, 0.5, 0.4, 0.3, 0.1))
    assert np.isnan(Measure("coherence_gap", before_moving(0.5)).values(at_once)).all()
    # The last record below counts, also where the ratio has been above before.
    back = moving((0.0, 0.2, 0.8, 0.4, 1.2), (NAN, 0.5, 0.4, 0.3, 0.1))
    assert Measure("coherence_gap", before_moving(0.5)).values(back)[0] == pytest.approx(0.3)


def test_the_time_until_a_share_is_reached():
    records = toy((0.1, 0.2, 0.3, 0.45, 0.9), (0.1, 0.1, 0.1, 0.1, 0.1))
    records["cumulative_gradient_v1_cosine"].values[:] = 0.8
    records["cumulative_gradient_v1_cosine"].values[:, 0] = NAN
    found = PassingTime(WEIGHT, "cumulative_gradient_v1_cosine", 0.5).values(records)
    relu = records["variant"].values == "Res+relu"
    assert found[relu].tolist() == [3.0] * 3
    assert found[~relu].tolist() == [4.0] * 3  # never: the last epoch, a lower bound


def test_a_combination_is_taken_inside_a_run():
    rise = Combination("rise", ((1.0, Measure(WEIGHT, LARGEST)), (-0.5, Measure(WEIGHT, START))))
    assert rise.values(toy(CURVE)) == pytest.approx([0.85] * 6)
    assert np.isnan(rise.values(toy((NAN, *CURVE[1:])))).all()
    assert math.isnan(rise.chance(toy(CURVE), 0))
    found = gather(single(Combination("gap", ((1.0, Measure("no_such", END)),)), RELU), SWEEP, toy(CURVE))
    assert "no_such" in found.problem


def test_chance_is_that_of_the_quantitys_null():
    records = toy(CURVE)
    assert WEIGHT_END.chance(records, 0) == chance_level(256)
    assert Measure("weight_v_overlap16", END).chance(records, 0) == 16 / 256
    assert math.isnan(Measure("test_accuracy", END).chance(records, 0))
    del records[WEIGHT].attrs["null"]  # as in records of an earlier format
    assert WEIGHT_END.chance(records, 0) == chance_level(256)


# --- Statistics ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statistic", "words"),
    [
        (single(WEIGHT_END, RELU), "weight v1 at the end: Res+relu"),
        (difference(WEIGHT_END, RELU, IDENTITY), "weight v1 at the end: Res+relu - Res+identity"),
        (contrast(WEIGHT_END, (1.0, RELU), (-0.5, IDENTITY)), "weight v1 at the end: Res+relu - 1/2 Res+identity"),
        (contrast(WEIGHT_END, (1.0, RELU), (0.25, IDENTITY)), "weight v1 at the end: Res+relu +0.25 x Res+identity"),
        (Statistic((Term(WEIGHT_END, RELU), Term(Measure(WEIGHT, START), IDENTITY, -1.0))),
         "weight v1 at the end (Res+relu) - weight v1 at step 0 (Res+identity)"),
    ],
)  # fmt: skip
def test_words_of_a_statistic(statistic, words):
    assert statistic.words == words


def test_only_a_single_statistic_can_have_a_chance_level():
    assert single(WEIGHT_END, RELU).is_single
    assert not difference(WEIGHT_END, RELU, IDENTITY).is_single
    assert not contrast(WEIGHT_END, (2.0, RELU)).is_single


# --- Samples -------------------------------------------------------------------------------------------------------


def test_differences_are_paired_by_seed():
    # Seeds differ by far more than the variants do: only pairing shows the difference.
    records = toy(lambda seed: constant(0.3 * seed + 0.125), lambda seed: constant(0.3 * seed))
    shuffled = records.isel(run=[4, 0, 5, 2, 1, 3])
    for dataset in (records, shuffled):
        found = gather(difference(WEIGHT_END, RELU, IDENTITY), SWEEP, dataset)
        assert found.values == pytest.approx([0.125] * 3, abs=1e-6)
        assert (found.num_seeds, found.lost, found.problem) == (3, {}, "")
        assert math.isnan(found.chance)
    assert above(0.0).decide(found.values).verdict == Verdict.SUPPORTED


def test_a_single_statistic_has_its_chance_level():
    assert gather(single(WEIGHT_END, RELU), SWEEP, toy(CURVE)).chance == chance_level(256)


def test_diverged_and_pending_runs_do_not_count_and_are_counted():
    # Runs: relu with seeds 0 to 3, then identity.
    status = ["ok", "diverged", "ok", "ok", "pending", "diverged", "ok", "ok"]
    records = toy(constant(0.5), seeds=range(4), status=status)
    records[WEIGHT].values[np.array(status) != "ok"] = 1e6  # what they have must not enter
    alone = gather(single(WEIGHT_END, RELU), SWEEP, records)
    assert (alone.values, alone.num_seeds) == (pytest.approx([0.5] * 3), 4)
    assert alone.lost == {"diverged": frozenset({1})}
    paired = gather(difference(WEIGHT_END, RELU, IDENTITY), SWEEP, records)
    assert (paired.values, paired.num_seeds) == (pytest.approx([0.0] * 2), 4)
    assert paired.lost == {"diverged": frozenset({1, 5}), "pending": frozenset({4})}


def test_a_finished_run_without_a_value_is_counted():
    records = toy(lambda seed: constant(NAN if seed == 1 else 0.5))
    found = gather(single(WEIGHT_END, RELU), SWEEP, records)
    assert (len(found.values), found.num_seeds) == (2, 3)
    assert found.lost == {"without a value": frozenset({1})}


def test_only_seeds_that_both_variants_have_are_compared():
    records = toy(constant(0.5), constant(0.2), seeds=range(4))
    fewer = records.isel(run=[0, 1, 2, 3, 6, 7])  # identity has the seeds 2 and 3
    found = gather(difference(WEIGHT_END, RELU, IDENTITY), SWEEP, fewer)
    assert (found.values, found.num_seeds, found.lost) == (pytest.approx([0.3] * 2), 2, {})
    none = gather(difference(WEIGHT_END, RELU, IDENTITY), SWEEP, records.isel(run=[0, 1, 6, 7]))
    assert none.problem == "the variants share no seed in toy"


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ({"depth": 8}, "no run of toy has depth 16; there: 8"),
        ({"activation": "gelu"}, 'no run of toy has activation "relu"; there: "gelu"'),
        ({"residual": 0.5}, "no run of toy has residual true; there: 0.5"),
    ],
)
def test_what_no_run_has_is_said(edit, problem):
    records = toy(CURVE)
    texts = [json.dumps({**json.loads(text), **edit}) for text in records["settings"].values.tolist()]
    found = gather(single(WEIGHT_END, RELU), SWEEP, records.assign_coords(settings=("run", np.array(texts))))
    assert found.problem == problem


def test_settings_that_no_run_has_together():
    both = Variant("both", {"residual": False, "activation": "relu"})
    records = toy(CURVE)
    texts = records["settings"].values.tolist()
    texts[3:] = [text.replace('"residual": true', '"residual": false') for text in texts[3:]]
    found = gather(single(WEIGHT_END, both), SWEEP, records.assign_coords(settings=("run", np.array(texts))))
    assert found.problem == "no run of toy is both"


def test_runs_are_found_by_their_settings_and_not_by_their_labels():
    records = toy(constant(0.5), constant(0.2)).assign_coords(variant=("run", np.array(["x"] * 6)))
    assert gather(single(WEIGHT_END, IDENTITY), SWEEP, records).values == pytest.approx([0.2] * 3)


def test_a_residual_of_1_is_true_and_a_tuple_lists_values():
    records = toy(CURVE)
    texts = [text.replace('"residual": true', '"residual": 1.0') for text in records["settings"].values.tolist()]
    records = records.assign_coords(settings=("run", np.array(texts)))
    any_of = Variant("any", {"residual": True, "activation": ("relu", "gelu")})
    assert len(gather(single(WEIGHT_END, any_of), SWEEP, records).values) == 3


def test_a_variant_that_is_several_is_not_mixed():
    both = Variant("Res", {"residual": True})
    found = gather(single(WEIGHT_END, both), SWEEP, toy(CURVE))
    assert found.values == ()
    assert found.problem == "Res is more than one variant of toy: they differ in activation"


def test_what_was_not_recorded_is_said():
    mean_gradient = Measure("mean_gradient_v1_cosine", END)
    found = gather(single(mean_gradient, RELU), SWEEP, toy(CURVE))
    assert found.problem.startswith("the records of toy have no mean_gradient_v1_cosine")
    records = toy(CURVE).drop_vars("update_ratio")
    assert "update_ratio" in gather(single(Measure("coherence_gap", once_moved(1.0)), RELU), SWEEP, records).problem
    assert not gather(single(WEIGHT_END, RELU), SWEEP, records).problem


def test_records_without_settings_are_refused():
    records = toy(CURVE).drop_vars("settings").assign_attrs(folder="results/toy-1")
    with pytest.raises(InputError, match="results/toy-1: the records do not say the settings"):
        gather(single(WEIGHT_END, RELU), SWEEP, records)


# --- Verdicts ------------------------------------------------------------------------------------------------------

YES, NO, OPEN, SEEN = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.UNDECIDED, Verdict.SHOWN


@pytest.mark.parametrize(
    ("premises", "parts", "verdict"),
    [
        ([], [YES], YES), ([], [NO], NO), ([], [OPEN], OPEN), ([], [YES, YES], YES), ([], [YES, NO], NO),
        ([], [OPEN, NO], NO), ([], [YES, OPEN], OPEN), ([], [YES, SEEN], YES), ([], [NO, SEEN], NO),
        ([YES], [YES], YES), ([YES], [NO], NO), ([NO], [YES], OPEN), ([OPEN], [NO], OPEN), ([YES, NO], [NO], OPEN),
        ([], [SEEN], OPEN),
    ],
)  # fmt: skip
def test_parts_make_a_verdict(premises, parts, verdict):
    assert combine(premises, parts) == verdict


def test_a_claim_needs_a_part_that_decides():
    with pytest.raises(ValueError, match="toy-claim: no part of it decides"):
        claim_of(part(single(WEIGHT_END, RELU), SHOWN), part(single(WEIGHT_END, RELU), above(0.0), premise=True))


def noisy(value):
    return lambda seed: constant(value + (-0.01, 0.0, 0.01)[seed])


def test_the_verdict_hangs_on_the_clearest_refutation_or_the_least_clear_support():
    records = toy(noisy(0.5), noisy(0.2))
    near, far, unmet = (part(single(WEIGHT_END, RELU), above(limit)) for limit in (0.4, 0.1, 0.9))
    assert judge(claim_of(far, near), records).pivot.part == near
    against_near, against_far = (part(single(WEIGHT_END, RELU), below(limit)) for limit in (0.4, 0.1))
    assert judge(claim_of(far, against_near, against_far), records).pivot.part == against_far
    premise = part(single(WEIGHT_END, RELU), above(0.9), premise=True)
    assert judge(claim_of(against_far, premise), records).pivot.part == premise
    undecided = part(single(WEIGHT_END, RELU), above(0.5))
    assert judge(claim_of(near, undecided), records).pivot.part == undecided
    assert judge(claim_of(near, undecided, unmet), records).verdict == NO


def test_lost_runs_are_counted_once_over_all_parts():
    records = toy(noisy(0.5), noisy(0.2), status=["ok", "diverged", "ok", "ok", "pending", "ok"])
    found = judge(
        claim_of(part(single(WEIGHT_END, RELU), above(0.4)), part(difference(WEIGHT_END, RELU, IDENTITY), above(0.0))),
        records,
    )
    assert found.lost == {"diverged": 1, "pending": 1}


def test_a_claim_about_chance_uses_the_chance_level_of_the_runs():
    records = toy(noisy(0.11))
    found = judge(claim_of(part(single(WEIGHT_END, RELU), above_chance(0.05))), records)
    assert found.verdict == OPEN  # 0.110 -+ 0.025 against 0.0999
    records[WEIGHT].attrs["null_dimension"] = 1024  # chance is 0.0249
    assert judge(claim_of(part(single(WEIGHT_END, RELU), above_chance(0.05))), records).verdict == YES


def test_two_results_of_one_sweep_are_refused_only_where_a_claim_asks_for_it():
    records = [toy(CURVE, attrs={"folder": folder}) for folder in ("results/toy-1", "other/toy-2")]
    claims = [claim_of(part(single(WEIGHT_END, RELU), above(0.0)))]
    with pytest.raises(InputError, match=r"results/toy-1 and other/toy-2 are both results of toy"):
        by_sweep(records, claims)
    assert list(by_sweep(records[:1], claims)) == ["toy"]
    assert by_sweep([one.assign_attrs(name="quickstart") for one in records], claims) == {}
