"""A sweep from grid to results: the only place that knows plan, devices, store and checkpoints together."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import xarray as xr

from geocont_jax.analysis.summary import summarise, write_summary
from geocont_jax.engine.checkpoint import CheckpointFolder
from geocont_jax.engine.compiled import CompiledProgram, compile_program
from geocont_jax.engine.environment import describe_backend, limit_blas_threads, provenance
from geocont_jax.engine.flight import Flight, Stopped, StopRequest
from geocont_jax.engine.forecast import Forecast, forecast
from geocont_jax.engine.host_memory import give_back_freed
from geocont_jax.engine.layout import Layout
from geocont_jax.engine.store import (
    PENDING,
    RecordStore,
    Row,
    Variable,
    load_results,
    open_store,
    select_runs,
)
from geocont_jax.engine.tasks import Task, make_tasks
from geocont_jax.engine.watchdog import Watchdog
from geocont_jax.experiment.grid import MAX_CELLS, Run, expand
from geocont_jax.experiment.identity import grid_hash
from geocont_jax.experiment.reader import load_grid
from geocont_jax.experiment.settings import Grid, settings_by_name
from geocont_jax.experiment.spec import to_yaml
from geocont_jax.files import held, write_whole
from geocont_jax.progress import Reporter, duration
from geocont_jax.training.measure import Field, fields_of

GridSource = str | Path | Mapping[str, Any] | Grid

CHECKPOINT_SECONDS = 60.0
STALL_SECONDS = {"cpu": 60.0}
DEFAULT_STALL_SECONDS = 1800.0
EXIT_CRASH = 1


def run_sweep(
    grid: GridSource,
    out: str | Path = "results",
    *,
    overrides: Sequence[str] = (),
    max_cells: int = MAX_CELLS,
    fail_fast: bool = False,
    layout: Layout | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    reporter: Reporter | None = None,
) -> xr.Dataset:
    """Run what is missing of a grid and return the records of all of it.

    `grid` is a path, a dict or a loaded grid; the results go to a folder under `out` that its attribute
    `folder` names, and what is finished there is not run again. `layout` fixes how runs fill the machine (the
    engine chooses otherwise). The dataset has dims run, record, pair, layer; see docs/architecture.md.

    Raises InputError for a wrong grid, data set or folder, KeyboardInterrupt after saving.

    >>> from geocont_jax import run_sweep
    >>> records = run_sweep("sweeps/quickstart.yaml")  # doctest: +SKIP
    >>> records.weight_v1_cosine.mean("pair")  # doctest: +SKIP
    """
    reporter = reporter or Reporter()
    loaded, runs, tasks = _plan(grid, overrides, max_cells, layout, reporter)
    reporter.say(describe_plan(loaded, runs, tasks))
    folder = Path(out) / f"{loaded.name}-{grid_hash(loaded)}"
    with held(folder):
        write_whole(folder / "spec.yaml", to_yaml(loaded))
        store = open_store(
            folder,
            _rows(tasks),
            list(runs[0].axes),
            _variables(tasks),
            {"name": loaded.name, "description": loaded.description, **_attrs(loaded)},
        )
        try:
            _run_missing(folder, store, tasks, reporter, fail_fast, checkpoint_seconds)
        finally:
            dataset = _conclude(folder, runs)
    return dataset


def plan_sweep(
    grid: GridSource, *, overrides: Sequence[str] = (), max_cells: int = MAX_CELLS,
    layout: Layout | None = None, reporter: Reporter | None = None,
) -> str:  # fmt: skip
    """Return the plan of a grid: programs, runs, memory and time, found by compiling it. Writes nothing."""
    reporter = reporter or Reporter()
    loaded, runs, tasks = _plan(grid, overrides, max_cells, layout, reporter)
    lines = [describe_plan(loaded, runs, tasks)]
    total = 0.0
    for task in tasks:
        found = _prepare(task, reporter)[1]
        total += found.task_seconds(task, len(task.runs))
        lines.append(describe_forecast(task, found, len(task.runs), CHECKPOINT_SECONDS))
    return "\n".join([*lines, f"about {duration(total)} in all; nothing was written"])


def _plan(
    grid: GridSource, overrides: Sequence[str], max_cells: int, layout: Layout | None, reporter: Reporter
) -> tuple[Grid, tuple[Run, ...], list[Task]]:
    limit_blas_threads()
    reporter.say(f"geocont_jax on {describe_backend()}")
    loaded = load_grid(grid, overrides)
    runs = expand(loaded, max_cells)
    tasks = make_tasks(runs, layout)
    return loaded, runs, tasks


def describe_plan(grid: Grid, runs: Sequence[Run], tasks: Sequence[Task]) -> str:
    """Return the line that says what will be run."""
    seeds = ", ".join(str(seed) for seed in list(dict.fromkeys(run.seed for run in runs))[:8])
    variants = len(dict.fromkeys(run.variant for run in runs))
    more = ", ..." if len({run.seed for run in runs}) > 8 else ""
    steps = sum(task.program.record_steps[-1] * len(task.runs) for task in tasks)
    plural = "s" * (len(tasks) > 1)
    return (
        f"{grid.name}: {len(tasks)} program{plural} x {len(runs)} runs "
        f"({variants} variants, seeds {seeds}{more}), {steps:,} run-steps, data {tasks[0].program.settings.data.name}"
    )


def describe_forecast(task: Task, found: Forecast, num_runs: int, checkpoint_seconds: float) -> str:
    """Return the line that says what a task will take, and in which layout."""
    layout, program = task.layout, task.program
    whose = "in all" if jax.default_backend() == "cpu" else "a device"
    how = "" if program.settings.measure.finds_spectra else f" (leading vectors by {program.solver})"
    memory = found.memory_bytes(task, num_runs, checkpoint_seconds)
    return (
        f"program {task.label}: {layout.devices} device{'s' * (layout.devices > 1)} x {layout.turns} in turn x "
        f"{layout.lanes} abreast; {memory / 2**20:.0f} MiB {whose}; "
        f"{1e3 * found.step_seconds:.1f} ms a step, {1e3 * found.record_seconds:.0f} ms a record{how}; "
        f"about {duration(found.task_seconds(task, num_runs))} for {num_runs} runs"
    )


def _run_missing(
    folder: Path, store: RecordStore, tasks: Sequence[Task], reporter: Reporter, fail_fast: bool, every: float
) -> None:
    status = load_results(folder)
    unfinished = set(status["identity"].values[status["status"].values == PENDING].tolist())
    missing = [[run for run in task.runs if run.identity in unfinished] for task in tasks]
    num_missing, num_runs = sum(map(len, missing)), sum(len(task.runs) for task in tasks)
    if num_missing < num_runs:
        reporter.say(f"{folder}: {num_runs - num_missing} of {num_runs} runs are finished already")
    if not num_missing:
        return
    run_steps = (task.program.record_steps[-1] * len(runs) for task, runs in zip(tasks, missing, strict=True))
    reporter.start(sum(run_steps), "run-steps")
    checkpoints = CheckpointFolder(folder / "checkpoints")
    try:
        with StopRequest() as stop, _watchdog(folder, reporter) as watchdog:
            flight = Flight(store, checkpoints, reporter, watchdog, stop, fail_fast, every)
            for task, runs in zip(tasks, missing, strict=True):
                if runs:
                    _run_task(task, runs, flight, folder, reporter)
        checkpoints.clear()
    except Stopped as stopped:
        reporter.say(f"{folder}: stopped, {stopped}; the same command goes on from here")
        if stopped.interrupted:
            raise KeyboardInterrupt from None
    finally:
        reporter.stop()
        checkpoints.close()


def _run_task(task: Task, runs: Sequence[Run], flight: Flight, folder: Path, reporter: Reporter) -> None:
    """Run a task's missing runs; where they do not fit the memory, halve what goes side by side and go on."""
    while True:
        try:
            compiled, found = _prepare(task, reporter)
            reporter.say(describe_forecast(task, found, len(runs), flight.checkpoint_seconds))
            _add_session(folder, task, found, found.memory_bytes(task, len(runs), flight.checkpoint_seconds))
            flight.run(task, runs, compiled, compiled.replicate(task.data))
            return
        except jax.errors.JaxRuntimeError as error:
            smaller = task.layout.halved()
            if "RESOURCE_EXHAUSTED" not in str(error) or smaller is None:
                raise
            reporter.warn(f"out of memory with {task.layout}; going on with {smaller}")
            task = Task(task.program, task.runs, task.data, smaller)
            runs = [run for run in runs if run.identity not in flight.finished]


