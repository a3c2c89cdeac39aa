"""How times grow: a run-step with depth, width and batch; a sweep with runs and records; a plan with cells."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log
from typing import Any

from bench.machine import limit_row
from bench.rows import Row
from bench.sweeps import ours, training_job, training_row
from bench.workload import Network, Scale

# Between linear, which nothing may exceed, and quadratic.
EXPONENT_GOAL = "<= 1.3"
# The work of a layer is quadratic in its width.
WIDTH_GOAL = "<= 2.1"
PLAN_GOAL = "<= 30"
TINY = Network(depth=2, width=8, batch_size=8)
RUNS = 2


def rows(scale: Scale) -> Iterator[Row]:
    """Yield times by size, and the exponent of each growth between the smallest and the largest."""
    yield from _run_step(scale)
    yield from _sweep(scale)
    yield from _plan(scale)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return p of `seconds ~ size^p` between the first and the last.

    >>> exponent([10, 100], [1.0, 100.0])
    2.0
    """
    return log(seconds[-1] / seconds[0]) / log(sizes[-1] / sizes[0])


def _run_step(scale: Scale) -> Iterator[Row]:
    gflops = limit_row(scale.matmul).value or 1.0
    axes = {"depth": scale.depths, "width": scale.widths, "batch_size": scale.batches}
    cases = [(axis, size, replace(scale.network, **{axis: size})) for axis, sizes in axes.items() for size in sizes]
    found = ours([training_job(network, RUNS, scale, gflops) for _, _, network in cases], scale)
    seconds: dict[str, list[float]] = {axis: [] for axis in axes}
    for (axis, size, network), one in zip(cases, found, strict=True):
        row = training_row("rate of another size", {axis: size}, one, network, gflops)
        yield row
        seconds[axis] += [1 / row.value] if row.value else []
    for axis, sizes in axes.items():
        if len(seconds[axis]) == len(sizes):
            goal = WIDTH_GOAL if axis == "width" else EXPONENT_GOAL
            yield _growth("a run-step", axis, exponent(sizes, seconds[axis]), goal)


def _sweep(scale: Scale) -> Iterator[Row]:
    """Yield the growth of whole sweeps of a tiny network, where nothing but overhead grows."""
    by_runs = [{"grid": TINY.grid(2, 2, runs)} for runs in scale.many_runs]
    by_records = [{"grid": TINY.grid(records, 1, RUNS)} for records in scale.many_records]
    found = [one["seconds"] - one["compile_seconds"] for one in ours([*by_runs, *by_records], scale)]
    for name, sizes, seconds in (
        ("runs", scale.many_runs, found[: len(by_runs)]),
        ("records", scale.many_records, found[len(by_runs) :]),
    ):
        for size, time in zip(sizes, seconds, strict=True):
            yield Row("seconds of a tiny sweep", {name: size}, time, "s")
        yield _growth("a tiny sweep", name, exponent(sizes, seconds), EXPONENT_GOAL)


def _plan(scale: Scale) -> Iterator[Row]:
    smallest, *_ = scale.many_cells
    # The first one compiles.
    plans = [{"action": "plan", "grid": _cells(count)} for count in (smallest, *scale.many_cells)]
    seconds = [one["seconds"] for one in ours(plans, scale)][1:]
    for count, time in zip(scale.many_cells, seconds, strict=True):
        yield Row("seconds of a plan", {"cells": count}, time, "s", goal=PLAN_GOAL)
    yield _growth("a plan", "cells", exponent(scale.many_cells, seconds), EXPONENT_GOAL)


def _cells(count: int) -> dict[str, Any]:
    rates = [1e-3 * (1 + i / count) for i in range(count // 10)]
    return TINY.grid(2, 2, 10, sweep={"training.learning_rate": rates})


def _growth(what: str, by: str, power: float, goal: str) -> Row:
    return Row("exponent of growth", {"of": what, "with": by}, power, "", goal=goal)
