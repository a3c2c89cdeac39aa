"""How much time and memory a task will take, found by compiling it and taking a few steps."""

import time
from dataclasses import dataclass

import jax
import numpy as np

from geocont_jax.engine.compiled import CompiledProgram
from geocont_jax.engine.host_memory import peak_resident_bytes, resident_bytes
from geocont_jax.engine.tasks import Task, run_bytes
from geocont_jax.experiment.settings import traced_half
from geocont_jax.training.program import encode_hypers

# The steps of a fresh state are slower at first (its memory is touched for the first time): time the later ones.
FIRST_STEPS, TRIAL_STEPS = 4, 20
# Ours on the host, and two of the library that writes it: measured 2.6 at 8 and at 16 runs of the paper's network.
CHECKPOINT_COPIES = 3


@dataclass(frozen=True)
class Forecast:
    """Seconds for one block (one device, one turn) to take a step and to make a record; memory.

    `working_bytes` is the most that training takes, of a device or of this process where devices share the host's,
    `checkpoint_bytes` what writing a checkpoint adds to it.
    """

    step_seconds: float
    record_seconds: float
    working_bytes: int
    checkpoint_bytes: int

    def task_seconds(self, task: Task, num_runs: int) -> float:
        """Return about how long `num_runs` runs of the task take from step 0."""
        steps = task.program.record_steps
        blocks = num_runs / (task.layout.lanes * task.layout.devices)
        return blocks * (steps[-1] * self.step_seconds + len(steps) * self.record_seconds)

    def memory_bytes(self, task: Task, num_runs: int, checkpoint_seconds: float) -> int:
        """Return the most memory that the task takes, with a checkpoint if it lasts long enough for one."""
        is_long = self.task_seconds(task, num_runs) > checkpoint_seconds
        return self.working_bytes + self.checkpoint_bytes * is_long


def forecast(task: Task, compiled: CompiledProgram) -> Forecast:
    """Time a record and a few steps of one block on each device, with throw-away states."""
    working_bytes, checkpoint_bytes = _memory(task, compiled)
    layout, data = task.layout, compiled.replicate(task.data)
    traced = traced_half(task.runs[0].settings)
    hypers = compiled.place(encode_hypers([traced] * layout.capacity, [0] * layout.capacity))
    first_turn = np.arange(layout.capacity) % (layout.turns * layout.lanes) < layout.lanes

    def seconds(stop: int, is_record: bool) -> float:
        state = jax.block_until_ready(compiled.zeros())
        began = time.perf_counter()
        jax.block_until_ready(compiled(hypers, state, first_turn, data, 0, stop, is_record))
        return time.perf_counter() - began

    record = seconds(0, True)
    bare, few = seconds(0, False), seconds(FIRST_STEPS, False)
    return Forecast(
        step_seconds=max(seconds(TRIAL_STEPS, False) - few, 0.0) / (TRIAL_STEPS - FIRST_STEPS),
        record_seconds=max(record - bare, 0.0),
        working_bytes=working_bytes,
        checkpoint_bytes=checkpoint_bytes,
    )


def _memory(task: Task, compiled: CompiledProgram) -> tuple[int, int]:
    """Return the bytes that work takes, beside what the process holds now or held while compiling, and a checkpoint."""
    if jax.default_backend() != "cpu":
        return compiled.device_bytes, 0
    layout = task.layout
    states = layout.capacity * run_bytes(task.program)
    working = resident_bytes() + layout.devices * compiled.device_bytes
    return max(peak_resident_bytes(), working), CHECKPOINT_COPIES * states
