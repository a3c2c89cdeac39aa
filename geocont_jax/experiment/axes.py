"""The part of a grid file that varies: `sweep`, `zip`, `exclude` and `seeds`."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    PlainValidator,
    TypeAdapter,
    WithJsonSchema,
    WrapValidator,
    with_config,
)
from typing_extensions import TypedDict

from geocont_jax.experiment.problems import problem
from geocont_jax.experiment.scalars import Int, Seed, show
from geocont_jax.experiment.sections import AXIS_NAMES, FIELDS

MAX_ITEMS_SEARCHED = 100_000


def number_key(value: Any) -> Any:
    """Return what two values share when the program cannot tell them apart: their float32."""
    return float(np.float32(value)) if isinstance(value, float) else value


def _refuse_repeats(values: tuple[Any, ...]) -> tuple[Any, ...]:
    first: dict[Any, int] = {}
    for i, value in enumerate(values):
        earlier = first.setdefault(number_key(value), i)
        if earlier != i:
            raise problem(f"the value {show(value)} is there already; leave one of them out", i)
    return values


def _in_file_order(raw: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Validate a mapping and return it in its own order: the order of axes is the order of runs."""
    checked = handler(raw)
    return {name: checked[name] for name in raw}


def _by_dotted_name(title: str, kind_of: Callable[[Any], Any]) -> Any:
    """Return the annotation for a mapping from dotted names to `kind_of` the setting's type."""
    types = {name: kind_of(Annotated[FIELDS[name].annotation, *FIELDS[name].metadata]) for name in AXIS_NAMES}
    mapping = with_config(ConfigDict(extra="forbid"))(TypedDict(title, types, total=False))  # type: ignore
    return GetPydanticSchema(lambda source, handler: handler(mapping))


def _distinct_values(setting: Any) -> Any:
    return Annotated[tuple[setting, ...], Field(min_length=1), AfterValidator(_refuse_repeats)]


def _values(setting: Any) -> Any:
    return Annotated[tuple[setting, ...], Field(min_length=1)]


def _check_rows(axes: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Refuse zipped axes of different lengths and repeated rows."""
    first = next(iter(axes), None)
    for name, values in axes.items():
        if first is not None and len(values) != len(axes[first]):
            raise problem(
                f"has {len(values)} values, but {first} has {len(axes[first])}; zipped axes move together, "
                "give all of them equally many",
                name,
            )
    rows: dict[Any, int] = {}
    for i, row in enumerate(zip_rows(axes)):
        if rows.setdefault(tuple(map(number_key, row)), i) != i:
            raise problem(
                f"items {rows[tuple(map(number_key, row))]} and {i} are the same in every axis; leave one out"
            )
    return axes


def zip_rows(axes: Mapping[str, Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return the rows of the zipped axes: one empty row where there are none."""
    return list(zip(*axes.values(), strict=True)) if axes else [()]


SweepAxes: TypeAlias = Annotated[
    dict[str, tuple[Any, ...]], _by_dotted_name("Sweep", _distinct_values), WrapValidator(_in_file_order)
]
ZipAxes: TypeAlias = Annotated[
    dict[str, tuple[Any, ...]],
    _by_dotted_name("Zip", _values),
    WrapValidator(_in_file_order),
    AfterValidator(_check_rows),
]
Cell: TypeAlias = Annotated[
    dict[str, Any], _by_dotted_name("Cell", lambda setting: setting), WrapValidator(_in_file_order)
]

_SEED_LIST = TypeAdapter(_distinct_values(Annotated[int, Seed()]))


def _parse_seeds(raw: Any) -> Sequence[int]:
    """Return the seeds: a count n stands for 0..n-1, a list for itself."""
    if isinstance(raw, range):
        raw = len(raw) if raw == range(len(raw)) else list(raw)
    if isinstance(raw, (list, tuple)):
        return _SEED_LIST.validate_python(raw)
    if isinstance(raw, dict):
        raise ValueError("a mapping where seeds belong; write a count such as 3, or a list of values such as [3, 7]")
    try:
        return range(Int(le=Seed().le + 1).parse(raw))
    except ValueError as error:
        raise ValueError(f"{error} (a count of seeds), or a list of values such as [3, 7]") from None


Seeds: TypeAlias = Annotated[
    Sequence[int],
    PlainValidator(_parse_seeds),
    WithJsonSchema(
        {
            "anyOf": [
                Int(le=Seed().le + 1).schema(),
                {"type": "array", "items": Seed().schema(), "minItems": 1, "uniqueItems": True},
            ]
        }
    ),
]


def check_exclude(
    sweep: Mapping[str, Sequence[Any]],
    zipped: Mapping[str, Sequence[Any]],
    exclude: Sequence[Mapping[str, Any]],
) -> None:
    """Refuse entries of `exclude` that match no cell, and entries that together match all of them."""
    for i, cell in enumerate(exclude):
        if not cell:
            raise problem("is empty; name the axis values of the cells to leave out", "exclude", i)
        for name, value in cell.items():
            axis = sweep.get(name, zipped.get(name))
            if axis is None:
                raise problem("is not an axis of this grid; name one of sweep or zip", "exclude", i, name)
            if value not in axis:
                raise problem(f"{show(value)} is not a value of this axis; write one that is", "exclude", i, name)
        if not any(_matches(cell, dict(zip(zipped, row, strict=True))) for row in zip_rows(zipped)):
            raise problem(
                "matches no cell; zipped axes take their values side by side, name those of one row",
                "exclude",
                i,
            )
    if exclude and _excludes_all(sweep, zipped, exclude):
        raise problem("leaves no cell of the grid; take an entry out", "exclude")


def is_excluded(values: Mapping[str, Any], exclude: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether an entry of `exclude` matches a cell given by its axis values."""
    return any(all(values[name] == value for name, value in cell.items()) for cell in exclude)


def _matches(cell: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Return whether nothing in `values` contradicts the cell."""
    return all(values[name] == value for name, value in cell.items() if name in values)


def _excludes_all(
    sweep: Mapping[str, Sequence[Any]],
    zipped: Mapping[str, Sequence[Any]],
    exclude: Sequence[Mapping[str, Any]],
) -> bool:
    # Only axes that are named matter, which keeps this quick in large grids; `expand` has the last word.
    named = {name: sweep[name] for name in sweep if any(name in cell for cell in exclude)}
    names = [*named, *zipped]
    cells = product(*named.values(), zip_rows(zipped))
    for number, (*values, row) in enumerate(cells):
        if number == MAX_ITEMS_SEARCHED or not is_excluded(dict(zip(names, (*values, *row), strict=True)), exclude):
            return False
    return True
