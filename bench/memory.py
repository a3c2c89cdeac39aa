"""What the plan says of memory, against the peak of a sweep."""

from collections.abc import Iterator

from bench.rows import Row
from bench.sweeps import ours
from bench.workload import Scale

GOAL = "<= 20"
MIB = 2.0**20


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the peak and how far the plan is off, for each number of runs in a process of its own."""
    for runs in scale.memory_runs:
        (found,) = ours([{"grid": scale.network.grid(scale.every, scale.every, runs)}], scale)
        peak, planned = found["peak_bytes"], found["planned_bytes"]
        yield Row("memory, peak", {"runs": runs}, peak / MIB, "MiB", also={"MiB planned": planned / MIB})
        yield Row("memory, plan off by", {"runs": runs}, 100 * abs(planned / peak - 1), "%", goal=GOAL)
