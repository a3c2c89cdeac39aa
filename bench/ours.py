"""Our side: sweeps through `run_sweep`, as the command runs them, with a clock for a reporter.

A process of its own: `python -m bench.ours '{"call_seconds": 0.7, "jobs": [{"grid": {...}}]}'`. Of a job, `lanes` fixes
the layout (the engine chooses otherwise), `out` keeps the results, `stop_at_first_step` is a Ctrl-C after the first
steps.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.process import answer, request, when_all_are_ready
from geocont_jax.progress import Reporter

Mark = tuple[float, int]
"""A moment, and the run-steps done since the mark before it."""


class Stopwatch(Reporter):
    """A reporter that says nothing and notes when how much was done."""

    def __init__(self, stop_at_first_step: bool = False) -> None:
        super().__init__(quiet=True)
        self.marks: list[Mark] = []
        self.compiling_at = self.compiled_at = self.ended_at = 0.0
        self._stop = stop_at_first_step

    def say(self, line: str) -> None:
        """Note when the program was compiled."""
        if line.startswith("compiling"):
            self.compiling_at = time.time()
        if line.startswith("compiled in"):
            self.compiled_at = time.time()

    def start(self, total: int, unit: str) -> None:
        """Count nothing: the marks do."""

    def advance(self, number: int) -> None:
        """Note what is done."""
        self.marks.append((time.time(), number))
        if number and self._stop:
            self._stop = False
            signal.raise_signal(signal.SIGINT)

    def stop(self) -> None:
        """Note that the sweep is at its end, all records written."""
        self.ended_at = time.time()


def call_rates(marks: Sequence[Mark]) -> list[float]:
    """Return run-steps a second of the calls that did nothing but train.

    Of each stretch of calls between two marks without a step, the first call touches its memory for the first time and
    the last one ends in a record: both are left out.

    >>> call_rates([(0.0, 0), (5.0, 16), (6.0, 30), (7.0, 40), (9.0, 5), (9.0, 0)])
    [30.0, 40.0]
    """
    rates: list[float] = []
    stretch: list[float] = []
    for (before, _), (now, number) in pairwise(marks):
        if number:
            stretch.append(number / (now - before))
        else:
            rates += stretch[1:-1]
            stretch = []
    return rates


def first_step_after(marks: Sequence[Mark]) -> int:
    """Return the number of the last mark before the first steps."""
    return next(i for i, (_, number) in enumerate(marks) if number) - 1


def workload_rate(marks: Sequence[Mark], ended_at: float) -> float:
    """Return run-steps a second from the first steps to the end, with all that comes between: records, files.

    >>> workload_rate([(0.0, 0), (4.0, 0), (5.0, 16), (6.0, 14)], 7.0)
    10.0
    """
    began_at = marks[first_step_after(marks)][0]
    return sum(number for _, number in marks) / (ended_at - began_at)


@contextmanager
def clocked(owner: type, names: Sequence[str]) -> Iterator[dict[str, float]]:
    """Sum up the seconds that methods of a class take."""
    total = dict.fromkeys(names, 0.0)
    real = {name: getattr(owner, name) for name in names}

    def timed(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            result = real[name](*arguments, **options)
            total[name] += time.perf_counter() - began
            return result

        return call

    for name in names:
        setattr(owner, name, timed(name))
    try:
        yield total
    finally:
        for name in names:
            setattr(owner, name, real[name])


def sweep(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a job's sweep and return what was measured of it."""
    from geocont_jax.engine.store import RecordStore

    events = len(COMPILED)
    with TemporaryDirectory() as temporary, clocked(RecordStore, ("write", "finish")) as writing:
        out = job.get("out", temporary)
        watch = Stopwatch(job.get("stop_at_first_step", False))
        began = time.time()
        records = _run(job, out, watch)
        found = _times(watch, began) | _compilations(events) | _memory()
        found["writing_seconds"] = sum(writing.values())
        if records is not None:
            found |= _results(records) | _plan(Path(records.attrs["folder"]))
    return found


def _run(job: Mapping[str, Any], out: str, watch: Stopwatch) -> Any:
    from geocont_jax.engine.runner import run_sweep

    with suppress(KeyboardInterrupt):
        return run_sweep(job["grid"], out, layout=_layout(job), reporter=watch)
    return None


