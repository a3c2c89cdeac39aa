import doctest
import re

import numpy as np
import pytest

from geocont_jax.analysis import results as module
from geocont_jax.analysis.condensed import source_attrs
from geocont_jax.analysis.figures import DRAWINGS
from geocont_jax.analysis.figures_style import MAX_PANELS
from geocont_jax.analysis.results import MAX_LISTED, METRICS, ORDER, TABLES, document, section, table_rows
from geocont_jax.analysis.summary import summarise
from tests.analysis.full_records import TABLE_1, full_records
from tests.analysis.records import set_last, sweep_records

FIGURES = [drawing.name for drawing in DRAWINGS]
SOURCE = {
    "commit": "0123456789abcdef+",
    "date": "2026-12-01",
    "machine": "1 x H",
    "versions": {"jax": "0.10.2", "geocont_jax": "0.1.0", "numpy": "2.4"},
    "command": "python -m geocont_jax.sweep sweeps/tiny.yaml --set seeds=5",
}


def with_source(records, *sources, number=None):
    numbers = np.zeros(records.sizes["run"], np.int32) if number is None else np.array(number, np.int32)
    return records.assign_coords(source=("run", numbers)).assign_attrs(source_attrs(sources))


def text_of(records, figures=()):
    return section(records, summarise(records), figures)


