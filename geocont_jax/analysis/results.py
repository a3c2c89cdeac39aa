"""The results as a Markdown document: for each sweep its question, where it comes from, its table and its figures."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from geocont_jax.analysis.condensed import sources_of
from geocont_jax.analysis.figures import DRAWINGS
from geocont_jax.analysis.figures_style import MAX_PANELS
from geocont_jax.analysis.labels import short_labels
from geocont_jax.analysis.markdown import markdown_table
from geocont_jax.analysis.published import published_entry
from geocont_jax.analysis.settings import variant_cells, variant_settings
from geocont_jax.analysis.summary import STATISTICS, Row, axes_of, run_steps
from geocont_jax.analysis.table import axis_label, count, missing_directions, span

ORDER = ("paper_table1", "paper_drift", "paper_init_scale", "paper_optimizers", "paper_norms", "radial_control")
MAIN = "weight_v1_cosine"
NO_VALUE = "–"
MAX_LISTED = 12

# Two tables a sweep, each narrow enough for a page: head and digits behind the point of each metric.
TABLES: tuple[Mapping[str, tuple[str, int]], ...] = (
    {
        MAIN: ("weight v1", 3),
        "gradient_v1_cosine": ("gradient v1", 3),
        "weight_v_alignment": ("weight v alignment", 3),
        "test_accuracy": ("test accuracy", 3),
    },
    {
        "cumulative_gradient_v1_cosine": ("cumulative gradient v1", 3),
        "coherence_gap": ("Δ_GW", 3),
        "update_v1_cosine": ("update v1", 3),
        "update_ratio": ("‖W−W0‖/‖W0‖", 3),
        "weight_u1_cosine": ("weight u1", 3),
        "weight_effective_rank": ("effective rank", 1),
    },
)
METRICS = tuple(metric for table in TABLES for metric in table)

HEAD = """\
# Results

Made by `python -m geocont_jax.results` from the records of the sweeps; do not edit.

"""

LEGEND = """
## How to read the tables

A row is a variant, at its last record. The unit of evidence is the seed: layers are averaged inside a run first, and a
cell is the mean over seeds ± the half-width of its 95 % Student interval. A single seed has no interval. `n` counts
the runs that enter; diverged and unfinished ones do not, and are named. `–` is no value.

- **v1** (u1): mean over adjacent layers of |cos| between their leading right (left) singular vectors; of the
  weight W, the gradient on a fixed batch of training examples, the update W − W0 and the running sum of the raw
  minibatch gradients (cumulative gradient).
- **chance**, **z**: what weight v1 is for unrelated layers, and how far it lies above, in standard errors of chance.
- **weight v alignment**: σ²-weighted alignment over all singular vectors of the same index.
- **Δ_GW**: cumulative gradient v1 minus weight v1: coherence of the gradients that did not reach the weights.
- **‖W−W0‖/‖W0‖**: how far the weights have moved, mean over layers. **effective rank**: exp of the entropy of σ².
- **paper**: what arXiv 2605.04971 reports for such runs. Its full text was not at hand: third parties quoted the
  values, and for how long it trained is not known.
"""


def document(sections: Mapping[str, str]) -> str:
    """Return the whole document from the sections of the sweeps by name, in the order in which they are read.

    >>> print(document({"b": "...", "paper_drift": "...", "a": "..."}).splitlines()[4])
    - [paper_drift](#paper_drift)
    """
    names = sorted(sections, key=reading_order)
    contents = [f"- [{name}](#{anchor(name)})" for name in names]
    return HEAD + "\n".join(contents) + "\n" + LEGEND + "".join(f"\n{sections[name]}" for name in names)


def reading_order(name: str) -> tuple[int, str]:
    """Return where a sweep stands: the paper's sweeps first, in their order, then others by name."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def anchor(name: str) -> str:
    """Return the name that a heading has in a link."""
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter in "-_")


def section(dataset: xr.Dataset, rows: Sequence[Row], figures: Sequence[str]) -> str:
    """Return a sweep's section.

    Args: `dataset`, its records with what `sources_of` reads; `rows`, `summarise(dataset)`; `figures`, the names of
    those that were drawn, `figures/NAME-FIGURE.png` beside the document.
    """
    name = dataset.attrs["name"]
    parts = [f"## {name}", dataset.attrs.get("description", ""), "\n".join(_facts(dataset))]
    parts += [_table(dataset, rows, table) for table in TABLES]
    parts += [_notes(dataset, rows), *_figures(dataset, figures), _files(name)]
    return "\n\n".join(part for part in parts if part) + "\n"