def _layout(job: Mapping[str, Any]) -> Any:
    import jax

    from geocont_jax.engine.layout import Layout

    if "lanes" not in job:
        return None
    devices = min(jax.device_count(), ceil(job["runs"] / job["lanes"]))
    return Layout(devices, ceil(job["runs"] / (devices * job["lanes"])), job["lanes"])


def _times(watch: Stopwatch, began: float) -> dict[str, Any]:
    marks = watch.marks
    first = first_step_after(marks)
    return {
        "seconds": time.time() - began,
        "compile_seconds": watch.compiled_at - watch.compiling_at,
        "compiled_at": watch.compiled_at,
        "first_steps_at": marks[first + 1][0],
        "training_seconds": watch.ended_at - marks[first][0],
        "workload_rate": workload_rate(marks, watch.ended_at),
        "call_rates": call_rates(marks),
    }


COMPILED: list[str] = []
"""What JAX said of compilations in this process."""


def _compilations(first: int) -> dict[str, int]:
    """Return how many computations were compiled, and how many of them came from the cache on disk."""
    said = COMPILED[first:]
    return {"compiled": said.count("compiled"), "from_cache": said.count("hit")}


def _listen() -> None:
    from jax import monitoring

    names = {"/jax/core/compile/backend_compile_duration": "compiled", "/jax/compilation_cache/cache_hits": "hit"}

    def note(event: str, **_: Any) -> None:
        if event in names:
            COMPILED.append(names[event])

    monitoring.register_event_duration_secs_listener(lambda event, duration_secs, **_: note(event))
    monitoring.register_event_listener(note)


def _memory() -> dict[str, int]:
    """Return the peak: of the device where it counts, else of the process."""
    import jax

    from geocont_jax.engine.host_memory import peak_resident_bytes

    stats = jax.devices()[0].memory_stats() or {}
    return {"peak_bytes": stats.get("peak_bytes_in_use", peak_resident_bytes())}


def _results(records: Any) -> dict[str, Any]:
    last = records.isel(record=-1)
    means = {name: _mean_over_pairs(last[name]) for name in ("weight_v1_cosine", "gradient_v1_cosine")}
    return {"train_loss": last.train_loss.values.tolist(), "ok": bool((records.status == "ok").all()), **means}


def _mean_over_pairs(variable: Any) -> list[float]:
    """Return the mean over pairs of each run."""
    return variable.mean("pair").values.tolist()


def _plan(folder: Path) -> dict[str, Any]:
    session = json.loads((folder / "manifest.json").read_text())["sessions"][-1]
    return {"layout": session["layout"], "planned_bytes": session["memory_bytes"]}


def plan(job: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds that a plan takes, as `--dry-run` makes it."""
    from geocont_jax.engine.runner import plan_sweep

    began = time.perf_counter()
    plan_sweep(job["grid"], max_cells=10**7, reporter=Reporter(quiet=True))
    return {"seconds": time.perf_counter() - began}


def read(job: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds that it takes to read a store, to print its table and to draw its figures."""
    from geocont_jax.analysis.figures import draw_figures
    from geocont_jax.analysis.table import format_table
    from geocont_jax.engine.store import load_results

    times = [time.perf_counter()]
    records = load_results(next(Path(job["out"]).iterdir()))
    times.append(time.perf_counter())
    format_table(records)
    times.append(time.perf_counter())
    draw_figures(records)
    times.append(time.perf_counter())
    return dict(zip(("read", "table", "figures"), (b - a for a, b in pairwise(times)), strict=True))


ACTIONS: dict[str, Callable[[Mapping[str, Any]], Any]] = {"sweep": sweep, "plan": plan, "read": read}


def main() -> None:
    """Do the jobs that this process was asked for, one after another."""
    asked = request()
    from geocont_jax.engine.environment import keep_compiled_programs, prepare_process

    keep_compiled_programs()
    prepare_process()
    from geocont_jax.engine import flight

    # Shorter calls than a sweep's give more timings in the same time; a call costs about a millisecond.
    flight.CALL_SECONDS = asked["call_seconds"]
    _listen()
    when_all_are_ready()
    answer([ACTIONS[job.get("action", "sweep")](job) for job in asked["jobs"]])


if __name__ == "__main__":
    main()
