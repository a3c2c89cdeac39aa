"""The runs that a grid stands for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from geocont_jax.errors import InputError
from geocont_jax.experiment.axes import is_excluded, zip_rows
from geocont_jax.experiment.identity import canonical, seeded_identity
from geocont_jax.experiment.sections import SECTIONS, short_name
from geocont_jax.experiment.settings import Grid, Settings

MAX_CELLS = 10_000


@dataclass(frozen=True)
class Run:
    """One network to train: its settings and seed, and what tells it from the others of its grid.

    `axes` are its axis values by short name, `variant` the same as a label, `identity` its name in any store.
    """

    settings: Settings
    seed: int
    variant: str
    axes: Mapping[str, Any] = field(hash=False)
    identity: str


def count_runs(grid: Grid) -> int:
    """Return how many runs the grid stands for, not counting exclusions: quick for any size."""
    return prod(map(len, grid.sweep.values())) * len(zip_rows(grid.zip)) * len(grid.seeds)


def expand(grid: Grid, max_cells: int = MAX_CELLS) -> tuple[Run, ...]:
    """Return the grid's runs: axes of sweep in file order, then zip, then seeds, the last varying fastest.

    Raises InputError where there are more than `max_cells` of them, before any is built.
    """
    count = count_runs(grid)
    if count > max_cells:
        raise InputError(
            f"grid {grid.name}: {count:,} runs are more than the limit of {max_cells:,}; "
            f"shorten an axis, or allow them with --max-cells {count}"
        )
    runs = tuple(run for cell in _cells(grid) for run in _runs(grid, cell))
    if not runs:
        raise InputError(f"grid {grid.name}: exclude leaves no cell of the grid; take an entry out")
    return runs


def variant_label(axes: Mapping[str, Any]) -> str:
    """Return a readable label of axis values.

    >>> variant_label({"residual": True, "init_scale": 0.3})
    'residual=true init_scale=0.3'
    """
    return " ".join(f"{name}={_shown(value)}" for name, value in axes.items()) or "base"


def _cells(grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield the axis values, by dotted name, of each cell that is not excluded."""
    names = (*grid.sweep, *grid.zip)
    for *values, row in product(*grid.sweep.values(), zip_rows(grid.zip)):
        cell = dict(zip(names, (*values, *row), strict=True))
        if not is_excluded(cell, grid.exclude):
            yield cell


def _runs(grid: Grid, cell: Mapping[str, Any]) -> Iterator[Run]:
    settings = _resolve(grid, cell)
    text = canonical(settings)
    axes = {short_name(name): value for name, value in cell.items()}
    variant = variant_label(axes)
    for seed in grid.seeds:
        yield Run(settings, seed, variant, axes, seeded_identity(text, seed))


def _resolve(grid: Grid, cell: Mapping[str, Any]) -> Settings:
    """Return the grid's settings with a cell's values; these were validated when the grid was."""
    updates: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for dotted, value in cell.items():
        section, name = dotted.split(".")
        updates[section][name] = value
    # The two say the same thing, so that the axis replaces the other's default.
    if "steps" in updates["training"]:
        updates["training"]["epochs"] = None
    return Settings.model_construct(**{name: _updated(getattr(grid, name), update) for name, update in updates.items()})


def _updated(section: Any, update: Mapping[str, Any]) -> Any:
    return section.model_copy(update=update) if update else section


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