def table_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a summary with the columns of the document's tables alone: small enough for a repository."""
    recorded = [name.removesuffix("_ci95_low") for name in rows[0] if name.endswith("_ci95_low")]
    others = {f"{metric}_{name}" for metric in set(recorded) - set(METRICS) for name in (*STATISTICS, "chance", "z")}
    return [{name: value for name, value in row.items() if name not in others} for row in rows]


def _facts(dataset: xr.Dataset) -> list[str]:
    """Return the list of what was run, by whom it can be run again, and where it was."""
    status = Counter(dataset["status"].values.tolist())
    runs = ", ".join(f"{status[name]} {name}" for name in ("ok", "diverged", "pending"))
    seeds = _numbers(sorted(set(dataset["seed"].values.tolist())))
    steps = run_steps(dataset).max(axis=1)
    epochs = np.atleast_1d(dataset["epoch"].max("record").values)
    facts = [
        f"- run again: {_commands(dataset)}",
        f"- runs: {runs}; {len(variant_cells(dataset))} variants, seeds {seeds}",
        f"- trained for {span(epochs, '.4g')} epochs ({span(steps, ',')} steps); "
        f"base settings `{dataset.attrs.get('spec_hash', 'unknown')}`",
    ]
    return [*facts, *_sources(dataset)]


def _commands(dataset: xr.Dataset) -> str:
    """Return the commands that make the runs again, without seeds: sessions share those out among themselves."""
    given = [command for source in sources_of(dataset) for command in source.get("command", "").split("; ") if command]
    default = f"python -m geocont_jax.sweep sweeps/{dataset.attrs['name']}.yaml"
    commands = [re.sub(r"\s--set[ =]seeds=(\[[^\]]*\]|\S+)", "", command) for command in given or [default]]
    seeds = ", with the seeds below" if commands != (given or [default]) else ""
    return ", ".join(f"`{command}`" for command in dict.fromkeys(commands)) + seeds


def _sources(dataset: xr.Dataset) -> list[str]:
    """Return how many runs were made when, on what and with what: a line for all that agree in it."""
    numbers = Counter(dataset["source"].values.tolist()) if "source" in dataset.coords else Counter()
    runs: Counter[str] = Counter()
    for number, source in enumerate(sources_of(dataset)):
        runs[_told(source)] += numbers[number]
    return [f"- from: {count} run{'s' * (count != 1)}; {told}" for told, count in runs.items()]


def _told(source: Mapping[str, Any]) -> str:
    versions = source.get("versions", {})
    told = [
        source.get("date"),
        source.get("machine"),
        f"commit {_commit(source['commit'])}" if source.get("commit") else "commit unknown",
        ", ".join(f"{name} {versions[name]}" for name in ("geocont_jax", "jax", "numpy") if versions.get(name)),
    ]
    return "; ".join(part for part in told if part)


def _commit(commits: str) -> str:
    """Return commits as their first digits; `+`, files were changed since, stays."""
    return ", ".join(f"`{commit[:12]}{'+' * commit.endswith('+')}`" for commit in commits.split(", "))


def _numbers(values: Iterable[int]) -> str:
    """Return numbers in order, consecutive ones as a range.

    >>> _numbers([0, 1, 2, 3, 7])
    '0–3, 7'
    """
    ranges: list[list[int]] = []
    for value in values:
        if ranges and value == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], value]
        else:
            ranges.append([value])
    return ", ".join("–".join(map(str, bounds)) for bounds in ranges)


def _table(dataset: xr.Dataset, rows: Sequence[Row], metrics: Mapping[str, tuple[str, int]]) -> str:
    """Return a Markdown table; empty where none of its metrics was recorded."""
    columns: dict[str, list[str]] = {}
    settings = variant_settings(dataset)
    for metric, (head, digits) in metrics.items():
        if f"{metric}_mean" in rows[0]:
            columns[head] = [_cell(row, metric, digits) for row in rows]
            columns |= _beside(rows, metric, head, settings)
    if not columns:
        return ""
    labels = {name: [axis_label(row[name]) for row in rows] for name in axes_of(dataset)}
    labels["n"] = [count(row) for row in rows]
    return _markdown(labels, columns)


