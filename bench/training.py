"""Training alone on our side: how many runs fill the machine, abreast (lanes) or one after another (turns)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.machine import limit_row
from bench.rows import Row
from bench.sweeps import ours, training_job, training_row
from bench.workload import Scale

SHARE_GOAL = 65
# The curve bends where this share of its best rate is reached.
BENT = 0.95


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the matmul limit, the rate for every number of runs, and for every number of lanes."""
    limit = limit_row(scale.matmul)
    yield limit
    gflops = limit.value or 1.0

    def measure(measurement: str, jobs: Sequence[Mapping[str, Any]]) -> list[Row]:
        found = zip(jobs, ours(jobs, scale), strict=True)
        return [training_row(measurement, {"runs": job["runs"]}, one, scale.network, gflops) for job, one in found]

    curve = measure("training", [training_job(scale.network, runs, scale, gflops) for runs in _runs(scale)])
    yield from curve
    timed = [row for row in curve if row.value is not None]
    if timed:
        best = max(row.value or 0.0 for row in timed)
        bend = next(row for row in timed if (row.value or 0.0) >= BENT * best)
        yield Row("training bends at", {"share of the best": BENT}, bend.parameters["runs"], "runs")
        share = 100 * best * scale.network.gflop / gflops
        yield Row("training, share of the matmul limit", {}, share, "%", goal=f">= {SHARE_GOAL}")
    abreast = [training_job(scale.network, scale.lane_runs, scale, gflops, lanes=lanes) for lanes in scale.lanes]
    yield from measure("lanes", abreast)


def _runs(scale: Scale) -> tuple[int, ...]:
    import jax

    return scale.runs if jax.default_backend() == "cpu" else scale.runs + scale.accelerator_runs
