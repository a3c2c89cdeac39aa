import math

import numpy as np
import pandas as pd
import pytest

from geocont_jax.analysis.summary import STATISTICS, axes_of, summarise, write_summary
from geocont_jax.geometry.null import chance_level, z_score
from tests.analysis.records import FAMILIES, SCALARS, set_last, sweep_records

TWO = {"residual": [True, False]}


def test_a_row_per_variant_in_order_of_first_appearance():
    records = sweep_records({"activation": ["relu", "identity", "gelu"]}, seeds=(0, 1))
    shuffled = records.isel(run=[4, 0, 5, 2, 1, 3])
    assert [row["activation"] for row in summarise(shuffled)] == ["gelu", "relu", "identity"]
    assert [row["n_ok"] for row in summarise(shuffled)] == [2, 2, 2]


def test_columns_are_complete():
    row = summarise(sweep_records(TWO))[0]
    cosines = [f"{family}_{side}_cosine" for family in FAMILIES for side in ("v1", "u1")]
    metrics = [*cosines, *(f"{family}_gap" for family in FAMILIES), *SCALARS]
    expected = {"residual", "variant", "n_ok", "n_diverged", "n_pending"}
    expected |= {f"{metric}_{statistic}" for metric in metrics for statistic in STATISTICS}
    expected |= {f"{metric}_{extra}" for metric in cosines for extra in ("chance", "z")}
    assert set(row) == expected


def test_layers_are_averaged_inside_a_run_and_the_unit_is_the_seed():
    records = sweep_records({}, pairs=4)
    # Spread over pairs, which must not enter the interval; float32 holds these eighths exactly.
    spread = np.array([-0.25, -0.125, 0.125, 0.25], np.float32)
    records.weight_v1_cosine.values[:, -1] = np.array([[0.375], [0.5], [0.625]], np.float32) + spread
    row = summarise(records)[0]
    assert row["weight_v1_cosine_mean"] == 0.5
    assert row["weight_v1_cosine_sd"] == pytest.approx(0.125, abs=1e-15)
    assert row["weight_v1_cosine_n"] == 3
    assert row["weight_v1_cosine_chance"] == chance_level(256)
    assert row["weight_v1_cosine_z"] == pytest.approx(z_score(0.5, 256, 4, 3))


def test_the_last_record_is_each_runs_own():
    records = sweep_records(TWO, seeds=(0,), steps=(0, 4, 8))
    values = np.array([[0.1, 0.2, 0.3], [0.1, 0.6, np.nan]], np.float32)
    records["test_accuracy"] = (("run", "record"), values)
    for padding in (-1, np.nan):
        steps = np.array([[0, 4, 8], [0, 4, padding]])
        padded = records.drop_vars(["step", "epoch"]).assign_coords(step=(("run", "record"), steps))
        means = [row["test_accuracy_mean"] for row in summarise(padded)]
        assert means == pytest.approx([0.3, 0.6], rel=1e-6)


def test_diverged_and_pending_runs_are_counted_and_not_averaged():
    records = sweep_records(TWO, status=["ok", "diverged", "ok", "diverged", "pending", "diverged"])
    set_last(records, "test_accuracy", [0.25, math.nan, 0.75, math.nan, 0.1, math.nan])
    first, second = summarise(records)
    assert [first[f"n_{status}"] for status in ("ok", "diverged", "pending")] == [2, 1, 0]
    assert (first["test_accuracy_mean"], first["test_accuracy_n"]) == (0.5, 2)
    assert [second[f"n_{status}"] for status in ("ok", "diverged", "pending")] == [0, 2, 1]
    assert second["test_accuracy_n"] == 0
    assert math.isnan(second["test_accuracy_mean"])
    assert math.isnan(second["weight_v1_cosine_z"])


