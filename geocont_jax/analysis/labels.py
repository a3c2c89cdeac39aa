"""Short names for the variants of a sweep, and how they share the panels of a figure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MAX_LINES = 6

Cell = Mapping[str, Any]

# Axes whose values say by themselves what they are, in the order in which they are read.
TELLING = ("optimizer", "residual", "activation", "norm")
# Axes that seldom are the question, from the least: left out of a name that tells the variant without them.
SELDOM = ("steps", "epochs", "weight_decay", "learning_rate")
SHORT = {
    "init_scale": "scale",
    "activation_scale": "c",
    "learning_rate": "lr",
    "weight_decay": "decay",
}


class Panel(NamedTuple):
    """A panel of a figure: its title and lines, each a variant and the name it has in this panel."""

    title: str
    lines: tuple[tuple[str, str], ...]


def short_labels(cells: Sequence[Cell]) -> list[str]:
    """Return a name for each cell, as short as tells it from the others.

    Axes that do not vary are left out, and so are values that most cells have where their axis is named with them.

    >>> short_labels([{"residual": True, "activation": "relu", "norm": "none", "init_scale": 1.0},
    ...               {"residual": True, "activation": "relu", "norm": "layernorm", "init_scale": 1.0},
    ...               {"residual": False, "activation": "relu", "norm": "none", "init_scale": 1.0}])
    ['Res', 'Res+layernorm', 'NoRes']
    """
    axes = _needed_axes(cells)
    brief = [_label(cell, axes, _usual(cells, axes)) for cell in cells]
    return brief if _distinct(brief) and all(brief) else [_label(cell, axes, {}) or "base" for cell in cells]


def arrange(cells: Mapping[str, Cell]) -> list[Panel]:
    """Return panels for the lines of variants: few enough in each to be told apart.

    One panel where it can hold all. Otherwise the axis with the most values that crosses the others gives each panel
    its lines; where there is none, every variant has a panel of its own.
    """
    if len(cells) <= MAX_LINES:
        return [Panel("", tuple(zip(cells, short_labels(list(cells.values())), strict=True)))]
    axis = _crossing_axis(cells)
    if axis is None:
        return single_panels(cells)
    groups = _groups(cells, axis)
    titles = short_labels([_without(cells[members[0]], axis) for members in groups])
    return [
        Panel(title, tuple((variant, _value_label(axis, cells[variant][axis])) for variant in members))
        for title, members in zip(titles, groups, strict=True)
    ]


def single_panels(cells: Mapping[str, Cell]) -> list[Panel]:
    """Return a panel for each variant, with its name as the title."""
    labels = short_labels(list(cells.values()))
    return [Panel(label, ((variant, label),)) for variant, label in zip(cells, labels, strict=True)]


def _needed_axes(cells: Sequence[Cell]) -> list[str]:
    varying = [name for name in cells[0] if len({cell[name] for cell in cells}) > 1]
    axes = [name for name in TELLING if name in varying] + [name for name in varying if name not in TELLING]
    for name in (*SELDOM, *reversed([name for name in axes if name not in TELLING and name not in SELDOM])):
        fewer = [other for other in axes if other != name]
        if name in axes and fewer and len({_values(cell, fewer) for cell in cells}) == len(cells):
            axes = fewer
    return axes


def _values(cell: Cell, axes: Sequence[str]) -> tuple[Any, ...]:
    return tuple(cell[name] for name in axes)


def _usual(cells: Sequence[Cell], axes: Sequence[str]) -> dict[str, Any]:
    """Return the value that most cells have, for axes where there is one."""
    usual: dict[str, Any] = {}
    for name in axes:
        value, count = Counter(cell[name] for cell in cells).most_common(1)[0]
        if name == "norm":
            usual[name] = "none"
        elif name not in TELLING and 2 * count > len(cells):
            usual[name] = value
    return usual


def _label(cell: Cell, axes: Sequence[str], usual: Mapping[str, Any]) -> str:
    shown = [name for name in axes if name not in usual or usual[name] != cell[name]]
    block = "+".join(_value_label(name, cell[name]) for name in shown if name in TELLING[1:])
    optimizer = [str(cell[name]) for name in shown if name == TELLING[0]]
    rest = [_value_label(name, cell[name]) for name in shown if name not in TELLING]
    return ", ".join([*optimizer, *([block] if block else []), *rest])


def _value_label(name: str, value: Any) -> str:
    if name == "residual" and not isinstance(value, str):
        return {0.0: "NoRes", 1.0: "Res"}.get(float(value), f"Res x {value:g}")
    if name in TELLING:
        return str(value)
    shown = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    return f"{SHORT.get(name, name)}={shown}"


def _distinct(labels: Sequence[str]) -> bool:
    return len(set(labels)) == len(labels)


def _crossing_axis(cells: Mapping[str, Cell]) -> str | None:
    """Return the axis whose values, at most MAX_LINES, come with every combination of the other axes."""
    found: dict[str, int] = {}
    for axis in next(iter(cells.values())):
        values = {cell[axis] for cell in cells.values()}
        groups = _groups(cells, axis)
        if 1 < len(values) <= MAX_LINES and all(len(members) == len(values) for members in groups):
            found[axis] = len(values)
    return max(found, key=lambda axis: found[axis], default=None)


def _groups(cells: Mapping[str, Cell], axis: str) -> list[list[str]]:
    """Return the variants that differ in nothing but the axis, together."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for variant, cell in cells.items():
        groups.setdefault(tuple(_without(cell, axis).values()), []).append(variant)
    return list(groups.values())


def _without(cell: Cell, axis: str) -> dict[str, Any]:
    return {name: value for name, value in cell.items() if name != axis}
