"""Runs in flight: calls of a compiled program, one after another, with records, checkpoints and a way to stop."""

import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

import jax
import numpy as np

from geocont_jax.engine.checkpoint import CheckpointFolder, Saved, take_rows
from geocont_jax.engine.compiled import CompiledProgram, run_shapes
from geocont_jax.engine.layout import place_runs
from geocont_jax.engine.store import RecordStore
from geocont_jax.engine.tasks import Task
from geocont_jax.engine.watchdog import Watchdog
from geocont_jax.experiment.grid import Run
from geocont_jax.experiment.settings import traced_half
from geocont_jax.progress import Reporter
from geocont_jax.training.loss import TrainingData
from geocont_jax.training.program import encode_hypers

# A call lasts about this long: progress, checkpoints and Ctrl-C wait for it.
CALL_SECONDS = 5.0
FIRST_CALL_STEPS = 16


class Stopped(Exception):
    """The sweep ends early, with everything saved."""

    def __init__(self, reason: str, interrupted: bool) -> None:
        super().__init__(reason)
        self.interrupted = interrupted


class StopRequest:
    """Turns the first Ctrl-C or SIGTERM into a request to save and stop; the second one stops at once."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


class Flight:
    """Runs tasks' runs call by call; `finished` holds the identities of the runs it has completed."""

    def __init__(
        self, store: RecordStore, checkpoints: CheckpointFolder, reporter: Reporter, watchdog: Watchdog,
        stop: StopRequest, fail_fast: bool, checkpoint_seconds: float,
    ) -> None:  # fmt: skip
        self.store, self.checkpoints, self.reporter, self.watchdog = store, checkpoints, reporter, watchdog
        self.checkpoint_seconds = checkpoint_seconds
        self.finished: set[str] = set()
        self.diverged = False
        self._stop, self._fail_fast = stop, fail_fast

    def stop_reason(self) -> Stopped | None:
        """Return why the sweep should end now, None where it should go on."""
        if self._stop.requested:
            return Stopped("interrupted", interrupted=True)
        if self._fail_fast and self.diverged:
            return Stopped("a run diverged and --fail-fast is set", interrupted=False)
        return None

    def run(self, task: Task, runs: Sequence[Run], compiled: CompiledProgram, data: TrainingData) -> None:
        """Run the given runs of a task to their end, those in the latest checkpoint first and from there."""
        saved = self.checkpoints.latest(lambda label, count: _template(task, label, count), self.reporter.warn)
        resumed = _still_missing(saved, runs)
        if saved is not None and resumed:
            self.reporter.say(f"resuming {len(resumed)} runs at step {saved.step:,}")
            self._run_from(task, resumed, compiled, data, saved)
        self._run_from(task, [run for run in runs if run.identity not in self.finished], compiled, data, None)

    def _run_from(
        self,
        task: Task,
        runs: Sequence[Run],
        compiled: CompiledProgram,
        data: TrainingData,
        saved: Saved | None,
    ) -> None:
        if not runs:
            return
        branch = {run.identity: key for run, key in zip(task.runs, task.branches, strict=True)}
        for places in place_runs([branch[run.identity] for run in runs], compiled.layout):
            if stop := self.stop_reason():
                raise stop
            _Call(self, task, runs, places, compiled, data).fly(saved)


