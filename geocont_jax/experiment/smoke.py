"""A tiny version of a grid: the same code path in seconds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from geocont_jax.experiment.axes import check_exclude
from geocont_jax.experiment.sections import SECTIONS
from geocont_jax.experiment.settings import Grid
from geocont_jax.experiment.spec import grid_dict

STEPS = 4
MAX_VALUES = 3
SUFFIX = "-smoke"


def _at_most(limit: int) -> Callable[[Any], Any]:
    return lambda value: min(value, limit)


TINY: dict[str, Callable[[Any], Any]] = {
    "model.depth": _at_most(3),
    "model.width": _at_most(16),
    "data.name": lambda name: name if name.startswith("npz:") else "mnist10k",
    "data.batch_size": _at_most(32),
    "training.steps": _at_most(STEPS),
    "measure.every": lambda every: 2,
    "measure.reference": lambda reference: 2,
}
"""What becomes of the settings that cost time."""


def smoke(grid: Grid) -> Grid:
    """Return a grid of the same axes whose runs take seconds: small nets, four steps, two seeds.

    Axes that say how large a run is are cut down too, to at most three different values; a length in epochs
    becomes one in steps.

    >>> tiny = smoke(Grid(name="big", sweep={"model.width": [8, 512, 1024]}))
    >>> tiny.name, tiny.sweep, tiny.training.steps
    ('big-smoke', {'model.width': (8, 16)}, 4)
    """
    content = grid_dict(grid)
    content["name"] = grid.name[: 80 - len(SUFFIX)] + SUFFIX
    content["seeds"] = list(grid.seeds[:2])
    content["sweep"] = {name: _tiny_axis(name, axis) for name, axis in _in_steps(grid.sweep).items()}
    content["zip"] = _tiny_rows(_in_steps(grid.zip))
    content["exclude"] = _tiny_exclude(content, grid.exclude)
    for section in SECTIONS:
        content[section] = {name: _tiny(f"{section}.{name}", value) for name, value in content[section].items()}
    content["training"] = {name: value for name, value in content["training"].items() if name != "epochs"}
    if "training.steps" not in content["sweep"] | content["zip"]:
        content["training"]["steps"] = min(grid.training.steps or STEPS, STEPS)
    return Grid.model_validate(content)


def _tiny(dotted: str, value: Any) -> Any:
    return TINY.get(dotted, lambda same: same)(value)


def _in_steps(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("training.epochs", "training.steps"): value for name, value in values.items()}


def _tiny_axis(dotted: str, axis: Sequence[Any]) -> list[Any]:
    values = list(dict.fromkeys(_tiny(dotted, value) for value in axis))
    return values[:MAX_VALUES] if dotted in TINY else values


def _tiny_rows(axes: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    columns = [[_tiny(name, value) for value in axis] for name, axis in axes.items()]
    rows = list(dict.fromkeys(zip(*columns, strict=True)))
    if all(name in TINY for name in axes):
        rows = rows[:MAX_VALUES]
    return {name: [row[i] for row in rows] for i, name in enumerate(axes)}


def _tiny_exclude(content: Mapping[str, Any], exclude: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries that still leave something out, and do not leave out everything."""
    kept: list[dict[str, Any]] = []
    for cell in exclude:
        tiny = {name: _tiny(name, value) for name, value in _in_steps(cell).items()}
        try:
            check_exclude(content["sweep"], content["zip"], [*kept, tiny])
        except ValidationError:
            continue
        kept.append(tiny)
    return kept
