"""Against the peers: training alone, and with continuity of four families every few steps; equal work on all sides."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import inf, sqrt
from statistics import fmean, median, variance
from typing import Any

from bench.machine import limit_row
from bench.process import Failed, together
from bench.rows import Row, of_repeats
from bench.sweeps import ours as sweeps_of
from bench.sweeps import training_job, work_of
from bench.workload import Scale

SVD_NAMES = ("exact", "fast")
TRAINING_GOALS = {"pytorch eager": ">= 1.2", "pytorch, a process a core": ">= 0.9"}
WORKLOAD_GOAL = ">= 2"
# Means of the same distribution differ by more than this once in some hundred comparisons.
MAX_STANDARD_ERRORS = 3
# What both sides say of a run at its last record: our name of it, and the peers'.
COMPARED = {"train_loss": "train_loss", "weight_v1_cosine": "weight_v1", "gradient_v1_cosine": "gradient_v1"}

Found = dict[str, Any]
"""What one side gave in one round: `training` and `workload` by name, in run-steps/s, and what is `COMPARED`."""


def rows(scale: Scale) -> Iterator[Row]:
    """Yield every side's rates, ours over each peer's, and how far their results differ."""
    limit = limit_row(scale.matmul)
    yield limit
    measures = _sides(scale, limit.value or 1.0)
    sides: dict[str, list[Found]] = {name: [] for name in measures}
    # Round by round, so that a machine whose speed drifts drifts for all.
    for _ in range(scale.rounds):
        for name in list(sides):
            try:
                sides[name].append(measures[name]())
            except Failed as error:
                del sides[name]
                yield Row("training alone", {"side": name}, None, "run-steps/s", note=f"did not run: {error}")
    yield from _rates(sides, scale, limit.value or 1.0)
    if "ours" in sides:
        mine = sides.pop("ours")
        yield from _ratios(mine, sides)
        for name, rounds in sides.items():
            yield from equal_work(name, mine[0], rounds[0])


def _sides(scale: Scale, gflops: float) -> dict[str, Callable[[], Found]]:
    cores = sorted(os.sched_getaffinity(0))
    seeds = list(range(scale.seeds))
    shares = [seeds[i :: len(cores)] for i in range(len(cores)) if seeds[i :: len(cores)]]
    one_each = [_asked(scale, share, core=core, threads=1) for core, share in zip(cores, shares, strict=False)]
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    whole = _asked(scale, seeds)
    return {
        "ours": lambda: _ours(scale, gflops),
        "pytorch eager": lambda: _peer("bench.torch_peer", [whole | {"kind": "eager"}]),
        "pytorch, a process a core": lambda: _peer(
            "bench.torch_peer", [asked | {"kind": "eager"} for asked in one_each], one_thread
        ),
        "pytorch compile": lambda: _peer("bench.torch_peer", [whole | {"kind": "compiled"}]),
        "pytorch func ensemble": lambda: _peer(
            "bench.torch_peer", [whole | {"kind": "ensemble", "abreast": len(seeds)}]
        ),
        "jax, jitted, run after run": lambda: _peer("bench.jax_peer", [whole]),
    }


def _asked(scale: Scale, seeds: Sequence[int], **more: Any) -> dict[str, Any]:
    timing = {name: getattr(scale, name) for name in ("call_seconds", "num_calls", "every", "num_intervals")}
    return {"network": asdict(scale.network), "seeds": list(seeds), "abreast": 1} | timing | more


def _peer(module: str, asked: Sequence[Mapping[str, Any]], environment: Mapping[str, str] | None = None) -> Found:
    answers = together(module, asked, environment)
    run_steps = sum(one["workload_run_steps"] for one in answers)
    return {
        "training": sum(median(one["call_rates"]) for one in answers),
        "workload": {"": run_steps / max(one["workload_seconds"] for one in answers)},
    } | {name: [value for one in answers for value in one[peer]] for name, peer in COMPARED.items()}


def _ours(scale: Scale, gflops: float) -> Found:
    alone = training_job(scale.network, scale.seeds, scale, gflops)
    grid = scale.network.grid(scale.steps, scale.every, scale.seeds)
    full = [{"grid": grid | {"measure": grid["measure"] | {"svd": svd}}} for svd in SVD_NAMES]
    trained, *measured = sweeps_of([alone, *full], scale)
    if not trained["call_rates"]:
        raise Failed("too short to be timed")
    workload = {f"svd {svd}": one["workload_rate"] for svd, one in zip(SVD_NAMES, measured, strict=True)}
    compared = {name: measured[0][name] for name in COMPARED}
    return {"training": median(trained["call_rates"]), "workload": workload} | compared


def _rates(sides: Mapping[str, Sequence[Found]], scale: Scale, gflops: float) -> Iterator[Row]:
    for name, rounds in sides.items():
        row = of_repeats("training alone", {"side": name}, [one["training"] for one in rounds], "run-steps/s")
        yield Row(**vars(row) | {"also": work_of(row.value or 0.0, scale.network, gflops)})
    for name, rounds in sides.items():
        for way in rounds[0]["workload"]:
            side = {"side": f"{name}, {way}" if way else name}
            yield of_repeats("with continuity", side, [one["workload"][way] for one in rounds], "run-steps/s")


def _ratios(ours: Sequence[Found], peers: Mapping[str, Sequence[Found]]) -> Iterator[Row]:
    """Yield ours over each peer's, of the same round each."""
    for name, rounds in peers.items():
        pairs = list(zip(ours, rounds, strict=True))
        values = [mine["training"] / theirs["training"] for mine, theirs in pairs]
        yield of_repeats("training, ours over", {"peer": name}, values, "x", goal=TRAINING_GOALS.get(name, ""))
        for way in ours[0]["workload"]:
            values = [mine["workload"][way] / theirs["workload"][""] for mine, theirs in pairs]
            over = {"peer": name, "ours": way}
            yield of_repeats("with continuity, ours over", over, values, "x", goal=WORKLOAD_GOAL)


def equal_work(peer: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Row]:
    """Yield, for what both sides say of their runs, the difference of the means over seeds in its standard errors."""
    for name in COMPARED:
        value = standard_errors_apart(mine[name], theirs[name])
        means = {"ours": fmean(mine[name]), "theirs": fmean(theirs[name])}
        over = {"peer": peer, "number": name}
        yield Row("equal work", over, value, "standard errors", None, means, f"<= {MAX_STANDARD_ERRORS}")


def standard_errors_apart(a: Sequence[float], b: Sequence[float]) -> float:
    """Return `|mean a - mean b| / sqrt(var a / n_a + var b / n_b)` (Welch).

    >>> standard_errors_apart([1.0, 3.0], [2.0, 6.0])
    0.8944271909999159
    """
    error = sqrt(variance(a) / len(a) + variance(b) / len(b))
    distance = abs(fmean(a) - fmean(b))
    return distance / error if error else (inf if distance else 0.0)
