"""The figures of a sweep, each from its records alone: `draw_figures` makes those that the records have data for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from geocont_jax.analysis.curves import Curve, clock, curve, finished_runs, over_training, run_times
from geocont_jax.analysis.figures_style import (
    CONTEXT,
    DEPTH_COLOURS,
    MAX_PANELS,
    SINGLE_INCHES,
    count_ticks,
    draw_chance,
    draw_colour_bar,
    draw_context,
    draw_curve,
    line_style,
    log_ticks,
    name_axes,
    new_figure,
    panel_grid,
    shared_legend,
    style,
    write_on,
)
from geocont_jax.analysis.labels import Panel, arrange, single_panels
from geocont_jax.analysis.matched import RATIO, matched, ratio_grid
from geocont_jax.analysis.settings import variant_cells
from geocont_jax.analysis.statistics import nan_average
from geocont_jax.analysis.summary import chance_of

WEIGHT = "weight_v1_cosine"
DRIFT = "weight_v1_drift"
MATRIX = "weight_v1_matrix"
TRANSFER = {
    "gradient_v1_cosine": "gradient $v_1$",
    "cumulative_gradient_v1_cosine": "cumulative gradient $v_1$",
    WEIGHT: "weight $v_1$",
    "coherence_gap": r"$\Delta_{GW}$",
}
WEIGHT_AXIS = "weight $v_1$,\nmean |cos| of adjacent layers"
NO_RUN, NO_VALUE = "no finished run", "no value"


@dataclass(frozen=True)
class Drawing:
    """A kind of figure: its name, the variables that it needs, how it is drawn, its title and what it shows."""

    name: str
    needs: tuple[str, ...]
    draw: Callable[[xr.Dataset], Figure]
    title: str
    caption: str


def draw_figures(dataset: xr.Dataset) -> dict[str, Figure]:
    """Return the figures of a sweep by name, in the order of `DRAWINGS`.

    Those whose variables were not recorded, or have no value in a finished run, are left out.

    >>> png(draw_figures(load_results("results/quickstart-1a2b3c"))["v1"])  # doctest: +SKIP
    """
    with style():
        return {
            drawing.name: drawing.draw(dataset)
            for drawing in DRAWINGS
            if all(_has_values(dataset, name) for name in drawing.needs)
        }


def v1_figure(dataset: xr.Dataset) -> Figure:
    """Draw weight v1 over training, a line per variant."""
    return _lines(dataset, over_training(dataset, WEIGHT), _time_axis(dataset), WEIGHT_AXIS)


def transfer_figure(dataset: xr.Dataset) -> Figure:
    """Draw v1 of gradient, cumulative gradient and weight over training, a panel per variant."""
    curves = {name: over_training(dataset, name) for name in TRANSFER if name in dataset}
    panels = shown_panels(dataset, single_panels)
    figure, axes = panel_grid([panel.title for panel in panels])
    for panel, axis in zip(panels, axes, strict=True):
        ((variant, _),) = panel.lines
        for number, name in enumerate(curves):
            draw_curve(axis, curves[name][variant], TRANSFER[name], **line_style(number))
        _finish(dataset, axis, panel, curves[WEIGHT])
    lowest = min((np.nanmin(found.mean) for found in _with_values(curves.get("coherence_gap", {}))), default=0.0)
    axes[0].set_ylim(min(0.0, 1.1 * float(lowest)) - 0.02, 1.02)
    count_ticks(axes)
    name_axes(figure, axes, _time_axis(dataset), "mean |cos| of adjacent layers,\nand difference")
    shared_legend(figure, axes)
    return figure


def drift_figure(dataset: xr.Dataset) -> Figure:
    """Draw the angle of each layer's v1 to its own at the reference record, a panel per variant."""
    times, angles = run_times(dataset), dataset[DRIFT].transpose("run", "record", "layer").values.astype(np.float64)
    panels, members = shown_panels(dataset, single_panels), finished_runs(dataset)
    figure, axes = panel_grid([panel.title for panel in panels])
    depth = Normalize(0, angles.shape[2] - 1)
    for panel, axis in zip(panels, axes, strict=True):
        runs = members[panel.lines[0][0]]
        for layer in range(angles.shape[2]) if len(runs) else ():
            means = curve(times[runs[0]], angles[runs, :, layer]).mean
            axis.plot(times[runs[0]], means, color=DEPTH_COLOURS(depth(layer)), linewidth=0.9)
        _say_missing(dataset, axis, [] if len(runs) else panel.lines, named=False)
        axis.set_yticks([0, 30, 60, 90])
    axes[0].set_ylim(-2, 92)
    # From the beginning of training, though there is nothing to draw before the reference record.
    axes[0].set_xlim(0.0, float(np.nanmax(times)))
    count_ticks(axes)
    name_axes(figure, axes, _time_axis(dataset), "angle of $v_1$ to that at\nthe reference (degrees)")
    draw_colour_bar(figure, axes, ScalarMappable(depth, DEPTH_COLOURS), "layer, from input to output")
    return figure


