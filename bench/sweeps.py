"""What the subjects share: asking our side for sweeps, and the rate of its training."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from bench.process import fresh
from bench.rows import Row, of_repeats
from bench.workload import Network, Scale

# The first call of a sweep has 16 steps and is not timed; a program takes at most 16 runs on two cores at a time.
FIRST_CALL_STEPS = 16
RUNS_A_CALL = 16
# Where a network is so small that calls cost more than steps, its work says nothing of its rate.
MAX_RATE = 2_000.0


def ours(jobs: Sequence[Mapping[str, Any]], scale: Scale, environment: Mapping[str, str] | None = None) -> list[Any]:
    """Return what `bench.ours` measured of each job, all of them in one fresh process; raises Failed."""
    return fresh("bench.ours", {"call_seconds": scale.call_seconds, "jobs": list(jobs)}, environment)


def training_job(network: Network, runs: int, scale: Scale, gflops: float, **more: Any) -> dict[str, Any]:
    """Return the job of a sweep that is measured at its two ends only, long enough for a handful of timed calls.

    `gflops` is the machine's limit: half of it is expected. `more` are further keys of the job, or of its grid.
    """
    rate = min(0.5 * gflops / network.gflop, MAX_RATE)
    calls = scale.num_calls + 1  # the last one is not timed
    steps = FIRST_CALL_STEPS + ceil(calls * scale.call_seconds * rate / min(runs, RUNS_A_CALL))
    grid = network.grid(steps, steps, more.pop("seeds", runs), **more.pop("grid", {}))
    return {"grid": grid, "runs": runs} | more


def training_row(
    measurement: str, parameters: Mapping[str, Any], found: Mapping[str, Any], network: Network, gflops: float
) -> Row:
    """Return the row of a training's rate, with its GFLOP/s and its share of the limit."""
    layout = {name: found["layout"][name] for name in ("devices", "turns", "lanes")}
    row = of_repeats(measurement, {**parameters, **layout}, found["call_rates"], "run-steps/s")
    if row.value is None:
        return row
    return Row(**vars(row) | {"also": work_of(row.value, network, gflops)})


def work_of(rate: float, network: Network, gflops: float) -> dict[str, float]:
    """Return the work behind a rate of run-steps, in GFLOP/s and as a share of the matmul limit."""
    done = rate * network.gflop
    return {"GFLOP/s": done, "% of the limit": 100 * done / gflops}
