"""From runs to programs: which examples are measured on, and how singular vectors are found."""

import numpy as np
import pytest

from geocont_jax.data.datasets import load_images
from geocont_jax.engine.forecast import Forecast
from geocont_jax.engine.layout import place_runs
from geocont_jax.engine.solver import quickest_solver
from geocont_jax.engine.tasks import MEMORY_SHARE, make_tasks, run_bytes, training_data
from geocont_jax.experiment.grid import expand
from geocont_jax.experiment.reader import load_grid
from geocont_jax.experiment.sections import MeasureSection

GRID = {"name": "g", "model": {"depth": 3, "width": 24}, "training": {"steps": 2}, "seeds": 1}


def test_examples_to_measure_on_are_spread_over_the_whole_set():
    images = load_images("mnist10k", None)
    data = training_data(images, MeasureSection(examples=90, test_examples=10))
    assert (len(data.x_eval), len(data.y_eval), len(data.x_test), len(data.y_test)) == (90, 90, 10, 10)
    np.testing.assert_array_equal(data.x_eval[1], images.x_train[100])
    np.testing.assert_array_equal(data.y_test[9], images.y_test[900])
    np.testing.assert_array_equal(data.x_train, images.x_train)


def test_as_many_examples_as_there_are_is_all_that_can_be_asked():
    images = load_images("mnist10k", None)
    data = training_data(images, MeasureSection(examples=10**6))
    assert len(data.x_eval) == len(images.x_train)
    assert len(data.x_test) == len(images.x_test)


@pytest.mark.parametrize(
    ("svd", "solvers"), [("exact", {"exact"}), ("fast", {"fast"}), ("auto", {"exact", "gram", "fast"})]
)
def test_the_solver_is_the_one_asked_for_or_one_that_was_tried(svd, solvers):
    task = make_tasks(expand(load_grid(GRID | {"measure": {"svd": svd}})))[0]
    assert task.program.solver in solvers


def test_the_quickest_solver_is_the_one_with_the_least_time(monkeypatch):
    seconds = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr("geocont_jax.engine.solver._seconds", lambda *arguments: next(seconds))
    assert quickest_solver.__wrapped__(4, 8, 8) == "gram"


def test_a_thousand_runs_are_streamed_within_the_memory_there_is(monkeypatch):
    paper = {"name": "g", "model": {"depth": 16, "width": 256}, "training": {"steps": 2}, "seeds": 1000}
    budget = 2**29
    monkeypatch.setattr("geocont_jax.engine.tasks.free_bytes", lambda: budget)
    (task,) = make_tasks(expand(load_grid(paper)))
    calls = place_runs(task.branches, task.layout)
    assert 1 < task.layout.capacity * run_bytes(task.program) <= MEMORY_SHARE * budget
    placed = np.concatenate(calls)
    np.testing.assert_array_equal(np.sort(placed[placed >= 0]), np.arange(1000))


def test_memory_counts_a_checkpoint_where_there_is_time_for_one():
    task = make_tasks(expand(load_grid(GRID)))[0]
    found = Forecast(step_seconds=10.0, record_seconds=0.0, working_bytes=100, checkpoint_bytes=7)
    assert found.task_seconds(task, 1) == 20.0
    assert found.memory_bytes(task, 1, checkpoint_seconds=60.0) == 100
    assert found.memory_bytes(task, 1, checkpoint_seconds=15.0) == 107