def movement_figure(dataset: xr.Dataset) -> Figure:
    """Draw weight v1 against how far the weights have moved, a line per variant."""
    curves = matched(dataset, WEIGHT, ratio_grid(dataset))
    return _lines(dataset, curves, r"movement $\|W - W_0\|_F \, / \, \|W_0\|_F$", WEIGHT_AXIS, log=True)


def layers_figure(dataset: xr.Dataset) -> Figure:
    """Draw |cos| of v1 of every two layers at the last record as a map, a panel per variant."""
    matrices, members = dataset[MATRIX].transpose("run", "layer", "other_layer").values, finished_runs(dataset)
    panels = shown_panels(dataset, single_panels)
    figure, axes = panel_grid([panel.title for panel in panels], square=True)
    scale = Normalize(0.0, 1.0)
    for panel, axis in zip(panels, axes, strict=True):
        runs = members[panel.lines[0][0]]
        if len(runs):
            axis.imshow(nan_average(matrices[runs], axis=0).mean, cmap="viridis", norm=scale, interpolation="nearest")
        _say_missing(dataset, axis, [] if len(runs) else panel.lines, named=False)
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axis.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    name_axes(figure, axes, "layer", "layer")
    draw_colour_bar(figure, axes, ScalarMappable(scale, "viridis"), "|cos| of weight $v_1$")
    return figure


def distance_figure(dataset: xr.Dataset) -> Figure:
    """Draw |cos| of v1 of two layers at the last record against their distance in depth, a line per variant."""
    return _lines(
        dataset, over_distance(dataset), "distance in depth (layers)", "weight $v_1$,\nmean |cos| at a distance"
    )


def over_distance(dataset: xr.Dataset) -> dict[str, Curve]:
    """Return |cos| of two layers' v1 as a function of their distance in depth, for each variant.

    Pairs of layers at the same distance are averaged inside a run; mean and interval are over finished seeds.
    """
    matrices = dataset[MATRIX].transpose("run", "layer", "other_layer").values.astype(np.float64)
    distances = np.arange(1, matrices.shape[1])
    diagonals = [np.diagonal(matrices, distance, axis1=1, axis2=2) for distance in distances]
    means = np.stack([nan_average(values, axis=1).mean for values in diagonals], axis=1)
    return {variant: curve(distances, means[members]) for variant, members in finished_runs(dataset).items()}


def shown_panels(dataset: xr.Dataset, arrangement: Callable[[Mapping[str, Any]], list[Panel]]) -> list[Panel]:
    """Return the panels that a figure has room for: the first `MAX_PANELS`."""
    return arrangement(variant_cells(dataset))[:MAX_PANELS]


