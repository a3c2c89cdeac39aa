"""Training alone on our side: how many runs fill the machine, abreast (lanes) or one after another (turns)."""

from collections.abc import Iterator

from bench.machine import about, limit_row
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
    by_runs = [training_job(scale.network, runs, scale, gflops) for runs in _runs(scale)]
    by_lanes = [training_job(scale.network, scale.lane_runs, scale, gflops, lanes=lanes) for lanes in scale.lanes]
    jobs = [("training", job) for job in by_runs] + [("lanes", job) for job in by_lanes]
    measured = [
        training_row(name, {"runs": job["runs"]}, found, scale.network, gflops)
        for (name, job), found in zip(jobs, ours([job for _, job in jobs], scale), strict=True)
    ]
    yield from measured
    rates = {row.parameters["runs"]: row.value for row in measured[: len(by_runs)] if row.value}
    if rates:
        best = max(rates.values())
        bend = next(runs for runs, rate in rates.items() if rate >= BENT * best)
        yield Row("training bends at", {"share of the best": BENT}, bend, "runs")
        share = 100 * best * scale.network.gflop / gflops
        yield Row("training, share of the matmul limit", {}, share, "%", goal=f">= {SHARE_GOAL}")


def _runs(scale: Scale) -> tuple[int, ...]:
    # A process that asks JAX itself would hold the accelerator's memory while others measure.
    is_accelerated = set(about()["devices"]) != {"cpu"}
    return scale.runs + scale.accelerator_runs if is_accelerated else scale.runs
