"""How figures look: sizes, colours that the colour-blind tell apart, panels, curves with bands, PNG files.

Lines differ in colour, dashes and marker, so that a grey print still tells them apart. Nothing here touches pyplot:
figures are objects, and what the user has set for matplotlib stays as it is and has no say.
"""

import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator
from PIL import Image

from geocont_jax.analysis.curves import Curve

DPI = 160
WIDTH_INCHES = 7.2
# A single panel, with a legend beside it.
SINGLE_INCHES = (5.6, 2.9)
# Of a panel, by how many stand side by side.
PANEL_HEIGHTS = {1: 2.4, 2: 2.2, 3: 1.9, 4: 1.4}
MAX_PANELS = 24
# The width of a letter of titles and legends, on average, and of a line in a legend in letters.
LETTER_INCHES = 0.066
HANDLE = 8
NUM_MARKERS = 7
BAND_ALPHA = 0.22
CONTEXT = "0.82"

# Okabe and Ito, without the yellow, which white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (9, 2)), (0, (3, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")

# Dark below, light above, so that depth can be read in grey; the palest end is left out for lines on white.
DEPTH_COLOURS = ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, 256)))

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.titlepad": 3.0,
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.2,
    "figure.dpi": DPI,
    "figure.facecolor": "white",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw with this module's settings and matplotlib's defaults, and put back afterwards what was set before."""
    settings: Any = {name: value for name, value in matplotlib.rcParamsDefault.items() if name != "backend"}
    with matplotlib.rc_context(settings | STYLE):
        yield


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG file of 256 colours, which takes a third of the room; the same bytes each time."""
    with style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    buffer = io.BytesIO()
    pixels.quantize(256, dither=Image.Dither.NONE).save(buffer, "png", optimize=True, dpi=(DPI, DPI))
    return buffer.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, whose parts keep clear of each other."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panel_grid(titles: Sequence[str], square: bool = False) -> tuple[Figure, list[Axes]]:
    """Return a figure of the page's width with a panel for each title, in reading order; they share their axes."""
    columns = 3 if len(titles) in (5, 6, 9) else min(len(titles), 6 if square and len(titles) > 12 else 4)
    rows = math.ceil(len(titles) / columns)
    height = 0.88 * WIDTH_INCHES / columns + 0.15 if square else max(PANEL_HEIGHTS[columns], 1.9 * (rows == 1))
    figure = new_figure(WIDTH_INCHES, rows * height + 0.5)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for empty in axes.flat[len(titles) :]:
        empty.remove()
    panels = list(axes.flat[: len(titles)])
    letters = int(0.88 * WIDTH_INCHES / columns / LETTER_INCHES)
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title("\n".join(textwrap.wrap(title, letters)))
        # Panels above a gap need numbers of their own; with numbers under all, the rows keep equal distances.
        panel.tick_params(labelbottom=bool(len(titles) % columns) or panel in axes[-1])
    return figure, panels


def line_style(number: int) -> dict[str, Any]:
    """Return colour, dashes and marker of the line of this number."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def draw_curve(panel: Axes, curve: Curve, label: str, **look: Any) -> None:
    """Draw the mean over seeds as a line and its interval as a band; a single seed has no band."""
    every = max(1, math.ceil(len(curve.x) / NUM_MARKERS))
    panel.plot(curve.x, curve.mean, label=label, markevery=every, **look)
    if np.isfinite(curve.low).any():
        panel.fill_between(curve.x, curve.low, curve.high, color=look["color"], alpha=BAND_ALPHA, linewidth=0)


def draw_context(panel: Axes, curves: Sequence[Curve]) -> None:
    """Draw other variants' means in light grey, to compare with."""
    for curve in curves:
        panel.plot(curve.x, curve.mean, color=CONTEXT, linewidth=0.7, zorder=0.5)


def draw_chance(panel: Axes, level: float) -> None:
    """Draw the level that chance gives; nothing where there is none."""
    if not math.isnan(level):
        panel.axhline(level, label=f"chance ({level:.3f})", **CHANCE)


CHANCE: dict[str, Any] = {"color": "0.35", "linestyle": (0, (1, 1.6)), "linewidth": 1.0, "zorder": 1.0}


def write_on(panel: Axes, text: str) -> None:
    """Write a remark in the middle of a panel, over whatever is there."""
    back = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
    panel.text(0.5, 0.5, text, transform=panel.transAxes, ha="center", va="center", color="0.3", bbox=back)


def shared_legend(figure: Figure, panels: Sequence[Axes], extra: Sequence[Line2D] = ()) -> None:
    """Put one legend for all panels outside of them: each label once, in order of first appearance."""
    handles: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    handles |= {str(line.get_label()): line for line in extra}
    if len(panels) == 1:
        figure.legend(handles.values(), handles.keys(), loc="outside right upper")
    else:
        letters = max(len(re.sub(r"[$_{}\\]", "", label)) for label in handles) + HANDLE
        columns = max(1, int(WIDTH_INCHES / LETTER_INCHES / letters))
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(len(handles), columns))


def name_axes(figure: Figure, panels: Sequence[Axes], x: str, y: str) -> None:
    """Name the axes of all panels at once."""
    if len(panels) == 1:
        panels[0].set_xlabel(x)
        panels[0].set_ylabel(y)
    else:
        figure.supxlabel(x, fontsize=STYLE["axes.labelsize"])
        figure.supylabel(y, fontsize=STYLE["axes.labelsize"], multialignment="center")


def count_ticks(panels: Sequence[Axes], most: int = 5) -> None:
    """Number the x axis in whole numbers."""
    for panel in panels:
        panel.xaxis.set_major_locator(MaxNLocator(most, integer=True))


def log_ticks(panels: Sequence[Axes]) -> None:
    """Make the x axis logarithmic, numbered in plain digits: 1, 2, 5 where it is short, 1, 3 where it is not long."""
    for panel in panels:
        panel.set_xscale("log")
    low, high = panels[0].get_xlim()
    short, long = (1e3, 1e4) if len(panels) == 1 else (20.0, 1e3)
    digits = (1.0, 2.0, 5.0) if high / low < short else (1.0, 3.0) if high / low < long else (1.0,)
    for panel in panels:
        panel.xaxis.set_major_locator(LogLocator(subs=digits))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def draw_colour_bar(figure: Figure, axes: Sequence[Axes], colours: ScalarMappable, label: str) -> None:
    """Draw what the colours of all panels mean; numbers above 1 are counted, and only the ends are named."""
    low, high = colours.get_clim()
    ticks = [low or 0.0, high or 0.0] if (high or 0.0) > 1 else None
    figure.colorbar(colours, ax=axes, label=label, ticks=ticks, fraction=0.03, aspect=30, shrink=0.85, pad=0.02)