def _lines(dataset: xr.Dataset, curves: Mapping[str, Curve], x: str, y: str, log: bool = False) -> Figure:
    """Draw a curve per variant, in as many panels as they need."""
    panels = shown_panels(dataset, arrange)
    alone = len(panels) > 1 and all(len(panel.lines) == 1 for panel in panels)
    figure, axes = _single_panel() if len(panels) == 1 else panel_grid([panel.title for panel in panels])
    for panel, axis in zip(panels, axes, strict=True):
        if alone:
            draw_context(axis, list(curves.values()))
        for number, (variant, label) in enumerate(panel.lines):
            draw_curve(axis, curves[variant], "variant named above" if alone else label, **line_style(number))
        _finish(dataset, axis, panel, curves)
    axes[0].set_ylim(0.0, 1.02)
    (log_ticks if log else count_ticks)(axes)
    name_axes(figure, axes, x, y)
    others = [Line2D([], [], color=CONTEXT, linewidth=0.9, label="other variants")] if alone else []
    shared_legend(figure, axes, others)
    return figure


def _single_panel() -> tuple[Figure, list[Axes]]:
    figure = new_figure(*SINGLE_INCHES)
    return figure, [figure.subplots()]


def _finish(dataset: xr.Dataset, axis: Axes, panel: Panel, curves: Mapping[str, Curve]) -> None:
    """Add to a panel the chance level of its variants, and a word where it has no line."""
    variants = dataset["variant"].values.tolist()
    name = WEIGHT if WEIGHT in dataset else MATRIX
    levels = dict.fromkeys(chance_of(dataset, name, variants.index(variant)) for variant, _ in panel.lines)
    for level in levels:
        if not np.isnan(level):
            draw_chance(axis, level)
    missing = [line for line in panel.lines if not np.isfinite(curves[line[0]].mean).any()]
    _say_missing(dataset, axis, missing, named=len(panel.lines) > 1)


def _say_missing(dataset: xr.Dataset, axis: Axes, lines: Sequence[tuple[str, str]], named: bool) -> None:
    """Say why a panel lacks lines, and which where it has others."""
    if lines:
        members = finished_runs(dataset)
        reason = NO_VALUE if any(len(members[variant]) for variant, _ in lines) else NO_RUN
        write_on(axis, f"{reason}:\n" + ",\n".join(label for _, label in lines) if named else reason)


def _with_values(curves: Mapping[str, Curve]) -> list[Curve]:
    return [found for found in curves.values() if np.isfinite(found.mean).any()]


def _has_values(dataset: xr.Dataset, name: str) -> bool:
    """Return whether a variable has a value in a finished run, and more than one record if it is over training."""
    if name not in dataset or ("record" in dataset[name].dims and dataset.sizes["record"] < 2):
        return False
    is_finished = np.array(dataset["status"].values.tolist()) == "ok"
    return bool(np.isfinite(dataset[name].transpose("run", ...).values[is_finished]).any())


def _time_axis(dataset: xr.Dataset) -> str:
    return f"training ({clock(dataset)}s)"


DRAWINGS = (
    Drawing(
        "v1", (WEIGHT,), v1_figure, "Weight v1 over training",
        "|cos| between adjacent layers' leading right singular vectors.",
    ),
    Drawing(
        "transfer", (WEIGHT, "gradient_v1_cosine"), transfer_figure, "From gradient to weight",
        "The same cosine of the gradient on a fixed batch, of the running sum of the raw gradients and of the weights; "
        "Δ_GW is what the running sum has and the weights have not.",
    ),
    Drawing(
        "drift", (DRIFT,), drift_figure, "Rotation drift",
        "Angle between each layer's v1 and its own at the reference record, by default the end of the first epoch; a "
        "line per layer.",
    ),
    Drawing(
        "movement", (WEIGHT, RATIO), movement_figure, "Weight v1 at matched movement",
        "The value at which a run first passes a ratio ‖W−W0‖/‖W0‖ (mean over layers), linear between records; drawn "
        "where all seeds of a variant pass it.",
    ),
    Drawing(
        "layers", (MATRIX,), layers_figure, "Every two layers",
        "|cos| between the v1 of every two layers' weights at the last record.",
    ),
    Drawing(
        "distance", (MATRIX,), distance_figure, "Decay with depth",
        "|cos| between the v1 of two layers' weights at the last record, against their distance in depth.",
    ),
)  # fmt: skip
"""Every figure; one that its sweep has no data for is left out."""
