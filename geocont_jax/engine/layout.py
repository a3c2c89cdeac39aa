"""How runs fill the machine: which go abreast, which in turn, which in a later call of the program.

A program takes `devices x turns x lanes` runs at a time, in this order on the run axis. Runs in the same block
(one device, one turn) go abreast under `vmap`; a CPU core wants one, an accelerator hundreds. The choice
changes speed and rounding, never a result beyond it.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

# More turns in one call save nothing (a call costs a millisecond) and make what a kill can lose larger.
MAX_TURNS = 8


@dataclass(frozen=True)
class Layout:
    """Sizes of the run axis of one call."""

    devices: int
    turns: int
    lanes: int

    @property
    def capacity(self) -> int:
        """How many runs one call takes."""
        return self.devices * self.turns * self.lanes

    def halved(self) -> "Layout | None":
        """Return the layout with half as many runs per device, None where one is left."""
        if self.turns > 1:
            return Layout(self.devices, self.turns // 2, self.lanes)
        return Layout(self.devices, 1, self.lanes // 2) if self.lanes > 1 else None


def choose_layout(branches: Sequence[Hashable], num_devices: int, max_lanes: int, max_runs_per_device: int) -> Layout:
    """Choose the layout for runs with these branches: at most so many abreast, and so many in memory at a time.

    Only runs that share their branches (activation, norm) stand in one block: then the branch is chosen by a
    scalar and costs no more than itself, where a mixed block would evaluate every branch for every run.

    >>> choose_layout(["relu"] * 20 + ["tanh"] * 16, num_devices=2, max_lanes=1, max_runs_per_device=100)
    Layout(devices=2, turns=6, lanes=1)
    """
    sizes = [len(rows) for rows in _rows_by_branch(branches).values()]
    per_device = ceil(max(sizes) / num_devices)
    lanes = max(1, min(max_lanes, per_device, max_runs_per_device))
    blocks = sum(ceil(size / lanes) for size in sizes)
    devices = min(num_devices, blocks)
    blocks_per_device = ceil(blocks / devices)
    calls = ceil(blocks_per_device / max(1, min(MAX_TURNS, max_runs_per_device // lanes)))
    return Layout(devices, ceil(blocks_per_device / calls), lanes)


def place_runs(branches: Sequence[Hashable], layout: Layout) -> list[np.ndarray]:
    """Return, call by call, which run stands at each place of the run axis; -1 for an empty place.

    >>> place_runs(["relu", "relu", "tanh"], Layout(devices=2, turns=1, lanes=2))
    [array([ 0,  1,  2, -1])]
    """
    blocks = [
        rows[i : i + layout.lanes]
        for rows in _rows_by_branch(branches).values()
        for i in range(0, len(rows), layout.lanes)
    ]
    per_call = layout.devices * layout.turns
    return [_fill(blocks[i : i + per_call], layout) for i in range(0, len(blocks), per_call)]


def _rows_by_branch(branches: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    rows: dict[Hashable, list[int]] = defaultdict(list)
    for row, branch in enumerate(branches):
        rows[branch].append(row)
    return rows


def _fill(blocks: list[list[int]], layout: Layout) -> np.ndarray:
    places = np.full((layout.devices, layout.turns, layout.lanes), -1)
    for number, rows in enumerate(blocks):
        turn, device = divmod(number, layout.devices)
        places[device, turn, : len(rows)] = rows
    return places.reshape(-1)
