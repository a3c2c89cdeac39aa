"""From runs to programs: which examples are measured on, and how singular vectors are found."""

import numpy as np
import pytest

from geocont_jax.data.datasets import load_images
from geocont_jax.engine.solver import quickest_solver
from geocont_jax.engine.tasks import make_tasks, training_data
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
