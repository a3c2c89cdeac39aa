"""What every peer does, whatever its library: train alone, then the workload of users, timed the same way."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Protocol

import numpy as np

from bench.process import answer, request, when_all_are_ready
from geocont_jax.data.datasets import load_images
from geocont_jax.engine.tasks import training_data
from geocont_jax.experiment.sections import MeasureSection

FIRST_STEPS = 5
FAMILIES = ("weight", "update", "gradient", "cumulative_gradient")


class Trainer(Protocol):
    """Runs that one peer trains at a time. Every method returns when its work is done."""

    def begin(self, seeds: Sequence[int]) -> None:
        """Start anew with these seeds."""

    def train(self, steps: int, with_history: bool) -> None:
        """Take so many steps; with history the raw gradients are summed up."""

    def measure(self) -> dict[str, np.ndarray]:
        """Return v1 and u1 continuity (run, pair) of the four families, by `FAMILY_v1`, and the train_loss (run,)."""


def examples() -> dict[str, np.ndarray]:
    """Return the data of the benchmark as a user prepares them: standardised float32 pixels, int64 labels.

    `x_eval`, `y_eval` are the examples on which our sweeps measure gradients and the training loss.
    """
    images = load_images("mnist10k")
    data = training_data(images, MeasureSection())
    pixels = {name: (getattr(data, name) / np.float32(255) - data.mean) / data.std for name in ("x_train", "x_eval")}
    labels = {name: getattr(data, name).astype(np.int64) for name in ("y_train", "y_eval")}
    return {name: values.astype(np.float32) for name, values in pixels.items()} | labels


def batches(order: Callable[[], Any], num_examples: int, batch_size: int) -> Iterator[Any]:
    """Yield the examples of batch after batch: whole batches of an epoch's `order`, then of the next one's."""
    while True:
        epoch = order()
        for first in range(0, num_examples - batch_size + 1, batch_size):
            yield epoch[first : first + batch_size]


def pin(core: int | None) -> None:
    """Keep this process on one core; call before a library starts its threads."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def perform(trainer: Trainer, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Time a trainer: rates of training alone, then the seconds and the findings of the workload."""
    groups = [asked["seeds"][i : i + asked["abreast"]] for i in range(0, len(asked["seeds"]), asked["abreast"])]
    trainer.begin(groups[0])
    trainer.train(FIRST_STEPS, with_history=True)
    trainer.train(FIRST_STEPS, with_history=False)
    steps = _steps_within(asked["call_seconds"], trainer)
    # What is compiled for a number of steps is compiled here.
    trainer.train(steps, with_history=False)
    trainer.train(asked["every"], with_history=True)
    when_all_are_ready()
    rates = [steps * len(groups[0]) / _seconds(trainer, steps) for _ in range(asked["num_calls"])]
    found, seconds = zip(*(_workload(trainer, group, asked) for group in groups), strict=True)
    return {
        "call_rates": rates,
        "workload_seconds": sum(seconds),
        "workload_run_steps": len(asked["seeds"]) * asked["every"] * asked["num_intervals"],
    } | {name: np.concatenate([one[name] for one in found]).tolist() for name in found[0]}


def serve(build: Callable[[Mapping[str, Any]], Trainer]) -> None:
    """Do what this process was asked for with the trainer that `build` makes."""
    asked = request()
    pin(asked.get("core"))
    answer(perform(build(asked), asked))


def _steps_within(seconds: float, trainer: Trainer) -> int:
    return max(1, ceil(seconds * FIRST_STEPS / _seconds(trainer, FIRST_STEPS)))


def _seconds(trainer: Trainer, steps: int) -> float:
    began = time.perf_counter()
    trainer.train(steps, with_history=False)
    return time.perf_counter() - began


def _workload(trainer: Trainer, seeds: Sequence[int], asked: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], float]:
    """Train these seeds with a record at every interval; return the means over pairs at the last one, and the seconds.

    The record at step 0 is not timed, on our side neither: it is the first call of what measures.
    """
    trainer.begin(seeds)
    found = trainer.measure()
    began = time.perf_counter()
    for _ in range(asked["num_intervals"]):
        trainer.train(asked["every"], with_history=True)
        found = trainer.measure()
    seconds = time.perf_counter() - began
    return {name: values.reshape(len(seeds), -1).mean(axis=1) for name, values in found.items()}, seconds
