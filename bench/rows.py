"""Results as rows: one JSON line each in a file, and a table for people."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

HEADS = ("measurement", "of", "value", "spread", "also", "goal")


@dataclass(frozen=True)
class Row:
    """One measured number: `value` in `unit`, the smallest and largest of its repeats, and what else is known of it.

    `goal` is a comparison such as `>= 1.2`. Where nothing could be measured, `value` is None and `note` says why.
    """

    measurement: str
    parameters: Mapping[str, Any]
    value: float | None
    unit: str
    spread: tuple[float, float] | None = None
    also: Mapping[str, float] = field(default_factory=dict)
    goal: str = ""
    note: str = ""

    @property
    def meets_goal(self) -> bool | None:
        """Whether the goal is met; None where there is none or no value.

        >>> Row("training", {"against": "eager"}, 1.3, "x", goal=">= 1.2").meets_goal
        True
        """
        if not self.goal or self.value is None:
            return None
        comparison, number = self.goal.split()
        return self.value >= float(number) if comparison == ">=" else self.value <= float(number)


def of_repeats(measurement: str, parameters: Mapping[str, Any], values: Sequence[float], unit: str, **more: Any) -> Row:
    """Return the row of repeated measurements: their median and spread; where there is none, a row that says so.

    >>> of_repeats("training", {"runs": 2}, [3.0, 1.0, 2.0], "run-steps/s").spread
    (1.0, 3.0)
    """
    if not values:
        return Row(measurement, parameters, None, unit, note="too short to be timed")
    return Row(measurement, parameters, median(values), unit, (min(values), max(values)), **more)


def append(rows: Iterable[Row], about: Mapping[str, Any], path: Path) -> None:
    """Append a JSON line per row, each with what is known of the machine, versions and commit."""
    with path.open("a") as lines:
        lines.writelines(json.dumps(asdict(row) | dict(about), allow_nan=False) + "\n" for row in rows)


def latest(path: Path, scale: str) -> tuple[list[Row], list[dict[str, Any]]]:
    """Return the newest row of each number that was measured at this scale, in order, and where each comes from."""
    names = tuple(Row.__dataclass_fields__)
    found: dict[str, dict[str, Any]] = {}
    for one in map(json.loads, path.read_text().splitlines()):
        if one["scale"] == scale:
            key = json.dumps([one["measurement"], one["parameters"]])
            found.pop(key, None)
            found[key] = one
    rows = [Row(**{name: one[name] for name in names}) for one in found.values()]
    return rows, [{name: value for name, value in one.items() if name not in names} for one in found.values()]


def text_table(rows: Iterable[Row]) -> str:
    """Return the rows as a plain-text table."""
    lines = [HEADS, *map(_cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def markdown_table(rows: Iterable[Row]) -> str:
    """Return the rows as a table for a document."""
    lines = [HEADS, ("---",) * len(HEADS), *map(_cells, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.measurement,
        ", ".join(f"{name} {value}" for name, value in row.parameters.items()),
        row.note or f"{_number(row.value)} {row.unit}".strip(),
        f"{_number(row.spread[0])} to {_number(row.spread[1])}" if row.spread else "",
        ", ".join(f"{_number(value)} {name}" for name, value in row.also.items()),
        f"{row.goal} {'met' if row.meets_goal else 'missed'}" if row.meets_goal is not None else row.goal,
    )


def _number(value: float | None) -> str:
    """Write a number with three digits, or all of its whole part."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
