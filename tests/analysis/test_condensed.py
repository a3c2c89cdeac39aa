import doctest
import json
import math

import numpy as np
import pytest

from geocont_jax.analysis import condensed as module
from geocont_jax.analysis.condensed import average, condense, expand, merge, source_attrs, sources_of
from geocont_jax.analysis.summary import metrics, run_means, summarise
from geocont_jax.analysis.table import format_table
from tests.analysis.full_records import FAMILIES, full_records, label

AXES = {"activation": ["relu", "identity"], "residual": [True, False]}
# A mean kept as float32: half a unit in its last place. What is made of it by sums and products keeps that share.
SINGLE = 2.0**-24


def with_source(condensed, **source):
    """Say where the runs come from, as the results command does."""
    zeros = np.zeros(condensed.sizes["run"], np.int32)
    return condensed.assign_coords(source=("run", zeros)).assign_attrs(source_attrs([source]))


def condensed(axes=AXES, seeds=(0, 1, 2), commit="a", **options):
    return with_source(condense(full_records(axes, seeds, depth=5, **options)), commit=commit)


def with_gaps(records):
    """Leave some pairs and layers without a value, in some runs, and one run without any."""
    records.weight_v1_cosine.values[0, -1, :2] = np.nan
    records.gradient_v1_cosine.values[1, -1] = np.nan
    records.weight_effective_rank.values[2, 1, 3] = np.nan
    records.gradient_defect.values[1, -1] = 2
    return records


def sorted_runs(dataset):
    return dataset.isel(run=np.argsort(dataset["identity"].values))


def same_numbers(found, expected):
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert set(row) <= set(other)
        for name, value in row.items():
            if isinstance(value, float):
                # z and the interval's ends are differences of means: their error is that of what they are made of.
                scale = max(1.0, abs(other[name])) * (200 if name.endswith("_z") else 20)
                assert value == pytest.approx(other[name], abs=scale * SINGLE, nan_ok=True), name
            else:
                assert value == other[name], name


def test_examples():
    assert doctest.testmod(module).failed == 0


def test_an_average_is_over_the_values_that_are_there():
    records = with_gaps(full_records(AXES, depth=5))
    for name in ("weight_v1_cosine", "gradient_v1_cosine", "weight_effective_rank", "train_loss"):
        found, values = average(records[name]), records[name].values.astype(float)
        for run in range(records.sizes["run"]):
            for record in range(records.sizes["record"]):
                there = [value for value in np.ravel(values[run, record]) if not math.isnan(value)]
                assert found.number[run, record] == len(there)
                mean = sum(there) / len(there) if there else math.nan
                assert found.mean[run, record] == pytest.approx(mean, rel=1e-14, nan_ok=True)


def test_at_the_last_record_it_is_the_run_mean_of_the_summary():
    records = with_gaps(full_records(AXES, depth=5))
    for name in metrics(records):
        found, expected = average(records[name]), run_means(records[name])
        np.testing.assert_array_equal(found.mean[:, -1], expected.mean)
        np.testing.assert_array_equal(found.number[:, -1], expected.number)


def test_what_is_kept_and_in_which_form():
    full = full_records(AXES, depth=5)
    small = condense(full)
    assert small.weight_v1_cosine.dims == ("run", "record")
    assert small.weight_v1_cosine.dtype == np.float32
    assert small.weight_v1_cosine.attrs["averaged_over"] == "pair"
    assert small.weight_effective_rank.attrs["averaged_over"] == "layer"
    assert small.weight_u1_drift.dims == ("run", "record")
    assert small.weight_v1_drift.dims == ("run", "record", "layer")
    assert small.weight_v1_matrix.dims == ("run", "layer", "other_layer")
    assert (small.weight_v1_drift.dtype, small.weight_v1_matrix.dtype) == (np.float32, np.float16)
    assert small.gradient_defect.identical(full.gradient_defect)
    assert small.update_ratio.identical(full.update_ratio)
    assert set(full.coords) <= set(small.coords)
    assert small.num_values.sel(metric="weight_v1_cosine").values.tolist() == [[4] * 5] * 6
    assert small.num_values.sel(metric="update_v1_cosine").values[:, :2].tolist() == [[0, 4]] * 6


def test_readings_and_matrices_of_lesser_families_are_left_out():
    small = condense(full_records({}, depth=5))
    for family in FAMILIES:
        assert f"{family}_v_alignment" in small
        assert f"{family}_u1_cosine" in small
        has_readings = family in ("weight", "cumulative_gradient")
        assert (f"{family}_u_alignment_best" in small) == (family == "weight")
        assert (f"{family}_u_alignment_full" in small) == has_readings
        assert (f"{family}_v_overlap16" in small) == has_readings
        assert (f"{family}_v1_matrix" in small) == (has_readings or family == "gradient")


