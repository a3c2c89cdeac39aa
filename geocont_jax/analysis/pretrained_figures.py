"""The figures of a pretrained checkpoint: continuity along the depth, layer against layer, paths, shared bases."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from geocont_jax.analysis.figures_style import (
    CHANCE,
    DEPTH_COLOURS,
    count_ticks,
    draw_colour_bar,
    line_style,
    log_ticks,
    name_axes,
    panel_grid,
    shared_legend,
    style,
)
from geocont_jax.analysis.pretrained_table import SIDE_WORDS, dimension_of, ordered, side_of
from geocont_jax.analysis.statistics import nan_average
from geocont_jax.geometry.null import NULLS

SIDES = {"v": "$v_1$ (input side)", "u": "$u_1$ (output side)"}
BASES = {
    "own": "each layer's own",
    "shared": "one basis for the window",
    "unrelated": "the same of unrelated layers",
    "random": "random basis",
}


def draw_pretrained(dataset: xr.Dataset) -> dict[str, Figure]:
    """Return the figures of a checkpoint by name; those that there is nothing to draw for are left out.

    >>> png(draw_pretrained(dataset)["depth"])  # doctest: +SKIP
    """
    with style():
        return {name: draw(dataset) for name, (needs, draw) in DRAWINGS.items() if _has_values(dataset, needs)}


def depth_figure(dataset: xr.Dataset) -> Figure:
    """Draw |cos| of adjacent layers' leading singular vectors along the depth, a panel per projection."""
    figure, panels = _panels(dataset)
    for name, panel in panels.items():
        for number, (side, label) in enumerate(SIDES.items()):
            values = dataset[f"weight_{side}1_cosine"].sel(projection=name).values
            look = line_style(number) | {"alpha": 1.0 if side == side_of(dataset, name) else 0.35}
            panel.plot(dataset["pair"].values, values, label=label, markevery=max(1, len(values) // 6), **look)
        panel.axhline(NULLS["cosine"].mean(dimension_of(dataset, name)), label="chance, residual side", **CHANCE)
    axes = list(panels.values())
    axes[0].set_ylim(0.0, 1.02)
    count_ticks(axes)
    name_axes(figure, axes, "first layer of the pair", "|cos| of adjacent layers")
    _plain_legend(figure, axes)
    return figure


def layers_figure(dataset: xr.Dataset) -> Figure:
    """Draw |cos| of the leading residual-side vectors of every two layers as a map, a panel per projection."""
    figure, panels = _panels(dataset, square=True)
    scale = Normalize(0.0, 1.0)
    for name, panel in panels.items():
        matrix = dataset[f"weight_{side_of(dataset, name)}1_matrix"].sel(projection=name).values
        panel.imshow(matrix, cmap="viridis", norm=scale, interpolation="nearest")
        panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        panel.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    name_axes(figure, list(panels.values()), "layer", "layer")
    draw_colour_bar(figure, list(panels.values()), ScalarMappable(scale, "viridis"), "|cos|, residual side")
    return figure


def path_figure(dataset: xr.Dataset) -> Figure:
    """Draw the path of the sign-aligned leading residual-side vector in its two leading principal components."""
    figure, panels = _panels(dataset, square=True, shares=dataset["trajectory_share"])
    depth = Normalize(int(dataset["layer"][0]), int(dataset["layer"][-1]))
    for name, panel in panels.items():
        x, y = dataset["trajectory"].sel(projection=name).values[:, :2].T
        panel.plot(x, y, color="0.8", linewidth=0.8, zorder=0.5)
        panel.scatter(x, y, c=DEPTH_COLOURS(depth(dataset["layer"].values)), s=7.0, linewidths=0.0)
    name_axes(figure, list(panels.values()), "first principal component", "second")
    draw_colour_bar(figure, list(panels.values()), ScalarMappable(depth, DEPTH_COLOURS), "layer")
    return figure


def bases_figure(dataset: xr.Dataset) -> Figure:
    """Draw the energy that bases of a rank keep, a panel per projection."""
    figure, panels = _panels(dataset)
    for name, panel in panels.items():
        for number, (kind, label) in enumerate(BASES.items()):
            kept = nan_average(dataset[f"{kind}_energy"].sel(projection=name).values, axis=0).mean
            panel.plot(dataset["rank"].values, kept, label=label, **line_style(number))
    axes = list(panels.values())
    axes[0].set_ylim(0.0, 1.02)
    log_ticks(axes)
    name_axes(figure, axes, "rank", "share of $\\|W\\|_F^2$ kept")
    _plain_legend(figure, axes)
    return figure


def _panels(
    dataset: xr.Dataset, square: bool = False, shares: xr.DataArray | None = None
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with a panel for each projection, titled with its residual side (and the share it shows)."""
    names = ordered(dataset)
    titles = [f"{name} ({SIDE_WORDS[side_of(dataset, name)]})" for name in names]
    if shares is not None:
        shown = [float(shares.sel(projection=name).values[:2].sum()) for name in names]
        titles = [f"{title}: {share:.0%}" for title, share in zip(titles, shown, strict=True)]
    figure, axes = panel_grid(titles, square)
    return figure, dict(zip(names, axes, strict=True))


def _plain_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Put one legend outside, whose lines are not faint where the first panel's are."""
    shared_legend(figure, axes)
    for legend in figure.legends:
        for line in legend.get_lines():
            line.set_alpha(1.0)


def _has_values(dataset: xr.Dataset, name: str) -> bool:
    return name in dataset and bool(np.isfinite(dataset[name].values).any())


DRAWINGS: dict[str, tuple[str, Callable[[xr.Dataset], Figure]]] = {
    "depth": ("weight_v1_cosine", depth_figure),
    "layers": ("weight_v1_matrix", layers_figure),
    "path": ("trajectory", path_figure),
    "bases": ("shared_energy", bases_figure),
}
"""Every figure, with the variable that it needs."""
