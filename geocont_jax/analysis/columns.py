"""Tables in plain text: columns with their points in line, as many side by side as fit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 120
NO_VALUE = "-"


@dataclass(frozen=True)
class Column:
    """A column of the table: its head and a cell per variant."""

    head: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """Characters that the column takes."""
        return max(map(len, (self.head, *self.cells)))

    def lines(self) -> list[str]:
        """Return head and cells, equally long."""
        return [text.ljust(self.width) for text in (self.head, *self.cells)]


def text_table(labels: Sequence[Column], columns: Sequence[Column], width: int | None = WIDTH) -> str:
    """Return a table of a line per row, in blocks that fit `width` characters (None: one block).

    Each block begins with the labels.

    >>> print(text_table([Column("name", ("a", "b"))], [numbers("value", [0.5, math.nan], ".2f")]))
    name  value
    -----------
    a     0.50
    b        -
    """
    return "\n\n".join(_aligned(block) for block in _blocks(labels, columns, width))


def numbers(head: str, values: Sequence[float], form: str) -> Column:
    """Return numbers with their points in line."""
    cells = [number(value, form) for value in values]
    width = max(map(len, cells))
    return Column(head, tuple(cell.rjust(width) for cell in cells))


def number(value: float, form: str) -> str:
    """Return a number as text, `NO_VALUE` for NaN."""
    return NO_VALUE if math.isnan(value) else format(value, form)


def _blocks(labels: Sequence[Column], columns: Sequence[Column], width: int | None) -> list[list[Column]]:
    """Deal the columns out to blocks that fit the width, each with the labels and at least one column."""
    blocks = [[*labels]]
    for column in columns:
        needed = sum(other.width + 2 for other in blocks[-1]) + column.width
        if width is not None and needed > width and len(blocks[-1]) > len(labels):
            blocks.append([*labels])
        blocks[-1].append(column)
    return blocks


def _aligned(columns: Sequence[Column]) -> str:
    lines = ["  ".join(cells).rstrip() for cells in zip(*(column.lines() for column in columns), strict=True)]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