def test_summary_and_table_are_those_of_the_full_records():
    full = with_gaps(full_records(AXES, seeds=(0, 1, 2), depth=5, status=["ok"] * 4 + ["diverged", "pending"],
                                  diverged_at=[-1] * 4 + [7, -1]))  # fmt: skip
    again = expand(condense(full))
    same_numbers(summarise(again), summarise(full))
    assert {name.removesuffix("_mean") for name in summarise(again)[0] if name.endswith("_mean")} == {
        name for name in metrics(full) if name in again
    }
    assert format_table(again) == format_table(full)


def test_it_changes_nothing_that_it_is_given():
    full = full_records(AXES, depth=5)
    before = full.copy(deep=True)
    small = condense(full)
    kept = small.copy(deep=True)
    expand(small)
    assert full.identical(before)
    assert small.identical(kept)


def test_to_condense_undoes_to_expand():
    small = condensed()
    assert condense(expand(small)).identical(small)


def test_expanded_records_have_the_usual_dimensions():
    again, full = expand(condensed()), full_records(AXES, depth=5)
    for name in again.data_vars:
        assert again[name].dims == full[name].dims
        assert again[name].shape == full[name].shape
        assert again[name].dtype == full[name].dtype
    np.testing.assert_array_equal(again.weight_v1_drift, full.weight_v1_drift)
    # Half precision keeps 11 bits, and steps of 2^-24 near zero.
    np.testing.assert_allclose(again.weight_v1_matrix, full.weight_v1_matrix, rtol=2.0**-11, atol=2.0**-24)


def test_records_of_the_old_kind_are_condensed_too():
    full = full_records(AXES, depth=5)
    basic = full[["weight_v1_cosine", "weight_defect", "test_accuracy"]]
    same_numbers(summarise(expand(condense(basic))), summarise(basic))


@pytest.mark.parametrize("new_first", [False, True])
def test_seeds_run_apart_become_one_study(new_first):
    parts = [condensed(seeds=(0, 1)), condensed(seeds=(2,), commit="b")]
    merged = merge(*(parts[::-1] if new_first else parts), label)
    together = condensed()
    for name in together.data_vars:
        np.testing.assert_array_equal(sorted_runs(merged)[name], sorted_runs(together)[name])
    same_numbers(
        sorted(summarise(expand(merged)), key=lambda row: row["variant"]),
        sorted(summarise(full_records(AXES, depth=5)), key=lambda row: row["variant"]),
    )


def test_merging_with_itself_or_a_part_changes_nothing():
    together = condensed()
    assert merge(together, together, label).identical(together)
    assert merge(together, condensed(seeds=(1,)), label).identical(together)


def test_the_larger_study_gives_the_order():
    small, large = condensed(seeds=(2,)), condensed()
    assert merge(small, large, label)["seed"].values.tolist() == [0, 1, 2] * 2
    assert merge(large, small, label)["seed"].values.tolist() == [0, 1, 2] * 2
    assert merge(small, condensed(seeds=(0, 1)), label)["seed"].values.tolist() == [2, 2, 0, 1, 0, 1]


def test_finished_runs_win_over_unfinished_ones():
    unfinished = condensed(seeds=(0, 1), status=["pending", "ok", "pending", "pending"])
    finished = condensed(seeds=(0, 1), status=["ok", "pending", "diverged", "pending"],
                         diverged_at=[-1, -1, 9, -1])  # fmt: skip
    for pair in ((unfinished, finished), (finished, unfinished)):
        merged = merge(*pair, label)
        assert merged["status"].values.tolist() == ["ok", "ok", "diverged", "pending"]
        assert merged["diverged_at"].values.tolist() == [-1, -1, 9, -1]
        # Unfinished runs of the synthetic records are 123 throughout.
        assert (merged.train_loss.values[:2] < 10).all()


def test_of_two_finished_runs_the_new_one_is_taken():
    old, new = condensed(commit="old"), condensed(commit="new")
    new["test_accuracy"] = new.test_accuracy + 1
    np.testing.assert_array_equal(merge(old, new, label).test_accuracy, new.test_accuracy)
    np.testing.assert_array_equal(merge(new, old, label).test_accuracy, old.test_accuracy)


def test_of_two_unfinished_runs_the_further_one_is_taken():
    near, far = (condensed({}, seeds=(0,), status=["pending"]) for _ in range(2))
    for part, reached in ((near, 1), (far, 3)):
        for variable in part.data_vars.values():
            if np.issubdtype(variable.dtype, np.floating) and "record" in variable.dims:
                variable.values[:, reached:] = np.nan
    for pair in ((near, far), (far, near)):
        assert np.isfinite(merge(*pair, label).train_loss.values).sum() == 3