def _beside(rows: Sequence[Row], metric: str, head: str, settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the columns that stand beside a metric: chance and z of the first, the paper's value where known."""
    columns = {}
    if metric == MAIN and f"{metric}_chance" in rows[0]:
        columns["chance"] = [_number(row[f"{metric}_chance"], ".3f") for row in rows]
        columns["z"] = [_number(row[f"{metric}_z"], ".1f") for row in rows]
    entries = [published_entry(metric, settings[row["variant"]]) for row in rows]
    if any(entries):
        columns[f"{head}, paper"] = ["" if entry is None else f"{entry.value:.{entry.decimals}f}" for entry in entries]
    return columns


def _markdown(labels: Mapping[str, Sequence[str]], columns: Mapping[str, Sequence[str]]) -> str:
    rule = [*[":--"] * len(labels), *["--:"] * len(columns)]
    return markdown_table([*labels, *columns], zip(*labels.values(), *columns.values(), strict=True), rule)


def _cell(row: Row, metric: str, digits: int) -> str:
    mean, n = row[f"{metric}_mean"], row[f"{metric}_n"]
    if n == 0 or math.isnan(mean):
        return NO_VALUE
    half = (row[f"{metric}_ci95_high"] - row[f"{metric}_ci95_low"]) / 2
    bar = "" if math.isnan(half) else f" ± {half:.{digits}f}"
    few = f" (n = {n})" if n < row["n_ok"] else ""
    return f"{mean:.{digits}f}{bar}{few}"


def _number(value: float, form: str) -> str:
    return NO_VALUE if math.isnan(value) else format(value, form)


def _notes(dataset: xr.Dataset, rows: Sequence[Row]) -> str:
    """Return what the tables leave out: unfinished and diverged runs, and layers without a direction."""
    notes = [*_diverged(dataset), *_pending(dataset), *_defects(dataset)]
    if all(row["n_ok"] == 0 for row in rows):
        notes.append("No run is finished: there is no value yet.")
    return "\n".join(f"- {note}" for note in notes)


def _diverged(dataset: xr.Dataset) -> list[str]:
    labels, names = _short(dataset), ("status", "variant", "seed", "diverged_at")
    dead = [
        f"{labels[variant]} seed {seed} (step {step:,})"
        for status, variant, seed, step in zip(*(dataset[name].values.tolist() for name in names), strict=True)
        if status == "diverged"
    ]
    return [f"diverged and left out: {_listed(dead)}."] if dead else []


def _pending(dataset: xr.Dataset) -> list[str]:
    labels, variants = _short(dataset), dataset["variant"].values.tolist()
    status = dataset["status"].values.tolist()
    counts = Counter(labels[variants[run]] for run in range(len(status)) if status[run] == "pending")
    return (
        [f"not finished and left out: {_listed([f'{n} of {label}' for label, n in counts.items()])}."] if counts else []
    )


def _short(dataset: xr.Dataset) -> dict[str, str]:
    """Return the names that variants have in the figures."""
    cells = variant_cells(dataset)
    return dict(zip(cells, short_labels(list(cells.values())), strict=True))


def _listed(items: Sequence[str]) -> str:
    more = [f"{len(items) - MAX_LISTED} more"] if len(items) > MAX_LISTED else []
    return ", ".join([*items[:MAX_LISTED], *more])


def _defects(dataset: xr.Dataset) -> list[str]:
    missing = missing_directions(dataset)
    return [f"layers without a leading direction, and why: {missing}."] if missing else []


def _figures(dataset: xr.Dataset, drawn: Sequence[str]) -> list[str]:
    if not drawn:
        return []
    name, text = dataset.attrs["name"], _common_caption(dataset)
    return [
        f"![{name}: {drawing.name}](figures/{name}-{drawing.name}.png)\n\n**{drawing.title}.** {drawing.caption} {text}"
        for drawing in DRAWINGS
        if drawing.name in drawn
    ]


def _common_caption(dataset: xr.Dataset) -> str:
    """Return what every caption ends with: what lines and bands are, and what is not drawn."""
    is_finished = np.array(dataset["status"].values.tolist()) == "ok"
    counts = Counter(np.array(dataset["variant"].values.tolist())[is_finished].tolist())
    seeds = span(np.array(list(counts.values())), "d")
    means = f"Mean over {seeds} seed{'s' * (seeds != '1')}"
    bands = "no bands, a single seed has no interval." if seeds == "1" else "bands, where drawn, are 95 % intervals."
    hidden = max(0, len(variant_cells(dataset)) - MAX_PANELS)
    more = f" {hidden} variants beyond the {MAX_PANELS}th have no panel." if hidden else ""
    return f"{means}; {bands}{more}"


def _files(name: str) -> str:
    return (
        f"Numbers: [{name}.csv](results/{name}.csv); run by run and record by record: "
        f"[{name}.zarr.zip](results/{name}.zarr.zip)."
    )