def tables_of(text):
    """Return the Markdown tables as lists of rows by column."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()]
        found.append([dict(zip(lines[0], line, strict=True)) for line in lines[2:]])
    return found


def number(cell):
    return [float(part) for part in cell.split(" ± ")]


def test_examples():
    assert doctest.testmod(module).failed == 0


def test_the_numbers_are_those_of_the_records():
    records = full_records(TABLE_1, depth=16)
    rows = summarise(records)
    tables = tables_of(text_of(records))
    assert len(tables) == len(TABLES)
    for table, metrics in zip(tables, TABLES, strict=True):
        assert len(table) == 11
        for line, row in zip(table, rows, strict=True):
            assert line["activation"] == row["activation"]
            assert line["residual"] == str(row["residual"]).lower()
            assert line["n"] == "3"
            for metric, (head, digits) in metrics.items():
                mean, half = number(line[head])
                # Rounded to these digits.
                assert mean == pytest.approx(row[f"{metric}_mean"], abs=0.5 * 10.0**-digits + 1e-12)
                width = (row[f"{metric}_ci95_high"] - row[f"{metric}_ci95_low"]) / 2
                assert half == pytest.approx(width, abs=0.5 * 10.0**-digits + 1e-12)
    for line, row in zip(tables[0], rows, strict=True):
        assert float(line["chance"]) == pytest.approx(row["weight_v1_cosine_chance"], abs=5e-4)
        assert float(line["z"]) == pytest.approx(row["weight_v1_cosine_z"], abs=0.05 + 1e-9)


def test_a_mean_known_by_hand():
    records = set_last(sweep_records({"activation": ["relu"]}), "weight_v1_cosine", [0.80, 0.82, 0.78])
    (line,) = tables_of(text_of(records))[0]
    assert line["weight v1"] == "0.800 ± 0.050"
    assert line["chance"] == "0.050"


def test_the_papers_values_stand_beside_ours():
    table = tables_of(text_of(full_records(TABLE_1)))[0]
    shown = {
        (line["residual"], line["activation"], line["norm"]): (
            line["weight v1, paper"],
            line["gradient v1, paper"],
            line["weight v alignment, paper"],
        )
        for line in table
    }
    assert shown["true", "identity", "none"] == ("0.22", "0.93", "")
    assert shown["true", "radial", "none"] == ("0.22", "", "")
    assert shown["false", "relu", "none"] == ("", "0.05", "")
    assert shown["true", "relu", "none"] == ("", "", "0.249")
    assert shown["true", "identity", "layernorm"] == ("", "", "0.303")
    assert shown["true", "gelu", "none"] == ("", "", "")


def test_other_studies_are_not_compared():
    records = full_records({"activation": ["identity"], "init_scale": [0.3]})
    assert "paper" not in text_of(records)


def test_diverged_and_unfinished_runs_are_named_and_not_averaged():
    records = full_records(
        {"activation": ["relu", "gelu"]},
        depth=5,
        status=["ok", "diverged", "pending", "diverged", "diverged", "pending"],
        diverged_at=[-1, 1204, -1, 0, 3, -1],
    )
    text = text_of(records)
    assert "runs: 1 ok, 3 diverged, 2 pending; 2 variants, seeds 0–2" in text
    assert "diverged and left out: relu seed 1 (step 1,204), gelu seed 0 (step 0), gelu seed 1 (step 3)." in text
    assert "not finished and left out: 1 of relu, 1 of gelu." in text
    first, second = tables_of(text)[0]
    assert (first["n"], second["n"]) == ("1 of 3", "0 of 3")
    mean = float(records.weight_v1_cosine.values[0, -1].astype(float).mean())
    assert number(first["weight v1"]) == pytest.approx([mean], abs=5e-4)
    assert second["weight v1"] == second["z"] == "–"
    assert "123" not in "".join(first.values()) + "".join(second.values())


def test_many_diverged_runs_are_not_all_listed():
    records = sweep_records({"init_scale": [1e20]}, seeds=range(25), status=["diverged"] * 25, diverged_at=[3] * 25)
    text = text_of(records)
    assert text.count("(step 3)") == MAX_LISTED
    assert f"{25 - MAX_LISTED} more" in text
    assert "there is no value yet" in text


def test_a_single_seed_has_no_interval():
    text = text_of(full_records({"activation": ["relu", "gelu"]}, seeds=(7,), depth=5), FIGURES)
    assert all("±" not in cell for table in tables_of(text) for line in table for cell in line.values())
    assert "nan" not in text
    assert "Mean over 1 seed; no bands, a single seed has no interval." in text
    assert "seeds 7" in text


def test_a_value_of_fewer_runs_says_so():
    records = full_records({}, depth=5)
    records.gradient_v1_cosine.values[0, -1] = np.nan
    records.gradient_defect.values[0, -1] = 1
    text = text_of(records)
    assert tables_of(text)[0][0]["gradient v1"].endswith("(n = 2)")
    assert "layers without a leading direction, and why: gradient zero in 5." in text


def test_absent_quantities_have_no_column():
    first, second = tables_of(text_of(sweep_records({"activation": ["relu"]})))
    assert list(first[0]) == ["activation", "n", "weight v1", "chance", "z", "gradient v1", "test accuracy"]
    assert list(second[0]) == [
        "activation", "n", "cumulative gradient v1", "update v1", "‖W−W0‖/‖W0‖", "weight u1",
    ]  # fmt: skip
    losses = sweep_records({"activation": ["relu"]})[["train_loss"]]
    assert tables_of(text_of(losses)) == []


def test_where_it_comes_from():
    other = {**SOURCE, "commit": "fedcba9876543210", "date": "2026-12-02", "machine": "2 cores of X"}
    records = with_source(full_records({}, depth=3), SOURCE, other, number=[0, 0, 1])
    text = text_of(records)
    assert "- from: 2 runs; 2026-12-01; 1 x H; commit `0123456789ab+`; geocont_jax 0.1.0, jax 0.10.2, numpy 2.4" in text
    assert "- from: 1 run; 2026-12-02; 2 cores of X; commit `fedcba987654`; geocont_jax" in text
    assert "base settings `0a1b2c3d`" in text
    assert "trained for 4 epochs (1,872 steps)" in text


def test_sessions_that_shared_the_seeds_are_told_as_one():
    other = {**SOURCE, "command": SOURCE["command"].replace("5", "[7, 8]")}
    text = text_of(with_source(full_records({}, depth=3), SOURCE, other, number=[0, 1, 1]))
    assert text.count("- from: ") == text.count("- from: 3 runs; ") == 1
    assert "run again: `python -m geocont_jax.sweep sweeps/tiny.yaml`, with the seeds below\n" in text


@pytest.mark.parametrize("extra", ["--smoke", "--set model.width=64"])
def test_what_else_was_asked_for_stays_in_the_command(extra):
    source = {**SOURCE, "command": f"python -m geocont_jax.sweep sweeps/tiny.yaml {extra}"}
    text = text_of(with_source(full_records({}, depth=3), source))
    assert f"run again: `python -m geocont_jax.sweep sweeps/tiny.yaml {extra}`\n" in text


def test_without_a_source_the_command_is_that_of_the_sweeps_file():
    text = text_of(with_source(full_records({}, depth=3), {}))
    assert "run again: `python -m geocont_jax.sweep sweeps/synthetic.yaml`" in text
    assert "from: 3 runs; commit unknown" in text


def test_figures_have_captions_and_only_those_that_were_drawn():
    text = text_of(full_records({}, depth=3), ["v1", "drift"])
    assert re.findall(r"!\[.*?\]\((.*?)\)", text) == ["figures/synthetic-v1.png", "figures/synthetic-drift.png"]
    for drawing in DRAWINGS:
        assert (f"**{drawing.title}.** {drawing.caption}" in text) == (drawing.name in ("v1", "drift"))
    assert text.count("Mean over 3 seeds; bands, where drawn, are 95 % intervals.") == 2
    assert "[synthetic.csv](results/synthetic.csv)" in text


def test_a_caption_counts_the_seeds_that_enter_and_the_panels_that_do_not():
    records = full_records({"init_scale": [i / 8 for i in range(1, 28)]}, seeds=(0, 1), depth=3)
    records["status"].values[0] = "pending"
    text = text_of(records, ["v1"])
    assert "Mean over 1 to 2 seeds;" in text
    assert f"3 variants beyond the {MAX_PANELS}th have no panel." in text


def test_labels_cannot_break_the_table():
    records = sweep_records({"name": ["npz:/a|b.npz"]})
    ((line,), _) = tables_of(text_of(records))
    assert line["name"] == "npz:/a\\|b.npz"


def test_sweeps_stand_in_reading_order():
    names = ["zeta", "radial_control", "paper_drift", "alpha", "paper_table1"]
    text = document({name: f"## {name}\n" for name in names})
    order = ["paper_table1", "paper_drift", "radial_control", "alpha", "zeta"]
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == order
    assert re.findall(r"^- \[(.*?)\]\(#(.*?)\)", text, re.MULTILINE) == [(name, name) for name in order]
    assert ORDER.index("paper_table1") == 0


def test_the_small_summary_has_the_columns_of_the_tables():
    rows = summarise(full_records({"activation": ["relu", "gelu"]}, depth=4))
    small = table_rows(rows)
    assert [row["variant"] for row in small] == [row["variant"] for row in rows]
    for row, full in zip(small, rows, strict=True):
        assert {name: full[name] for name in row} == pytest.approx(row, nan_ok=True)
    metrics = {name.removesuffix("_mean") for name in small[0] if name.endswith("_mean")}
    assert metrics == set(METRICS)
    assert {"activation", "n_ok", "n_diverged", "n_pending", "weight_v1_cosine_chance"} <= set(small[0])
    assert len(small[0]) < len(rows[0]) / 5


def test_the_same_records_give_the_same_text():
    records = with_source(full_records(TABLE_1, depth=4), SOURCE)
    assert text_of(records) == text_of(records)
