"""How much time and memory a task will take, found by compiling it and taking a few steps."""

import time
from dataclasses import dataclass

import jax
import numpy as np

from geocont_jax.engine.compiled import CompiledProgram
from geocont_jax.engine.tasks import Task
from geocont_jax.experiment.settings import traced_half
from geocont_jax.training.loss import TrainingData
from geocont_jax.training.program import encode_hypers

# The steps of a fresh state are slower at first (its memory is touched for the first time): time the later ones.
FIRST_STEPS, TRIAL_STEPS = 4, 20


@dataclass(frozen=True)
class Forecast:
    """Seconds for one block (one device, one turn) to take a step and to make a record; memory of a device or the host."""

    step_seconds: float
    record_seconds: float
    memory_bytes: int

    def task_seconds(self, task: Task, num_runs: int) -> float:
        """Return about how long `num_runs` runs of the task take from step 0."""
        steps = task.program.record_steps
        blocks = num_runs / (task.layout.lanes * task.layout.devices)
        return blocks * (steps[-1] * self.step_seconds + len(steps) * self.record_seconds)


def forecast(task: Task, compiled: CompiledProgram, data: TrainingData, program_bytes: int) -> Forecast:
    """Time a record and a few steps of one block on each device, with throw-away states."""
    layout = task.layout
    traced = traced_half(task.runs[0].settings)
    hypers = compiled.place(encode_hypers([traced] * layout.capacity, [0] * layout.capacity))
    first_turn = np.arange(layout.capacity) % (layout.turns * layout.lanes) < layout.lanes

    def seconds(stop: int, is_record: bool) -> float:
        state = compiled.zeros()
        began = time.perf_counter()
        jax.block_until_ready(compiled(hypers, state, first_turn, data, 0, stop, is_record))
        return time.perf_counter() - began

    record = seconds(0, True)
    bare, few = seconds(0, False), seconds(FIRST_STEPS, False)
    return Forecast(
        step_seconds=max(seconds(TRIAL_STEPS, False) - few, 0.0) / (TRIAL_STEPS - FIRST_STEPS),
        record_seconds=max(record - bare, 0.0),
        memory_bytes=task_bytes(task, compiled, program_bytes),
    )


def task_bytes(task: Task, compiled: CompiledProgram, program_bytes: int) -> int:
    """Return the memory that a task takes, `program_bytes` of it for the program: of a device, or of a shared host.

    CPU devices work in the host's memory, so there it is all of them, the host's own copy of the data and the program.
    """
    if jax.default_backend() != "cpu":
        return compiled.device_bytes
    data = sum(x.nbytes for x in task.data)
    return program_bytes + data + task.layout.devices * compiled.device_bytes