def test_pairs_without_a_direction_are_left_out_of_mean_and_z():
    records = sweep_records({}, seeds=(0, 1), pairs=4)
    set_last(records, "gradient_v1_cosine", [0.25, 0.75])
    records.gradient_v1_cosine.values[0, -1, 1:] = np.nan
    row = summarise(records)[0]
    assert row["gradient_v1_cosine_mean"] == 0.5
    # Run means over 1 and 4 pairs: the variance of their mean is (1 + 1/4) / 4 of one |cos|'s.
    assert row["gradient_v1_cosine_z"] == pytest.approx(z_score(0.5, 256, 1, 1) / math.sqrt((1 + 1 / 4) / 4))


def test_a_run_without_any_direction_has_no_value():
    records = set_last(sweep_records({}, seeds=(0, 1)), "gradient_v1_cosine", [math.nan, 0.5])
    row = summarise(records)[0]
    assert (row["n_ok"], row["gradient_v1_cosine_n"], row["gradient_v1_cosine_mean"]) == (2, 1, 0.5)


def test_chance_follows_a_width_that_differs_between_runs():
    records = sweep_records({"width": [16, 256]}, dimension="width")
    assert [row["weight_v1_cosine_chance"] for row in summarise(records)] == [chance_level(16), chance_level(256)]


LABELS = {
    "residual": [True, False, True],
    "activation": ["identity", "relu", "radial"],
    "norm": ["none", "layernorm", "none"],
    "learning_rate": [1e-3, 0.1, 1e-20],
    "width": [16, 64, 256],
    "name": ["mnist10k", 'npz:/data/a "b", c.npz', "npz:/data/é\n2.npz"],
}


def test_pandas_reads_every_label_and_type_back(tmp_path):
    records = sweep_records(LABELS, status=["ok"] * 8 + ["diverged"])
    set_last(records, "test_accuracy", [math.nan] * 3 + [0.5] * 6)
    rows = summarise(records)
    write_summary(rows, tmp_path / "summary.csv")
    table = pd.read_csv(tmp_path / "summary.csv")
    assert table.columns.tolist() == list(rows[0])
    for name, values in LABELS.items():
        assert table[name].tolist() == values, name
    assert table["residual"].dtype == bool
    assert table["learning_rate"].dtype == np.float64
    assert table["width"].dtype == np.int64
    assert table["variant"].tolist() == [row["variant"] for row in rows]
    assert table["n_ok"].tolist() == [3, 3, 2]
    assert table["weight_v1_cosine_mean"].tolist() == [row["weight_v1_cosine_mean"] for row in rows]
    assert table["test_accuracy_mean"].isna().tolist() == [True, False, False]


@pytest.mark.parametrize("label", ["identity", "none"])
def test_a_label_that_looks_like_nothing_stays_a_label(label, tmp_path):
    write_summary(summarise(sweep_records({"activation": [label]})), tmp_path / "summary.csv")
    assert pd.read_csv(tmp_path / "summary.csv")["activation"].tolist() == [label]


def test_labels_may_be_python_objects():
    records = sweep_records({"activation": ["relu", "identity"], "residual": [True, False]})
    objects = records.assign_coords({n: ("run", records[n].values.astype(object)) for n in ("activation", "variant")})
    assert summarise(objects) == summarise(records)


def test_a_grid_without_axes_has_one_row():
    (row,) = summarise(sweep_records({}))
    assert row["variant"] == "base"
    assert axes_of(sweep_records({})) == []


def test_the_file_is_replaced_in_one_move(tmp_path, monkeypatch):
    path = tmp_path / "summary.csv"
    rows = summarise(sweep_records(TWO))
    write_summary(rows, path)
    before = path.read_bytes()

    class Full(OSError):
        pass

    def full(*_):
        raise Full

    monkeypatch.setattr("geocont_jax.analysis.summary._cell", full)
    with pytest.raises(Full):
        write_summary(rows, path)
    assert path.read_bytes() == before
    monkeypatch.undo()
    write_summary(rows, path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.csv"]


def test_the_data_set_is_not_changed():
    records = sweep_records(TWO)
    before = records.copy(deep=True)
    summarise(records)
    assert records.identical(before)
