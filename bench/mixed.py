"""Mixed activations in one program, against the same number of runs with one of them."""

from collections.abc import Iterator

from bench.machine import limit_row
from bench.rows import Row
from bench.sweeps import ours, training_job, training_row
from bench.workload import Scale

GOAL = "<= 1.1"
SEEDS = 2


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the rate of each activation alone and of all together, and the time of the mix over the dearest's."""
    limit = limit_row(scale.matmul)
    gflops, names = limit.value or 1.0, list(scale.activations)
    runs = SEEDS * len(names)
    jobs = {"mixed": training_job(scale.network, runs, scale, gflops, seeds=SEEDS, grid=_axis(names))}
    jobs |= {name: training_job(scale.network, runs, scale, gflops, grid=_axis([name])) for name in names}
    found = zip(jobs, ours(list(jobs.values()), scale), strict=True)
    measured = [
        training_row("activations", {"activation": name, "runs": runs}, one, scale.network, gflops)
        for name, one in found
    ]
    yield from measured
    mixed, *single = [row.value for row in measured]
    if mixed and all(single):
        slowest = min(rate for rate in single if rate)
        yield Row("time of mixed activations over the dearest", {"runs": runs}, slowest / mixed, "x", goal=GOAL)


def _axis(names: list[str]) -> dict[str, dict[str, list[str]]]:
    return {"sweep": {"model.activation": names}}