def _prepare(task: Task, reporter: Reporter) -> tuple[CompiledProgram, Forecast]:
    reporter.say(f"compiling program {task.label} ...")
    began = time.perf_counter()
    compiled = compile_program(task.program, task.layout, task.data)
    give_back_freed()
    reporter.say(f"compiled in {duration(time.perf_counter() - began)}")
    return compiled, forecast(task, compiled)


def _watchdog(folder: Path, reporter: Reporter) -> Watchdog:
    backend = jax.default_backend()

    def stalled(seconds: float) -> None:
        reporter.warn(
            f"{folder}: a device has not answered for {seconds:.0f} s and does no work; giving up. "
            "What was saved is safe: the same command goes on from there"
        )
        # The thread that waits inside the device call can be neither woken nor joined.
        os._exit(EXIT_CRASH)

    return Watchdog(stalled, STALL_SECONDS.get(backend, DEFAULT_STALL_SECONDS), watch_processor=backend == "cpu")


def _conclude(folder: Path, runs: Sequence[Run]) -> xr.Dataset:
    """Write the summary of what is there and return the grid's records."""
    dataset = select_runs(load_results(folder), [run.identity for run in runs])
    dataset.attrs["folder"] = str(folder)
    write_summary(summarise(dataset), folder / "summary.csv")
    return dataset