class _Call:
    """One call's worth of runs, from where they are to their last record."""

    def __init__(
        self, flight: Flight, task: Task, runs: Sequence[Run], places: np.ndarray, compiled: CompiledProgram,
        data: TrainingData,
    ) -> None:  # fmt: skip
        self._flight, self._task, self._compiled, self._data = flight, task, compiled, data
        self._rows = np.flatnonzero(places >= 0)
        self._runs = [runs[i] for i in places[self._rows]]
        self._hypers = compiled.place(_place_hypers(runs, places, compiled.layout.lanes))
        self._active = places >= 0
        self._records: list[dict[str, np.ndarray]] = []
        self._first_unwritten = 0
        self._diverged_at = np.full(len(self._runs), -1)
        self._saved_at = time.monotonic()
        self._call_steps = FIRST_CALL_STEPS

    def fly(self, saved: Saved | None) -> None:
        """Advance to the last record, writing records and checkpoints on the way."""
        step, first = (0, 0) if saved is None else (saved.step, saved.num_records)
        self._first_unwritten = first
        state = self._initial_state(saved)
        self._flight.reporter.advance(step * len(self._runs))
        steps = self._task.program.record_steps
        for number in range(first, len(steps)):
            state = self._to_record(state, step, steps[number], number)
            step = steps[number]
            if step == steps[-1] or not self._active.any():
                break
            self._pause(state, step, number + 1)
        self._flight.reporter.advance((steps[-1] - step) * len(self._runs))
        self._finish()

    def _to_record(self, state: Any, step: int, target: int, number: int) -> Any:
        """Advance from `step` to record `number` at step `target`, with pauses where that takes long."""
        while step + self._call_steps < target:
            stop = step + self._call_steps
            state = self._advance(state, step, stop, is_record=False)
            step = stop
            self._pause(state, step, number)
        return self._advance(state, step, target, is_record=True)

    def _initial_state(self, saved: Saved | None) -> Any:
        if saved is None:
            return self._compiled.zeros()
        row = {identity: i for i, identity in enumerate(saved.identities)}
        chosen = take_rows(saved.state, [row[run.identity] for run in self._runs])

        def fill(part: np.ndarray) -> np.ndarray:
            whole = np.zeros((len(self._active), *part.shape[1:]), part.dtype)
            whole[self._rows] = part
            return whole

        self._note_diverged(np.asarray(chosen.diverged_at))
        return self._compiled.place(jax.tree.map(fill, chosen))

    def _advance(self, state: Any, start: int, stop: int, is_record: bool) -> Any:
        began = time.monotonic()
        self._flight.watchdog.call_begins()
        state, record = self._compiled(self._hypers, state, self._active, self._data, start, stop, is_record)
        alive = self._active[self._rows]
        self._note_diverged(np.asarray(state.diverged_at)[self._rows])
        self._flight.watchdog.call_ends()
        if is_record:
            self._records.append({name: _masked(np.asarray(x)[self._rows], alive) for name, x in record.items()})
        elif stop > start:
            rate = (stop - start) / max(time.monotonic() - began, 1e-6)
            self._call_steps = max(1, int(rate * CALL_SECONDS))
        self._flight.reporter.advance((stop - start) * len(self._runs))
        return state

    def _note_diverged(self, diverged_at: np.ndarray) -> None:
        for i in np.flatnonzero((diverged_at >= 0) & (self._diverged_at < 0)):
            run = self._runs[i]
            self._flight.reporter.warn(f"diverged at step {diverged_at[i]}: {run.variant}, seed {run.seed}")
            self._flight.diverged = True
        self._diverged_at = diverged_at
        self._active[self._rows] = diverged_at < 0

    def _pause(self, state: Any, step: int, number: int) -> None:
        """Save if it is time to, and stop if that was asked for."""
        stop = self._flight.stop_reason()
        if stop or time.monotonic() - self._saved_at >= self._flight.checkpoint_seconds:
            self._save(state, step, number)
        if stop:
            raise stop

    def _save(self, state: Any, step: int, number: int) -> None:
        """Write records first, then the checkpoint that counts on them."""
        self._write_records()
        host = jax.tree.map(lambda x: _host_rows(x, self._rows), state)
        identities = tuple(run.identity for run in self._runs)
        self._flight.checkpoints.save(Saved(identities, self._task.label, step, number, host))
        self._saved_at = time.monotonic()

    def _write_records(self) -> None:
        if not self._records:
            return
        stacked = {name: np.stack([record[name] for record in self._records], axis=1) for name in self._records[0]}
        identities = [run.identity for run in self._runs]
        self._flight.store.write(identities, self._first_unwritten, stacked)
        self._first_unwritten += len(self._records)
        self._records = []

    def _finish(self) -> None:
        self._write_records()
        identities = [run.identity for run in self._runs]
        self._flight.store.finish(identities, self._diverged_at.tolist())
        self._flight.finished.update(identities)


def _template(task: Task, label: str, count: int) -> Any | None:
    return run_shapes(task.program, count)[1] if label == task.label else None


def _still_missing(saved: Saved | None, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.identity in saved.identities] if saved is not None else []


def _place_hypers(runs: Sequence[Run], places: np.ndarray, lanes: int) -> dict[str, np.ndarray]:
    """Return the hyperparameters of each place; an empty place repeats the first run of its block."""
    block_first = places.reshape(-1, lanes)[:, :1]
    filled = np.where(places >= 0, places, np.broadcast_to(block_first, (len(block_first), lanes)).reshape(-1))
    chosen = [runs[max(i, 0)] for i in filled]
    return encode_hypers([traced_half(run.settings) for run in chosen], [run.seed for run in chosen])


def _host_rows(x: jax.Array, rows: np.ndarray) -> np.ndarray:
    """Return rows of an array that is shared out over devices, without the copy of all of it that JAX would keep."""
    shards = sorted(x.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])[rows]


def _masked(values: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Return a record's values with NaN for runs that the call skipped because they had diverged."""
    if not np.issubdtype(values.dtype, np.floating):
        return values
    return np.where(alive.reshape(-1, *[1] * (values.ndim - 1)), values, np.nan).astype(values.dtype)
