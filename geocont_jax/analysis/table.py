"""The table that a sweep prints."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from geocont_jax.analysis.columns import WIDTH, Column, number, numbers, text_table
from geocont_jax.analysis.published import published_entry
from geocont_jax.analysis.settings import variant_settings
from geocont_jax.analysis.summary import Row, axes_of, last_values, null_dimension, run_steps, summarise
from geocont_jax.geometry.null import chance_level

# In order of importance: what does not fit beside the first goes into a further block.
HEADS = {
    "weight_v1_cosine": "weight v1",
    "gradient_v1_cosine": "gradient v1",
    "weight_v_alignment": "alignment",
    "test_accuracy": "test accuracy",
    "weight_u1_cosine": "weight u1",
    "update_v1_cosine": "update v1",
    "cumulative_gradient_v1_cosine": "cumul. grad. v1",
    "update_ratio": "|W-W0|/|W0|",
}
MAIN = "weight_v1_cosine"
MAX_LISTED = 10

# What a code in a `*_defect` variable says of a layer's matrix; 0 is a sound one.
DEFECTS = {1: "zero", 2: "degenerate", 3: "non-finite", 4: "not converged"}


def format_table(dataset: xr.Dataset, width: int | None = WIDTH) -> str:
    """Return the table of a sweep's last records: a line per variant, ours beside the paper's, and a legend.

    Columns that do not fit into `width` characters go into a further block that repeats the axes; None sets no
    limit. Cells are `mean ±half-width` of the 95 % t interval over seeds, layers averaged inside a run.

    Args: `dataset`, the records of a sweep with dims run, record, pair, layer.

    >>> print(format_table(load_results("results/quickstart-1a2b3c")))  # doctest: +SKIP
    """
    rows = summarise(dataset)
    settings = variant_settings(dataset)
    columns = _measured(rows, [settings[row["variant"]] for row in rows])
    legend = "\n".join(_legend(dataset, rows, columns))
    return "\n\n".join([_title(dataset), text_table(_labels(dataset, rows), columns, width), legend])


def _labels(dataset: xr.Dataset, rows: Sequence[Row]) -> list[Column]:
    axes = [Column(name, tuple(axis_label(row[name]) for row in rows)) for name in axes_of(dataset)]
    return [*axes, Column("n", tuple(map(count, rows)))]


def axis_label(value: Any) -> str:
    """Return an axis value as it stands in a table."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def count(row: Row) -> str:
    """Return how many of a variant's runs enter its means, of how many where some do not."""
    total = row["n_ok"] + row["n_diverged"] + row["n_pending"]
    return str(total) if row["n_ok"] == total else f"{row['n_ok']} of {total}"


def _measured(rows: Sequence[Row], settings: Sequence[Mapping[str, Any]]) -> list[Column]:
    columns: list[Column] = []
    for name, head in HEADS.items():
        if f"{name}_mean" not in rows[0]:
            continue
        columns.append(_with_bars(rows, name, head))
        if name == MAIN and f"{name}_chance" in rows[0]:
            columns.append(numbers("chance", [row[f"{name}_chance"] for row in rows], ".3f"))
            columns.append(numbers("z", [row[f"{name}_z"] for row in rows], ".1f"))
        columns.extend(_paper(name, settings))
    return columns


def _with_bars(rows: Sequence[Row], name: str, head: str) -> Column:
    """Return the means of a metric with their half-widths; a single seed has none."""
    means = numbers(head, [row[f"{name}_mean"] for row in rows], ".3f").cells
    halves = [number((row[f"{name}_ci95_high"] - row[f"{name}_ci95_low"]) / 2, ".3f") for row in rows]
    bars = ["" if row[f"{name}_n"] == 0 else f" ±{half}" for row, half in zip(rows, halves, strict=True)]
    return Column(head, tuple(map("".join, zip(means, bars, strict=True))))


