"""The settings of a run, their static and traced halves, and the grid that stands for many of them."""

from functools import lru_cache
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from geocont_jax.experiment.axes import Cell, Seeds, SweepAxes, ZipAxes, check_exclude
from geocont_jax.experiment.problems import problem
from geocont_jax.experiment.scalars import Text
from geocont_jax.experiment.sections import (
    MARKERS,
    SECTIONS,
    DataSection,
    MeasureSection,
    ModelSection,
    ResidualMLPSection,
    Section,
    TrainingSection,
)

__all__ = [
    "BRANCHES",
    "TRACED",
    "Grid",
    "Settings",
    "settings_by_name",
    "static_half",
    "traced_half",
]

TRACED: tuple[str, ...] = tuple(MARKERS)
"""Short names of the traced settings: numbers that enter the program from outside."""

BRANCHES: tuple[str, ...] = tuple(name for name, marker in MARKERS.items() if marker.branch)
"""Short names of the traced settings that select code."""


class Settings(Section):
    """Everything that makes a run what it is, but for its seed."""

    model: ModelSection = ResidualMLPSection()
    """What is trained."""
    data: DataSection = DataSection()
    """What it learns from."""
    training: TrainingSection = TrainingSection()
    """How it learns."""
    measure: MeasureSection = MeasureSection()
    """When and how its geometry is measured."""


def static_half(settings: Settings) -> Settings:
    """Return the settings with None for every traced one: what makes the program, hashable.

    >>> static_half(Settings()).model.width, static_half(Settings()).model.init_scale
    (256, None)
    """
    return settings.model_copy(update={name: _static_section(getattr(settings, name)) for name in SECTIONS})


@lru_cache(maxsize=1024)
def _static_section(section: Section) -> Section:
    traced = [name for name in type(section).model_fields if name in MARKERS]
    return section.model_copy(update=dict.fromkeys(traced)) if traced else section


def traced_half(settings: Settings) -> dict[str, float | int]:
    """Return the traced settings as numbers, by short name.

    >>> half = traced_half(Settings())
    >>> half["residual"], half["activation"], half["learning_rate"]
    (1.0, 0, 0.001)
    """
    values = settings_by_name(settings)
    return {name: marker.encode(values[name]) for name, marker in MARKERS.items()}


def settings_by_name(settings: Settings) -> dict[str, Any]:
    """Return the settings that make a run what it is, by short name, ready for JSON.

    `data.dir` is left out: where files lie does not change a run.
    """
    values: dict[str, Any] = {}
    for section in SECTIONS:
        values |= getattr(settings, section).__dict__
    del values["dir"]
    return values


class Grid(Settings):
    """A grid file: the settings that all runs share, and how they differ. Read one with `load_grid`."""

    name: Annotated[
        str,
        Text(
            r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}",
            "write at most 80 letters, digits, dots, dashes and underscores, no dot or dash in front",
        ),
    ]
    """Names the folder of the results."""
    description: Annotated[str, Text()] = ""
    """The question that the grid asks."""
    sweep: SweepAxes = Field(default_factory=dict)
    """Axes by dotted name, each a list of values: all combinations are run."""
    zip: ZipAxes = Field(default_factory=dict)
    """Axes by dotted name that move together: equally long lists, read side by side."""
    exclude: tuple[Cell, ...] = ()
    """Combinations to leave out: each names axes and the values they have there."""
    seeds: Seeds = Field(default_factory=lambda: range(3))
    """A count, 3 for the seeds 0, 1, 2, or a list of values, [3, 7]."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_axes(self)
        check_exclude(self.sweep, self.zip, self.exclude)
        return self


def _check_axes(grid: Grid) -> None:
    for name in grid.zip:
        if name in grid.sweep:
            raise problem("is an axis of sweep as well; leave it in one of them", "zip", name)
    axes = grid.sweep | grid.zip
    for name, other in (("epochs", "steps"), ("steps", "epochs")):
        place = ("sweep" if f"training.{name}" in grid.sweep else "zip", f"training.{name}")
        if f"training.{name}" not in axes:
            continue
        if f"training.{other}" in axes:
            raise problem(f"training.{other} is an axis as well; keep one of them", *place)
        # A default gives way to the axis; what was written down does not.
        if other in grid.training.model_fields_set and getattr(grid.training, other) is not None:
            raise problem(f"training.{other} is given as well; leave it out", *place)