@pytest.mark.parametrize("new_first", [False, True])
def test_shorter_schedules_are_padded(new_first):
    short = condensed({"epochs": [2]}, epochs=2, seeds=(0, 1))
    long = condensed({"epochs": [4]}, epochs=4, seeds=(0, 1))
    parts = (long, short) if new_first else (short, long)
    merged = merge(*parts, label)
    steps = {"epochs=2": [0, 468, 936, -1, -1], "epochs=4": [0, 468, 936, 1404, 1872]}
    by_run = zip(merged["variant"].values.tolist(), merged["step"].transpose("run", "record").values, strict=True)
    assert all(step.tolist() == steps[variant] for variant, step in by_run)
    expected = summarise(expand(short)) + summarise(expand(long))
    found = summarise(expand(merged))
    same_numbers(sorted(found, key=lambda row: row["epochs"]), expected)
    rows = merged.isel(run=(merged["epochs"] == 2).values)
    assert np.isnan(rows.weight_v1_cosine.values[:, 3:]).all()
    assert np.isnan(rows.epoch.values[:, 3:]).all()
    assert (rows.num_values.values[:, 3:] == 0).all()


def test_one_schedule_for_all_stays_one():
    merged = merge(condensed(seeds=(0,)), condensed(seeds=(1,)), label)
    assert merged["step"].dims == ("record",)


def test_axes_of_both_name_the_variants():
    first = condensed({"activation": ["relu", "gelu"]}, seeds=(0,))
    second = condensed({"activation": ["relu"], "residual": [False]}, seeds=(0,))
    merged = merge(first, second, label)
    assert json.loads(merged.attrs["axes"]) == ["activation", "residual"]
    assert merged["variant"].values.tolist() == [
        "activation=relu residual=true",
        "activation=gelu residual=true",
        "activation=relu residual=false",
    ]
    assert merged["residual"].values.tolist() == [True, True, False]


def test_a_setting_that_comes_to_differ_becomes_an_axis():
    first = condensed({"activation": ["relu"]}, seeds=(0,), width=256)
    second = condensed({"activation": ["relu"]}, seeds=(0,), width=64)
    merged = merge(first, second, label)
    assert json.loads(merged.attrs["axes"]) == ["activation", "width"]
    assert merged["width"].values.tolist() == [256, 64]
    assert merged.weight_v1_cosine.attrs["null_dimension"] == "width"
    chances = [row["weight_v1_cosine_chance"] for row in summarise(expand(merged))]
    assert chances == [summarise(expand(part))[0]["weight_v1_cosine_chance"] for part in (first, second)]


def test_mixed_values_of_an_axis_keep_a_plain_type():
    merged = merge(condensed({"residual": [True]}, seeds=(0,)), condensed({"residual": [0.5]}, seeds=(0,)), label)
    assert merged["residual"].values.tolist() == [1.0, 0.5]
    assert merged["variant"].values.tolist() == ["residual=true", "residual=0.5"]


def test_networks_of_different_depth_are_padded():
    shallow = with_source(condense(full_records({"depth": [3]}, depth=3)))
    deep = with_source(condense(full_records({"depth": [6]}, depth=6)))
    merged = merge(shallow, deep, label)
    assert json.loads(merged.attrs["sizes"])["pair"] == 5
    same_numbers(summarise(expand(merged)), summarise(expand(shallow)) + summarise(expand(deep)))
    assert np.isnan(merged.weight_v1_matrix.values[:3, 3:]).all()


@pytest.mark.parametrize("new_first", [False, True])
def test_what_one_did_not_record_has_no_value(new_first):
    rich, poor = condensed(seeds=(0,)), condensed(seeds=(1,), families=("weight", "gradient"))
    merged = merge(*((poor, rich) if new_first else (rich, poor)), label)
    of_poor = merged.isel(run=(merged["seed"] == 1).values)
    assert np.isnan(of_poor.update_v1_cosine.values).all()
    assert (of_poor.num_values.sel(metric="update_v1_cosine").values == 0).all()
    rows = summarise(expand(merged))
    assert [row["update_v1_cosine_n"] for row in rows] == [1, 1]
    assert [row["weight_v1_cosine_n"] for row in rows] == [2, 2]


def test_every_run_says_where_it_comes_from():
    first, second = condensed(seeds=(0, 1), commit="a"), condensed(seeds=(1, 2), commit="b")
    merged = merge(first, second, label)
    sources = sources_of(merged)
    commits = [sources[number]["commit"] for number in merged["source"].values]
    assert dict(zip(merged["seed"].values.tolist(), commits, strict=True)) == {0: "a", 1: "b", 2: "b"}
    assert merged.attrs["commit"] == "a; b"
    replaced = merge(merged, condensed(commit="c"), label)
    assert [source["commit"] for source in sources_of(replaced)] == ["c"]


def test_sources_are_told_once_and_unknown_ones_are_left_out():
    attrs = source_attrs([
        {"commit": "a", "date": "2026-01-01", "machine": "m", "versions": {"jax": "1"}},
        {"commit": "b", "date": "2026-01-02", "machine": "m", "versions": {"jax": "1"}},
        {},
    ])  # fmt: skip
    assert (attrs["commit"], attrs["date"], attrs["machine"]) == ("a; b", "2026-01-01; 2026-01-02", "m")
    assert json.loads(attrs["versions"]) == {"jax": "1"}
    assert len(json.loads(attrs["sources"])) == 3
