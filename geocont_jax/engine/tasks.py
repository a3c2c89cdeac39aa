"""From runs to programs with data and layout: what will be run, before anything is."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import jax
import numpy as np

from geocont_jax.data.datasets import ImageData, load_images
from geocont_jax.engine.compiled import run_shapes
from geocont_jax.engine.host_memory import free_bytes
from geocont_jax.engine.layout import Layout, choose_layout
from geocont_jax.engine.solver import quickest_solver
from geocont_jax.experiment.grid import Run
from geocont_jax.experiment.plan import group_runs
from geocont_jax.experiment.sections import MeasureSection
from geocont_jax.experiment.settings import BRANCHES, Settings, traced_half
from geocont_jax.training.families import families_of
from geocont_jax.training.loss import TrainingData
from geocont_jax.training.program import Program, Solver

# Layers that the compiler sees in a row. On a CPU a scan over layers costs a tenth of the speed; unrolling
# costs compile time, so deep nets keep a loop.
MAX_UNROLL = {"cpu": 32}
# A CPU core wants one run at a time (its weights stay in the cache); an accelerator has room for hundreds.
MAX_LANES = {"cpu": 1}
DEFAULT_MAX_LANES = 256
# Share of the free memory that states may take; the rest is for work, data and the copy being saved.
MEMORY_SHARE = 0.4


@dataclass(frozen=True)
class Task:
    """The runs of one program, their data on the host, and the layout that was chosen for them."""

    program: Program
    runs: tuple[Run, ...]
    data: TrainingData
    layout: Layout

    @property
    def label(self) -> str:
        """A name for the program that is the same in every process."""
        return sha256(self.program.settings.model_dump_json(exclude={"data": {"dir"}}).encode()).hexdigest()[:12]

    @property
    def branches(self) -> list[tuple[Any, ...]]:
        """Which code each run selects: (activation, norm)."""
        return [tuple(traced_half(run.settings)[name] for name in BRANCHES) for run in self.runs]


def make_tasks(runs: Sequence[Run], layout: Layout | None = None) -> list[Task]:
    """Group runs by program, load their data and choose a layout for each, unless one is given."""
    loaded: dict[tuple[str, str | None], ImageData] = {}
    return [_make_task(group.static, group.runs, loaded, layout) for group in group_runs(runs)]


def _make_task(
    static: Settings,
    runs: tuple[Run, ...],
    loaded: dict[tuple[str, str | None], ImageData],
    layout: Layout | None,
) -> Task:
    source = (static.data.name, static.data.dir)
    if source not in loaded:
        loaded[source] = load_images(*source)
    images = loaded[source]
    unroll = MAX_UNROLL.get(jax.default_backend(), 1)
    program = Program(static, len(images.x_train), images.num_features, images.num_classes, unroll, _solver(static))
    task = Task(program, runs, training_data(images, static.measure), layout or Layout(1, 1, 1))
    if layout is not None:
        return task
    chosen = choose_layout(task.branches, jax.device_count(), max_lanes(task), max_runs_per_device(program))
    return Task(program, runs, task.data, chosen)


def _solver(static: Settings) -> Solver:
    """Return how the singular vectors are found: `measure.svd`, or what is quickest here."""
    section = static.model
    if static.measure.svd in ("exact", "fast"):
        return static.measure.svd  # type: ignore[return-value]
    return quickest_solver(len(families_of(static.measure.families)) * section.depth, section.width, section.width)


def training_data(images: ImageData, section: MeasureSection) -> TrainingData:
    """Return what a program is given of a data set: pixels as stored, with the evaluation examples chosen."""
    chosen = _evenly_spaced(section.examples, len(images.x_train))
    tested = _evenly_spaced(section.test_examples or len(images.x_test), len(images.x_test))
    return TrainingData(
        x_train=images.x_train,
        y_train=images.y_train,
        x_eval=images.x_train[chosen],
        y_eval=images.y_train[chosen],
        x_test=images.x_test[tested],
        y_test=images.y_test[tested],
        mean=np.float32(images.mean),
        std=np.float32(images.std),
    )


def _evenly_spaced(wanted: int, available: int) -> np.ndarray:
    """Return which examples to take, through the whole set: one that is sorted by class still shows every class."""
    count = min(wanted, available)
    return np.arange(count) * available // count


def run_bytes(program: Program) -> int:
    """Return the size of one run's state in bytes."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(run_shapes(program, 1)[1]))


def max_lanes(task: Task) -> int:
    """Return how many runs may go abreast: what suits the processor and what the work of a record leaves room for."""
    room = MEMORY_SHARE * free_bytes_per_device() // record_bytes(task)
    return max(1, min(MAX_LANES.get(jax.default_backend(), DEFAULT_MAX_LANES), int(room)))


def record_bytes(task: Task) -> int:
    """Return about how much work space a record takes for one run, in bytes.

    The activations of the evaluation batch dominate: three arrays a layer are kept for the backward pass.
    """
    section, program = task.program.settings.model, task.program
    examples = max(len(task.data.x_eval), len(task.data.x_test))
    return 4 * (3 * len(task.data.x_eval) * section.width * section.depth + examples * program.num_features)


def max_runs_per_device(program: Program) -> int:
    """Return how many runs' states fit a device beside everything else."""
    return max(1, int(MEMORY_SHARE * free_bytes_per_device() // run_bytes(program)))


def free_bytes_per_device() -> float:
    """Return the memory that one device can still give; CPU devices share the host's."""
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return free_bytes() / jax.device_count()