def _paper(name: str, settings: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the column of the paper's values of a metric, where there is one."""
    entries = [published_entry(name, of_variant) for of_variant in settings]
    if not any(entries):
        return []
    return [Column("paper", tuple(f"{entry.value:.{entry.decimals}f}" if entry else "" for entry in entries))]


def _title(dataset: xr.Dataset) -> str:
    last = run_steps(dataset).max(axis=1)
    epochs = np.atleast_1d(dataset["epoch"].max("record").values)
    when = f"step {span(last, ',')} (epoch {span(epochs, '.4g')})"
    return f"{dataset.attrs['name']}: |cos| of adjacent layers' leading singular vectors at {when}"


def span(values: np.ndarray, form: str) -> str:
    """Return the smallest and the largest value as text, one where they read the same."""
    low, high = format(values.min(), form), format(values.max(), form)
    return low if low == high else f"{low} to {high}"


def _legend(dataset: xr.Dataset, rows: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    lines = [
        "n: seeds that count. Mean over seeds, layers averaged inside a run first, ±half-width of its 95 % t interval."
    ]
    if any(cell.endswith("±-") for column in columns for cell in column.cells):
        lines.append("±-: a single seed has no interval.")
    lines += _chance(dataset)
    if any(column.head == "paper" for column in columns):
        lines.append(
            "paper: what arXiv 2605.04971 reports for such runs, quoted by third parties; training length unknown."
        )
    if any(math.isnan(row[f"{name}_mean"]) for row in rows for name in HEADS if f"{name}_mean" in row):
        lines.append("-: no value: no finished run, or no layer whose leading singular vector is defined.")
    return [*lines, *_defects(dataset), *_diverged(dataset), *_pending(dataset)]


def _chance(dataset: xr.Dataset) -> list[str]:
    if MAIN not in dataset:
        return []
    dimensions = {null_dimension(dataset, MAIN, run) for run in range(dataset.sizes["run"])}
    levels = ", ".join(f"{chance_level(d):.3f} (d = {d:.0f})" for d in sorted(dimensions) if not math.isnan(d))
    return (
        [f"chance: sqrt(2 / (pi d)) = {levels}. z: weight v1 above it, in standard errors of chance."] if levels else []
    )


def missing_directions(dataset: xr.Dataset) -> str:
    """Return how many layers of finished runs have no leading direction at the last record, by family and reason."""
    finished = np.array(dataset["status"].values.tolist()) == "ok"
    found = []
    for name in (str(name) for name in dataset.data_vars if str(name).endswith("_defect")):
        codes = last_values(dataset[name])[finished]
        counts = {word: int((codes == code).sum()) for code, word in DEFECTS.items()}
        family = name.removesuffix("_defect").replace("_", " ")
        found += [f"{family} {word} in {count}" for word, count in counts.items() if count]
    return ", ".join(found)


def _defects(dataset: xr.Dataset) -> list[str]:
    missing = missing_directions(dataset)
    return [f"layers without a direction, in finished runs: {missing}."] if missing else []


def _diverged(dataset: xr.Dataset) -> list[str]:
    names = ("status", "variant", "seed", "diverged_at")
    runs = zip(*(dataset[name].values.tolist() for name in names), strict=True)
    dead = [
        f"  {variant}, seed {seed}: diverged at step {step:,}"
        for status, variant, seed, step in runs
        if status == "diverged"
    ]
    if not dead:
        return []
    more = [f"  and {len(dead) - MAX_LISTED} more; see diverged_at in the records"] if len(dead) > MAX_LISTED else []
    return [f"warning: left out of the means, {len(dead)} diverged {_runs(len(dead))}:", *dead[:MAX_LISTED], *more]


def _pending(dataset: xr.Dataset) -> list[str]:
    count = dataset["status"].values.tolist().count("pending")
    return [f"warning: {count} {_runs(count)} not finished; the same command goes on from here."] if count else []


def _runs(count: int) -> str:
    return "run" if count == 1 else "runs"
