import json
import math

import numpy as np
import pytest

from geocont_jax.analysis.table import WIDTH, format_table
from tests.analysis.records import set_last, sweep_records

GRID = {
    "residual": [True, True, False, False],
    "activation": ["relu", "identity", "relu", "identity"],
    "init_scale": [1.0, 0.3, 1.0, 1.0],
}
TOY = {"kind": "residual_mlp", "name": "mnist10k", "depth": 16, "width": 256, "optimizer": "adam", "norm": "none"}


def with_settings(records):
    names = json.loads(records.attrs["axes"])
    columns = zip(*(records[name].values.tolist() for name in names), strict=True)
    settings = [json.dumps({**TOY, **dict(zip(names, cell, strict=True))}) for cell in columns]
    return records.assign_coords(settings=("run", np.array(settings)))


def blocks(text):
    """Return the table's blocks as lists of lines: without title and legend."""
    return [part.splitlines() for part in text.split("\n\n")[1:-1]]


def test_means_and_half_widths_are_those_of_the_seeds():
    records = set_last(sweep_records({"activation": ["relu"]}), "weight_v1_cosine", [0.80, 0.82, 0.78])
    text = format_table(records)
    assert "0.800 ±0.050" in text
    assert "0.050 (d = 256)" in text


def test_columns_stand_in_line_and_fit_the_width():
    records = with_settings(sweep_records(GRID))
    for lines in blocks(format_table(records)):
        head, rule, *rows = lines
        assert len(rows) == 4
        assert set(rule) == {"-"}
        assert max(map(len, lines)) <= WIDTH
        for name in head.split():
            if name == "activation":
                assert [row[head.index(name) :].split()[0] for row in rows] == GRID["activation"]
    assert max(map(len, format_table(records).splitlines())) <= WIDTH


@pytest.mark.parametrize("width", [40, 80, 120, 200, None])
def test_no_column_is_lost_at_any_width(width):
    text = format_table(with_settings(sweep_records(GRID)), width)
    parts = blocks(text)
    heads = " | ".join(lines[0] for lines in parts)
    for name in ("weight v1", "chance", "z", "gradient v1", "test accuracy", "weight u1", "update v1",
                 "cumul. grad. v1", "|W-W0|/|W0|", "paper"):  # fmt: skip
        assert name in heads
    assert all(lines[0].startswith("residual  activation  init_scale  n") for lines in parts)
    assert len(parts) == 1 if width is None else len(parts) >= 1


def test_labels_are_plain():
    text = format_table(sweep_records({"residual": [True, False], "learning_rate": [1e-3, 0.123456789]}))
    rows = blocks(text)[0][2:]
    assert rows[0].split()[:2] == ["true", "0.001"]
    assert rows[1].split()[:2] == ["false", "0.123456789"]
    assert set(text) - {"±"} <= set(map(chr, range(128)))


def test_the_papers_value_stands_beside_ours_only_where_there_is_one():
    head, _, *rows = blocks(format_table(with_settings(sweep_records(GRID | {"init_scale": [1.0] * 4})), None))[0]
    weight, gradient = head.index("paper"), head.rindex("paper")
    assert weight < head.index("gradient v1") < gradient
    assert [row[weight : weight + 5].strip() for row in rows] == ["", "0.22", "", ""]
    assert [row[gradient : gradient + 5].strip() for row in rows] == ["", "0.93", "0.05", "0.05"]


def test_without_a_published_value_there_is_no_word_of_it():
    assert "paper" not in format_table(sweep_records({"activation": ["relu", "tanh"]}))


def test_without_resolved_settings_the_axes_are_compared():
    assert "0.22" in format_table(sweep_records({"residual": [True], "activation": ["identity"]}))


def test_a_single_seed_has_no_bar():
    text = format_table(sweep_records({"activation": ["relu"]}, seeds=(7,)))
    assert "0.500 ±-" in text
    assert "a single seed has no interval" in text
    assert "single seed" not in format_table(sweep_records({"activation": ["relu"]}))


def test_diverged_runs_are_counted_and_named():
    records = sweep_records(
        {"init_scale": [1.0, 1e20]},
        status=["ok", "ok", "diverged", "diverged", "diverged", "diverged"],
        diverged_at=[-1, -1, 1204, 0, 0, 0],
    )
    set_last(records, "weight_v1_cosine", [0.5, 0.5, *[math.nan] * 4])
    text = format_table(records)
    rows = blocks(text)[0][2:]
    assert rows[0].startswith("1.0         2 of 3  0.500 ±0.000")
    assert rows[1].startswith("1e+20       0 of 3      -")
    assert "warning: left out of the means, 4 diverged runs:" in text
    assert "  init_scale=1.0, seed 2: diverged at step 1,204" in text
    assert "-: no value: no finished run" in text


def test_many_diverged_runs_are_not_all_listed():
    records = sweep_records({"init_scale": [1e20]}, seeds=range(25), status=["diverged"] * 25, diverged_at=[3] * 25)
    text = format_table(records)
    assert text.count("diverged at step 3") == 10
    assert "and 15 more" in text


def test_pending_runs_are_counted():
    text = format_table(sweep_records({"activation": ["relu"]}, status=["ok", "pending", "pending"]))
    assert "1 of 3" in text
    assert "warning: 2 runs not finished" in text


def test_no_finite_run_at_all():
    records = sweep_records({}, status=["diverged"] * 3, diverged_at=[0] * 3, fill=math.nan)
    text = format_table(records)
    assert "0 of 3" in text
    assert "nan" not in text
    assert "3 diverged runs" in text


def test_layers_without_a_direction_are_counted_with_the_reason():
    records = sweep_records({"activation": ["relu", "tanh"]}, status=["ok"] * 5 + ["diverged"], pairs=3)
    records.gradient_defect.values[0, -1, :2] = 2
    records.update_defect.values[:, 0] = 1  # W - W0 is zero at step 0, which is not the last record
    records.update_defect.values[1, -1] = 1
    records.cumulative_gradient_defect.values[5, -1] = 3
    text = format_table(records)
    assert "in finished runs: update zero in 4, gradient degenerate in 2." in text
    assert "without a direction" not in format_table(sweep_records({"activation": ["relu"]}))


def test_the_title_says_which_record():
    assert format_table(sweep_records({})).splitlines()[0].endswith("at step 8 (epoch 2)")
    records = sweep_records({"epochs": [1, 2]}, seeds=(0,), steps=(0, 400, 800))
    steps = np.array([[0, 400, -1], [0, 400, 800]])
    padded = records.drop_vars(["step", "epoch"]).assign_coords(
        step=(("run", "record"), steps), epoch=(("run", "record"), np.where(steps < 0, np.nan, steps / 400))
    )
    assert format_table(padded).splitlines()[0].endswith("at step 400 to 800 (epoch 1 to 2)")


def test_every_width_has_its_chance_level():
    text = format_table(sweep_records({"width": [16, 256]}, dimension="width"))
    assert "0.199 (d = 16), 0.050 (d = 256)" in text


def test_a_hundred_variants():
    records = sweep_records({"learning_rate": [10.0**-i for i in range(100)]}, seeds=(0, 1))
    for lines in blocks(format_table(records)):
        assert len(lines) == 102
        assert max(map(len, lines)) <= WIDTH
