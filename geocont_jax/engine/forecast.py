"""How much time and memory a task will take, found by compiling it and taking a few steps."""

import time
from dataclasses import dataclass

import jax
import numpy as np

from geocont_jax.engine.compiled import CompiledProgram, run_shapes
from geocont_jax.engine.tasks import Task, run_bytes
from geocont_jax.experiment.settings import traced_half
from geocont_jax.training.loss import TrainingData
from geocont_jax.training.program import encode_hypers
from geocont_jax.training.state import RunState

# The steps of a fresh state are slower at first (its memory is touched for the first time): time the later ones.
FIRST_STEPS, TRIAL_STEPS = 4, 20


@dataclass(frozen=True)
class Forecast:
    """Seconds for one block (one device, one turn) to take a step and to make a record; bytes per device."""

    step_seconds: float
    record_seconds: float
    bytes_per_device: int

    def task_seconds(self, task: Task, num_runs: int) -> float:
        """Return about how long `num_runs` runs of the task take from step 0."""
        steps = task.program.record_steps
        blocks = num_runs / (task.layout.lanes * task.layout.devices)
        return blocks * (steps[-1] * self.step_seconds + len(steps) * self.record_seconds)


def forecast(task: Task, compiled: CompiledProgram, data: TrainingData) -> Forecast:
    """Time a record and a few steps of one block on each device, with throw-away states."""
    layout = task.layout
    traced = traced_half(task.runs[0].settings)
    hypers = compiled.place(encode_hypers([traced] * layout.capacity, [0] * layout.capacity))
    first_turn = np.arange(layout.capacity) % (layout.turns * layout.lanes) < layout.lanes

    def seconds(stop: int, is_record: bool) -> float:
        state = compiled.place(zero_state(task))
        began = time.perf_counter()
        jax.block_until_ready(compiled(hypers, state, first_turn, data, 0, stop, is_record))
        return time.perf_counter() - began

    record = seconds(0, True)
    bare, few = seconds(0, False), seconds(FIRST_STEPS, False)
    return Forecast(
        step_seconds=max(seconds(TRIAL_STEPS, False) - few, 0.0) / (TRIAL_STEPS - FIRST_STEPS),
        record_seconds=max(record - bare, 0.0),
        bytes_per_device=task_bytes(task, compiled, data),
    )


def zero_state(task: Task) -> RunState:
    """Return states of zeros for a whole call, on the host; at step 0 the program replaces them."""
    shapes = run_shapes(task.program, task.layout.capacity)[1]
    return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)


def task_bytes(task: Task, compiled: CompiledProgram, data: TrainingData) -> int:
    """Return the memory that a task takes on one device: states, data and the program's own work."""
    state_bytes = run_bytes(task.program) * task.layout.turns * task.layout.lanes
    return state_bytes + sum(x.nbytes for x in data) + compiled.temporary_bytes