def _rows(tasks: Sequence[Task]) -> list[Row]:
    return [
        Row(
            run.identity,
            run.seed,
            settings_by_name(run.settings),
            task.program.record_steps,
            task.program.steps_per_epoch,
        )
        for task in tasks
        for run in task.runs
    ]


def _variables(tasks: Sequence[Task]) -> dict[str, Variable]:
    """Return the store's variables: axes as long as the deepest net needs, chance level by dimension."""
    programs = [task.program for task in tasks]
    depth = max(program.settings.model.depth for program in programs)
    sizes = {
        "record": max(len(program.record_steps) for program in programs),
        "pair": depth - 1,
        "layer": depth,
        "other_layer": depth,
    }
    widths = {program.settings.model.width for program in programs}
    # The dimension that chance depends on: one number, or the coordinate that holds it for each run.
    null_dimension: int | str = widths.pop() if len(widths) == 1 else "width"
    fields: dict[str, Field] = {}
    for section in dict.fromkeys(program.settings.measure for program in programs):
        fields |= fields_of(section)
    return {
        name: Variable(
            field.axes, tuple(sizes[axis] for axis in field.axes), field.dtype, _about(field, null_dimension)
        )
        for name, field in fields.items()
    }


def _about(field: Field, null_dimension: int | str) -> dict[str, Any]:
    about: dict[str, Any] = {"long_name": field.long_name}
    if field.null:
        about |= {"null": field.null, "null_dimension": null_dimension}
    return about | ({"null_k": field.k} if field.k else {})


def _attrs(grid: Grid) -> dict[str, Any]:
    return {"spec_hash": grid_hash(grid), "geocont_jax": provenance()["versions"]["geocont_jax"]}


def _add_session(folder: Path, task: Task, found: Forecast, memory_bytes: int) -> None:
    """Add to the manifest which machine, versions and layout make the records from now on."""
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text())
    except (OSError, ValueError):
        manifest = {"sessions": []}
    manifest["sessions"].append(
        provenance()
        | {
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "program": task.label,
            "layout": vars(task.layout),
            "solver": task.program.solver,
            "memory_bytes": memory_bytes,
            "step_seconds": round(found.step_seconds, 6),
            "record_seconds": round(found.record_seconds, 6),
        }
    )
    write_whole(path, json.dumps(manifest, indent=1, allow_nan=False) + "\n")
